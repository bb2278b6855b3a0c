"""How often each value of a feature occurs in each group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiltmeter.streams.cells import chunks
from tiltmeter.streams.sample import GROUP, PEOPLE, WEIGHT
from tiltmeter.streams.texts import distinct_texts
from tiltmeter.theory.checks import Floats
from tiltmeter.theory.uncertainty import Integers

MOST_COUNTED = 32_768  # distinct values of a feature that are counted one by one
MOST_PLACES = 1 << 20  # of values in groups that are counted by their place
MOST_EXACT = 2.0**53  # whole numbers that a float can tell apart


@dataclass(frozen=True, slots=True, eq=False)
class ValueCounts:
    """How often each value of a feature occurs in each group, or, where there are too many values, their ranges."""

    frame: pl.DataFrame | None
    only_ranges: pl.DataFrame | None = None

    @property
    def ranges(self) -> pl.DataFrame:
        """One row per group: smallest, largest, whether all numbers are whole, people, missing, infinite."""
        return _ranges(self.frame) if self.only_ranges is None else self.only_ranges

    def __add__(self, other: ValueCounts) -> ValueCounts:
        if self.frame is not None and other.frame is not None:
            keys = self.frame.columns[:2]
            frame = pl.concat([self.frame, other.frame]).group_by(keys).sum()
            if frame.height <= MOST_COUNTED:
                return ValueCounts(frame)
        return ValueCounts(None, pl.concat([self.ranges, other.ranges]).group_by(GROUP).agg(*RANGES))


RANGES = (
    pl.col("smallest").min(),
    pl.col("largest").max(),
    pl.col("is_whole").all(),
    pl.col(PEOPLE, "missing", "infinite").sum(),
)


def value_counts(column: pl.Series, codes: Integers, labels: pl.Series, weights: Floats | None) -> ValueCounts:
    """Return the value counts of a feature; `codes` are of the groups, and `weights` None where all are 1."""
    frame = _by_place(column, codes, len(labels), weights)
    if frame is None:
        frame = _of_any(column, codes, weights)
    if frame is not None:
        return ValueCounts(_named(frame, labels))
    everyone = pl.DataFrame([pl.Series(GROUP, codes), column]).with_columns(pl.lit(1, pl.Int64).alias(PEOPLE))
    return ValueCounts(None, _named(_ranges(everyone), labels))


def _named(frame: pl.DataFrame, labels: pl.Series) -> pl.DataFrame:
    return frame.with_columns(labels.gather(frame[GROUP].cast(pl.UInt32)))


def _by_place(column: pl.Series, codes: Integers, groups: int, weights: Floats | None) -> pl.DataFrame | None:
    """Return the counts of texts, or of whole numbers that lie close together, by their places; None of others."""
    places_of = {pl.String: _text_places, pl.Enum: _level_places}.get(column.dtype.base_type(), _number_places)
    found = places_of(column)
    if found is None or (len(found[0]) + 1) * groups > MOST_PLACES:
        return None
    values, places = found
    keys = places * groups
    keys += codes
    counts = np.bincount(keys, minlength=(len(values) + 1) * groups)
    filled = np.flatnonzero(counts)
    if len(filled) > MOST_COUNTED:
        return None
    parts = {
        GROUP: filled % groups,
        column.name: pl.concat([values.clear(1), values]).gather(filled // groups),
        PEOPLE: counts[filled],
        WEIGHT: (counts if weights is None else np.bincount(keys, weights))[filled].astype(np.float64),
    }
    return pl.DataFrame(parts)


def _text_places(column: pl.Series) -> tuple[pl.Series, Integers] | None:
    """Return texts and the place of each entry among them, from 1 on, 0 if missing; None where they are too many."""
    if column.head(2 * MOST_COUNTED).n_unique() > MOST_COUNTED:
        return None
    return distinct_texts(column, first=1, missing=0)


def _level_places(column: pl.Series) -> tuple[pl.Series, Integers]:
    """Return declared levels, and the place of each entry among them, as of texts."""
    kind: Any = column.dtype
    places = column.to_physical().cast(pl.Int64) + 1
    return kind.categories.cast(kind), places.fill_null(0).to_numpy()


def _number_places(column: pl.Series) -> tuple[pl.Series, Integers] | None:
    """Return whole numbers that lie close together, and the place of each entry among them, as of texts."""
    dtype = column.dtype
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Date)):
        return None
    plain = column.cast(pl.Int64) if dtype in (pl.Boolean, pl.Date) else column
    ends: list[Any] = [plain.min() or 0, plain.max() or 0]
    low, high = ends
    if not (abs(low) < MOST_EXACT and high - low < MOST_COUNTED):
        return None
    numbers = (plain.fill_null(low) if column.null_count() else plain).to_numpy()
    places = np.empty(len(numbers), dtype=np.intp)
    for part in chunks(len(numbers)):
        places[part] = numbers[part]
        if dtype.is_float() and (places[part] != numbers[part]).any():
            return None
        places[part] -= int(low) - 1
    if column.null_count():
        places[column.is_null().to_numpy()] = 0
    return pl.Series(np.arange(int(low), int(high) + 1)).cast(dtype), places


def _of_any(column: pl.Series, codes: Integers, weights: Floats | None) -> pl.DataFrame | None:
    """Return the counts of any values; None where there are too many."""
    if column.head(2 * MOST_COUNTED).n_unique() > MOST_COUNTED:
        return None
    rows, keys = pl.DataFrame([pl.Series(GROUP, codes), column]), [GROUP, column.name]
    people = pl.len().cast(pl.Int64).alias(PEOPLE)
    if weights is None:
        frame = rows.group_by(keys).agg(people).with_columns(pl.col(PEOPLE).cast(pl.Float64).alias(WEIGHT))
    else:
        frame = rows.with_columns(pl.Series(WEIGHT, weights)).group_by(keys).agg(people, pl.col(WEIGHT).sum())
    return frame if frame.height <= MOST_COUNTED else None


def _ranges(frame: Any) -> pl.DataFrame:
    """Return the ranges by group of rows that each stand for so many people; text has no smallest or largest."""
    name, dtype = frame.columns[1], frame.dtypes[1]
    values, is_infinite, is_whole = pl.lit(None, dtype=pl.Float64), pl.lit(value=False), pl.lit(value=True)
    if dtype.is_numeric() or dtype.is_temporal():
        values = pl.col(name).to_physical()
    if dtype.is_float():
        is_infinite = values.is_infinite().fill_null(value=False)
        values = pl.when(values.is_finite()).then(values)
        is_whole = (values == values.floor()).all()
    found: pl.DataFrame = frame.group_by(GROUP).agg(
        values.min().cast(pl.Float64).alias("smallest"),
        values.max().cast(pl.Float64).alias("largest"),
        is_whole.alias("is_whole"),
        pl.col(PEOPLE).sum(),
        (pl.col(PEOPLE) * pl.col(name).is_null()).sum().alias("missing"),
        (pl.col(PEOPLE) * is_infinite).sum().alias("infinite"),
    )
    return found
