"""A column by its distinct values: few texts, declared levels, or whole numbers that lie close together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.limits import EXACT_WHOLE, MOST_COUNTED
from tiltlens.sources.arrays import chunks

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
