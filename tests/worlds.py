"""Random finite worlds with known everything, and independent ways to compute with them."""

from __future__ import annotations

import cvxpy
import numpy as np
from hypothesis import strategies as st

import tiltlens as tl

SMOOTH = ("kl", "reverse_kl", "chi2", "hellinger", "js")
ALL = (*SMOOTH, "tv")


def random_world(seed, outcomes=2, atoms=None, zeros=False):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 10)) if atoms is None else atoms
    p0, p1 = rng.dirichlet(np.ones(n), 2)
    if zeros:  # keep atom 0 in both groups, so that they share an input
        for p in (p0, p1):
            p[1:] *= rng.random(n - 1) < 0.7
    channel = rng.dirichlet(np.full(outcomes, 0.7), n)
    return tl.World(p0 / p0.sum(), p1 / p1.sum(), channel)


@st.composite
def worlds(draw, outcomes=(2, 3)):
    return random_world(draw(st.integers(0, 10**6)), draw(st.sampled_from(outcomes)))


def lambdas(input_term=True):
    """Four weights, zeros included, with λ1 + λ2 > 0 where an input term is asked for."""
    weight = st.one_of(st.just(0.0), st.floats(0.05, 5.0))
    ok = (lambda w: w[0] + w[1] > 0) if input_term else (lambda w: w[1] + w[3] > 0)
    return st.tuples(weight, weight, weight, weight).filter(ok)


def random_unit_perturbations(p0, seed, count):
    """Functions with mean 0 and variance 1 under p0."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        f = rng.normal(size=len(p0))
        f -= p0 @ f
        yield f / np.sqrt(p0 @ f**2)


def finite_difference_slope(world, f, weights, divergence="kl", epsilon=1e-5):
    """One-sided difference of the objective, from the definitions alone."""
    step = epsilon / max(1.0, np.abs(f).max())
    at = [world.objective(world.perturb(f, k * step), weights, divergence) for k in (0, 1, 2)]
    return (-3 * at[0] + 4 * at[1] - at[2]) / (2 * step)


def conic_minimiser(world, weights, divergence):
    """The minimiser of the objective by a conic solver (Clarabel), as an exact distribution."""
    q = cvxpy.Variable(len(world.p0), nonneg=True)
    r = world.channel.T @ q
    objective, constraints = 0, [cvxpy.sum(q) == 1]
    pairs = ((q, world.p0), (q, world.p1), (r, world.y0), (r, world.y1))
    for weight, (a, b) in zip(weights, pairs, strict=True):
        if weight > 0:
            cost, extra = _conic_divergence(a, b, divergence)
            objective = objective + weight * cost
            constraints += extra
    cvxpy.Problem(cvxpy.Minimize(objective), constraints).solve(solver="CLARABEL")
    values = np.maximum(q.value, 0.0)
    values[values < 1e-9] = 0.0  # the solver's zeros, where a term may be infinite
    return values / values.sum()


def conic_projection(world):
    """The least KL(Q‖P0) with W∘Q = Y1, by a conic solver."""
    q = cvxpy.Variable(len(world.p0), nonneg=True)
    constraints = [cvxpy.sum(q) == 1, world.channel.T @ q == world.y1]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.rel_entr(q, world.p0))), constraints)
    return problem.solve(solver="CLARABEL")


def _conic_divergence(q, p, divergence):
    on = p > 0
    a, b = q[on], p[on]
    extra = cvxpy.sum(q[~on]) if (~on).any() else None
    mean = (a + b) / 2
    cost = {
        "kl": lambda: cvxpy.sum(cvxpy.rel_entr(a, b)),
        "reverse_kl": lambda: cvxpy.sum(cvxpy.rel_entr(b, a)),
        "chi2": lambda: cvxpy.sum(cvxpy.multiply(1 / b, cvxpy.square(a - b))),
        "hellinger": lambda: cvxpy.sum(a + b - 2 * cvxpy.multiply(np.sqrt(b), cvxpy.sqrt(a))),
        "js": lambda: (cvxpy.sum(cvxpy.rel_entr(a, mean)) + cvxpy.sum(cvxpy.rel_entr(b, mean))) / 2,
        "tv": lambda: cvxpy.sum(cvxpy.abs(a - b)) / 2,
    }[divergence]()
    if extra is None:
        return cost, []
    if divergence in ("kl", "chi2"):
        return cost, [extra == 0]
    return cost + {"reverse_kl": 0.0, "hellinger": 1.0, "js": np.log(2) / 2, "tv": 0.5}[divergence] * extra, []
