"""Shapley values of gap(A) = gap − c_A, against brute force over orders, exact identities, the jackknife and truths."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from tests.estimators.test_sets import cell_sets, least_squares, ridge_sets

from tiltlens._estimators import sets as module
from tiltlens._estimators.feature_gap import feature_gap, joint_codes
from tiltlens._estimators.influence import Rows, satterthwaite
from tiltlens._estimators.outputs import Scores, gap
from tiltlens._estimators.sets import shapley_gaps, subset_weights

LEVELS = (3, 2, 4)


def draw(seed, size=600, noise=0.1, direct=0.0):
    """Return three dependent features, a group that shifts them, and a score with an interaction."""
    rng = np.random.default_rng(seed)
    audited = rng.random(size) < 0.4
    base = rng.random(size) + 0.3 * audited
    codes = [np.clip((levels * (0.6 * base + 0.4 * rng.random(size))).astype(int), 0, levels - 1) for levels in LEVELS]
    score = 0.1 + 0.1 * codes[0] + 0.2 * codes[1] * (codes[2] > 1) + noise * rng.random(size) + direct * audited
    return audited, score, codes


def values(audited, score, codes, weights=None, leaves_one_out=False):
    return shapley_gaps(cell_sets(Rows.of(audited, weights), score, codes, leaves_one_out), seed=0)


def brute_force(rows, score, codes):
    """Return each feature's mean contribution over all orders, every c_A by least squares with dummies."""

    def c(chosen):
        cells = joint_codes(np.column_stack([codes[j] for j in chosen]))[0] if chosen else np.zeros(len(score))
        return least_squares(rows, score, cells)

    orders = list(permutations(range(len(codes))))
    found = np.zeros(len(codes))
    for order in orders:
        for place, j in enumerate(order):
            found[j] += c(order[:place]) - c(order[: place + 1])
    return found / len(orders)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_shapley_values_against_all_orders(seed, is_weighted):
    audited, score, codes = draw(seed, 120, direct=-0.05)
    weights = np.random.default_rng(seed).uniform(0.5, 3.0, 120) if is_weighted else None
    found = values(audited, score, codes, weights)
    np.testing.assert_allclose(found.values, brute_force(Rows.of(audited, weights), score, codes), atol=1e-12)
    assert found.orders == 0


@pytest.mark.parametrize("leaves_one_out", [False, True])
def test_shapley_values_add_up_to_the_gap_less_c_of_all_features(leaves_one_out):
    audited, score, codes = draw(3, direct=-0.05)
    sets = cell_sets(Rows.of(audited), score, codes, leaves_one_out)
    nothing, everything = sets.sets([[], [0, 1, 2]]).values
    assert shapley_gaps(sets, 0).values.sum() == pytest.approx(nothing - everything, abs=1e-12)
    rows = Rows.of(audited)
    assert nothing == pytest.approx(gap(rows, Scores.of(rows, score)).value, abs=1e-12)


@pytest.mark.parametrize("leaves_one_out", [False, True])
def test_shapley_values_of_a_function_of_the_features_add_up_to_the_gap(leaves_one_out):
    audited, score, codes = draw(4, noise=0.0)
    audited[codes[0] == 0] = False  # values that nobody audited has do not break it
    rows = Rows.of(audited)
    found = values(audited, score, codes, leaves_one_out=leaves_one_out)
    assert found.values.sum() == pytest.approx(gap(rows, Scores.of(rows, score)).value, abs=1e-12)


@pytest.mark.parametrize("leaves_one_out", [False, True])
def test_swapping_the_groups_flips_the_signs_and_nothing_else(leaves_one_out):
    audited, score, codes = draw(5)
    one, other = (values(mine, score, codes, leaves_one_out=leaves_one_out) for mine in (audited, ~audited))
    np.testing.assert_allclose(other.values, -one.values, atol=1e-12)
    np.testing.assert_allclose(other.se, one.se, rtol=1e-9)


def test_the_shapley_value_of_a_single_feature_is_its_gap():
    audited, score, codes = draw(6)
    rows = Rows.of(audited)
    sets = cell_sets(rows, score, codes[:1])
    found = shapley_gaps(sets, 0)
    expected = feature_gap(rows, Scores.of(rows, score), sets.coefficient([0])).gap
    assert found.values[0] == pytest.approx(expected.value, abs=1e-12)
    degrees = float(satterthwaite(expected.influence, expected.variance))
    assert found.se[0] == pytest.approx(expected.se * np.sqrt(degrees / (degrees - 2.0)), rel=1e-9)


def test_a_feature_that_changes_nothing_gets_nothing():
    audited, score, codes = draw(7)
    noughts = np.zeros(len(score), dtype=int)
    found = values(audited, score, [*codes, noughts])
    assert (found.values[-1], found.se[-1]) == pytest.approx((0.0, 0.0), abs=1e-12)
    np.testing.assert_allclose(found.values[:-1], values(audited, score, codes).values, atol=1e-12)


def test_copies_share_what_one_of_them_would_get():
    audited, score, codes = draw(8)
    alone = values(audited, score, [codes[0], codes[1]]).values
    found = values(audited, score, [codes[0], codes[1], codes[1]]).values
    assert found[1] == pytest.approx(found[2], abs=1e-12)
    assert found.sum() == pytest.approx(alone.sum(), abs=1e-12)


def test_integer_weights_equal_repeated_rows():
    audited, score, codes = draw(9)
    times = np.random.default_rng(9).integers(1, 4, len(score))
    again = np.repeat(np.arange(len(score)), times)
    weighted = values(audited, score, codes, times)
    repeated = values(audited[again], score[again], [c[again] for c in codes])
    np.testing.assert_allclose(weighted.values, repeated.values, atol=1e-12)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_standard_errors_against_the_jackknife(is_weighted):
    audited, score, codes = draw(10, 500)
    codes = [codes[0], codes[1], (codes[2] > 1).astype(int)]
    weights = np.random.default_rng(10).uniform(0.5, 2.0, 500) if is_weighted else np.ones(500)

    def without(row):
        keep = np.arange(500) != row
        return values(audited[keep], score[keep], [c[keep] for c in codes], weights[keep]).values

    left_out = np.array([without(row) for row in range(500)])
    jackknife = np.sqrt(((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(values(audited, score, codes, weights).se, jackknife, rtol=0.05)


def test_intervals_hold_the_truth_over_draws():
    truth = values(*draw(0, 1_000_000, direct=-0.05)).values
    hits = []
    for seed in range(1, 201):
        found = values(*draw(seed, 1_000, direct=-0.05), leaves_one_out=True)
        hits.append(np.abs(found.values - truth) < 1.96 * found.se)
    coverage = np.mean(hits, axis=0)
    assert (coverage >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)).all()


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_weights_of_the_sets_share_out_all_that_the_whole_set_has(count):
    weights = subset_weights(count)
    total = weights.sum(axis=1)
    assert (total[0], total[-1]) == pytest.approx((1.0, -1.0))
    np.testing.assert_allclose(total[1:-1], 0.0, atol=1e-12)
    np.testing.assert_allclose(
        np.maximum(weights, 0).sum(axis=0), 1.0
    )  # each feature's contributions have mean weight 1


@pytest.mark.parametrize("kind", ["cells", "ridges"])
def test_orders_give_the_values_of_all_sets_with_the_error_between_them(kind, monkeypatch):
    audited, score, codes = draw(11)
    sets = cell_sets(Rows.of(audited), score, codes, leaves_one_out=True) if kind == "cells" else ridge_sets(12)
    exact = shapley_gaps(sets, 0)
    monkeypatch.setattr(module, "EXACT_SHAPLEY_FEATURES", 0)
    sampled, again, other = (shapley_gaps(sets, seed) for seed in (0, 0, 1))
    assert sampled.orders == module.ORDERS
    np.testing.assert_array_equal(sampled.values, again.values)
    assert (sampled.values != other.values).any()
    assert sampled.values.sum() == pytest.approx(exact.values.sum(), abs=1e-9)  # every order adds up
    between = np.sqrt(np.maximum(sampled.se**2 - exact.se**2, 0)) + 1e-9
    assert (np.abs(sampled.values - exact.values) < 4 * between + 0.05 * exact.se).all()


@pytest.mark.parametrize("kind", ["cells", "ridges"])
def test_of_very_many_features_some_orders_give_errors_and_all_give_values(kind, monkeypatch):
    audited, score, codes = draw(11)
    sets = cell_sets(Rows.of(audited), score, codes, leaves_one_out=True) if kind == "cells" else ridge_sets(12)
    monkeypatch.setattr(module, "EXACT_SHAPLEY_FEATURES", 0)
    all_looked = shapley_gaps(sets, 0)
    monkeypatch.setattr(module, "MANY_SHARING", 0)
    some_looked = shapley_gaps(sets, 0)
    np.testing.assert_allclose(some_looked.values, all_looked.values, atol=1e-12)
    np.testing.assert_allclose(some_looked.se, all_looked.se, rtol=0.15)


def test_the_error_between_orders_covers(monkeypatch):
    """Of copies the first in an order takes all: few orders differ much, or by chance not at all."""
    audited, score, codes = draw(12)
    sets = cell_sets(Rows.of(audited), score, [*codes, codes[0], codes[1]], leaves_one_out=True)
    exact = shapley_gaps(sets, 0).values
    monkeypatch.setattr(module, "EXACT_SHAPLEY_FEATURES", 0)
    monkeypatch.setattr(module, "_se", lambda found: 0.0)  # of rows: the same rows in every draw
    draws = [shapley_gaps(sets, seed) for seed in range(100)]  # 95 % of 200; 92 % without Student's quantile
    assert np.mean([np.abs(one.values - exact) <= 1.96 * one.se + 1e-12 for one in draws]) >= 0.93


def test_nine_features_take_orders_and_eight_take_every_set():
    audited, score, codes = draw(12)
    assert values(audited, score, [*codes, *codes, *codes[:2]]).orders == 0
    assert values(audited, score, [*codes, *codes, *codes]).orders == module.ORDERS


@pytest.mark.parametrize("most_exact", [8, 0])
@pytest.mark.parametrize(("kind", "start"), [("cells", [1]), ("ridges", [3, 1])])
def test_a_game_that_starts_from_a_set_shares_out_what_that_set_leaves(most_exact, kind, start, monkeypatch):
    monkeypatch.setattr(module, "EXACT_SHAPLEY_FEATURES", most_exact)
    audited, score, codes = draw(3, 300, direct=-0.05)
    sets = cell_sets(Rows.of(audited), score, codes) if kind == "cells" else ridge_sets(12)
    left, one, other, every = sets.sets([start, [*start, 0], [*start, 2], [*start, 0, 2]]).values
    found = shapley_gaps(sets, seed=0, start=start)
    by_hand = [0.5 * (left - one + other - every), 0.5 * (left - other + one - every)]
    np.testing.assert_allclose(found.values, by_hand, atol=1e-9)
    assert found.values.sum() == pytest.approx(left - every, abs=1e-9)
    assert found.se.shape == (2,)
