"""The f-divergences J(Q‖P) = Σ P·φ(Q/P), in nats.

Each is kept as functions of the pair (q, p) instead of the ratio q/p, so that no intermediate overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiltlens.errors import SupportError, TiltlensError
from tiltlens.limits import EQUAL
from tiltlens.paper.checks import Floats

LOG2 = math.log(2.0)

PairFunction = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, slots=True)
class Divergence:
    """An f-divergence, by its generator φ.

    Attributes
    ----------
    term
        P·φ(Q/P) where both are positive.
    slope
        φ'(Q/P) where both are positive.
    curvature
        φ''(Q/P)/P where both are positive.
    at_zero, slope_at_infinity
        φ(0) and φ'(∞): the cost per unit of P that Q misses, and of Q where P has no mass.
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
        if q.min() > 0 and p.min() > 0:  # by far the usual case, and a mask copies
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
        """Return φ'(Q/P) − φ'(1) where Q > 0, else 0; an infinite slope raises and names the `support`.

        The constant φ'(1) moves no perturbation; without it, equal probabilities have slope 0 exactly.
        """
        both, extra = (q > 0) & (p > 0), (q > 0) & (p == 0)
        if extra.any() and math.isinf(self.slope_at_infinity):
            raise infinite(self, support, int(np.flatnonzero(extra)[0]))
        slope = np.zeros_like(q)
        slope[both] = self.slope(q[both], p[both]) - self.slope_at_one
        # Rounding of equal probabilities would otherwise be all of g, and give f̃ a direction.
        slope[both & (np.abs(q - p) <= EQUAL * np.maximum(q, p))] = 0.0
        slope[extra] = self.slope_at_infinity - self.slope_at_one
        return slope


def infinite(divergence: Divergence, support: str, index: int) -> SupportError:
    """Return the error for a divergence that is infinite because of one atom or outcome."""
    return SupportError(
        f"the `{divergence.name}` divergence is infinite: {support} {index} has mass in one distribution and "
        "none in the other.",
        "merge rare atoms, give this term the weight 0, or use a bounded divergence ('hellinger', 'js', 'tv').",
    )


def log_ratio(q: Floats, p: Floats) -> Floats:
    """Return log(q/p), exactly 0 where the two differ by rounding only."""
    equal = np.abs(q - p) <= EQUAL * np.maximum(q, p)
    ratio: Floats = np.log(q / p)
    ratio[equal] = 0.0
    return ratio


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
    """Return the divergence called `name`."""
    if not isinstance(name, str) or name not in DIVERGENCES:
        raise TiltlensError(
            f"`divergence` must be one of {sorted(DIVERGENCES)}, got {name!r}.",
            "'kl' is the paper's choice.",
        )
    return DIVERGENCES[name]
