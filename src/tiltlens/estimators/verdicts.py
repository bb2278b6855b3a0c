"""Verdicts on features from simultaneous bands of their contributions, in points of the score.

gap(j) and joint(j) of all features have the bands value ± κ·se, κ being the quantile of the largest |t| among them.
The verdicts use the same bands that are printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtrit

from tiltlens.estimators.estimate import quantile, without_noise
from tiltlens.formats import size as size_in_points
from tiltlens.limits import SMALLEST_SE
from tiltlens.paper.checks import Floats

DRAWS = 40_000  # of the largest |t|: its quantile is then known to about 0.01
CANNOT_SETTLE = "these data cannot settle it"
SETTLED = 1.28  # standard errors within which four of five estimates lie
REACHABLE_TIMES = 10  # times the rows of the audit: few users can collect more
MOST_TIMES = 100  # times the rows of the audit: larger numbers are not stated


class Verdict(StrEnum):
    """The conclusion on a feature's contribution."""

    POTENTIAL_PROXY = "potential proxy"
    IN_COMBINATION = "potential proxy in combination"
    PROXY_OR_STAND_IN = "potential proxy or stand-in"
    STAND_IN = "stand-in"
    NO_MATERIAL_CONTRIBUTION = "no material contribution"
    SIZE_UNCLEAR = "detected, size unclear"
    INCONCLUSIVE = "inconclusive"
    NOT_ASSESSED = "not assessed"
    IDENTIFIES_GROUP = "identifies the group"
    EXEMPT = "exempt (declared)"


EVIDENCE = (Verdict.POTENTIAL_PROXY, Verdict.IN_COMBINATION)


class Materiality(StrEnum):
    """Position of an interval relative to a threshold: beyond it, within it, beyond 0 at least, or undecided."""

    MATERIAL = "material"
    NOT_MATERIAL = "not material"
    DETECTED = "detected, size unclear"
    INCONCLUSIVE = "inconclusive"


def materiality(low: float | None, high: float | None, threshold: float) -> Materiality | None:
    """Return whether an interval lies beyond ±`threshold`, within it, or neither; None without an interval."""
    if low is None or high is None:
        return None
    if -threshold <= low and high <= threshold:
        return Materiality.NOT_MATERIAL
    if low > threshold or high < -threshold:
        return Materiality.MATERIAL
    return Materiality.DETECTED if is_beyond_zero(low, high) else Materiality.INCONCLUSIVE


def is_beyond_zero(low: float | None, high: float | None) -> bool:
    """Return whether an interval excludes 0."""
    return (low is not None and low > 0.0) or (high is not None and high < 0.0)


def side_of(value: float, low: float | None, high: float | None, line: float) -> str:
    """Return "below", "above" or "inconclusive" for an interval; without one, the side of the value."""
    ends = (value if low is None else low, value if high is None else high)
    return "below" if ends[1] < line else "above" if ends[0] > line else "inconclusive"


def is_significant(p_value: float, confidence: float, comparisons: int) -> bool:
    """Return whether one of several tests rejects at the joint level (Šidák)."""
    return bool(p_value < 1.0 - confidence ** (1.0 / comparisons))


class Band(NamedTuple):
    """The band of one estimate: value ± κ·se, its half-width κ·se, and the standard error."""

    value: float
    low: float
    high: float
    reach: float
    se: float = 0.0


def simultaneous_factor(covariance: Floats, confidence: float, seed: int) -> float:
    """Return κ, the `confidence`-quantile of max|Z|, Z normal with the correlation of these errors.

    Estimates without error are left out; if at most one remains, κ is the ordinary quantile.
    """
    se = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    used = np.flatnonzero(se > SMALLEST_SE)
    if used.size <= 1:
        return quantile(confidence)
    correlation = covariance[np.ix_(used, used)] / np.outer(se[used], se[used])
    # Copies of a feature make the correlation singular: it has a root by its eigenvalues only.
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = np.random.default_rng(seed).standard_normal((DRAWS, used.size), np.float32) @ root.T.astype(np.float32)
    return max(float(np.quantile(np.abs(draws).max(axis=1), confidence)), quantile(confidence))


def bands(values: Sequence[float], se: Floats, factor: float, degrees: Floats | None = None) -> list[Band]:
    """Return the band of each estimate; with `degrees` of freedom, Student's quantile of the same level replaces κ."""
    # (39): each number has Student’s quantile, by its own ν, at the chance of κ.
    reach = np.asarray(se) * (factor if degrees is None else stdtrit(degrees, ndtr(factor)))
    every = zip(values, reach.tolist(), np.asarray(se).tolist(), strict=True)
    return [Band(*map(without_noise, (v, v - r, v + r, r, e))) for v, r, e in every]


class Judgement(NamedTuple):
    """A verdict and its reason."""

    verdict: Verdict
    reason: str


def verdict(
    gap: Band,
    joint: Band | None,
    materiality: float,
    rows: int,
    partner: str | None = None,
    *,
    visible: float = 1.0,
    size: Callable[..., str] = size_in_points,
    unit: str = "points",
    way: Callable[[float], str] = lambda value: "",
) -> Judgement:
    """Return the first verdict that applies; `joint` is None if it was not estimated.

    `rows` is the number of rows behind the bands. `visible` is the fraction of a gap that they reveal: a feature is
    cleared only if its bands, divided by it, are within the threshold. `size` formats a difference with the decimals of
    the others given, in the unit named `unit`, and `way` describes the direction of a contribution.
    """
    both = [band for band in (gap, joint) if band is not None]

    def with_unit(text: str) -> str:
        return f"{text} {unit}".rstrip()

    m, counts = materiality, with_unit(size(materiality))
    if is_beyond(gap, m):
        return Judgement(
            Verdict.POTENTIAL_PROXY, f"at least {with_unit(size(_nearest(gap)))} on its own{way(gap.value)}"
        )
    if joint is not None and is_beyond(joint, m):
        beyond = f"beyond the other features{f', with {partner}' if partner else ''}"
        least = with_unit(size(_nearest(joint)))
        return Judgement(Verdict.IN_COMBINATION, f"at least {least} {beyond}{way(joint.value)}")
    if all(_within(band, visible * m) for band in both):
        return Judgement(
            Verdict.NO_MATERIAL_CONTRIBUTION, f"{'less than ' if m else ''}{counts}, alone and beyond the others"
        )
    if all(_within(band, m) for band in both):
        return _hardly_seen(both, visible, lambda value: with_unit(size(value)), f"threshold {size(m)}")
    for band in both:
        if not _within(band, m) and (band.low > 0.0 or band.high < 0.0):
            ends = sorted((abs(band.low), abs(band.high)))
            span = f"{with_unit(' to '.join(size(end, *ends) for end in ends))}{way(band.value)}"
            return Judgement(Verdict.SIZE_UNCLEAR, f"{span}; threshold {size(m)}")
    open_ones = [band for band in both if not _within(band, m)]
    more = _more_rows(max(open_ones, key=lambda band: band.reach), visible * m, rows)
    return Judgement(Verdict.INCONCLUSIVE, f"consistent with 0 and with more than {counts}; {more}")


def _hardly_seen(both: Sequence[Band], visible: float, written: Callable[[float], str], counts: str) -> Judgement:
    """Return the judgement on immaterial bands of a feature that may be material, as only a fraction is visible."""
    most = written(max(abs(end) for band in both for end in (band.low, band.high)))
    part = f"about {visible:.0%}" if visible >= 0.005 else "next to nothing"
    is_any = any(band.low > 0.0 or band.high < 0.0 for band in both)
    reason = f"up to {most}, where group probabilities show {part} of a gap; {counts}"
    return Judgement(Verdict.SIZE_UNCLEAR if is_any else Verdict.INCONCLUSIVE, reason)


def _more_rows(band: Band, m: float, rows: int) -> str:
    """Return how many rows are needed, N = n·((κ + 1.28)·se/m)².

    With N rows the band of a true 0 lies within ±m in four of five samples. N does not depend on the estimate, whose
    distance from m is too uncertain.
    """
    needed = rows * ((band.reach + SETTLED * band.se) / m) ** 2 if m > 0.0 else math.inf
    if needed > MOST_TIMES * rows:
        return CANNOT_SETTLE
    if needed < 2 * rows:  # the value may lie between 0 and m, where nothing is settled soon
        return "at least twice as many rows needed"
    words = f"about {round(round(needed), -math.floor(math.log10(needed))):,} rows needed"
    return words if needed <= REACHABLE_TIMES * rows else f"{CANNOT_SETTLE} ({words})"


def is_beyond(band: Band, m: float) -> bool:
    """Return whether a band lies beyond ±m, on either side."""
    return band.low > m or band.high < -m


def _within(band: Band, m: float) -> bool:
    return band.low >= -m and band.high <= m


def _nearest(band: Band) -> float:
    return min(abs(band.low), abs(band.high))
