"""Every lemma, theorem and corollary of the paper, against something independent of the code under test."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.worlds import (
    SMOOTH,
    conic_minimiser,
    finite_difference_slope,
    lambdas,
    random_unit_perturbations,
    random_world,
    worlds,
)

import tiltlens as tl

seeds = st.integers(0, 10**6)
positive = st.floats(0.05, 5.0)


@given(worlds(), lambdas(input_term=False), st.sampled_from(SMOOTH), seeds)
def test_lemma_1_against_finite_differences(world, weights, divergence, seed):
    for f in random_unit_perturbations(world.p0, seed, count=2):
        f = f / max(1.0, np.abs(f).max())
        numeric = finite_difference_slope(world, f, weights, divergence)
        assert world.slope(f, weights, divergence) == pytest.approx(numeric, rel=1e-4, abs=1e-5)


@given(worlds(), lambdas(input_term=False), seeds)
def test_lemma_1_for_total_variation_against_finite_differences(world, weights, seed):
    for f in random_unit_perturbations(world.p0, seed, count=2):
        numeric = finite_difference_slope(world, f, weights, "tv", epsilon=1e-7)
        assert world.slope(f, weights, "tv") == pytest.approx(numeric, abs=1e-6)


def test_lemma_1_for_total_variation_at_a_kink_against_finite_differences():
    world = tl.World([0.3, 0.3, 0.4], [0.3, 0.2, 0.5], [0.2, 0.5, 0.9])  # P0 = P1 on the first atom
    f = np.array([1.0, 1.0, -1.5])
    for weights in [(0, 1, 0, 0), (1, 1, 1, 1)]:
        assert world.slope(f, weights, "tv") == pytest.approx(finite_difference_slope(world, f, weights, "tv"))


@given(worlds(outcomes=(2,)), seeds)
def test_lemma_1_as_printed_in_the_paper(world, seed):
    """Δ(f) = λ2·E0[f·log P0/P1] + λ4·E0[g(Y)·log Y0/Y1] with g(y) = E0[f|Y=y]."""
    for f in random_unit_perturbations(world.p0, seed, count=3):
        g = (world.p0 * f) @ world.channel / world.y0
        inputs = world.p0 @ (f * np.log(world.p0 / world.p1))
        outputs = world.y0 @ (g * np.log(world.y0 / world.y1))
        assert world.slope(f, (0, 2, 0, 3)) == pytest.approx(2 * inputs + 3 * outputs, abs=1e-12)


@given(worlds(), positive, positive, st.sampled_from(SMOOTH), seeds)
def test_theorem_1_no_unit_perturbation_descends_faster(world, input_weight, output_weight, divergence, seed):
    weights = (0, input_weight, 0, output_weight)
    correction = world.correction(weights, divergence)
    assert world.p0 @ correction.values == pytest.approx(0, abs=1e-12)
    assert world.p0 @ correction.values**2 == pytest.approx(1)
    assert world.slope(correction.values, weights, divergence) == pytest.approx(correction.descent_rate)
    for rival in random_unit_perturbations(world.p0, seed, count=20):
        assert world.slope(rival, weights, divergence) >= correction.descent_rate - 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_theorem_1_against_a_conic_solver(seed):
    """The direction of least slope in the unit ball, with the slope itself taken by finite differences."""
    import cvxpy

    world, weights = random_world(seed), (0.3, 1.2, 0.1, 0.8)
    basis = np.eye(len(world.p0)) - world.p0[:, None]  # row i: the i-th unit vector, centred under P0
    slopes = np.array([finite_difference_slope(world, b, weights) for b in basis])
    c = cvxpy.Variable(len(world.p0))
    f = basis.T @ c
    problem = cvxpy.Problem(
        cvxpy.Minimize(slopes @ c), [cvxpy.norm(cvxpy.multiply(np.sqrt(world.p0), f)) <= 1, world.p0 @ c == 0]
    )
    problem.solve(solver="CLARABEL")
    correction = world.correction(weights)
    assert correction.descent_rate == pytest.approx(problem.value, abs=1e-6)
    assert correction.values == pytest.approx(f.value, abs=1e-4)


@given(worlds(outcomes=(2,)), positive, positive)
def test_theorem_1_as_printed_in_the_paper(world, l2, l4):
    """f~ = n_l·f_l + n_m·f_m with the constants of the theorem, from the definitions by enumeration."""
    p, W = world.y0[1], world.channel[:, 1]
    g_m = np.array([np.sqrt(p / (1 - p)), -np.sqrt((1 - p) / p)])
    rho_m = np.sqrt(world.p0 @ (world.channel @ g_m) ** 2)
    f_m = world.channel @ g_m / rho_m
    f_l = np.log(world.p0 / world.p1) - world.p0 @ np.log(world.p0 / world.p1)
    g_l = np.log(world.y0 / world.y1) - world.y0 @ np.log(world.y0 / world.y1)
    a1, b1 = world.p0 @ (f_l * f_m), world.y0 @ (g_l * g_m)
    a2 = np.sqrt(world.p0 @ (f_l - a1 * f_m) ** 2)
    norm = np.sqrt((l2 * a1 + l4 * rho_m * b1) ** 2 + (l2 * a2) ** 2)
    c = world.correction((0, l2, 0, l4))
    assert c.values == pytest.approx(-l2 / norm * f_l - l4 * rho_m * b1 / norm * f_m, abs=1e-9)
    named = {"rho_m": rho_m, "a1": a1, "a2": a2, "b1": b1, "n_l": -l2 / norm, "n_m": -l4 * rho_m * b1 / norm}
    for name, value in named.items():
        assert getattr(c, name) == pytest.approx(value, rel=1e-7, abs=1e-7), name
    assert c.f_m(W) == pytest.approx(f_m)
    assert c.g_m([0, 1]) == pytest.approx(g_m)
    assert c.g_l([0, 1]) == pytest.approx(g_l, abs=1e-12)
    assert c.f_l(np.log(world.p0 / world.p1)) == pytest.approx(f_l, abs=1e-12)


@given(worlds(outcomes=(2,)), st.floats(0.05, 0.95))
def test_theorem_2_needs_only_membership_and_channel(world, q):
    """f_l and f_m from P(S|X) and W equal those from the joint distribution, whatever the prior q = P(S=0)."""
    membership = q * world.p0 / (q * world.p0 + (1 - q) * world.p1)
    log_odds = np.log(membership / (1 - membership))
    W = world.channel[:, 1]
    audited = tl.GroupMoments.from_rows(log_odds, W, world.p0)
    reference = tl.GroupMoments.from_rows(log_odds, W, world.p1)
    f = tl.correction_function(audited, reference)
    exact = world.correction()
    assert f(log_odds, W) == pytest.approx(exact.values, abs=1e-9)
    assert f.descent_rate == pytest.approx(exact.descent_rate)
    assert f.f_l(log_odds) == pytest.approx(exact.f_l(np.log(world.p0 / world.p1)), abs=1e-9)
    p, rho = world.y0[1], exact.rho_m
    printed = ((-np.sqrt((1 - p) / p) - np.sqrt(p / (1 - p))) * W + np.sqrt(p / (1 - p))) / rho
    assert f.f_m(W) == pytest.approx(printed, rel=1e-6, abs=1e-9)


@given(worlds(outcomes=(2,)), positive, positive)
def test_corollary_1_descent_rate(world, l2, l4):
    c = world.correction((0, l2, 0, l4))
    printed = -np.sqrt((l2 * c.a1 + l4 * c.rho_m * c.b1) ** 2 + (l2 * c.a2) ** 2)
    assert c.descent_rate == pytest.approx(printed, rel=1e-7)


@given(worlds(outcomes=(2,)), positive)
def test_corollary_2_outputs_only(world, l4):
    c = world.correction((0, 0, 0, l4))
    W = world.channel[:, 1]
    assert c.values == pytest.approx(-np.sign(c.b1) * c.f_m(W), abs=1e-9)
    log_ratio = np.log(world.y0 / world.y1)
    variance = world.y0 @ log_ratio**2 - (world.y0 @ log_ratio) ** 2
    assert c.descent_rate == pytest.approx(-l4 * c.rho_m * np.sqrt(variance), rel=1e-6)


@given(worlds(outcomes=(2,)))
def test_maximal_correlation_is_the_second_singular_value(world):
    """Definition 6: ρ_m is the second singular value of P(x,y)/sqrt(P(x)·P(y)) in the audited group."""
    joint = world.p0[:, None] * world.channel
    ratio = joint / np.sqrt(np.outer(world.p0, world.y0))
    first, second = np.linalg.svd(ratio, compute_uv=False)[:2]
    assert first == pytest.approx(1)
    assert world.correction().rho_m == pytest.approx(second, abs=1e-7)


@given(worlds(), st.tuples(positive, positive))
def test_correction_ignores_the_weights_1_and_3(world, ignored):
    l1, l3 = ignored
    assert world.correction((l1, 1, l3, 2)).values == pytest.approx(world.correction((0, 1, 0, 2)).values)


@given(worlds(), lambdas(input_term=False), st.sampled_from(SMOOTH))
def test_definition_2_perturbation_is_a_distribution_up_to_epsilon_max(world, weights, divergence):
    c = world.correction(weights, divergence)
    q = world.perturb(c.values, c.epsilon_max)
    assert q.sum() == pytest.approx(1)
    assert q.min() == pytest.approx(0, abs=1e-12)
    with pytest.raises(tl.TiltlensError, match="`epsilon`"):
        world.perturb(c.values, c.epsilon_max * 1.01)


@given(st.integers(0, 10**6), st.floats(0.01, 0.6), st.floats(0.1, 2.0))
def test_total_variation_with_an_input_anchor_is_soft_thresholding(seed, l1, l2):
    world = random_world(seed, atoms=6)
    weights = (l1, l2, 0, 0.7)
    c = world.correction(weights, "tv")
    assert world.p0 @ c.values == pytest.approx(0, abs=1e-9)
    if not c.nothing_to_correct:
        assert world.slope(c.values, weights, "tv") == pytest.approx(c.descent_rate)
    for rival in random_unit_perturbations(world.p0, seed, count=30):
        assert world.slope(rival, weights, "tv") >= c.descent_rate - 1e-9


@pytest.mark.parametrize("divergence", SMOOTH)
@pytest.mark.parametrize("seed", range(3))
def test_path_leaves_p0_along_the_correction_function(divergence, seed):
    """With λ1 → ∞ the path's first step points along f~: Q − P0 ∝ P0·f~."""
    world = random_world(seed, outcomes=2 + seed % 2)
    q = world.path((1e5, 1.0, 0.0, 0.7), divergence).q
    step = (q - world.p0) / world.p0
    f = world.correction((0, 1.0, 0.0, 0.7), divergence).values
    cosine = world.p0 @ (step * f) / np.sqrt(world.p0 @ step**2)
    assert cosine == pytest.approx(1, abs=1e-3)


def test_conic_solver_agrees_on_a_world_with_known_answer():
    """The independent solver itself is right: λ1 alone gives P0."""
    world = random_world(1)
    assert conic_minimiser(world, (1, 0, 0, 0), "kl") == pytest.approx(world.p0, abs=1e-4)
