"""Any table as clean Polars columns: the same rows give the same frame, whichever engine held them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.sources.columns import clean_column, pandas_column, raw_column, unusable
from tiltlens.sources.messages import check_case, check_columns, checked_names, shown, text_of, wrap_errors

QUERY = "run the query behind `data` on its own first."
NativeTable: TypeAlias = Any  # of pandas, pyarrow, DuckDB or Spark, which need not be installed; or a dict of arrays
AnyFrame: TypeAlias = nw.DataFrame[NativeTable] | nw.LazyFrame[NativeTable]
Record = dict[str, str | float | bool | None]  # a row of a table of results
KINDS_ACCEPTED = (
    "a pandas or Polars frame, a pyarrow Table, a DuckDB relation, a Spark frame, a dict of arrays or files"
)


def read_table(data: NativeTable, needed: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the needed columns (default: all) of any supported table, clean, in the order asked for."""
    names = column_names(data)
    wanted = list(dict.fromkeys(names if needed is None else needed))
    check_columns("data", wanted, names)
    check_case(wanted, names)
    with wrap_errors("`data` cannot be read", QUERY):  # a lazy frame or a relation runs the user's query here
        columns = _raw_columns(data, wanted)
    if not columns or len(columns[0]) == 0:
        raise empty_table()
    return pl.DataFrame({column.name: clean_column(column) for column in columns})


def empty_table() -> DataError:
    """Return the error for a table without rows."""
    return DataError("`data` has no rows.", "look at what was filtered out before.")


def column_names(data: object) -> list[str]:
    """Return the names of the columns, which must be distinct strings."""
    return checked_names(_native_names(data))


def _native_names(data: object) -> Sequence[object]:
    """Return names as the engine holds them, because narwhals refuses duplicates in words of its own."""
    if isinstance(data, Mapping):
        return list(data)
    if isinstance(data, pl.LazyFrame):
        with wrap_errors("`data` is a lazy frame that cannot be collected", "collect it on its own first."):
            return data.collect_schema().names()
    names = getattr(data, "column_names", None)
    if names is None:
        names = getattr(data, "columns", None)
    if names is None or callable(names) or isinstance(data, type):
        raise _not_a_table(data)
    return list(names)


def _not_a_table(data: object) -> DataError:
    hint = "name the columns, for example {'age': array, 'score': array}."
    if isinstance(data, (str, bytes)) or hasattr(data, "__fspath__"):
        hint = "read the file first, for example polars.read_csv(path)."
    return DataError(f"`data` must be {KINDS_ACCEPTED}, got {type(data).__name__}.", hint)


def native_columns(data: NativeTable, table: pl.DataFrame, names: Sequence[str]) -> NativeTable:
    """Return the named columns as the kind of table the user gave.

    What is lazy gives the columns of `table`, read from it before: run twice, a query may change the order of rows.
    """
    if isinstance(data, Mapping):
        return {name: data[name] for name in names}
    frame = nw.from_native(data)
    return table.select(names) if isinstance(frame, nw.LazyFrame) else frame.select(*names).to_native()


def taken_rows(table: NativeTable, index: NDArray[np.integer]) -> NativeTable:
    """Return some rows of a table in memory, as the same kind of table; an index of pandas starts anew."""
    if isinstance(table, Mapping):
        return {
            name: values[index] if isinstance(values, pl.Series) else np.asarray(values)[index]
            for name, values in table.items()
        }
    return nw.maybe_reset_index(nw.from_native(table, eager_only=True)[index]).to_native()


def with_columns_of(table: NativeTable, other: NativeTable, names: Sequence[str]) -> NativeTable:
    """Return a table in memory whose columns of these names are another's, as long and of the same kind."""
    if isinstance(table, Mapping):
        return {**table, **{name: other[name] for name in names}}
    frame, others = (nw.from_native(native, eager_only=True) for native in (table, other))
    return frame.with_columns(*(others[name] for name in names)).to_native()


def _raw_columns(data: NativeTable, wanted: Sequence[str]) -> list[pl.Series]:
    """Return the wanted columns as Polars holds them, before any cleaning."""
    if isinstance(data, Mapping):
        columns = [raw_column(name, data[name]) for name in wanted]
        _check_lengths(columns)
        return columns
    if isinstance(data, pl.LazyFrame):
        return data.select(wanted).collect().get_columns()
    try:
        selected = nw.from_native(data).select(*wanted)
    except TypeError:
        raise _not_a_table(data) from None
    native = selected.to_native()
    if selected.implementation.is_pandas_like():
        return [pandas_column(name, native[name]) for name in wanted]
    _check_intervals(native, selected)
    frame = pl.DataFrame(native)  # by the Arrow stream, so that pyarrow is needed only where it is the engine
    orders = _declared_orders(native, selected)
    return [column.cast(orders.get(column.name, column.dtype)) for column in frame.get_columns()]


def _check_intervals(native: NativeTable, selected: AnyFrame) -> None:
    """Raise for spans of months and days, at which Polars panics instead of raising."""
    for name, dtype in selected.collect_schema().items():
        is_interval = selected.implementation.is_duckdb() and isinstance(dtype, nw.Duration)
        if selected.implementation.is_pyarrow():
            is_interval = str(native.schema.field(name).type) == "month_day_nano_interval"
        if is_interval:
            raise unusable(name, "an interval of months and days")


def declared_orders(relation: NativeTable) -> dict[str, pl.Enum]:
    """Return the levels of a relation's columns whose type declares their order."""
    selected = nw.from_native(relation)
    _check_intervals(relation, selected)
    return _declared_orders(relation, selected)


def _declared_orders(native: NativeTable, selected: AnyFrame) -> dict[str, pl.Enum]:
    """Return the levels of columns whose type declares their order, where the Arrow stream forgets it."""
    schema = selected.collect_schema()
    orders = {name: pl.Enum(list(dtype.categories)) for name, dtype in schema.items() if isinstance(dtype, nw.Enum)}
    if selected.implementation.is_pyarrow():
        for name in schema:
            if getattr(native.schema.field(name).type, "ordered", False):
                chunks = native[name].unify_dictionaries().chunks
                orders[name] = pl.Enum([text_of(level) for level in chunks[0].dictionary.to_pylist()] if chunks else [])
    return orders


def _check_lengths(columns: Sequence[pl.Series]) -> None:
    for column in columns[1:]:
        if len(column) != len(columns[0]):
            raise DataError(
                f"{shown(columns[0].name)} has {len(columns[0])} values, but {shown(column.name)} has {len(column)}.",
                "give every column of `data` one value per row.",
            )
