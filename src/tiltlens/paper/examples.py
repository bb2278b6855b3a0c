"""The paper's Example 1, membership by a logistic model, and its Fig. 1, the two paths from P0.

Sign convention of the paper: P(S=1|x) = 1/(1 + exp(θ0 + θ·x)), so θ is the usual coefficient of a logistic model *for
the audited group* S = 0, and minus that of a model for S = 1. Likewise γ1 for P(S=1|y).

In Fig. 1, the output path aligns outputs only, λ = (1, 0, 0, t), and ends where the disparate impact is gone (green);
the joint path aligns inputs and outputs, λ = (1, t, 0, t), and ends at P1 (red).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tiltlens._limits import EQUAL
from tiltlens.errors import DistributionError, NotBinaryError, SupportError
from tiltlens.paper.checks import (
    Floats,
    check_array,
    check_distribution,
    check_same_length,
    check_weight,
    check_weights,
    direction_weights,
)
from tiltlens.paper.divergence import check_divergence
from tiltlens.paper.path import Inputs, PathPoint, path_point, projection
from tiltlens.paper.world import World


@dataclass(frozen=True, slots=True, eq=False)
class LogisticCase:
    """A logistic membership model P(S|X) and a logistic P(S|Y), with the audited group's atoms.

    Attributes
    ----------
    theta
        Coefficients θ of the features, in the paper's sign.
    gamma1
        Coefficient γ1 of the outcome, in the paper's sign; for two outcomes it is k = logit Y0(1) − logit Y1(1).
    features
        The atoms (or rows) of the audited group, one row of features each.
    scores
        W(1|x) on them.
    p0
        Their probabilities.
    """

    theta: Floats
    gamma1: float
    features: Floats
    scores: Floats
    p0: Floats

    def f_l(self, features: ArrayLike) -> Floats:
        """Return f_l(x) = θ·x − Σ_i E0[θ_i·X_i], a linear function of the features."""
        x = check_array("features", features, dimensions=(1, 2))
        # logit P(S=0|x) = θ0 + θ·x in the paper’s sign, so ℓ = θ·x + constant.
        values: Floats = x @ self.theta - (self.p0 @ self.features) @ self.theta
        return values

    def slope(self, f: ArrayLike, input_weight: float = 1.0, output_weight: float = 1.0) -> float:
        """Return Δ(f) = λ2·Σ_i θ_i·E0[f·X_i] + λ4·γ1·E0[g(Y)·Y], with E0[g(Y)·Y] = E0[f·W]."""
        values = check_array("f", f)
        check_same_length(p0=self.p0, f=values)
        l2, l4 = check_weight("input_weight", input_weight), check_weight("output_weight", output_weight)
        mass = self.p0 * values
        return float(l2 * (mass @ self.features) @ self.theta + l4 * self.gamma1 * (mass @ self.scores))

    def correction(self, input_weight: float = 1.0, output_weight: float = 1.0) -> Floats:
        """Return f~ on the atoms: −g~/‖g~‖ with g~ = λ2·f_l + λ4·γ1·(W − p)."""
        l2, l4, _ = direction_weights(
            check_weight("input_weight", input_weight), check_weight("output_weight", output_weight)
        )
        g = l2 * self.f_l(self.features) + l4 * self.gamma1 * (self.scores - self.p0 @ self.scores)
        norm = float(np.sqrt(self.p0 @ g**2))
        scale = float(np.abs(g).max(initial=0.0))
        values: Floats = -g / norm if norm > EQUAL * scale else np.zeros_like(g)
        return values


def logistic_case(
    theta: ArrayLike, gamma1: float, features: ArrayLike, scores: ArrayLike, p0: ArrayLike | None = None
) -> LogisticCase:
    """Return the logistic case of the paper's Example 1, with checked arguments.

    Parameters
    ----------
    theta, gamma1
        Coefficients θ of the features and γ1 of the outcome, in the paper's sign.
    features, scores
        The audited group's atoms or rows, and W(1|x) on them.
    p0
        Their probabilities; equal ones by default.

    Returns
    -------
    LogisticCase
        The slope, the correction function and the terms of the example.

    Raises
    ------
    TiltlensError
        If shapes differ, or scores are not probabilities.

    See Also
    --------
    correction_function : The same from rows.

    Examples
    --------
    >>> case = logistic_case([1.0], 0.5, features=[[0.0], [1.0], [2.0]], scores=[0.2, 0.5, 0.7])
    >>> case.correction().round(3).tolist()
    [1.234, -0.018, -1.216]
    """
    t, x = check_array("theta", theta), check_array("features", features, dimensions=(2,))
    w = check_array("scores", scores)
    p = np.full(len(x), 1 / len(x)) if p0 is None else check_distribution("p0", p0)
    check_same_length(features=x, scores=w, p0=p)
    if x.shape[1] != len(t):
        raise DistributionError(
            f"`theta` must have one coefficient for each feature, got {len(t)} for {x.shape[1]} features.",
            "leave the intercept θ0 out: it cancels.",
        )
    if (w < 0).any() or (w > 1).any():
        raise DistributionError(
            f"`scores` must lie in [0, 1], got values from {w.min()} to {w.max()}.",
            "pass W(1|x), not log-odds.",
        )
    return LogisticCase(t, float(check_array("gamma1", [gamma1])[0]), x, w, p)


STEPS = tuple(float(step) for step in np.geomspace(0.1, 1000.0, 13))


@dataclass(frozen=True, slots=True, eq=False)
class Figure1Paths:
    """The output path and the joint path, and the end of the first: the least change without disparate impact.

    Attributes
    ----------
    output_path, joint_path
        Points of the correction path for t in `STEPS`; empty if outputs have no finite divergence.
    end, cost
        The distribution at the end of the output path, and KL(end‖P0); None if no change of the inputs reaches it.
    """

    output_path: tuple[PathPoint, ...]
    joint_path: tuple[PathPoint, ...]
    end: Floats | None
    cost: float | None


def figure1_paths(inputs: Inputs) -> Figure1Paths:
    """Return both paths from P0, in the KL divergence."""
    try:
        end, _ = projection(inputs.p0, inputs.channel, inputs.y1)
        cost = check_divergence("kl").between(end, inputs.p0)
    except SupportError:
        end, cost = None, None
    return Figure1Paths(_path(inputs, 0.0), _path(inputs, 1.0), end, cost)


def _path(inputs: Inputs, on_inputs: float) -> tuple[PathPoint, ...]:
    points: list[PathPoint] = []
    for step in STEPS:
        # λ1 = 1 keeps Q near P0; λ2 and λ4 increase along the path.
        lam = check_weights((1.0, on_inputs * step, 0.0, step))
        try:
            start = points[-1].multipliers if points else None
            points.append(path_point(inputs, lam, check_divergence("kl"), start))
        except SupportError:
            return ()
    return tuple(points)


CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])  # an equilateral triangle with sides of length 1
WEIGHTS = tuple(float(weight) for weight in np.geomspace(0.02, 2000.0, 60))


Point = dict[str, float | list[float] | None]  # a distribution q over three atoms, its position x, y, and t


@dataclass(frozen=True, slots=True, eq=False)
class Simplex:
    """Both groups and both paths as distributions over three atoms, one per row.

    Attributes
    ----------
    p0, p1
        The two groups.
    level
        The two ends of the line {q: W·q = Y1(1)} inside the triangle, where there is no disparate impact; empty if
        every q is on it.
    green
        From P0 to the least change that removes the disparate impact, λ = (1, 0, 0, t): outputs are aligned.
    red
        From P0 to P1, λ = (1, t, 0, t): inputs and outputs are aligned.
    green_weights, red_weights
        t at each point; 0 at P0, infinite at the other end.
    """

    p0: Floats
    p1: Floats
    level: Floats
    green: Floats
    red: Floats
    green_weights: Floats
    red_weights: Floats

    def to_dict(self) -> dict[str, Point | list[Point]]:
        """Return all points with their positions in the plane; an infinite weight becomes None."""
        return {
            "corners": [_point(row) for row in np.eye(3)],
            "p0": _point(self.p0),
            "p1": _point(self.p1),
            "level": [_point(row) for row in self.level],
            "green": _stops(self.green, self.green_weights),
            "red": _stops(self.red, self.red_weights),
        }


def simplex_paths(world: World) -> Simplex:
    """Return both paths of a world with three atoms and two outcomes, in the KL divergence.

    The green path has no endpoint if no change of the inputs removes the disparate impact.
    """
    if world.channel.shape != (3, 2):
        raise NotBinaryError(
            f"`world` must have 3 atoms and 2 outcomes to be drawn on a triangle, got {world!r}.",
            "`bins()` of a comparison has the same two ways for any number of atoms.",
        )
    green = _stretch(world, 0.0, _least_change(world))
    red = _stretch(world, 1.0, world.p1)
    return Simplex(world.p0, world.p1, level_line(world.channel[:, 1], float(world.y1[1])), *_columns(green, red))


def level_line(score: Floats, level: float) -> Floats:
    """Return the points where {q: score·q = level} meets the edges of the simplex, as at most two distributions.

    On the edge from atom i to j, q_j = (level − score_i)/(score_j − score_i).
    """
    if not np.isfinite(level):
        raise DistributionError(f"`level` must be finite, got {level!r}.", "take a mean score.")
    corners: list[Floats] = []
    for i, j in ((0, 1), (1, 2), (2, 0)):
        if score[i] == score[j]:
            continue  # both atoms are on the other edges; here the whole edge has one score
        # A line meets a triangle in two of its edges, in a corner, or along an edge.
        part = (level - score[i]) / (score[j] - score[i])
        q = np.zeros(3)
        q[i], q[j] = 1.0 - part, part
        if 0.0 <= part <= 1.0 and not any(np.allclose(q, other, rtol=0, atol=1e-12) for other in corners):
            corners.append(q)
    return np.array(corners).reshape(-1, 3)


def _least_change(world: World) -> Floats | None:
    try:
        return world.project().q
    except SupportError:
        return None


def _stretch(world: World, on_inputs: float, end: Floats | None) -> list[tuple[float, Floats]]:
    """Return P0, the points of the path for all weights, and the end, with their weights."""
    try:
        points: list[PathPoint] = world.sweep([(1.0, on_inputs * t, 0.0, t) for t in WEIGHTS])
    except SupportError:
        points = []
    stops = [(0.0, world.p0), *((point.weights[3], point.q) for point in points)]
    return [*stops, (np.inf, end)] if end is not None else stops


def _columns(green: list[tuple[float, Floats]], red: list[tuple[float, Floats]]) -> tuple[Floats, ...]:
    weights = [np.array([weight for weight, _ in way]) for way in (green, red)]
    return np.array([q for _, q in green]), np.array([q for _, q in red]), *weights


def _point(q: Floats) -> Point:
    x, y = (q @ CORNERS).tolist()
    return {"x": x, "y": y, "q": q.tolist()}


def _stops(points: Floats, weights: Floats) -> list[Point]:
    return [
        {"weight": weight if np.isfinite(weight) else None, **_point(q)}
        for q, weight in zip(points, weights.tolist(), strict=True)
    ]
