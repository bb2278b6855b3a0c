"""How strong an omitted factor must be: published numbers, DoubleML's bounds, and the theorem on finite worlds."""

import math

import numpy as np
import pytest

from tiltlens._estimators.feature_gap import (
    bias_factor,
    bias_scale,
    mean_coefficient,
    partial_strengths,
    robustness_value,
    strength_multiple,
)
from tiltlens._estimators.influence import Rows, combine

# Cinelli & Hazlett (2020), Table 1: estimate, standard error and degrees of freedom of the Darfur regression.
DARFUR = {"estimate": 0.097, "t": 4.184, "dof": 783, "partial_r2": 0.022, "rv": 0.139, "rv_5_percent": 0.076}
# DoubleML 0.11.4, DoubleMLPLR.sensitivity_analysis with rho=1 and the nuisances of `plr`: cf_y, cf_d, lower, upper.
DOUBLE_ML = (
    (0.03, 0.03, -0.09226140687911107, -0.08029715848330042),
    (0.10, 0.20, -0.11733131590394940, -0.05522724945846208),
    (0.40, 0.05, -0.11477458264108095, -0.05778398272133054),
)
DOUBLE_ML_RV = 0.35329691178105627


def made(rows, group, score, e, m):
    parts = (group - e) * (score - m), (group - e) ** 2, (score - m) ** 2
    return mean_coefficient(rows, *parts)


def plr():
    """Return the groups, scores and nuisances that DoubleML was given."""
    random, n = np.random.default_rng(3), 400
    d = np.repeat([1.0, 0.0], n // 2)
    x = random.normal(size=(n, 3)) + 0.4 * d[:, None]
    y = 1 / (1 + np.exp(-(x @ [0.5, -0.3, 0.2] - 0.4 * d))) + 0.05 * random.normal(size=n)
    return d, y, np.clip(0.5 + 0.1 * x[:, 0] + 0.05 * x[:, 1], 0.05, 0.95), 0.4 + 0.1 * x[:, 0] - 0.05 * x[:, 1]


def test_the_robustness_value_of_darfur_against_cinelli_and_hazlett():
    f = DARFUR["t"] / math.sqrt(DARFUR["dof"])  # |c|/𝒮
    near = (DARFUR["t"] - 1.963) / math.sqrt(DARFUR["dof"])
    assert f**2 / (1 + f**2) == pytest.approx(DARFUR["partial_r2"], abs=5e-4)
    assert robustness_value(f, 1.0) == pytest.approx(DARFUR["rv"], abs=5e-4)
    assert robustness_value(near, 1.0) == pytest.approx(DARFUR["rv_5_percent"], abs=5e-4)


def test_bounds_are_those_of_doubleml_for_the_same_nuisances():
    d, y, e, m = plr()
    rows = Rows.of(d > 0)
    c = made(rows, d, y, e, m)
    scale = bias_scale(rows, c)
    for r2_score, r2_group, low, high in DOUBLE_ML:
        reach = bias_factor(r2_score, r2_group) * scale.value
        assert c.value - reach == pytest.approx(low, abs=1e-9)
        assert c.value + reach == pytest.approx(high, abs=1e-9)
    assert robustness_value(c.value, scale.value) == pytest.approx(DOUBLE_ML_RV, abs=1e-5)  # it is searched for there


def test_the_influence_of_a_bound_is_the_derivative_by_the_row_weight():
    d, y, e, m = plr()

    def bound(weights):
        rows = Rows.of(d > 0, weights)
        c = made(rows, d, y, e, m)
        scale = bias_scale(rows, c)
        return combine(c.value + 0.3 * scale.value, [(1.0, c.estimate(rows)), (0.3, scale)])

    found = bound(np.ones(len(d)))
    for row in (0, 7, 250):
        step = np.zeros(len(d))
        step[row] = 1e-5
        slope = (bound(1 + step).value - bound(1 - step).value) / 2e-5
        assert found.influence[row] == pytest.approx(slope, rel=1e-5, abs=1e-9)


def strengths(group, score, long, short):
    """Return c, V and D of the projections on a longer and a shorter set of columns."""
    means = []
    for columns in (long, short):
        residual = [v - columns @ np.linalg.lstsq(columns, v, rcond=None)[0] for v in (group, score)]
        means.append([residual[0] @ residual[1], residual[0] @ residual[0], residual[1] @ residual[1]])
    return np.array(means).T / len(group)


@pytest.mark.parametrize("seed", range(5))
def test_no_left_out_feature_moves_the_gap_by_more_than_the_bound(seed):
    random = np.random.default_rng(seed)
    x = random.normal(size=(300, 4))
    group = (x @ random.normal(size=4) + random.normal(size=300) > 0) * 1.0
    score = x @ random.normal(size=4) + group * (x[:, 0] > 0) + random.normal(size=300)  # not partially linear
    columns = np.column_stack([np.ones(300), x])
    product, residual, left = strengths(group, score, columns, columns[:, :-1])
    (r2_score,), (r2_group,) = partial_strengths(product, residual, left)
    c = product / residual
    scale = math.sqrt(left[1] / residual[1] - c[1] ** 2)
    assert abs(c[0] - c[1]) <= scale * bias_factor(r2_score, r2_group) * (1 + 1e-12)


def test_the_multiple_of_a_yardstick_brings_the_gap_to_0():
    for r2_score, r2_group in ((0.05, 0.02), (0.9, 0.01), (0.3, 0.6)):
        k = strength_multiple(0.1, 0.5, r2_score, r2_group)
        assert 0.5 * bias_factor(min(k * r2_score, 1.0), k * r2_group) == pytest.approx(0.1, rel=1e-12)
    assert strength_multiple(0.0, 0.5, 0.1, 0.1) == 0.0
    assert strength_multiple(0.1, 0.5, 0.1, 0.0) is None
    assert strength_multiple(0.1, 0.0, 0.1, 0.1) is None


def test_a_score_that_features_and_group_determine_leaves_no_room_for_an_omitted_factor():
    d, _, e, _ = plr()
    rows = Rows.of(d > 0)
    c = made(rows, d, 0.3 * d, e, 0.3 * e)
    assert bias_scale(rows, c).value == pytest.approx(0.0, abs=1e-7)
    assert robustness_value(0.3, 0.0) == 1.0
    assert robustness_value(0.0, 0.0) == 0.0
