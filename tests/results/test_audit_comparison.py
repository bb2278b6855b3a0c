"""Two audits: differences on the same rows are those of each row, and of other rows those of independent samples."""

import json
import math
from dataclasses import replace
from functools import cache

import jsonschema
import numpy as np
import polars as pl
import pytest
from scipy.special import expit, ndtri
from tests.command import invoked
from tests.people import assert_same_numbers
from tests.schemas import published, strict

import tiltlens as tl
from tiltlens._documents.result_documents import headline
from tiltlens._notes import Note
from tiltlens._results.change import ChangeVerdict
from tiltlens._results.saved_audits import saved_change
from tiltlens.errors import DataError, TiltlensError

Z = ndtri(0.975)


@cache
def models(rows=800, seed=0):
    """Return people with the scores of two models that agree to .95; only `area` counts for less in the new one."""
    rng = np.random.default_rng(seed)
    audited = rng.random(rows) < 0.45
    x, area = rng.normal(size=rows) - 0.4 * audited, rng.random(rows) < 0.2 + 0.5 * audited
    noise = rng.normal(size=(2, rows))
    log_odds = np.log(0.45 / 0.55) - 0.4 * x - 0.08 + np.where(area, np.log(0.7 / 0.2), np.log(0.3 / 0.8))
    old = expit(x - 1.2 * area + 0.4 * noise[0])
    new = expit(x - 0.3 * area + 0.4 * (0.9 * noise[0] + 0.4 * noise[1]))
    return pl.DataFrame(
        {"group": np.where(audited, "a", "b"), "x": x, "area": np.where(area, "in", "out"), "old": old, "new": new}
        | {"id": np.arange(rows), "weight": rng.integers(1, 4, rows), "chance": expit(log_odds)}
    )


def audited(table, score, **options):
    names = {"group": "group", "reference": "b", "scores": score, "features": ["x", "area"], "propensity": "chance"}
    return tl.audit(table, **names | options)


@cache
def both(**options):
    return tuple(audited(models(), score, **options) for score in ("old", "new"))


def se(estimate):
    return (estimate.high - estimate.low) / 2 / Z


def test_the_paired_error_of_the_gap_is_that_of_each_rows_difference():
    change = tl.compare(*both())["a"]
    step = models()["new"].to_numpy() - models()["old"].to_numpy()
    groups = [step[(models()["group"] == name).to_numpy()] for name in "ab"]
    assert change.changes["gap"].value == pytest.approx(groups[0].mean() - groups[1].mean(), abs=1e-12)
    expected = math.sqrt(sum(one.var() / one.size for one in groups))
    assert se(change.changes["gap"]) == pytest.approx(expected, rel=1e-9)
    assert se(change.changes["audited_rate"]) == pytest.approx(groups[0].std() / math.sqrt(groups[0].size), rel=1e-9)


def test_the_change_of_the_gap_is_the_gap_of_the_difference_and_so_are_those_of_features():
    """gap(j) of cells is linear in the score."""
    change = tl.compare(*both())["a"]
    halved = models().with_columns(half=(pl.col("new") - pl.col("old") + 1) / 2)
    found = audited(halved, "half")["a"]
    assert change.changes["gap"].value == pytest.approx(2 * found.gap.value, abs=1e-12)
    assert se(change.changes["gap"]) == pytest.approx(2 * se(found.gap), rel=0.02)  # which has Student's t
    row = found.contributions_full.row(by_predicate=pl.col("feature") == "area", named=True)
    moved = change.features.row(by_predicate=pl.col("feature") == "area", named=True)
    assert moved["alone_change"] == pytest.approx(2 * row["alone"], abs=1e-12)
    reach = moved["alone_change_high"] - moved["alone_change_low"]
    assert reach == pytest.approx(2 * (row["alone_high"] - row["alone_low"]), rel=0.05)  # κ is that of another x


def test_pairing_is_narrower_and_names_the_feature_that_made_the_change():
    paired, apart = (tl.compare(*both(), paired=way)["a"] for way in (None, False))
    assert se(paired.changes["gap"]) < se(apart.changes["gap"]) / 2.5
    old, new = (audit["a"].gap for audit in both())
    assert se(apart.changes["gap"]) == pytest.approx(math.hypot(se(old), se(new)))
    verdicts = dict(paired.features.select("feature", "verdict").iter_rows())
    assert verdicts["area"] == ChangeVerdict.LESS
    assert paired.features["feature"][0] == "area"


@pytest.mark.parametrize("options", [{}, {"sample_weight": "weight"}, {"clusters": "id"}, {"threshold": 0.5}])
def test_an_audit_compared_with_itself_has_not_changed_and_surely_so(options):
    audit = audited(models(300), "old", **options)
    change = tl.compare(audit, audit)
    assert change.paired
    for name, moved in change["a"].changes.items():
        assert moved is None or (moved.value, moved.low, moved.high) == (0.0, 0.0, 0.0), name
    for name in ("alone_change", "beyond_others_change", "shapley_change"):
        assert (change["a"].features.select(f"{name}", f"{name}_low", f"{name}_high").to_numpy() == 0.0).all()
    assert set(change["a"].features["verdict"]) == {ChangeVerdict.NO_CHANGE}


def test_error_rates_change_by_rows_too():
    y = np.random.default_rng(5).random(models().height) < models()["old"].to_numpy()
    table = models().with_columns(repaid=y.astype(int))
    change = tl.compare(*(audited(table, score, outcome="repaid") for score in ("old", "new")))["a"]
    step = (models()["new"] - models()["old"]).to_numpy()
    for name, rows, sign in (("fpr", ~y, 1), ("fnr", y, -1), ("calibration", y | ~y, -1)):
        parts = [sign * step[rows & (models()["group"] == group).to_numpy()] for group in "ab"]
        found = change.changes[f"{name}_difference"]
        assert found.value == pytest.approx(parts[0].mean() - parts[1].mean(), abs=1e-12)
        assert se(found) == pytest.approx(math.sqrt(sum(one.var() / one.size for one in parts)), rel=1e-9)
    assert se(change.changes["auc_difference"]) > 0.0


def test_groups_known_by_probabilities_are_paired_by_rows_in_any_order():
    chance = models()["chance"].to_numpy()
    table = models().with_columns(p_a=chance, p_b=1 - chance)
    options = {"group": {"a": "p_a", "b": "p_b"}, "features": [], "propensity": None}
    old, new = (audited(table, score, **options) for score in ("old", "new"))
    change = tl.compare(old, new)["a"].changes["gap"]
    step = (models()["new"] - models()["old"]).to_numpy()
    parts = [weight / weight.sum() * (step - np.average(step, weights=weight)) for weight in (chance, 1 - chance)]
    assert se(change) == pytest.approx(math.sqrt(((parts[0] - parts[1]) ** 2).sum()), rel=0.01)
    turned = audited(table.reverse(), "new", **options)
    assert_same_numbers(tl.compare(old, turned)["a"].changes["gap"].to_dict(), change.to_dict())


def test_changes_of_amounts_are_in_their_unit():
    table = models().with_columns(old=3000 * pl.col("old"), new=3000 * pl.col("new"))
    amounts = tl.compare(*(audited(table, score, score_type="amount") for score in ("old", "new")))
    plain = tl.compare(*both())["a"].changes["gap"]
    found = amounts["a"].changes["gap"].to_dict()
    assert_same_numbers(found, {name: 3000 * value for name, value in plain.to_dict().items()}, 1e-9)
    row = amounts["a"].features.row(0, named=True)
    assert row["feature"] == "area"
    assert "units" in row["reason"]
    assert "units" in str(amounts)


def test_exempt_parts_change_by_rows_too():
    change = tl.compare(*(audited(models(), score, exempt="area") for score in ("old", "new")))["a"]
    parts = change.changes["gap_explained_by_exempt"].value + change.changes["gap_given_exempt"].value
    assert parts == pytest.approx(change.changes["gap"].value, abs=1e-12)
    assert se(change.changes["gap_explained_by_exempt"]) < se(
        both(exempt="area")[0]["a"].gap_parts.gap_explained_by_exempt
    )


def test_neither_the_order_of_rows_nor_clusters_of_one_row_change_anything():
    shuffled = models().sample(fraction=1, shuffle=True, seed=1)
    plain = tl.compare(*both()).to_dict()["comparisons"]
    found = tl.compare(both()[0], audited(shuffled, "new"))
    assert found.paired
    assert_same_numbers(found.to_dict()["comparisons"], plain)
    clustered = tl.compare(audited(models(), "old", clusters="id"), audited(shuffled, "new", clusters="id"))
    assert_same_numbers(clustered.to_dict()["comparisons"], plain)


@pytest.mark.parametrize("held", ["parquet files"], indirect=True)
def test_files_give_the_same_change(held):
    table = models(400)
    plain = tl.compare(*(audited(table, score) for score in ("old", "new")))
    source = held(table)
    found = tl.compare(*(audited(source, score) for score in ("old", "new")))
    assert found.paired
    assert_same_numbers(found.to_dict()["comparisons"], plain.to_dict()["comparisons"])


def test_rows_that_differ_by_their_scores_alone_need_a_name_where_their_order_is_lost(refused):
    table = models().select("group", "area", "old", "new", "id")
    options = {"features": ["area"], "propensity": None}  # chances would tell rows apart
    old, new = (audited(table, score, **options) for score in ("old", "new"))
    assert se(tl.compare(old, new)["a"].changes["gap"]) == pytest.approx(se(tl.compare(*both())["a"].changes["gap"]))
    turned = audited(table.reverse(), "new", **options)
    with refused(DataError, "`paired`", "`clusters`"):
        tl.compare(old, turned)
    named = [audited(one, score, **options, clusters="id") for one, score in ((table, "old"), (table.reverse(), "new"))]
    assert_same_numbers(tl.compare(*named).to_dict()["comparisons"], tl.compare(old, new).to_dict()["comparisons"])


def test_models_of_other_features_are_paired_by_row_numbers_where_a_feature_is_the_same(worded):
    old, new = audited(models(), "old"), audited(models(), "new", features=["x"])
    assert tl.compare(old, new).paired
    found = tl.compare(old, new)["a"]
    assert_same_numbers(found.changes["gap"].to_dict(), tl.compare(*both())["a"].changes["gap"].to_dict())
    assert dict(found.features.select("feature", "reason").iter_rows())["area"] == Note("in one audit", which="old")
    fewer = models().with_columns(new=pl.when(pl.col("id") < 30).then(None).otherwise("new"))
    partly = tl.compare(old, audited(fewer, "new"), paired=True)["a"]
    assert partly.notes == (Note("unmatched rows", rows=30),)
    with pytest.raises(DataError, match="`paired` requires rows"):
        tl.compare(old, audited(models().reverse(), "new", features=["x"]), paired=True)
    for unknown in (models().reverse(), models(700, 1)):  # the same people, in another order; and other people
        change = tl.compare(old, audited(unknown, "new", features=["x"]))
        assert not change.paired
    worded(tl.compare(old, new, paired=False).pairing)


def test_a_panel_of_one_row_for_each_id_is_paired_by_its_ids(worded):
    rng = np.random.default_rng(2)
    base, noise = rng.uniform(0.3, 0.6, 400), rng.normal(0, 0.01, 400)
    first = pl.DataFrame({"id": np.arange(400), "group": rng.choice(["a", "b"], 400), "score": base})
    panel = first.with_columns(score=pl.Series(base + noise), x=pl.Series(rng.normal(size=400)))
    later = panel.sample(fraction=1.0, shuffle=True, seed=1)
    asked = {"group": "group", "reference": "b", "scores": "score", "clusters": "id"}
    old = tl.audit(first, **asked, features=[])
    change = tl.compare(old, tl.audit(later, **asked, features=[], sample_weight=None))
    joined = tl.compare(old, tl.audit(later.filter(pl.col("id") >= 150), **asked, features=[]))
    by_hand = [noise[first["group"].to_numpy() == name] for name in ("a", "b")]
    assert change.paired
    worded(change.pairing)
    assert float(change["a"].changes["gap"]) == pytest.approx(by_hand[0].mean() - by_hand[1].mean())
    se = np.sqrt(sum(part.var() / part.size for part in by_hand))
    assert change["a"].changes["gap"].high - change["a"].changes["gap"].low == pytest.approx(2 * 1.96 * se, rel=0.02)
    assert joined["a"].notes == (Note("unmatched rows", rows=150),)
    with pytest.raises(DataError, match="both name `clusters`"):
        tl.compare(old, tl.audit(later, **asked | {"clusters": None}, features=[]), paired=True)


def test_saved_audits_are_compared_as_independent_ones_and_not_where_rows_are_the_same(worded, tmp_path):
    old, other = both()[0], audited(models(700, 1), "new")
    names = [str(tmp_path / name) for name in ("old.json", "new.json", "same.json")]
    for audit, name in zip((old, other, both()[1]), names, strict=True):
        audit.to_json(name)
    expected = tl.compare(old, other).to_dict()
    found = saved_change(*names[:2]).to_dict()
    assert_same_numbers(found["comparisons"], expected["comparisons"])
    done = invoked("compare", *names[:2], "--json", "-", cwd=tmp_path)
    assert_same_numbers(json.loads(done.stdout)["comparisons"], expected["comparisons"])
    same = invoked("compare", names[0], names[2], cwd=tmp_path)
    assert same.returncode == 2
    assert "rows_sha256" in same.stderr
    (tmp_path / "old.json").write_text('{"schema": "tiltlens/audit/2"}')
    strange = invoked("compare", *names[:2], cwd=tmp_path)
    worded(strange.stderr)


def test_options_beside_saved_audits_are_refused_not_ignored(tmp_path):
    for option in ("--confidence", "--materiality", "--outcome", "--group"):
        done = invoked("compare", "a.json", "b.json", option, "0.9", cwd=tmp_path)
        assert (done.returncode, f"{option} cannot be used" in done.stderr) == (2, True)
    done = invoked(
        "compare", "a.csv", "--scores", "x", "--scores", "y", *("--group-probability", "a=b") * 2, cwd=tmp_path
    )
    assert (done.returncode, "names 'a' twice" in done.stderr) == (2, True)


def test_the_command_line_compares_two_models_on_the_same_rows(tmp_path):
    models().drop("id", "weight").write_csv(tmp_path / "rows.csv")
    question = ("compare", "rows.csv", "--scores", "old", "--scores", "new", "--group", "group", "--reference", "b")
    done = invoked(
        *question,
        "--propensity",
        "chance",
        "--fail-if",
        "gap_change.low>0.01",
        "--json",
        "change.json",
        "--report",
        "c.html",
        "--junit",
        "g.xml",
        cwd=tmp_path,
    )
    assert 'failures="1"' in (tmp_path / "g.xml").read_text()
    assert done.returncode == 1
    assert "gap_change.low>0.01: " in done.stderr
    assert "area" in done.stdout
    assert "contributes less than" in done.stdout
    found = json.loads((tmp_path / "change.json").read_text())
    jsonschema.Draft202012Validator(strict(published("change"))).validate(found)
    expected = tl.compare(*both()).to_dict()
    assert_same_numbers(found["comparisons"], expected["comparisons"], 1e-6)  # digits of the CSV
    page = (tmp_path / "c.html").read_text()
    assert "Change in contributions" in page
    assert "contributes less than" in page
    mistake = invoked(*question[:4], "--group", "group", cwd=tmp_path)
    assert (mistake.returncode, "--scores" in mistake.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference": "a"}, "the same `reference`, got 'b' and 'a'"),
        ({"threshold": 0.5}, "the same `score_type`, got 'probability' and 'decision'"),
        ({"favourable": "low"}, "the same `favourable`"),
        ({"exempt": "area"}, "the same `exempt`"),
        ({"confidence": 0.9}, "the same `confidence`, got 0.95 and 0.9"),
        ({"where": {"area": "in"}, "features": ["x"]}, "the same `where`"),
    ],
)
def test_audits_of_other_questions_are_not_compared(options, message):
    old = both()[0] if "confidence" in options else both(folds=None)[0]
    new = audited(models(), "new", **{"folds": None} | options)
    with pytest.raises(DataError, match=message):
        tl.compare(old, new)


def test_only_audits_are_compared(refused):
    with refused(TiltlensError, "`new`", "'audit.json'"):
        tl.compare(both()[0], "audit.json")
    with refused(DataError, "`paired`", "'yes'"):
        tl.compare(*both(), paired="yes")
    with refused(DataError, "one is saved"):
        tl.compare(*both(folds=None), paired=True)
    values = tl.compare(*both(folds=None), paired=False)["a"]
    assert values.changes["gap"].low is None
    assert set(values.features["verdict"]) == {"not assessed"}


@pytest.mark.parametrize("clusters", [None, "id"])
def test_rows_of_soft_groups_that_differ_by_their_scores_alone_are_paired_by_number_or_cluster(clusters):
    rng = np.random.default_rng(3)
    chance, old = np.round(rng.random(400), 1), rng.random(400)
    new = np.clip(old + 0.02 * rng.standard_normal(400), 0, 1)
    table = pl.DataFrame({"p": chance, "q": 1 - chance, "old": old, "new": new, "id": np.arange(400)})
    options = {"group": {"a": "p", "b": "q"}, "reference": "b", "features": [], "clusters": clusters}
    change = tl.compare(*(tl.audit(table, scores=name, **options) for name in ("old", "new")))["a"].changes["gap"]
    share, moved = chance.mean(), new - old
    parts = chance / share * (moved - chance @ moved / chance.sum())
    parts -= (1 - chance) / (1 - share) * (moved - (1 - chance) @ moved / (1 - chance).sum())
    assert change.high - change.low == pytest.approx(2 * 1.96 * np.sqrt((parts**2).sum()) / 400, rel=0.01)


@pytest.mark.parametrize("options", [{"threshold": 0.5}, {"features": ()}, {"exempt": "area"}])
def test_a_change_follows_its_schema(options):
    found = json.loads(json.dumps(tl.compare(*both(**options)).to_dict(), allow_nan=False))
    jsonschema.Draft202012Validator(strict(published("change"))).validate(found)


def test_a_verdict_on_a_change_stands_beside_the_number_that_it_was_read_from(worded):
    """D1: Age carried less than before "(+0.14)", the change of another number."""
    c = tl.compare(*both())["a"]
    row = pl.col("feature") == "area"
    new = {"alone_change": 0.0014, "alone_change_low": -0.002, "alone_change_high": 0.004}
    new |= {"beyond_others_change": -0.021, "beyond_others_change_low": -0.03, "beyond_others_change_high": -0.012}
    columns = [pl.when(row).then(pl.lit(value)).otherwise(pl.col(name)).alias(name) for name, value in new.items()]
    sentence = headline(replace(c, features=c.features.with_columns(columns)))[1]
    assert "(−2.1 points, " in sentence
    worded(sentence)
    assert "0.14" not in sentence
