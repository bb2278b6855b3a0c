"""Error rates where some outcomes were not observed: bounds, if the unobserved resemble the observed at equal score.

P(Y = y | score, unobserved) is assumed to lie within ±Γ of P(Y = y | score, observed), by group and cell of the score.
Cells without enough observed outcomes have no limits but 0 and 1. See docs/methods.md, section 18.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tiltlens.estimators.error_rates import UNKNOWN
from tiltlens.estimators.influence import InfluenceEstimate, Integers, Rows, combine, sums_by
from tiltlens.paper.checks import Floats

Bound = Callable[[float, bool], InfluenceEstimate]  # of Γ, and whether it is the upper one


def partly_seen_rate(
    rows: Rows, is_audited: bool, x: Floats, outcome: Integers, code: int, cell: Integers, fewest: int
) -> Bound:
    """Return the bounds of E_g[x | Y = `code`] of one group; a cell needs `fewest` observed outcomes of it."""
    share = rows.audited_share if is_audited else rows.reference_share
    is_seen, has_it = outcome != UNKNOWN, outcome == code
    seen, events = (sums_by(cell, np.where(part, share, 0.0)) for part in (is_seen, has_it))
    rate = np.divide(events, seen, out=np.zeros_like(seen), where=seen > 0.0)[cell]
    mine = rows.audited == is_audited
    is_informed = ~is_seen & (np.bincount(cell, mine & is_seen, seen.size) >= fewest)[cell]
    unseen = np.flatnonzero(mine & ~is_seen)
    # A ratio linear in the probabilities is largest with the highest x at their upper ends.
    order = unseen[np.argsort(-x[unseen], kind="stable")]

    def bound(gamma: float, is_upper: bool) -> InfluenceEstimate:
        """Return the largest, or smallest, mean: each rate is then at an end, by rank of x.

        The influence is that of a ratio with these ends, and of the cells' rates that they are around.
        """
        low, high = (np.where(is_informed, np.clip(rate + side * gamma, 0.0, 1.0), side > 0) for side in (-1, 1))
        likely, ranked = np.where(is_seen, has_it, low), order if is_upper else order[::-1]
        gain, weight = (share * (high - low))[ranked], share * likely
        mass = np.cumsum(np.append(weight.sum(), gain))
        ratios = np.cumsum(np.append(weight @ x, gain * x[ranked])) / np.maximum(mass, 1e-300)
        raised = int(ratios.argmax() if is_upper else ratios.argmin())
        likely[ranked[:raised]] = high[ranked[:raised]]
        away = (x - ratios[raised]) / mass[raised]
        # Ends that are cut at 0 or 1 do not move with the observed rate.
        moves = is_informed & (likely > 0.0) & (likely < 1.0)
        # [observed]·(y − p_k)/P(observed, k)·E[(x − R)·[unobserved, k, 0 < q < 1]]/E[weights], section 18.
        slope = np.divide(sums_by(cell, share * moves * away), seen, out=np.zeros_like(seen), where=seen > 0.0)
        influence, zero = away * likely + is_seen * slope[cell] * (has_it - rate), rows.constant(0.0)
        columns = (influence, zero) if is_audited else (zero, influence)
        return InfluenceEstimate.of(rows, float(ratios[raised]), *columns)

    return bound


def bound_gap(audited: Bound, reference: Bound, gamma: float) -> tuple[InfluenceEstimate, InfluenceEstimate]:
    """Return the smallest and the largest gap of a rate for event rates within ±Γ of the observed, in each group."""
    both = []
    for is_upper in (False, True):
        first, second = audited(gamma, is_upper), reference(gamma, not is_upper)
        both.append(combine(first.value - second.value, [(1.0, first), (-1.0, second)]))
    return both[0], both[1]
