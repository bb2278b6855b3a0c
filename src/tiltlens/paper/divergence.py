"""The f-divergences J(Q‖P) = Σ P·φ(Q/P), in nats, the conjugates that the path's dual needs, and a Newton method.

Each is given by functions of the pair (q, p) instead of the ratio q/p, so that no intermediate result overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiltlens._limits import DAMPED_STEPS, EQUAL
from tiltlens.errors import SupportError, TiltlensError
from tiltlens.paper.checks import Floats, log_ratio

HALVINGS = 60  # of a step: 2^-60 of a step is negligible
ARMIJO = 1e-4  # share of the expected decrease that a step must attain
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
        # The undamped step comes first, because it converges quadratically.
        for damping in DAMPINGS:
            if moved is None:
                step = _step(hessian, gradient, damping)
                moved = _halved(function, point, value, np.abs(gradient).max(), step, float(gradient @ step))
        if moved is None:
            break
        point, (value, gradient, hessian) = moved
    return point


def _step(hessian: Floats, gradient: Floats, damping: float) -> Floats:
    """Return −(H + damping·size·I)⁻¹·gradient; damping handles a Hessian that is singular up to rounding."""
    size = float(np.trace(hessian)) / len(gradient)
    damped = hessian + damping * size * np.eye(len(gradient))
    # Least squares: the step is 0 in directions without curvature, which occur for equal scores.
    step: Floats = -np.linalg.lstsq(damped, gradient)[0].astype(np.float64)
    return step


def _halved(
    function: ConvexFunction, point: Floats, value: float, steepest: float, step: Floats, slope: float
) -> tuple[Floats, tuple[float, Floats, Floats]] | None:
    """Return the first of step, step/2, … that decreases the function enough, or None.

    Near the minimum, rounding hides any decrease; there a smaller gradient is accepted instead.
    """
    noise = 1e-14 * max(1.0, abs(value), float(np.abs(point).max()))  # relative to the terms that sum to the value
    size = 1.0
    for _ in range(HALVINGS):
        candidate = point + size * step
        with np.errstate(all="ignore"):  # a step that is too long gives a non-finite value, and is halved
            new = function(candidate)
        if np.isfinite(new[0]):
            lower = new[0] <= value + ARMIJO * size * slope
            flatter = abs(new[0] - value) <= noise and np.abs(new[1]).max() < 0.9 * steepest
            if (lower and new[0] < value) or flatter:
                return candidate, new
        size /= 2
    return None


LOG2 = math.log(2.0)

PairFunction = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, slots=True)
class Divergence:
    """An f-divergence, given by its generator φ.

    Attributes
    ----------
    term
        P·φ(Q/P) where both are positive.
    slope
        φ'(Q/P) where both are positive.
    curvature
        φ''(Q/P)/P where both are positive.
    at_zero, slope_at_infinity
        φ(0) and φ'(∞): the cost per unit of P where Q has no mass, and per unit of Q where P has none.
    slope_at_one
        φ'(1), the slope at Q = P.
    """

    name: str
    term: PairFunction
    slope: PairFunction
    curvature: PairFunction
    at_zero: float
    slope_at_infinity: float
    slope_at_one: float

    def between(self, q: Floats, p: Floats) -> float:
        """Return J(Q‖P), which may be infinite."""
        if q.min() > 0 and p.min() > 0:  # by far the most common case, in which masks would only copy
            return max(float(self.term(q, p).sum()), 0.0)
        both, missed, extra = (q > 0) & (p > 0), (q == 0) & (p > 0), (q > 0) & (p == 0)
        value = float(self.term(q[both], p[both]).sum())
        if missed.any():
            value += self.at_zero * float(p[missed].sum())
        if extra.any() and self.slope_at_infinity:
            # lim P·φ(Q/P) = Q·φ’(∞) as P → 0, and P·φ(0) where Q = 0.
            value += self.slope_at_infinity * float(q[extra].sum())
        return max(value, 0.0)

    def slope_of(self, q: Floats, p: Floats, support: str) -> Floats:
        """Return φ'(Q/P) − φ'(1) where Q > 0, else 0; raise for an infinite slope with the name of the `support`.

        The constant φ'(1) has no effect on perturbations; without it, equal probabilities have slope exactly 0.
        """
        both, extra = (q > 0) & (p > 0), (q > 0) & (p == 0)
        if extra.any() and math.isinf(self.slope_at_infinity):
            raise infinite(self, support, int(np.flatnonzero(extra)[0]))
        slope = np.zeros_like(q)
        slope[both] = self.slope(q[both], p[both]) - self.slope_at_one
        # Otherwise g would consist of rounding noise for equal probabilities, and f̃ would have a direction.
        slope[both & (np.abs(q - p) <= EQUAL * np.maximum(q, p))] = 0.0
        slope[extra] = self.slope_at_infinity - self.slope_at_one
        return slope


def infinite(divergence: Divergence, support: str, index: int) -> SupportError:
    """Return the error of a divergence that is infinite because of one atom or outcome."""
    return SupportError(
        f"the `{divergence.name}` divergence is infinite: {support} {index} has mass in one distribution and "
        "none in the other.",
        "merge rare atoms, give this term the weight 0, or use a bounded divergence ('hellinger', 'js', 'tv').",
    )


DIVERGENCES = {
    d.name: d
    for d in (
        Divergence(
            name="kl",
            term=lambda q, p: q * log_ratio(q, p),
            slope=lambda q, p: log_ratio(q, p) + 1.0,
            curvature=lambda q, p: 1.0 / q,
            at_zero=0.0,
            slope_at_infinity=math.inf,
            slope_at_one=1.0,
        ),
        Divergence(
            name="reverse_kl",
            term=lambda q, p: -p * log_ratio(q, p),
            slope=lambda q, p: -p / q,
            curvature=lambda q, p: p / q**2,
            at_zero=math.inf,
            slope_at_infinity=0.0,
            slope_at_one=-1.0,
        ),
        Divergence(
            name="chi2",
            term=lambda q, p: (q - p) ** 2 / p,
            slope=lambda q, p: 2.0 * (q - p) / p,
            curvature=lambda q, p: 2.0 / p,
            at_zero=1.0,
            slope_at_infinity=math.inf,
            slope_at_one=0.0,
        ),
        Divergence(
            name="hellinger",
            term=lambda q, p: (np.sqrt(q) - np.sqrt(p)) ** 2,
            slope=lambda q, p: 1.0 - np.sqrt(p / q),
            curvature=lambda q, p: 0.5 * np.sqrt(p / q) / q,
            at_zero=1.0,
            slope_at_infinity=1.0,
            slope_at_one=0.0,
        ),
        Divergence(
            name="js",
            term=lambda q, p: 0.5 * (q * np.log(2.0 * q / (q + p)) + p * np.log(2.0 * p / (q + p))),
            slope=lambda q, p: 0.5 * np.log(2.0 * q / (q + p)),
            curvature=lambda q, p: 0.5 * (p / (q + p)) / q,
            at_zero=0.5 * LOG2,
            slope_at_infinity=0.5 * LOG2,
            slope_at_one=0.0,
        ),
        Divergence(
            name="tv",
            term=lambda q, p: 0.5 * np.abs(q - p),
            slope=lambda q, p: 0.5 * np.sign(q - p),
            curvature=lambda q, p: np.zeros_like(q),
            at_zero=0.5,
            slope_at_infinity=0.5,
            slope_at_one=0.0,
        ),
    )
}


def check_divergence(name: str) -> Divergence:
    """Return the divergence with this name."""
    if not isinstance(name, str) or name not in DIVERGENCES:
        raise TiltlensError(
            f"`divergence` must be one of {sorted(DIVERGENCES)}, got {name!r}.",
            "'kl' is the paper's choice.",
        )
    return DIVERGENCES[name]


NEWTON_STEPS = 100  # for a one-dimensional root, which usually takes ten


# Probabilities where all weighted distributions are 0, so that the dual has no hard walls.
FLOORS = {"reverse_kl": 1e-10, "hellinger": 1e-18, "js": 1e-10}


@dataclass(frozen=True, slots=True, eq=False)
class PenaltyPair:
    """F(q) = la·pa·φ(q/pa) + lb·pb·φ(q/pb) for each entry of q, and its conjugate F*(s) = max_q s·q − F(q)."""

    divergence: Divergence
    la: float
    pa: Floats
    lb: float
    pb: Floats

    def in_domain(self, s: Floats) -> bool:
        """Whether F* is finite at s: every s below the slope of F at infinity."""
        # At or above it, s·q − F(q) is unbounded in q.
        limit = (self.la + self.lb) * self.divergence.slope_at_infinity
        return bool((s < limit).all())

    def conjugate(self, s: Floats) -> tuple[Floats, float, Floats]:
        """Return the maximiser q = F*'(s), the sum of F*(s), and the curvature F*''(s) = 1/F''(q)."""
        # F*(s) = s·q − F(q) at the q with F’(q) = s, and F*’’ = 1/F’’ (Legendre).
        q = INVERSES[self.divergence.name](self, s)
        positive = q > 0
        value, bend = np.zeros_like(q), np.zeros_like(q)
        for weight, p in self._terms():
            both, extra, missed = positive & (p > 0), positive & (p == 0), ~positive & (p > 0)
            value[both] += weight * self.divergence.term(q[both], p[both])
            bend[both] += weight * self.divergence.curvature(q[both], p[both])
            value[extra] += weight * self.divergence.slope_at_infinity * q[extra]
            value[missed] += weight * self.divergence.at_zero * p[missed]
        curvature = np.zeros_like(q)
        curvature[bend > 0] = 1.0 / bend[bend > 0]
        return q, float(s @ q - value.sum()), curvature

    def _terms(self) -> list[tuple[float, Floats]]:
        return [(weight, p) for weight, p in ((self.la, self.pa), (self.lb, self.pb)) if weight > 0]


def penalty_pair(divergence: Divergence, la: float, pa: Floats, lb: float, pb: Floats) -> PenaltyPair:
    """Return the penalty pair, with a floor where all weighted distributions are 0."""
    floor = np.where(la * pa + lb * pb > 0, 0.0, FLOORS.get(divergence.name, 0.0))
    return PenaltyPair(divergence, la, pa + floor, lb, pb + floor)


def _chi2(pair: PenaltyPair, s: Floats) -> Floats:
    weight = sum(w for w, _ in pair._terms())
    # F’(q) = 2λa(q/pa − 1) + 2λb(q/pb − 1) = s; the slope at q = 0 is finite, so Q may be 0.
    stiffness = sum((2.0 * w / p for w, p in pair._terms()), np.zeros_like(s))
    return np.maximum(0.0, (s + 2.0 * weight) / stiffness)


def _reverse_kl(pair: PenaltyPair, s: Floats) -> Floats:
    # F’(q) = −(λa·pa + λb·pb)/q = s.
    q: Floats = (pair.la * pair.pa + pair.lb * pair.pb) / -s
    return q


def _hellinger(pair: PenaltyPair, s: Floats) -> Floats:
    # F’(q) = λa(1 − √(pa/q)) + λb(1 − √(pb/q)) = s.
    root = pair.la * np.sqrt(pair.pa) + pair.lb * np.sqrt(pair.pb)
    q: Floats = (root / (pair.la + pair.lb - s)) ** 2
    return q


def _js(pair: PenaltyPair, s: Floats) -> Floats:
    """Return the root of ½·Σ λ·log(2q/(q+p)) = s by Newton's method in y = log q.

    The left side is increasing and concave in y, so iterates from the left of the root increase to it.
    """
    terms = pair._terms()
    free = sum((weight * (p == 0) for weight, p in terms), np.zeros_like(s))  # these have slope ½·log 2
    bound = sum((weight * (p > 0) for weight, p in terms), np.zeros_like(s))
    lowest = np.minimum.reduce([np.where(p > 0, p, np.inf) for _, p in terms])
    headroom = (2.0 * s - free * LOG2) / bound - LOG2  # < 0 inside the domain
    y: Floats = np.log(lowest) + headroom + LOG2 - np.log(-2.0 * np.expm1(headroom))
    for _ in range(NEWTON_STEPS if len(terms) > 1 else 0):
        value, slope = np.zeros_like(s), np.zeros_like(s)
        for weight, p in terms:
            ratio = p * np.exp(-y)
            value += 0.5 * weight * (LOG2 - np.log1p(ratio))
            slope += 0.5 * weight * ratio / (1.0 + ratio)
        step = (s - value) / slope
        y += step
        if np.abs(step).max() <= 1e-14 * max(1.0, float(np.abs(y).max())):
            break
    q: Floats = np.exp(y)
    return q


INVERSES = {"chi2": _chi2, "reverse_kl": _reverse_kl, "hellinger": _hellinger, "js": _js}
