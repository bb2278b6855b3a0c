"""The optional columns of rows: how each is read from a batch, stored in the sample, taken and summed.

Each is an entry of `ROW_COLUMNS`, and its values are in `SampledRows.columns` under its name. Code that reads batches,
or samples, takes or sums rows, iterates over these entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from tiltlens._estimators.error_rates import UNKNOWN as OUTCOME_MISSING
from tiltlens._estimators.influence import Integers
from tiltlens._rows.groups import (
    NO_GROUP,
    encode_periods,
    factorize_groups,
    numbers_of,
    observed_costs,
    read_periods,
    sort_periods,
)
from tiltlens._rows.roles import CLUSTER, ColumnRoles
from tiltlens._sources.arrays import Hashes, row_hashes
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats

Labels = tuple[str, ...]
ColumnValues: TypeAlias = Any  # an array, or a series of texts that is encoded when all are known


def take_values(values: ColumnValues, index: Integers) -> ColumnValues:
    """Return some values of an array, its rows where it has two dimensions, or of a Polars series."""
    return values.gather(index) if isinstance(values, pl.Series) else values[index]


@dataclass(frozen=True, slots=True)
class RowColumn:
    """An optional column of `SampledRows`: how it is read from a batch, stored in the sample, taken and summed."""

    # The key of its values in `SampledRows.columns`; and how the sample stores them
    name: str
    dtype: type[pl.DataType]
    role: str | None = None  # the field of `ColumnRoles` that requests it; None if it is derived from other columns
    # Takes the roles and the rows of a batch, and returns a series or an array. None where `read_batch` makes it,
    # because it decides which rows are kept, and where `select_rows` does, from what was sampled.
    read: Callable[[ColumnRoles, pl.DataFrame], ColumnValues] | None = None
    # Sorts the texts that occur in all batches: they become the labels of its codes
    collect: Callable[[Iterable[str]], Labels] | None = None
    # Takes texts and labels, and returns codes. The labels are the compared groups where none are collected.
    encode: Callable[[pl.Series, Labels], Integers] | None = None
    by_group: bool = False  # whether it has one value for each group, (n, groups)
    # Takes the values and the codes of two groups, and returns the values for these two
    of_groups: Callable[[ColumnValues, list[int]], ColumnValues] | None = None
    # Whether sums over all rows need it; and, if the score is summed by its codes, their number given the labels
    is_summed: bool = False
    count_codes: Callable[[Labels], int] | None = None

    @property
    def stored(self) -> str:
        """Its name in the sample's frame, where no column of a table begins with a NUL."""
        return f"\0{self.name}"

    def store(self, values: ColumnValues, groups: Labels) -> list[pl.Series]:
        """Return the columns of the sample's frame."""
        if not self.by_group:
            return [pl.Series(self.stored, values, self.dtype)]
        return [
            pl.Series(f"{self.stored} {group}", part, self.dtype) for group, part in zip(groups, values.T, strict=True)
        ]

    def gather(self, frame: pl.DataFrame, groups: Labels, labels: Labels) -> ColumnValues:
        """Return the values from the sample's frame, texts as codes."""
        if self.by_group:
            return frame.select(f"{self.stored} {group}" for group in groups).to_numpy()
        values = frame[self.stored]
        return values.to_numpy() if self.encode is None else self.encode(values, labels)


def read_columns(roles: ColumnRoles, table: pl.DataFrame, for_sums: bool) -> dict[str, ColumnValues]:
    """Return the optional columns of the rows of a batch; `for_sums` only those that sums need."""
    return {
        column.name: column.read(roles, table)
        for column in ROW_COLUMNS
        if column.read is not None and (column.is_summed or not for_sums) and getattr(roles, str(column.role))
    }


def collect_labels(columns: Mapping[str, ColumnValues]) -> dict[str, Labels]:
    """Return the labels of each column of a batch whose texts are collected."""
    return {
        column.name: column.collect(columns[column.name].drop_nulls().unique())
        for column in ROW_COLUMNS
        if column.collect is not None and column.name in columns
    }


def join_labels(labels: Mapping[str, Labels], others: Mapping[str, Labels]) -> dict[str, Labels]:
    """Return the labels of two parts of the data."""
    return {
        column.name: column.collect((*labels[column.name], *others[column.name]))
        for column in ROW_COLUMNS
        if column.collect is not None and column.name in labels
    }


def store_columns(columns: Mapping[str, ColumnValues], groups: Labels, index: Integers | None) -> list[pl.Series]:
    """Return the optional columns of some rows of a batch, or of all, as columns of the sample's frame."""
    return [
        series
        for column in ROW_COLUMNS
        if column.name in columns
        for series in column.store(
            columns[column.name] if index is None else take_values(columns[column.name], index), groups
        )
    ]


def gather_columns(
    frame: pl.DataFrame, roles: ColumnRoles, groups: Labels, labels: Mapping[str, Labels]
) -> dict[str, ColumnValues]:
    """Return the optional columns from the frame of a sample."""
    return {
        column.name: column.gather(frame, groups, labels.get(column.name, groups))
        for column in ROW_COLUMNS
        if column.role is not None and getattr(roles, column.role)
    }


def encode_columns(columns: Mapping[str, ColumnValues], labels: Mapping[str, Labels]) -> dict[str, ColumnValues]:
    """Return the columns of a batch, with codes where texts have labels."""
    encoded = {
        column.name: column.encode(columns[column.name], labels[column.name])
        for column in ROW_COLUMNS
        if column.encode is not None and column.name in labels and column.name in columns
    }
    return {**columns, **encoded}


def narrow_columns(columns: Mapping[str, ColumnValues], codes: list[int]) -> dict[str, ColumnValues]:
    """Return the columns of rows with the codes of two groups, where columns by group are reduced to these two."""
    narrowed = {
        column.name: column.of_groups(columns[column.name], codes)
        for column in ROW_COLUMNS
        if column.of_groups is not None and column.name in columns
    }
    return {**columns, **narrowed}


def count_codes(columns: Mapping[str, ColumnValues], labels: Mapping[str, Labels]) -> dict[str, int]:
    """Return the number of codes of each column by which scores are summed."""
    return {
        column.name: column.count_codes(labels.get(column.name, ()))
        for column in ROW_COLUMNS
        if column.count_codes is not None and column.name in columns
    }


def _read_log_odds(roles: ColumnRoles, table: pl.DataFrame) -> Floats:
    """Return log p/(1 − p), with an error of at most the rounding of 1, several times faster than scipy."""
    p = numbers_of("propensity", table[str(roles.propensity)])
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = 1.0 - p
        np.divide(p, odds, out=odds)
        return np.log(odds, out=odds)


def _read_clusters(roles: ColumnRoles, table: pl.DataFrame) -> Hashes:
    column = table[str(roles.clusters)]
    missing = column.null_count()
    if missing:
        raise DataError(
            f"`clusters` must be known for every row, got {missing} without one.",
            "give a row that belongs to nobody else a number of its own.",
        )
    return row_hashes({CLUSTER: column})


def _read_known_groups(roles: ColumnRoles, table: pl.DataFrame) -> pl.Series:
    name = str(roles.known_groups)
    codes, texts = factorize_groups(name, [table[name]])
    return pl.Series([*texts, None], dtype=pl.String).gather(codes % (len(texts) + 1))


def _encode_groups(texts: pl.Series, groups: Labels) -> Integers:
    codes = texts.replace_strict(list(groups), range(len(groups)), default=NO_GROUP, return_dtype=pl.Int64)
    return codes.to_numpy()


def _recode_groups(group: Integers, codes: list[int]) -> Integers:
    return np.select([group == code for code in codes], range(len(codes)), NO_GROUP)


ROW_COLUMNS = (
    RowColumn("log_odds", pl.Float64, "propensity", _read_log_odds, is_summed=True),
    RowColumn("cost", pl.Float64, "cost", lambda roles, table: observed_costs(table[str(roles.cost)])),
    RowColumn("y_true", pl.Int64, "label", is_summed=True, count_codes=lambda labels: OUTCOME_MISSING + 1),
    RowColumn(
        "period",
        pl.String,
        "periods",
        lambda roles, table: read_periods(table[str(roles.periods)]),
        collect=sort_periods,
        encode=encode_periods,
        is_summed=True,
        count_codes=lambda labels: len(labels) + 1,
    ),
    RowColumn("cluster", pl.UInt64, "clusters", _read_clusters),
    RowColumn("probabilities", pl.Float64, "soft", by_group=True, of_groups=lambda values, codes: values[:, codes]),
    RowColumn(
        "known_group", pl.String, "known_groups", _read_known_groups, encode=_encode_groups, of_groups=_recode_groups
    ),
    RowColumn("sampling_weight", pl.Float64),
    RowColumn("row_number", pl.Int64),
    RowColumn("row_key", pl.UInt64),
)
