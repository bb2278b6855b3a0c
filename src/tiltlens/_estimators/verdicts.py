"""Simultaneous bands and verdicts of features' contributions, and tests of the 2×2 table of decisions.

gap(j) and joint(j) of all features have the bands value ± κ·se, κ being the quantile of the largest |t| among them.
The verdicts use the same bands that are printed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtrit

from tiltlens._estimators.estimate import Estimate, Mapped, NoneOf, Normal, quantile, unseen_mean_se, without_noise
from tiltlens._formats import interval
from tiltlens._formats import size as size_in_points
from tiltlens._limits import NOISE, SMALLEST_EXPECTED, SMALLEST_SE
from tiltlens._notes import Note
from tiltlens.paper.checks import Floats

DRAWS = 40_000  # of the largest |t|: its quantile is then known to about 0.01
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
    reason: Note


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

    m, threshold = materiality, with_unit(size(materiality))
    if is_beyond(gap, m):
        least = with_unit(size(_nearest(gap)))
        return Judgement(Verdict.POTENTIAL_PROXY, Note("alone", least=least, way=way(gap.value)))
    if joint is not None and is_beyond(joint, m):
        least, side = with_unit(size(_nearest(joint))), way(joint.value)
        reason = Note("beyond the others", least=least, way=side)
        if partner:
            reason = Note("beyond the others, with a partner", least=least, way=side, partner=partner)
        return Judgement(Verdict.IN_COMBINATION, reason)
    if all(_within(band, visible * m) for band in both):
        reason = Note("within the threshold", threshold=threshold) if m else Note("no effect", size=threshold)
        return Judgement(Verdict.NO_MATERIAL_CONTRIBUTION, reason)
    open_bands = [band for band in both if not _within(band, m)]
    if not open_bands:
        most = with_unit(size(max(abs(end) for band in both for end in (band.low, band.high))))
        return _judge_hardly_visible(both, visible, most, size(m))
    for band in open_bands:
        if is_beyond(band):
            span, band_way = with_unit(_span(band, size)), way(band.value)
            reason = Note("across the threshold", span=span, way=band_way, threshold=size(m))
            return Judgement(Verdict.SIZE_UNCLEAR, reason)
    # (κ + 1.28)·se, within which the band of a true 0 lies in four of five samples.
    more = _more_rows(max(band.reach + SETTLED * band.se for band in open_bands), visible * m, rows)
    return Judgement(Verdict.INCONCLUSIVE, Note("inconclusive", threshold=threshold, rows=more))


def _span(band: Band, size: Callable[..., str]) -> str:
    low, high = sorted((abs(band.low), abs(band.high)))
    return interval(low, high, lambda end: size(end, low, high))


def _judge_hardly_visible(both: Sequence[Band], visible: float, most: str, threshold: str) -> Judgement:
    """Return the judgement on immaterial bands of a feature that may be material, as only a fraction is visible."""
    part = f"about {visible:.0%}" if visible >= 0.005 else "next to nothing"
    reason = Note("hardly visible", most=most, part=part, threshold=threshold)
    return Judgement(Verdict.SIZE_UNCLEAR if any(map(is_beyond, both)) else Verdict.INCONCLUSIVE, reason)


def _more_rows(reach: float, m: float, rows: int) -> Note:
    """Return how many rows are needed, N = n·(reach/m)², for a band with this reach to lie within ±m.

    N does not depend on the estimate, whose distance from m is too uncertain.
    """
    needed = rows * (reach / m) ** 2 if m > 0.0 else math.inf
    if needed > MOST_TIMES * rows:
        return Note("too many rows")
    if needed < 2 * rows:  # the value may lie between 0 and m, where far more rows are needed
        return Note("twice the rows")
    about = round(round(needed), -math.floor(math.log10(needed)))
    return Note("more rows", rows=about) if needed <= REACHABLE_TIMES * rows else Note("far more rows", rows=about)


def is_beyond(interval: Band | Estimate, m: float = 0.0) -> bool:
    """Return whether an interval lies beyond ±m, on either side; an end that is missing does not."""
    return (interval.low or 0.0) > m or (interval.high or 0.0) < -m


def _within(band: Band, m: float) -> bool:
    return band.low >= -m and band.high <= m


def _nearest(band: Band) -> float:
    return min(abs(band.low), abs(band.high))


@dataclass(frozen=True, slots=True)
class Count:
    """The size of a group, and the number of its people with the counted decision."""

    size: int
    counted: int

    @property
    def rate(self) -> float:
        """The share with the counted decision."""
        return self.counted / self.size


def rate_ratio(group: Count, highest: Count, confidence: float) -> Estimate:
    """Return p/p1 from counts, as `outputs.impact_ratio` does; se² of its logarithm is (1 − p)/(np) + (1 − p1)/(n1p1).

    The second rate must not be 0.
    """
    if group.counted == 0:
        return NoneOf(group.size, highest.rate).estimate(confidence)
    seen = [math.sqrt((1 - count.rate) / count.counted) for count in (group, highest)]
    unseen = [unseen_mean_se(count.rate, count.size) / count.rate for count in (group, highest)]
    log_ratio = Normal(math.log(group.rate / highest.rate), math.hypot(*seen, *unseen))
    return Mapped(log_ratio, math.exp).estimate(confidence)


def z_score(group: Count, highest: Count) -> float | None:
    """Return (p − p1)/√(p̄(1 − p̄)(1/n + 1/n1)), p̄ of both groups together; None where all have one outcome."""
    pooled = (group.counted + highest.counted) / (group.size + highest.size)
    variance = pooled * (1 - pooled) * (1 / group.size + 1 / highest.size)
    return (group.rate - highest.rate) / math.sqrt(variance) if variance > 0 else None


def two_sided(z: float | None) -> float | None:
    """Return P(|N(0, 1)| ≥ |z|)."""
    return None if z is None else math.erfc(abs(z) / math.sqrt(2))


def is_sparse(group: Count, highest: Count) -> bool:
    """Return whether a cell has too few expected people for z to be reliable (Cochran's rule)."""
    counted, total = group.counted + highest.counted, group.size + highest.size
    return min(group.size, highest.size) * min(counted, total - counted) < SMALLEST_EXPECTED * total


def fisher_p_value(group: Count, highest: Count) -> float:
    """Return the two-sided p-value of Fisher's exact test: of all tables that are no more likely, given the margins."""
    from scipy.stats import fisher_exact  # half a second to import

    table = np.array([[count.counted, count.size - count.counted] for count in (group, highest)])
    return float(fisher_exact(table).pvalue)


def odds_ratio(group: Count, highest: Count, confidence: float) -> Estimate | None:
    """Return the sample's odds ratio ad/(bc) with its score interval; None where it is not defined.

    Cornfield (1956), without continuity correction: each ψ with |a − A|/√V ≤ z; A, B, C and D have the odds ratio ψ and
    the same margins, and 1/V = 1/A + 1/B + 1/C + 1/D. At ψ = 1 that is `z_score`: the interval excludes 1 if and
    only if z is significant. A cell of zero needs no correction.
    """
    a, b = group.counted, group.size - group.counted
    c, d = highest.counted, highest.size - highest.counted
    if b * c == 0:
        return None
    low, high = (_odds_at(_score_end(group, highest, side, confidence), group, highest) for side in (-1, 1))
    return Estimate(a * d / (b * c), low, high)


def _cells(at: float, group: Count, highest: Count) -> tuple[float, float, float, float]:
    """Return the table whose first cell is `at`, with the margins of the two groups."""
    counted = group.counted + highest.counted
    return at, group.size - at, counted - at, highest.size - counted + at


def _odds_at(at: float, group: Count, highest: Count) -> float:
    a, b, c, d = _cells(at, group, highest)
    return a * d / (b * c) if b * c > 0 else math.inf


def _score_end(group: Count, highest: Count, side: int, confidence: float) -> float:
    """Return the first cell at one end of the score interval; the angle is finite where V is 0."""
    from scipy.optimize import brentq

    counted = group.counted + highest.counted
    end = max(0, counted - highest.size) if side < 0 else min(group.size, counted)
    if group.counted == end:
        return end

    def beyond(at: float) -> float:
        cells = _cells(at, group, highest)
        # V is 0 at the ends of the margins; the angle of (|a − A|, √V) goes on to π/2 there.
        variance = 1 / sum(1 / cell for cell in cells) if min(cells) > 0 else 0.0
        return math.atan2(abs(at - group.counted), math.sqrt(variance)) - math.atan(quantile(confidence))

    return float(brentq(beyond, group.counted, end, xtol=1e-14))


@dataclass(frozen=True, slots=True)
class Stratified:
    """The Cochran–Mantel–Haenszel test of two groups in the same strata, and their common odds ratio.

    `used` strata have both groups and both outcomes; `idle` ones add nothing. Without used strata, estimates are None.
    """

    z: float | None
    odds_ratio: Estimate | None
    used: int
    idle: int


def stratified(strata: Sequence[tuple[Count, Count]], confidence: float) -> Stratified:
    """Return z = Σ(a − E)/√ΣV, E = n·s/N and V = n·n1·s·(N − s)/(N²(N − 1)) with s of N counted; z² is the CMH χ²."""
    counts = [(group.counted, group.size, top.counted, top.size) for group, top in strata]
    # Given its margins, any other stratum has only one possible table.
    used = [(a, n, c, n1) for a, n, c, n1 in counts if n > 0 and n1 > 0 and 0 < a + c < n + n1]
    if not used:
        return Stratified(None, None, 0, len(strata))
    a, n, c, n1 = np.array(used, dtype=np.float64).T
    s, N = a + c, n + n1
    variance = n * n1 * s * (N - s) / (N**2 * (N - 1))
    z = float((a - n * s / N).sum() / np.sqrt(variance.sum()))
    return Stratified(z, _common_odds_ratio(a, n - a, c, n1 - c, confidence), len(used), len(strata) - len(used))


def _common_odds_ratio(a: Floats, b: Floats, c: Floats, d: Floats, confidence: float) -> Estimate | None:
    """Return ΣR/ΣS, R = ad/N and S = bc/N (Mantel & Haenszel 1959); no interval where it is 0, None where ΣS is 0.

    The variance of its logarithm is that of Robins, Breslow & Greenland (1986): right for few large strata and for many
    small ones.
    """
    N = a + b + c + d
    R, S, P, Q = a * d / N, b * c / N, (a + d) / N, (b + c) / N
    r, s = R.sum(), S.sum()
    if s == 0:
        return None
    if r == 0:
        return Estimate(0.0)
    variance = (P * R).sum() / r**2 + (P * S + Q * R).sum() / (r * s) + (Q * S).sum() / s**2
    return Mapped(Normal(math.log(r / s), math.sqrt(variance / 2)), math.exp).estimate(confidence)


def ratio_flips(group: Count, highest: Count, threshold: float) -> int:
    """Return the fewest changed decisions after which the ratio lies on the other side of the threshold."""
    return _fewest(group, highest, lambda flipped, top: flipped.rate < (threshold - NOISE) * top.rate)


def z_flips(group: Count, highest: Count, confidence: float) -> int:
    """Return the fewest changed decisions after which z lies on the other side of −z(confidence), such as −1.96."""
    critical = quantile(confidence)
    return _fewest(group, highest, lambda flipped, top: (z_score(flipped, top) or 0.0) <= -critical)


def _fewest(group: Count, highest: Count, is_found: Callable[[Count, Count], bool]) -> int:
    """Return the fewest changed decisions that reverse a finding about the first rate being lower than the second.

    One more change never restores the finding, so the number is found by bisection.
    """
    was_found = is_found(group, highest)
    up, rooms = 1, (group.size - group.counted, highest.counted)
    if not was_found:
        up, rooms = -1, (group.counted, highest.size - highest.counted)

    def is_enough(flips: int) -> bool:
        return any(is_found(*changed) != was_found for changed in _changed(group, highest, up, flips, rooms))

    return bisect_left(range(sum(rooms)), True, key=is_enough)


def _changed(
    group: Count, highest: Count, up: int, flips: int, rooms: tuple[int, int]
) -> Iterator[tuple[Count, Count]]:
    """Yield the splits of the changes between the groups that may be best: all in one group, or where |z| is least.

    With x of n and y = x + d of n1 counted, |z| ∝ |x/n − y/n1|/√((x + y)(N − x − y)) is quasi-convex in x; where its
    slope is 0 solves a linear equation.
    """
    least, most = max(0, flips - rooms[1]), min(flips, rooms[0])
    n, n1 = group.size, highest.size
    d, N = highest.counted - group.counted - up * flips, n + n1
    slope = (1 / n - 1 / n1) * (N - 2 * d) - 4 * d / n1
    best = up * (d * (d / n1 - (N - d) / n) / slope - group.counted) if slope else least
    for share in {least, most, *(min(max(whole(best), least), most) for whole in (math.floor, math.ceil))}:
        yield Count(n, group.counted + up * share), Count(n1, highest.counted - up * (flips - share))
