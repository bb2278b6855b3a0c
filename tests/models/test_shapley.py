"""Learned Shapley values: they add up, and hold the truth of Gaussian features and the values of joint cells."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from tiltlens.estimators.influence import Rows
from tiltlens.estimators.outputs import gap
from tiltlens.estimators.shapley import joint_cells, shapley_gaps
from tiltlens.models.membership import row_folds
from tiltlens.models.shapley import learned_shapley

SHIFT = np.array([0.6, 0.3, 0.3, 0.0, 0.5, 0.0])
SLOPES = np.array([0.1, 0.05, -0.05, 0.08, 0.0, 0.0])


def gaussian(seed, size=2000, correlation=0.5):
    """Return shifted Gaussian features, of one correlation, and a linear score."""
    rng = np.random.default_rng(seed)
    audited = rng.random(size) < 0.4
    common = rng.standard_normal((size, 1))
    x = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * rng.standard_normal((size, 6))
    x += audited[:, None] * SHIFT
    return audited, {f"x{j}": x[:, j] for j in range(6)}, 0.5 + x @ SLOPES


def gaussian_truth(correlation):
    """Return the Shapley values of v(A) = μ_A·Σ_AA⁻¹Σ_A·β over all subsets."""
    sigma = np.full((6, 6), correlation) + (1 - correlation) * np.eye(6)

    def v(chosen):
        own = list(chosen)
        return SHIFT[own] @ np.linalg.solve(sigma[np.ix_(own, own)], sigma[own] @ SLOPES) if own else 0.0

    values = np.zeros(6)
    for j in range(6):
        rest = [k for k in range(6) if k != j]
        for size in range(6):
            weight = math.factorial(size) * math.factorial(5 - size) / math.factorial(6)
            values[j] += weight * sum(v((*chosen, j)) - v(chosen) for chosen in combinations(rest, size))
    return values


def found(audited, table, score, seed=0, weights=None):
    return learned_shapley(Rows.of(audited, weights), table, score, row_folds(audited, 5, seed), seed)


def test_values_add_up_to_what_all_features_explain_and_that_is_the_gap():
    audited, table, score = gaussian(0)
    shapley = found(audited, table, score)
    assert sum(value.value for value in shapley.values) == pytest.approx(shapley.explained.value, abs=1e-12)
    direct = gap(Rows.of(audited), score)
    assert shapley.explained.value == pytest.approx(direct.value, abs=0.1 * direct.se)
    assert shapley.explained.se == pytest.approx(direct.se, rel=0.05)
    assert shapley.orders == 32


@pytest.mark.parametrize("correlation", [0.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_intervals_hold_the_truth_of_gaussian_features(correlation):
    truth = gaussian_truth(correlation)
    if correlation == 0:
        np.testing.assert_allclose(truth, SHIFT * SLOPES, atol=1e-12)
    hits = []
    for seed in range(40):
        values = [value.estimate(0.95) for value in found(*gaussian(seed, correlation=correlation), seed).values]
        hits.append([e.low <= t <= e.high for e, t in zip(values, truth, strict=True)])
    assert np.mean(hits) > 0.95 - 3 * math.sqrt(0.95 * 0.05 / np.size(hits))
    assert (np.mean(hits, axis=0) >= 0.84).all()


def test_values_are_those_of_joint_cells_where_both_can_be_had():
    rng = np.random.default_rng(1)
    audited = rng.random(20_000) < 0.5
    base = rng.random(20_000) + 0.2 * audited
    codes = [((0.6 * base + 0.5 * rng.random(20_000)) * levels / 1.3).astype(int) for levels in (3, 2, 4)]
    score = 0.1 + 0.1 * codes[0] + 0.2 * codes[1] * (codes[2] > 1)
    exact = shapley_gaps(joint_cells(Rows.of(audited), score, codes))
    shapley = found(audited, {f"x{j}": code for j, code in enumerate(codes)}, score)
    assert shapley.orders == 6
    for one, other in zip(shapley.values, exact, strict=True):
        assert one.value == pytest.approx(other.value, abs=other.se)
        assert one.se == pytest.approx(other.se, rel=0.2)


def test_integer_weights_move_the_values_as_repeated_rows_do():
    audited, table, score = gaussian(2)
    times = np.where(table["x0"] > 0.5, 3, 1)
    weighted = found(audited, table, score, weights=times)
    again = np.repeat(np.arange(len(score)), times)
    repeated = found(audited[again], {name: x[again] for name, x in table.items()}, score[again])
    for one, other in zip(weighted.values, repeated.values, strict=True):
        assert one.value == pytest.approx(other.value, abs=2 * other.se)
    plain = found(audited, table, score)
    assert abs(weighted.explained.value - plain.explained.value) > 0.005


def test_orders_that_differ_widen_the_interval():
    audited, table, score = gaussian(3, correlation=0.9)
    rows, fold = Rows.of(audited), row_folds(audited, 5, 0)
    few, many = (learned_shapley(rows, table, score, fold, 0, orders) for orders in (4, 400))
    assert few.values[0].se > many.values[0].se
    assert many.orders == 400
