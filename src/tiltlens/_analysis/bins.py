"""Bins of a comparison, and means by feature value, from which figures and the report are drawn.

Cells with fewer than ten people are suppressed so that their counts cannot be worked out by subtraction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tiltlens._analysis.evidence import disclosed_counts, may_show, withheld
from tiltlens._estimators.influence import Booleans, Integers, Rows
from tiltlens._limits import DIAL_POSITIONS, EDGE_ROUNDING, FINE, FINE_REACH, SUPPRESSED_BELOW
from tiltlens._rows.features import Feature
from tiltlens._sources.arrays import below
from tiltlens.errors import SupportError
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction, correction_function

SCORE_BINS = 20  # from 0 to 1; for amounts about as many between the 1% and 99% quantiles
CORRECTION_BINS = 40  # of f~ from −4 to 4, the ends open
RATIO_BINS = 32  # of log-ratios from −4 to 4
MOVING_VALUES = 600  # most feature values whose distribution follows the dial: keeps the page small


Number = TypeVar("Number", np.intp, np.float64)


class Span(NamedTuple):
    """Equal bins, the ends open."""

    low: float
    high: float
    bins: int


@dataclass(frozen=True, slots=True, eq=False)
class Binned:
    """Rows of a comparison, ready to be binned."""

    rows: Rows
    # The score whose gap is measured and its bins; and the scores that determine all scores of a row
    outcome: Floats
    span: Span
    scores: Floats
    free_scores: Sequence[Floats]
    log_odds: Floats  # of being audited, from one fit on all rows; with the prior
    log_ratio: Floats  # cross-fitted where there is a cross-fit, without the prior
    features: tuple[Feature, ...]  # in the order of the table of contributions
    # Each row's share of the audited group after the least change that removes the gap, up to a factor; None where
    # there is none
    moved: Floats | None


def _shares(counts: Integers, weights: Floats) -> list[float | None]:
    """Return each bin's share of the weights, None where its count is withheld."""
    parts = zip(weights / weights.sum(), withheld(counts), strict=True)
    return [None if is_hidden else min(float(share), 1.0) for share, is_hidden in parts]


def score_span(outcome: Floats, is_amount: bool) -> Span:
    """Return the bins of scores; for amounts, round bins that span the 1% to 99% quantiles, with open ends."""
    if not is_amount:
        return Span(0.0, 1.0, SCORE_BINS)
    low, high = np.quantile(outcome, [0.01, 0.99]).tolist()
    least = (high - low) / SCORE_BINS or abs(low) / SCORE_BINS or 1.0
    unit = 10.0 ** math.floor(math.log10(least))
    step = next(unit * digit for digit in (1.0, 2.0, 5.0, 10.0) if unit * digit >= least * (1.0 - EDGE_ROUNDING))
    first, last = math.floor(low / step + EDGE_ROUNDING), math.ceil(high / step - EDGE_ROUNDING)
    last = max(last, first + 1)
    return Span(first * step, last * step, last - first)


def _bins(values: Floats, low: float, high: float, bins: int) -> Integers:
    """Return the bin of each value among bins of equal width with open ends."""
    x = (values - low) * (bins / (high - low)) + EDGE_ROUNDING
    return np.asarray(np.clip(x, 0, bins - 1).astype(np.intp))


def _weights(rows: Rows, codes: Integers, bins: int) -> list[Floats]:
    """Return the sums of weights in each bin, in both groups."""
    return [
        np.bincount(codes, rows.weights * group, bins).astype(np.float64) for group in (rows.audited, ~rows.audited)
    ]


def _correction_shares(fine_bins: Integers, weights: Floats) -> list[float | None]:
    """Return the shares of f~ over the audited group in wider bins."""
    counts, sums = np.bincount(fine_bins, minlength=FINE), np.bincount(fine_bins, weights, FINE).astype(np.float64)
    return _shares(coarse(counts, CORRECTION_BINS), coarse(sums, CORRECTION_BINS))


def coarse(fine: NDArray[Number], bins: int) -> NDArray[Number]:
    """Return counts or weights in equal bins from −4 to 4, the ends open, each a union of fine bins."""
    wide = round(FINE * 8.0 / (2 * FINE_REACH) / bins)
    starts = round(FINE * (FINE_REACH - 4.0) / (2 * FINE_REACH)) + wide * np.arange(bins)
    starts[0] = 0
    sums: NDArray[Number] = np.add.reduceat(fine, starts, axis=-1)
    return sums


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
    """The histograms, profiles and paths that figures are drawn from; None where people could be identified.

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


def bin_rows(rows: Binned, correction: CorrectionFunction, path: Paths, least_change: LeastChange | None) -> Bins:
    """Return every bin and cell sum of a comparison whose rows are in memory."""
    dialled = dial_corrections(correction)
    positions = [f for _, f in dialled]
    mine = np.flatnonzero(rows.rows.audited)
    log_odds, scores, weights = rows.log_odds[mine], rows.scores[mine], rows.rows.weights[mine]
    reach = (-FINE_REACH, FINE_REACH, FINE)
    fine_bins = [_bins(np.asarray(f(log_odds, scores)), *reach) for f in (*positions, correction)]
    room = int((np.cumsum([len(feature.labels) for feature in rows.features]) <= MOVING_VALUES).sum())
    drawn = [fine_bins if index < room else [] for index in range(len(rows.features))]
    return Bins(
        score=_both_groups(rows.rows, rows.outcome, rows.span),
        overlap=_both_groups(rows.rows, rows.log_ratio, Span(-4.0, 4.0, RATIO_BINS)),
        calibration=_calibration_bins(rows),
        tradeoff=[
            DialPoint(position, f.intercept, f.on_log_odds, list(f.on_scores), f.descent_rate)
            for position, f in dialled
        ],
        correction=[_correction_shares(own_bins, weights) for own_bins in fine_bins[:-1]],
        profiles={
            feature.name: _profile(rows, feature, own_bins, positions)
            for feature, own_bins in zip(rows.features, drawn, strict=True)
        },
        path=path,
        least_change=least_change,
    )


def bin_scores(rows: Rows, outcome: Floats, is_amount: bool) -> Bins:
    """Return the bins of a comparison without features: the distribution of the score alone."""
    score = _both_groups(rows, outcome, score_span(outcome, is_amount))
    return Bins(score, [], [], [], [], {}, Paths([], []), None)


def _both_groups(rows: Rows, values: Floats, span: Span) -> list[GroupBin]:
    """Return each group's shares in equal bins; log-ratios overlap where both are positive."""
    codes = _bins(values, *span)
    shares = map(_shares, rows.counts(codes, span.bins), _weights(rows, codes, span.bins))
    edges = np.linspace(span.low, span.high, span.bins + 1).tolist()
    return [GroupBin(*ends) for ends in zip(edges[:-1], edges[1:], *shares, strict=True)]


def _calibration_bins(rows: Binned) -> list[CalibrationBin]:
    """Return the expected and the observed log of P0/P1 by tenths of the log-ratio; small bins are merged.

    Expected is the log of the mean e^ℓ over the bin's reference rows; ℓ is calibrated where the two agree. Small bins
    are merged, not left out, because the counts of a bin left out would follow by subtraction.
    """
    edges = np.unique(np.quantile(rows.log_ratio, np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]))
    codes, others = below(edges, rows.log_ratio + EDGE_ROUNDING, or_equal=True), np.flatnonzero(~rows.rows.audited)
    (audited, reference), (weight, weight1) = (
        rows.rows.counts(codes, len(edges) + 1),
        _weights(rows.rows, codes, len(edges) + 1),
    )
    ratios = np.bincount(codes[others], rows.rows.weights[others] * np.exp(rows.log_ratio[others]), len(edges) + 1)
    whole, whole1 = weight.sum(), weight1.sum()
    joined = []
    for part in _joined(audited, reference):
        expected = float(ratios[part].sum() / weight1[part].sum())
        observed = float((weight[part].sum() / whole) / (weight1[part].sum() / whole1))
        people = int(audited[part].sum() + reference[part].sum())
        joined.append(CalibrationBin(float(np.log(expected)), float(np.log(observed)), people))
    return joined


def _joined(audited: Integers, reference: Integers) -> list[slice]:
    """Return runs of adjacent bins with at least ten people of each group; none if a group has fewer than ten."""
    starts, most = [0], len(audited)
    for cut in range(1, most):
        before, after = slice(starts[-1], cut), slice(cut, most)
        if min(counts[part].sum() for counts in (audited, reference) for part in (before, after)) >= SUPPRESSED_BELOW:
            starts.append(cut)
    parts = [slice(start, stop) for start, stop in zip(starts, [*starts[1:], most], strict=True)]
    return [part for part in parts if min(audited[part].sum(), reference[part].sum()) >= SUPPRESSED_BELOW]


def dial_corrections(correction: CorrectionFunction) -> list[tuple[float, CorrectionFunction]]:
    """Return f~ at each position t of the dial, λ = (1 − t, t); only at 0 where outputs have no finite divergence."""
    functions = []
    for position in np.linspace(0.0, 1.0, DIAL_POSITIONS).tolist():
        try:
            f = correction_function(correction.audited, correction.reference, 1.0 - position, position)
        except SupportError:
            break
        functions.append((position, f))
    return functions


def _profile(
    rows: Binned, feature: Feature, fine_bins: Sequence[Integers], dialled: Sequence[CorrectionFunction]
) -> FeatureProfile:
    """Return the profile of each value of a feature: people, shares, mean scores, and f~ at each dial position.

    `fine_bins` are the fine bins of f~ at each dial position, then of the correction; empty if they are not drawn.
    """
    codes, values = feature.codes, len(feature.labels)
    counts_by_group, weights = rows.rows.counts(codes, values), _weights(rows.rows, codes, values)
    audited, hidden = counts_by_group[0], withheld(counts_by_group[0])
    people, people_reference = map(disclosed_counts, counts_by_group)
    shares, shares_reference = map(_shares, counts_by_group, weights)
    means, moved = _value_means(rows, feature, weights[0])
    counts, quantiles = _value_distributions(rows, feature, fine_bins)
    profiles = []
    for value, label in enumerate(feature.labels):
        is_shown = audited[value] > 0 and not hidden[value]
        profile = ValueProfile(
            value=label,
            n=people[value],
            n_reference=people_reference[value],
            share_audited=shares[value],
            share_reference=shares_reference[value],
            score=float(means[value, 0]) if is_shown else None,
            log_odds=float(means[value, 1]) if is_shown else None,
            scores=means[value, 2:].tolist() if is_shown else None,
            share_moved=None if moved is None or hidden[value] else min(float(moved[value]), 1.0),
            correction=None if counts is None or hidden[value] else disclosed_counts(counts[value]),
            quantiles=quantiles[value] if is_shown and quantiles else None,
            mean_correction=[_mean(f, means[value, 1:]) for f in dialled] if is_shown else None,
        )
        profiles.append(profile)
    return FeatureProfile(feature.kind, feature.is_ordered, profiles)


def _value_means(rows: Binned, feature: Feature, weight: Floats) -> tuple[Floats, Floats | None]:
    """Return E0[(W, ℓ, W_1, …)|value], and each value's share after the least change (None where there is none)."""
    mine, values = rows.rows.audited, len(feature.labels)
    codes, w, safe = feature.codes[mine], rows.rows.weights[mine], np.where(weight > 0, weight, 1.0)
    columns = (rows.outcome, rows.log_odds, *rows.free_scores)
    means = np.column_stack([np.bincount(codes, w * column[mine], values) / safe for column in columns])
    moved = None if rows.moved is None else np.bincount(codes, rows.moved[mine], values).astype(np.float64)
    return means, None if moved is None else moved / moved.sum()


def _value_distributions(
    rows: Binned, feature: Feature, fine_bins: Sequence[Integers]
) -> tuple[Integers | None, list[list[list[float | None]]]]:
    """Return the audited people by value and bin of the correction, and the quantiles of f~ at each dial position."""
    if not fine_bins:
        return None, []
    shape = (len(feature.labels), FINE)
    cells = [feature.codes[rows.rows.audited] * FINE + own_bins for own_bins in fine_bins]
    weights = rows.rows.weights[rows.rows.audited]
    crowd, fine = (
        np.array([np.bincount(cell, by, math.prod(shape)).reshape(shape) for cell in cells]) for by in (None, weights)
    )
    return coarse(crowd[-1], VALUE_BINS), _quantiles(fine[:-1], crowd[:-1])


def _mean(f: CorrectionFunction, means: Floats) -> float:
    """Return E0[f~|value], which is f~ of the means because f~ is affine."""
    return float(f.intercept + f.on_log_odds * means[0] + np.asarray(f.on_scores) @ means[1:])


def _quantiles(fine: Floats, crowd: Integers) -> list[list[list[float | None]]]:
    """Return the quantiles of f~ per value and dial position, to 0.02 standard deviations; None where suppressed."""
    pairs = map(quantiles_of, fine, crowd)
    quantiles, is_shown = (np.array(part).transpose(2, 0, 1) for part in zip(*pairs, strict=True))
    rounded = np.where(is_shown, np.round(quantiles, 2), np.nan).tolist()
    return [[[None if end != end else end for end in ends] for ends in value] for value in rounded]  # NaN ≠ NaN


def quantiles_of(fine: Floats, crowd: Integers) -> tuple[Floats, Booleans]:
    """Return the quantiles of f~ from its weight in fine bins, one row per quantile, and which of them may be shown.

    They are accurate to 0.02 standard deviations of f~; `crowd` counts the people in the bins.
    """
    total, people = np.cumsum(fine, axis=-1), np.cumsum(crowd, axis=-1)
    whole = np.where(total[..., -1:] > 0, total[..., -1:], 1.0)
    reached = np.array([(total / whole < q - EDGE_ROUNDING).sum(axis=-1) for q in QUANTILES])
    at = np.moveaxis(np.minimum(reached, FINE - 1), 0, -1)
    up_to, here = (np.moveaxis(np.take_along_axis(x, at, axis=-1), -1, 0) for x in (people, crowd))
    is_shown = may_show(up_to - here, here, people[..., -1] - up_to)
    return np.asarray(-FINE_REACH + 2 * FINE_REACH / FINE * (reached + 0.5)), is_shown
