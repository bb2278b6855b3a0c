"""The sample's rows as bins and means by value: what figures and the report are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tiltlens.analysis.suppression import withheld
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.limits import EDGE_ROUNDING, FINE, FINE_REACH
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.rows.features import Feature
from tiltlens.sources.arrays import below

SCORE_BINS = 20  # from 0 to 1; of amounts at most, from one per cent of people to the last
CORRECTION_BINS = 40  # of f~ from −4 to 4, the ends open
RATIO_BINS = 32  # of log-ratios from −4 to 4
MOVING_VALUES = 600  # feature values with distributions of their own, which follow the dial: the page must stay small


class Span(NamedTuple):
    """Equal bins, the ends open."""

    low: float
    high: float
    bins: int


@dataclass(frozen=True, slots=True, eq=False)
class Binned:
    """Rows of a comparison, ready to be binned.

    Attributes
    ----------
    audited, weights, outcome, span, scores
        Who is audited, row weights, the score whose gap is measured and its bins, and all scores, (n,) or (n, K).
    log_odds
        Of being audited, from one fit on all rows; with the prior.
    log_ratio
        Cross-fitted where there is a cross-fit, without the prior.
    features
        In the order of the table of proxy evidence.
    moved
        Each row's share of the audited group after the least change that removes the gap, up to a factor; None where
        there is none.
    """

    audited: Booleans
    weights: Floats
    outcome: Floats
    span: Span
    scores: Floats
    log_odds: Floats
    log_ratio: Floats
    features: tuple[Feature, ...]
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
    """What is known of each value of a feature.

    Attributes
    ----------
    people
        Both groups' people.
    means
        E0[(ℓ, W_1, …)|value].
    score, moved
        Σ w·W of the audited people, and their weight after the least change (None where there is none).
    fine, crowd
        Their weight, and how many they are, by value and fine bin of f~, for each dial position and then the
        correction; None where values are too many.
    """

    people: Tally
    means: Floats
    score: Floats
    moved: Floats | None
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


def tallied(found: Binned, positions: Sequence[CorrectionFunction], edges: Floats) -> Tallies:
    """Return the bins of these rows, f~ at each position among them; `edges` are those of the calibration.

    Positions are those of the dial, and then the correction.
    """
    calibration, bins = below(edges, found.log_ratio + EDGE_ROUNDING, or_equal=True), len(edges) + 1
    others = np.flatnonzero(~found.audited)
    ratio = found.weights[others] * np.exp(found.log_ratio[others])
    mine = np.flatnonzero(found.audited)
    places = [_fine_places(f, found.log_odds[mine], found.scores[mine]) for f in positions]
    room = int((np.cumsum([len(feature.labels) for feature in found.features]) <= MOVING_VALUES).sum())
    drawn = {feature.name for feature in found.features[:room]}
    return Tallies(
        score=score_tally(found, found.outcome, found.span),
        span=found.span,
        overlap=_tally(found, _places(found.log_ratio, -4.0, 4.0, RATIO_BINS), RATIO_BINS),
        calibration=_tally(found, calibration, bins),
        expected=np.bincount(calibration[others], ratio, bins).astype(np.float64),
        correction=tuple(_correction_tally(place, found.weights[mine]) for place in places),
        profiles={one.name: _value_tally(found, one, places if one.name in drawn else []) for one in found.features},
    )


def score_tally(found: Binned | Rows, outcome: Floats, span: Span) -> Tally:
    """Return both groups' people by their score."""
    return _tally(found, _places(outcome, *span), span.bins)


def score_span(outcome: Floats, is_amount: bool) -> Span:
    """Return the bins of scores; of amounts round ones that hold all but the outermost people, who join the ends."""
    if not is_amount:
        return Span(0.0, 1.0, SCORE_BINS)
    low, high = np.quantile(outcome, [0.01, 0.99]).tolist()
    least = (high - low) / SCORE_BINS or abs(low) / SCORE_BINS or 1.0
    unit = 10.0 ** math.floor(math.log10(least))
    step = next(unit * digit for digit in (1.0, 2.0, 5.0, 10.0) if unit * digit >= least * (1.0 - EDGE_ROUNDING))
    first, last = math.floor(low / step + EDGE_ROUNDING), math.ceil(high / step - EDGE_ROUNDING)
    last = max(last, first + 1)
    return Span(first * step, last * step, last - first)


def _places(values: Floats, low: float, high: float, bins: int) -> Integers:
    """Return the bin of each value among equal ones, the ends open."""
    x = (values - low) * (bins / (high - low)) + EDGE_ROUNDING
    return np.asarray(np.clip(x, 0, bins - 1).astype(np.intp))


def _fine_places(f: CorrectionFunction, log_odds: Floats, scores: Floats) -> Integers:
    return _places(np.asarray(f(log_odds, scores)), -FINE_REACH, FINE_REACH, FINE)


def _tally(found: Binned | Rows, codes: Integers, bins: int) -> Tally:
    counts, weights = [], []
    for group in (found.audited, ~found.audited):
        counts.append(np.bincount(codes[group], minlength=bins))
        weights.append(np.bincount(codes[group], found.weights[group], bins).astype(np.float64))
    return Tally((counts[0], counts[1]), (weights[0], weights[1]))


def _correction_tally(places: Integers, weights: Floats) -> Tally:
    """Return the tally of f~ of the audited people in wider bins; nobody else is counted."""
    counts = coarse(np.bincount(places, minlength=FINE), CORRECTION_BINS)
    weighed = coarse(np.bincount(places, weights, FINE), CORRECTION_BINS)
    return Tally((counts, np.zeros_like(counts)), (weighed, np.zeros_like(weighed)))


def _value_tally(found: Binned, feature: Feature, places: Sequence[Integers]) -> ValueTally:
    """Return what is known of each value; `places` are the fine bins of f~, none where it is not drawn."""
    mine, values = np.flatnonzero(found.audited), len(feature.labels)
    codes, w, scores = feature.codes[mine], found.weights[mine], found.scores[mine]

    def total(column: Floats | None) -> Floats:
        return np.bincount(codes, column, values).astype(np.float64)

    weight = total(w)
    columns = [found.log_odds[mine], *(scores[:, 1:].T if scores.ndim == 2 else [scores])]
    safe = np.where(weight > 0, weight, 1.0)
    crowd = [np.bincount(codes * FINE + place, minlength=values * FINE).reshape(values, FINE) for place in places]
    fine = [np.bincount(codes * FINE + place, w, values * FINE).reshape(values, FINE) for place in places]
    return ValueTally(
        people=_tally(found, feature.codes, values),
        means=np.column_stack([total(w * column) / safe for column in columns]),
        score=total(w * found.outcome[mine]),
        moved=None if found.moved is None else total(found.moved[mine]),
        fine=np.array(fine) if places else None,
        crowd=np.array(crowd) if places else None,
    )


def coarse(fine: Any, bins: int) -> Any:
    """Return counts or weights in equal bins from −4 to 4, the ends open, each a union of fine bins."""
    wide = round(FINE * 8.0 / (2 * FINE_REACH) / bins)
    starts = round(FINE * (FINE_REACH - 4.0) / (2 * FINE_REACH)) + wide * np.arange(bins)
    starts[0] = 0
    return np.add.reduceat(fine, starts, axis=-1)
