"""The least change of the scores under linear constraints: an exponential tilt W'_y ∝ W_y·exp(−Σ_c t_c·G_cy(x)).

Of all W' with E[Σ_y W'_y·G_cy] = α_c it has the least E[KL(W'‖W)]; the multipliers t minimise the convex dual
E[log Σ_y W_y·exp(−Σ_c t_c·G_cy)] + t·α (Csiszár 1975; Alghamdi et al. 2022). See docs/repair.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, rel_entr

from tiltlens.errors import SupportError
from tiltlens.limits import LARGEST_MULTIPLIER, REPAIRED
from tiltlens.paper.checks import Floats
from tiltlens.paper.newton import minimiser


@dataclass(frozen=True, slots=True, eq=False)
class LeastChange:
    """The multipliers, the scores after the tilt (n, K), and the nats that they moved on average."""

    multipliers: Floats
    scores: Floats
    nats: float


def tilted(scores: Floats, shift: Floats) -> Floats:
    """Return W'_y ∝ W_y·exp(−shift_y), (n, K); what has no chance keeps none."""
    with np.errstate(divide="ignore"):
        exponent = np.where(scores > 0.0, np.log(scores) - shift, -np.inf)
    exponent -= exponent.max(axis=1, keepdims=True)
    found = np.exp(exponent)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def tilted_score(score: Floats, shift: Floats) -> Floats:
    """Return the same of two outcomes given as W(1|x): logit W' = logit W − shift."""
    with np.errstate(divide="ignore"):
        return np.asarray(expit(np.log(score) - np.log1p(-score) - shift))


def repaired(score: Floats, shift: Floats, threshold: float | None = None) -> Floats:
    """Return the tilted scores; with a threshold τ decisions, 1 where W − τ ≥ shift."""
    if threshold is None:
        return tilted_score(score, shift)
    return np.asarray(score - threshold >= shift, dtype=np.float64)


def nats_moved(before: Floats, after: Floats, weights: Floats) -> float:
    """Return E[KL(W'‖W)] of (n,) scores of two outcomes, or of (n, K)."""
    if before.ndim == 1:
        moved = rel_entr(after, before) + rel_entr(1.0 - after, 1.0 - before)
    else:
        moved = rel_entr(after, before).sum(axis=1)
    return float(weights @ moved / weights.sum())


def least_change(scores: Floats, gradients: Floats, targets: Floats, weights: Floats) -> LeastChange:
    """Return the tilt of (n, K) scores with E[Σ_y W'_y·G_cy] = α_c for `gradients` (C, n, K) and `targets` (C,)."""
    share = weights / weights.sum()

    def dual(t: Floats) -> tuple[float, Floats, Floats]:
        shift = np.einsum("c,cny->ny", t, gradients)
        after = tilted(scores, shift)
        level = np.where(scores > 0.0, -shift, -np.inf).max(axis=1)
        mass = (scores * np.exp(np.minimum(-shift - level[:, None], 0.0) * (scores > 0.0))).sum(axis=1)
        means = np.einsum("ny,cny->cn", after, gradients)
        spread = np.einsum("ny,cny,dny,n->cd", after, gradients, gradients, share)
        hessian = spread - np.einsum("cn,dn,n->cd", means, means, share)
        value = float(share @ (np.log(mass) + level)) + float(t @ targets)
        return value, targets - means @ share, hessian

    t = minimiser(dual, np.zeros(len(targets)))
    _, left, _ = dual(t)
    if np.abs(left).max() > REPAIRED or np.abs(t).max() > LARGEST_MULTIPLIER:
        raise SupportError(
            "The limit is beyond reach: no change of the scores meets it.",
            "scores of 0 and 1 cannot move; allow a larger gap, or fewer constraints.",
        )
    after = tilted(scores, np.einsum("c,cny->ny", t, gradients))
    return LeastChange(t, after, nats_moved(scores, after, weights))


def multiplier(gap_at: Callable[[float], float], target: float) -> float:
    """Return t with gap(t) = `target`, the gap falling in t as far as the membership model is right.

    The sign of t is known from the gap without a tilt; it is bracketed by doubling.
    """
    start = gap_at(0.0) - target
    if abs(start) <= REPAIRED:
        return 0.0
    side, near, far = float(np.sign(start)), 0.0, 0.125
    while (gap_at(side * far) - target) * start > 0.0:
        near, far = far, 2.0 * far
        if far > LARGEST_MULTIPLIER:
            raise SupportError(
                f"The limit is beyond reach: the gap stays beyond {target:+.3g} however far the scores are moved.",
                "the membership model is too weak to tell whose scores to move; allow a larger gap, or use_group=True.",
            )
    low, high = min(side * near, side * far), max(side * near, side * far)
    return float(brentq(lambda t: gap_at(t) - target, low, high, xtol=1e-14, rtol=1e-14))
