"""What separate models would gain: truths of Wang, Hsu, Diaz & Calmon (2021), and small errors of the predictions."""

import numpy as np
import pytest

from tiltlens._estimators.error_rates import LOSSES, SplitPredictions
from tiltlens._estimators.influence import Rows

# P_s = N(0, R diag(1, 3/2) Rᵀ), y_s = 1 on one side of the shorter axis, R a rotation by ±kπ/16: error rates, k = 0..8.
ROTATED = (0.0, 0.073375, 0.132608, 0.177884, 0.217953, 0.262784, 0.321763, 0.401811, 0.5)


def rotated_pair(k):
    """Return the true functions of the rotated pair on directions: at equal weights, the radius does not matter."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    angle = np.concatenate([(i + 0.5) * np.pi / 16 + nodes * np.pi / 32 for i in range(32)])
    turned = [angle - side * k * np.pi / 16 for side in (1, -1)]
    inverse = [np.cos(t) ** 2 + np.sin(t) ** 2 / 1.5 for t in turned]  # r²·this/2 is the exponent of the density
    y = [(np.cos(t) > 0) * 1.0 for t in turned]
    mass = np.tile(weights, 64) / np.concatenate(inverse)
    rows = Rows.of(np.repeat([True, False], angle.size), mass)
    ratio = inverse[1] - inverse[0]
    return SplitPredictions(rows, np.concatenate(y), *(np.tile(part, 2) for part in (*y, ratio)))


def population(p0, p1, y0, y1):
    """Return the true functions of a finite world, each cell a row for every group and outcome."""
    cells = np.arange(p0.size)
    audited, cell = np.repeat([True, False], 2 * p0.size), np.tile(cells, 4)
    outcome = np.tile(np.repeat([1.0, 0.0], p0.size), 2)
    rows = Rows.of(audited, np.concatenate([p0 * y0, p0 * (1 - y0), p1 * y1, p1 * (1 - y1)]))
    return rows, outcome, cell


def finite_world(seed=1, cells=5):
    random = np.random.default_rng(seed)
    return [random.dirichlet(np.ones(cells)) for _ in range(2)] + [random.uniform(0.1, 0.9, cells) for _ in range(2)]


@pytest.mark.parametrize("k", range(9))
def test_the_error_rate_of_the_rotated_pair(k):
    assert rotated_pair(k).gain("error_rate").value == pytest.approx(ROTATED[k], abs=1e-6)


def test_equal_features_and_outcomes_a_constant_apart_gain_a_quarter_of_its_square():
    rows, outcome, cell = population(*(np.array([0.5, 0.5]),) * 2, np.array([0.3, 0.6]), np.array([0.5, 0.8]))
    y0, y1 = np.array([0.3, 0.6])[cell], np.array([0.5, 0.8])[cell]
    found = SplitPredictions(rows, outcome, y0, y1, np.zeros(cell.size))
    assert found.gain("brier").value == pytest.approx(0.2**2 / 4)
    largest, weight = found.largest_gain("brier")
    assert largest.value == pytest.approx(0.2**2 / 4)
    assert weight == pytest.approx(0.5, abs=1e-3)


def test_groups_without_common_features_gain_nothing():
    rows, outcome, cell = population(
        np.array([1 - 1e-9, 1e-9]), np.array([1e-9, 1 - 1e-9]), np.full(2, 0.3), np.full(2, 0.7)
    )
    ratio = np.where(cell == 0, 20.0, -20.0)
    found = SplitPredictions(rows, outcome, np.full(cell.size, 0.3), np.full(cell.size, 0.7), ratio)
    assert found.gain("brier").value == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("weight", [0.2, 0.5])
def test_the_gain_in_brier_score_is_the_variance_between_groups_given_features(weight):
    p0, p1, y0, y1 = finite_world()
    rows, outcome, cell = population(p0, p1, y0, y1)
    found = SplitPredictions(rows, outcome, y0[cell], y1[cell], np.log(p0 / p1)[cell]).gain("brier", weight)
    both = weight * p0 + (1 - weight) * p1
    e = weight * p0 / both
    assert found.value == pytest.approx(both @ (e * (1 - e) * (y1 - y0) ** 2), rel=1e-9)


@pytest.mark.parametrize("loss", ["brier", "log_loss"])
def test_small_errors_of_the_predictions_move_no_gain_in_first_order(loss):
    p0, p1, y0, y1 = finite_world()
    rows, outcome, cell = population(p0, p1, y0, y1)
    random, step = np.random.default_rng(2), 1e-4
    away = [random.normal(size=p0.size) for _ in range(3)]

    def gains(size):
        wrong = [part + size * by for part, by in zip((y0, y1, np.log(p0 / p1)), away, strict=True)]
        return np.array(
            [one.value for one in SplitPredictions(rows, outcome, *(w[cell] for w in wrong)).gains(loss, 0.3)]
        )

    assert (gains(step) - gains(-step)) / (2 * step) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_both_groups_own_gains_make_the_gain_of_their_weights(loss):
    p0, p1, y0, y1 = finite_world()
    rows, outcome, cell = population(p0, p1, y0, y1)
    found = SplitPredictions(rows, outcome, y0[cell], y1[cell], np.log(p0 / p1)[cell])
    audited, reference = found.gains(loss, 0.3)
    assert found.gain(loss, 0.3).value == pytest.approx(0.3 * audited.value + 0.7 * reference.value)
    assert min(audited.value, reference.value) >= -1e-12
