"""Arrays in memory: sums in chunks that fit the cache, and columns by their distinct values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.limits import EXACT_WHOLE, MOMENTS_CHUNK, MOST_COUNTED
from tiltlens.paper.moments import GroupMoments

MOST_COUNTED_EDGES = 64  # that are counted one by one, faster than any search
COUNTED_ROWS = 1 << 14  # for which edges are counted at a time
Column = NDArray[np.number | np.bool_]
PIVOT_STRIDE = 64  # every 64th row of a chunk is enough to know about where it lies


def _chunk(
    columns: Sequence[Column], group: Column, groups: int, weights: Column | None, space: NDArray[np.float64]
) -> list[GroupMoments]:
    """Return the moments of each group in one chunk, worked out in `space`.

    A group is picked by row weights of 0 and 1, not by compressing the columns: the arithmetic is cheaper than
    the unpredictable branches. All groups share a pivot, the mean of a few rows; a group far from it is centred
    on its own.
    """
    centred, weighted = space[: len(columns)], space[len(columns) :]
    pivot = np.array([column[::PIVOT_STRIDE].mean(dtype=np.float64) for column in columns])
    for target, column, level in zip(centred, columns, pivot, strict=True):
        np.subtract(column, level, out=target)
    moments = []
    for code in range(groups):
        member = group == code
        np.copyto(weighted[0], member)  # casting while multiplying is twice as slow
        if weights is not None:
            weighted[0] *= weights
        np.multiply(centred, weighted[0], out=weighted[1:])
        count = int(np.count_nonzero(member))
        total = float(count) if weights is None else float(weighted[0].sum())
        if total == 0:
            moments.append(replace(GroupMoments.empty(len(columns)), rows=count))
            continue
        sums = np.dot(weighted, centred.T)
        part = GroupMoments.from_sums(count, total, pivot, sums[0], sums[1:])
        if not part.well_centred:
            part = GroupMoments.from_columns(np.stack(columns).astype(np.float64), weighted[0], rows=count)
        moments.append(part)
    return moments


def chunked_moments(
    columns: Sequence[Column], group: Column, groups: int, weights: Column | None
) -> list[GroupMoments]:
    """Return the moments of some columns in each group, chunk by chunk.

    Parameters
    ----------
    columns
        Numbers of each row, such as its log-odds and its scores.
    group
        Code of each row's group, 0 … groups − 1, or whether it is in group 1. Rows with another code count nowhere.
    groups
        Number of groups.
    weights
        Weight of each row; None where all are 1.
    """
    rows = len(group)
    if group.dtype == np.bool_:
        group = group.view(np.uint8)  # comparing flags with a number would cast them, ten times as slow
    space = np.empty((2 * len(columns) + 1, min(rows, MOMENTS_CHUNK)))
    parts = []
    for part in chunks(rows, MOMENTS_CHUNK):
        w, size = None if weights is None else weights[part], min(part.stop, rows) - part.start
        parts.append(_chunk([column[part] for column in columns], group[part], groups, w, space[:, :size]))
    return [reduce(add, same_group) for same_group in zip(*parts, strict=True)]


def chunks(rows: int, most: int) -> Iterator[slice]:
    """Yield slices of at most so many rows: few enough for the cache, enough to be worth the call of a function."""
    return (slice(start, start + most) for start in range(0, rows, most))


def below(edges: NDArray[np.float64], values: NDArray[np.float64], or_equal: bool = False) -> NDArray[np.intp]:
    """Return how many edges lie below each value: a few are counted one by one, faster than any search."""
    if len(edges) > MOST_COUNTED_EDGES:
        return np.searchsorted(edges, values, side="right" if or_equal else "left")
    counts = np.empty(len(values), dtype=np.intp)
    for part in chunks(len(values), COUNTED_ROWS):
        count = np.zeros(len(values[part]), dtype=np.uint8)
        for edge in edges:
            count += values[part] >= edge if or_equal else values[part] > edge
        counts[part] = count
    return counts


MOST_BITS = 16  # of a hash that make its slot: the table stays in the cache
FIRST_ROWS = 1 << 14  # rows in which most texts are found
FACTORIZE_CHUNK = 1 << 15  # rows whose codes are found at a time
Codes = NDArray[np.int64]


class Factorized(NamedTuple):
    """The values that a column may hold, a missing one first, and the code of each entry among them."""

    values: pl.Series
    codes: NDArray[np.integer]


def factorize(column: pl.Series) -> Factorized | None:
    """Return a column by its values; None where these are too many, or numbers that are not whole."""
    codes_of = {pl.String: _text_levels, pl.Enum: _declared_levels}.get(column.dtype.base_type(), _number_levels)
    levels = codes_of(column)
    if levels is None:
        return None
    values, codes = levels
    missing = pl.Series(column.name, [None], dtype=values.dtype)
    return Factorized(pl.concat([missing, values]), codes)


def _text_levels(column: pl.Series) -> tuple[pl.Series, Codes] | None:
    if column.head(2 * MOST_COUNTED).n_unique() > MOST_COUNTED:
        return None
    return factorize_texts(column, first=1, missing=0)


def _declared_levels(column: pl.Series) -> tuple[pl.Series, Codes]:
    kind: Any = column.dtype
    codes = column.to_physical().cast(pl.Int64) + 1
    return kind.categories.cast(kind), codes.fill_null(0).to_numpy()


def _number_levels(column: pl.Series) -> tuple[pl.Series, NDArray[np.integer]] | None:
    dtype = column.dtype
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Date)):
        return None
    plain = column.cast(pl.Int64) if dtype in (pl.Boolean, pl.Date) else column
    ends: list[Any] = [plain.min() or 0, plain.max() or 0]
    low, high = ends
    if not (abs(low) < EXACT_WHOLE and high - low < MOST_COUNTED):
        return None
    numbers = (plain.fill_null(low) if column.null_count() else plain).to_numpy()
    if dtype.is_float():
        codes = numbers.astype(np.intp)
        if not np.array_equal(codes, numbers):
            return None
        codes -= int(low) - 1
    else:
        codes = np.subtract(numbers, int(low) - 1, dtype=np.intp)
    if column.null_count():
        codes[column.is_null().to_numpy()] = 0
    return pl.Series(np.arange(int(low), int(high) + 1)).cast(dtype), codes


def factorize_texts(column: pl.Series, first: int, missing: int) -> tuple[pl.Series, Codes]:
    """Return the texts of a column, and the code of each entry among them."""
    texts = column.head(FIRST_ROWS).drop_nulls().unique()
    codes = text_codes(column, texts, first, missing)
    others = column.filter(codes == missing).drop_nulls()
    if len(others):
        texts = pl.concat([texts, others.unique()])
        codes = text_codes(column, texts, first, missing)
    return texts, codes


def text_codes(column: pl.Series, texts: pl.Series, first: int, other: int) -> Codes:
    """Return the code of each entry: `first` for the first of some texts and so on, `other` for none of them.

    Entries are known by Polars' hashes, good within one process: each of few texts is found in a table of slots.
    """
    keys, codes = texts.hash().to_numpy(), np.arange(first, first + len(texts))
    shift = _shift(keys)
    if shift is None:
        numbered = column.cast(pl.Enum(texts), strict=False).to_physical().cast(pl.Int64) + first
        return numbered.fill_null(other).to_numpy()
    hashes = column.hash().to_numpy()
    code_of, key_of = np.full(1 << 64 - shift, other), np.zeros(1 << 64 - shift, dtype=np.uint64)
    code_of[_slots(keys, shift)], key_of[_slots(keys, shift)] = codes, keys
    hashed_codes = np.empty(len(hashes), dtype=np.int64)
    for part in chunks(len(hashes), FACTORIZE_CHUNK):
        slots = _slots(hashes[part], shift)
        hashed_codes[part], is_other = code_of.take(slots), key_of.take(slots) != hashes[part]
        if is_other.any():
            hashed_codes[part][is_other] = other
    return hashed_codes


def _slots(hashes: NDArray[np.uint64], shift: int) -> NDArray[np.int64]:
    return (hashes >> np.uint64(shift)).view(np.int64)


def _shift(keys: NDArray[np.uint64]) -> int | None:
    """Return how far hashes are shifted for all slots to differ; None where texts are too many for that."""
    for bits in range(1, MOST_BITS + 1):
        if len(keys) <= 1 << bits and len(np.unique(_slots(keys, 64 - bits))) == len(keys):
            return 64 - bits
    return None
