"""The part of the gap that a set A of features accounts for: gap(A) = gap − c_A.

c_A is the coefficient of the group in the partially linear model W = f(X_A) + c·S̄ (Robinson 1988), each group having
half of the weight: the difference between people who are equal in A. With e = E[S̄|X_A] and m = E[W|X_A],

    c_A = E[(S̄ − e)(W − m)] / E[(S̄ − e)²].

See docs/methods.md, section 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tiltlens.estimators.estimate import Normal, SquareRoot
from tiltlens.estimators.influence import InfluenceEstimate, Integers, Rows, combine
from tiltlens.estimators.outputs import Scores, gap
from tiltlens.limits import SEPARATED, SMALLEST_EXPECTED, SUM_ROUNDING
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

    def __add__(self, other: CellSums) -> CellSums:
        return CellSums(
            self.people + other.people,
            self.weight + other.weight,
            self.square + other.square,
            self.first + other.first,
            self.second + other.second,
        )

    def merge(self, number: Integers) -> CellSums:
        """Return the sums after values are merged; `number` is the new code of each value."""
        size = int(number.max(initial=0)) + 1
        parts = (self.people, self.weight, self.square, self.first, self.second)
        return CellSums(*(np.array([np.bincount(number, line, size) for line in part]) for part in parts))

    def of(self, audited: int, reference: int) -> CellSums:
        """Return the lines of two groups."""
        two = [audited, reference]
        return CellSums(self.people[two], self.weight[two], self.square[two], self.first[two], self.second[two])


def cell_sums_of(rows: Rows, outcome: Floats, codes: Integers, values: int | None = None) -> CellSums:
    """Return the sums of the audited and of the reference rows by code."""
    size = int(codes.max(initial=0)) + 1 if values is None else values
    key = np.where(rows.audited, 0, size) + codes

    def total(column: Floats | None) -> Floats:
        return np.bincount(key, column, 2 * size).astype(np.float64).reshape(2, size)

    w = rows.weights
    return CellSums(total(None), total(w), total(w**2), total(w * outcome), total(w * outcome**2))


@dataclass(frozen=True, slots=True, eq=False)
class Coefficient:
    """c_A, with the row values and means from which its error and its factors are computed."""

    value: float  # c_A = r̄/D
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
    def half(self) -> Floats:
        """½ρ/D of each row, ρ = r − c·q."""
        # (15): u = v = ½ρ/D, as each group has half of the weight.
        return 0.5 * (self.product - self.value * self.residual) / max(self.mean_residual, SEPARATED)

    def estimate(self, rows: Rows) -> InfluenceEstimate:
        """Return c_A with IF ½(ρ − mean of the row's group)/D."""
        half = self.half
        return InfluenceEstimate.of(rows, self.value, half, half)


def coefficient(
    product: Floats, residual: Floats, left: Floats, mean_product: float, mean_residual: float, mean_left: float
) -> Coefficient:
    """Return c_A = r̄/D, or 0 if the features determine the group."""
    value = mean_product / mean_residual if mean_residual > SEPARATED else 0.0
    return Coefficient(value, product, residual, left, mean_product, mean_residual, mean_left)


def mean_coefficient(rows: Rows, product: Floats, residual: Floats, left: Floats) -> Coefficient:
    """Return c_A from r, q and (W − m)² of all rows, whose weighted means are taken over P̄."""
    omega = rows.balanced_weights
    return coefficient(product, residual, left, *(float(omega @ part) for part in (product, residual, left)))


def cell_coefficient(
    rows: Rows, outcome: Floats, codes: Integers, sums: CellSums, leaves_one_out: bool = True
) -> Coefficient:
    """Return c_A of discrete features given as codes of their joint values; `sums` are over all rows.

    e and m are the values' means. One of the two means leaves the row itself out: r and q are divided by 1 − ω/T, ω
    being the row's weight and T that of its value. A row alone in its value is compared with nobody: it adds nothing,
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
    # Rows alone in their value are compared with nobody: means are over the others.
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
    return coefficient(*parts, *means)


def _cluster_products(
    clusters: Integers, codes: Integers, omega: Floats, parts: tuple[Floats, Floats], total: Floats
) -> list[float]:
    """Return how much r̄, D and E[(W − m)²] lose because e or m includes the row's own cluster."""
    both, cell = np.unique(clusters * total.size + codes, return_inverse=True)
    sign, score = (np.bincount(cell, omega * part) for part in parts)
    mass = total[both % total.size] * float(omega.sum())  # some of the rows stand for all
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
    # T·2·min n_eff is the number of rows that the value is worth in two groups of the smaller one’s size.
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
    through = combine(whole.value - c.value, [(1.0, whole), (-1.0, c_a)])
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
