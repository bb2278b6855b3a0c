"""The first pass: who is there, which values the features take, and a sample of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiltmeter.streams.reading import Question, Reading, reading

MOST_COUNTED = 32_768  # distinct values of a feature that are counted one by one
SAMPLED = 20_000  # distinct rows, those of the smallest hashes
GROUP, WEIGHT, LOG_ODDS, HASH, PEOPLE = "(group)", "(weight)", "(log-odds)", "(hash)", "(people)"


@dataclass(frozen=True, slots=True, eq=False)
class ValueCounts:
    """How often each value of a feature occurs in each group; `frame` is None where there are too many values.

    `ranges` has one row per group: smallest, largest, whether all numbers are whole, people, missing, infinite.
    """

    frame: pl.DataFrame | None
    ranges: pl.DataFrame

    def __add__(self, other: ValueCounts) -> ValueCounts:
        frame = None
        if self.frame is not None and other.frame is not None:
            keys = self.frame.columns[:2]
            frame = pl.concat([self.frame, other.frame]).group_by(keys).sum()
            frame = frame if frame.height <= MOST_COUNTED else None
        ranges = pl.concat([self.ranges, other.ranges]).group_by(GROUP).agg(*RANGES)
        return ValueCounts(frame, ranges)


RANGES = (
    pl.col("smallest").min(),
    pl.col("largest").max(),
    pl.col("is_whole").all(),
    pl.col(PEOPLE, "missing", "infinite").sum(),
)


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
    others = [name for name in frame.columns if name not in (HASH, PEOPLE)]
    distinct = frame.group_by(HASH).agg(pl.col(PEOPLE).sum(), pl.col(others).first()).sort(HASH)
    return RowSample(distinct.head(SAMPLED).select(frame.columns), is_complete and distinct.height <= SAMPLED)


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What the first pass finds, added with `+`.

    Attributes
    ----------
    read, left_out, unknown
        Rows read; left out for which reason; of unknown group.
    groups
        One row per group: people, weight, weighted sums of the scores, extremes of log-odds and scores, and how many
        have a membership that is not between 0 and 1.
    values
        Of each feature.
    sample
        Some rows.
    is_decisions
        Whether every score is 0 or 1.
    found, seen
        Whether each `given` value occurs, and some values that do.
    fingerprint
        Σ of hashes of all rows that count, modulo 2^64: the same rows in any order have the same.
    """

    read: int
    left_out: dict[str, int]
    unknown: int
    groups: pl.DataFrame
    values: dict[str, ValueCounts]
    sample: RowSample
    is_decisions: bool
    outcomes: int
    favourable: int
    labels: tuple[str, ...]
    found: dict[str, bool]
    seen: dict[str, tuple[Any, ...]]
    fingerprint: int

    def __add__(self, other: Survey) -> Survey:
        return Survey(
            self.read + other.read,
            {reason: count + other.left_out[reason] for reason, count in self.left_out.items()},
            self.unknown + other.unknown,
            pl.concat([self.groups, other.groups]).group_by(GROUP).agg(*_group_sums(self.groups.columns)),
            {name: one + other.values[name] for name, one in self.values.items()},
            self.sample + other.sample,
            self.is_decisions and other.is_decisions,
            self.outcomes,
            self.favourable,
            self.labels,
            {column: one or other.found[column] for column, one in self.found.items()},
            {column: tuple(sorted({*one, *other.seen[column]}))[:30] for column, one in self.seen.items()},
            (self.fingerprint + other.fingerprint) % 2**64,
        )


def _group_sums(columns: Sequence[str]) -> list[pl.Expr]:
    extremes = [pl.col(name).min() for name in columns if name.startswith("least")]
    extremes += [pl.col(name).max() for name in columns if name.startswith("most")]
    return [pl.col(n).sum() for n in columns if n != GROUP and not n.startswith(("least", "most"))] + extremes


def surveyed(question: Question, table: pl.DataFrame) -> Survey:
    """Return what one batch adds to the survey."""
    found = reading(question, table)
    known = found.group >= 0
    labels = pl.Series(GROUP, found.labels, dtype=pl.String)
    group = (
        labels.gather(pl.Series(np.maximum(found.group, 0)).filter(known).cast(pl.UInt32))
        if labels.len()
        else (labels.clear())
    )
    rows = (
        found.table.select(question.features)
        .filter(known)
        .with_columns(group.alias(GROUP), pl.Series(WEIGHT, found.weights[known]))
    )
    scores = np.atleast_2d(found.scores[known].T)
    sample, fingerprint = _sample(rows, found.log_odds[known], scores)
    return Survey(
        read=table.height,
        left_out=found.left_out,
        unknown=int((~known).sum()),
        groups=_groups(rows, found.log_odds[known], scores),
        values=_all_counts(rows, question.features),
        sample=sample,
        is_decisions=found.channel.kind == "decisions",
        outcomes=found.channel.outcomes,
        favourable=found.channel.favourable,
        labels=found.channel.labels,
        found=_found(question.given, table, found),
        seen={column: tuple(table[column].drop_nulls().unique().sort().head(30)) for column in question.given},
        fingerprint=fingerprint,
    )


def _found(given: Mapping[str, Any], table: pl.DataFrame, found: Reading) -> dict[str, bool]:
    left = {column: found.left_out[f"not_given_{column}"] for column in given}
    return {column: count < table.height for column, count in left.items()}


def _groups(rows: pl.DataFrame, log_odds: Any, scores: Any) -> pl.DataFrame:
    finite = np.isfinite(log_odds)
    weights = rows[WEIGHT].to_numpy()
    frame = rows.select(GROUP, WEIGHT).with_columns(
        pl.lit(1, dtype=pl.Int64).alias(PEOPLE),
        pl.Series("outside", ~finite).cast(pl.Int64),
        pl.Series("log_odds", np.where(finite, log_odds, 0.0) * weights),
        pl.col(WEIGHT).alias("least_weight"),
        pl.col(WEIGHT).alias("most_weight"),
        pl.Series("least_log_odds", np.where(finite, log_odds, np.inf)),
        pl.Series("most_log_odds", np.where(finite, log_odds, -np.inf)),
        *(pl.Series(f"score {y}", column * weights) for y, column in enumerate(scores)),
        *(pl.Series(f"least_score {y}", column) for y, column in enumerate(scores)),
        *(pl.Series(f"most_score {y}", column) for y, column in enumerate(scores)),
    )
    return frame.group_by(GROUP).agg(*_group_sums(frame.columns))


def _all_counts(rows: pl.DataFrame, names: Sequence[str]) -> dict[str, ValueCounts]:
    """Return the value counts of every feature, their ranges in one pass over the batch."""
    wanted = [expression for name in names for expression in _ranges(name, rows.schema[name])]
    ranges = rows.group_by(GROUP).agg(pl.len().cast(pl.Int64).alias(PEOPLE), *wanted)

    def of(name: str) -> pl.DataFrame:
        kinds = ("smallest", "largest", "is_whole", "missing", "infinite")
        found = ranges.select(GROUP, PEOPLE, *(pl.col(f"{kind} {name}").alias(kind) for kind in kinds))
        return found.group_by(GROUP).agg(*RANGES)  # as sums have them

    return {name: _value_counts(rows, name, of(name)) for name in names}


def _value_counts(rows: pl.DataFrame, name: str, ranges: pl.DataFrame) -> ValueCounts:
    if rows[name].head(2 * MOST_COUNTED).n_unique() > MOST_COUNTED:
        return ValueCounts(None, ranges)
    frame = rows.group_by(GROUP, name).agg(pl.len().cast(pl.Int64).alias(PEOPLE), pl.col(WEIGHT).sum())
    return ValueCounts(frame if frame.height <= MOST_COUNTED else None, ranges)


def _ranges(name: str, dtype: pl.DataType) -> list[pl.Expr]:
    """Return what `RANGES` sums up; of text there is no smallest or largest."""
    values, nothing = pl.lit(None, dtype=pl.Float64), pl.lit(0, dtype=pl.Int64)
    infinite, is_whole = nothing, pl.lit(value=True)
    if dtype.is_numeric() or dtype.is_temporal():
        values = pl.col(name).to_physical()
    if dtype.is_float():
        infinite = values.is_infinite().sum().cast(pl.Int64)
        values = pl.when(values.is_finite()).then(values)
        is_whole = (values == values.floor()).all()
    return [
        values.min().cast(pl.Float64).alias(f"smallest {name}"),
        values.max().cast(pl.Float64).alias(f"largest {name}"),
        is_whole.alias(f"is_whole {name}"),
        pl.col(name).null_count().cast(pl.Int64).alias(f"missing {name}"),
        infinite.alias(f"infinite {name}"),
    ]


def _sample(rows: pl.DataFrame, log_odds: Any, scores: Any) -> tuple[RowSample, int]:
    """Return the rows with the smallest hashes, and the sum of all hashes."""
    columns = [pl.Series(f"score {y}", column) for y, column in enumerate(scores)]
    frame = rows.with_columns(pl.Series(LOG_ODDS, log_odds), *columns)
    frame = frame.with_columns(
        _hashes(frame.get_columns()).alias(HASH), pl.Series(PEOPLE, np.ones(frame.height, dtype=np.int64))
    )
    fingerprint = int(frame[HASH].sum())
    if frame.height > 2 * SAMPLED:
        distinct = frame[HASH].unique()
        if distinct.len() > SAMPLED:  # one more than are kept, so that what is left out leaves a trace
            frame = frame.filter(pl.col(HASH) <= distinct.bottom_k(SAMPLED + 1).max())
    return _smallest(frame, True), fingerprint


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
