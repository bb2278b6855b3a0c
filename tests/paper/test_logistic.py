"""The paper's Example 1 equals the general form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.worlds import random_unit_perturbations

import tiltlens as tl


def logistic_world(seed, atoms=8, features=3):
    """A world whose membership is logistic: P1 ∝ P0·exp(−θ·x)."""
    rng = np.random.default_rng(seed)
    x, theta = rng.normal(size=(atoms, features)), rng.normal(size=features)
    p0 = rng.dirichlet(np.ones(atoms))
    p1 = p0 * np.exp(-x @ theta)
    world = tl.World(p0, p1 / p1.sum(), rng.random(atoms))
    gamma1 = np.log(world.y0[1] / world.y0[0]) - np.log(world.y1[1] / world.y1[0])
    return world, x, theta, gamma1


@given(st.integers(0, 10**6), st.floats(0, 3), st.floats(0, 3))
def test_example_1_f_l_is_linear_and_the_slope_is_the_stated_sum(seed, l2, l4):
    world, x, theta, gamma1 = logistic_world(seed)
    case = tl.logistic_case(theta, gamma1, x, world.channel[:, 1], world.p0)
    ratio = np.log(world.p0 / world.p1)
    assert case.f_l(x) == pytest.approx(ratio - world.p0 @ ratio, abs=1e-9)
    if l2 + l4 == 0:
        return
    weights = (0, l2, 0, l4)
    for f in random_unit_perturbations(world.p0, seed, count=3):
        assert case.slope(f, l2, l4) == pytest.approx(world.slope(f, weights), abs=1e-9)
    exact = world.correction(weights)
    assert case.correction(l2, l4) == pytest.approx(exact.values, abs=1e-7)
    assert case.slope(exact.values, l2, l4) == pytest.approx(exact.descent_rate, abs=1e-9)


def test_example_1_theta_is_the_coefficient_of_a_model_for_the_audited_group():
    """The sign trap: θ is the usual coefficient of a logistic model for S = 0, minus that of one for S = 1."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    audited = rng.random(4000) < 1 / (1 + np.exp(-(0.3 + x @ [1.0, -0.5])))
    theta = LogisticRegression(C=np.inf).fit(x, audited).coef_[0]
    reference_model = LogisticRegression(C=np.inf).fit(x, ~audited)
    assert theta == pytest.approx(-reference_model.coef_[0], abs=1e-3)
    case = tl.logistic_case(theta, 0.4, x[audited], np.full(audited.sum(), 0.5))
    log_odds = -reference_model.decision_function(x[audited])
    assert case.f_l(x[audited]) == pytest.approx(log_odds - log_odds.mean(), abs=1e-2)


def test_example_1_without_any_slope_has_nothing_to_correct():
    case = tl.logistic_case([0.0, 0.0], 0.0, np.eye(2), [0.2, 0.8])
    assert (case.correction() == 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], 0.1, np.eye(2), [0.1, 0.2]), "`theta` must have one coefficient for each feature, got 1 for 2"),
        (([1.0, 2.0], 0.1, np.eye(2), [0.1, 1.2]), r"`scores` must lie in \[0, 1\]"),
        (([1.0, np.nan], 0.1, np.eye(2), [0.1, 0.2]), "`theta` must be finite"),
        (([1.0, 2.0], np.inf, np.eye(2), [0.1, 0.2]), "`gamma1` must be finite"),
        (([1.0, 2.0], 0.1, np.eye(2), [0.1]), "`scores` must be as long as `features`"),
        (([1.0, 2.0], 0.1, np.eye(2), [0.1, 0.2], [0.5, 0.4]), "`p0` must sum to 1"),
    ],
)
def test_bad_logistic_cases_are_named(arguments, message):
    with pytest.raises(tl.TiltlensError, match=message):
        tl.logistic_case(*arguments)
