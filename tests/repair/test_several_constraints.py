"""Several constraints at once: groups, classes, both error rates; and whether new people keep to them."""

from functools import cache

import numpy as np
import polars as pl
import pytest
from benchmarks.repair_limits import CLASSES, WAYS, lines, measured, town
from scipy.special import expit, softmax

import tiltlens as tl
from tiltlens.errors import DataError

COMMON = {"group": "group", "reference": "a", "features": ["income", "area"], "folds": None}


@cache
def audit():
    return tl.audit(town(3000, 0), scores="score", outcome="repaid", **COMMON)


@cache
def of_classes():
    return tl.audit(town(3000, 0), scores=CLASSES, favourable="large", **COMMON)


def gap_of(table, after, one):
    """Return the difference that a constraint is about, of rows and their scores."""
    counted = {"all": [0, 1], "without the outcome": [0], "with the outcome": [1]}[one.event]
    own = after if after.ndim == 1 else after[:, one.score_class]
    among = table["repaid"].is_in(counted).to_numpy()
    means = [own[among & (table["group"] == who).to_numpy()].mean() for who in (one.audited, one.reference)]
    return (means[0] - means[1]) * (-1.0 if one.event == "with the outcome" else 1.0)


@pytest.mark.parametrize("way", ["mean_score", "mean score, at most 3 points", "decisions", "equalized_odds"])
def test_all_groups_are_repaired_at_once(way):
    tilt = audit().repair(**WAYS[way])
    new = town(20_000, 1)
    after = tilt.apply(new, "score")
    assert tilt.groups == ("b", "c")
    assert (tilt.audited, tilt.multiplier, tilt.gap_after) == (None, None, None)
    for one in tilt.constraints:
        before = new["score"].to_numpy() if tilt.threshold is None else (new["score"].to_numpy() >= 0.5) * 1.0
        assert abs(gap_of(new, before, one)) > 0.07
        exact = 1e-9 if tilt.threshold is None else 0.005
        assert abs(one.gap_after) <= tilt.max_gap + (3 * one.se if way == "equalized_odds" else exact)
        assert gap_of(new, after, one) == pytest.approx(one.gap_after, abs=4 * one.se)


def test_a_rule_that_decides_nearly_everybody_alike_is_noted(worded):
    odds = audit().repair(metric="equalized_odds", threshold=0.7)
    rate = odds.apply(town(20_000, 1), "score").mean()
    assert rate < 0.01
    (note,) = (note for note in odds.notes if note.code == "nearly constant rule")
    worded(note.values["people"])


def test_the_least_change_for_two_groups_is_larger_than_for_one():
    together, alone = audit().repair(), audit()["b"].repair()
    assert len(together.constraints) == 2
    assert together.nats > alone.nats > 0.0
    assert alone.constraints[0].gap_before == pytest.approx(together.constraints[0].gap_before, abs=1e-12)


def test_the_group_itself_shifts_each_by_a_constant_of_its_own():
    tilt, table = audit().repair(use_group=True), town(500, 3)
    after, before = tilt.apply(table, "score", group="group"), table["score"].to_numpy()
    moved = np.log(after / (1 - after)) - np.log(before / (1 - before))
    for one in tilt.constraints:
        mine = (table["group"] == one.audited).to_numpy()
        assert moved[mine] == pytest.approx(-one.multiplier / one.shares[0])
    back = sum(one.multiplier / one.shares[1] for one in tilt.constraints)
    assert moved[(table["group"] == "a").to_numpy()] == pytest.approx(back)


def test_equalized_odds_close_what_each_error_rate_alone_leaves_open():
    c = audit()["b"]
    both, fpr = c.repair(metric="equalized_odds"), c.repair(metric="fpr")
    assert [one.event for one in both.constraints] == ["without the outcome", "with the outcome"]
    assert [one.gap_after for one in both.constraints] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert both.constraints[0].gap_before == pytest.approx(c.error_rates.fpr.difference.value, abs=1e-12)
    assert both.constraints[1].gap_before == pytest.approx(c.error_rates.fnr.difference.value, abs=1e-12)
    assert fpr.gap_after == pytest.approx(0.0, abs=1e-9)
    assert both.nats > fpr.nats


def test_a_limit_that_is_missed_by_no_more_than_chance_is_noted():
    tilt = tl.audit(town(1500, 1), scores="score", outcome="repaid", **COMMON).repair(metric="equalized_odds")
    over = max(abs(one.gap_after) for one in tilt.constraints)
    assert 1e-9 < over < 3 * max(one.se for one in tilt.constraints)
    (note,) = (note for note in tilt.notes if note.code == "limit missed")
    assert note.values["over"] == pytest.approx(over)
    assert {"limit missed", "gap not significant"}.isdisjoint(note.code for note in audit().repair().notes)


def test_constraints_that_hold_by_themselves_have_no_multiplier():
    tilt = audit().repair(metric="equalized_odds", max_gap=0.09)
    slack = [one for one in tilt.constraints if not one.multiplier]
    assert 0 < len(slack) < 4
    assert all(abs(one.gap_after) <= 0.09 for one in slack)
    assert all(abs(one.gap_after) == pytest.approx(0.09) for one in tilt.constraints if one.multiplier)


@pytest.mark.parametrize("limit", [0.0, 0.03])
def test_every_class_is_within_the_limit(limit):
    tilt, new = of_classes().repair(max_gap=limit), town(20_000, 1)
    after = tilt.apply(new, CLASSES)
    assert after.sum(axis=1) == pytest.approx(1.0)
    assert tilt.apply(new, new.select(CLASSES).to_numpy()) == pytest.approx(after, abs=1e-12)
    errors = {(one.audited, one.score_class): one.se for one in tilt.constraints}
    for who in ("b", "c"):
        mine, others = (after[(new["group"] == one).to_numpy()].mean(axis=0) for one in (who, "a"))
        for y in range(3):
            assert abs(mine[y] - others[y]) <= limit + 4 * errors.get((who, y), max(errors.values()))


def test_a_repair_of_many_constraints_is_written_and_read(tmp_path):
    new = town(300, 4)
    for tilt, scores in (
        (audit().repair(metric="equalized_odds"), "score"),
        (audit().repair(threshold=0.4), "score"),
        (of_classes().repair(max_gap=0.02), CLASSES),
    ):
        tilt.to_json(tmp_path / "repair.json")
        again = tl.read_repair(tmp_path / "repair.json")
        assert again.to_dict() == tilt.to_dict()
        assert again.apply(new, scores).tolist() == tilt.apply(new, scores).tolist()
        assert "'b', 'c'" in repr(again)
    assert "false negative rates" in " ".join(str(audit().repair(metric="equalized_odds")).split())


def test_every_group_has_its_evaluation(refused):
    tilt, new = audit().repair(), town(4000, 6)
    evaluations = tilt.evaluate_groups(new, "score", "group", outcome="repaid")
    after = tilt.apply(new, "score")
    assert list(evaluations) == ["b", "c"]
    for one in tilt.constraints:
        assert evaluations[one.audited]["gap"]["after"].value == pytest.approx(gap_of(new, after, one), abs=1e-12)
    with refused(DataError, "`audited`", "'b'"):
        tilt.evaluate(new, "score", "group")
    with refused(DataError, "were used"):
        tilt.evaluate(town(3000, 0), "score", "group", audited="c")


def test_an_evaluation_of_several_classes_is_of_one(refused):
    tilt, new = of_classes().repair(), town(4000, 6)
    found = tilt.evaluate(new, CLASSES, "group", audited="b", score_class=2)
    after = tilt.apply(new, CLASSES)[:, 2]
    expected = gap_of(new, after, next(one for one in tilt.constraints if one.audited == "b"))
    assert found["gap"]["after"].value == pytest.approx(expected, abs=1e-12)
    with refused(DataError, "`score_class`"):
        tilt.evaluate(new, CLASSES, "group", audited="b")


def test_one_audited_group_is_the_comparison():
    two = tl.audit(town(800, 7).filter(pl.col("group") != "c"), scores="score", exclude=CLASSES, **COMMON)
    assert two.repair().to_dict() == two["b"].repair().to_dict()


@pytest.mark.filterwarnings("ignore:.*A constant score also:UserWarning")
@pytest.mark.parametrize("metric", ["mean_score", "equalized_odds"])
def test_a_classifier_of_three_groups(metric):
    def columns(table):
        income, north = (table["income"].to_numpy() - 50.0) / 10.0, (table["area"] == "north").to_numpy()
        return np.column_stack([income, north]), table["repaid"].to_numpy()

    table, new = town(3000, 8), town(20_000, 9)
    x, y = columns(table)
    model = tl.TiltedClassifier(metric=metric, reference="a").fit(x, y, table["group"].to_numpy())
    assert model.groups_.tolist() == ["b", "c", "a"]
    after = model.predict_proba(columns(new)[0])[:, 1]
    for one in model.constraints_:
        assert abs(one.gap_before) > 0.05
        assert one.gap_after == pytest.approx(0.0, abs=1e-9)
        assert gap_of(new, after, one) == pytest.approx(0.0, abs=4 * one.se)


def test_a_classifier_of_three_classes():
    table = town(4000, 10).filter(pl.col("group") != "c")
    x = np.column_stack([(table["income"].to_numpy() - 50.0) / 10.0, (table["area"] == "north").to_numpy()])
    y = np.array(CLASSES)[table.select(CLASSES).to_numpy().argmax(axis=1)]
    model = tl.TiltedClassifier().fit(x, y, table["group"].to_numpy())
    assert set(model.predict(x)) <= set(CLASSES)
    assert [one.score_class for one in model.constraints_] == [1, 2]
    assert [one.gap_after for one in model.constraints_] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert model.predict_proba(x).sum(axis=1) == pytest.approx(1.0)


def crossed(rows, seed):
    """Return three groups that differ by whether two numbers have the same sign, which an additive model cannot see."""
    rng = np.random.default_rng(seed)
    x, y, noise = rng.standard_normal((3, rows))
    same = x * y > 0
    chances = softmax(np.column_stack([np.zeros(rows), 0.6 * x + 1.2 * same, 0.6 * y - 0.8 * same + 0.3]), axis=1)
    group = (rng.random((rows, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    score = expit(0.7 * x + 0.5 * y + same - 0.5 + 0.3 * noise)
    return pl.DataFrame({"group": np.array(["a", "b", "c"])[group], "x": x, "y": y, "score": score})


def test_a_membership_model_that_misses_something_still_closes_the_gaps():
    tilt = tl.audit(crossed(4000, 0), "group", reference="a", scores="score", folds=None).repair()
    new = crossed(20_000, 1).with_columns(repaid=0)
    after = tilt.apply(new, "score")
    for one in tilt.constraints:
        assert one.gap_after == pytest.approx(0.0, abs=1e-9)
        assert gap_of(new, after, one) == pytest.approx(0.0, abs=4 * one.se)


def test_gaps_of_new_people_lie_at_the_limit():
    ways = {name: WAYS[name] for name in ("mean score, at most 3 points", "equalized_odds")}
    found = list(lines(measured(4, 90_000, 2000, 5000, ways), most=8.0))  # of six gaps, by t of 3 degrees
    assert not [line for line, missed in found if missed]


@pytest.mark.slow
def test_gaps_of_new_people_lie_at_the_limit_in_sixty_draws():
    found = list(lines(measured(60, 80_000), most=3.5))  # of 34 gaps: by chance in 1 of 60 runs
    assert len(found) == 34
    assert not [line for line, missed in found if missed]
