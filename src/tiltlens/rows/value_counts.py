"""How often each value of a feature occurs in each group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tiltlens.estimators.influence import Integers
from tiltlens.limits import MOST_COUNTED
from tiltlens.paper.checks import Floats
from tiltlens.rows.roles import GROUP, PEOPLE, WEIGHT
from tiltlens.sources.arrays import Factorized

MOST_PLACES = 1 << 20  # of values in groups that are counted by their place


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """How often each value of a feature occurs in each group, or, where there are too many values, their ranges."""

    parts: pl.DataFrame | None  # the counts of some rows after those of others: a value may have several lines
    only_ranges: pl.DataFrame | None = None  # where the values are too many

    @cached_property
    def frame(self) -> pl.DataFrame | None:
        """One row for each value and group: people and their weight."""
        return None if self.parts is None else _summed(self.parts)

    @property
    def ranges(self) -> pl.DataFrame:
        """One row per group: smallest, largest, whether all numbers are whole, people, missing, infinite."""
        return _ranges(pl.DataFrame(self.parts)) if self.only_ranges is None else self.only_ranges

    def __add__(self, other: ValueCounts) -> ValueCounts:
        if self.parts is not None and other.parts is not None:
            parts = pl.concat([self.parts, other.parts], rechunk=True)
            return ValueCounts(parts) if parts.height <= MOST_COUNTED else _joined(parts)
        return ValueCounts(None, pl.concat([self.ranges, other.ranges]).group_by(GROUP).agg(*RANGES))


def _joined(parts: pl.DataFrame) -> ValueCounts:
    """Return counts with one line for each value and group, or the ranges where these are too many."""
    frame = _summed(parts)
    return ValueCounts(frame) if frame.height <= MOST_COUNTED else ValueCounts(None, _ranges(frame))


def _summed(parts: pl.DataFrame) -> pl.DataFrame:
    return parts.group_by(parts.columns[:2]).sum()


RANGES = (
    pl.col("smallest").min(),
    pl.col("largest").max(),
    pl.col("is_whole").all(),
    pl.col(PEOPLE, "missing", "infinite").sum(),
)


def value_counts(
    column: pl.Series, factorized: Factorized | None, codes: Integers, labels: pl.Series, weights: Floats | None
) -> ValueCounts:
    """Return the value counts of a feature, by its distinct values where these are known.

    `codes` are of the groups, and `weights` None where all are 1.
    """
    frame = None if factorized is None else _by_value(factorized, codes, len(labels), weights)
    if frame is None:
        frame = _of_any(column, codes, weights)
    if frame is not None:
        return ValueCounts(_named(frame, labels))
    everyone = pl.DataFrame({GROUP: codes, column.name: column}).with_columns(pl.lit(1, pl.Int64).alias(PEOPLE))
    return ValueCounts(None, _named(_ranges(everyone), labels))


def _named(frame: pl.DataFrame, labels: pl.Series) -> pl.DataFrame:
    return frame.with_columns(labels.gather(frame[GROUP].cast(pl.UInt32)))


def _by_value(factorized: Factorized, codes: Integers, groups: int, weights: Floats | None) -> pl.DataFrame | None:
    """Return the counts; None where there are too many."""
    values, size = factorized.values, len(factorized.values) * groups
    if size > MOST_PLACES:
        return None
    keys = factorized.codes * groups
    keys += codes
    counts = np.bincount(keys, minlength=size)
    filled = np.flatnonzero(counts)
    if len(filled) > MOST_COUNTED:
        return None
    parts = {
        GROUP: filled % groups,
        values.name: values.gather(filled // groups),
        PEOPLE: counts[filled],
        WEIGHT: (counts if weights is None else np.bincount(keys, weights))[filled].astype(np.float64),
    }
    return pl.DataFrame(parts)


def _of_any(column: pl.Series, codes: Integers, weights: Floats | None) -> pl.DataFrame | None:
    """Return the counts of any values; None where there are too many."""
    if column.head(2 * MOST_COUNTED).n_unique() > MOST_COUNTED:
        return None
    frame = _counted(column, codes, weights)
    return frame if frame.height <= MOST_COUNTED else None


def _counted(column: pl.Series, codes: Integers, weights: Floats | None) -> pl.DataFrame:
    """Return the people and the weight of each group and value."""
    rows, keys = pl.DataFrame({GROUP: codes, column.name: column}), [GROUP, column.name]
    people = pl.len().cast(pl.Int64).alias(PEOPLE)
    if weights is None:
        return rows.group_by(keys).agg(people).with_columns(pl.col(PEOPLE).cast(pl.Float64).alias(WEIGHT))
    return rows.with_columns(pl.Series(WEIGHT, weights)).group_by(keys).agg(people, pl.col(WEIGHT).sum())


def exact_counts(column: pl.Series, codes: Integers, labels: pl.Series, weights: Floats | None) -> ValueCounts:
    """Return the counts of all values, however many there are."""
    return ValueCounts(_named(_counted(column, codes, weights), labels))


def _ranges(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges by group of rows, each of which counts for some people; text has no smallest or largest."""
    name, dtype = frame.columns[1], frame.dtypes[1]
    values, is_infinite, is_whole = pl.lit(None, dtype=pl.Float64), pl.lit(value=False), pl.lit(value=True)
    if dtype.is_numeric() or dtype.is_temporal():
        values = pl.col(name).to_physical()
    if dtype.is_float():
        is_infinite = values.is_infinite().fill_null(value=False)
        values = pl.when(values.is_finite()).then(values)
        is_whole = (values == values.floor()).all()
    return frame.group_by(GROUP).agg(
        values.min().cast(pl.Float64).alias("smallest"),
        values.max().cast(pl.Float64).alias("largest"),
        is_whole.alias("is_whole"),
        pl.col(PEOPLE).sum(),
        (pl.col(PEOPLE) * pl.col(name).is_null()).sum().alias("missing"),
        (pl.col(PEOPLE) * is_infinite).sum().alias("infinite"),
    )
