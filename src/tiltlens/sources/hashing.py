"""One hash of a row for every purpose: the order of rows, folds, samples and fingerprints.

It depends on what a row holds alone, by the names of its columns: not on their order, on the engine, or on the version
of any library. Numbers count to nine decimals; numbers, booleans and times that differ in kind from engine to engine
are hashed as one. `nameless_hashes` do not even depend on names: of columns, levels or groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.sources.arrays import Factorized, chunks
from tiltlens.threads import in_threads

CACHE_CHUNK = 1 << 16  # rows that are hashed at a time: they stay in the cache
Hashes = NDArray[np.uint64]
Column = pl.Series | NDArray[np.number]

BILLION = 1e9
ODD, HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)  # a factor and a shift that mix the bits of a hash
MISSING = 0x6D697373696E6721  # bits of a missing value
ROUNDS = 3  # in which rows, levels and columns are told apart by each other


def row_hashes(columns: Mapping[str, Column], coded: Mapping[str, Factorized | None] = {}) -> Hashes:
    """Return a hash of each row: Σ of each column's bits, mixed in a way of its name's own, and mixed again.

    `coded` holds columns by their distinct values, where these are few: then only those are hashed.
    """
    return nested_hashes([columns], coded)[0]


def nested_hashes(stages: Sequence[Mapping[str, Column]], coded: Mapping[str, Factorized | None] = {}) -> list[Hashes]:
    """Return the hashes of each row by the first columns, by these and the next, and so on."""
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
    """Return a hash of each hash together with a number."""
    return _mix(_mix(hashes + _mixed(numbers.astype(np.uint64), ODD)))


def nameless_hashes(columns: Sequence[pl.Series]) -> tuple[Hashes, list[int]]:
    """Return a hash of each row, and a number of each column, that no renaming of columns or levels changes.

    Numbers enter by their rank, so that increasing transforms change nothing either. A level is known by its rows, a
    column by its values and their rows, a row by its values: each round tells more of them apart.
    """
    ranked = in_threads(_ranks, list(columns), len(columns[0]))
    rows = np.zeros(len(columns[0]), dtype=np.uint64)
    signs: list[int] = []
    for _ in range(ROUNDS):
        total, signs = np.zeros_like(rows), []
        for codes, is_ordered in ranked:
            bits = np.arange(codes.max(initial=0) + 1, dtype=np.uint64)
            if not is_ordered:
                np.add.at(bits := np.zeros_like(bits), codes, _mixed(rows, ODD))
            hashed = _mixed(bits, ODD).take(codes)
            signs.append(int(_mixed(rows + hashed, ODD).sum(dtype=np.uint64)))
            total += _mixed(hashed, np.uint64(signs[-1] | 1))
        rows = _mix(_mix(total))
    return rows, signs


def _ranks(column: pl.Series) -> tuple[NDArray[np.int64], bool]:
    """Return the codes of a column's values, 0 where missing, and whether their order has a meaning."""
    if column.dtype.is_temporal():
        column = column.cast(pl.Datetime("us")).to_physical()
    is_ordered = column.dtype.is_numeric()
    if is_ordered:
        ranks = (column.cast(pl.Float64) * BILLION).round().rank("dense")
    else:
        ranks = column.cast(pl.String).cast(pl.Categorical).to_physical().cast(pl.Int64) + 1
    return ranks.fill_null(0).cast(pl.Int64).to_numpy(), is_ordered


def _column_bits(name: str, column: Column, factorized: Factorized | None) -> Callable[[slice], Hashes]:
    """Return a function that gives a column's share of the hashes of some rows."""
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest()
    factor = np.uint64(int.from_bytes(digest, "little") | 1)
    if factorized is None:
        return lambda chunk: _mixed(_bits(column[chunk]), factor)
    table = _mixed(_bits(factorized.values), factor)
    return lambda chunk: np.asarray(table.take(factorized.codes[chunk]))


def _bits(column: Column) -> Hashes:
    """Return 64 bits for each value: of its text, or of its number to nine decimals; equal ones have the same."""
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
    """Return Σ_k t(byte_k)·ODD^k over the bytes of each text, an end mark among them; a missing text has its own."""
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

    High bits are folded down first: multiplied by an odd number, the sign of a float would stay where it is, and rows
    that differ by the signs of two columns would often have the same hash.
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
