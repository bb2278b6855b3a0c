"""The correction path: the distribution Q of the inputs that globally minimises L.

L(Q) = λ1·J(Q‖P0) + λ2·J(Q‖P1) + λ3·J(W∘Q‖Y0) + λ4·J(W∘Q‖Y1). Every smooth divergence has a dual with about as many
unknowns as outcomes, however many atoms there are; total variation is a linear program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltlens.errors import ConvergenceError, SupportError, WeightsError
from tiltlens.paper.checks import Floats, Weights
from tiltlens.paper.divergence import Divergence, minimiser, penalty_pair

OPTIMALITY = 1e-7  # largest duality gap that counts as solved, relative to the sum of the weights
NO_MASS = 1e-7  # mass of an atom outside all weighted distributions that is due to its floor


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The data of a path, checked: the distributions of the groups, and the channel.

    Attributes
    ----------
    p0, p1
        Distributions of the atoms in the audited and the reference group.
    channel
        W(y|x), of shape (n, K).
    y0, y1
        Output distributions W∘P0 and W∘P1.
    """

    p0: Floats
    p1: Floats
    channel: Floats
    y0: Floats
    y1: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PathPoint:
    """One point of a correction path.

    Attributes
    ----------
    q
        The minimiser Q, a distribution over the atoms.
    output
        W∘Q.
    objective
        L(Q).
    terms
        The four divergences J(Q‖P0), J(Q‖P1), J(W∘Q‖Y0), J(W∘Q‖Y1); None where one is infinite.
    weights, divergence
        λ and the divergence's name.
    multipliers
        Unknowns of the dual, the start for the next point of a sweep; empty for total variation.
    optimality_gap
        An upper bound on L(Q) − min L, by duality.
    unique
        Whether the minimiser is known to be unique; for total variation it need not be.
    """

    q: Floats
    output: Floats
    objective: float
    terms: tuple[float | None, float | None, float | None, float | None]
    weights: Weights
    divergence: str
    multipliers: Floats
    optimality_gap: float
    unique: bool


def path_point(inputs: Inputs, weights: Weights, divergence: Divergence, start: Floats | None = None) -> PathPoint:
    """Return the minimiser of L over all distributions of the inputs."""
    if weights[0] + weights[1] == 0 and divergence.name != "kl":
        raise WeightsError(
            f"`weights` must have λ1 + λ2 > 0 for `{divergence.name}`, got {weights!r}.",
            "without an input term the minimiser is not unique; give λ1 a small weight such as 1e-6.",
        )
    scale = sum(weights)
    # Solved for weights that sum to 1, so that one tolerance is suitable for all.
    l1, l2, l3, l4 = (value / scale for value in weights)
    unit: Weights = (l1, l2, l3, l4)
    q, bound, multipliers = _solved(inputs, unit, divergence, start)
    terms = divergences(inputs, q, divergence)
    objective = weighted(terms, unit)
    gap = max(0.0, objective - bound)
    if gap > OPTIMALITY and start is not None:  # a start from another point may lead the solver astray
        return path_point(inputs, weights, divergence)
    if gap > OPTIMALITY:
        raise ConvergenceError(
            f"the path for weights {weights!r} and `{divergence.name}` must be solved to {OPTIMALITY}, "
            f"got an optimality gap of {gap:.1e}.",
            "avoid weights or probabilities that differ by many orders of magnitude.",
        )
    return PathPoint(
        q=q,
        output=q @ inputs.channel,
        objective=objective * scale,
        terms=terms,
        weights=weights,
        divergence=divergence.name,
        multipliers=multipliers,
        optimality_gap=gap * scale,
        unique=_is_unique(inputs, unit, divergence),
    )


def _solved(
    inputs: Inputs, weights: Weights, divergence: Divergence, start: Floats | None
) -> tuple[Floats, float, Floats]:
    """Return Q, a lower bound on L and the unknowns of the dual."""
    if divergence.name == "kl":
        return _kl(inputs, weights, start)
    if divergence.name == "tv":
        return _tv(inputs, weights)
    return _smooth(inputs, weights, divergence, start)


def _is_unique(inputs: Inputs, weights: Weights, divergence: Divergence) -> bool:
    """Return whether L is strictly convex where Q may have mass; not for TV, nor if mass costs the same elsewhere."""
    l1, l2, _, _ = weights
    if divergence.name == "tv" or l1 + l2 == 0:
        return False
    # φ’(∞) < ∞: mass outside all weighted distributions costs the same on any atom.
    is_curved = (l1 * inputs.p0 + l2 * inputs.p1) > 0
    return bool(np.isinf(divergence.slope_at_infinity) or is_curved.all())


def divergences(
    inputs: Inputs, q: Floats, divergence: Divergence
) -> tuple[float | None, float | None, float | None, float | None]:
    """Return the four divergences of Definition 1; None for infinite ones."""
    r = q @ inputs.channel
    pairs = ((q, inputs.p0), (q, inputs.p1), (r, inputs.y0), (r, inputs.y1))
    j1, j2, j3, j4 = (divergence.between(a, b) for a, b in pairs)
    return _finite(j1), _finite(j2), _finite(j3), _finite(j4)


def weighted(terms: tuple[float | None, ...], weights: Weights) -> float:
    """Return Σ λ_i·J_i; terms with weight 0 are left out, even if infinite."""
    total = 0.0
    for position, (term, weight) in enumerate(zip(terms, weights, strict=True), start=1):
        if weight == 0:
            continue
        if term is None:
            raise SupportError(
                f"the objective is infinite: its term {position}, of weight {weight:g}, is.",
                "move the mass of `q` to where that term's distribution has some, or give the term the weight 0.",
            )
        total += weight * term
    return total


def projection(p0: Floats, channel: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return the Q nearest to P0 in KL(Q‖P0) with W∘Q = target, and its multipliers t (theory: the I-projection).

    Q_t ∝ P0·exp(Σ_y t_y W(y|x)) with t_0 = 0 minimises log Σ P0·e^{W·t} − t·target.
    """
    W, wanted = np.ascontiguousarray(channel.T[1:]), target[1:]
    # A target on the edge of the reachable outputs needs infinite t; then only atoms on that edge have mass.
    for support in (p0 > 0, None):
        if support is None:
            support = _reachable(p0, channel, target)
        log_p0 = np.log(p0[support])

        def function(t: Floats, log_g: Floats = log_p0, W: Floats = W[:, support]) -> tuple[float, Floats, Floats]:
            value, r, covariance, _ = _tilted(log_g, W, t)
            return value - float(t @ wanted), r - wanted, covariance

        # ∇ = r − target, so at the minimum the outputs equal the target.
        t = minimiser(function, np.zeros(len(wanted)))
        q = np.zeros_like(p0)
        q[support] = _tilted(log_p0, W[:, support], t)[3]
        if np.abs(q @ channel - target).max() <= 1e-10:
            return q, t
    raise ConvergenceError(
        f"the projection must meet the target outputs {target.tolist()}, got {(q @ channel).tolist()}.",
        "the target is too close to the limit that the model's scores can reach.",
    )


def _reachable(p0: Floats, channel: Floats, target: Floats) -> NDArray[np.bool_]:
    """Return the atoms that some Q with W∘Q = target can use, the largest support, by one linear program.

    Maximise Σ z with 0 ≤ z ≤ 1, z ≤ v, Wᵀv = target·Σv, over measures v on the support of P0.
    """
    from scipy.optimize import linprog

    atoms = np.flatnonzero(p0 > 0)
    W = channel[atoms]
    n = len(atoms)
    balance = np.hstack([(W - target).T, (W - target).T])
    solution = linprog(
        np.concatenate([np.zeros(n), -np.ones(n)]),  # v = slack + z
        A_eq=balance,
        b_eq=np.zeros(W.shape[1]),
        bounds=[(0, None)] * n + [(0, 1)] * n,
        method="highs",
    )
    used = np.zeros(len(p0), dtype=bool)
    if solution.x is not None:
        used[atoms[solution.x[n:] > 0.5]] = True
    if not used.any():
        low, high = W.min(axis=0).tolist(), W.max(axis=0).tolist()
        raise SupportError(
            f"the outputs {target.tolist()} must be a mixture of the model's scores on the audited group, which "
            f"lie between {low} and {high}.",
            "no change of that group's inputs alone removes the disparity of this model.",
        )
    return used


def _tilted(log_g: Floats, W: Floats, t: Floats) -> tuple[float, Floats, Floats, Floats]:
    """Return log Σ G·e^{W·t}, and mean of W, covariance of W and Q under Q_t ∝ G·e^{W·t}; W has one row per outcome.

    Products are summed by einsum, because at these sizes the threads of BLAS cost more time than they save.
    """
    mass = log_g + np.einsum("kn,k->n", W, t)
    peak = float(mass.max())
    np.exp(mass - peak, out=mass)
    total = float(mass.sum())
    mass /= total
    r = np.einsum("kn,n->k", W, mass)
    centred = W - r[:, None]
    return peak + math.log(total), r, np.einsum("kn,ln->kl", centred * mass, centred), mass


def _kl(inputs: Inputs, weights: Weights, start: Floats | None) -> tuple[Floats, float, Floats]:
    """Return Q, a lower bound on L and the multipliers t: Q ∝ P0^{λ1/A}·P1^{λ2/A}·e^{W·t}."""
    l1, l2, l3, l4 = weights
    A, B = l1 + l2, l3 + l4
    atoms, outcomes = _allowed(inputs, weights)
    W = np.ascontiguousarray(inputs.channel[atoms].T[outcomes[1:]])
    c = _weighted_logs(l3, inputs.y0[outcomes], l4, inputs.y1[outcomes])
    if A == 0:
        return _outputs_only(inputs, c / B, outcomes)
    # G = P0^{λ1/A}·P1^{λ2/A}, the geometric mixture that Q tilts (section 4 of docs/methods).
    log_g = _weighted_logs(l1 / A, inputs.p0[atoms], l2 / A, inputs.p1[atoms])
    t = np.zeros(len(W))

    def function(t: Floats) -> tuple[float, Floats, Floats]:
        value, r, covariance, _ = _tilted(log_g, W, t)
        # s = softmax((c − A·t)/B) are the outputs implied by t; at the minimum of D they equal r = W∘Q.
        u = (c - A * np.concatenate([[0.0], t])) / B
        normaliser = float(np.logaddexp.reduce(u))
        s = np.exp(u - normaliser)[1:]
        hessian = A * covariance + A**2 / B * (np.diag(s) - np.outer(s, s))
        return A * value + B * normaliser, A * (r - s), hessian

    if B > 0 and len(t):
        t = minimiser(function, start if start is not None and len(start) == len(t) else t)
    # Weak duality: −D(t) ≤ L(Q) for every t, whether or not the solver converged.
    bound = -function(t)[0] if B > 0 else -A * _tilted(log_g, W, t)[0]
    q = np.zeros_like(inputs.p0)
    q[atoms] = _tilted(log_g, W, t)[3]
    return q, bound, t


def _outputs_only(inputs: Inputs, log_target: Floats, outcomes: NDArray[np.intp]) -> tuple[Floats, float, Floats]:
    """Return, if no input term has weight, the Q nearest to P0 with the optimal outputs."""
    # The minimum over r of λ3·KL(r‖Y0) + λ4·KL(r‖Y1) is at r ∝ Y0^{λ3/B}·Y1^{λ4/B}.
    normaliser = float(np.logaddexp.reduce(log_target))
    target = np.zeros(inputs.channel.shape[1])
    target[outcomes] = np.exp(log_target - normaliser)
    q, t = projection(inputs.p0, inputs.channel, target)
    return q, -normaliser, t


def _weighted_logs(la: float, pa: Floats, lb: float, pb: Floats) -> Floats:
    """Return λa·log pa + λb·log pb without terms of weight 0."""
    total = np.zeros_like(pa)
    for weight, p in ((la, pa), (lb, pb)):
        if weight > 0:
            total += weight * np.log(p)
    return total


def _allowed(inputs: Inputs, weights: Weights) -> tuple[NDArray[np.bool_] | slice, NDArray[np.intp]]:
    """Return the atoms where Q may have mass if J is infinite off the support, and the outcomes that they reach."""
    l1, l2, l3, l4 = weights
    allowed = np.ones(len(inputs.p0), dtype=bool)
    for weight, p in ((l1, inputs.p0), (l2, inputs.p1)):
        if weight > 0:
            allowed &= p > 0
    for weight, y in ((l3, inputs.y0), (l4, inputs.y1)):
        if weight > 0 and (y == 0).any():
            allowed &= (inputs.channel[:, y == 0] == 0).all(axis=1)
    if not allowed.any():
        raise SupportError(
            "some atom must have mass in every distribution with a positive weight, got none.",
            "the groups share no inputs; merge atoms, or use a bounded divergence ('hellinger', 'js', 'tv').",
        )
    atoms = slice(None) if allowed.all() else allowed
    return atoms, _reached(inputs.channel[atoms])


def _reached(channel: Floats) -> NDArray[np.intp]:
    """Return the outcomes that have positive probability at some atom."""
    return np.flatnonzero([column.max() > 0 for column in channel.T])


def _smooth(
    inputs: Inputs, weights: Weights, divergence: Divergence, start: Floats | None
) -> tuple[Floats, float, Floats]:
    """Return Q, a lower bound on L and the multipliers, for χ², reverse KL, Hellinger and Jensen–Shannon.

    The dual of min F(Q) + H(r) with r = W∘Q, Σr = 1 minimises Σ_x F*(Σ_y τ_y W(y|x)) + Σ_y H*(μ − τ_y) − μ
    over K + 1 unknowns (τ, μ); Q and r are the derivatives of F* and H* there. Without output terms τ_y = μ.
    """
    l1, l2, l3, l4 = weights
    A, B = l1 + l2, l3 + l4
    support = _allowed if np.isinf(divergence.slope_at_infinity) else _needed_atoms
    atoms, outcomes = support(inputs, weights)
    W = inputs.channel[atoms][:, outcomes]
    F = penalty_pair(divergence, l1, inputs.p0[atoms], l2, inputs.p1[atoms])
    H = penalty_pair(divergence, l3, inputs.y0[outcomes], l4, inputs.y1[outcomes])
    k = len(outcomes)
    spread = np.hstack([W, np.zeros((len(W), 1))]) if B > 0 else np.ones((len(W), 1))
    gather = np.hstack([-np.eye(k), np.ones((k, 1))]) if B > 0 else np.zeros((0, 1))
    unit = np.eye(spread.shape[1])[-1]

    def function(theta: Floats) -> tuple[float, Floats, Floats]:
        s, u = spread @ theta, gather @ theta
        if not (F.in_domain(s) and (B == 0 or H.in_domain(u))):
            return np.inf, unit, np.eye(len(unit))
        q, value, curvature = F.conjugate(s)
        gradient, hessian = spread.T @ q - unit, (spread.T * curvature) @ spread
        if B > 0:
            r, output_value, output_curvature = H.conjugate(u)
            value += output_value
            gradient = gradient + gather.T @ r
            hessian = hessian + (gather.T * output_curvature) @ gather
        return value - theta[-1], gradient, hessian

    # The multipliers for Q = P0 = P1, which are in the domain of every divergence.
    theta = np.full(len(unit), A * divergence.slope_at_one)
    theta[-1] += B * divergence.slope_at_one
    if start is not None and len(start) == len(theta) and np.isfinite(function(start)[0]):
        theta = start
    theta = minimiser(function, theta)
    q = np.zeros(len(inputs.p0))
    q[atoms] = F.conjugate(spread @ theta)[0]
    # These atoms have a trace of mass because of their floor.
    q[(q < NO_MASS) & (l1 * inputs.p0 + l2 * inputs.p1 == 0)] = 0.0
    excluded = _cost_of_excluded(inputs, weights, divergence, atoms, outcomes)
    return q / q.sum(), excluded - function(theta)[0], theta


def _needed_atoms(inputs: Inputs, weights: Weights) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Return the atoms that an optimal Q needs if J is bounded, and the outcomes that they reach.

    These are the atoms with mass in a weighted distribution and, of the others, which all cost the same, those with
    extreme scores. For an unreachable outcome, the dual would decrease without attaining its infimum.
    """
    needed = (weights[0] * inputs.p0 + weights[1] * inputs.p1) > 0
    free = np.flatnonzero(~needed)
    needed[free[_extreme(inputs.channel[free])]] = True
    return needed, _reached(inputs.channel[needed])


def _extreme(points: Floats) -> NDArray[np.intp]:
    """Return indices of points with the same convex hull: its corners, or all points if it is degenerate."""
    if len(points) <= points.shape[1]:
        return np.arange(len(points))
    if points.shape[1] == 2:
        return np.array([np.argmin(points[:, 1]), np.argmax(points[:, 1])])
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(ConvexHull(points[:, 1:]).vertices, dtype=np.intp)
    except QhullError:
        return np.arange(len(points))


def _cost_of_excluded(
    inputs: Inputs,
    weights: Weights,
    divergence: Divergence,
    atoms: NDArray[np.bool_] | slice,
    outcomes: NDArray[np.intp],
) -> float:
    """Return the constant Σ λ·P·φ(0) over the atoms and outcomes that no Q of finite cost can reach."""
    sides = ((inputs.p0, atoms), (inputs.p1, atoms), (inputs.y0, outcomes), (inputs.y1, outcomes))
    missed = [1.0 - float(p[kept].sum()) for p, kept in sides]
    return sum(w * divergence.at_zero * m for w, m in zip(weights, missed, strict=True) if w > 0 and m > 1e-12)


def _tv(inputs: Inputs, weights: Weights) -> tuple[Floats, float, Floats]:
    """Return Q and the optimal value for total variation, by linear programming (HiGHS).

    Each |Q − P| is split as over + under with Q − over + under = P.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    n = len(inputs.p0)
    identity, outputs = sparse.eye_array(n), sparse.csr_array(inputs.channel.T)
    targets = ((identity, inputs.p0), (identity, inputs.p1), (outputs, inputs.y0), (outputs, inputs.y1))
    used = [(weight, matrix, p) for weight, (matrix, p) in zip(weights, targets, strict=True) if weight > 0]
    # The cost is ½·λ per unit of over and under, because TV is half of Σ|Q − P|.
    cost = np.concatenate([np.zeros(n), *(np.full(2 * len(p), weight / 2) for weight, _, p in used)])
    splits = [sparse.hstack([-sparse.eye_array(len(p)), sparse.eye_array(len(p))]) for _, _, p in used]
    deviations = sparse.hstack([sparse.vstack([matrix for _, matrix, _ in used]), sparse.block_diag(splits)])
    total = sparse.csr_array((cost == 0)[None, :].astype(float))
    equalities: Any = sparse.csr_array(sparse.vstack([deviations, total]))  # the stubs of linprog know no sparse arrays
    wanted = np.concatenate([*(p for _, _, p in used), [1.0]])
    tight: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solution = linprog(cost, A_eq=equalities, b_eq=wanted, bounds=(0, None), method="highs", options=tight)
    if solution.x is None:
        raise ConvergenceError(
            f"the linear program of the `tv` path must be solved, got: {solution.message}",
            "avoid weights or probabilities that differ by many orders of magnitude.",
        )
    q = np.clip(solution.x[:n], 0.0, None)
    return q / q.sum(), _tv_bound(used, solution.eqlin.marginals), np.empty(0)


def _tv_bound(used: list[tuple[float, Any, Floats]], marginals: Floats) -> float:
    """Return Σ y·p − max_x Σ (Aᵀy)_x for the solver's dual y, clipped to |y| ≤ λ/2: a valid bound at any tolerance."""
    start, value, prices = 0, 0.0, 0.0
    for weight, matrix, p in used:
        # Any y with |y| ≤ λ/2 bounds L from below; the solver’s y may exceed that by its tolerance.
        y = np.clip(marginals[start : start + len(p)], -weight / 2, weight / 2)
        start += len(p)
        value += float(y @ p)
        prices = prices + matrix.T @ y
    return value - float(np.max(prices))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
