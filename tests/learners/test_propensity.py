"""The membership model: chosen, cross-fitted, known; its balance; and intervals that hold known truths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB

from tiltlens._estimators.crossfit import explained_variance, gradient, gradient_variance, input_divergence
from tiltlens._estimators.influence import Rows, average_estimates
from tiltlens._estimators.outputs import Scores
from tiltlens._learners import propensity as module
from tiltlens._learners.balance import balance
from tiltlens._learners.candidates import CANDIDATES, ridge_logit
from tiltlens._learners.design import encoding
from tiltlens._learners.propensity import (
    area_under_curve,
    choose_membership,
    estimator_membership,
    fit_log_odds,
    fold_pairings,
    given_membership,
    row_folds,
)
from tiltlens.errors import DataError, SupportError

LOGISTIC = tuple(candidate for candidate in CANDIDATES if not candidate.is_trees)
CURVED = tuple(candidate for candidate in CANDIDATES if candidate.name == "curved")
LINEAR = tuple(candidate for candidate in CANDIDATES if candidate.name == "linear")


def narrower(seed, size=1500, spread=0.7):
    """Return two Gaussian groups; the reference group's second coordinate is narrower."""
    rng = np.random.default_rng(seed)
    audited = rng.random(size) < 0.4
    z = rng.normal(size=(size, 2))
    x = np.where(audited[:, None], z + np.array([0.6, 0.3]), z * [1.0, spread])
    return audited, {"one": x[:, 0], "two": x[:, 1]}, expit(0.9 * x[:, 0] + 0.4 * x[:, 1] - 0.3)


def narrower_truth(spread=0.7):
    """Return Var0(g) and KL(P0‖P1) of the clipped log-ratio, from many draws."""
    rng = np.random.default_rng(99)
    z0, z1 = rng.normal(size=(2, 400_000, 2))
    x0, x1 = z0 + np.array([0.6, 0.3]), z1 * [1.0, spread]
    ell = 0.6 * x0[:, 0] - 0.18 + 0.5 * (x0[:, 1] / spread) ** 2 - 0.5 * (x0[:, 1] - 0.3) ** 2 + np.log(spread)
    p, p1 = (expit(0.9 * x[:, 0] + 0.4 * x[:, 1] - 0.3).mean() for x in (x0, x1))
    k = np.log(p / (1 - p)) - np.log(p1 / (1 - p1))
    ell = np.clip(ell, -4, 4)
    return np.var(ell + k * expit(0.9 * x0[:, 0] + 0.4 * x0[:, 1] - 0.3)), ell.mean()


def exclusive_or(seed, size=4000):
    """Return a group hidden in the agreement of two fair coins, with a third coin that is neutral."""
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, (size, 3))
    audited = rng.random(size) < np.where(coins[:, 0] == coins[:, 1], 0.7, 0.3)
    table = {name: coins[:, j] for j, name in enumerate(("left", "right", "idle"))}
    return audited, table, 0.3 + 0.4 * (coins[:, 0] == coins[:, 1])


def share_of(rows, gradients, variance, codes):
    return average_estimates([explained_variance(rows, g, codes) for g in gradients]).over(variance)


def test_folds_hold_both_groups_equally_and_are_seeded():
    audited = np.random.default_rng(0).random(503) < 0.3
    fold = row_folds(Rows.of(audited))
    for group in (audited, ~audited):
        counts = np.bincount(fold[group])
        assert counts.max() - counts.min() <= 1
    assert (fold == row_folds(Rows.of(audited))).all()
    assert (fold != row_folds(Rows.of(audited), seed=1)).any()


@pytest.mark.parametrize(("folds", "several", "count"), [(5, True, 3), (5, False, 1), (3, True, 1), (10, False, 1)])
def test_models_of_a_pairing_never_share_a_row(folds, several, count):
    plan = fold_pairings(folds, several)
    assert len(plan) == count
    for pairs in plan:
        for fold, (a, b) in enumerate(pairs):
            assert sorted((*a, *b, fold)) == list(range(folds))


def test_five_folds_need_ten_fits_for_three_pairings_and_five_for_one():
    assert len({part for pairs in fold_pairings(5, True) for pair in pairs for part in pair}) == 10
    assert len({part for pairs in fold_pairings(5, False) for pair in pairs for part in pair}) == 5


def test_ridge_logit_against_scikit_learn():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 4))
    labels = rng.random(300) < expit(x[:, 0])
    weights = rng.uniform(0.5, 1.5, 300)
    weights /= weights.mean()
    found = ridge_logit(x, labels, weights, np.full(4, 0.5))
    other = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000).fit(x, labels, sample_weight=weights)
    assert found.slopes == pytest.approx(other.coef_[0], abs=1e-4)
    assert found.intercept == pytest.approx(other.intercept_[0], abs=1e-4)
    assert 3.5 < found.degrees < 5.0


def test_area_under_curve_against_scikit_learn():
    rng = np.random.default_rng(2)
    audited, odds = rng.random(200) < 0.5, rng.integers(0, 20, 200).astype(float)
    assert area_under_curve(Rows.of(audited), odds) == pytest.approx(roc_auc_score(audited, odds))


def test_nominal_95_percent_intervals_cover_where_a_linear_model_fails():
    variance, divergence = narrower_truth()
    hits = {"chosen": np.zeros(2), "linear": np.zeros(2)}
    for seed in range(25):
        audited, table, score = narrower(seed)
        rows = Rows.of(audited)
        for name, count in hits.items():
            found = choose_membership(rows, table, offered=LOGISTIC if name == "chosen" else LINEAR)
            gradients = [gradient(rows, Scores.of(rows, score), pair) for pair in found.pairings]
            one = gradient_variance(rows, gradients).normal().estimate()
            other = input_divergence(rows, found.pairings).normal().estimate()
            count += [one.low <= variance <= one.high, other.low <= divergence <= other.high]
    assert (hits["chosen"] >= 20).all()
    assert (hits["linear"] <= 8).all()


def test_balance_accuses_the_linear_model_and_not_the_chosen_one():
    audited, table, score = narrower(3, size=3000)
    rows = Rows.of(audited)
    chosen = balance(rows, table, choose_membership(rows, table), score)
    linear = balance(rows, table, choose_membership(rows, table, offered=LINEAR), score)
    assert chosen.is_adequate
    assert chosen.calibration == pytest.approx((0.0, 1.0), abs=0.2)
    assert not linear.is_adequate
    assert "two²" in " ".join(linear.reasons)


def test_given_membership_is_balanced_and_corrected_once():
    audited, table, score = narrower(4, size=3000, spread=1.0)
    rows = Rows.of(audited)
    log_odds = 0.6 * table["one"] + 0.3 * table["two"] - 0.225 + np.log(0.4 / 0.6)
    known = given_membership(rows, log_odds, area_under_curve(rows, log_odds))
    assert balance(rows, table, known, score).is_adequate
    pair = known.pairings[0]
    assert (pair.r_a[audited] == -1.0).all()
    assert rows.mean1(pair.r_a) == pytest.approx(1.0)
    assert pair.r_a is pair.r_b
    assert known.is_known


def test_exclusive_or_is_found_by_trees_and_lost_by_lines():
    audited, table, score = exclusive_or(0)
    rows = Rows.of(audited)
    found = choose_membership(rows, table)
    assert found.auc > 0.65
    assert choose_membership(rows, table, offered=LINEAR).auc < 0.55
    gradients = [gradient(rows, Scores.of(rows, score), pair, 1.0, 0.0) for pair in found.pairings]
    variance = gradient_variance(rows, gradients)
    for name in table:
        assert share_of(rows, gradients, variance, table[name]).estimate().high < 0.1


def test_any_classifier_is_cross_fitted_the_same_way():
    audited, table, score = narrower(6, size=1000, spread=1.0)
    rows = Rows.of(audited)
    inputs = np.column_stack(list(table.values()))
    for estimator in (LogisticRegression(C=1e4), GaussianNB()):
        found = estimator_membership(rows, estimator, inputs)
        assert found.auc == pytest.approx(choose_membership(rows, table, offered=LINEAR).auc, abs=0.02)
        assert found.name == type(estimator).__name__
        assert balance(rows, table, found, score).is_adequate


def test_class_weights_do_not_matter():
    audited, table, _ = narrower(7, size=1000, spread=1.0)
    rows = Rows.of(audited)
    inputs = np.column_stack(list(table.values()))
    values = []
    for class_weight in (None, "balanced"):
        found = estimator_membership(rows, LogisticRegression(C=1e4, class_weight=class_weight), inputs)
        values.append(input_divergence(rows, found.pairings).value)
    assert values[0] == pytest.approx(values[1], rel=0.05)


def test_missing_values_and_levels_are_features_too():
    rng = np.random.default_rng(8)
    audited = rng.random(1200) < 0.5
    gone = rng.random(1200) < np.where(audited, 0.4, 0.1)
    table = {
        "amount": np.where(gone, np.nan, rng.normal(size=1200)),
        "place": rng.integers(0, 300, 1200),
        "flat": np.zeros(1200),
    }
    rows = Rows.of(audited, rng.uniform(0.5, 2.0, 1200))
    found = choose_membership(rows, table)
    assert found.auc > 0.6
    names = [m.name for m in balance(rows, table, found, expit(rng.normal(size=1200))).mismatches]
    assert "amount missing" in names


def test_chunks_of_rows_and_fits_on_some_of_them(monkeypatch):
    audited, table, _ = narrower(9, size=900)
    rows = Rows.of(audited)
    whole = choose_membership(rows, table, offered=LOGISTIC)
    monkeypatch.setattr(module, "MODEL_CHUNK", 100)
    assert choose_membership(rows, table, offered=LOGISTIC).log_odds == pytest.approx(whole.log_odds, abs=1e-9)
    monkeypatch.setattr(module, "FITTED_ROWS", 100)
    assert all(fit.rows == 200 for fit in choose_membership(rows, table, offered=LOGISTIC).parts)


def test_every_choice_is_on_record():
    audited, table, _ = narrower(10, size=600)
    found = choose_membership(Rows.of(audited), table)
    assert len(found.parts) == 10
    for part in found.parts:
        assert part.trial.biases.keys() == part.trial.losses.keys()
        assert all(0.0 < loss < 2.0 for loss in part.trial.losses.values())
    assert found.name in part.trial.losses


def test_levels_are_ranked_by_frequency_and_unseen_ones_are_last():
    table = {"place": np.repeat([3, 0, 2, 1], [40, 30, 20, 5])}
    encoder = encoding(table, np.arange(95))
    assert encoder.raw({"place": np.array([3, 0, 2, 1, 9])}, slice(None))[:, 0].tolist() == [0, 1, 2, 3, 4]
    columns = encoder.matrix({"place": np.array([3, 0, 2, 1, 9])}, slice(None))
    assert columns.tolist() == [[0, 0], [1, 0], [0, 1], [0, 0], [0, 0]]


def test_applied_slopes_equal_the_matrix_times_slopes():
    rng = np.random.default_rng(3)
    table = {f"x{j}": rng.normal(size=900) for j in range(3)} | {"few": rng.integers(0, 3, 900) * 1.0}
    table["x1"][::7] = np.nan
    table |= {f"c{k}": rng.integers(0, k, 900) for k in (2, 5, 60)}
    encoder = encoding(table, np.arange(0, 900, 2))
    slopes = rng.normal(size=(len(encoder.kinds), 4))
    for index in (slice(100, 800), rng.integers(0, 900, 300)):
        expected = encoder.matrix(table, index) @ slopes
        assert encoder.applied(table, index, slopes) == pytest.approx(expected, abs=1e-12)
    only = {"c5": table["c5"]}
    encoder = encoding(only, np.arange(900))
    assert encoder.applied(only, slice(None), slopes[:4]) == pytest.approx(
        encoder.matrix(only, slice(None)) @ slopes[:4]
    )


def test_one_fit_on_all_rows_is_the_plug_in():
    audited, table, _ = narrower(15, size=800)
    rows = Rows.of(audited)
    log_odds = choose_membership(rows, table, offered=LINEAR).log_odds
    inputs = np.column_stack(list(table.values()))
    other = fit_log_odds(rows, LogisticRegression(C=1e6), inputs, np.ones(800, dtype=bool))
    assert np.corrcoef(log_odds, other)[0, 1] > 0.999


def test_few_rows_are_offered_penalised_models_only():
    audited, table, _ = narrower(11, size=150)
    offered = set(choose_membership(Rows.of(audited), table).parts[0].trial.losses)
    assert "splines" not in offered
    assert "linear, ridge" in offered


def test_identical_groups_have_no_divergence():
    audited, table, score = narrower(12, size=1000)
    rows = Rows.of(np.random.default_rng(0).permutation(audited))
    found = choose_membership(rows, table, offered=LOGISTIC)
    assert abs(found.auc - 0.5) < 0.05
    divergence = input_divergence(rows, found.pairings).normal().estimate()
    assert divergence.low <= 1e-3
    gradients = [gradient(rows, Scores.of(rows, score), pair) for pair in found.pairings]
    variance = gradient_variance(rows, gradients)
    assert not share_of(rows, gradients, variance, (table["one"] > 0).astype(int)).is_determined()


def test_complete_separation_is_an_error_and_weak_overlap_is_not(refused):
    audited, table, score = narrower(13, size=600)
    rows = Rows.of(audited)
    with refused(SupportError, "separate the two"):
        choose_membership(rows, {**table, "copy": audited.astype(int)})
    apart = {"one": table["one"] + 4.0 * audited}
    found = choose_membership(rows, apart, offered=LOGISTIC)
    assert found.clipped > 0.1
    assert "overlap too little" in " ".join(balance(rows, apart, found, score).reasons)


def test_mistakes_are_named():
    audited, _, _ = narrower(14, size=100)
    rows = Rows.of(audited)
    with pytest.raises(DataError, match="constant columns only"):
        choose_membership(rows, {"flat": np.ones(100)})
    with pytest.raises(DataError, match="infinite"):
        encoding({"one": np.array([0.0, np.inf, 1.0])}, np.arange(3))
    with pytest.raises(DataError, match="5 folds need 10"):
        row_folds(Rows.of(np.arange(30) < 6))


def test_the_product_of_two_models_errors_has_the_variance_that_neighbours_tell():
    """Five folds with errors of their own; a model of two folds errs by their mean, and a fold sees two such models."""
    errors = np.random.default_rng(0).standard_normal((20_000, 5, 3))  # of folds, in three coefficients
    cycle = (errors + np.roll(errors, -1, axis=1)) / 2

    def left(one, other):
        return (one * other).sum(axis=1)

    true = np.mean([left(cycle[:, (f + 1) % 5], cycle[:, (f + 3) % 5]) for f in range(5)], axis=0).var()
    disagreement = np.roll(cycle, -1, axis=1) - cycle
    products = np.array([left(disagreement[:, f], disagreement[:, (f + 1) % 5]) for f in range(5)])
    between = products / np.sqrt(4 * 5)
    assert 2 * (between**2).sum(axis=0).mean() == pytest.approx(true, rel=0.05)


def test_one_pairing_has_the_error_of_its_models_in_its_intervals():
    audited, table, score = narrower(3, size=30_000, spread=0.8)
    rows = Rows.of(audited)
    found = choose_membership(rows, table, offered=CURVED)
    (pair,) = found.pairings
    disagreement = pair.disagreement
    assert disagreement.apart.shape == (5, audited.sum())
    np.testing.assert_allclose(disagreement.apart @ disagreement.shares, 0.0, atol=1e-12)
    np.testing.assert_allclose(disagreement.apart.sum(axis=0), 0.0, atol=1e-9)
    assert disagreement.shares.sum() == pytest.approx(1.0)
    alone = replace(pair, disagreement=None)
    codes = np.digitize(table["one"], [-0.5, 0.5])
    for formula in (
        lambda one: input_divergence(rows, [one]),
        lambda one: gradient_variance(rows, [gradient(rows, Scores.of(rows, score), one)]),
        lambda one: explained_variance(rows, gradient(rows, Scores.of(rows, score), one), codes),
    ):
        wide, narrow = formula(pair), formula(alone)
        assert wide.value == narrow.value
        assert 1.0 < wide.se / narrow.se < 1.1
    outputs = gradient_variance(rows, [gradient(rows, Scores.of(rows, score), pair, 0.0, 1.0)])
    assert outputs.variance == pytest.approx(
        gradient_variance(rows, [gradient(rows, Scores.of(rows, score), alone, 0.0, 1.0)]).variance
    )
