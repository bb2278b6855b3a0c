"""The tilt of the scores against a conic solver, and its laws."""

import cvxpy as cp
import numpy as np
import pytest

from tiltlens.errors import SupportError
from tiltlens.repair.least_change import least_change, multiplier, nats_moved, tilted, tilted_score


def problem(classes, constraints, seed, rows=60):
    """Return scores, gradients, targets that can be reached, and weights."""
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.full(classes, 1.5), rows)
    gradients = rng.standard_normal((constraints, rows, classes))
    weights = rng.uniform(0.5, 2.0, rows)
    goal = rng.dirichlet(np.full(classes, 3.0), rows)
    targets = np.einsum("ny,cny,n->c", 0.5 * (scores + goal), gradients, weights / weights.sum())
    return scores, gradients, targets, weights


def conic(scores, gradients, targets, weights):
    """Return the least change by Clarabel: its objective and the multipliers of the constraints."""
    share = weights / weights.sum()
    w = cp.Variable(scores.shape, nonneg=True)
    rules = [cp.sum(cp.multiply(share[:, None] * g, w)) == a for g, a in zip(gradients, targets, strict=True)]
    cost = cp.sum(cp.multiply(share[:, None], cp.rel_entr(w, scores)))
    found = cp.Problem(cp.Minimize(cost), [*rules, cp.sum(w, axis=1) == 1])
    tight = {f"tol_{name}": 1e-12 for name in ("gap_abs", "gap_rel", "feas", "ktratio")}
    found.solve(solver=cp.CLARABEL, **tight)
    return found.value, np.array([float(rule.dual_value) for rule in rules]), w.value


@pytest.mark.parametrize(("classes", "constraints"), [(2, 1), (2, 2), (3, 1), (3, 3)])
def test_least_change_is_that_of_a_conic_solver(classes, constraints):
    parts = problem(classes, constraints, seed=classes + 10 * constraints)
    found, (cost, multipliers, scores) = least_change(*parts), conic(*parts)
    assert found.nats == pytest.approx(cost, abs=1e-8)
    assert found.multipliers == pytest.approx(multipliers, abs=1e-8)
    assert found.scores == pytest.approx(scores, abs=1e-8)
    means = np.einsum("ny,cny,n->c", found.scores, parts[1], parts[3] / parts[3].sum())
    assert means == pytest.approx(parts[2], abs=1e-10)


def test_two_outcomes_are_a_shift_of_the_logit():
    scores, gradients, targets, weights = problem(2, 1, seed=4)
    found = least_change(scores, gradients, targets, weights)
    shift = found.multipliers[0] * (gradients[0, :, 1] - gradients[0, :, 0])
    assert tilted_score(scores[:, 1], shift) == pytest.approx(found.scores[:, 1], abs=1e-12)
    assert nats_moved(scores[:, 1], found.scores[:, 1], weights) == pytest.approx(found.nats, abs=1e-12)


def test_a_target_beyond_reach_is_named():
    scores, gradients, _, weights = problem(2, 1, seed=5)
    most = float((weights / weights.sum()) @ gradients[0].max(axis=1))
    with pytest.raises(SupportError, match="beyond reach"):
        least_change(scores, gradients, np.array([1.1 * most]), weights)


def test_scores_of_0_and_1_do_not_move():
    assert tilted_score(np.array([0.0, 0.5, 1.0]), np.full(3, 2.0))[[0, 2]].tolist() == [0.0, 1.0]
    assert tilted(np.array([[0.0, 1.0, 0.0]]), np.array([[-5.0, 3.0, 0.0]])).tolist() == [[0.0, 1.0, 0.0]]


def test_the_multiplier_of_one_constraint_is_a_root_of_the_gap():
    assert multiplier(lambda t: 0.3 - np.tanh(t), 0.1) == pytest.approx(np.arctanh(0.2), abs=1e-12)
    assert multiplier(lambda t: -0.3 - np.tanh(t), 0.0) == pytest.approx(-np.arctanh(0.3), abs=1e-12)
    with pytest.raises(SupportError, match="membership model is too weak"):
        multiplier(lambda t: 0.3 - 0.1 * np.tanh(t), 0.0)
