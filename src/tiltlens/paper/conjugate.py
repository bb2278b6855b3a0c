"""Convex conjugates of λa·J(·‖pa) + λb·J(·‖pb), entry by entry: the inner step of the path's dual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltlens.paper.checks import Floats
from tiltlens.paper.divergence import LOG2, Divergence

NEWTON_STEPS = 100  # of a one-dimensional root, which takes ten


# Where every weighted distribution is 0, it becomes this small: the dual then has no hard walls.
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
        # Beyond it s·q − F(q) grows with q without end.
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
    """Return the pair with a floor where every weighted distribution is 0."""
    floor = np.where(la * pa + lb * pb > 0, 0.0, FLOORS.get(divergence.name, 0.0))
    return PenaltyPair(divergence, la, pa + floor, lb, pb + floor)


def _chi2(pair: PenaltyPair, s: Floats) -> Floats:
    weight = sum(w for w, _ in pair._terms())
    # F’(q) = 2λa(q/pa − 1) + 2λb(q/pb − 1) = s; its slope at q = 0 is finite, so that Q may be 0.
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
    """Return the root of ½·Σ λ·log(2q/(q+p)) = s by Newton in y = log q.

    The left side is increasing and concave in y, so Newton from the left of the root climbs to it.
    """
    terms = pair._terms()
    free = sum((weight * (p == 0) for weight, p in terms), np.zeros_like(s))  # terms that cost ½·log 2 at any q
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
