"""Error rates where some outcomes were not observed: bounds, if the unobserved resemble the observed at equal score.

P(Y = y | score, unobserved) is assumed to lie within ±Γ of P(Y = y | score, observed), by group and cell of the score.
Cells without enough observed outcomes have no limits but 0 and 1. See docs/methods.md, section 18.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltlens.estimators.error_rates import UNKNOWN
from tiltlens.estimators.influence import Booleans, InfluenceEstimate, Integers, Rows, combined, sums_by
from tiltlens.paper.checks import Floats


@dataclass(frozen=True, slots=True, eq=False)
class PartlySeenRate:
    """E_g[x | Y = y] of one group, of whose rows some have no observed outcome.

    Attributes
    ----------
    rows, is_audited
        All rows, and the group.
    x, has_it
        The number whose mean is taken; and whether Y = y, where the outcome is observed.
    is_seen, cell, share
        Whether it is; the cell of the score; and the row's share of the group, 0 for other rows.
    rate, is_informed
        P(Y = y | observed) in the row's cell; and whether enough outcomes are observed there.
    order
        The group's rows without an observed outcome, the largest x first.
    """

    rows: Rows
    is_audited: bool
    x: Floats
    has_it: Booleans
    is_seen: Booleans
    cell: Integers
    share: Floats
    rate: Floats
    is_informed: Booleans
    order: Integers

    @classmethod
    def of(
        cls, rows: Rows, is_audited: bool, x: Floats, outcome: Integers, code: int, cell: Integers, fewest: int
    ) -> PartlySeenRate:
        """Return the mean of `x` over the rows with the outcome `code`; a cell needs `fewest` observed outcomes."""
        share = rows.audited_share if is_audited else rows.reference_share
        mine, is_seen, has_it = rows.audited == is_audited, outcome != UNKNOWN, outcome == code
        seen, events = (sums_by(cell, np.where(part, share, 0.0)) for part in (is_seen, has_it))
        rate = np.divide(events, seen, out=np.zeros_like(seen), where=seen > 0.0)
        counts = np.bincount(cell, mine & is_seen, seen.size)
        unseen = np.flatnonzero(mine & ~is_seen)
        order = unseen[np.argsort(-x[unseen], kind="stable")]
        return cls(
            rows, is_audited, x, has_it, is_seen, cell, share, rate[cell], (counts >= fewest)[cell] & ~is_seen, order
        )

    def bound(self, gamma: float, is_upper: bool) -> InfluenceEstimate:
        """Return the largest, or smallest, mean for event rates within ±Γ: a rate is then at an end, by rank of x.

        The influence is that of a ratio with these ends, and of the cells' rates that they are around.
        """
        ends = [np.clip(self.rate - gamma, 0.0, 1.0), np.clip(self.rate + gamma, 0.0, 1.0)]
        low, high = (np.where(self.is_informed, end, limit) for end, limit in zip(ends, (0.0, 1.0), strict=True))
        likely = np.where(self.is_seen, self.has_it * 1.0, low)
        order = self.order if is_upper else self.order[::-1]
        gain = (self.share * (high - low))[order]
        weight = self.share * likely
        mass = np.cumsum(np.append(weight.sum(), gain))
        ratios = np.cumsum(np.append(weight @ self.x, gain * self.x[order])) / np.maximum(mass, 1e-300)
        raised = int(ratios.argmax() if is_upper else ratios.argmin())
        value, mass_at = float(ratios[raised]), float(mass[raised])
        likely[order[:raised]] = high[order[:raised]]
        away = (self.x - value) / mass_at
        moves = self.is_informed & (likely > 0.0) & (likely < 1.0)
        slope, seen = (sums_by(self.cell, part) for part in (self.share * moves * away, self.share * self.is_seen))
        slope = np.divide(slope, seen, out=np.zeros_like(slope), where=seen > 0.0)
        influence = away * likely + self.is_seen * slope[self.cell] * (self.has_it - self.rate)
        zero = self.rows.constant(0.0)
        return InfluenceEstimate.of(self.rows, value, *((influence, zero) if self.is_audited else (zero, influence)))


def bounded_gap(
    audited: PartlySeenRate, reference: PartlySeenRate, gamma: float
) -> tuple[InfluenceEstimate, InfluenceEstimate]:
    """Return the smallest and the largest gap of a rate for event rates within ±Γ of the observed, in each group."""
    both = []
    for is_upper in (False, True):
        first, second = audited.bound(gamma, is_upper), reference.bound(gamma, not is_upper)
        both.append(combined(first.value - second.value, [(1.0, first), (-1.0, second)]))
    return both[0], both[1]
