"""A sample of the rows that depends on what they hold alone, not on order, parts or engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.streams.cells import chunks
from tiltmeter.theory.checks import Floats
from tiltmeter.theory.uncertainty import Integers

SAMPLED = 20_000  # distinct rows, those of the smallest hashes
FITTED_ROWS = 40_000  # of each group, at most, that a membership model is fitted on
MOST_FITTED = 400_000  # of all groups together
BILLION = 1e9
ODD, HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)  # a factor and a shift that mix the bits of a hash
# names of columns that stand beside the features: no table has a name with a NUL in it
GROUP, WEIGHT, LOG_ODDS, HASH, PEOPLE = "\0group", "\0weight", "\0log-odds", "\0hash", "\0people"
SCORE, QUARTER = "\0score ", "\0quarter"  # a score is followed by its number


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
    index, people, is_all = _lowest(frame[HASH].to_numpy(), frame[PEOPLE].to_numpy())
    return RowSample(_rows_at(frame, index).with_columns(pl.Series(PEOPLE, people)), is_complete and is_all)


def _rows_at(frame: pl.DataFrame, index: Integers) -> pl.DataFrame:
    return frame[pl.Series(index, dtype=pl.UInt32)]  # with an array, Polars first looks for negative places


def _lowest(hashes: NDArray[np.uint64], people: Integers) -> tuple[Integers, Integers, bool]:
    """Return where the lowest distinct hashes are, in order, the people of each, and whether there are no others."""
    order = np.argsort(hashes, kind="stable")
    starts = _first_of_equals(hashes[order])
    return order[starts[:SAMPLED]], np.add.reduceat(people[order], starts)[:SAMPLED], len(starts) <= SAMPLED


def _first_of_equals(ordered: NDArray[np.uint64]) -> NDArray[np.intp]:
    return np.flatnonzero(np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]]))


@dataclass(frozen=True, slots=True, eq=False)
class GroupSample:
    """Rows of each group with the smallest hashes. Unlike in a `RowSample`, of equal rows each is drawn for itself."""

    frame: pl.DataFrame

    def __add__(self, other: GroupSample) -> GroupSample:
        return _nearest(pl.concat([self.frame, other.frame]))

    def of(self, *groups: str) -> pl.DataFrame:
        """Return the rows of some groups, sorted by their hashes, and a quarter for each, by turns within a group."""
        turn = (pl.int_range(pl.len()).over(GROUP) % 4).alias(QUARTER)
        return self.frame.filter(pl.col(GROUP).is_in(groups)).sort(HASH, GROUP).with_columns(turn)


def _nearest(frame: pl.DataFrame) -> GroupSample:
    most = min(FITTED_ROWS, MOST_FITTED // max(frame[GROUP].n_unique(), 1))
    if frame.height <= most:
        return GroupSample(frame)
    return GroupSample(frame.filter(pl.col(HASH).rank("ordinal").over(GROUP) <= most))


def sample_frame(
    features: pl.DataFrame, group: pl.Series, weights: Floats, log_odds: Floats, scores: Floats
) -> pl.DataFrame:
    """Return rows as samples hold them; `scores` are (m, n)."""
    columns = (pl.Series(f"{SCORE}{y}", column) for y, column in enumerate(scores))
    return features.with_columns(
        group.alias(GROUP), pl.Series(WEIGHT, weights), pl.Series(LOG_ODDS, log_odds), *columns
    )


def group_sample(rows: pl.DataFrame) -> GroupSample:
    """Return a sample of each group in a batch."""
    return _nearest(rows.with_columns(single_hashes(rows).alias(HASH)))


def single_hashes(rows: pl.DataFrame) -> pl.Series:
    """Return a hash of each row that equal rows do not share, in one batch or in two: people are drawn one by one.

    It depends on who else of its group is in the batch, so a row has the same one in every pass that cuts the same
    batches.
    """
    hashes = row_hashes(rows)
    order = np.argsort(hashes.to_numpy(), kind="stable")
    starts = _first_of_equals(hashes.to_numpy()[order])
    turn = np.empty(len(order), dtype=np.int64)
    turn[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    frame = pl.DataFrame([hashes.alias("row"), pl.Series("turn", turn), rows[GROUP]])
    return frame.with_columns(pl.col("row").sum().over(GROUP).alias("batch")).drop(GROUP).hash_rows(seed=0)


def sampled(rows: pl.DataFrame) -> tuple[RowSample, int]:
    """Return the rows with the smallest hashes, and the sum of all hashes, modulo 2^64."""
    hashes = row_hashes(rows).to_numpy()
    limit, whole = 2**58, 2**64 - 1  # first few hashes are looked at, to know how far those that are kept reach
    while True:
        near = np.flatnonzero(hashes <= np.uint64(limit))
        index, people, is_all = _lowest(hashes[near], np.ones(len(near), dtype=np.int64))
        if limit == whole or not is_all:
            break
        limit = min(whole, 6 * SAMPLED * limit // (5 * max(len(index), 1)))
    picked = near[index]
    frame = _rows_at(rows, picked).with_columns(pl.Series(HASH, hashes[picked]), pl.Series(PEOPLE, people))
    return RowSample(frame, is_all), int(hashes.sum())


def row_hashes(rows: pl.DataFrame) -> pl.Series:
    """Return a hash of each row; kinds that differ from engine to engine are hashed as one."""
    columns = [_hashable(column) for column in rows.get_columns()]
    hashes = np.zeros(rows.height, dtype=np.uint64)
    for part in chunks(rows.height):
        found = hashes[part]
        for column in columns:
            found ^= _bits(column[part])
            _mix(found)
        _mix(found)
    return pl.Series(hashes)


def _mix(hashes: NDArray[np.uint64]) -> None:
    """Let each bit change about half of the others, in place."""
    hashes *= ODD
    hashes ^= hashes >> HALF


def _hashable(column: pl.Series) -> NDArray[Any]:
    """Return a column as what `_bits` knows: floats, or the bits of whole numbers and the hashes of texts."""
    if column.dtype.is_temporal():
        column = column.cast(pl.Datetime("us")).to_physical()
    if not column.dtype.is_numeric() and column.dtype != pl.Boolean:
        return column.cast(pl.String).hash().to_numpy()
    numbers = column.cast(pl.Float64).to_numpy()
    return numbers if column.dtype.is_float() else (numbers * BILLION).view(np.uint64)


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return bits as they are, or those of numbers to nine decimals; equal numbers of any kind have the same."""
    if values.dtype == np.uint64:
        return values
    with np.errstate(over="ignore"):
        rounded = values * BILLION
    np.rint(rounded, out=rounded)
    rounded += 0.0  # −0 is 0
    return rounded.view(np.uint64)
