"""Error rates with unobserved outcomes: a linear program, derivatives, and what cells without labels leave open."""

import numpy as np
import pytest
from scipy.optimize import linprog

from tiltlens._estimators.error_rates import UNKNOWN, WITHOUT, bound_gap, partly_seen_rate
from tiltlens._estimators.influence import Rows


def people(seed=0, size=60):
    random = np.random.default_rng(seed)
    x = random.random(size).round(2)
    outcome = (random.random(size) < x).astype(int)
    return np.arange(size) % 2 == 0, x, np.where(random.random(size) < 0.4, UNKNOWN, outcome)


def rate(audited, x, outcome, weights=None, is_audited=True, fewest=3):
    return partly_seen_rate(Rows.of(audited, weights), is_audited, x, outcome, WITHOUT, (x > 0.5) * 1, fewest)


@pytest.mark.parametrize("gamma", [0.0, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("sign", [-1, 1])
def test_bounds_are_those_of_a_linear_program(gamma, sign):
    audited, x, outcome = people()
    found = rate(audited, x, outcome)
    seen, unseen = audited & (outcome == WITHOUT), np.flatnonzero(audited & (outcome == UNKNOWN))
    share = audited / audited.sum()
    known = outcome != UNKNOWN
    cells = [(outcome == WITHOUT)[audited & known & ((x > 0.5) == high)].mean() for high in (False, True)]
    p = np.where(x[unseen] > 0.5, cells[1], cells[0])
    # By Charnes and Cooper: v = t·q within t·[p − Γ, p + Γ], with a denominator of 1.
    objective = np.append(share[unseen] * x[unseen], (share * x)[seen].sum())
    ends = [np.clip(p + side * gamma, 0, 1) for side in (-1, 1)]
    limits = np.vstack([np.column_stack([-np.eye(p.size), ends[0]]), np.column_stack([np.eye(p.size), -ends[1]])])
    total = np.append(share[unseen], share[seen].sum())[None]
    solved = linprog(-sign * objective, A_ub=limits, b_ub=np.zeros(2 * p.size), A_eq=total, b_eq=[1.0])
    assert found(gamma, sign > 0).value == pytest.approx(-sign * solved.fun, abs=1e-9)


@pytest.mark.parametrize("is_upper", [True, False])
def test_the_influence_of_a_bound_is_the_derivative_by_the_row_weight(is_upper):
    audited, x, outcome = people()
    found = rate(audited, x, outcome)(0.1, is_upper)
    for row in range(0, 60, 7):
        step = np.zeros(60)
        step[row] = 1e-6
        ends = [rate(audited, x, outcome, 1 + side * step)(0.1, is_upper).value for side in (-1, 1)]
        assert found.influence[row] == pytest.approx((ends[1] - ends[0]) / 2e-6, abs=1e-6)


def test_bounds_widen_with_gamma_and_cells_without_labels_have_no_limits():
    audited, x, outcome = people()
    pair = [rate(audited, x, outcome, is_audited=group) for group in (True, False)]
    bounds = [[end.value for end in bound_gap(*pair, gamma)] for gamma in (0.0, 0.1, 0.5)]
    assert bounds[0][0] == pytest.approx(bounds[0][1])
    assert bounds[0][0] > bounds[1][0] > bounds[2][0]
    assert bounds[0][1] < bounds[1][1] < bounds[2][1]
    blind = rate(audited, x, outcome, fewest=99)
    free = rate(audited, x, outcome)
    for is_upper in (True, False):
        assert blind(0.0, is_upper).value == pytest.approx(free(1.0, is_upper).value)
