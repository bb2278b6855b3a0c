"""The paper's Fig. 1: the two paths from P0, for any rows, and their picture for a world of three atoms.

The output path aligns outputs only, λ = (1, 0, 0, t), and ends where the disparate impact is gone (green in the paper);
the joint path aligns inputs and outputs, λ = (1, t, 0, t), and ends at P1 (red).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltlens.errors import DistributionError, NotBinaryError, SupportError
from tiltlens.paper.checks import Floats, check_weights
from tiltlens.paper.divergence import check_divergence
from tiltlens.paper.path import Inputs, PathPoint, path_point, projection
from tiltlens.paper.world import World

STEPS = tuple(float(step) for step in np.geomspace(0.1, 1000.0, 13))


@dataclass(frozen=True, slots=True, eq=False)
class Figure1Paths:
    """The output path and the joint path, and the end of the first: the least change that removes the disparate impact.

    Attributes
    ----------
    output_path, joint_path
        Points of the correction path for t in `STEPS`; empty where outputs have no finite divergence.
    end, cost
        The distribution at the end of the output path, and KL(end‖P0); None where no change of the inputs gets there.
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
        # λ1 = 1 keeps Q near P0; λ2 and λ4 grow along the path.
        lam = check_weights((1.0, on_inputs * step, 0.0, step))
        try:
            start = points[-1].multipliers if points else None
            points.append(path_point(inputs, lam, check_divergence("kl"), start))
        except SupportError:
            return ()
    return tuple(points)


CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])  # a triangle with sides 1
WEIGHTS = tuple(float(weight) for weight in np.geomspace(0.02, 2000.0, 60))


Point = dict[str, float | list[float] | None]  # a distribution q over three atoms, its x and y in the plane, and t


@dataclass(frozen=True, slots=True, eq=False)
class Simplex:
    """Distributions over three atoms, one row each, and what lies between them.

    Attributes
    ----------
    p0, p1
        The two groups.
    level
        The two ends of the line {q: W·q = Y1(1)} inside the triangle, where the disparate impact is zero; empty
        where every q is on it.
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
        """Return every point with its position in the plane; an infinite weight is None."""
        return {
            "corners": [_point(row) for row in np.eye(3)],
            "p0": _point(self.p0),
            "p1": _point(self.p1),
            "level": [_point(row) for row in self.level],
            "green": _stops(self.green, self.green_weights),
            "red": _stops(self.red, self.red_weights),
        }


def simplex_paths(world: World) -> Simplex:
    """Return both ways of a world with three atoms and two outcomes, in the KL divergence.

    The green way has only its start where no change of the inputs removes the disparate impact.
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
    """Return where {q: score·q = level} meets the edges of the simplex, as at most two distributions.

    On the edge from atom i to j, q_j = (level − score_i)/(score_j − score_i).
    """
    if not np.isfinite(level):
        raise DistributionError(f"`level` must be finite, got {level!r}.", "take a mean score.")
    corners: list[Floats] = []
    for i, j in ((0, 1), (1, 2), (2, 0)):
        if score[i] == score[j]:
            continue  # its two atoms are met from the other edges, where the whole edge is on the level
        # A hyperplane meets a triangle in two of its edges, in a corner, or along an edge.
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
    """Return P0, the path's points for the weights, and the end."""
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
