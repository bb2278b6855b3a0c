"""Whether a rule that is no less accurate leans less, in worlds where that is known."""

import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

import tiltlens as tl
from tiltlens._repair.problem import nearly_constant
from tiltlens._repair.rows import audited_rows
from tiltlens.errors import DataError


def applicants(seed=0, rows=1500, is_optimal=False):
    """Return people whose outcome goes by x alone; the score leans on z too, which tells the group, or is optimal."""
    rng = np.random.default_rng(seed)
    mine = rng.random(rows) < 0.4
    x, z = rng.standard_normal(rows) - 0.8 * mine, rng.standard_normal(rows) - 1.2 * mine
    eta = expit(1.5 * x)
    return pl.DataFrame(
        {
            "group": np.where(mine, "a", "b"),
            "x": x,
            "z": z,
            "score": eta if is_optimal else expit(1.2 * x + z),
            "repaid": (rng.random(rows) < eta).astype(int),
        }
    )


def found(table, clusters=None, **options):
    c = tl.audit(table, group="group", reference="b", scores="score", outcome="repaid", clusters=clusters, folds=None)[
        "a"
    ]
    return c.alternatives(**options)


@pytest.fixture(scope="module")
def leaning():
    return found(applicants())


def test_a_model_that_leans_on_what_predicts_nothing_has_an_alternative(leaning):
    assert leaning.verdict == "exists"
    assert leaning.gap_reduction.low > 0.1
    assert f"selects {leaning.rates['alternative']['selected'].value:.1%} (" in str(leaning)


def test_the_models_own_point_is_that_of_its_decisions(leaning):
    table = applicants()
    decided, y = table["score"].to_numpy() >= 0.5, table["repaid"].to_numpy() == 1
    mine = (table["group"] == "a").to_numpy()
    assert leaning.accuracy.value == pytest.approx((decided == y).mean())
    assert leaning.gap.value == pytest.approx(decided[mine].mean() - decided[~mine].mean())


@pytest.fixture(scope="module")
def seldom():
    """People of whom one in eight has the outcome, and P(Y = 1|x) as the score: at any threshold's cost it is best."""
    rng = np.random.default_rng(1)
    mine, x, v = rng.random(900) < 0.4, rng.standard_normal(900), rng.standard_normal(900)
    eta = expit(-2.2 + x - 0.6 * mine + 0.8 * v)
    table = {
        "group": np.where(mine, "a", "b"),
        "x": x - 0.6 * mine,
        "v": v,
        "score": eta,
        "repaid": rng.random(900) < eta,
    }
    return pl.DataFrame(table)


def test_no_rule_beats_the_best_score_at_the_cost_of_its_threshold(seldom):
    best = found(seldom, threshold=0.15, tolerance=0.0)
    assert best.verdict != "exists"
    decided, y = (seldom["score"] >= 0.15).to_numpy(), seldom["repaid"].to_numpy()
    cost = np.where(y, 0.85, 0.15)
    assert best.accuracy.value == pytest.approx(np.average(decided == y, weights=cost))
    own, other = best.rates["model"], best.rates["alternative"]
    mine = (seldom["group"] == "a").to_numpy()
    assert own["selected"].value == pytest.approx(decided.mean())
    assert own["true_positive_rate"].value == pytest.approx(decided[y].mean())
    assert own["impact_ratio"].value == pytest.approx(decided[mine].mean() / decided[~mine].mean())
    assert other["selected"].value > 0.15  # at ½ it would be 0.004
    assert best.curve["accuracy"].arg_max() in range(10, 31)  # and nobody selected is far from the best


def test_the_ratio_is_of_the_favourable_decisions(seldom):
    c = tl.audit(seldom, "group", reference="b", scores="score", outcome="repaid", folds=None, favourable="low")["a"]
    decided, mine = (seldom["score"] >= 0.15).to_numpy(), (seldom["group"] == "a").to_numpy()
    ratio = c.alternatives(threshold=0.15).rates["model"]["impact_ratio"]
    assert ratio.value == pytest.approx((1 - decided[mine].mean()) / (1 - decided[~mine].mean()))


def test_a_rule_that_selects_hardly_anybody_is_noted():
    weights, some = np.ones(1000), np.arange(1000) < 300
    assert nearly_constant(some, some, weights) == []
    for rule, people in ((np.arange(1000) < 4, "fewer than 1% of people"), (~np.zeros_like(some), "everybody")):
        (note,) = nearly_constant(some, rule, weights)
        assert (note.code, note.values) == ("nearly constant rule", {"people": people, "share": 0.3})


def test_the_curve_trades_accuracy_for_the_gap(leaning):
    gaps = leaning.curve["gap"].to_numpy()
    assert (np.diff(gaps) <= 1e-12).all()
    assert gaps[0] > 0.2 > -0.2 > gaps[-1]
    best = leaning.curve["accuracy"].arg_max()
    assert abs(leaning.curve["mu"][best]) < 0.2  # the most accurate rule is hardly tilted
    middle = leaning.curve.row(len(leaning.curve) // 2, named=True)
    assert middle["mu"] == pytest.approx(0.0, abs=1e-12)
    assert middle["auc"] > roc_auc_score(applicants()["repaid"], applicants()["score"])


def test_no_rule_is_more_accurate_than_the_best_one():
    verdicts = [found(applicants(seed, 1000, is_optimal=True), tolerance=0.0).verdict for seed in range(2)]
    assert "exists" not in verdicts


def test_one_call_gives_those_of_every_group(leaning):
    all_of_them = tl.alternatives(applicants(), group="group", reference="b", scores="score", outcome="repaid")
    assert list(all_of_them) == ["a"]
    assert all_of_them["a"].to_dict() == leaning.to_dict()


def test_alternatives_need_outcomes_features_and_people(refused):
    table = applicants(rows=300)
    plain = tl.audit(table.drop("repaid"), group="group", reference="b", scores="score", folds=None)["a"]
    with refused(DataError, "Alternatives need outcomes"):
        plain.alternatives()
    few = table.with_columns(repaid=pl.when(pl.int_range(300) < 60).then("repaid").otherwise(None))
    with refused(DataError, "50"):
        found(few)
    for repaid in (0, 9):  # an error rate of nine people would not be shown either
        with refused(DataError, "10", f"{repaid} and {300 - repaid}"):
            found(table.with_columns(repaid=(pl.int_range(300) < repaid).cast(pl.Int64)))


def test_copies_of_rows_do_not_tell_their_own_outcome():
    table = applicants(3, 300, is_optimal=True)
    often = found(pl.concat([table] * 4), tolerance=0.0)
    assert often.verdict != "exists"
    assert (often.notes[-1].code, often.notes[-1].values) == ("duplicates count once", {"rows": 900})
    right = often.accuracy.value
    error = 1.96 * np.sqrt(right * (1 - right) / 300)  # of so many people, not of 1,200
    assert (often.accuracy.high - often.accuracy.low) / 2 == pytest.approx(error, rel=0.01)


def test_copies_are_known_where_features_are_whole_numbers():
    rng = np.random.default_rng(0)
    mine, x = rng.random(300) < 0.5, rng.integers(0, 10, (300, 8))
    x[:, 0] += 2 * ~mine
    eta = expit(0.5 * (x[:, 0] - 5.5) + 0.2 * (x[:, 1] - 4.5))
    table = pl.DataFrame({"group": np.where(mine, "a", "b"), "score": eta, "repaid": (rng.random(300) < eta) * 1})
    often = pl.concat([table.hstack(pl.DataFrame(x))] * 5)
    best = found(often, tolerance=0.0)
    assert best.verdict != "exists"
    assert (best.notes[-1].code, best.notes[-1].values) == ("duplicates count once", {"rows": 1200})


def test_a_sample_stands_for_all_rows():
    table = applicants(4, 6000)
    rare = pl.concat([table.filter(group="b"), table.filter(group="a")[:300]])
    question = {"group": "group", "reference": "b", "scores": "score", "outcome": "repaid", "folds": None}
    c = tl.audit(rare, **question, sample_rows=1000)["a"]
    decided, y = rare["score"].to_numpy() >= 0.5, rare["repaid"].to_numpy() == 1
    model = c.alternatives()
    assert model.rows == {"audited": 300, "reference": 700}
    error = (model.accuracy.high - model.accuracy.low) / 2
    assert model.accuracy.value == pytest.approx((decided == y).mean(), abs=error)
    share = audited_rows(c, "test").rows
    assert share.weight0 / (share.weight0 + share.weight1) == pytest.approx(300 / rare.height)
