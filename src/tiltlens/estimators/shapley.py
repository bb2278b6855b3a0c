"""The gap shared out among features so that the parts add up: Shapley values of v(A) = E0[W] − E1[E0[W|X_A]].

Rows become sums per joint cell of all features; every v(A), and the error of every Shapley value, is a function of
those sums. Where a reference cell has no audited rows, E1[W|cell] stands in for E0[W|cell]: they are equal if the score
depends on the features alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiltlens.estimators.estimate import Codes, Column, Integers, Normal, Rows, RowSums, sums_by
from tiltlens.paper.checks import Floats

A_ROW, FEW_VALUES = 8, 1 << 16  # values that may be counted for each row, and however few rows have them
MOST_FEATURES = 10  # 2^10 subsets
ROWS_A_CELL = 5  # audited rows per joint cell, on average, for cell means to be worth averaging

MOST_OWN = 0.9  # of a cell's mean, by one row; beyond it the row's residual says nothing


@dataclass(frozen=True, slots=True, eq=False)
class JointCells:
    """Sums per joint cell of the features.

    Attributes
    ----------
    codes
        The features' levels, one row a cell.
    p0, p1
        Mass of the cell in both groups.
    score0, score1
        Σ w·c over the cell's audited and reference rows, c = W − E0[W], w the row's share of its group.
    squares0, squares1
        Σ w²·(1, c, c²) over the cell's audited and reference rows.
    """

    codes: Integers
    p0: Floats
    p1: Floats
    score0: Floats
    score1: Floats
    squares0: Floats
    squares1: Floats

    @property
    def unsupported(self) -> float:
        """Reference mass of the joint cells without audited rows."""
        return float(self.p1[self.p0 <= 0].sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Value:
    """v(A) with its influence function, α0 + β0·c at audited rows of a cell and α1 + β1·c at reference rows."""

    value: float
    influence: Floats  # rows α0, β0, α1, β1; one column a cell

    def plus(self, other: _Value, factor: float) -> _Value:
        return _Value(self.value + factor * other.value, self.influence + factor * other.influence)


def joint_cells(rows: Rows, outcome: Floats, codes: Sequence[Integers]) -> JointCells:
    """Return the sums per joint cell of several features, in one pass."""
    cell, levels = compact(np.column_stack(codes))
    return summed_cells(rows, outcome, cell, levels)


def summed_cells(rows: RowSums, outcome: Column, cell: Codes, levels: Integers) -> JointCells:
    """Return the sums per joint cell; `levels` are the features' codes in each cell."""
    centred = outcome - rows.mean0(outcome)
    powers = (None, centred, centred**2)
    squares0, squares1 = (np.column_stack([sums(cell, x) for x in powers]) for sums in (rows.squares0, rows.squares1))
    sums = rows.sums0(cell), rows.sums1(cell), rows.sums0(cell, centred), rows.sums1(cell, centred)
    return JointCells(levels, *sums, squares0, squares1)


def compact(codes: Integers) -> tuple[Integers, Integers]:
    """Return a cell number for each row of codes, and the codes of each cell."""
    key: Integers = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        _, key = numbered(key * (int(column.max()) + 1) + column)
    first = np.zeros(int(key.max()) + 1, dtype=np.intp)
    first[key[::-1]] = np.arange(len(codes))[::-1]
    return key, codes[first]


def numbered(values: Integers) -> tuple[Integers, Integers]:
    """Return the distinct values in order, and the place of each among them; small values are counted, not sorted."""
    most = int(values.max(initial=0)) + 1
    if most > max(A_ROW * len(values), FEW_VALUES):
        return np.unique(values, return_inverse=True)
    is_there = np.bincount(values, minlength=most) > 0
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1).take(values)


def is_supported(cells: JointCells, audited_rows: int) -> bool:
    """Return whether there are few enough features and enough audited rows for the exact computation."""
    features = cells.codes.shape[1]
    return features <= MOST_FEATURES and ROWS_A_CELL * len(cells.p0) <= audited_rows


def shapley_gaps(cells: JointCells) -> list[Normal]:
    """Return each feature's Shapley value of the gap, with its standard error."""
    count = cells.codes.shape[1]
    values = [_subset_value(cells, mask) for mask in range(2**count)]
    return [_measured(cells, _shapley(values, j, count)) for j in range(count)]


def explained_gap(cells: JointCells) -> Normal:
    """Return v(all features), which the Shapley values add up to."""
    return _measured(cells, _subset_value(cells, 2 ** cells.codes.shape[1] - 1))


def _shapley(values: list[_Value], j: int, count: int) -> _Value:
    """Return Σ_A |A|!·(d−|A|−1)!/d!·(v(A∪j) − v(A)) over the subsets A without j; bit j of an index is feature j."""
    total = values[0]  # v(∅) = 0
    for mask in range(2**count):
        if not mask >> j & 1:
            size = mask.bit_count()
            weight = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            total = total.plus(values[mask | 1 << j], weight).plus(values[mask], -weight)
    return total


def _subset_value(cells: JointCells, mask: int) -> _Value:
    """Return v(A) = −Σ P1(a)·m(a), with m(a) = E0[W|a] − E0[W].

    The influence of an audited row is that of leaving it out: c − (c − m)·P1/P0, each of the two divided by 1 less
    the row's own part in its mean. Without that, cells of few people would look surer than they are.
    """
    chosen = [j for j in range(cells.codes.shape[1]) if mask >> j & 1]
    if not chosen:
        return _Value(0.0, np.zeros((4, len(cells.p0))))
    cell, _ = compact(cells.codes[:, chosen])
    p0, p1, score0, score1 = (sums_by(cell, column) for column in (cells.p0, cells.p1, cells.score0, cells.score1))
    supported = p0 > 0
    safe = np.where(supported, p0, 1.0)
    own, own_all = sums_by(cell, cells.squares0[:, 0]) / safe**2, float(cells.squares0[:, 0].sum())
    mean, ratio = score0 / safe, np.where(supported, p1 / safe, 0.0)
    value = -float(p1 @ mean) - float(score1[~supported].sum())
    ratio = ratio / np.where(own < MOST_OWN, 1.0 - own, 1.0)
    influence = np.stack([ratio * mean, 1.0 / (1.0 - own_all) - ratio, -mean, np.where(supported, 0.0, -1.0)])
    return _Value(value, influence[:, cell])


def _measured(cells: JointCells, v: _Value) -> Normal:
    """Return the value with √Σ(w·IF)², from cell sums."""
    variance = 0.0
    groups = ((cells.p0, cells.score0, cells.squares0), (cells.p1, cells.score1, cells.squares1))
    for (mass, score, squares), (alpha, beta) in zip(groups, (v.influence[:2], v.influence[2:]), strict=True):
        centred = alpha - float(mass @ alpha + score @ beta)
        variance += float(squares.T[0] @ centred**2 + 2 * squares.T[1] @ (centred * beta) + squares.T[2] @ beta**2)
    return Normal(v.value, math.sqrt(max(variance, 0.0)))
