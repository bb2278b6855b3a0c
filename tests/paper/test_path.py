"""The correction path against a conic solver, its own optimality bound and closed forms."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import ALL, SMOOTH, conic_minimiser, conic_projection, lambdas, random_world, worlds

import tiltlens as tl
from tiltlens.paper.divergence import check_divergence
from tiltlens.paper.path import Inputs, path_point


@pytest.mark.parametrize("divergence", ALL)
@pytest.mark.parametrize("outcomes", [2, 3])
@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), weights=lambdas())
def test_path_is_no_worse_than_a_conic_solver(divergence, outcomes, seed, weights):
    world = random_world(seed, outcomes)
    point = world.path(weights, divergence)
    rival = conic_minimiser(world, weights, divergence)
    assert point.objective <= world.objective(rival, weights, divergence) + 1e-7
    assert point.objective == pytest.approx(world.objective(point.q, weights, divergence), abs=1e-12)


@pytest.mark.parametrize("divergence", ALL)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), weights=lambdas(), outcomes=st.sampled_from([2, 3, 4]))
def test_path_with_atoms_missing_in_a_group_is_no_worse_than_a_conic_solver(divergence, seed, weights, outcomes):
    world = random_world(seed, outcomes, zeros=True)
    point = world.path(weights, divergence)
    assert point.optimality_gap <= 1e-7 * sum(weights)
    if divergence in ("reverse_kl", "hellinger", "js", "tv"):  # everything has finite cost: the rival counts
        rival = 0.999999 * conic_minimiser(world, weights, divergence) + 1e-6 * (world.p0 + world.p1) / 2
        assert point.objective <= world.objective(rival / rival.sum(), weights, divergence) + 1e-7


@given(worlds(outcomes=(2, 3, 4)), lambdas(), st.sampled_from(ALL))
def test_path_proves_its_own_optimality(world, weights, divergence):
    point = world.path(weights, divergence)
    assert point.optimality_gap <= 1e-9 * sum(weights)
    assert point.q.sum() == pytest.approx(1)
    assert (point.q >= 0).all()


@given(worlds(), st.floats(0.01, 10), st.sampled_from(ALL))
def test_path_with_only_the_audited_group_stays_there(world, l1, divergence):
    for weights in [(l1, 0, 0, 0), (l1, 0, 1.0, 0)]:
        point = world.path(weights, divergence)
        assert point.q == pytest.approx(world.p0, abs=1e-7)
        assert point.objective == pytest.approx(0, abs=1e-9)


@given(worlds(), st.floats(0.01, 10), st.sampled_from(SMOOTH))
def test_path_with_only_the_reference_group_ends_there(world, l2, divergence):
    assert world.path((0, l2, 0, 1.0), divergence).q == pytest.approx(world.p1, abs=1e-7)


@given(worlds(), st.floats(0.05, 5), st.floats(0.05, 5))
def test_renyi_identity(world, l1, l2):
    """Without output terms the least objective is λ2·D_a(P0‖P1), a = λ1/(λ1+λ2)."""
    point = world.path((l1, l2, 0, 0))
    assert point.objective == pytest.approx(l2 * world.exponents().renyi(l1 / (l1 + l2)), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_green_line_ends_at_the_projection(seed):
    """λ2 = λ3 = 0 and λ4 → ∞: the path ends at the nearest distribution without disparate impact."""
    world = random_world(seed, outcomes=2 + seed % 2, atoms=8)
    points = world.sweep([(1, 0, 0, l4) for l4 in (0.01, 1, 100, 1e4, 1e6)])
    end = world.project()
    assert points[-1].q == pytest.approx(end.q, abs=1e-4)
    gaps = [point.terms[3] for point in points]
    costs = [point.terms[0] for point in points]
    assert all(b <= a + 1e-12 for a, b in pairwise(gaps))
    assert all(a <= b + 1e-12 for a, b in pairwise(costs))
    assert costs[-1] <= end.cost + 1e-9


def test_red_line_ends_at_the_reference_group():
    world = random_world(3)
    points = world.sweep([(1 - s, s, 0, s) for s in np.linspace(0, 1, 11)])
    assert points[0].q == pytest.approx(world.p0)
    assert points[-1].q == pytest.approx(world.p1, abs=1e-9)


@pytest.mark.parametrize("divergence", ALL)
def test_sweep_equals_solving_each_point_alone(divergence):
    world = random_world(11, outcomes=3)
    weights = [(1.0, 0.2, 0.1, l4) for l4 in (0, 0.1, 1, 10, 1000)] + [(0.1, 3, 0, 0)]
    for point, alone in zip(world.sweep(weights, divergence), weights, strict=True):
        assert point.objective == pytest.approx(world.path(alone, divergence).objective, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_project_against_a_conic_solver(seed):
    world = random_world(seed, outcomes=2 + seed % 3, atoms=12)
    end = world.project()
    assert end.q @ world.channel == pytest.approx(world.y1, abs=1e-10)
    assert end.cost == pytest.approx(conic_projection(world), abs=1e-6)


def test_project_reaches_the_edge_of_the_scores():
    """Where only the atoms with the lowest score give Y1, the answer is P0 restricted to them."""
    world = tl.World([0.25, 0.25, 0.5, 0], [0.0, 0.0, 0.0, 1.0], [0.2, 0.2, 0.9, 0.2])
    assert world.project().q == pytest.approx([0.5, 0.5, 0, 0])
    three = tl.World([0.4, 0.4, 0.2, 0], [0, 0, 0, 1.0], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]])
    assert three.project().q == pytest.approx([0.5, 0.5, 0, 0], abs=1e-9)


def test_project_says_when_no_change_of_inputs_is_enough(refused):
    world = tl.World([0.5, 0.5, 0], [0, 0, 1], [0.2, 0.4, 0.9])
    with refused(tl.TiltlensError):
        world.project()


def test_path_without_input_terms_meets_the_best_outputs_and_stays_near_p0():
    world = random_world(5, atoms=9)
    point = world.path((0, 0, 1, 3))
    target = np.exp((np.log(world.y0) + 3 * np.log(world.y1)) / 4)
    assert point.output == pytest.approx(target / target.sum())
    assert not point.unique
    with pytest.raises(tl.TiltlensError, match="λ1 \\+ λ2 > 0"):
        world.path((0, 0, 1, 3), "js")


def test_total_variation_says_that_its_answer_may_not_be_unique():
    world = random_world(2)
    assert not world.path((1, 1, 0, 0), "tv").unique
    assert world.path((1, 1, 0, 0), "js").unique


def test_infinite_terms_of_weight_zero_are_none():
    world = tl.World([0.5, 0.5, 0], [0, 0.5, 0.5], [0.2, 0.4, 0.9])
    point = world.path((1, 0, 0, 0))
    assert point.terms[0] == 0
    assert point.terms[1] is None


@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_groups_without_a_common_atom_are_an_error_where_the_divergence_is_infinite(refused, divergence):
    world = tl.World([0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0.2, 0.4, 0.6, 0.8])
    with refused(tl.TiltlensError, "some atom"):
        world.path((1, 1, 0, 0), divergence)
    for bounded in ("hellinger", "js", "tv"):
        assert world.path((1, 1, 0, 0), bounded).q.sum() == pytest.approx(1)


@pytest.mark.parametrize("divergence", ["reverse_kl", "hellinger", "js", "tv"])
@pytest.mark.parametrize("outcomes", [2, 3])
def test_path_with_many_atoms_missing_is_proven_optimal(divergence, outcomes):
    rng = np.random.default_rng(outcomes)
    n = 1000
    p0, p1 = rng.dirichlet(np.ones(n), 2) * (rng.random((2, n)) < 0.5)
    world = tl.World(p0 / p0.sum(), p1 / p1.sum(), rng.dirichlet(np.ones(outcomes), n))
    for weights in [(1, 1, 0, 1), (1, 0, 0, 1), (0.2, 0, 0.5, 5)]:
        point = world.path(weights, divergence)
        assert point.optimality_gap <= 1e-7 * sum(weights)
        assert (point.q[(p0 == 0) & (p1 == 0)] > 0).sum() <= 2 * outcomes


@given(worlds(outcomes=(2, 3)), lambdas(), st.sampled_from(ALL), st.integers(0, 10**6))
def test_the_optimality_gap_is_a_bound_that_no_rival_breaks(world, weights, divergence, seed):
    point = world.path(weights, divergence)
    rivals = [world.p0, world.p1, *np.random.default_rng(seed).dirichlet(np.ones(len(world.p0)), 5)]
    for rival in [*rivals, *(0.99 * point.q + 0.01 * r for r in rivals)]:
        assert world.objective(rival, weights, divergence) >= point.objective - point.optimality_gap - 1e-12


def test_the_bound_of_total_variation_holds_for_weights_of_very_different_size():
    world = tl.World([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.8, 0.5, 0.1])
    for weights in [(1e-7, 0, 0, 1), (1e-5, 1e-6, 1, 0), (0.0118, 0.0076, 3e5, 8e3)]:
        point = world.path(weights, "tv")
        for rival in (world.p0, world.p1):
            assert world.objective(rival, weights, "tv") >= point.objective - point.optimality_gap - 1e-15


def test_a_sweep_finds_what_a_single_solve_finds():
    channel = [[0.735, 0.2643, 0.0007], [0.8023, 0.0815, 0.1162], [0.9891, 0.0056, 0.0053]]
    world = tl.World([1, 0, 0], [0.7709, 0.2291, 0], channel)
    weights = [(0, 0.5, 20, 200), (0.0076, 0.233, 0, 0.175)]
    assert world.sweep(weights)[1].objective == pytest.approx(world.path(weights[1]).objective, abs=1e-9)


def test_project_on_channels_that_are_almost_degenerate():
    rng = np.random.default_rng(0)
    for _ in range(300):
        channel = rng.dirichlet(np.full(6, 0.2), 6)
        world = tl.World(*rng.dirichlet(np.ones(6), 2), channel)
        assert world.project().q @ world.channel == pytest.approx(world.y1, abs=1e-9)


def test_path_claims_to_be_unique_only_where_it_is():
    world = tl.World([0.5, 0.5, 0, 0], [0.1, 0.1, 0.4, 0.4], [0.1, 0.2, 0.9, 0.9])
    for divergence in ("reverse_kl", "hellinger", "js"):
        point = world.path((1, 0, 0, 50), divergence)
        assert not point.unique
        swapped = point.q[[0, 1, 3, 2]]
        assert world.objective(swapped, (1, 0, 0, 50), divergence) == pytest.approx(point.objective, abs=1e-9)
        assert world.path((1, 1, 0, 50), divergence).unique


@pytest.mark.parametrize("divergence", ["chi2", "hellinger", "js", "tv"])
@pytest.mark.parametrize("weights", [(1, 0, 0, 1), (1, 1, 0, 1), (0.2, 0, 0.5, 5)])
def test_an_outcome_that_no_input_reaches_costs_its_constant(divergence, weights):
    """Where W(y|x) = 0 everywhere but Y1(y) > 0, no Q can change the output term: P0 and P1 alone decide."""
    rng = np.random.default_rng(1)
    p0, p1 = rng.dirichlet(np.ones(30), 2)
    certain = np.column_stack([np.ones(30), np.zeros(30)])
    y0, y1 = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    chosen = check_divergence(divergence)
    point = path_point(Inputs(p0, p1, certain, y0, y1), weights, chosen)
    inputs_only = path_point(Inputs(p0, p1, certain, y0, y0), (*weights[:2], 0.0, 0.0), chosen)
    expected = inputs_only.objective + weights[3] * chosen.between(y0, y1)
    assert point.optimality_gap <= 1e-9 * sum(weights)
    assert point.objective == pytest.approx(expected, abs=1e-9)
