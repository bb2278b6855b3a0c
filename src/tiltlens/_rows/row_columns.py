"""The optional columns of rows: how each is read from a batch, encoded in the sample, taken and summed.

Each is an entry of `ROW_COLUMNS`, and its values are in `SampledRows.columns` under its name. Code that reads batches,
or samples, takes or sums rows, iterates over these entries.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
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
    """An optional column of `SampledRows`: how it is read from a batch, encoded in the sample, taken and summed."""

    # The key of its values in `SampledRows.columns`; and the field of `ColumnRoles` that requests it
    name: str
    role: str
    # Takes the roles and the rows of a batch, and returns a series or an array, which may have a column for each group.
    # None where `read_batch` makes it, because it decides which rows are kept.
    read: Callable[[ColumnRoles, pl.DataFrame], ColumnValues] | None = None
    # Sorts the texts that occur in all batches: they become the labels of its codes
    collect: Callable[[Iterable[str]], Labels] | None = None
    # Takes texts and labels, and returns codes. The labels are the compared groups where none are collected.
    encode: Callable[[pl.Series, Labels], Integers] | None = None
    # Takes the values and the codes of two groups, and returns the values for these two
    of_groups: Callable[[ColumnValues, list[int]], ColumnValues] | None = None
    # Whether sums over all rows need it; and, if the score is summed by its codes, their number given the labels
    is_summed: bool = False
    count_codes: Callable[[Labels], int] | None = None

    @property
    def stored(self) -> str:
        """Its name in the sample's frame, where no column of a table begins with a NUL."""
        return f"\0{self.name}"


def _functions(field: str, names: Container[str]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the named columns for which a field of their entry is a function."""
    entries = ((column.name, getattr(column, field)) for column in ROW_COLUMNS if column.name in names)
    return ((name, function) for name, function in entries if function is not None)


def read_columns(roles: ColumnRoles, table: pl.DataFrame, for_sums: bool) -> dict[str, ColumnValues]:
    """Return the optional columns of the rows of a batch; `for_sums` only those that sums need."""
    return {
        column.name: column.read(roles, table)
        for column in ROW_COLUMNS
        if column.read is not None and (column.is_summed or not for_sums) and getattr(roles, column.role)
    }


def collect_labels(columns: Mapping[str, ColumnValues]) -> dict[str, Labels]:
    """Return the labels of each column of a batch whose texts are collected."""
    return {name: collect(columns[name].drop_nulls().unique()) for name, collect in _functions("collect", columns)}


def join_labels(labels: Mapping[str, Labels], others: Mapping[str, Labels]) -> dict[str, Labels]:
    """Return the labels of two parts of the data."""
    return {name: collect((*labels[name], *others[name])) for name, collect in _functions("collect", labels)}


def store_columns(columns: Mapping[str, ColumnValues]) -> list[pl.Series]:
    """Return the optional columns of rows as columns of the sample's frame."""
    return [pl.Series(column.stored, columns[column.name]) for column in ROW_COLUMNS if column.name in columns]


def gather_columns(
    frame: pl.DataFrame, roles: ColumnRoles, groups: Labels, labels: Mapping[str, Labels]
) -> dict[str, ColumnValues]:
    """Return the optional columns from the frame of a sample, with codes of texts, for some groups."""

    def gather(column: RowColumn) -> ColumnValues:
        values = frame[column.stored]
        if column.encode is not None:
            return column.encode(values, labels.get(column.name, groups))
        is_by_group = isinstance(values.dtype, pl.Array)
        return values.to_numpy()[:, [roles.soft.index(group) for group in groups]] if is_by_group else values.to_numpy()

    return {column.name: gather(column) for column in ROW_COLUMNS if getattr(roles, column.role)}


def encode_columns(columns: Mapping[str, ColumnValues], labels: Mapping[str, Labels]) -> dict[str, ColumnValues]:
    """Return the columns of a batch, with codes where texts have labels."""
    return {**columns, **{name: encode(columns[name], labels[name]) for name, encode in _functions("encode", labels)}}


def narrow_columns(columns: Mapping[str, ColumnValues], codes: list[int]) -> dict[str, ColumnValues]:
    """Return the columns of rows with the codes of two groups, where columns by group are reduced to these two."""
    return {**columns, **{name: narrow(columns[name], codes) for name, narrow in _functions("of_groups", columns)}}


def count_codes(columns: Mapping[str, ColumnValues], labels: Mapping[str, Labels]) -> dict[str, int]:
    """Return the number of codes of each column by which scores are summed."""
    return {name: count(labels.get(name, ())) for name, count in _functions("count_codes", columns)}


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
    RowColumn("log_odds", "propensity", _read_log_odds, is_summed=True),
    RowColumn("cost", "cost", lambda roles, table: observed_costs(table[str(roles.cost)])),
    RowColumn("y_true", "label", is_summed=True, count_codes=lambda labels: OUTCOME_MISSING + 1),
    RowColumn(
        "period",
        "periods",
        lambda roles, table: read_periods(table[str(roles.periods)]),
        collect=sort_periods,
        encode=encode_periods,
        is_summed=True,
        count_codes=lambda labels: len(labels) + 1,
    ),
    RowColumn("cluster", "clusters", _read_clusters),
    RowColumn("probabilities", "soft", of_groups=lambda values, codes: values[:, codes]),
    RowColumn("known_group", "known_groups", _read_known_groups, encode=_encode_groups, of_groups=_recode_groups),
)
