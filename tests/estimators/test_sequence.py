"""Confidence sequences: the published boundary, and its promise at all looks at once."""

import math

import numpy as np
import pytest

from tiltlens._estimators.estimate import Sequence, quantile, sequence_factor
from tiltlens.errors import DataError


def boundary(n, n0, alpha):
    """Waudby-Smith et al. (2024), their (6) and (8)."""
    rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1) / n0
    return math.sqrt(2 * (n * rho2 + 1) / (n * rho2) * math.log(math.sqrt(n * rho2 + 1) / alpha))


@pytest.mark.parametrize("n", [10, 100, 1_000, 100_000])
def test_factor_equals_the_published_boundary(n):
    assert sequence_factor(n / 500, 0.95) == pytest.approx(boundary(n, 500, 0.05), rel=1e-12)


def test_factor_is_smallest_near_n0_and_always_beyond_that_of_one_look():
    factors = [sequence_factor(time, 0.95) for time in (0.05, 0.5, 1.0, 3.0, 100.0)]
    assert min(factors) == factors[2] > quantile(0.95)


def test_a_sequence_holds_at_all_looks_where_fixed_intervals_do_not():
    rng = np.random.default_rng(0)
    looks = np.arange(20, 2_020, 20)
    sums = rng.standard_normal((200, looks[-1])).cumsum(axis=1)[:, looks - 1]
    z = np.abs(sums) / np.sqrt(looks)
    factors = np.array([sequence_factor(n / 100, 0.95) for n in looks])
    assert (z > factors).any(axis=1).mean() <= 0.05
    assert (z > quantile(0.95)).any(axis=1).mean() > 0.25


def test_a_ratio_is_measured_on_its_log_scale():
    ratio = Sequence(math.log(0.8), 0.1, 1.0, is_log=True).estimate(0.95)
    assert ratio.value == pytest.approx(0.8)
    assert ratio.low * ratio.high == pytest.approx(0.64)
    with pytest.raises(DataError, match="confidence"):
        sequence_factor(1.0, 95)
