"""Each f-divergence against its generator φ."""

import numpy as np
import pytest
from hypothesis import given
from tests.worlds import ALL, SMOOTH, random_world, worlds

from tiltlens.paper.divergence import DIVERGENCES

PHI = {
    "kl": lambda t: t * np.log(t),
    "reverse_kl": lambda t: -np.log(t),
    "chi2": lambda t: (t - 1) ** 2,
    "hellinger": lambda t: (np.sqrt(t) - 1) ** 2,
    "js": lambda t: (t * np.log(t) - (t + 1) * np.log((t + 1) / 2)) / 2,
    "tv": lambda t: np.abs(t - 1) / 2,
}


@pytest.mark.parametrize("name", ALL)
@given(world=worlds())
def test_divergence_is_the_sum_of_its_generator(name, world):
    value = DIVERGENCES[name].between(world.p0, world.p1)
    assert value == pytest.approx((world.p1 * PHI[name](world.p0 / world.p1)).sum(), abs=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_slope_and_curvature_against_finite_differences(name):
    d, h = DIVERGENCES[name], 1e-6
    world = random_world(3)
    q, p = world.p0, world.p1
    slope = (PHI[name](q / p + h) - PHI[name](q / p - h)) / (2 * h)
    assert d.slope(q, p) == pytest.approx(slope, abs=1e-6)
    curvature = (d.slope(q + h * q, p) - d.slope(q - h * q, p)) / (2 * h * q)
    assert d.curvature(q, p) == pytest.approx(curvature, rel=1e-5, abs=1e-6)
    if name in SMOOTH:
        assert d.slope_at_one == pytest.approx(float(d.slope(np.array([0.3]), np.array([0.3]))[0]))


@pytest.mark.parametrize("name", ALL)
def test_limits_at_zero_and_infinity(name):
    d, tiny = DIVERGENCES[name], 1e-13
    if np.isfinite(d.at_zero):
        assert PHI[name](tiny) == pytest.approx(d.at_zero, abs=1e-5)
    if np.isfinite(d.slope_at_infinity):
        assert d.slope(np.array([1.0]), np.array([tiny]))[0] == pytest.approx(d.slope_at_infinity, abs=1e-5)
    q, p = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.5, 0.5])
    value = d.between(q, p)
    assert value == pytest.approx(0.5 * d.at_zero + 0.5 * d.slope_at_infinity) or np.isinf(value)
    assert np.isinf(value) == (np.isinf(d.at_zero) or np.isinf(d.slope_at_infinity))
