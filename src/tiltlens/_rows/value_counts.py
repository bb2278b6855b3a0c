"""Columns by their values: declarations about columns, and the counts of each value in each group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from os.path import commonprefix

import numpy as np
import polars as pl

from tiltlens._estimators.influence import Integers
from tiltlens._formats import text_of
from tiltlens._limits import MOST_COUNTED
from tiltlens._notes import Note
from tiltlens._sources.arrays import Factorized
from tiltlens.errors import DataError, check_columns, listed, shown, texts_of
from tiltlens.paper.checks import Floats

INPUT = "\0input "  # prefix of the names of columns in the form that the model takes


@dataclass(frozen=True, slots=True)
class Declared:
    """Columns to treat as categories whatever their values, and the columns of each block. Sent to every worker."""

    categorical: tuple[str, ...] = ()
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def sources(self, features: Sequence[str]) -> list[str]:
        """Return the columns of the data from which features are made, in the order of the features."""
        return [column for name in features for column in self.blocks.get(name, (name,))]

    def made_of(self, feature: str) -> tuple[str, ...]:
        """Return the columns from which a declared feature is made; empty for a feature that is used as read."""
        return (feature,) if feature in self.categorical else self.blocks.get(feature, ())

    def applied(self, table: pl.DataFrame, inputs: Sequence[str] = ()) -> pl.DataFrame:
        """Return a clean table with declared features as texts, where it has their columns, and a copy of `inputs`."""
        available = set(table.columns)
        made = [_category(table[name]) for name in self.categorical if name in available]
        made += [
            _joint(name, table.select(parts)) for name, parts in self.blocks.items() if available.issuperset(parts)
        ]
        return table.with_columns(*made, *(table[name].alias(f"{INPUT}{name}") for name in inputs))

    def of_features(self, features: Sequence[str]) -> tuple[list[str], Declared]:
        """Return the features with each block in place of its columns, and blocks of those columns that are listed."""
        kept = {name: parts if name in features else features for name, parts in self.blocks.items()}
        blocks = {
            name: tuple(column for column in parts if column in kept[name]) for name, parts in self.blocks.items()
        }
        owner = {column: name for name, parts in self.blocks.items() for column in parts}
        chosen = list(dict.fromkeys(owner.get(column, column) for column in features))
        check_columns("blocks", blocks, chosen, "feature")
        check_columns("categorical", self.categorical, [name for name in chosen if name not in blocks], "feature")
        return chosen, replace(self, blocks=blocks)


def declared_in(made_of: Mapping[str, Sequence[str]]) -> Declared:
    """Return the declarations, from the columns of which each feature is made (empty for a feature used as read)."""
    categorical = tuple(name for name, parts in made_of.items() if list(parts) == [name])
    blocks = {name: tuple(parts) for name, parts in made_of.items() if parts and list(parts) != [name]}
    return Declared(categorical, blocks)


def declared_of(categorical: object, blocks: object, names: Sequence[str], taken: Sequence[str]) -> Declared:
    """Return the declarations about a table's columns; patterns skip columns that are `taken` by other roles."""
    if blocks is not None and not isinstance(blocks, Mapping):
        raise DataError(f"`blocks` must be a dict, got {shown(blocks)}.", "for example {'region': ['region_*']}.")
    columns_of: dict[str, tuple[str, ...]] = {}
    for block, patterns in (blocks or {}).items():
        used = {*taken, *(column for parts in columns_of.values() for column in parts)}
        wanted = [str(pattern) for pattern in texts_of("blocks", patterns)]
        matched = {name for name in names for text in wanted if name == text or fnmatchcase(name, text)} - used
        if len(matched) < 2:
            got = f"{len(matched)} that match {listed(wanted)} and have no other role"
            raise DataError(
                f"`blocks` must have two or more columns for {shown(block)}, got {got}.",
                f"available columns: {listed(names)}.",
            )
        if block in names and block not in matched:
            raise DataError(f"`blocks` must have new names, but {shown(block)} is a column.", "rename the block.")
        columns_of[str(block)] = tuple(name for name in names if name in matched)
    return Declared(tuple(dict.fromkeys(texts_of("categorical", categorical))), columns_of)


def _category(column: pl.Series) -> pl.Series:
    """Return any values as texts, 1 and 1.0 as the same; booleans are categories as they are."""
    if column.dtype in (pl.Boolean, pl.String):
        return column
    distinct = column.drop_nulls().unique()
    texts = pl.Series([text_of(value) for value in distinct], dtype=pl.String)
    return column.replace_strict(distinct, texts, default=None, return_dtype=pl.String)


def _joint(name: str, table: pl.DataFrame) -> pl.Series:
    """Return the joint values of columns as texts; of columns of 0 and 1, the names of those that are 1.

    A text depends only on its row, so that every batch and every engine gives the same.
    """
    prefix, distinct = _prefix(table.columns), table.unique()
    names = [name.removeprefix(prefix) or name for name in table.columns]
    texts = [", ".join(filter(None, map(_part, names, row))) or "(none)" for row in distinct.iter_rows()]
    made = distinct.with_columns(pl.Series(INPUT, texts, dtype=pl.String))
    joined = table.join(made, on=table.columns, how="left", nulls_equal=True, maintain_order="left")
    is_missing = pl.all_horizontal(pl.col(table.columns).is_null())
    return joined.select(pl.when(~is_missing).then(pl.col(INPUT)).alias(name)).to_series()


def _part(name: str, value: object) -> str:
    if value in (0, 1):
        return name if value else ""
    return f"{name}={'(missing)' if value is None else text_of(value)}"


def _prefix(names: Sequence[str]) -> str:
    """Return the common prefix of names, up to its last character that is neither a letter nor a digit."""
    return re.sub(r"[^\W_]+$", "", commonprefix(list(names)))  # noqa: RUF071 - names, not paths


def one_hot_notes(table: pl.DataFrame) -> list[Note]:
    """Return a note on columns of 0 and 1 with a common prefix, of which exactly one is 1 in each row."""
    binary = {
        column.name: column.to_numpy() == 1
        for column in table.get_columns()
        if not column.null_count() and (column.dtype == pl.Boolean or column.dtype.is_numeric())
        if column.cast(pl.Float64).is_in([0.0, 1.0]).all()
    }
    prefixes, run, total = list[str](), list[str](), None
    for name in [*sorted(binary), ""]:  # the last ends the last run
        if not _prefix([*run, name]) or (total is not None and bool((total & binary[name]).any())):
            prefixes += [_prefix(run)] if len(run) > 1 and total is not None and total.all() else []
            run, total = [], None
        if name:
            run, total = [*run, name], binary[name] if total is None else total | binary[name]
    if not prefixes:
        return []
    example = f"--blocks {prefixes[0].rstrip('_=.:- ')}={prefixes[0]}*"
    columns = " or ".join(shown(f"{prefix}*") for prefix in prefixes)
    return [Note("one-hot columns", columns=columns, example=example)]


GROUP, PEOPLE, WEIGHT = "\0group", "\0people", "\0weight"  # columns beside those of the data: see `_rows.roles`
MOST_PLACES = 1 << 20  # pairs of value and group, up to which counts are made by index


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """How often each value of a feature occurs in each group, or, where there are too many values, their ranges."""

    parts: pl.DataFrame | None  # concatenated counts of batches: a value may have several lines
    only_ranges: pl.DataFrame | None = None  # if there are too many values
    is_summed: bool = False  # whether each value has one line in a group

    @cached_property
    def frame(self) -> pl.DataFrame | None:
        """One row for each value and group: people and their weight."""
        return self.parts if self.parts is None or self.is_summed else _summed(self.parts)

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
    return ValueCounts(_named(_counted(column, codes, weights), labels), is_summed=True)


def _ranges(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges by group from rows with numbers of people; text does not have a smallest or largest value."""
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
