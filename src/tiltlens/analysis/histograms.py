"""Bins, and means by feature value, of the sample's rows, from which figures and the report are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tiltlens.analysis.suppression import withheld
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.limits import EDGE_ROUNDING, FINE, FINE_REACH
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.rows.features import Feature
from tiltlens.sources.arrays import below

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

    # Who is audited, row weights, the score whose gap is measured and its bins, and all scores, (n,) or (n, K)
    audited: Booleans
    weights: Floats
    outcome: Floats
    span: Span
    scores: Floats
    log_odds: Floats  # of being audited, from one fit on all rows; with the prior
    log_ratio: Floats  # cross-fitted where there is a cross-fit, without the prior
    features: tuple[Feature, ...]  # in the order of the table of contributions
    # Each row's share of the audited group after the least change that removes the gap, up to a factor; None where
    # there is none
    moved: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """People and their weights in each bin, in both groups."""

    counts: tuple[Integers, Integers]
    weights: tuple[Floats, Floats]

    def shares(self, group: int) -> list[float | None]:
        """Return each bin's share of a group (0 the audited, 1 the reference), None where it is withheld."""
        share = self.weights[group] / self.weights[group].sum()
        hidden = withheld(self.counts[group])
        return [None if is_hidden else min(float(part), 1.0) for part, is_hidden in zip(share, hidden, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class ValueTally:
    """Counts, means and the distribution of f~ by value of a feature."""

    people: Tally  # both groups' people
    means: Floats  # E0[(ℓ, W_1, …)|value]
    # Σ w·W of the audited people, and their weight after the least change (None where there is none)
    score: Floats
    moved: Floats | None
    # Their weight, and how many they are, by value and fine bin of f~, for each dial position and then the correction;
    # None where values are too many
    fine: Floats | None
    crowd: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class Tallies:
    """Every bin of a comparison; `expected` is Σ w·e^ℓ over the reference people of each calibration bin."""

    score: Tally
    span: Span
    overlap: Tally
    calibration: Tally
    expected: Floats
    correction: tuple[Tally, ...]
    profiles: dict[str, ValueTally]


def tally_rows(binned: Binned, positions: Sequence[CorrectionFunction], edges: Floats) -> Tallies:
    """Return every tally of these rows; `edges` are those of the calibration bins.

    `positions` are f~ at each position of the dial, and then the correction.
    """
    calibration, bins = below(edges, binned.log_ratio + EDGE_ROUNDING, or_equal=True), len(edges) + 1
    others = np.flatnonzero(~binned.audited)
    ratio = binned.weights[others] * np.exp(binned.log_ratio[others])
    mine = np.flatnonzero(binned.audited)
    fine_bins = [_fine_bins(f, binned.log_odds[mine], binned.scores[mine]) for f in positions]
    room = int((np.cumsum([len(feature.labels) for feature in binned.features]) <= MOVING_VALUES).sum())
    drawn = {feature.name for feature in binned.features[:room]}
    return Tallies(
        score=score_tally(binned, binned.outcome, binned.span),
        span=binned.span,
        overlap=_tally(binned, _bins(binned.log_ratio, -4.0, 4.0, RATIO_BINS), RATIO_BINS),
        calibration=_tally(binned, calibration, bins),
        expected=np.bincount(calibration[others], ratio, bins).astype(np.float64),
        correction=tuple(_correction_tally(own_bins, binned.weights[mine]) for own_bins in fine_bins),
        profiles={
            feature.name: _value_tally(binned, feature, fine_bins if feature.name in drawn else [])
            for feature in binned.features
        },
    )


def score_tally(rows: Binned | Rows, outcome: Floats, span: Span) -> Tally:
    """Return the tally of both groups by bin of the score."""
    return _tally(rows, _bins(outcome, *span), span.bins)


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


def _fine_bins(f: CorrectionFunction, log_odds: Floats, scores: Floats) -> Integers:
    return _bins(np.asarray(f(log_odds, scores)), -FINE_REACH, FINE_REACH, FINE)


def _tally(rows: Binned | Rows, codes: Integers, bins: int) -> Tally:
    counts, weights = [], []
    for group in (rows.audited, ~rows.audited):
        counts.append(np.bincount(codes[group], minlength=bins))
        weights.append(np.bincount(codes[group], rows.weights[group], bins).astype(np.float64))
    return Tally((counts[0], counts[1]), (weights[0], weights[1]))


def _correction_tally(fine_bins: Integers, weights: Floats) -> Tally:
    """Return the tally of f~ over the audited group in wider bins; the reference's counts are 0."""
    counts = coarse(np.bincount(fine_bins, minlength=FINE), CORRECTION_BINS)
    weighed = coarse(np.bincount(fine_bins, weights, FINE).astype(np.float64), CORRECTION_BINS)
    return Tally((counts, np.zeros_like(counts)), (weighed, np.zeros_like(weighed)))


def _value_tally(binned: Binned, feature: Feature, fine_bins: Sequence[Integers]) -> ValueTally:
    """Return the tally of each value; `fine_bins` are the fine bins of f~, empty if its distribution is not drawn."""
    mine, values = np.flatnonzero(binned.audited), len(feature.labels)
    codes, w, scores = feature.codes[mine], binned.weights[mine], binned.scores[mine]

    def total(column: Floats | None) -> Floats:
        return np.bincount(codes, column, values).astype(np.float64)

    weight = total(w)
    columns = [binned.log_odds[mine], *(scores[:, 1:].T if scores.ndim == 2 else [scores])]
    safe = np.where(weight > 0, weight, 1.0)
    cells, size, shape = [codes * FINE + own_bins for own_bins in fine_bins], values * FINE, (values, FINE)
    crowd = [np.bincount(cell, minlength=size).reshape(shape) for cell in cells]
    fine = [np.bincount(cell, w, size).reshape(shape) for cell in cells]
    return ValueTally(
        people=_tally(binned, feature.codes, values),
        means=np.column_stack([total(w * column) / safe for column in columns]),
        score=total(w * binned.outcome[mine]),
        moved=None if binned.moved is None else total(binned.moved[mine]),
        fine=np.array(fine) if fine_bins else None,
        crowd=np.array(crowd) if fine_bins else None,
    )


def coarse(fine: NDArray[Number], bins: int) -> NDArray[Number]:
    """Return counts or weights in equal bins from −4 to 4, the ends open, each a union of fine bins."""
    wide = round(FINE * 8.0 / (2 * FINE_REACH) / bins)
    starts = round(FINE * (FINE_REACH - 4.0) / (2 * FINE_REACH)) + wide * np.arange(bins)
    starts[0] = 0
    sums: NDArray[Number] = np.add.reduceat(fine, starts, axis=-1)
    return sums
