"""How strong an omitted factor must be to account for an adjusted gap: evidence → robustness value and bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tiltlens._analysis.adjusted_gap import AdjustedGap, ExemptParts
from tiltlens._analysis.evidence import Evidence, Settings
from tiltlens._estimators.estimate import Estimate, is_beyond_zero, quantile
from tiltlens._estimators.feature_gap import bias_factor, partial_strengths, robustness_value, strength_multiple
from tiltlens._estimators.influence import InfluenceEstimate
from tiltlens._estimators.outputs import unseen_se
from tiltlens._estimators.sets import CellSets, RidgeSets
from tiltlens._formats import FieldTable, field_table
from tiltlens._rows.wording import Unit
from tiltlens.paper.checks import check_share

SHARE = "it is a share of what the features leave unexplained, for example 0.1."
OF_ALL, OF_EXEMPT = "adjusted_gap", "gap_given_exempt"


class Yardstick(NamedTuple):
    """A listed feature as if it were omitted: the shares of the score and of the group that it explains.

    Attributes
    ----------
    multiple, multiple_low
        Multiple of both shares with which an omitted factor brings the gap, and the end of its interval nearer to 0,
        to 0; None where no multiple does.
    """

    feature: str
    r2_score: float
    r2_group: float
    multiple: float | None
    multiple_low: float | None

    def _repr_html_(self) -> str:
        return field_table(self)


class GapBounds(NamedTuple):
    """The smallest and the largest gap that an omitted factor of some strength allows, each with its interval."""

    low: Estimate
    high: Estimate

    def _repr_html_(self) -> str:
        return field_table(self)


@dataclass(frozen=True, slots=True)
class Sensitivity(FieldTable):
    """How far an omitted factor may move an adjusted gap.

    Attributes
    ----------
    scale
        𝒮: a factor with the shares R²_W and R²_S moves the gap by at most 𝒮·√(R²_W·R²_S/(1 − R²_S)).
    robustness_value
        Smallest value of both R²_W and R²_S with which a factor accounts for the whole gap; `low` is that for the
        end of the gap's interval nearer to 0, and 0 if the interval includes 0.
    se, scale_se, covariance, confidence
        Standard errors of gap and 𝒮, and their covariance, for the intervals of bounds; and the confidence level.
    yardsticks
        The listed features, the strongest first (the smallest multiple of it accounts for the gap).
    """

    gap: Estimate
    scale: float
    robustness_value: Estimate
    se: float
    scale_se: float
    covariance: float
    confidence: float
    yardsticks: tuple[Yardstick, ...]

    def bounds(self, r2_score: float, r2_group: float) -> GapBounds:
        """Return the bounds of the gap for an omitted factor of a stated strength, with their intervals.

        Parameters
        ----------
        r2_score, r2_group : float
            Share that the factor explains of the remaining variance of the score, given the group, and of the group,
            after the features.
        """
        factor = bias_factor(check_share("r2_score", r2_score, SHARE), check_share("r2_group", r2_group, SHARE))
        return GapBounds(self._moved(-factor), self._moved(factor))

    def _moved(self, factor: float) -> Estimate:
        """Return c + factor·𝒮; without an omitted factor its interval is that of the gap."""
        # Var(c + factor·𝒮); only the difference to the se of c is added, as c's own interval may be wider than normal.
        square = self.se**2 + 2.0 * factor * self.covariance + (factor * self.scale_se) ** 2
        wider = quantile(self.confidence) * (math.sqrt(max(square, 0.0)) - self.se)
        low, high = (0.0 if end is None else end + factor * self.scale for end in (self.gap.low, self.gap.high))
        return Estimate(self.gap.value + factor * self.scale, low - wider, high + wider)

    def in_units(self, unit: Unit) -> Sensitivity:
        """Return the same in the unit of an amount."""
        scale, se, scale_se = (unit.difference(size) for size in (self.scale, self.se, self.scale_se))
        gap, covariance = self.gap.mapped(unit.difference), unit.scale**2 * self.covariance
        return replace(self, gap=gap, scale=scale, se=se, scale_se=scale_se, covariance=covariance)


def sensitivities(
    evidence: Evidence,
    settings: Settings,
    adjusted: AdjustedGap,
    parts: ExemptParts | None,
    given_exempt: Estimate | None,
) -> dict[str, Sensitivity]:
    """Return the sensitivity of the adjusted gap and of the gap given exempt factors, as far as these are estimated.

    Empty for plug-in values and unobserved groups. An adjusted gap that is 0 by construction has none.
    """
    sets, results = evidence.nuisances.sets, {}
    if settings.folds is None or sets is None or evidence.rows.probabilities is not None:
        return {}
    names, level = list(evidence.table), settings.confidence
    if adjusted.estimate is not None and adjusted.measured is not None and adjusted.scale is not None:
        strengths = [*_strengths(names, sets, range(sets.features))]
        both = adjusted.measured, adjusted.scale
        se = math.hypot(adjusted.measured.se, *unseen_se(evidence.population, evidence.score))
        results[OF_ALL] = _sensitivity(adjusted.estimate, se, both, level, strengths)
    if parts is not None and given_exempt is not None:
        strengths = [*_strengths(names, sets, evidence.exempt)]
        both = parts.measured, parts.scale
        results[OF_EXEMPT] = _sensitivity(given_exempt, parts.at_equal.se, both, level, strengths)
    return results


def _strengths(
    names: list[str], sets: CellSets | RidgeSets, features: Sequence[int]
) -> Iterator[tuple[str, float, float]]:
    """Yield name, R²_W and R²_S of each feature of a set as if it were omitted, from the regressions without it."""
    without = [[other for other in features if other != feature] for feature in features]
    shares = partial_strengths(*sets.means([list(features), *without]))
    for feature, *both in zip(features, *(share.tolist() for share in shares), strict=True):
        if names[feature] not in sets.pooled:
            yield names[feature], both[0], both[1]


def _sensitivity(
    gap: Estimate,
    se: float,
    measured: tuple[InfluenceEstimate, InfluenceEstimate],
    confidence: float,
    strengths: Sequence[tuple[str, float, float]],
) -> Sensitivity:
    value, scale = measured
    ends = sorted(abs(end) for end in (gap.low, gap.high) if end is not None)
    # The end nearest to 0 gives the robustness value at the confidence level.
    near = ends[0] if is_beyond_zero(gap.low, gap.high) else 0.0
    values = [robustness_value(end, scale.value) for end in (gap.value, near, ends[-1])]
    yardsticks = [
        Yardstick(name, *both, *(strength_multiple(end, scale.value, *both) for end in (gap.value, near)))
        for name, *both in strengths
    ]
    yardsticks.sort(key=_rank)
    spread, covariance = math.sqrt(scale.variance), value.covariance(scale)
    return Sensitivity(gap, scale.value, Estimate(*values), se, spread, covariance, confidence, tuple(yardsticks))


def _rank(yardstick: Yardstick) -> tuple[float, str]:
    return math.inf if yardstick.multiple is None else yardstick.multiple, yardstick.feature
