"""Arrays in memory: moments in chunks that fit the cache, columns by their distinct values, and row hashes.

The hash depends on what a row holds alone, by the names of its columns: not on their order, on the engine, or on the
version of any library. Numbers count to nine decimals; numbers, booleans and times that differ in kind from engine to
engine are hashed as one. `nameless_hashes` do not even depend on names: of columns, levels or groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._limits import EXACT_WHOLE, MOMENTS_CHUNK, MOST_COUNTED
from tiltlens._threads import in_threads, threads
from tiltlens.paper.correction import GroupMoments

MOST_COUNTED_EDGES = 64  # up to which edges are compared one by one, faster than any search
COUNTED_ROWS = 1 << 14  # rows per chunk when edges are counted
WEIGHT_ROUNDING = 1e-9  # of a sum of weights
Column = NDArray[np.number | np.bool_]
PIVOT_STRIDE = 64  # every 64th row of a chunk suffices to estimate its mean


def _chunk(
    columns: Sequence[Column], group: Column, groups: int, weights: Column | None, space: NDArray[np.float64]
) -> list[GroupMoments]:
    """Return the moments of each group in one chunk, computed in `space`.

    A group is selected by weights of 0 and 1 instead of compressing the columns, because the arithmetic costs less than
    unpredictable branches. All groups share a pivot, the mean of a few rows; a group far from it is centred separately.
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
    """Return the moments of some columns in each group, chunk by chunk; without weights all are 1.

    `group` has the code of each row's group, 0 … `groups` − 1 (other rows are ignored), or whether it is in group 1.
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
    """Yield slices of at most `most` rows: few enough for the cache, enough to outweigh the cost of a function call."""
    return (slice(start, start + most) for start in range(0, rows, most))


def below(edges: NDArray[np.float64], values: NDArray[np.float64], or_equal: bool = False) -> NDArray[np.intp]:
    """Return the number of edges below each value; a few edges are compared one by one, faster than any search."""
    if len(edges) > MOST_COUNTED_EDGES:
        return np.searchsorted(edges, values, side="right" if or_equal else "left")
    counts = np.empty(len(values), dtype=np.intp)
    for part in chunks(len(values), COUNTED_ROWS):
        count = np.zeros(len(values[part]), dtype=np.uint8)
        for edge in edges:
            count += values[part] >= edge if or_equal else values[part] > edge
        counts[part] = count
    return counts


def counted_edges(numbers: NDArray[np.float64], people: NDArray[np.integer], bins: int) -> NDArray[np.float64]:
    """Return the distinct inner quantiles of sorted, distinct numbers, each counted for its number of people."""
    steps, total = np.arange(1, bins), np.cumsum(people)
    ranks = np.ceil(steps * int(total[-1]) / bins).astype(np.int64) - 1
    return _inner_edges(numbers, numbers[np.searchsorted(total, ranks, side="right")])


def quantile_edges(numbers: NDArray[np.float64], weights: NDArray[np.float64] | None, bins: int) -> NDArray[np.float64]:
    """Return the distinct inner quantiles, each a value that occurs, below the largest; none of equal numbers."""
    steps = np.arange(1, bins)
    if weights is None:
        ranks = np.ceil(steps * numbers.size / bins).astype(np.int64) - 1
        quantiles = np.partition(numbers, ranks)[ranks]
    else:
        order = np.argsort(numbers, kind="stable")
        total = np.cumsum(weights[order])
        # A sum of weights may fall short of its quantile by rounding.
        reached = (1.0 - WEIGHT_ROUNDING) * total[-1] / bins
        quantiles = numbers[order][np.searchsorted(total, steps * reached)]
    return _inner_edges(numbers, quantiles)


def _inner_edges(numbers: NDArray[np.float64], quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = numbers.max()
    edges, others = np.unique(quantiles[quantiles < largest]), numbers[numbers < largest]
    return edges if edges.size or not others.size else np.array([others.max()])


MOST_BITS = 16  # of a hash that form its slot, so that the table stays in the cache
FIRST_ROWS = 1 << 14  # rows expected to contain most texts
FACTORIZE_CHUNK = 1 << 15  # rows coded at a time
Codes = NDArray[np.int64]


class Factorized(NamedTuple):
    """The distinct values of a column, after a missing one, and the code of each entry."""

    values: pl.Series
    codes: NDArray[np.integer]


def factorize(column: pl.Series) -> Factorized | None:
    """Return a column by its distinct values; None if there are too many, or numbers that are not whole."""
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
    """Return the distinct texts of a column, and the code of each entry."""
    texts = column.head(FIRST_ROWS).drop_nulls().unique()
    codes = text_codes(column, texts, first, missing)
    others = column.filter(codes == missing).drop_nulls()
    if len(others):
        texts = pl.concat([texts, others.unique()])
        codes = text_codes(column, texts, first, missing)
    return texts, codes


def text_codes(column: pl.Series, texts: pl.Series, first: int, other: int) -> Codes:
    """Return the code of each entry: `first` for the first text and so on, `other` for entries that are not listed.

    Entries are compared by Polars' hashes, which are valid within one process; few texts are looked up in a slot table.
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
    """Return the shift that gives each hash its own slot; None if there are too many texts."""
    for bits in range(1, MOST_BITS + 1):
        if len(keys) <= 1 << bits and len(np.unique(_slots(keys, 64 - bits))) == len(keys):
            return 64 - bits
    return None


CACHE_CHUNK = 1 << 16  # rows hashed at a time, so that they stay in the cache
Hashes = NDArray[np.uint64]
HashedColumn = pl.Series | NDArray[np.number]

BILLION = 1e9
ODD, HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)  # a factor and a shift that mix the bits of a hash
MISSING = 0x6D697373696E6721  # bits of a missing value
ROUNDS = 3  # of refinement, in which rows, levels and columns are distinguished by each other


def row_hashes(columns: Mapping[str, HashedColumn], coded: Mapping[str, Factorized | None] = {}) -> Hashes:
    """Return a hash of each row: Σ of its columns' bits, each mixed by a factor of the column's name, mixed again.

    `coded` has columns by their distinct values, if these are few: then only the distinct values are hashed.
    """
    return nested_hashes([columns], coded)[0]


def nested_hashes(
    stages: Sequence[Mapping[str, HashedColumn]], coded: Mapping[str, Factorized | None] = {}
) -> list[Hashes]:
    """Return row hashes by the columns of the first stage, by those of the first two, and so on."""
    rows = len(next(iter(stages[0].values())))
    parts = [[_column_bits(name, column, coded.get(name)) for name, column in columns.items()] for columns in stages]
    hashes = [np.empty(rows, dtype=np.uint64) for _ in stages]
    for chunk in chunks(rows, CACHE_CHUNK):
        total = np.zeros(len(hashes[0][chunk]), dtype=np.uint64)
        for stage, target in zip(parts, hashes, strict=True):
            for part in stage:
                total += part(chunk)
            target[chunk] = _mix(_mix(total.copy()))
    return hashes


def mixed_hashes(hashes: Hashes, numbers: NDArray[np.integer]) -> Hashes:
    """Return a hash of each hash combined with a number."""
    return _mix(_mix(hashes + _mixed(numbers.astype(np.uint64), ODD)))


def nameless_hashes(columns: Sequence[pl.Series]) -> tuple[Hashes, list[int]]:
    """Return a hash of each row, and a number for each column, that are invariant to renaming columns and levels.

    Numbers enter by rank, so increasing transforms do not matter either. A level is identified by its rows, a column by
    its values and their rows, a row by its values: each round distinguishes more of them.
    """
    ranked = in_threads(_ranks, list(columns), len(columns[0]))
    rows = np.zeros(len(columns[0]), dtype=np.uint64)
    signs: list[int] = []
    shares = [ranked[part] for part in chunks(len(ranked), -(-len(ranked) // threads()))]
    for _ in range(ROUNDS):
        parts = in_threads(partial(_refine, rows), shares, len(rows))
        rows = _mix(_mix(sum((total for total, _ in parts), np.zeros_like(rows))))
        signs = [sign for _, own in parts for sign in own]
    return rows, signs


def _refine(rows: Hashes, ranked: Sequence[tuple[NDArray[np.int64], bool]]) -> tuple[Hashes, list[int]]:
    """Return what some columns add to the hashes of a round, and a number for each; `rows` are the previous hashes."""
    total, signs = np.zeros_like(rows), []
    for codes, is_ordered in ranked:
        bits = np.arange(codes.max(initial=0) + 1, dtype=np.uint64)
        if not is_ordered:
            np.add.at(bits := np.zeros_like(bits), codes, _mixed(rows, ODD))
        hashed = _mixed(bits, ODD).take(codes)
        signs.append(int(_mixed(rows + hashed, ODD).sum(dtype=np.uint64)))
        total += _mixed(hashed, np.uint64(signs[-1] | 1))
    return total, signs


def _ranks(column: pl.Series) -> tuple[NDArray[np.int64], bool]:
    """Return the codes of a column's values (0 if missing), and whether the values are ordered."""
    if column.dtype.is_temporal():
        column = column.cast(pl.Datetime("us")).to_physical()
    is_ordered = column.dtype.is_numeric()
    if is_ordered:
        ranks = (column.cast(pl.Float64) * BILLION).round().rank("dense")
    else:
        ranks = column.cast(pl.String).cast(pl.Categorical).to_physical().cast(pl.Int64) + 1
    return ranks.fill_null(0).cast(pl.Int64).to_numpy(), is_ordered


def _column_bits(name: str, column: HashedColumn, factorized: Factorized | None) -> Callable[[slice], Hashes]:
    """Return a function that computes a column's part of the hashes of some rows."""
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest()
    factor = np.uint64(int.from_bytes(digest, "little") | 1)
    if factorized is None:
        return lambda chunk: _mixed(_bits(column[chunk]), factor)
    table = _mixed(_bits(factorized.values), factor)
    return lambda chunk: np.asarray(table.take(factorized.codes[chunk]))


def _bits(column: HashedColumn) -> Hashes:
    """Return 64 bits per value, from its text or from its number to nine decimals; equal values have equal bits."""
    if isinstance(column, np.ndarray):
        return _number_bits(column)
    if column.dtype.is_temporal():
        column = column.cast(pl.Datetime("us")).to_physical()
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        return _text_bits(column.cast(pl.String))
    bits = _number_bits(column.cast(pl.Float64).to_numpy())
    return np.where(column.is_null().to_numpy(), np.uint64(MISSING), bits) if column.null_count() else bits


def _number_bits(values: NDArray[np.number]) -> Hashes:
    with np.errstate(over="ignore", invalid="ignore"):
        rounded: NDArray[np.float64] = np.multiply(values, BILLION, dtype=np.float64)
        np.rint(rounded, out=rounded)
    rounded += 0.0  # −0 is 0
    return rounded.view(np.uint64)


def _text_bits(texts: pl.Series) -> Hashes:
    """Return Σ_k t(byte_k)·ODD^k over the bytes of each text with an end mark; missing texts have bits of their own."""
    filled = texts.fill_null("")
    sizes = filled.str.len_bytes().to_numpy().astype(np.int64) + 1
    content = np.frombuffer(("\0".join(filled.to_list()) + "\0").encode(errors="surrogatepass"), dtype=np.uint8)
    starts = np.cumsum(sizes) - sizes
    offset = np.arange(len(content)) - np.repeat(starts, sizes)
    powers = np.cumprod(np.full(int(sizes.max(initial=1)), ODD))
    bits = np.add.reduceat(BYTES.take(content) * powers.take(offset), starts) if len(sizes) else np.zeros(0, np.uint64)
    return np.where(texts.is_null().to_numpy(), np.uint64(MISSING), bits) if texts.null_count() else bits


def _mixed(bits: Hashes, factor: np.uint64) -> Hashes:
    """Return the bits mixed by a factor.

    High bits are folded down first: multiplication by an odd number would leave the sign bit of a float in place, and
    rows that differ in the signs of two columns would often collide.
    """
    folded = bits >> HALF
    folded ^= bits
    folded *= factor
    return _mix(folded)


def _mix(bits: Hashes) -> Hashes:
    """Let each bit change about half of the others, in place."""
    bits ^= bits >> HALF
    bits *= ODD
    bits ^= bits >> HALF
    return bits


BYTES = _mixed(np.arange(1, 257, dtype=np.uint64), ODD)
