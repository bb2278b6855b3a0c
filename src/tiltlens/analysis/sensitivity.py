"""How strong an omitted factor must be to account for an adjusted gap: evidence → robustness value and bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tiltlens.analysis.adjusted_gap import AdjustedGap
from tiltlens.analysis.evidence import Evidence
from tiltlens.analysis.exempt import ExemptParts, exempt_places
from tiltlens.analysis.settings import Settings
from tiltlens.estimators.estimate import Estimate, quantile
from tiltlens.estimators.influence import InfluenceEstimate
from tiltlens.estimators.sensitivity import bias_factor, partial_strengths, robustness_value, strength_multiple
from tiltlens.estimators.verdicts import is_beyond_zero
from tiltlens.paper.checks import check_share
from tiltlens.rows.amounts import Unit

SHARE = "it is a share of what the features leave unexplained, for example 0.1."
OF_ALL, OF_EXEMPT = "adjusted_gap", "gap_given_exempt"


class Yardstick(NamedTuple):
    """How strong a listed feature would be if it were omitted, and how many times as strong a factor must be.

    Attributes
    ----------
    r2_score, r2_group
        The share that it explains of what the other features leave of the score, given the group, and of the group.
    multiple, multiple_low
        How many times both shares an omitted factor needs to bring the gap, and the nearer end of its interval, to 0;
        None where no multiple does.
    """

    feature: str
    r2_score: float
    r2_group: float
    multiple: float | None
    multiple_low: float | None


class GapBounds(NamedTuple):
    """The smallest and the largest gap that an omitted factor of some strength allows, each with its interval."""

    low: Estimate
    high: Estimate


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far an omitted factor may move an adjusted gap.

    Attributes
    ----------
    gap
        The adjusted gap, or the gap given exempt factors.
    scale
        𝒮: a factor with the shares R²_W and R²_S moves the gap by at most 𝒮·√(R²_W·R²_S/(1 − R²_S)).
    robustness_value
        The share of what is left of both the score and the group that a factor needs to bring the gap to 0; `low` is
        that for the nearer end of the gap's interval, 0 where the interval includes 0.
    variance, covariance, scale_variance, confidence
        Of the gap, of both and of 𝒮, from which the intervals of bounds are made; and their level.
    yardsticks
        The listed features, the strongest first: the smallest multiple of which accounts for the gap.
    """

    gap: Estimate
    scale: float
    robustness_value: Estimate
    variance: float
    covariance: float
    scale_variance: float
    confidence: float
    yardsticks: tuple[Yardstick, ...]

    def bounds(self, r2_score: float, r2_group: float) -> GapBounds:
        """Return the bounds of the gap for an omitted factor of a stated strength, with their intervals.

        Parameters
        ----------
        r2_score, r2_group : float
            Share that it explains of what the features leave of the score, given the group, and of the group.

        Examples
        --------
        >>> from tiltlens.analysis.sensitivity import Sensitivity
        >>> from tiltlens.estimators.estimate import Estimate
        >>> gap = Estimate(-0.10, -0.14, -0.06)
        >>> found = Sensitivity(gap, 0.6, Estimate(0.15, 0.09, 0.21), 4e-4, 0.0, 1e-4, 0.95, ())
        >>> f"{found.bounds(0.1, 0.1).high:+.3f}"
        '-0.037'
        """
        factor = bias_factor(check_share("r2_score", r2_score, SHARE), check_share("r2_group", r2_group, SHARE))
        low, high = (self._moved(side * factor) for side in (-1.0, 1.0))
        return GapBounds(low, high)

    def _moved(self, factor: float) -> Estimate:
        """Return c + factor·𝒮; without an omitted factor its interval is that of the gap."""
        z, start = quantile(self.confidence), math.sqrt(self.variance)
        square = self.variance + 2.0 * factor * self.covariance + factor**2 * self.scale_variance
        wider, value = z * (math.sqrt(max(square, 0.0)) - start), self.gap.value + factor * self.scale
        ends = [
            None if end is None else end + factor * self.scale + side * wider
            for end, side in ((self.gap.low, -1.0), (self.gap.high, 1.0))
        ]
        return Estimate(value, *ends)

    def in_units(self, unit: Unit) -> Sensitivity:
        """Return the same in the unit of an amount."""
        return replace(
            self,
            gap=self.gap.mapped(unit.difference),
            scale=unit.difference(self.scale),
            variance=unit.scale**2 * self.variance,
            covariance=unit.scale**2 * self.covariance,
            scale_variance=unit.scale**2 * self.scale_variance,
        )


def sensitivities(
    evidence: Evidence, settings: Settings, left: AdjustedGap, parts: ExemptParts | None, given_exempt: Estimate | None
) -> dict[str, Sensitivity]:
    """Return the sensitivity of the adjusted gap and of the gap given exempt factors, as far as these are measured.

    None of groups known by probabilities, and of scores that are made from the features by the model itself.
    """
    sets = evidence.nuisances.sets
    if settings.folds is None or sets is None or evidence.rows.probabilities is not None:
        return {}
    results: dict[str, Sensitivity] = {}
    if left.estimate is not None and left.measured is not None and left.scale is not None:
        both, every = (left.measured, left.scale), range(sets.features)
        results[OF_ALL] = _sensitivity(evidence, settings, left.estimate, left.measured.se, both, every)
    if parts is not None and given_exempt is not None:
        both, exempt = (parts.measured, parts.scale), exempt_places(evidence)
        results[OF_EXEMPT] = _sensitivity(evidence, settings, given_exempt, parts.at_equal.se, both, exempt)
    return results


def _sensitivity(
    evidence: Evidence,
    settings: Settings,
    gap: Estimate,
    se: float,
    measured: tuple[InfluenceEstimate, InfluenceEstimate],
    features: Sequence[int],
) -> Sensitivity:
    value, scale = measured
    ends = sorted(abs(end) for end in (gap.low, gap.high) if end is not None)
    near = ends[0] if is_beyond_zero(gap.low, gap.high) else 0.0
    values = [robustness_value(end, scale.value) for end in (gap.value, near, ends[-1])]
    yardsticks = sorted(
        _yardsticks(evidence, features, (gap.value, near), scale.value),
        key=lambda one: (math.inf if one.multiple is None else one.multiple, one.feature),
    )
    return Sensitivity(
        gap=gap,
        scale=scale.value,
        robustness_value=Estimate(*values),
        variance=se**2,
        covariance=value.covariance(scale),
        scale_variance=scale.variance,
        confidence=settings.confidence,
        yardsticks=tuple(yardsticks),
    )


def _yardsticks(
    evidence: Evidence, features: Sequence[int], ends: tuple[float, float], scale: float
) -> Iterator[Yardstick]:
    """Yield the strength of each feature of a set, from the regressions on sets of features."""
    sets, names = evidence.nuisances.sets, list(evidence.table)
    if sets is None:
        return
    without = [[other for other in features if other != feature] for feature in features]
    shares = partial_strengths(*sets.means([list(features), *without]))
    for feature, r2_score, r2_group in zip(features, *(share.tolist() for share in shares), strict=True):
        if names[feature] not in sets.pooled:
            multiples = (strength_multiple(end, scale, r2_score, r2_group) for end in ends)
            yield Yardstick(names[feature], r2_score, r2_group, *multiples)
