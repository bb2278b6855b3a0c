"""Estimates and bounds of the gap between groups observed only as probabilities b, and checks against known groups.

The weighted gap is Cov(b, W)/(E b·(1 − E b)), the linear estimate Cov(b, W)/Var(b). Where b is calibrated,

    weighted = gap − E[Cov(S̄, W|b)]/Var(S̄),    linear = gap + E[Cov(b, W|S̄)]/Var(b):

the gap lies between them where both covariances have one sign (Chen et al. 2019; McCartan et al. 2023). See
docs/methods.md, section 15.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tiltlens.estimators.estimate import Estimate, Normal
from tiltlens.estimators.influence import InfluenceEstimate, Integers, combine, overall_mean
from tiltlens.limits import CALIBRATED, SMALLEST_SHARE
from tiltlens.paper.checks import Floats

CHANCE_BINS = 20  # within which probabilities are treated as equal
CHANCE_BIN_ROWS = 100  # rows per bin, at least: each estimates a quantile


@dataclass(frozen=True, slots=True, eq=False)
class ChanceRows:
    """Rows with a probability b of being audited, a weight and a score; rows of one cluster are dependent."""

    chance: Floats
    weights: Floats
    score: Floats
    clusters: Integers | None = None

    def mean(self, x: Floats) -> InfluenceEstimate:
        """Return the weighted mean of a column, with its influence function."""
        return overall_mean(self.weights, x, self.clusters)

    def at(self, keep: Integers) -> ChanceRows:
        """Return some of the rows."""
        clusters = None if self.clusters is None else np.unique(self.clusters[keep], return_inverse=True)[1]
        return ChanceRows(self.chance[keep], self.weights[keep], self.score[keep], clusters)


def slope_on_chance(rows: ChanceRows, y: Floats) -> InfluenceEstimate | None:
    """Return Cov(b, y)/Var(b), None where everybody has the same chance."""
    centred = rows.chance - rows.mean(rows.chance).value
    spread = rows.mean(centred**2).value
    if spread <= SMALLEST_SHARE:
        return None
    rest = y - rows.mean(y).value
    value = rows.mean(centred * rest).value / spread
    # The influence of a slope: x·(residual)/Var(x), as in least squares.
    return replace(rows.mean(centred * (rest - value * centred) / spread), value=value)


def visible_part(rows: ChanceRows) -> float:
    """Return Var(b)/Var(S̄), the weighted over the linear estimate: the fraction of a gap that weighting reveals.

    It is exact for W = c·S̄ plus noise unrelated to b; weighting reveals less of a gap that is unrelated to b.
    """
    share = rows.mean(rows.chance).value
    spread = rows.mean((rows.chance - share) ** 2).value
    return min(spread / (share * (1.0 - share)), 1.0) if 0.0 < share < 1.0 else 1.0


def frechet_limits(rows: ChanceRows) -> tuple[Normal, Normal] | None:
    """Return the smallest and the largest gap that a calibrated b allows; None if only one group is present.

    E[S̄·W] is largest if, among people with about the same b, the fraction b with the highest scores is audited:
    E[(W − q)⁺] + q·b with q the (1 − b)-quantile of W there. It is smallest with the lowest. For decisions these
    are Fréchet's limits, P(S̄ = 1, W = 1|b) ≤ min(b, E[W|b]) and ≥ max(0, b + E[W|b] − 1).
    """
    share = rows.mean(rows.chance)
    if not 0.0 < share.value < 1.0:
        return None
    whole, bins = rows.mean(rows.score), _chance_bins(rows)
    limits = []
    for sign in (-1.0, 1.0):
        most = np.zeros(rows.score.size)
        for members in bins:
            # (42): at the best q the derivative by q is 0, so that its error needs no term (envelope theorem).
            most[members] = _most(sign * rows.score[members], rows.chance[members], rows.weights[members])
        limits.append(_gap_from(rows.mean(sign * most), whole, share).normal())
    return limits[0], limits[1]


def _most(score: Floats, chance: Floats, weights: Floats) -> Floats:
    """Return (W − q)⁺ + q·b for rows with about the same chance b: its mean is the largest E[S̄·W]."""
    order = np.argsort(-score, kind="stable")
    above = np.cumsum(weights[order])
    wanted = float(weights @ chance)
    q = score[order[min(int(np.searchsorted(above, wanted)), score.size - 1)]]
    return np.asarray(np.maximum(score - q, 0.0) + q * chance)


def _chance_bins(rows: ChanceRows) -> list[Integers]:
    """Return the positions of the rows in each quantile bin of the chance; equal chances share a bin."""
    count = int(np.clip(rows.chance.size // CHANCE_BIN_ROWS, 1, CHANCE_BINS))
    # Chances within a bin count as equal: that makes limits wider, never narrower.
    edges = np.unique(np.quantile(rows.chance, np.linspace(0.0, 1.0, count + 1)[1:-1]))
    number = np.searchsorted(edges, rows.chance, side="left")
    return [np.flatnonzero(number == bin_number) for bin_number in np.unique(number)]


def _gap_from(product: InfluenceEstimate, whole: InfluenceEstimate, share: InfluenceEstimate) -> InfluenceEstimate:
    """Return T/B − (M − T)/(1 − B) from T = E[S̄·W], M = E[W] and B = E[S̄]."""
    t, m, b = product.value, whole.value, share.value
    value = t / b - (m - t) / (1.0 - b)
    # Delta method (4) of the gap from T, M and B.
    on_share = -t / b**2 - (m - t) / (1.0 - b) ** 2
    return combine(value, [(1.0 / b + 1.0 / (1.0 - b), product), (-1.0 / (1.0 - b), whole), (on_share, share)])


class Calibration(NamedTuple):
    """Calibration of b by known groups S̄: the slope of S̄ on b (1 if b is calibrated), and E[S̄ − b] (0)."""

    slope: Estimate
    difference: Estimate
    holds: bool  # both intervals lie within the tolerance


class Signs(NamedTuple):
    """How far the gap of known groups lies above the weighted estimate, and below the linear one, in points."""

    above_weighted: Estimate
    below_linear: Estimate

    @property
    def are_opposite(self) -> bool:
        """Whether the gap surely lies on one side of both estimates."""
        (low, high), (low1, high1) = _ends(self.above_weighted), _ends(self.below_linear)
        return (low > 0.0 and high1 < 0.0) or (high < 0.0 and low1 > 0.0)

    @property
    def outside(self) -> tuple[float, float]:
        """How far the gap may lie below and above both estimates, by the intervals from known groups."""
        (low, high), (low1, high1) = _ends(self.above_weighted), _ends(self.below_linear)
        return max(min(-low, high1), 0.0), max(min(high, -low1), 0.0)


def _ends(estimate: Estimate) -> tuple[float, float]:
    return float(estimate.low or 0.0), float(estimate.high or 0.0)


def calibration(rows: ChanceRows, audited: Floats, confidence: float) -> Calibration | None:
    """Return whether b is calibrated on rows whose group is known; None where b, or the group, is the same for all."""
    share = rows.mean(audited).value
    slope = slope_on_chance(rows, audited)
    if slope is None or not 0.0 < share < 1.0:
        return None
    difference = rows.mean(audited - rows.chance).normal().estimate(confidence)
    estimate, tolerance = slope.normal().estimate(confidence), CALIBRATED * min(share, 1.0 - share)
    holds = _within(estimate, 1.0, CALIBRATED) and _within(difference, 0.0, tolerance)
    return Calibration(estimate, difference, holds)


def _within(estimate: Estimate, middle: float, reach: float) -> bool:
    low, high = _ends(estimate)
    return middle - reach <= low and high <= middle + reach


def signs(rows: ChanceRows, audited: Floats, confidence: float) -> Signs | None:
    """Return E[Cov(S̄, W|b)]/Var(S̄) and E[Cov(b, W|S̄)]/Var(b) on rows whose group is known.

    If b is calibrated, the first is E[(S̄ − b)·W]/Var(S̄). W is replaced by its residual from a regression on b, which
    only reduces the error.
    """
    slope = slope_on_chance(rows, rows.score)
    share = rows.mean(audited).value
    if slope is None or not 0.0 < share < 1.0:
        return None
    # E[(S̄ − b)·(α + βb)] = 0 where b is calibrated: the regression reduces variance and adds no bias.
    level = rows.mean(rows.score).value - slope.value * rows.mean(rows.chance).value
    beyond = rows.mean((audited - rows.chance) * (rows.score - level - slope.value * rows.chance))
    first = _over_variance(beyond, rows.mean((audited - share) ** 2))
    within = np.zeros(rows.score.size)
    for who in (audited > 0.0, audited <= 0.0):
        part = rows.at(np.flatnonzero(who))
        within[who] = (part.chance - part.mean(part.chance).value) * (part.score - part.mean(part.score).value)
    spread = rows.mean((rows.chance - rows.mean(rows.chance).value) ** 2)
    second = _over_variance(rows.mean(within), spread)
    return Signs(first.normal().estimate(confidence), second.normal().estimate(confidence))


def _over_variance(covariance: InfluenceEstimate, variance: InfluenceEstimate) -> InfluenceEstimate:
    ratio = covariance.value / variance.value
    return combine(ratio, [(1.0 / variance.value, covariance), (-ratio / variance.value, variance)])
