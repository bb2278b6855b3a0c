"""Cells of joint values of several features, and the part of the gap that regressions miss in such cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from tiltlens.estimators.influence import Integers
from tiltlens.paper.checks import Floats

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
    """Return cells of so many rows each: equal parts of the first feature, each in equal parts of the next, ..."""
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


def hidden_part(residuals: Residuals, codes: Integers) -> tuple[float, float]:
    """Return u/D of some cells (17a), u = Σ_c [(Σω r_S)(Σω r_W) − Σω² r_S r_W]/T_c, and its standard error."""
    return hidden_of(residuals.sums(codes), residuals.spread)


def hidden_of(sums: Floats, spread: float) -> tuple[float, float]:
    """Return the same from the sums by cell.

    Products of a row with itself are left out, so u has mean 0 if residuals are independent within the cells.
    """
    total, sum_s, sum_w, own, square_s, square_w = sums
    safe = np.where(total > 0.0, total, 1.0)
    value = float(((sum_s * sum_w - own) / safe).sum())
    variance = float(((square_s * square_w + own**2) / safe**2).sum())
    return value / spread, float(np.sqrt(variance)) / spread
