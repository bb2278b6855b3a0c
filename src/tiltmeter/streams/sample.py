"""A sample of the rows that depends on what they hold alone, not on order, parts or engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.theory.checks import Floats

SAMPLED = 20_000  # distinct rows, those of the smallest hashes
FITTED_ROWS = 40_000  # of each group, at most, that a membership model is fitted on
MOST_FITTED = 400_000  # of all groups together
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
    hashes = frame[HASH].to_numpy()
    order = np.argsort(hashes, kind="stable")
    starts = _first_of_equals(hashes[order])
    people = np.add.reduceat(frame[PEOPLE].to_numpy()[order], starts)[:SAMPLED]
    distinct = frame[order[starts[:SAMPLED]]].with_columns(pl.Series(PEOPLE, people))
    return RowSample(distinct, is_complete and len(starts) <= SAMPLED)


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
    """Return the rows with the smallest hashes, and the sum of all hashes."""
    hashes = row_hashes(rows)
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


def row_hashes(rows: pl.DataFrame) -> pl.Series:
    """Return a hash of each row; kinds that differ from engine to engine are hashed as one."""
    plain = []
    for place, column in enumerate(rows.get_columns()):
        if column.dtype.is_temporal():
            column = column.cast(pl.Datetime("us")).to_physical()
        as_one = pl.Float64 if column.dtype.is_numeric() or column.dtype == pl.Boolean else pl.String
        values = column.cast(as_one)
        plain.append((values.round(9) if as_one == pl.Float64 else values).alias(str(place)))
    return pl.DataFrame(plain).hash_rows(seed=0)
