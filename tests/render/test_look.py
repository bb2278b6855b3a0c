"""How the report looks in a real browser: light and dark, wide and narrow, on paper; and what groups are called."""

import re
from importlib.resources import files

import pytest
from tests.browser import opened
from tests.people import audited, people
from tests.render.summaries import cross_fitted_audit, typed

from tiltlens._documents.document import group_name, labels, named
from tiltlens._formats import label
from tiltlens._render.page import write_report
from tiltlens.figures import _marks as figure

browser_only = pytest.mark.browser
STYLE = files("tiltlens._render").joinpath("pieces", "page.css").read_text(encoding="utf-8")
GROUND = "getComputedStyle(document.body).backgroundColor"
# Texts of the page and of its pictures, each with its colour and that of what lies below it; rims are no texts.
TEXTS = """() => [...document.querySelectorAll("main *, nav a")].filter((one) =>
    one.checkVisibility({ visibilityProperty: true }) && getComputedStyle(one).stroke === "none"
    && [...one.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim())
).map((one) => {
    const style = getComputedStyle(one), ground = (part) => getComputedStyle(part).backgroundColor;
    let below = one;
    while (below !== document.body && ground(below) === "rgba(0, 0, 0, 0)") below = below.parentElement;
    return [one.textContent.slice(0, 40), one.closest("svg") ? style.fill : style.color, ground(below)];
})"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("look") / "audit.html"
    audited(people(1200, 1), propensity="chance").report(path)
    return path


def luminance(colour):
    """Return the relative luminance of "rgb(r, g, b)", by WCAG 2."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def check_contrast(tab):
    found = tab.evaluate(TEXTS)
    assert len(found) > 300
    assert [one for one in found if contrast(one[1], one[2]) < 4.5] == []


@pytest.fixture(scope="module")
def dark(report, browser):
    with opened(browser, report, scheme="dark") as tab:
        yield tab


@pytest.fixture(scope="module")
def light(report, browser):
    with opened(browser, report) as tab:
        yield tab


@browser_only
def test_paper_is_light_and_everything_on_it_is_open(dark):
    dark.emulate_media(media="print")
    assert luminance(dark.evaluate(GROUND)) == pytest.approx(1.0)
    check_contrast(dark)
    dark.wait_for_function("!document.querySelector('details:not([open], .numbers)')")
    assert {part.is_visible() for part in dark.locator(".folded").all()} == {True}
    dark.emulate_media(media="screen")
    dark.wait_for_function("!document.querySelector('details[open]')")


def check_colours(tab, is_dark):
    for folder in tab.locator(".folder").all():
        folder.click()
    assert (luminance(tab.evaluate(GROUND)) < 0.1) == is_dark
    check_contrast(tab)


@browser_only
def test_every_text_stands_out_from_a_dark_ground(dark):
    check_colours(dark, is_dark=True)


def test_every_colour_of_the_figures_has_a_light_and_a_dark_one_on_the_page():
    for colour, variable in figure.VARIABLES.items():
        light, dark = re.findall(rf"{variable[4:-1]}: ([^;]+);", STYLE)
        assert light == colour.lower()
        assert dark != light


def test_colours_follow_the_page_but_data_do_not():
    spec = {
        "mark": {"color": figure.INK},
        "data": {"values": [{"feature": figure.INK}]},
        "range": [figure.RED, "other"],
    }
    found = figure.on_page(spec)
    assert found == {"mark": {"color": "var(--ink)"}, "data": spec["data"], "range": ["var(--red)", "other"]}


@browser_only
def test_contents_stay_beside_the_text_and_mark_what_is_read(light):
    main = light.locator("main").bounding_box()
    light.evaluate("document.getElementById('origin').scrollIntoView({behavior: 'instant'})")
    light.wait_for_selector('nav a[href="#origin"][aria-current="true"]')
    assert light.locator('nav a[aria-current="true"]').count() == 1
    contents = light.locator("nav").bounding_box()
    assert contents["y"] == pytest.approx(0, abs=1)
    assert contents["x"] + contents["width"] <= main["x"]


@browser_only
def test_every_text_stands_out_from_a_light_ground(light):
    check_colours(light, is_dark=False)


@browser_only
def test_contents_are_a_plain_list_above_the_text_on_a_phone(browser, report):
    with opened(browser, report, width=390) as tab:
        assert tab.locator("nav").evaluate("one => getComputedStyle(one).position") == "static"
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_value_that_says_nothing_is_shown_with_its_column():
    shown = {value: group_name("afam", value) for value in ("yes", "No", "1", "0.5", "True", "m", "<25", "25 to 45")}
    assert shown == {value: f"afam = {value}" for value in shown} | {"25 to 45": "25 to 45"}
    assert group_name("race", "African-American") == "African-American"
    assert group_name("sex & afam", "Female & yes") == "Female & afam = yes"
    assert group_name("a & b", "yes") == "a & b = yes"


def test_groups_have_one_name_in_sentences_tables_and_figures(tmp_path):
    audit = cross_fitted_audit()
    audit |= {"group": "afam", "reference": "no", "comparisons": {"yes": next(iter(audit["comparisons"].values()))}}
    c = audit["comparisons"]["yes"]
    c |= {"audited": "yes", "reference": "no"}
    c["contributions"][0]["direction"] = "A higher x is associated with a higher score and is more common among yes"
    found = named(typed(audit))
    assert list(found) == ["afam = yes"]
    assert found[0].by_feature[0].direction.endswith(" defendants (afam = yes)")
    write_report(typed(audit), tmp_path / "audit.html")
    text = (tmp_path / "audit.html").read_text(encoding="utf-8").replace("\u00a0", " ")  # of texts on one line
    assert "than defendants (afam = no)" in text
    assert "afam = yes (audited)" in text
    assert not re.search(
        r"\b(of|among|vs|than) (yes|no)\b(?! gap)", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    )


def test_long_names_keep_both_ends_and_look_alikes_are_numbered():
    one, other = ("household_income_" * 5 + end for end in ("2019", "2021"))
    assert label(one, 28).startswith("household_inc")
    assert label(one, 28).endswith("_2019")
    assert len(label(one, 28)) <= 28
    assert len(set(labels([one, other]))) == 2
    assert labels(["Income paid", "Income  paid"]) == ["Income paid", "Income  paid (2)"]
