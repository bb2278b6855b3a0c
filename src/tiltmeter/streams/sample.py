"""A sample of the rows that depends on what they hold alone, not on order, parts or engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

SAMPLED = 20_000  # distinct rows, those of the smallest hashes
GROUP, WEIGHT, LOG_ODDS, HASH, PEOPLE = "(group)", "(weight)", "(log-odds)", "(hash)", "(people)"


@dataclass(frozen=True, slots=True, eq=False)
class RowSample:
    """Distinct rows with the smallest hashes, how many people each stands for, and whether no other rows exist.

    Which rows these are depends on what they hold alone, not on order, parts or engine. Where a table has few
    distinct rows, the sample is the table.
    """

    frame: pl.DataFrame
    is_complete: bool

    def __add__(self, other: RowSample) -> RowSample:
        both = pl.concat([self.frame, other.frame])
        return _smallest(both, self.is_complete and other.is_complete)


def _smallest(frame: pl.DataFrame, is_complete: bool) -> RowSample:
    hashes = frame[HASH].to_numpy()
    order = np.argsort(hashes, kind="stable")
    starts = _first_of_equals(hashes[order])
    people = np.add.reduceat(frame[PEOPLE].to_numpy()[order], starts)[:SAMPLED]
    distinct = frame[order[starts[:SAMPLED]]].with_columns(pl.Series(PEOPLE, people))
    return RowSample(distinct, is_complete and len(starts) <= SAMPLED)


def _first_of_equals(ordered: NDArray[np.uint64]) -> NDArray[np.intp]:
    return np.flatnonzero(np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]]))


def sampled(rows: pl.DataFrame) -> tuple[RowSample, int]:
    """Return the rows with the smallest hashes, and the sum of all hashes."""
    hashes = _hashes(rows.get_columns())
    limit = _limit(hashes)
    near = hashes <= limit
    frame = rows.filter(near).with_columns(hashes.filter(near).alias(HASH), pl.lit(1, dtype=pl.Int64).alias(PEOPLE))
    return _smallest(frame, True), int(hashes.sum())


def _limit(hashes: pl.Series) -> int:
    """Return a hash that one more distinct row than are kept has or lies below: what is left out leaves a trace."""
    whole = 2**64 - 1
    limit = min(whole, int(2 * SAMPLED / max(len(hashes), 1) * whole))
    while True:
        lowest = (hashes if limit == whole else hashes.filter(hashes <= limit)).unique().to_numpy()
        if len(lowest) > SAMPLED:
            return int(np.partition(lowest, SAMPLED)[SAMPLED])
        if limit == whole:
            return whole
        limit = min(whole, 3 * limit)


def _hashes(columns: Sequence[pl.Series]) -> pl.Series:
    """Return a hash of each row; kinds that differ from engine to engine are hashed as one."""
    plain = []
    for place, column in enumerate(columns):
        if column.dtype.is_temporal():
            column = column.cast(pl.Datetime("us")).to_physical()
        as_one = pl.Float64 if column.dtype.is_numeric() or column.dtype == pl.Boolean else pl.String
        values = column.cast(as_one)
        plain.append((values.round(9) if as_one == pl.Float64 else values).alias(str(place)))
    return pl.DataFrame(plain).hash_rows(seed=0)
