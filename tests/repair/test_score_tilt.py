"""The least change of an audit's scores: solved on its rows, applied to others."""

import json
from dataclasses import replace

import cvxpy as cp
import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit, rel_entr

import tiltlens as tl
from tiltlens._notes import Note
from tiltlens._repair.constraints import check_max_gap
from tiltlens.errors import DataError, TiltlensError


def lending(rows=3000, seed=0):
    """Return people of two groups: income and area differ between them, and the score goes by both."""
    rng = np.random.default_rng(seed)
    audited = rng.random(rows) < 0.4
    income = rng.normal(50 - 5 * audited, 10, rows)
    area = np.where(rng.random(rows) < 0.2 + 0.4 * audited, "north", np.where(rng.random(rows) < 0.5, "south", "east"))
    noise = rng.standard_normal(rows)
    score = expit(0.06 * (income - 48) - 0.8 * (area == "north") + 0.5 * noise)
    return pl.DataFrame(
        {
            "group": np.where(audited, "a", "b"),
            "income": pl.Series(income).set(pl.Series(rng.random(rows) < 0.03), None),
            "area": area,
            "noise": noise,
            "score": score,
        }
    )


@pytest.fixture(scope="module")
def comparison():
    return tl.audit(lending(), group="group", reference="b", scores="score", folds=None)["a"]


def gap(table, scores):
    mine = (table["group"] == "a").to_numpy()
    return scores[mine].mean() - scores[~mine].mean()


def se(table, scores):
    mine = (table["group"] == "a").to_numpy()
    return np.sqrt(sum(scores[who].var() / who.sum() for who in (mine, ~mine)))


@pytest.mark.parametrize("use_group", [False, True])
@pytest.mark.parametrize("limit", [0.0, 0.03])
def test_the_gap_of_new_rows_is_the_limit(comparison, use_group, limit):
    tilt, new = comparison.repair(max_gap=limit, use_group=use_group), lending(20_000, seed=1)
    group = {"group": "group"} if use_group else {}
    after = tilt.apply(new, "score", **group)
    assert tilt.gap_before == pytest.approx(comparison.gap.value)
    assert tilt.gap_after == pytest.approx(-limit, abs=1e-9)
    assert gap(new, after) == pytest.approx(
        -limit, abs=3 * se(new, after) + 3 * se(lending(), lending()["score"].to_numpy())
    )
    assert abs(gap(new, new["score"].to_numpy())) > 0.1


def test_a_group_aware_tilt_shifts_the_log_odds_of_each_group_by_a_constant(comparison):
    tilt = comparison.repair(use_group=True)
    table = lending()
    moved = logit(tilt.apply(table, "score", group="group")) - logit(table["score"].to_numpy())
    (q0, q1), mine = tilt.constraints[0].shares, (table["group"] == "a").to_numpy()
    assert moved[mine] == pytest.approx(-tilt.multiplier / q0)
    assert moved[~mine] == pytest.approx(tilt.multiplier / q1)
    assert (q0, q1) == pytest.approx((mine.mean(), 1 - mine.mean()))


def test_a_smaller_change_does_not_close_the_gap(comparison):
    tilt, table = comparison.repair(), lending()
    steps = [tilt.part(fraction) for fraction in (0.5, 0.9, 1.0)]
    left = [abs(gap(table, one.apply(table, "score"))) for one in steps]
    assert left[0] > left[1] > left[2]


def test_decisions_have_equal_rates_and_lose_little(comparison):
    tilt, new = comparison.repair(threshold=0.5), lending(20_000, seed=1)
    decided = tilt.apply(new, "score")
    assert set(np.unique(decided)) == {0.0, 1.0}
    plain = (new["score"].to_numpy() > 0.5).astype(float)
    assert abs(gap(new, plain)) > 0.15
    assert abs(gap(new, decided)) < 3 * se(new, decided) + 3 * se(lending(), plain[:3000])


def test_a_repair_is_written_and_read_without_a_digit_lost(comparison, tmp_path):
    new = lending(500, seed=2).with_columns(area=pl.when(pl.int_range(500) < 9).then(pl.lit("west")).otherwise("area"))
    for options in ({}, {"use_group": True}, {"threshold": 0.4}):
        tilt = comparison.repair(**options)
        tilt.to_json(tmp_path / "repair.json")
        again = tl.read_repair(tmp_path / "repair.json")
        group = new["group"].to_numpy().astype(str) if tilt.use_group else None
        after = [one.repair_batch(new, new["score"].to_numpy(), group).tolist() for one in (again, tilt)]
        assert after[0] == after[1]
        assert again.to_dict() == tilt.to_dict()
    assert json.loads((tmp_path / "repair.json").read_text())["schema"] == "tiltlens/_repair/4"


def test_a_repair_is_written_whole_or_not_at_all(refused, comparison, tmp_path, monkeypatch):
    path = tmp_path / "repair.json"
    comparison.repair().to_json(path)
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with refused(DataError):
        comparison.repair(max_gap=0.02).to_json(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["repair.json"]


@pytest.mark.parametrize("missing", ["models", "constraints", "classes", "row_index"])
def test_an_altered_file_is_refused(refused, comparison, tmp_path, missing):
    path = tmp_path / "repair.json"
    comparison.repair().to_json(path)
    found = json.loads(path.read_text())
    del found[missing]
    path.write_text(json.dumps(found))
    with refused(DataError):
        tl.read_repair(path)


def test_a_gap_within_the_limit_is_left_alone(comparison):
    tilt, table = comparison.repair(max_gap=0.5), lending(100)
    assert tilt.multiplier == 0.0
    assert tilt.nats == pytest.approx(0.0, abs=1e-15)
    assert "nothing to adjust" in {note.code for note in tilt.notes}
    assert tilt.apply(table, "score").tolist() == table["score"].to_list()


def one(**columns):
    return tl.audit(lending(400).with_columns(**columns), group="group", reference="b", scores="score", folds=None)["a"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: one().repair(max_gap=-0.1), "`max_gap` must be a number from 0"),
        (lambda: one().repair(max_gap=True), "`max_gap` must be a number from 0"),
        (lambda: one().repair(threshold=1.5), "`threshold` must be a number above 0 and below 1"),
        (lambda: one(score=(pl.col("score") > 0.5).cast(float)).repair(), "All scores are 0 or 1"),
        (lambda: one(score=0.3).repair(), "The scores are constant"),
        (lambda: one().repair().apply(lending(9).drop("area"), "score"), "Column 'area', which the adjustment needs"),
        (lambda: one().repair().apply(lending(9), "nobody"), "nobody"),
        (lambda: one().repair().apply(lending(9).with_columns(score=pl.lit(None)), "score"), "must be probabilities"),
        (lambda: one().repair().apply(lending(9), "score", group="group"), "does not use `group`"),
        (lambda: one().repair(use_group=True).apply(lending(9), "score"), "needs `group`"),
        (lambda: one().repair(use_group=True).apply(lending(9), "score", group="area"), "must be 'a' or 'b', got"),
        (lambda: tl.read_repair("nowhere.json"), "Cannot read an adjustment from"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(TiltlensError, match=message):
        make()


def test_features_that_tell_nothing_cannot_close_the_gap():
    rng = np.random.default_rng(4)
    table = lending(2000).select("group", "score").with_columns(noise=pl.Series(rng.standard_normal(2000)))
    c = tl.audit(table, group="group", reference="b", scores="score", folds=None)["a"]
    with pytest.raises(TiltlensError, match="cannot be reached"):
        c.repair()
    assert c.repair(use_group=True).gap_after == pytest.approx(0.0, abs=1e-9)


@pytest.fixture(scope="module")
def skilled():
    """People whose score goes by skill, which may differ, and a little by z; both tell the group."""
    rng = np.random.default_rng(3)
    mine = rng.random(4000) < 0.4
    skill, z = rng.standard_normal((2, 4000)) - 0.8 * mine
    skill = (2 * skill).round() / 2
    columns = {"skill": skill, "z": z, "score": expit(1.1 * skill + 0.2 * z), "y": rng.integers(0, 2, 4000)}
    return pl.DataFrame({"group": np.where(mine, "a", "b"), **columns})


def at_equal_skill(table, score):
    """Return the coefficient of the group beside every value of skill in least squares."""
    columns = np.column_stack([table["group"] == "a", table["skill"].to_dummies().to_numpy()])
    return np.linalg.lstsq(columns.astype(float), np.asarray(score, dtype=float))[0][0]


@pytest.mark.parametrize("options", [{}, {"use_group": True}, {"threshold": 0.5}, {"max_gap": 0.01}])
def test_a_repair_closes_the_gap_at_equal_exempt_factors_and_leaves_what_they_account_for(skilled, options, tmp_path):
    old, new, limit = skilled[:2000], skilled[2000:], options.get("max_gap", 0.0)
    question = {"reference": "b", "features": ["skill", "z"], "exempt": "skill", "folds": None}
    tilt = tl.audit(old, "group", scores="score", **question)["a"].repair(**options)
    before = old["score"] if tilt.threshold is None else old["score"] >= 0.5
    assert tilt.gap_before == pytest.approx(at_equal_skill(old, before), abs=0.003)
    assert abs(tilt.gap_after) <= limit + 0.002  # decisions move in steps
    tilt.to_json(tmp_path / "repair.json")
    again = tl.read_repair(tmp_path / "repair.json")
    after = again.apply(new, "score", "group" if tilt.use_group else None)
    left, near = at_equal_skill(new, after), 0.005 if tilt.threshold is None else 0.03
    assert left == pytest.approx(-limit, abs=near)
    mine = (new["group"] == "a").to_numpy()
    assert after[mine].mean() - after[~mine].mean() < -0.15  # of the whole gap what goes through skill stays
    found = again.evaluate(new, "score", "group")["exempt_gap"]["after"]
    assert found.low < left < found.high < found.low + 8 * near
    assert "the same skill" in str(again)


def test_error_rates_do_not_hold_exempt_factors_equal(skilled):
    options = {"reference": "b", "features": ["skill", "z"], "exempt": "skill", "scores": "score", "outcome": "y"}
    tilt = tl.audit(skilled[:500], "group", folds=None, **options)["a"].repair(metric="fpr", use_group=True)
    (note,) = (note for note in tilt.notes if note.code == "exempt factors not held equal")
    assert note.values == {"factors": "'skill'"}
    decided = skilled[:500].with_columns(score=pl.col("score") >= 0.5)
    notes = tl.audit(decided, "group", folds=None, **options)["a"].alternatives().notes
    assert [note.code for note in notes[-2:]] == ["scores are decisions", "alternatives ignore exempt factors"]


@pytest.mark.parametrize("action", ["alternatives", "reweigh"])
def test_amounts_have_no_action_on_scores(action):
    table = lending(400).with_columns(score=100 * pl.col("score"))
    c = tl.audit(table, group="group", reference="b", scores="score", score_type="amount", folds=None)["a"]
    with pytest.raises(DataError, match=f"Amounts have no `{action}`"):
        getattr(c, action)()


def test_weights_for_re_training_close_the_gap(comparison):
    found, table = comparison.reweigh(), lending()
    mine, score = (table["group"] == "a").to_numpy(), table["score"].to_numpy()
    assert found.row_numbers.tolist() == list(range(3000))
    assert np.average(score[mine], weights=found.sample_weight[mine]) == pytest.approx(score[~mine].mean(), abs=1e-9)
    assert (found.sample_weight[~mine] == 1.0).all()
    assert found.sample_weight[mine].sum() == pytest.approx(mine.sum())
    assert found.nats == pytest.approx(comparison.correction.project().cost)
    weights = found.sample_weight[mine]
    assert found.effective_rows == pytest.approx((mine.sum(), weights.sum() ** 2 / (weights @ weights)))
    north = found.changes.filter(feature="area", value="north").row(0, named=True)
    assert north["before"] == pytest.approx((table.filter(group="a")["area"] == "north").mean())
    assert north["after"] < north["before"]
    assert "group after weighting: " in str(found)


def test_weights_of_the_outcome_are_the_least_change_that_makes_it_independent_of_the_group():
    """Against a solver on all cells of (x, s, y), weighted, with a missing outcome: the Kullback–Leibler projection."""
    rng = np.random.default_rng(2)
    mine, x = rng.random(300) < 0.4, rng.integers(0, 3, 300)
    y, w = (rng.random(300) < np.where(mine, 0.2, 0.5)).astype(float), rng.integers(1, 4, 300)
    y[:20] = np.nan
    table = pl.DataFrame({"g": np.where(mine, "a", "b"), "x": x.astype(str), "s": rng.random(300), "y": y, "w": w})
    options = {"reference": "b", "scores": "s", "outcome": "y", "sample_weight": "w", "features": "x", "folds": None}
    found = tl.audit(table.fill_nan(None), "g", **options)["a"].reweigh(outcome=True)
    assert found.row_numbers.tolist() == list(range(20, 300))
    mass = np.zeros((3, 2, 2))
    np.add.at(mass, (x[20:], mine[20:] * 1, y[20:].astype(int)), w[20:] / w[20:].sum())
    got = np.zeros_like(mass)
    np.add.at(got, (x[20:], mine[20:] * 1, y[20:].astype(int)), found.sample_weight / found.sample_weight.sum())
    product = np.outer(mass.sum(axis=(0, 2)), mass.sum(axis=(0, 1)))
    np.testing.assert_allclose(got.sum(axis=0), product, atol=1e-12)
    q = cp.Variable(12, nonneg=True)
    cells = q.reshape((3, 4), order="C")
    independent = cp.sum(cells, axis=0) == product.ravel()
    least = cp.Problem(cp.Minimize(cp.sum(cp.kl_div(q, mass.ravel()))), [independent]).solve()
    assert found.nats == pytest.approx(least, abs=1e-6)
    np.testing.assert_allclose(got.ravel(), q.value, atol=1e-5)
    for _ in range(50):  # and the other way round, no law in which the two are independent is nearer
        parts = got.sum(axis=(0, 2)), got.sum(axis=(0, 1)), got / got.sum(axis=0)
        group, outcome, inputs = (part * np.exp(0.05 * rng.standard_normal(part.shape)) for part in parts)
        rival = np.einsum("s,y,xsy->xsy", group / group.sum(), outcome / outcome.sum(), inputs / inputs.sum(axis=0))
        assert rel_entr(mass, rival).sum() > rel_entr(mass, got).sum()


def test_weights_of_the_outcome_need_it(refused, comparison):
    with refused(DataError, "`outcome`"):
        comparison.reweigh(outcome=True)


@pytest.mark.parametrize("limit", [0, 0.25, np.float32(0.25), np.int64(0)])
def test_a_limit_may_be_any_kind_of_number(limit):
    assert check_max_gap(limit) == float(limit)


def two_kinds(rows=4000, seed=0, level=0.0):
    """Return people of whom few kinds exist, with scores that are calibrated, and outcomes."""
    rng = np.random.default_rng(seed)
    mine = rng.random(rows) < 0.4
    u = np.where(mine, rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1]), rng.choice(4, rows, p=[0.1, 0.2, 0.3, 0.4]))
    score = expit(0.9 * (u - 1.4) + level)
    drawn = (rng.random(rows) < score).astype(int)
    return pl.DataFrame({"group": np.where(mine, "a", "b"), "u": u.astype(str), "score": score, "y": drawn})


def noted(table, code, **options):
    question = {"reference": "b", "scores": "score", "outcome": "y", "folds": None}
    notes = tl.audit(table, "group", **question)["a"].repair(**options).notes
    return code in {note.code for note in notes}


def test_decisions_that_close_a_gap_further_than_asked_are_noted():
    closer = "closed further"
    assert noted(two_kinds(), closer, threshold=0.5, max_gap=0.35)
    assert not noted(lending().with_columns(y=pl.lit(1)).with_columns(y=pl.int_range(3000) % 2), closer, threshold=0.5)


def test_a_gap_that_may_be_chance_is_noted():
    rng = np.random.default_rng(1)
    table = lending().with_columns(score=pl.Series(rng.random(3000)), y=pl.int_range(3000) % 2)
    told = "gap not significant"
    assert noted(table, told, threshold=0.5)
    assert not noted(two_kinds(), told)
    gap = tl.audit(two_kinds(), "group", reference="b", scores="score", exclude="y", folds=None)["a"].gap.value
    assert noted(two_kinds(), told, max_gap=abs(gap) - 0.005)


def test_a_printed_adjustment_has_minus_signs_in_its_notes():
    tilt = tl.audit(two_kinds(), "group", reference="b", scores="score", exclude="y")["a"].repair()
    shown = str(replace(tilt, notes=(Note("gap not significant", gap=-0.34, error=0.9),)))
    assert "The gap before, −0.3 points" in shown


def test_scores_that_are_not_calibrated_are_noted_for_decisions():
    sharp = two_kinds().with_columns(score=pl.Series(expit(3 * logit(two_kinds()["score"].to_numpy()))))
    told = "not calibrated"
    assert noted(sharp, told, threshold=0.5)
    assert not noted(sharp, told)
    assert not noted(two_kinds(), told, threshold=0.5)
    assert not noted(two_kinds(level=-2.0), told, threshold=0.2)


@pytest.mark.parametrize("part", ["slope", "no slope", "share", "max_gap", "multiplier", "schema"])
def test_a_file_that_was_altered_is_refused(comparison, part, tmp_path):
    found = comparison.repair().to_dict()
    if part == "slope":
        found["models"][0]["model"]["slopes"].pop()
    elif part == "no slope":
        found["models"][0]["model"]["slopes"][0] = None
    elif part == "share":
        found["constraints"][0]["shares"].pop()
    elif part == "multiplier":
        found["constraints"][0]["multiplier"] = float("nan")
    else:
        found[part] = {"max_gap": 5, "schema": "tiltlens/_repair/1"}[part]
    (tmp_path / "repair.json").write_text(json.dumps(found))
    with pytest.raises(TiltlensError, match=r"whole adjustment|`max_gap`|schema"):
        tl.read_repair(tmp_path / "repair.json")
