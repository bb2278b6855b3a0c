"""The report in a real browser: offline, inert whatever the names, and with the numbers of the library."""

import json
import re
import signal
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tests.browser import opened
from tests.people import audited, people
from tests.render.summaries import cross_fitted_audit, many, typed

from tiltlens._cli import main
from tiltlens._pipeline import audit
from tiltlens._render.page import page, write_report
from tiltlens.errors import DataError

pytestmark = pytest.mark.browser

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror='window.hacked = 1'>",
    "\"><svg onload='window.hacked = 1'>",
    "{{ 7 * 7 }} ${window.hacked = 1} {% if %}",
    "🙂 \u202eright-to-left\u202c שלום",
    "__proto__",
    "x" * 10_000,
    "datum['a'] + \"quote\" \\ back.slash[0]",
]


@cache
def cross_fitted():
    stated = {"model": "credit 3.1", "group labels": "self-reported"}
    return audited(people(1200, 0), propensity="chance", provenance=stated)


@cache
def hostile():
    """Return an audit in which columns, values and groups are named to do harm."""
    random = np.random.default_rng(0)
    rows = 600
    group = np.array(HOSTILE[:3])[random.integers(0, 3, rows)]
    columns = {name: np.array(HOSTILE)[random.integers(0, len(HOSTILE), rows)] for name in HOSTILE}
    scores = random.random(rows)
    stated = {name[:200]: name[:200] for name in HOSTILE}
    membership = make_pipeline(OneHotEncoder(), LogisticRegression())  # of two groups; which model is not the matter
    return audit(pl.DataFrame(columns), group=group, scores=scores, propensity=membership, provenance=stated)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The pages of both audits, written once."""
    folder = tmp_path_factory.mktemp("report")
    for maker in (cross_fitted, hostile):
        maker().report(folder / f"{maker.__name__}.html")
    return folder


@pytest.fixture(scope="module")
def read(reports, browser):
    """The report in a tab that nobody touches: its tests look, and leave it as it is."""
    with opened(browser, reports / "cross_fitted.html") as tab:
        yield tab


@pytest.fixture(scope="module")
def dial(reports, browser):
    """The report in a tab whose tests turn the dial, each to where it looks."""
    with opened(browser, reports / "cross_fitted.html") as tab:
        yield tab


@pytest.fixture
def shown(reports, browser):
    """The report in a tab of the test's own."""
    with opened(browser, reports / "cross_fitted.html") as tab:
        yield tab


def unfold(tab, place=0):
    """Open the part for statisticians, where the dial is."""
    if tab.locator(f"#expert-{place}.open").count() == 0:
        tab.click(f"#expert-{place} > .folder")


def turn(tab, position):
    unfold(tab)
    tab.eval_on_selector(
        "input[type=range]", "(dial, at) => { dial.value = at; dial.dispatchEvent(new Event('input')) }", position
    )


def test_it_opens_from_disk_without_a_network_a_request_or_an_error(read):
    assert read.url.startswith("file:")
    assert read.seen == []
    assert read.locator(".drawing svg").count() == read.locator(".drawing").count() >= 9


def test_numbers_in_plain_words_and_tables_are_those_of_the_library(read):
    c = cross_fitted()["A"]
    gap = read.locator("table.estimates tbody tr").nth(0).locator("td[data-value]")
    assert float(gap.get_attribute("data-value")) == pytest.approx(c.gap.value, abs=1e-12)
    words = read.locator("#words").inner_text()
    answer = read.locator("h1").inner_text()
    assert f" {100 * c.gap.value:.1f} points (95% CI ".replace("-", "−") in answer.replace("\u00a0", " ")
    assert "Next steps" in words
    for row in c.contributions_full.to_dicts():
        text = read.locator("table.contributions tr", has_text=row["feature"]).first.inner_text()
        for part in (row["verdict"], row["reason"], f"{100 * row['alone']:.2f}", f"{100 * row['beyond_others']:.2f}"):
            assert part.replace("-", "−") in text.replace("-", "−")
    assert "credit 3.1" in read.locator("#origin").inner_text()
    assert cross_fitted().provenance.data_sha256 in read.locator("#origin").inner_text()


@cache
def weighted(position):
    """Return the audit whose weights are those of a position of the dial."""
    t = position / 20
    return audited(people(1200, 0), propensity="chance", input_weight=1 - t, output_weight=t)["A"]


DIALLED = """rows => Object.fromEntries(rows.map(row => [
    row.querySelector("th").innerText,
    [...["value", "low", "high"].map(end => Number(row.querySelector(`[data-${end}]`).dataset[end])),
     row.querySelector("td").innerText],
]))"""


def dialled(tab):
    """Return what the page shows of each feature at the position of the dial: share, low, high, and the text."""
    return tab.eval_on_selector_all(".dial-shares tbody tr", DIALLED)


def test_shares_on_the_dial_are_the_librarys_at_that_weight(dial):
    for position in (0, 7, 10, 20):
        turn(dial, position)
        found = dialled(dial)
        expected = {row["feature"]: row for row in weighted(position).contributions_full.to_dicts()}
        assert found.keys() == expected.keys()
        for feature, (*numbers, _) in found.items():
            share = [expected[feature][name] for name in ("share", "share_low", "share_high")]
            assert numbers == pytest.approx(share, abs=1e-6)


def test_every_position_of_the_dial_is_looked_up_in_the_summarys_table(dial):
    table = cross_fitted()["A"].correction.shares_along_tradeoff(21).to_dicts()
    for position in range(21):
        turn(dial, position)
        rows = {one["feature"]: one for one in table if one["position"] == pytest.approx(position / 20)}
        found = dialled(dial)
        assert list(found) == list(rows)
        for feature, (*numbers, _) in found.items():
            assert numbers == pytest.approx([rows[feature][name] for name in ("share", "low", "high")], abs=1e-9)


def test_the_dial_shows_what_the_table_says_whatever_it_says(browser, tmp_path):
    """The page makes no share: numbers that no estimator would give are shown as they are."""
    summary = cross_fitted().to_dict()
    c = summary["comparisons"]["A"]
    for one in c["correction"]["tradeoff_table"]:
        one |= {"share": 0.25, "low": 0.125, "high": 0.125 + one["position"] / 2}
        if one["feature"] == "city":
            one |= {"low": 0.0, "high": 1.0}
    write_report(typed(summary), tmp_path / "audit.html")
    with opened(browser, tmp_path / "audit.html") as tab:
        turn(tab, 4)
        for feature, (*numbers, text) in dialled(tab).items():
            assert (feature == "city") == (text == "not determined")
            assert numbers == ([0.25, 0.0, 1.0] if feature == "city" else [0.25, 0.125, 0.225])


def test_a_dial_without_a_table_of_shares_turns_the_correction_alone(browser, tmp_path):
    summary = cross_fitted().to_dict()
    summary["comparisons"]["A"]["correction"]["tradeoff_table"] = []
    write_report(typed(summary), tmp_path / "audit.html")
    with opened(browser, tmp_path / "audit.html") as tab:
        before = tab.evaluate("() => window.tiltlens.drawn('correction-0')")
        turn(tab, 20)
        assert tab.evaluate("() => window.tiltlens.drawn('correction-0')") != before
        assert tab.locator(".dial-shares").count() == 0
        assert "cannot be aligned" not in tab.locator("section.comparison").inner_text()
        assert tab.seen == []


def test_the_pages_script_has_no_statistics():
    script = files("tiltlens._render").joinpath("pieces", "page.js").read_text(encoding="utf-8")
    assert not re.search(r"Math\.(sqrt|exp|log|PI)|quantile\(|covariance|numerator|Fieller|\*\* 2", script)


def test_the_distribution_on_the_dial_is_that_of_the_correction_at_that_weight(dial):
    for position in (0, 7, 20):
        turn(dial, position)
        expected = weighted(position).bins().correction[position]
        found = dial.evaluate("() => window.tiltlens.drawn('correction-0')")
        for one, other in zip(found, expected, strict=True):
            assert one == pytest.approx(other, abs=1e-6)


def test_clicking_a_feature_shows_its_profile_which_follows_the_dial(dial):
    c = cross_fitted()["A"]
    turn(dial, 10)
    dial.click("button.feature >> text=city")
    panel = dial.locator(".profile")
    assert panel.is_visible()
    profile = {row["value"]: row for row in c.correction.profile("city").to_dicts()}
    rows = panel.locator("tbody tr").all()
    assert {row.locator("th").inner_text() for row in rows} == set(profile)
    for row in rows:
        expected = profile[row.locator("th").inner_text()]
        assert float(row.locator("[data-mean]").get_attribute("data-mean")) == pytest.approx(
            expected["correction"], abs=1e-6
        )
        assert f"{100 * expected['score']:.1f}%" in row.inner_text()
    before = panel.inner_text()
    turn(dial, 20)
    assert panel.inner_text() != before
    panel.locator("button.close").click()
    assert not panel.is_visible()


def test_it_can_be_used_by_keyboard(shown):
    shown.focus("#expert-0 > .folder")
    shown.keyboard.press("Enter")
    assert shown.get_attribute("#expert-0 > .folder", "aria-expanded") == "true"
    shown.focus("input[type=range]")
    before = shown.locator(".position").inner_text()
    shown.keyboard.press("ArrowRight")
    assert shown.locator(".position").inner_text() != before
    shown.locator("button.feature").first.focus()
    shown.keyboard.press("Enter")
    assert shown.locator(".profile").is_visible()
    assert shown.locator("button.feature[aria-pressed=true]").count() == 1


def test_a_screen_reader_finds_names_for_pictures_tables_and_controls(read):
    assert min(len(picture.get_attribute("aria-label")) for picture in read.locator(".drawing").all()) > 30
    assert read.locator("table:not(:has(th[scope=col]))").count() == 0
    assert read.evaluate("document.querySelector('input[type=range]').labels.length") == 1
    levels = read.eval_on_selector_all("h1, h2, h3, h4", "found => found.map(one => Number(one.tagName[1]))")
    assert (levels[0], set(levels) >= {1, 2, 3}) == (1, True)
    assert all(after <= before + 1 for before, after in pairwise(levels))


class Landmarks(HTMLParser):
    """The landmarks of a page: their elements, and the label, or the id of the heading, that names each."""

    def __init__(self, html):
        super().__init__()
        self.found, self.texts, self.inside = [], {}, None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("header", "nav", "main", "section"):
            self.found.append((tag, given.get("aria-label") or given.get("aria-labelledby")))
        if tag in ("h1", "h2", "h3"):
            self.inside = given.get("id")

    def handle_endtag(self, tag):
        self.inside = None if tag in ("h1", "h2", "h3") else self.inside

    def handle_data(self, data):
        if self.inside:
            self.texts[self.inside] = self.texts.get(self.inside, "") + data

    def names(self):
        """Return the accessible name of each landmark that may occur several times."""
        return [self.texts.get(name, name) for tag, name in self.found if tag in ("nav", "section")]


@pytest.mark.parametrize("groups", [2, 4])
def test_landmarks_of_the_page_have_names_of_their_own(groups):
    """D17: seven regions of a page had one name."""
    rng = np.random.default_rng(0)
    table = {"g": rng.choice(list("abcd")[:groups], 400), "x": rng.normal(size=400), "s": rng.random(400)}
    landmarks = Landmarks(page(audit(table, "g", reference="a", scores="s", features=["x"])))
    names = landmarks.names()
    assert all(names)
    assert len(set(names)) == len(names) > groups
    assert [tag for tag, _ in landmarks.found].count("main") == 1


def test_screen_readers_meet_one_picture_per_figure(read):
    """D17: figures had 345 to 765 nodes of marks, each read aloud."""
    drawings = read.locator(".drawing")
    for drawing in drawings.all():
        assert drawing.get_attribute("role") == "img"
        assert len(drawing.get_attribute("aria-label")) > 40
    assert drawings.count() == read.locator(".drawing svg[aria-hidden=true]").count()
    assert read.locator("svg:not([aria-hidden=true])").count() == 0


def test_hostile_names_stay_text(browser, reports):
    with opened(browser, reports / "hostile.html") as tab:
        tab.click("#c0 > h2 > .folder")
        for button in tab.locator("section.comparison").first.locator("button.feature").all():
            button.click()
        turn(tab, 3)
        tab.hover("#features-0 svg")
        assert tab.evaluate("window.hacked") is None
        assert tab.evaluate("({}).value") is None
        assert tab.locator("img, iframe, object, embed, base").count() == 0
        assert tab.locator("script").count() == 3
        assert "<script>window.hacked = 1</script>" in tab.locator("#groups").inner_text()
        assert tab.seen == []


def test_the_browser_runs_no_other_script(shown):
    shown.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked = 1'}))")
    assert shown.evaluate("window.hacked") is None
    assert any("Content Security Policy" in text for text in shown.seen)


def test_it_prints_with_every_picture(shown):
    shown.emulate_media(media="print")
    assert not shown.locator("nav").is_visible()
    assert shown.locator(".drawing svg").count() == shown.locator(".drawing").count()
    assert not shown.locator(".slider, .folder, .cue, .numbers, .dial").locator("visible=true").count()
    assert shown.locator("#expert-0 .folded, #expert-0-body").first.is_visible()
    pdf = shown.pdf()
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 7


PRINTED = 695  # pixels of an A4 page between its margins
WIDER = """width => [...document.querySelectorAll('main *')].filter(one => !one.closest('svg')
    && one.checkVisibility({visibilityProperty: true}) && one.getBoundingClientRect().right > width + 1
    ).map(one => one.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("name", ["hostile", "cross_fitted"])
def test_nothing_is_wider_than_the_window_or_the_paper(browser, reports, name):
    with opened(browser, reports / f"{name}.html", width=390) as tab:
        for width in (390, 1440):
            tab.set_viewport_size({"width": width, "height": 900})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.emulate_media(media="print")
        tab.set_viewport_size({"width": PRINTED, "height": 1000})
        assert tab.evaluate(WIDER, PRINTED) == []
        assert tab.seen == []


OUTSIDE = """() => [...document.querySelectorAll("svg")].flatMap((svg) => {
    const box = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    const isCut = ({left, right, width}) => width && (left < box.left - 2 || right > box.right + 2);
    return box.width ? texts.filter(([_, own]) => isCut(own)).map(([text]) => text) : [];
})"""  # fmt: skip


@pytest.mark.parametrize("width", [390, 1440])
def test_no_text_of_a_figure_is_cut_at_its_edge(browser, reports, width):
    with opened(browser, reports / "cross_fitted.html", width=width) as tab:
        for folder in tab.locator(".folder").all():
            folder.click()
        assert tab.evaluate(OUTSIDE) == []


def test_what_is_cut_off_on_a_phone_says_that_it_scrolls(browser, reports):
    with opened(browser, reports / "cross_fitted.html", width=390) as tab:
        unfold(tab)
        tab.wait_for_timeout(200)
        cut = "one => one.scrollWidth > one.clientWidth + 1"
        for frame in tab.locator(".scroll, .frame").all():
            cue = frame.locator("xpath=following-sibling::p[1][contains(@class, 'cue')]")
            assert cue.is_visible() == (frame.is_visible() and frame.evaluate(cut))
        assert tab.locator(".contributions").first.evaluate(f"one => !({cut})(one.parentElement)")


def test_the_first_screen_has_the_answer(read):
    answer = read.locator("h1.answer")
    assert answer.bounding_box()["y"] < 300
    assert read.locator(".tile").count() == 3
    for part in (".tile >> nth=2", ".doubts", ".steps", "#waterfall-0"):
        assert read.locator(part).bounding_box()["y"] < 900
    rows = cross_fitted()["A"].rows
    assert f"{rows['audited']} and {rows['reference']} people" in read.locator(".doubts").inner_text()


def test_the_part_for_statisticians_is_folded_until_asked_for(shown):
    assert not shown.locator(".dial").is_visible()
    unfold(shown)
    assert shown.locator(".dial").is_visible()
    shown.click("#expert-0 > .folder")
    assert not shown.locator(".dial").is_visible()


def test_several_groups_are_one_table_and_folded_until_asked_for(browser, reports):
    with opened(browser, reports / "hostile.html") as tab:
        assert tab.locator("table.groups tbody tr").count() == 3
        assert tab.locator("table.matrix").bounding_box()["y"] < 900
        assert not tab.locator("table.contributions").locator("visible=true").count()
        tab.click('table.groups a[href="#c1"]')
        tab.locator("#c1 table.contributions").wait_for(state="visible", timeout=10_000)  # unfolds after the event


@pytest.mark.parametrize("name", ["hostile", "cross_fitted"])
def test_it_never_says_more_than_the_numbers_do(reports, name):
    written = (reports / f"{name}.html").read_text(encoding="utf-8")
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", written, flags=re.DOTALL)
    assert not re.search(r"\b(un)?fair|complian|minorit|majorit|guilty|illegal", text, re.IGNORECASE)


def test_plug_in_values_and_three_classes_have_a_report(browser, tmp_path):
    scores = np.random.default_rng(0).dirichlet([2, 3, 4], people().height)
    for name, options in {"plug-in": {"folds": None}, "classes": {"scores": scores, "favourable": "2"}}.items():
        audited(people(), propensity="chance", **options).report(tmp_path / f"{name}.html")
        with opened(browser, tmp_path / f"{name}.html") as tab:
            turn(tab, 4)
            assert tab.seen == []


def test_outputs_that_cannot_be_aligned_leave_no_dial(browser, tmp_path):
    data = people().with_columns(score=pl.when(pl.col("group") == "A").then(pl.col("score")).otherwise(0.0))
    audited(data, folds=None).report(tmp_path / "audit.html")
    with opened(browser, tmp_path / "audit.html") as tab:
        assert tab.locator("input[type=range]").count() == 0
        unfold(tab)
        assert "cannot be aligned" in tab.locator("section.comparison").inner_text()
        tab.locator("button.feature").first.click()
        assert tab.locator(".profile").is_visible()
        assert tab.seen == []


def test_small_cells_are_not_in_the_page():
    data = people().with_columns(
        city=pl.when(pl.int_range(pl.len()) < 4).then(pl.lit("Hamlet")).otherwise(pl.col("city"))
    )
    summary = json.loads(json.dumps(audited(data, folds=None).to_dict()))
    values = {v["value"]: v for v in summary["comparisons"]["A"]["bins"]["profiles"]["city"]["values"]}
    assert values["Hamlet"]["n"] is values["Hamlet"]["share_audited"] is values["Hamlet"]["score"] is None
    others = [v for name, v in values.items() if name != "Hamlet" and v["n"] is None]
    assert 1 <= len(others) <= 2, "more is withheld, so that the first cannot be had by subtraction"


def test_a_failed_write_leaves_the_old_report(tmp_path, monkeypatch):
    target = tmp_path / "audit.html"
    target.write_text("the old one")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match="No space left"):
        cross_fitted().report(target)
    assert target.read_text() == "the old one"
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]


def test_two_hundred_features_make_a_small_page():
    assert len(page(typed(cross_fitted_audit() | {"comparisons": {"many": many(200)}}))) < 3_000_000


def test_a_killed_run_leaves_the_old_report(tmp_path):
    target = tmp_path / "audit.html"
    target.write_text("the old one")
    cross_fitted().to_json(tmp_path / "audit.json")
    code = (
        "import os, signal, sys; import tiltlens as tl; from tiltlens._render.page import write_report; "
        "os.fsync = lambda *_: os.kill(os.getpid(), signal.SIGKILL); "
        "write_report(tl.read_audit(sys.argv[1]), sys.argv[2])"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "audit.json", target], check=False)
    assert done.returncode == -signal.SIGKILL
    assert target.read_text() == "the old one"


def test_the_command_line_writes_a_report(tmp_path):
    people().write_csv(tmp_path / "data.csv")
    options = ["--group", "group", "--scores", "score", "--propensity", "chance", "--provenance", "model=m <1>"]
    found = CliRunner().invoke(
        main, ["audit", str(tmp_path / "data.csv"), *options, "--report", str(tmp_path / "audit.html")]
    )
    assert found.exit_code == 0, found.output
    assert "m &lt;1&gt;" in (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "Wrote the report" in found.stderr


@pytest.mark.parametrize("target", ["missing-folder/audit.html", "."])
def test_a_report_that_cannot_be_written_is_the_users_mistake(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"cannot be written because the folder|must have a name"):
        cross_fitted().report(target)
    assert list(tmp_path.iterdir()) == []


def test_notebooks_show_results_as_escaped_html():
    shown = hostile()._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert f"{100 * cross_fitted()['A'].gap.value:.2f}".replace("-", "−") in cross_fitted()._repr_html_()


def test_plot_returns_a_figure_and_names_the_others(refused):
    c = cross_fitted()["A"]
    assert c.plot().title.startswith("Proxy map")
    assert c.plot("features").table["feature"].to_list() == c.contributions_full["feature"].to_list()
    assert "city" in c.plot("profile", "city").title
    assert len(c.plot("shares_along_tradeoff").table) > 0
    with refused(DataError, "'pie'"):
        c.plot("pie")
    with refused(DataError):
        c.plot("profile")
