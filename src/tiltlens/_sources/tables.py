"""Any values or table as clean Polars columns; and tables that are folded: batches reduced to sums, which are added.

A clean column is Boolean, Int64, Float64, String, Enum (with declared order), Date or Datetime in UTC. NaN, NaT, NA and
None are all missing; infinite values stay, because whether they are valid depends on the role of the column.

A batch is a frame of clean columns with row numbers; no rows are kept. One function folds the batches of all engines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._formats import text_of
from tiltlens._limits import BATCH_ROWS
from tiltlens._threads import map_in_order
from tiltlens.errors import DataError, check_case, check_columns, checked_names, first_line, quoted, wrap_errors

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SAFE_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)  # none is too large for 64 bits
ROW = "\0row"  # the column of row numbers; table columns cannot contain NUL
MICROSECONDS_PER_DAY = 86_400_000_000
ValuesLike: TypeAlias = Any  # one value per row: an array, a list, or a series of any engine
PandasSeries: TypeAlias = Any  # pandas need not be installed
D = TypeVar("D", bound="DataclassInstance")
V = TypeVar("V")
MISSING_KINDS = {"NoneType", "NAType", "NaTType"}

# The first match applies: to Python, True is an int and a datetime is a date.
OBJECT_KINDS: dict[str, tuple[tuple[type, ...], type[pl.DataType] | pl.DataType]] = {
    "bool": ((bool, np.bool_), pl.Boolean),
    "int": ((int, np.integer), pl.Int64),
    "float": ((float, np.floating, Decimal), pl.Float64),
    "str": ((str,), pl.String),
    "datetime": ((datetime, np.datetime64), pl.Datetime("us")),
    "date": ((date,), pl.Date),
    "timedelta": ((timedelta, np.timedelta64), pl.Duration("us")),
}


def column_of_values(argument: str, values: ValuesLike, rows: int) -> pl.Series:
    """Return an array, list or series passed in addition to the table, as a clean column of the same length."""
    if values is None or np.isscalar(values) or not hasattr(values, "__len__"):
        raise DataError(
            f"`{argument}` must name a column, or be an array as long as the data, got {quoted(values)}.",
            "pass the column's name as text, or one value for each row.",
        )
    column = clean_column(raw_column(argument, values))
    if len(column) != rows:
        raise DataError(
            f"`{argument}` must have one value per row, got {len(column):,} for {rows:,} rows.",
            "pass the array of the same rows, in the same order, or the name of a column.",
        )
    return column


def check_index(argument: str, values: ValuesLike, data: ValuesLike, of: str = "data") -> None:
    """Raise for a pandas object whose index differs from that of the data, since rows would be mixed up by position.

    If the table has no index, the index must be 0, 1, 2, …; arrays are matched by position.
    """
    mine, theirs = (table.index if hasattr(table, "iloc") else None for table in (values, data))
    if mine is None or isinstance(data, np.ndarray):
        return
    if theirs is None:
        if not np.array_equal(np.asarray(mine), np.arange(len(mine))):
            raise DataError(
                f"`{argument}` must have an index from 0 on, because the table has none, got one in another order, "
                f"{quoted(mine[0])} first.",
                "pass .to_numpy() where its rows are in the order of the data, or the name of a column.",
            )
        return
    if len(mine) != len(theirs) or mine.equals(theirs):
        return
    label, other = next((pair for pair in zip(mine, theirs, strict=True) if pair[0] != pair[1]), (mine[0], theirs[0]))
    raise DataError(
        f"`{argument}` must have the index of `{of}`, in its order, got {quoted(label)} for {quoted(other)}.",
        f"match the rows with .loc[{of}.index]; or pass .to_numpy() where they are in the order of the data.",
    )


def raw_column(name: str, values: ValuesLike) -> pl.Series:
    """Return an array, list or series as a Polars series, before cleaning."""
    if isinstance(values, pl.Series):
        return values.alias(name)
    if (
        isinstance(values, (str, bytes, Mapping, Set))
        or not hasattr(values, "__len__")
        or getattr(values, "ndim", 1) == 0
    ):
        raise DataError(
            f"column {quoted(name)} must hold one value per row, got {quoted(values)}.", "repeat it for every row."
        )
    if isinstance(values, (list, tuple, range)):
        return _column_of_objects(name, list(values))
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        is_pandas = series.implementation.is_pandas_like()
        return pandas_column(name, values) if is_pandas else pl.Series(name, values)
    return _column_of_array(name, values if isinstance(values, np.ma.MaskedArray) else np.asarray(values))


def _column_of_array(name: str, array: NDArray[np.generic]) -> pl.Series:
    if array.ndim != 1:
        raise DataError(
            f"column {quoted(name)} must have one dimension, got shape {array.shape}.", "give each column its own name."
        )
    if array.dtype.kind == "O":
        return _column_of_objects(name, array.tolist())
    if array.dtype.kind in "Mm" and array.dtype != "datetime64[D]":  # Polars supports fewer time units than numpy
        array = array.astype("datetime64[us]" if array.dtype.kind == "M" else "timedelta64[us]")
    mask = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    plain = np.ascontiguousarray(np.ma.getdata(array))
    return _masked(pl.Series(name, plain.astype(plain.dtype.newbyteorder("="), copy=False)), mask)


def _masked(column: pl.Series, mask: NDArray[np.bool_] | None) -> pl.Series:
    """Return the column with missing values where the mask is true."""
    if mask is None or not mask.any():
        return column
    return pl.select(pl.when(~pl.Series(mask)).then(column).alias(column.name)).to_series()


def _column_of_objects(name: str, values: list[object]) -> pl.Series:
    """Return Python objects of one kind as a column; missing values of pandas and Python become null."""
    types = set(map(type, values))
    gaps = {kind for kind in types if kind.__name__ in MISSING_KINDS}
    if gaps - {type(None)}:
        values = [None if type(value) in gaps else value for value in values]
    kinds = types - gaps
    if kinds - {float} and any(issubclass(kind, float) for kind in kinds):
        values = [None if isinstance(value, float) and value != value else value for value in values]
        kinds = set(map(type, values)) - {type(None)}
    names = {_object_kind(name, kind) for kind in kinds}
    if names == {"int", "float"}:
        names = {"float"}
    if len(names) > 1:
        raise DataError(
            f"column {quoted(name)} must hold values of one kind, got {' and '.join(sorted(names))}.",
            "convert it to one kind, for example all text, or leave it out with `exclude` (--exclude).",
        )
    return _built(name, values, names.pop() if names else "str")


def _object_kind(column: str, kind: type) -> str:
    for name, (parents, _) in OBJECT_KINDS.items():
        if issubclass(kind, parents):
            return name
    raise unusable(column, kind.__name__)


def _built(name: str, values: list[object], kind: str) -> pl.Series:
    """Return a column of one kind of Python object."""
    if kind == "float":  # Decimal and numpy numbers included
        return pl.Series(name, np.array(values, dtype=np.float64))
    try:
        return pl.Series(name, values, dtype=OBJECT_KINDS[kind][1])
    except (OverflowError, TypeError, pl.exceptions.PolarsError) as error:
        if kind == "int":  # too large for 64 bits: a hash or a key, of which every digit matters
            return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)
        raise DataError(
            f"column {quoted(name)} must hold values of one kind, got {kind} values that do not go together: "
            f"{first_line(error)}",
            "convert it to one kind first.",
        ) from error


def unusable(column: str, kind: str) -> DataError:
    """Return the error for a column of a kind that cannot be cleaned."""
    return DataError(
        f"Column {quoted(column)} must contain numbers, text, booleans or dates, got {kind}.",
        "convert it, or leave it out with `exclude` (--exclude).",
    )


def pandas_column(name: str, series: PandasSeries) -> pl.Series:
    """Return a pandas column without pyarrow, which pandas users need not have."""
    if hasattr(series, "cat"):
        return _pandas_levels(name, series)
    dtype = nw.from_native(series, series_only=True).dtype
    if isinstance(dtype, nw.String) and getattr(series.dtype, "storage", None) == "pyarrow":  # so it is installed
        return pl.Series(name, series).cast(pl.String)
    if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if isinstance(dtype, (nw.Datetime, nw.Duration)) or (isinstance(series.dtype, np.dtype) and series.dtype != object):
        return _column_of_array(name, series.to_numpy())
    mask = series.isna().to_numpy(dtype=bool)
    if dtype.is_numeric() or isinstance(dtype, nw.Boolean):
        kinds: dict[type, type[np.generic]] = {nw.Boolean: np.bool_, nw.UInt64: np.uint64}
        wide = kinds.get(type(dtype), np.float64 if dtype.is_float() else np.int64)
        return _masked(pl.Series(name, series.to_numpy(dtype=wide, na_value=wide(0))), mask)
    objects = series.to_numpy(dtype=object)
    return _column_of_objects(name, np.where(mask, np.asarray(None), objects).tolist())


def _pandas_levels(name: str, series: PandasSeries) -> pl.Series:
    """Return a pandas categorical as text, or as an Enum if its order is declared."""
    levels = [text_of(level) for level in series.cat.categories]
    codes = pl.Series(name, series.cat.codes.to_numpy().astype(np.int64))
    codes = _masked(codes, codes.to_numpy() < 0)
    column = pl.Series(name, levels, dtype=pl.String).gather(codes.cast(pl.UInt32)).alias(name)
    is_order = series.cat.ordered and len(set(levels)) == len(levels)
    return column.cast(pl.Enum(levels)) if is_order else column


def clean_column(column: pl.Series) -> pl.Series:
    """Return the column as one of the clean kinds; raise if its kind cannot be converted."""
    dtype = column.dtype
    if dtype in (pl.Boolean, pl.String, pl.Date, pl.Enum):
        return column
    if dtype.is_integer():
        numbers = column.cast(pl.Int64, strict=False)  # with one too large, as above
        return numbers if numbers.null_count() == column.null_count() else column.cast(pl.String)
    if dtype.is_float() or dtype.is_decimal():
        return column.cast(pl.Float64).fill_nan(None)
    if dtype in (pl.Categorical, pl.Null):
        return column.cast(pl.String)
    if isinstance(dtype, pl.Datetime):
        utc = column if dtype.time_zone is None else column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return utc.cast(pl.Datetime("us"))
    if isinstance(dtype, pl.Duration):
        return column.cast(pl.Duration("us")).to_physical() / MICROSECONDS_PER_DAY
    if dtype == pl.Object:
        return clean_column(_column_of_objects(column.name, column.to_list()))
    raise unusable(column.name, str(dtype))


def depends_on_values(dtype: pl.DataType) -> bool:
    """Return whether the clean kind of a column depends on its values, so that it may differ between batches."""
    return dtype == pl.Object or (dtype.is_integer() and dtype not in SAFE_INTEGERS)


QUERY = "run the query behind `data` on its own first."
NativeTable: TypeAlias = Any  # of pandas, pyarrow, DuckDB or Spark, which need not be installed; or a dict of arrays
AnyFrame: TypeAlias = nw.DataFrame[NativeTable] | nw.LazyFrame[NativeTable]
Record = dict[str, str | float | bool | None]  # a row of a table of results
KINDS_ACCEPTED = (
    "a pandas or Polars frame, a pyarrow Table, a DuckDB relation, a Spark frame, a dict of arrays or files"
)


def read_table(data: NativeTable, needed: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the needed columns (default: all) of any supported table, cleaned, in the given order."""
    names = column_names(data)
    wanted = checked_columns(names, names if needed is None else needed)
    with wrap_errors("`data` cannot be read", QUERY):  # a lazy frame or a relation runs the user's query here
        columns = _raw_columns(data, wanted)
    if not columns or len(columns[0]) == 0:
        raise empty_table()
    return pl.DataFrame({column.name: clean_column(column) for column in columns})


def checked_columns(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the distinct wanted columns; raise if one is missing, or differs from another by letter case only."""
    check_columns("data", wanted, names)
    check_case(wanted, names)
    return list(dict.fromkeys(wanted))


def empty_table() -> DataError:
    """Return the error for a table without rows."""
    return DataError("`data` has no rows.", "look at what was filtered out before.")


def column_names(data: object) -> list[str]:
    """Return the names of the columns as the engine has them, which must be distinct strings."""
    if isinstance(data, Mapping):
        return checked_names(list(data))
    if isinstance(data, pl.LazyFrame):
        with wrap_errors("`data` is a lazy frame that cannot be collected", "collect it on its own first."):
            return checked_names(data.collect_schema().names())
    names = getattr(data, "column_names", getattr(data, "columns", None))
    if names is None or callable(names) or isinstance(data, type):
        raise _not_a_table(data)
    return checked_names(list(names))


def _not_a_table(data: object) -> DataError:
    hint = "name the columns, for example {'age': array, 'score': array}."
    if isinstance(data, (str, bytes)) or hasattr(data, "__fspath__"):
        hint = "read the file first, for example polars.read_csv(path)."
    return DataError(f"`data` must be {KINDS_ACCEPTED}, got {type(data).__name__}.", hint)


def _raw_columns(data: NativeTable, wanted: Sequence[str]) -> list[pl.Series]:
    """Return the wanted columns as Polars series, before cleaning."""
    if isinstance(data, Mapping):
        return _of_equal_length([raw_column(name, data[name]) for name in wanted])
    if isinstance(data, pl.LazyFrame):
        return data.select(wanted).collect().get_columns()
    try:
        selected = nw.from_native(data).select(*wanted)
    except TypeError:
        raise _not_a_table(data) from None
    native = selected.to_native()
    if selected.implementation.is_pandas_like():
        return [pandas_column(name, native[name]) for name in wanted]
    orders = declared_orders(native)
    frame = pl.DataFrame(native)  # by the Arrow stream, so that pyarrow is needed only if it is the engine
    return [column.cast(orders.get(column.name, column.dtype)) for column in frame.get_columns()]


def declared_orders(native: NativeTable) -> dict[str, pl.Enum]:
    """Return the levels of columns with a declared order, which the Arrow stream drops.

    Raise for intervals of months and days, for which Polars panics instead of raising.
    """
    frame: AnyFrame = nw.from_native(native)
    is_pyarrow, orders = frame.implementation.is_pyarrow(), dict[str, pl.Enum]()
    for name, dtype in frame.collect_schema().items():
        kind = native.schema.field(name).type if is_pyarrow else None
        is_duration = frame.implementation.is_duckdb() and isinstance(dtype, nw.Duration)
        if is_duration or str(kind) == "month_day_nano_interval":
            raise unusable(name, "an interval of months and days")
        if isinstance(dtype, nw.Enum):
            orders[name] = pl.Enum(list(dtype.categories))
        elif getattr(kind, "ordered", False):
            chunks = native[name].unify_dictionaries().chunks
            orders[name] = pl.Enum([text_of(level) for level in chunks[0].dictionary.to_pylist()] if chunks else [])
    return orders


def _of_equal_length(columns: list[pl.Series]) -> list[pl.Series]:
    for column in columns[1:]:
        if len(column) != len(columns[0]):
            raise DataError(
                f"{quoted(columns[0].name)} has {len(columns[0])} values, but {quoted(column.name)} has {len(column)}.",
                "give every column of `data` one value per row.",
            )
    return columns


class Summable(Protocol):
    """The results of batches: sums that can be added."""

    def __add__(self, other: Self, /) -> Self:
        """Return the sum over both."""
        ...


def add_fields(first: D, second: D) -> D:
    """Return the sum of two records, field by field, and name by name in dicts.

    The metadata of a field may have another function than `+`: "join" for its values, "join_each" for those of a dict.
    """
    parts = ((field.metadata, getattr(first, field.name), getattr(second, field.name)) for field in fields(first))
    return type(first)(
        *(
            join_named(mine, theirs, metadata.get("join_each", add))
            if isinstance(mine, dict) and "join" not in metadata
            else metadata.get("join", add)(mine, theirs)
            for metadata, mine, theirs in parts
        )
    )


def join_named(values: Mapping[str, V], others: Mapping[str, V], join: Callable[[V, V], V] = add) -> dict[str, V]:
    """Return the values of two parts of the data, joined where both parts have one."""
    return {**values, **others, **{name: join(values[name], others[name]) for name in values if name in others}}


S = TypeVar("S", bound=Summable)
Step = Callable[[pl.DataFrame], S]


class Batches(Protocol):
    """A table that can be folded."""

    def names(self) -> list[str]:
        """Return the names of its columns."""
        ...

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """Return Σ step(batch) over the batches of some columns; they include `ROW` if rows have an order."""
        ...


class OrderedBatches(Batches, Protocol):
    """A table whose rows have an order and can be read in it without cleaning."""

    def frames(self, columns: Sequence[str], texts: Collection[str] = ()) -> Generator[pl.DataFrame]:
        """Yield the uncleaned rows of some columns; in CSV files, those in `texts` are read as written."""
        ...


def in_batches(frames: Generator[pl.DataFrame], step: Step[S]) -> Generator[S]:
    """Yield step(batch) over frames in order, joined to larger batches first; there is one thread per core.

    Generators are closed explicitly, because an interruption during garbage collection would be printed and ignored.
    """
    with (
        closing(frames),
        closing(_numbered(regrouped(frames))) as batches,
        closing(map_in_order(step, batches)) as parts,
    ):
        yield from parts


def folded(frames: Generator[pl.DataFrame], step: Step[S]) -> S:
    """Return Σ step(batch) over frames, added in the order of the batches."""
    with closing(in_batches(frames, lambda batch: step(clean_batch(batch)))) as parts:
        for first in parts:
            return reduce(add, parts, first)
    raise empty_table()


def regrouped(frames: Iterable[pl.DataFrame]) -> Generator[pl.DataFrame]:
    """Yield frames joined to batches of at least `BATCH_ROWS` rows, except for the last."""
    waiting: list[pl.DataFrame] = []
    rows = 0
    for frame in frames:
        if frame.height:
            waiting.append(frame)
            rows += frame.height
        if rows >= BATCH_ROWS:
            yield pl.concat(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pl.concat(waiting)


def _numbered(frames: Generator[pl.DataFrame]) -> Generator[pl.DataFrame]:
    """Yield the frames with a column of row numbers."""
    start = 0
    with closing(frames):
        for frame in frames:
            yield frame.with_columns(pl.int_range(start, start + frame.height, dtype=pl.Int64).alias(ROW))
            start += frame.height


def clean_batch(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a batch with clean columns."""
    return frame.with_columns(clean_column(column) for column in frame.get_columns())


@dataclass(frozen=True, slots=True, eq=False)
class FrameBatches:
    """A Polars frame, eager or lazy; a lazy one is run once per pass by the streaming engine."""

    frame: pl.DataFrame | pl.LazyFrame

    def names(self) -> list[str]:
        """See `Batches`."""
        return column_names(self.frame)

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """See `Batches`."""
        selected = self.frame.select(columns)
        if isinstance(selected, pl.DataFrame):
            selected = selected.with_columns(clean_column(part) for part in selected if depends_on_values(part.dtype))
            return folded(_slices(selected), step)
        kinds = pl.Schema(dict.fromkeys(too_large(selected, "`data`", QUERY), pl.String))
        return folded(read_in_batches(selected.cast(kinds), "`data`", QUERY), step)

    def frames(self, columns: Sequence[str], texts: Collection[str] = ()) -> Generator[pl.DataFrame]:
        """See `OrderedBatches`."""
        selected = self.frame.select(columns)
        return _slices(selected) if isinstance(selected, pl.DataFrame) else read_in_batches(selected, "`data`", QUERY)


def _slices(frame: pl.DataFrame) -> Generator[pl.DataFrame]:
    """Yield an even number of equal slices, so that two threads finish together."""
    pairs = max(-(-frame.height // (4 * BATCH_ROWS)), 1)
    rows = frame.height if frame.height <= BATCH_ROWS else -(-frame.height // (2 * pairs))
    yield from frame.iter_slices(max(rows, 1))


def read_in_batches(frame: pl.LazyFrame, name: str, hint: str = "write it again.") -> Generator[pl.DataFrame]:
    """Yield the rows of a lazy frame; an error message names the data that were read."""
    batches = frame.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True, lazy=True, engine="streaming")
    try:
        with wrap_errors(f"{name} cannot be read to its end", hint, kinds=(pl.exceptions.PolarsError, OSError)):
            yield from batches
    finally:
        stop = getattr(batches, "stop", None)  # otherwise the engine would continue to the last row
        if stop is not None:
            stop()


def too_large(frame: pl.LazyFrame, name: str, hint: str = "write it again.") -> list[str]:
    """Return the columns of whole numbers of which one is too large for 64 bits: in every batch they are texts."""
    unsure = [pl.col(column) for column, kind in frame.collect_schema().items() if depends_on_values(kind)]
    if not unsure:
        return []
    lost = [column.cast(pl.Int64, strict=False).null_count() > column.null_count() for column in unsure]
    overflow = pl.concat(read_in_batches(frame.select(lost), name, hint))
    return [column.name for column in overflow if column.item()]
