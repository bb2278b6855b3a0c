"""Texts as codes: entries are known by their hashes, so that each of few texts is found in a table of slots."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.engines.arrays import chunks

MOST_BITS = 16  # of a hash that make its slot: the table stays in the cache
FIRST = 1 << 14  # rows in which most texts are found
CHUNK = 1 << 15  # rows whose codes are found at a time


def text_codes(column: pl.Series, texts: pl.Series, first: int, other: int) -> NDArray[np.int64]:
    """Return the code of each entry: `first` for the first of some texts and so on, `other` for none of them."""
    keys, codes = texts.hash().to_numpy(), np.arange(first, first + len(texts))
    shift = _shift(keys)
    if shift is None:
        places = column.cast(pl.Enum(texts), strict=False).to_physical().cast(pl.Int64) + first
        return places.fill_null(other).to_numpy()
    hashes = column.hash().to_numpy()
    code_of, key_of = np.full(1 << 64 - shift, other), np.zeros(1 << 64 - shift, dtype=np.uint64)
    code_of[_slots(keys, shift)], key_of[_slots(keys, shift)] = codes, keys
    found = np.empty(len(hashes), dtype=np.int64)
    for part in chunks(len(hashes), CHUNK):
        slots = _slots(hashes[part], shift)
        found[part], is_other = code_of.take(slots), key_of.take(slots) != hashes[part]
        if is_other.any():
            found[part][is_other] = other
    return found


def _slots(hashes: NDArray[np.uint64], shift: int) -> NDArray[np.int64]:
    return (hashes >> np.uint64(shift)).view(np.int64)


def _shift(keys: NDArray[np.uint64]) -> int | None:
    """Return how far hashes are shifted for all slots to differ; None where texts are too many for that."""
    for bits in range(1, MOST_BITS + 1):
        if len(keys) <= 1 << bits and len(np.unique(_slots(keys, 64 - bits))) == len(keys):
            return 64 - bits
    return None


def distinct_texts(column: pl.Series, first: int, missing: int) -> tuple[pl.Series, NDArray[np.int64]]:
    """Return the texts of a column, and the code of each entry among them."""
    texts = column.head(FIRST).drop_nulls().unique()
    codes = text_codes(column, texts, first, missing)
    others = column.filter(codes == missing).drop_nulls()
    if len(others):
        texts = pl.concat([texts, others.unique()])
        codes = text_codes(column, texts, first, missing)
    return texts, codes
