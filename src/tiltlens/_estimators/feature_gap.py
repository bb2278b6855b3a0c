"""The part of the gap that features A account for, gap(A) = gap − c_A; joint cells; strength of an omitted factor.

c_A is the coefficient of the group in the partially linear model W = f(X_A) + c·S̄ (Robinson 1988), each group having
half of the weight: the difference between people who are equal in A. With e = E[S̄|X_A] and m = E[W|X_A],

    c_A = E[(S̄ − e)(W − m)] / E[(S̄ − e)²].

See docs/methods.md, section 5.

An omitted factor may explain the share R²_W of the score's variance that features and group leave unexplained, and the
share R²_S of the group's variance that features leave unexplained. It then moves c_A by at most

    B = 𝒮·√(R²_W·R²_S/(1 − R²_S)),      𝒮² = E[(W − m − c(S̄ − e))²]/E[(S̄ − e)²]

(Cinelli & Hazlett 2020; Chernozhukov et al. 2022). See docs/methods.md, section 18.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from tiltlens._estimators.estimate import Normal, SquareRoot
from tiltlens._estimators.influence import InfluenceEstimate, Integers, Rows, combine
from tiltlens._estimators.outputs import Scores, gap
from tiltlens._limits import SEPARATED, SMALLEST_EXPECTED, SUM_ROUNDING
from tiltlens.paper.checks import Floats

SEEN_ROWS = 3.0  # effective rows of a value, below which the group difference within it cannot be estimated


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """Sums over all rows by value of a feature, one line for each group: people, Σ w, Σ w², Σ w·W, Σ w·W²."""

    people: Floats
    weight: Floats
    square: Floats
    first: Floats
    second: Floats

    @classmethod
    def by(
        cls, group: Integers, codes: Integers, shape: tuple[int, int], outcome: Floats, weights: Floats | None = None
    ) -> CellSums:
        """Return the sums of rows by group and code, (groups, values); each row has the weight 1 by default."""
        key = group * shape[1] + codes

        def total(column: Floats | None) -> Floats:
            return np.bincount(key, column, shape[0] * shape[1]).astype(np.float64).reshape(shape)

        people, squares = total(None), outcome**2
        if weights is None:
            return cls(people, people, people, total(outcome), total(squares))
        return cls(people, total(weights), total(weights**2), total(weights * outcome), total(weights * squares))

    @property
    def _parts(self) -> list[Floats]:
        return [self.people, self.weight, self.square, self.first, self.second]

    def __add__(self, other: CellSums) -> CellSums:
        return CellSums(*map(np.add, self._parts, other._parts))

    def merge(self, number: Integers) -> CellSums:
        """Return the sums after values are merged; `number` is the new code of each value."""
        size = int(number.max(initial=0)) + 1
        return CellSums(*(np.array([np.bincount(number, line, size) for line in part]) for part in self._parts))

    def of(self, audited: int, reference: int) -> CellSums:
        """Return the lines of two groups."""
        return CellSums(*(part[[audited, reference]] for part in self._parts))


def cell_sums_of(rows: Rows, outcome: Floats, codes: Integers, values: int | None = None) -> CellSums:
    """Return the sums of the audited and of the reference rows by code."""
    size = int(codes.max(initial=0)) + 1 if values is None else values
    return CellSums.by(np.where(rows.audited, 0, 1), codes, (2, size), outcome, rows.weights)


@dataclass(frozen=True, slots=True, eq=False)
class Coefficient:
    """c_A, with the row values and means from which its error and its factors are computed."""

    # r = (S̄ − e)(W − m) and q = (S̄ − e)² of each row, and their means r̄ and D over all rows
    product: Floats
    residual: Floats
    left: Floats  # (W − m)² of each row, and its mean
    mean_product: float
    mean_residual: float
    mean_left: float

    @property
    def is_separated(self) -> bool:
        """Whether A determines the group, so that nobody has an equal in the other group."""
        return self.mean_residual <= SEPARATED

    @property
    def value(self) -> float:
        """c_A = r̄/D, or 0 if A determines the group."""
        return 0.0 if self.is_separated else self.mean_product / self.mean_residual

    @property
    def half(self) -> Floats:
        """½ρ/D of each row, ρ = r − c·q."""
        # (15): u = v = ½ρ/D, as each group has half of the weight.
        return 0.5 * (self.product - self.value * self.residual) / max(self.mean_residual, SEPARATED)

    def estimate(self, rows: Rows) -> InfluenceEstimate:
        """Return c_A with IF ½(ρ − mean of the row's group)/D."""
        half = self.half
        return InfluenceEstimate.of(rows, self.value, half, half)


def mean_coefficient(rows: Rows, product: Floats, residual: Floats, left: Floats) -> Coefficient:
    """Return c_A from r, q and (W − m)² of all rows, whose weighted means are taken over P̄."""
    omega = rows.balanced_weights
    return Coefficient(product, residual, left, *(float(omega @ part) for part in (product, residual, left)))


def cell_coefficient(
    rows: Rows, outcome: Floats, codes: Integers, sums: CellSums, leaves_one_out: bool = True
) -> Coefficient:
    """Return c_A of discrete features given as codes of their joint values; `sums` are over all rows.

    e and m are the values' means. One of the two means leaves the row itself out: r and q are divided by 1 − ω/T, ω
    being the row's weight and T that of its value. A row alone in its value cannot be compared: it is left out,
    and r̄ and D are means over the others.
    """
    half = 0.5 / sums.weight.sum(axis=1, keepdims=True)  # ω = half·w
    mass, first, second = half * sums.weight, half * sums.first, half * sums.second
    total = mass.sum(axis=0)
    safe = np.where(total > 0.0, total, 1.0)
    e, m = mass[0] / safe, first.sum(axis=0) / safe
    # (16) in sums: ω of a row is the weighted mean over its value and group.
    row_share = half * np.divide(sums.square, sums.weight, out=np.zeros_like(mass), where=sums.weight > 0.0) / safe
    # With clusters a mean must leave out whole clusters: their products with themselves are added below.
    leaves_row_out = leaves_one_out and rows.clusters is None
    factor = _leave_one_out_factor(row_share, leaves_row_out)
    # Rows alone in their value cannot be compared: means are over the others.
    compared = float(mass[factor > 0.0].sum()) or 1.0
    factor /= compared
    signs = np.array([1.0 - e, -e])  # S̄ − e of both groups
    scores = first - mass * m
    lefts = second - 2.0 * first * m + mass * m**2
    # Rounding makes the square of a value’s equal scores negative.
    means = [float((factor * part).sum()) for part in (signs * scores, signs**2 * mass, np.maximum(lefts, 0.0))]
    group = np.where(rows.audited, 0, 1)
    omega = half[group, 0] * rows.weights
    # Rows have the factor of their own weight, so that their mean is the value.
    row_factor = _leave_one_out_factor(omega / safe[codes], leaves_row_out) / compared
    sign, score = signs[group, codes], outcome - m[codes]
    if leaves_one_out and rows.clusters is not None:
        extra = _cluster_products(rows.clusters, codes, omega, (sign, score), safe)
        means = [mean + product for mean, product in zip(means, extra, strict=True)]
    parts = (sign * score * row_factor, sign**2 * row_factor, score**2 * row_factor)
    return Coefficient(*parts, *means)


def _cluster_products(
    clusters: Integers, codes: Integers, omega: Floats, parts: tuple[Floats, Floats], total: Floats
) -> list[float]:
    """Return how much r̄, D and E[(W − m)²] lose because e or m includes the row's own cluster."""
    both, cell = np.unique(clusters * total.size + codes, return_inverse=True)
    sign, score = (np.bincount(cell, omega * part) for part in parts)
    mass = total[both % total.size] * float(omega.sum())  # the rows may be a sample of all rows
    return [float((left * other / mass).sum()) for left, other in ((sign, score), (sign, sign), (score, score))]


def _leave_one_out_factor(share: Floats, leaves_one_out: bool) -> Floats:
    """Return 1/(1 − ω/T), or 0 for a row that is alone in its value and cannot be compared."""
    if not leaves_one_out:
        return np.ones_like(share)
    return np.divide(1.0, 1.0 - share, out=np.zeros_like(share), where=share < 1.0 - SUM_ROUNDING)


def hidden_share(sums: CellSums, rows: float = SEEN_ROWS) -> float:
    """Return the share of all weight in values with fewer than `rows` effective rows.

    Below three, the group difference within a value cannot be estimated.
    """
    mass = 0.5 * sums.weight / sums.weight.sum(axis=1, keepdims=True)
    total = mass.sum(axis=0)
    # T·2·min n_eff is the effective number of rows with the value in two groups of the smaller one’s size.
    return float(total[total * 2.0 * _fewest(sums) < rows].sum())


def _fewest(sums: CellSums) -> float:
    """Return the effective number of people of the smaller group (3)."""
    return float((sums.weight.sum(axis=1) ** 2 / sums.square.sum(axis=1)).min())


def rare_part(sums: CellSums) -> float:
    """Return how far rare values may move gap(j), Σ T·|m − m̄| over them; 0 if they are common when taken together.

    A value is rare if fewer than five effective people of the smaller group have it, and fewer than five would at the
    other group's share (Cochran's rule). If a group lacks a value, its variance does not reflect it.
    """
    whole, people = sums.weight.sum(axis=1, keepdims=True), _fewest(sums)
    shares, first = sums.weight / whole, (sums.first / whole).sum(axis=0)
    # By the larger share: a value is also rare if the smaller group merely happens to lack it.
    rare = people * shares.max(axis=0) < SMALLEST_EXPECTED
    if people * float(shares[:, rare].sum(axis=1).max()) >= SMALLEST_EXPECTED:
        return 0.0
    return 0.5 * float(np.abs(first - 0.5 * first.sum() * shares.sum(axis=0))[rare].sum())


@dataclass(frozen=True, slots=True)
class FeatureGap:
    """gap(A) of a feature or a set, and its factors: gap(A) = alignment·reveals·drives unless alignment is clipped."""

    gap: InfluenceEstimate
    reveals: SquareRoot
    drives: SquareRoot
    alignment: Normal


def feature_gap(rows: Rows, outcome: Scores, c: Coefficient) -> FeatureGap:
    """Return gap(A) = gap − c_A and its factors.

    reveals² = 4·Var(e) = 1 − 4D and drives² = 4·Var(m − c·e) = 4(Var(m) − 2c·Cov(e, m) + c²·Var(e)), with
    Var(m) = Var(W) − E[(W − m)²] and Cov(e, m) = gap/4 − r̄: each is insensitive to small errors of e and m.
    """
    whole, c_a = gap(rows, outcome), c.estimate(rows)
    # (13): c_A is subtracted from the gap, row by row.
    through = whole.minus(c_a)
    reveals2 = _half(rows, 1.0 - 4.0 * c.mean_residual, -4.0 * c.residual)
    drives2 = _drives_squared(rows, outcome, c, whole, c_a)
    return FeatureGap(through, reveals2.square_root(), drives2.square_root(), _alignment(through, reveals2, drives2))


def _half(rows: Rows, value: float, values: Floats) -> InfluenceEstimate:
    """Return a mean over both groups, each with half of the weight."""
    return InfluenceEstimate.of(rows, value, 0.5 * values, 0.5 * values)


def _drives_squared(
    rows: Rows, outcome: Scores, c: Coefficient, whole: InfluenceEstimate, c_a: InfluenceEstimate
) -> InfluenceEstimate:
    middle = 0.5 * float(outcome.mean0[0] + outcome.mean1[0])
    # Var(W) over P̄: within the groups, and gap²/4 between them.
    spread = 0.5 * float(outcome.covariance0[0, 0] + outcome.covariance1[0, 0]) + 0.25 * whole.value**2
    covariance, variance = whole.value / 4.0 - c.mean_product, 0.25 - c.mean_residual
    value = spread - c.mean_left - 2.0 * c.value * covariance + c.value**2 * variance
    rest = (outcome.column - middle) ** 2 - c.left + 2.0 * c.value * c.product - c.value**2 * c.residual
    # (14) depends on c only here: errors of e and m enter r̄, D and E[(W − m)²] as products.
    slope = 2.0 * (c.value * variance - covariance)
    parts = [(4.0, _half(rows, 0.0, rest)), (-2.0 * c.value, whole), (4.0 * slope, c_a)]
    return combine(4.0 * value if abs(value) > SUM_ROUNDING else 0.0, parts)


def _alignment(through: InfluenceEstimate, reveals2: InfluenceEstimate, drives2: InfluenceEstimate) -> Normal:
    """Return gap(A)/(reveals·drives), in [−1, 1]; that is also its interval if reveals or drives may be 0."""
    if min(reveals2.value, drives2.value) <= SUM_ROUNDING:
        return Normal(0.0, math.inf, -1.0, 1.0)
    product = math.sqrt(reveals2.value * drives2.value)
    value = through.value / product
    parts = [(1.0 / product, through)]
    parts += [(-value / (2 * square.value), square) for square in (reveals2, drives2)]
    # Near 0 a quotient is not normal: no interval at all rather than a wrong one.
    is_determined = all(square.value >= 2.0 * square.se for square in (reveals2, drives2))
    se = combine(value, parts).se if is_determined else math.inf
    return Normal(value, se, -1.0, 1.0)


CODES_A_ROW = 8  # per row: smaller codes are counted, larger ones sorted
COUNTED_CODES = 1 << 16  # smaller codes are counted however few the rows
BLOCK_SURE = 4.0  # standard errors beyond which a hidden part adds columns: high, because hundreds are tested


def joint_codes(codes: Integers) -> tuple[Integers, Integers]:
    """Return a cell number for each row of codes, and the codes of each cell."""
    key: Integers = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        # Numbered anew after each column, codes stay below rows × values, whatever the number of columns.
        _, key = factorize_ints(key * (int(column.max()) + 1) + column)
    first = np.zeros(int(key.max()) + 1, dtype=np.intp)
    # The last write wins: in reverse order that is the first row of each cell.
    first[key[::-1]] = np.arange(len(codes))[::-1]
    return key, codes[first]


def factorize_ints(values: Integers) -> tuple[Integers, Integers]:
    """Return the distinct values in order, and the index of each among them; small values are counted, not sorted."""
    most = int(values.max(initial=0)) + 1
    if most > max(CODES_A_ROW * len(values), COUNTED_CODES):
        return np.unique(values, return_inverse=True)
    occurs = np.bincount(values, minlength=most) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1).take(values)


def grid_codes(codes: Sequence[Integers]) -> tuple[Integers, tuple[int, ...]]:
    """Return the cell of each row in the grid of several features' codes, and the shape of the grid."""
    shape = tuple(int(column.max(initial=0)) + 1 for column in codes)
    cells = codes[0]
    for column, size in zip(codes[1:], shape[1:], strict=True):
        cells = cells * size + column
    return cells, shape


def most_frequent(own: Integers, other: Integers) -> Integers:
    """Return whether each row's `other` is the most frequent among the rows with its `own`."""
    size = int(other.max()) + 1
    pairs, codes, counts = np.unique(own * size + other, return_inverse=True, return_counts=True)
    order = np.lexsort((counts, pairs // size))
    is_last = np.append(np.diff(pairs[order] // size) > 0, True)
    is_usual = np.zeros(pairs.size, dtype=np.intp)
    is_usual[order[is_last]] = 1
    return is_usual[codes]


def nested_codes(columns: Sequence[NDArray[Any]], rows: int) -> Integers:
    """Return cells of about `rows` rows: equal parts of the first feature, each cut into equal parts of the next, …"""
    size = len(columns[0])
    parts = max(int((size / rows) ** (1 / len(columns))), 1)
    cells = np.zeros(size, dtype=np.intp)
    for column in columns:
        order = np.lexsort((column, cells))
        own, value = cells[order], column[order]
        first = np.flatnonzero(np.r_[True, (own[1:] != own[:-1]) | (value[1:] != value[:-1])])
        rank = np.repeat(first, np.diff(np.r_[first, size])) - np.searchsorted(own, own)  # equal values share one
        cells[order] = own * parts + rank * parts // np.bincount(own)[own]
    return np.asarray(np.unique(cells, return_inverse=True)[1], dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Hidden:
    """The part of the gap that the regressions miss in the cells of some features, and its standard error."""

    names: tuple[str, ...]
    value: float
    se: float

    @property
    def is_sure(self) -> bool:
        """Whether the part is significant at a level that allows for hundreds of tests."""
        return abs(self.value) > BLOCK_SURE * self.se


@dataclass(frozen=True, eq=False)
class Residuals:
    """Cross-fitted residuals S̄ − e and W − m of rows, their weights, which sum to 1, and E[(S̄ − e)²]."""

    group: Floats
    score: Floats
    omega: Floats
    spread: float

    @cached_property
    def _products(self) -> Floats:
        s, w = self.omega * self.group, self.omega * self.score
        return np.column_stack([self.omega, s, w, s * w, s**2, w**2])

    def sums(self, codes: Integers, size: int | None = None) -> Floats:
        """Return by cell Σω, Σω r_S, Σω r_W, Σω² r_S r_W, Σω² r_S² and Σω² r_W², (6, cells)."""
        shape = (int(codes.max(initial=0)) + 1 if size is None else size, codes.size)
        ones, starts = self._indicators
        # A matrix of indicators sums all columns in one pass over the rows; `np.bincount` would take six.
        indicators = csc_matrix((ones, codes.astype(np.int32, copy=False), starts), shape)
        return np.asarray((indicators @ self._products).T)

    @cached_property
    def _indicators(self) -> tuple[Floats, Integers]:
        """What matrices of indicators share: ones, and where the columns start."""
        return np.ones(self.omega.size), np.arange(self.omega.size + 1, dtype=np.int32)


def hidden_of(sums: Floats, spread: float) -> tuple[float, float]:
    """Return u/D of some cells (17a), u = Σ_c [(Σω r_S)(Σω r_W) − Σω² r_S r_W]/T_c, and its error, from sums by cell.

    Products of a row with itself are left out, so u has mean 0 if residuals are independent within the cells.
    """
    total, sum_s, sum_w, own, square_s, square_w = sums
    safe = np.where(total > 0.0, total, 1.0)
    value = float(((sum_s * sum_w - own) / safe).sum())
    variance = float(((square_s * square_w + own**2) / safe**2).sum())
    return value / spread, float(np.sqrt(variance)) / spread


def bias_scale(rows: Rows, c: Coefficient) -> InfluenceEstimate:
    """Return 𝒮; as 𝒮² is a ratio of means, IF = (ε² − 𝒮²·q)/(2𝒮·D), ε = W − m − c(S̄ − e).

    It is 0 where the features and the group determine the score: no omitted factor can then account for a gap.
    """
    spread = c.mean_residual
    square = c.mean_left / spread - c.value**2
    if square <= 0.0:
        zero = rows.constant(0.0)
        return InfluenceEstimate.of(rows, 0.0, zero, zero)
    scale = math.sqrt(square)
    error = c.left - 2.0 * c.value * c.product + c.value**2 * c.residual
    # (ε² − 𝒮²q)/D is the influence of the square; 2𝒮 makes it that of the root, ½ that of each group.
    half = 0.5 * (error - square * c.residual) / (2.0 * scale * spread)
    return InfluenceEstimate.of(rows, scale, half, half)


def bias_factor(r2_score: float, r2_group: float) -> float:
    """Return √(R²_W·R²_S/(1 − R²_S)), the largest bias in units of 𝒮."""
    return math.sqrt(r2_score * r2_group / (1.0 - r2_group))


def robustness_value(gap: float, scale: float) -> float:
    """Return the R² that an omitted factor needs with both the score and the group to bring a gap to 0.

    It is ½(√(f⁴ + 4f²) − f²) with f = |c|/𝒮, written so that f may be 0 or infinite.
    """
    if gap == 0.0:
        return 0.0
    return 2.0 / (math.sqrt(1.0 + 4.0 * (scale / gap) ** 2) + 1.0)


def strength_multiple(gap: float, scale: float, r2_score: float, r2_group: float) -> float | None:
    """Return k for which a factor with the shares min(k·R²_W, 1) and k·R²_S brings a gap to 0.

    None if no multiple does: the yardstick is unrelated to the group or the score, or the score has no residual.
    """
    if gap == 0.0:
        return 0.0
    if r2_group <= 0.0 or scale <= 0.0:
        return None
    # (43) solved for k: k²R²_W·R²_S = f²(1 − kR²_S).
    f2 = (gap / scale) ** 2
    both = r2_score * r2_group
    if both > 0.0:  # both·k² = f²(1 − R²_S·k)
        multiple = 2.0 * f2 / (math.sqrt((r2_group * f2) ** 2 + 4.0 * both * f2) + r2_group * f2)
        if multiple * r2_score <= 1.0:
            return multiple
    return f2 / ((1.0 + f2) * r2_group) if r2_score > 0.0 else None


def partial_strengths(product: Floats, residual: Floats, left: Floats) -> tuple[Floats, Floats]:
    """Return R²_W(j) and R²_S(j) of each feature j, as if it were the one that is omitted.

    The means r̄, D and E[(W − m)²] are those of all features, then of all but each. V = E[(W − m)²] − c²·D is the
    residual variance of the score given a set and the group: R²_W(j) = 1 − V/V_{−j} and R²_S(j) = 1 − D/D_{−j}.
    """
    unexplained = left - product**2 / residual
    shares = [
        1.0 - np.divide(part[0], part[1:], out=np.ones(len(part) - 1), where=part[1:] > 0.0)
        for part in (unexplained, residual)
    ]
    # Estimates of D and D_{−j} are noisy: negative shares count as 0, and R²_S = 1 would divide by 0.
    return np.clip(shares[0], 0.0, 1.0), np.clip(shares[1], 0.0, 1.0 - 1e-12)
