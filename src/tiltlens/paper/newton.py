"""Damped Newton for smooth convex functions of a few variables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tiltlens.limits import DAMPED_STEPS
from tiltlens.paper.checks import Floats

HALVINGS = 60  # of a step: 2^-60 of it is no step
ARMIJO = 1e-4  # part of the expected fall that a step must bring
ConvexFunction = Callable[[Floats], tuple[float, Floats, Floats]]

DAMPINGS = (0.0, 1e-10, 1e-6, 1e-2)


def minimiser(function: ConvexFunction, start: Floats, tolerance: float = 1e-15) -> Floats:
    """Return the minimiser of a convex function by Newton's method with step halving.

    Parameters
    ----------
    function
        Returns value, gradient and Hessian; the value is infinite outside its domain.
    start
        A point of the domain.
    tolerance
        Stop once every entry of the gradient is this small, or once no step lowers the value.
    """
    point = start
    value, gradient, hessian = function(point)
    for _ in range(DAMPED_STEPS):
        if np.abs(gradient).max() <= tolerance:
            break
        moved = None
        # The undamped step first: it converges quadratically.
        for damping in DAMPINGS:
            if moved is None:
                step = _step(hessian, gradient, damping)
                moved = _halved(function, point, value, np.abs(gradient).max(), step, float(gradient @ step))
        if moved is None:
            break
        point, (value, gradient, hessian) = moved
    return point


def _step(hessian: Floats, gradient: Floats, damping: float) -> Floats:
    """Return −(H + damping·size·I)⁻¹·gradient; some damping tames a Hessian that is singular up to rounding."""
    size = float(np.trace(hessian)) / len(gradient)
    damped = hessian + damping * size * np.eye(len(gradient))
    # Least squares: in directions without curvature, as of equal scores, the step is 0.
    step: Floats = -np.linalg.lstsq(damped, gradient)[0].astype(np.float64)
    return step


def _halved(
    function: ConvexFunction, point: Floats, value: float, steepest: float, step: Floats, slope: float
) -> tuple[Floats, tuple[float, Floats, Floats]] | None:
    """Return the first of step, step/2, … that lowers the value enough, or None.

    Near the minimum the value no longer resolves progress; there a smaller gradient counts instead.
    """
    noise = 1e-14 * max(1.0, abs(value), float(np.abs(point).max()))  # of the terms the value is made of
    size = 1.0
    for _ in range(HALVINGS):
        candidate = point + size * step
        with np.errstate(all="ignore"):  # a step too far is not finite, and halved
            new = function(candidate)
        if np.isfinite(new[0]):
            lower = new[0] <= value + ARMIJO * size * slope
            flatter = abs(new[0] - value) <= noise and np.abs(new[1]).max() < 0.9 * steepest
            if (lower and new[0] < value) or flatter:
                return candidate, new
        size /= 2
    return None
