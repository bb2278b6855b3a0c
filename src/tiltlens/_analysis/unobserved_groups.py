"""Bound the gap between groups observed only as probabilities, and check these against known groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

import numpy as np

from tiltlens._analysis.evidence import Evidence, Settings
from tiltlens._estimators import group_means
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.group_means import Calibration, ChanceRows, Signs
from tiltlens._estimators.influence import Integers, Rows, cluster_codes
from tiltlens._estimators.outputs import Scores, gap_law
from tiltlens._formats import FieldTable
from tiltlens._limits import CALIBRATED, FOLDS, SUPPRESSED_BELOW
from tiltlens._notes import Note
from tiltlens._rows.groups import NO_GROUP
from tiltlens.paper.checks import Floats


class Status(StrEnum):
    """Whether known groups confirm the conditions of the bracket."""

    CHECKED = "checked"
    NOT_CHECKED = "not checked"
    NOT_JUDGED = "not judged"

    __repr__ = str.__repr__


@dataclass(frozen=True, slots=True, eq=False)
class UnobservedGroup(FieldTable):
    """Estimates of the gap between groups observed only as probabilities.

    Attributes
    ----------
    weighted, linear
        The gap with group probabilities as weights, and the slope of the score on the probability. None where all
        probabilities are equal.
    limits
        The smallest and the largest gap that calibrated probabilities allow without further assumptions, with their
        errors.
    bracket
        Range of the gap if the probabilities are calibrated and the two estimates err in opposite directions; wider if
        known groups leave the second condition open. None where the checks fail.
    labelled
        Number of rows with a known group; None without `known_groups`.
    calibration, signs
        Results of the checks, if there are such rows.
    status, reason
        "checked", "not checked" or "not judged", and why.
    visible
        Fraction of a gap that the weighted estimate shows: Var(b)/Var(S̄), b the probability and S̄ the known group.
    """

    weighted: Estimate = field(metadata={"scale": "gap"})
    linear: Estimate | None = field(metadata={"scale": "gap"})
    limits: Estimate | None = field(metadata={"scale": "range"})
    bracket: Estimate | None = field(metadata={"scale": "range"})
    labelled: int | None
    calibration: Calibration | None
    signs: Signs | None = field(metadata={"scale": "gap"})
    status: Status
    reason: str
    visible: float = 1.0

    @property
    def doubt(self) -> Note | None:
        """Why features are not assessed, where the checks fail."""
        return Note("not judged", reason=self.reason) if self.status == Status.NOT_JUDGED else None

    def disclosed(self) -> UnobservedGroup:
        """Return the same for publication: without the number of labelled people where it is below ten."""
        is_few = self.labelled is not None and self.labelled < SUPPRESSED_BELOW
        return replace(self, labelled=None if is_few else self.labelled)


def unobserved_group(evidence: Evidence, settings: Settings) -> UnobservedGroup:
    """Return the estimates of the gap between groups observed only as probabilities, checked against known groups."""
    rows, confidence = _rows(evidence), settings.confidence
    weighted = gap_law(evidence.population, evidence.score).estimate(confidence)
    slope = group_means.slope_on_chance(rows, rows.score)
    linear = None if slope is None else slope.normal().estimate(confidence)
    limits = _limits(rows, confidence)
    bracket = partial(_bracket, weighted, linear, limits)
    made = partial(UnobservedGroup, weighted, linear, limits, visible=group_means.visible_part(rows))
    if evidence.rows.known_group is None:
        return made(bracket((0.0, 0.0)), None, None, None, Status.NOT_CHECKED, Note("no labels"))
    labelled, audited = _labelled(evidence)
    slopes, sides, reason = _checks(labelled, audited, confidence)
    if reason is not None or sides is None:
        reason = reason or Note("labels of one group")
        return made(None, audited.size, slopes, sides, Status.NOT_JUDGED, reason)
    return made(bracket(sides.outside), audited.size, slopes, sides, Status.CHECKED, Note("calibrated"))


def unobserved_group_of(
    evidence: Evidence, settings: Settings, scores: Floats, index: Integers | None = None
) -> UnobservedGroup:
    """Return the same for other scores, or decisions, of all rows of the sample or of those at some `index`."""
    rows = evidence.rows if index is None else evidence.rows.take(index)
    sample = Rows.of(rows.group == 0, rows.sampling_weight, rows.cluster)
    return unobserved_group(
        replace(evidence, rows=rows, sample=sample, population=sample, score=Scores.of(sample, scores)), settings
    )


def _rows(evidence: Evidence) -> ChanceRows:
    """Return one entry per row: its audited copy or, if its probability of being audited is 0, its reference copy.

    Given membership of either group, b = p0/(p0 + p1); a row counts as p0 + p1 people.
    """
    at, both, weights = _once(evidence)
    return _chance_rows(evidence, at, both, weights * both.sum(axis=1))


def _labelled(evidence: Evidence) -> tuple[ChanceRows, Floats]:
    """Return the rows with a known group, each with its own weight, and whether it is audited."""
    at, both, weights = _once(evidence)
    group = np.asarray(evidence.rows.known_group)[at]
    keep = np.flatnonzero(group != NO_GROUP)
    return _chance_rows(evidence, at[keep], both[keep], weights[keep]), (group[keep] == 0).astype(np.float64)


def _once(evidence: Evidence) -> tuple[Integers, Floats, Floats]:
    """Return the position of one copy of each row, its probabilities of both groups, and the row's own weight."""
    probabilities, sample, population = np.asarray(evidence.rows.probabilities), evidence.sample, evidence.population
    at = np.flatnonzero(sample.audited | (probabilities[:, 0] == 0.0))
    both, is_audited = probabilities[at], sample.audited[at]
    # Copies in either group may be sampled at different rates; each is scaled to all rows of its own.
    rate = np.where(is_audited, population.weight0 / sample.weight0, population.weight1 / sample.weight1)
    return at, both, rate * sample.weights[at] / np.where(is_audited, both[:, 0], both[:, 1])


def _chance_rows(evidence: Evidence, at: Integers, both: Floats, weights: Floats) -> ChanceRows:
    clusters = None if evidence.sample.clusters is None else cluster_codes(evidence.sample.clusters[at])
    return ChanceRows(both[:, 0] / both.sum(axis=1), weights, evidence.score.column[at], clusters)


def _limits(rows: ChanceRows, confidence: float) -> Estimate | None:
    """Return the midpoint of the limits, with the outer ends of their confidence intervals."""
    ends = group_means.frechet_limits(rows, FOLDS)
    if ends is None:
        return None
    low, high = (end.estimate(confidence) for end in ends)
    return Estimate((low.value + high.value) / 2, low.low, high.high)


def _bracket(
    weighted: Estimate, linear: Estimate | None, limits: Estimate | None, outside: tuple[float, float]
) -> Estimate | None:
    """Return the midpoint of both estimates, with the outer ends of their intervals cut to the limits."""
    if linear is None:
        return None
    both = (weighted, linear)
    # Either estimate may be the one that is nearer, so the hull of both intervals.
    low = min(float(estimate.low or 0.0) for estimate in both) - outside[0]
    high = max(float(estimate.high or 0.0) for estimate in both) + outside[1]
    middle = (weighted.value + linear.value) / 2
    least, most = (None, None) if limits is None else (limits.low, limits.high)
    # Limits are valid for all covariances; bracket and limits may miss each other by chance.
    if least is not None and most is not None and least <= high and low <= most:
        low, high = max(low, least), min(high, most)
    return Estimate(min(max(middle, low), high), low, high)


def _checks(
    labelled: ChanceRows, audited: Floats, confidence: float
) -> tuple[Calibration | None, Signs | None, Note | None]:
    """Return calibration and signs on the labelled rows, and the reason if a check fails."""
    if min(audited.sum(), (1.0 - audited).sum()) < SUPPRESSED_BELOW:
        return None, None, Note("few labels", minimum=SUPPRESSED_BELOW)
    slopes, sides = (
        group_means.calibration(labelled, audited, confidence),
        group_means.signs(labelled, audited, confidence),
    )
    if slopes is None or sides is None:
        return slopes, sides, Note("equal probabilities")
    if not slopes.holds:
        return slopes, sides, _uncalibrated(slopes, audited.size)
    if sides.are_opposite:
        return slopes, sides, Note("one side")
    return slopes, sides, None


def _uncalibrated(slopes: Calibration, labelled: int) -> Note:
    slope, difference = slopes.slope, slopes.difference.value
    points, way = 100 * abs(difference), "more" if difference > 0 else "less"
    what = Note("slope on the probability", slope=slope.value, low=slope.low, high=slope.high, points=points, way=way)
    if slope.low is not None and slope.high is not None and slope.low <= 1.0 <= slope.high:
        return Note("calibration open", rows=labelled, limit=CALIBRATED, slope=what)
    return Note("too extreme", slope=what) if slope.value < 1.0 else Note("not extreme enough", slope=what)
