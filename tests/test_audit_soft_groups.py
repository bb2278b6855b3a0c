"""Groups that are known by probabilities: `group={name: column}`."""

import json
import pickle
import re
from functools import cache

import jsonschema
import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from tests.command import invoked
from tests.people import assert_same_numbers, note_codes
from tests.schemas import SCHEMA, published, strict
from tests.wording import code_of

import tiltlens as tl
from tiltlens._documents import first_screen as words
from tiltlens._documents import repair_sentences as words_of_repairs
from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import brief_points, interval, points
from tiltlens._gates import gate
from tiltlens._notes import Note
from tiltlens._render.table_files import export_tables, texts
from tiltlens._repair.alternatives import AlternativesByGroup
from tiltlens._results.codec import to_plain
from tiltlens.errors import DataError

SOFT = {"a": "p a", "b": "p b"}
OPTIONS = {"group": SOFT, "reference": "b", "scores": "score"}
NOT_REPORTED = [("", name) for name in ("impact_ratio", "adverse_impact_ratio", "shortfall", "gap_test")]
NOT_REPORTED += [("outputs", "standardised_difference"), ("correction", "output_divergence")]
NOT_REPORTED += [("correction", "detection_sample_size")]


def names(rows=1500, confidence=1.0, labelled=0.5, seed=0):
    """Return people whose group a name tells with a chance; log-odds are `confidence` times too large."""
    rng = np.random.default_rng(seed)
    name = rng.standard_normal(rows)
    audited = rng.random(rows) < expit(2 * name - 0.5)
    x = rng.standard_normal(rows) + 0.8 * audited + 0.3 * name
    chance = expit(confidence * (2 * name - 0.5))
    truth = pl.Series(np.where(audited, "a", "b"))
    return pl.DataFrame(
        {
            "p a": chance,
            "p b": 1 - chance,
            "x": x,
            "owner": np.where(rng.random(rows) < 0.5, "yes", "no"),
            "score": expit(0.8 * x),
            "race": truth.set(pl.Series(rng.random(rows) >= labelled), None),
            "truth": truth,
        }
    )


def audited(table, **options):
    return tl.audit(table, **OPTIONS | {"exclude": ["truth"]} | options)


@cache
def of_names():
    """Return the audit that several tests look at."""
    return audited(names(), known_groups="race", features=["x", "owner"])


def test_probabilities_of_0_and_1_are_groups_that_are_known():
    table = names(600).with_columns(
        pl.when(pl.col("truth") == "a").then(1.0).otherwise(0.0).alias("p a"),
        pl.when(pl.col("truth") == "b").then(1.0).otherwise(0.0).alias("p b"),
    )
    soft = audited(table.drop("race"))["a"].to_dict() | {"unobserved_group": None}
    hard = tl.audit(table.drop("race", "p a", "p b"), group="truth", reference="b", scores="score")["a"].to_dict()
    notes = soft["checks"].pop("notes")
    assert notes == [*hard["checks"].pop("notes"), notes[-1]]
    for group, name in NOT_REPORTED:
        assert (soft[group] if group else soft).pop(name) is None
        (hard[group] if group else hard).pop(name)
    assert soft["gap_parts"].pop("sensitivity") == {}  # a factor that shifts a probability of groups has no bound
    hard["gap_parts"].pop("sensitivity")
    assert_same_numbers(soft, hard)


def test_a_repair_tells_both_estimates_and_what_they_do_not_show(tmp_path):
    table = names().with_columns(place=pl.col("p a").round(3))
    c = audited(table, known_groups="race", features=["x", "place"], folds=None)["a"]
    tilt = pickle.loads(pickle.dumps(c)).repair()
    before, after = tilt.soft["a"]
    for name in ("weighted", "linear", "bracket", "limits"):
        own, estimate = (getattr(gap, name) for gap in (before, after))
        assert own.to_dict() == pytest.approx(getattr(c.unobserved_group, name).to_dict())
        assert estimate is None or estimate.low <= estimate.high
    assert before.weighted.value == pytest.approx(tilt.gap_before)
    assert [after.weighted.value, after.linear.value] == pytest.approx([0.0, 0.0], abs=1e-9)
    repaired, mine = tilt.apply(table, "score"), (table["truth"] == "a").to_numpy()
    true = repaired[mine].mean() - repaired[~mine].mean()
    above = after.signs.above_weighted
    assert true > 0.03  # though both estimates say 0
    assert above.low < true < above.high
    assert after.limits.low < true < after.limits.high
    tilt.to_json(tmp_path / "repair.json")
    text = " ".join(str(tl.read_repair(tmp_path / "repair.json")).split())
    for part in ("Weighted gap in mean scores", "The linear estimate changes from", "gap on labelled rows is"):
        assert part in text
    several = audited(table, known_groups="race", features=["x", "place"], folds=None).repair()
    assert several.soft["a"].after.limits.to_dict() == pytest.approx(after.limits.to_dict(), abs=1e-6)


def test_alternatives_of_unobserved_groups_are_weighted_and_have_no_ratio(worded):
    rng = np.random.default_rng(0)
    table = names(400).with_columns(
        repaid=pl.Series(rng.integers(0, 2, 400)).set(pl.Series(rng.random(400) < 0.1), None)
    )
    c = audited(table.drop("race"), outcome="repaid", features="x", folds=None)["a"]
    found = c.alternatives(threshold=0.6)
    assert found.soft["model"].weighted.value == pytest.approx(found.gap.value)
    assert found.soft["alternative"].limits.low < found.soft["alternative"].linear.value
    assert found.rates["model"]["impact_ratio"] is None
    assert "weighted gap" in str(found)
    lines = words_of_repairs.verdict_words(found)
    worded(line for line in lines if "alternative" in line)
    jsonschema.validate(AlternativesByGroup({"a": found}).to_dict(), strict(published("alternatives")))


def test_the_gap_is_the_weighted_one_and_people_are_sums_of_chances():
    table = names()
    b, w = table["p a"].to_numpy(), table["score"].to_numpy()
    found = of_names()
    c = found["a"]
    assert c.gap.value == pytest.approx(b @ w / b.sum() - (1 - b) @ w / (1 - b).sum(), abs=1e-12)
    own = b / b.mean() * (w - c.outputs.means.audited) - (1 - b) / (1 - b).mean() * (w - c.outputs.means.reference)
    assert (c.gap.high - c.gap.low) / 2 / 1.959964 == pytest.approx(
        own.std() / np.sqrt(len(b)), rel=2e-3
    )  # Student's t
    assert c.rows == {"audited": round(b.sum()), "reference": round((1 - b).sum())}
    assert c.unobserved_group.linear.value == pytest.approx(np.cov(b, w)[0, 1] / b.var(ddof=1), abs=1e-12)
    assert found.rows["read"] == found.rows["used"] == len(b)


def test_calibrated_probabilities_bracket_the_gap():
    table = names()
    c = of_names()["a"]
    truth = table.filter(truth="a")["score"].mean() - table.filter(truth="b")["score"].mean()
    assert c.unobserved_group.status == "checked"
    assert c.unobserved_group.bracket.low < truth < c.unobserved_group.bracket.high
    assert not c.gap.low < truth < c.gap.high  # the weighted gap alone would mislead
    assert c.unobserved_group.limits.low < truth < c.unobserved_group.limits.high
    assert dict(c.contributions_full.select("feature", "verdict").iter_rows())["x"] == "potential proxy"


def test_over_confident_probabilities_are_not_judged():
    c = audited(names(confidence=2.0), known_groups="race")["a"]
    assert (c.unobserved_group.status, c.unobserved_group.bracket) == ("not judged", None)
    assert code_of(c.unobserved_group.reason) == "too extreme"
    assert set(c.contributions_full["verdict"]) == {"not assessed"}


def test_few_labelled_rows_show_nothing():
    c = audited(names(labelled=0.05), known_groups="race", features=[])["a"]
    assert c.unobserved_group.status == "not judged"
    assert code_of(c.unobserved_group.reason) == "calibration open"
    few = audited(names(labelled=0.005), known_groups="race", features=[])["a"].unobserved_group
    assert (few.reason, to_plain(few)["labelled"]) == (Note("few labels", minimum=10), None)


def test_without_labels_the_bracket_says_that_it_was_not_checked():
    found = audited(names().drop("race"), features=[])["a"].unobserved_group
    assert (found.status, found.calibration, found.labelled) == ("not checked", None, None)
    assert found.bracket.low < found.weighted.value < found.bracket.high


def test_of_three_groups_each_pair_is_compared_by_its_own_chances():
    table = names().with_columns(pl.col("p a") * 0.7, pl.col("p b") * 0.7, pl.lit(0.3).alias("p c"))
    found = audited(table.drop("race"), group=SOFT | {"c": "p c"}, features=[])
    alone = audited(names().drop("race"), features=[], confidence=0.95**0.5)  # two intervals that hold at once
    assert list(found.comparisons) == ["a", "c"]
    assert_same_numbers(to_plain(found["a"].unobserved_group), to_plain(alone["a"].unobserved_group))
    assert found["c"].rows["audited"] == 450


def test_amounts_of_several_groups_are_scores_in_another_unit():
    table = names().with_columns(premium=600 + 400 * pl.col("score"))
    found = audited(table, scores="premium", score_type="amount", known_groups="race", features=[])
    score = audited(table, known_groups="race", features=[])["a"].unobserved_group
    for name in ("weighted", "linear", "limits", "bracket"):
        one, other = (getattr(of, name).to_dict() for of in (found["a"].unobserved_group, score))
        assert one == pytest.approx({end: 400 * value for end, value in other.items()}, rel=1e-9)
    text = " ".join(str(found).split())
    assert re.search(r" [−\d., to]+ units, to the disadvantage of group = \w\.", text)


def test_low_prices_of_an_unobserved_group_are_no_disadvantage():
    """D3: the orientation was read from the shortfall, which unobserved groups do not have."""
    table = names().with_columns(premium=600 - 400 * pl.col("score"))
    for favourable, whom in (("low", "b"), ("high", "a")):
        options = {"score_type": "amount", "favourable": favourable, "known_groups": "race", "features": []}
        found = audited(table, scores="premium", audited="a", **options)
        assert found["a"].unobserved_group.bracket.high < 0
        assert f"disadvantage of group = {whom}." in " ".join(str(found).split())


def with_copies():
    return pl.concat([names(400), names(400)[:30]]).drop("truth")


@cache
def audit_with_copies():
    return audited(with_copies(), known_groups="race", exclude=[])["a"].to_dict()


def test_the_order_of_rows_and_copies_of_them_are_no_matter():
    shuffled = with_copies().sample(fraction=1, shuffle=True)
    assert_same_numbers(audited(shuffled, known_groups="race", exclude=[])["a"].to_dict(), audit_with_copies())


def test_clusters_of_rows_stay_together_with_their_chances():
    table = names(400).with_row_index("customer")
    twice, once = (
        audited(one, clusters="customer", features=["owner"])["a"] for one in (pl.concat([table, table]), table)
    )
    assert twice.gap.value == pytest.approx(once.gap.value)
    assert twice.gap.low == pytest.approx(once.gap.low, rel=1e-9)
    assert twice.unobserved_group.linear.low == pytest.approx(once.unobserved_group.linear.low, rel=5e-3)  # Student's t


def test_a_sample_stands_for_all_rows():
    table = names(4000)
    few, every = (audited(table, known_groups="race", features=[], sample_rows=size)["a"] for size in (3000, 10_000))
    assert few.gap.value == pytest.approx(every.gap.value, abs=1e-9)
    assert few.gap.high - few.gap.low == pytest.approx(every.gap.high - every.gap.low, rel=0.2)
    assert few.rows == every.rows


def test_a_sample_by_probabilities_does_not_depend_on_the_order_of_rows():
    table = names(2000)
    few = [
        audited(one, known_groups="race", sample_rows=1500)["a"].to_dict()
        for one in (table, table.sample(fraction=1, shuffle=True, seed=1))
    ]
    assert_same_numbers(*few)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": {"a": "p a"}}, "two groups or more"),
        ({"group": {"a": "p a", "b": "p a"}}, "'p a' twice"),
        ({"group": {"a": "p a", "b": "nobody"}}, "nobody"),
        ({"group": {"a": "p a", "b": "owner"}}, "must be numbers"),
        ({"group": {"a": "p a", "b": "x"}}, "between 0 and 1"),
        ({"group": {"a": "p a", "b": "p b", "c": "score"}}, "which is more than 1"),
        ({"group": "truth", "exclude": []}, "applies only where `group` gives probabilities"),
        ({"known_groups": "owner"}, "has none of the groups, but 'no', 'yes'"),
    ],
)
def test_probabilities_that_cannot_be(options, message):
    with pytest.raises(DataError, match=message):
        audited(names(60), **{"known_groups": "race"} | options)


def test_rows_of_unknown_chances_are_counted():
    table = names(300).with_columns(pl.when(pl.int_range(300) < 7).then(None).otherwise("p a").alias("p a"))
    found = audited(table, features=[])
    assert (found.rows["missing_group"], found.rows["used"]) == (7, 293)


def test_the_command_line_takes_a_column_for_each_group(tmp_path):
    path = tmp_path / "people.csv"
    names(600).drop("truth").write_csv(path)
    soft = ("--group-probability", "a=p a", "--group-probability", "b=p b")
    rest = ("--known-groups", "race", "--scores", "score", "--reference", "b", "--features", "owner")
    found = invoked("audit", path, *soft, *rest, cwd=tmp_path)
    assert "Unobserved groups" in found.stdout
    assert "weighted gap" in found.stdout
    both = invoked("audit", path, *soft, "--group", "race", "--scores", "score", cwd=tmp_path)
    assert both.returncode == 2
    assert "--group-probability cannot be combined" in both.stderr


def test_summary_and_page_never_show_one_number_alone(tmp_path):
    found = of_names()
    jsonschema.Draft202012Validator(strict(SCHEMA)).validate(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Groups are unobserved" in page
    assert " is estimated at " in page


def test_two_models_are_compared_on_the_same_rows_of_several_groups():
    table = names(600).drop("race", "truth").with_columns(new=(pl.col("score") ** 1.1))
    old = audited(table, features=["x"], exclude=[])
    new = audited(table.sample(fraction=1, shuffle=True, seed=1), scores="new", features=["x"], exclude=[])
    change = tl.compare(old, new)["a"]
    b, w = table["p a"].to_numpy(), (table["new"] - table["score"]).to_numpy()
    means = b @ w / b.sum(), (1 - b) @ w / (1 - b).sum()
    own = b / b.mean() * (w - means[0]) - (1 - b) / (1 - b).mean() * (w - means[1])
    assert change.changes["gap"].value == pytest.approx(means[0] - means[1])
    half = 1.959964 * own.std() / np.sqrt(len(b))
    assert (change.changes["gap"].high - change.changes["gap"].low) / 2 == pytest.approx(half, rel=5e-3)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("held", ["csv files"], indirect=True)
def test_files_give_the_same_audit_of_probabilities(held):
    found = audited(held(with_copies()), known_groups="race", exclude=[])["a"].to_dict()
    assert_same_numbers(found, audit_with_copies())


def test_a_sample_with_other_rates_for_each_group_tells_the_same_slope():
    rng = np.random.default_rng(0)
    rows = 6000
    x = rng.standard_normal(rows)
    chance = np.where(rng.random(rows) < 0.9, 0.0, expit(2 * x))  # nine in ten cannot be of the rare group
    score = expit(x - 0.8 * (rng.random(rows) < chance))
    table = pl.DataFrame({"p a": chance, "p b": 1 - chance, "score": score})
    found = audited(table, exclude=[], sample_rows=1000)["a"].unobserved_group
    slope = np.cov(chance, score)[0, 1] / chance.var(ddof=1)
    assert found.linear.low < slope < found.linear.high  # 0.03; it was 0.13 (0.10 to 0.16)
    assert found.linear.value == pytest.approx(slope, abs=0.02)


def proxy_of_weak_probabilities(rows=4000, seed=0):
    """Return people whose names tell little of their group, and a club that carries a gap of two points."""
    rng = np.random.default_rng(seed)
    chance = expit(0.5 * rng.standard_normal(rows) - 1)
    audited_ones = rng.random(rows) < chance
    club = rng.random(rows) < np.where(audited_ones, 0.5, 0.1)
    score = 0.6 - 0.05 * club + 0.005 * rng.standard_normal(rows)
    shuffled = rng.permutation(club)
    return pl.DataFrame({"p a": chance, "p b": 1 - chance, "score": score, "club": club, "noise": shuffled})


def test_a_proxy_is_not_cleared_where_probabilities_show_little_of_it(worded):
    table = proxy_of_weak_probabilities()
    c = audited(table, exclude=[])["a"]
    chance = table["p a"].to_numpy()
    visible = chance.var() / (chance.mean() * (1 - chance.mean()))
    assert c.unobserved_group.visible == pytest.approx(visible, rel=1e-9)
    club = c.contributions_full.row(by_predicate=pl.col("feature") == "club", named=True)
    assert max(abs(club["alone_low"]), abs(club["alone_high"])) < 0.005  # all of its band is below what counts
    assert (club["verdict"], code_of(club["reason"])) == (Verdict.SIZE_UNCLEAR, "hardly visible")
    worded(club["reason"])


def test_features_that_make_the_probabilities_do_not_show_what_is_left_at_equal_features():
    rng = np.random.default_rng(1)
    place = rng.integers(0, 12, 2000)
    chance = rng.beta(0.6, 0.8, 12)[place]
    is_audited = rng.random(2000) < chance
    score = 0.5 - 0.15 * is_audited + 0.02 * rng.standard_normal(2000)  # direct use of 15 points
    table = pl.DataFrame({"p a": chance, "p b": 1 - chance, "score": score, "place": place.astype(str)})
    c = audited(table, exclude=[])["a"]
    assert c.adjusted_gap is None
    assert "group probabilities too close" in note_codes(c)
    assert c.contributions_full["shapley"].item() == pytest.approx(c.gap.value, abs=1e-3)


def test_of_a_difference_at_equal_features_a_note_says_how_much_shows():
    rng = np.random.default_rng(2)
    name, x = rng.standard_normal(3000), rng.standard_normal(3000)
    chance = expit(2.5 * name)
    score = 0.5 - 0.1 * (rng.random(3000) < chance) + 0.02 * x
    table = pl.DataFrame({"p a": chance, "p b": 1 - chance, "score": score, "x": x})
    c = audited(table, exclude=[])["a"]
    (note,) = (note for note in c.checks.notes if note.code == "adjusted gap by group probabilities")
    shown = float(note.split("about ")[1].split("%")[0]) / 100
    assert c.adjusted_gap.value / -0.1 == pytest.approx(shown, abs=0.03)


def test_chances_that_are_nearly_the_same_for_all_leave_a_model_without_columns():
    rng = np.random.default_rng(5)
    chance = 0.3 + 1e-3 * rng.standard_normal(1500)
    table = pl.DataFrame({"p a": chance, "p b": 1 - chance, "x": rng.standard_normal(1500), "score": rng.random(1500)})
    c = audited(table, exclude=[])["a"]
    assert abs(c.gap.value) < 1e-3
    assert c.contributions_full["verdict"].to_list() == ["inconclusive"]


def test_no_view_shows_one_estimate_alone():
    found = of_names()
    c = found["a"].to_dict()
    weighted, linear = (points(c["unobserved_group"][name]["value"]) for name in ("weighted", "linear"))
    first, _, second, *_ = words.headline(found, found["a"])
    ends = [c["unobserved_group"]["bracket"][end] for end in ("low", "high")]
    assert interval(*ends, brief_points(*ends)) in first
    assert f"{100 * c['unobserved_group']['linear']['value']:.1f} points" in second.replace("−", "-")
    soft, tiles = found["a"].unobserved_group, words.tiles(found["a"])
    for tile, estimate in zip(tiles[:2], (soft.weighted, soft.linear), strict=True):
        shown = brief_points(estimate.value, estimate.low, estimate.high)
        assert tile.value == f"{shown(estimate.value)} points"
    rates = export_tables(found)[0]
    assert {"linear", "bracket_low", "limits_high"} < set(rates.columns)
    assert interval(*ends, points) in texts(rates)[1]
    alone = c["outputs"]["rates"]["audited"]["value"] / c["outputs"]["rates"]["reference"]["value"]
    for text in (str(found), found._repr_html_()):
        assert not re.search(rf"(?<!\d){alone:.2f}".replace(".", r"\."), re.sub(r"<img[^>]*>", "", text))
        assert "equal means:" not in text
        assert "weighted" in text
        assert "expected, audited" in text
        assert weighted in text
        assert linear in text


def test_two_models_are_compared_by_probabilities_of_groups(tmp_path):
    names(400).with_columns(new=pl.col("score") ** 2).write_csv(tmp_path / "p.csv")
    groups = [word for name, column in SOFT.items() for word in ("--group-probability", f"{name}={column}")]
    asked = [*groups, "--reference", "b", "--features", "", "--scores", "score", "--scores", "new", "--json", "-"]
    ran = invoked("compare", "p.csv", *asked, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    c = json.loads(ran.stdout)["comparisons"]["a"]
    assert c["changes"]["linear_gap"]["value"] == pytest.approx(
        c["new"]["linear_gap"]["value"] - c["old"]["linear_gap"]["value"], abs=1e-12
    )
    assert "changes of weighted gaps" in [code_of(note) for note in c["notes"]]


def test_decisions_have_no_ratio_beside_four_fifths_by_probabilities():
    found = audited(names(), threshold=0.5, features=[])
    c = found["a"]
    assert (c.adverse_impact_ratio, c.impact_ratio, c.decision_table) == (None, None, None)
    assert c.shortfall is None  # D8: it rested on the weighted gap, which is too small
    assert "unobserved groups" in note_codes(c)
    assert "0.80" not in str(found)
    assert gate("adverse_impact_ratio<0.1").judge(found)[0].fails  # not knowing is no reason to pass


def test_the_bracket_ends_where_the_limits_do():
    rng = np.random.default_rng(4)
    chance = np.clip(0.5 + 0.02 * rng.standard_normal(2000), 0, 1)  # a slope on so little reaches far beyond [-1, 1]
    table = pl.DataFrame({"p a": chance, "p b": 1 - chance, "score": np.clip(0.5 + 9 * (chance - 0.5), 0, 1)})
    found = audited(table, exclude=[])["a"].unobserved_group
    assert found.linear.value > found.limits.high
    assert found.weighted.low < found.bracket.low + 1e-9 < found.bracket.high == found.limits.high


def test_a_repair_with_the_group_needs_each_persons_group():
    c = of_names()["a"]
    with pytest.raises(DataError, match="`use_group` needs observed groups"):
        c.repair(use_group=True)
