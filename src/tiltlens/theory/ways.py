"""The two ways of the paper's Fig. 1 from P0, each a sequence of points of the correction path.

The green way aligns outputs only, λ = (1, 0, 0, t), and ends where the disparate impact is gone; the red one aligns
inputs and outputs, λ = (1, t, 0, t), and ends at P1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltlens.errors import SupportError
from tiltlens.theory.checks import Floats, check_weights
from tiltlens.theory.divergence import check_divergence
from tiltlens.theory.path import Inputs, PathPoint, path_point, projection

STEPS = tuple(float(step) for step in np.geomspace(0.1, 1000.0, 13))


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """The green and the red way, and the end of the green one: the least change that removes the disparate impact.

    Attributes
    ----------
    green, red
        Points of the correction path for t in `STEPS`; empty where outputs have no finite divergence.
    end, cost
        The distribution at the end of the green way, and KL(end‖P0); None where no change of the inputs gets there.
    """

    green: tuple[PathPoint, ...]
    red: tuple[PathPoint, ...]
    end: Floats | None
    cost: float | None


def ways(inputs: Inputs) -> Ways:
    """Return both ways from P0, in the KL divergence."""
    try:
        end, _ = projection(inputs.p0, inputs.channel, inputs.y1)
        cost = check_divergence("kl").between(end, inputs.p0)
    except SupportError:
        end, cost = None, None
    return Ways(_way(inputs, 0.0), _way(inputs, 1.0), end, cost)


def _way(inputs: Inputs, on_inputs: float) -> tuple[PathPoint, ...]:
    points: list[PathPoint] = []
    for step in STEPS:
        lam = check_weights((1.0, on_inputs * step, 0.0, step))
        try:
            start = points[-1].multipliers if points else None
            points.append(path_point(inputs, lam, check_divergence("kl"), start))
        except SupportError:
            return ()
    return tuple(points)
