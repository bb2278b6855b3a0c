"""Error exponents against closed forms, brute force and simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.worlds import random_world, worlds

import tiltlens as tl
from tiltlens.paper.exponents import TestPair


@given(worlds())
def test_stein_is_kl_and_renyi_of_order_one(world):
    e = world.exponents()
    assert e.stein_inputs == pytest.approx(world.p0 @ np.log(world.p0 / world.p1))
    assert e.stein_outputs == pytest.approx(world.y0 @ np.log(world.y0 / world.y1))
    assert e.renyi(1) == e.stein_inputs
    assert e.renyi(1 - 1e-7) == pytest.approx(e.stein_inputs, abs=1e-5)
    assert e.renyi(1 + 1e-7) == pytest.approx(e.stein_inputs, abs=1e-5)


@given(worlds())
def test_renyi_of_any_order_against_its_definition(world):
    e, p0, p1 = world.exponents(), world.p0, world.p1
    assert e.renyi(0.5) == pytest.approx(-2 * np.log(np.sqrt(p0 * p1).sum()))
    assert e.renyi(2) == pytest.approx(np.log((p0**2 / p1).sum()))
    assert e.renyi(np.inf) == pytest.approx(np.log((p0 / p1).max()))
    orders = [e.renyi(a) for a in (0, 0.3, 0.9, 1, 1.5, 4)]
    assert orders == sorted(orders) or np.allclose(orders, sorted(orders), atol=1e-12)


@given(worlds())
def test_chernoff_against_a_grid(world):
    e = world.exponents()
    grid = np.linspace(0, 1, 2001)
    values = [-np.log((world.p0**a * world.p1 ** (1 - a)).sum()) for a in grid]
    assert e.chernoff_inputs >= max(values) - 1e-12
    assert e.chernoff_inputs == pytest.approx(max(values), abs=1e-5)
    assert e.inputs.chernoff_order == pytest.approx(grid[np.argmax(values)], abs=2e-3)


@given(worlds())
def test_chernoff_is_where_the_trade_off_balances(world):
    """At the Chernoff order both error exponents are equal (the curve meets the diagonal)."""
    curve = world.exponents().inputs.trade_off(401)
    ahead = curve[:, 1] - curve[:, 2]  # rises, and crosses 0 between two points
    balanced = np.interp(0.0, ahead, curve[:, 1])
    assert balanced == pytest.approx(world.exponents().chernoff_inputs, rel=1e-4, abs=1e-6)


@given(worlds())
def test_trade_off_runs_from_stein_to_stein_and_is_monotone(world):
    curve = world.exponents().outputs.trade_off()
    assert curve[0, 1:] == pytest.approx([0, world.exponents().stein_outputs], abs=1e-12)
    assert curve[-1, 1:] == pytest.approx([world.y1 @ np.log(world.y1 / world.y0), 0], abs=1e-9)
    assert (np.diff(curve[:, 1]) >= -1e-12).all()
    assert (np.diff(curve[:, 2]) <= 1e-12).all()


def brute_force_decisions(p, p1, alpha, beta):
    """The smallest n by trying every cut of every n, from binomial sums."""
    for n in range(1, 2000):
        counts = np.arange(n + 1)
        null, other = stats.binom.pmf(counts, n, p), stats.binom.pmf(counts, n, p1)
        below_null, below_other = np.cumsum(null), np.cumsum(other)
        if p > p1:
            ok = (below_null <= alpha) & (1 - below_other <= beta)
        else:
            ok = (1 - below_null + null <= alpha) & (below_other - other <= beta)
        if ok.any():
            return n
    raise AssertionError("no sample size found")


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.sampled_from([0.01, 0.05, 0.2]), st.sampled_from([0.05, 0.2]))
def test_decisions_needed_against_brute_force(p, p1, alpha, beta):
    if abs(p - p1) < 0.15:
        return
    pair = TestPair(np.array([1 - p, p]), np.array([1 - p1, p1]))
    assert pair.detection_sample_size(alpha, beta) == brute_force_decisions(p, p1, alpha, beta)


def test_equal_groups_are_never_told_apart():
    world = tl.World([0.5, 0.5], [0.5, 0.5], [0.2, 0.8])
    e = world.exponents()
    assert (e.stein_inputs, e.chernoff_inputs, e.chernoff_outputs) == (0, 0, 0)
    assert e.inputs.chernoff_order == 0.5
    assert e.detection_sample_size() is None


def test_infinite_exponents_are_errors_that_say_so(refused):
    nested = tl.World([0.5, 0.5, 0], [0, 0.5, 0.5], [0.2, 0.4, 0.9]).exponents()
    with refused(tl.TiltlensError, "Stein's exponent is"):
        _ = nested.stein_inputs
    with refused(tl.TiltlensError, "Rényi divergence"):
        nested.renyi(2)
    assert np.isfinite(nested.renyi(0.5))
    assert np.isfinite(nested.chernoff_inputs)
    assert np.isfinite(nested.inputs.trade_off()).all()
    disjoint = tl.World([1, 0], [0, 1], [0.2, 0.4]).exponents()
    with refused(tl.TiltlensError, "the groups"):
        _ = disjoint.chernoff_inputs
    with refused(tl.TiltlensError, "the groups"):
        disjoint.inputs.trade_off()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.renyi(-1), "`order` must be a number ≥ 0, got -1"),
        (lambda e: e.renyi(float("nan")), "`order` must be a number ≥ 0, got nan"),
        (lambda e: e.detection_sample_size(alpha=0), "`alpha` must be between 0 and 1, got 0"),
        (lambda e: e.detection_sample_size(beta=1), "`beta` must be between 0 and 1, got 1"),
        (lambda e: e.inputs.trade_off(1), "`points` must be a whole number of at least 2, got 1"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(tl.TiltlensError, match=message):
        call(random_world(0).exponents())


def test_decisions_needed_is_for_two_outcomes_and_countable_differences():
    with pytest.raises(tl.TiltlensError, match="two outcomes, got 3"):
        random_world(0, outcomes=3).exponents().detection_sample_size()
    close = TestPair(np.array([0.5, 0.5]), np.array([0.5 - 1e-6, 0.5 + 1e-6]))
    with pytest.raises(tl.TiltlensError, match="must stay below 1,000,000"):
        close.detection_sample_size()


@pytest.mark.parametrize(
    ("p", "p1", "alpha", "beta"),
    [
        (0.02, 0.0002, 0.01, 0.05),
        (0.1, 0.001, 1e-4, 0.05),
        (0.3, 0.33, 0.9, 0.05),
        (0.5, 0.52, 0.4, 0.5),
        (1.0, 0.9, 0.05, 0.05),
    ],
)
def test_decisions_needed_is_the_smallest_even_where_the_normal_law_is_far_off(p, p1, alpha, beta):
    pair = TestPair(np.array([1 - p, p]), np.array([1 - p1, p1]))
    assert pair.detection_sample_size(alpha, beta) == brute_force_decisions(p, p1, alpha, beta)


def test_tiny_rates_that_differ_are_told_apart_or_said_to_be_too_rare():
    pair = TestPair(np.array([1 - 9e-13, 9e-13]), np.array([1 - 1e-14, 1e-14]))
    with pytest.raises(tl.TiltlensError, match="must stay below"):
        pair.detection_sample_size()


@pytest.mark.parametrize("step", [1e-6, 1e-9, 1e-12, 1e-15])
def test_renyi_is_smooth_at_order_one(step):
    e = tl.World([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.8, 0.5, 0.1]).exponents()
    for order in (1 - step, 1 + step):
        assert e.renyi(order) == pytest.approx(e.stein_inputs, rel=2 * step + 1e-10)


def test_renyi_of_a_huge_order_is_the_largest_log_ratio():
    e = tl.World([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.8, 0.5, 0.1]).exponents()
    assert e.renyi(1e308) == pytest.approx(e.renyi(np.inf))
    assert e.renyi(1e5) == pytest.approx(e.renyi(np.inf), abs=1e-4)
