"""Bins and cell sums of a comparison, from which figures and the report are drawn; they contain no rows.

Cells with fewer than ten people are suppressed so that their counts cannot be worked out by subtraction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tiltlens.analysis.histograms import Binned, Tallies, Tally, ValueTally, coarse, score_span, score_tally, tally_rows
from tiltlens.analysis.suppression import may_show, withheld
from tiltlens.errors import SupportError
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.limits import DIAL_POSITIONS, EDGE_ROUNDING, FINE, FINE_REACH, SUPPRESSED_BELOW
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction, correction_function
from tiltlens.rows.features import Feature

CALIBRATION_BINS = 10  # quantile bins of the log-ratio
VALUE_BINS = 80  # of f~ from −4 to 4 for one value of a feature
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class GroupBin:
    """The share of each group between two values; None where it is suppressed."""

    start: float = field(metadata={"key": "from"})
    stop: float = field(metadata={"key": "to"})
    audited: float | None
    reference: float | None


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """A tenth of the log-ratio: its expected and observed value, and the number of people."""

    expected: float
    observed: float
    n: int


@dataclass(frozen=True, slots=True)
class DialPoint:
    """The plug-in correction at the position t of the slider, λ = (1 − t, t)."""

    position: float
    intercept: float
    on_log_odds: float
    on_scores: list[float]
    descent_rate: float


@dataclass(frozen=True, slots=True)
class ValueProfile:
    """A value of a feature: people, shares, mean score and log-odds, and the correction at each slider position.

    Attributes
    ----------
    share_moved
        Its share after the least change that removes the gap.
    correction
        The number of people in 80 bins of f~ from −4 to 4; None where n is suppressed.
    quantiles
        The 5, 25, 50, 75 and 95% quantiles of f~ at each slider position.
    mean_correction
        The mean of f~ at each slider position.
    """

    value: str
    n: int | None
    n_reference: int | None
    share_audited: float | None
    share_reference: float | None
    score: float | None
    log_odds: float | None
    scores: list[float] | None
    share_moved: float | None
    correction: list[int | None] | None
    quantiles: list[list[float | None]] | None
    mean_correction: list[float] | None


@dataclass(frozen=True, slots=True)
class FeatureProfile:
    """The values of a feature."""

    kind: str
    is_ordered: bool
    values: list[ValueProfile]


@dataclass(frozen=True, slots=True)
class PathStop:
    """A point of a correction path: its weight, the change of inputs, the remaining divergence, and the rate."""

    weight: float
    input_change: float | None
    output_divergence: float | None
    favourable_rate: float


@dataclass(frozen=True, slots=True)
class Paths:
    """The two paths of the paper's Fig. 1."""

    green: list[PathStop]
    red: list[PathStop]


@dataclass(frozen=True, slots=True)
class LeastChange:
    """The least change of inputs that removes the gap: its cost, and the favourable rate after it."""

    cost: float
    favourable_rate: float


@dataclass(frozen=True, slots=True)
class Bins:
    """The histograms, profiles and paths that figures are drawn from; None where few people would be identified.

    Attributes
    ----------
    score
        The distribution of the score.
    overlap
        The distribution of the log-ratio ℓ.
    calibration
        Tenths of the log-ratio, joined until each has ten people of both groups.
    correction
        The distribution of f~ over the audited group at each slider position: 40 bins from −4 to 4, the ends open.
    """

    score: list[GroupBin]
    overlap: list[GroupBin]
    calibration: list[CalibrationBin]
    tradeoff: list[DialPoint]
    correction: list[list[float | None]]
    profiles: dict[str, FeatureProfile]
    path: Paths
    least_change: LeastChange | None


def calibration_edges(quantiles: Callable[[Floats], Floats]) -> Floats:
    """Return the inner edges of the tenths of the log-ratio, given its quantile function."""
    return np.unique(quantiles(np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]))


def bin_rows(rows: Binned, correction: CorrectionFunction, path: Paths, least_change: LeastChange | None) -> Bins:
    """Return every bin and cell sum of a comparison whose rows are in memory."""
    dialled = dial_corrections(correction)
    edges = calibration_edges(partial(np.quantile, rows.log_ratio))
    tallies = tally_rows(rows, [*(f for _, f in dialled), correction], edges)
    return Bins(
        score=_both_groups(tallies.score, tallies.span.low, tallies.span.high),
        overlap=_both_groups(tallies.overlap, -4.0, 4.0),
        calibration=_calibration_bins(tallies),
        tradeoff=[
            DialPoint(position, f.intercept, f.on_log_odds, list(f.on_scores), f.descent_rate)
            for position, f in dialled
        ],
        correction=[tally.shares(0) for tally in tallies.correction[: len(dialled)]],
        profiles={
            feature.name: _profile(tallies.profiles[feature.name], feature, [f for _, f in dialled])
            for feature in rows.features
        },
        path=path,
        least_change=least_change,
    )


def bin_scores(rows: Rows, outcome: Floats, is_amount: bool) -> Bins:
    """Return the bins of a comparison without features: the distribution of the score alone."""
    span = score_span(outcome, is_amount)
    score = _both_groups(score_tally(rows, outcome, span), span.low, span.high)
    return Bins(score, [], [], [], [], {}, Paths([], []), None)


def _both_groups(tally: Tally, low: float, high: float) -> list[GroupBin]:
    """Return each group's shares in equal bins from `low` to `high`; log-ratios overlap where both are positive."""
    edges = np.linspace(low, high, len(tally.counts[0]) + 1).tolist()
    shares = zip(tally.shares(0), tally.shares(1), strict=True)
    return [GroupBin(start, stop, *both) for start, stop, both in zip(edges, edges[1:], shares, strict=False)]


def _calibration_bins(tallies: Tallies) -> list[CalibrationBin]:
    """Return the expected and the observed log of P0/P1 by tenths of the log-ratio; small bins are merged.

    Expected is the log of the mean e^ℓ over the bin's reference rows; ℓ is calibrated where the two agree. Small bins
    are merged, not left out, because the counts of a bin left out would follow by subtraction.
    """
    (audited, reference), (weight, weight1) = tallies.calibration.counts, tallies.calibration.weights
    whole, whole1 = weight.sum(), weight1.sum()
    bins = []
    for part in _joined(audited, reference):
        expected = float(tallies.expected[part].sum() / weight1[part].sum())
        observed = float((weight[part].sum() / whole) / (weight1[part].sum() / whole1))
        people = int(audited[part].sum() + reference[part].sum())
        bins.append(CalibrationBin(float(np.log(expected)), float(np.log(observed)), people))
    return bins


def _joined(audited: Integers, reference: Integers) -> list[slice]:
    """Return runs of adjacent bins with at least ten people of each group; none if a group has fewer than ten."""
    starts, most = [0], len(audited)
    for place in range(1, most):
        before, after = slice(starts[-1], place), slice(place, most)
        if min(counts[part].sum() for counts in (audited, reference) for part in (before, after)) >= SUPPRESSED_BELOW:
            starts.append(place)
    parts = [slice(start, stop) for start, stop in zip(starts, [*starts[1:], most], strict=True)]
    return [part for part in parts if min(audited[part].sum(), reference[part].sum()) >= SUPPRESSED_BELOW]


def dial_corrections(correction: CorrectionFunction) -> list[tuple[float, CorrectionFunction]]:
    """Return f~ at each position t of the dial, λ = (1 − t, t); only at 0 where outputs have no finite divergence."""
    found = []
    for position in np.linspace(0.0, 1.0, DIAL_POSITIONS).tolist():
        try:
            f = correction_function(correction.audited, correction.reference, 1.0 - position, position)
        except SupportError:
            break
        found.append((position, f))
    return found


def _profile(tally: ValueTally, feature: Feature, dialled: Sequence[CorrectionFunction]) -> FeatureProfile:
    """Return the profile of each value of a feature: people, shares, mean scores, and f~ at each dial position."""
    (audited, reference), (weight, weight1) = tally.people.counts, tally.people.weights
    hidden, hidden_reference = withheld(audited), withheld(reference)
    means = tally.means
    p0, p1 = weight / weight.sum(), weight1 / weight1.sum()
    moved = None if tally.moved is None else tally.moved / tally.moved.sum()
    at = None if tally.crowd is None else coarse(tally.crowd[-1], VALUE_BINS)
    quantiles: list[list[list[float | None]]] = []
    if tally.fine is not None and tally.crowd is not None:
        quantiles = _quantiles(tally.fine[: len(dialled)], tally.crowd[: len(dialled)])
    profiles = []
    for value, label in enumerate(feature.labels):
        is_shown = audited[value] > 0 and not hidden[value]
        profile = ValueProfile(
            value=label,
            n=None if hidden[value] else int(audited[value]),
            n_reference=None if hidden_reference[value] else int(reference[value]),
            share_audited=None if hidden[value] else min(float(p0[value]), 1.0),
            share_reference=None if hidden_reference[value] else min(float(p1[value]), 1.0),
            score=float(tally.score[value] / weight[value]) if is_shown else None,
            log_odds=float(means[value, 0]) if is_shown else None,
            scores=means[value, 1:].tolist() if is_shown else None,
            share_moved=None if moved is None or hidden[value] else min(float(moved[value]), 1.0),
            correction=None if at is None or hidden[value] else _distribution(at[value]),
            quantiles=quantiles[value] if is_shown and quantiles else None,
            mean_correction=[_mean(f, means[value]) for f in dialled] if is_shown else None,
        )
        profiles.append(profile)
    return FeatureProfile(feature.kind, feature.is_ordered, profiles)


def _mean(f: CorrectionFunction, means: Floats) -> float:
    """Return E0[f~|value], which is f~ of the means because f~ is affine."""
    return float(f.intercept + f.on_log_odds * means[0] + np.asarray(f.on_scores) @ means[1:])


def _distribution(counts: Integers) -> list[int | None]:
    """Return the number of people in each bin, None where it is suppressed."""
    return [None if hidden else count for count, hidden in zip(counts.tolist(), withheld(counts), strict=True)]


def _quantiles(fine: Floats, crowd: Floats) -> list[list[list[float | None]]]:
    """Return the quantiles of f~ per value and dial position, to 0.02 standard deviations; None where suppressed."""
    pairs = [quantiles_of(*one) for one in zip(fine, crowd, strict=True)]
    found, is_shown = (np.array(one).transpose(2, 0, 1) for one in zip(*pairs, strict=True))
    rounded = np.where(is_shown, np.round(found, 2), np.nan).tolist()
    return [[[None if end != end else end for end in ends] for ends in value] for value in rounded]  # NaN ≠ NaN


def quantiles_of(fine: Floats, crowd: Floats) -> tuple[Floats, Booleans]:
    """Return the quantiles of f~ from its weight in fine bins, one row per quantile, and which of them may be shown.

    They are accurate to 0.02 standard deviations of f~; `crowd` counts the people in the bins.
    """
    total = np.cumsum(fine, axis=-1)
    whole = np.where(total[..., -1:] > 0, total[..., -1:], 1.0)
    reached = np.array([(total / whole < q - EDGE_ROUNDING).sum(axis=-1) for q in QUANTILES])
    people = np.cumsum(crowd, axis=-1)
    to, of_all = np.minimum(reached, FINE - 1), people[..., -1]
    up_to = np.array([np.take_along_axis(people, at[..., None], axis=-1)[..., 0] for at in to])
    here = np.array([np.take_along_axis(crowd, at[..., None], axis=-1)[..., 0] for at in to])
    return np.asarray(-FINE_REACH + 2 * FINE_REACH / FINE * (reached + 0.5)), may_show(
        up_to - here, here, of_all - up_to
    )
