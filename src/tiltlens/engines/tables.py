"""Any table as clean Polars columns: the same rows give the same frame, whichever engine held them.

A clean column is Boolean, Int64, Float64, String, Enum (a declared order of levels), Date or Datetime in UTC.
NaN, NaT, NA and None are all missing; infinite values stay, for the checks that know what the column is for.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from tiltlens.errors import DataError

SHOWN_CHARACTERS = 60
SHOWN_NAMES = 20
SAFE_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)  # none is too large for 64 bits
MICROSECONDS_PER_DAY = 86_400_000_000
EXACT_WHOLE = 2.0**53  # larger floats are printed as they are: their last digits mean nothing
KINDS_ACCEPTED = "a pandas or Polars frame, a pyarrow Table, a DuckDB relation or a dict of arrays"
MISSING_TEXTS = ["", "NA", "NaN"]  # of a CSV file; every other text is a value
SIGNATURES = {b"PAR1": "a Parquet file", b"PK\x03\x04": "a ZIP or Excel file", b"\x1f\x8b": "a gzip file"}
MISSING_KINDS = {"NoneType", "NAType", "NaTType"}

# The first match counts: True is an int to Python, and a datetime is a date.
OBJECT_KINDS: tuple[tuple[str, tuple[type, ...], Any], ...] = (
    ("bool", (bool, np.bool_), pl.Boolean),
    ("int", (int, np.integer), pl.Int64),
    ("float", (float, np.floating, Decimal), pl.Float64),
    ("str", (str,), pl.String),
    ("datetime", (datetime, np.datetime64), pl.Datetime("us")),
    ("date", (date,), pl.Date),
    ("timedelta", (timedelta, np.timedelta64), pl.Duration("us")),
)


def read_table(data: Any, needed: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the needed columns (default: all) of any supported table, clean, in the order asked for."""
    names = column_names(data)
    wanted = list(dict.fromkeys(names if needed is None else needed))
    check_columns("data", wanted, names)
    check_case(wanted, names)
    try:
        columns = _raw_columns(data, wanted)
    except DataError:
        raise
    except Exception as error:  # a lazy frame or a relation runs the user's query here, and anything may go wrong
        raise DataError(
            f"`data` must be readable, got {type(error).__name__}: {first_line(error)}",
            "run the query behind `data` on its own first.",
        ) from error
    if not columns or len(columns[0]) == 0:
        raise DataError("`data` must have rows, got an empty table.", "look at what was filtered out before.")
    return pl.DataFrame([clean_column(column) for column in columns])


def column_names(data: Any) -> list[str]:
    """Return the names of the columns, which must be distinct strings."""
    return checked_names(_native_names(data))


def checked_names(names: list[Any]) -> list[str]:
    """Return names of columns, which must be distinct strings."""
    if not names:
        raise DataError("`data` must have columns, got a table without any.", "look at what was selected before.")
    strangers = [name for name in names if not isinstance(name, str)]
    if strangers:
        raise DataError(
            f"column names must be text, got {shown(strangers[0])} ({type(strangers[0]).__name__}).",
            "rename the columns, for example data.columns = data.columns.map(str).",
        )
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(
                f"column names must be distinct, got {shown(name)} {names.count(name)} times.",
                "rename or drop the copies.",
            )
        seen.add(name)
    return names


def _native_names(data: Any) -> list[Any]:
    """Return names as the engine holds them, because narwhals refuses duplicates in words of its own."""
    if isinstance(data, Mapping):
        return list(data)
    if isinstance(data, pl.LazyFrame):
        try:
            return data.collect_schema().names()
        except Exception as error:  # the plan may read files that are gone, or name columns that never were
            raise DataError(
                f"`data` must be a lazy frame that can be collected, got {type(error).__name__}: {first_line(error)}",
                "collect it on its own first.",
            ) from error
    names = getattr(data, "column_names", None)
    if names is None:
        names = getattr(data, "columns", None)
    if names is None or callable(names) or isinstance(data, type):
        raise _not_a_table(data)
    return list(names)


def _not_a_table(data: Any) -> DataError:
    hint = "name the columns, for example {'age': array, 'score': array}."
    if isinstance(data, (str, bytes)) or hasattr(data, "__fspath__"):
        hint = "read the file first, for example polars.read_csv(path)."
    return DataError(f"`data` must be {KINDS_ACCEPTED}, got {type(data).__name__}.", hint)


def check_columns(argument: str, wanted: Iterable[str], names: Sequence[str]) -> None:
    """Raise for the first wanted column that the table does not have, with the nearest name that it has."""
    known = set(names)
    for name in wanted:
        if name not in known:
            rule = "must have the columns asked for, but has no" if argument == "data" else "must name columns, got"
            nearest = nearest_name(name, names)
            suggestion = f"did you mean {shown(nearest)}? " if nearest is not None else ""
            raise DataError(f"`{argument}` {rule} {shown(name)}.", f"{suggestion}the columns are {listed(names)}.")


def nearest_name(name: object, names: Sequence[str]) -> str | None:
    """Return the name that was probably meant, if one is close; letter case does not count."""
    folded = {candidate.casefold()[:200]: candidate for candidate in reversed(names)}
    close = get_close_matches(str(name).casefold()[:200], list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def check_case(wanted: Sequence[str], names: Sequence[str]) -> None:
    """Raise where a wanted column has a twin: engines disagree on whether "Age" and "age" are one name."""
    twins: dict[str, list[str]] = {}
    for name in names:
        twins.setdefault(name.casefold(), []).append(name)
    for name in wanted:
        if len(twins[name.casefold()]) > 1:
            raise DataError(
                f"column names must differ in more than letter case, got {listed(twins[name.casefold()])}.",
                "rename one of them.",
            )


def shown(value: object) -> str:
    """Return a value as a message may print it: quoted, and not longer than a line."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 2] + "…" + text[-1]


def listed(values: Sequence[object]) -> str:
    """Return values as a message may print them: the first few, then how many more."""
    text = ", ".join(shown(value) for value in values[:SHOWN_NAMES])
    return text if len(values) <= SHOWN_NAMES else f"{text} and {len(values) - SHOWN_NAMES} more"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, which is all that a message of ours repeats."""
    lines = str(error).strip().splitlines() or [""]
    return lines[0][:200]


def text_of(value: Any) -> str:
    """Return a value as people write it: 1.0 is "1", True is "True", midnight is only its date."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_WHOLE:
        return str(int(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix(" 00:00:00")
    return str(value)


def native_columns(data: Any, table: pl.DataFrame, names: Sequence[str]) -> Any:
    """Return the named columns as the kind of table the user gave.

    What is lazy gives the columns of `table`, read from it before: run twice, a query may change the order of rows.
    """
    if isinstance(data, Mapping):
        return {name: data[name] for name in names}
    frame = nw.from_native(data)
    return table.select(names) if isinstance(frame, nw.LazyFrame) else frame.select(*names).to_native()


def _raw_columns(data: Any, wanted: Sequence[str]) -> list[pl.Series]:
    """Return the wanted columns as Polars holds them, before any cleaning."""
    if isinstance(data, Mapping):
        columns = [_column_of_values(name, data[name]) for name in wanted]
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
        return [_pandas_column(name, native[name]) for name in wanted]
    _check_intervals(native, selected)
    frame = pl.DataFrame(native)  # by the Arrow stream, so that pyarrow is needed only where it is the engine
    orders = _declared_orders(native, selected)
    return [column.cast(orders.get(column.name, column.dtype)) for column in frame.get_columns()]


def _check_intervals(native: Any, selected: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> None:
    """Raise for spans of months and days, at which Polars panics instead of raising."""
    for name, dtype in selected.collect_schema().items():
        is_interval = selected.implementation.is_duckdb() and isinstance(dtype, nw.Duration)
        if selected.implementation.is_pyarrow():
            is_interval = str(native.schema.field(name).type) == "month_day_nano_interval"
        if is_interval:
            raise _unusable(name, "an interval of months and days")


def declared_orders(relation: Any) -> dict[str, pl.Enum]:
    """Return the levels of a relation's columns whose type declares their order."""
    selected = nw.from_native(relation)
    _check_intervals(relation, selected)
    return _declared_orders(relation, selected)


def _declared_orders(native: Any, selected: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> dict[str, pl.Enum]:
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
                f"the columns of `data` must be equally long, got {len(columns[0])} values in "
                f"{shown(columns[0].name)} and {len(column)} in {shown(column.name)}.",
                "every column has one value per row.",
            )


def column_of_values(argument: str, values: Any, rows: int) -> pl.Series:
    """Return an array, list or series passed beside the table as a clean column of its length."""
    column = clean_column(_column_of_values(argument, values))
    if len(column) != rows:
        raise DataError(
            f"`{argument}` must have one value per row, got {len(column)} values for {rows} rows.",
            "pass the array of the same rows, in the same order, or the name of a column.",
        )
    return column


def _column_of_values(name: str, values: Any) -> pl.Series:
    if isinstance(values, pl.Series):
        return values.alias(name)
    if (
        isinstance(values, (str, bytes, Mapping, Set))
        or not hasattr(values, "__len__")
        or getattr(values, "ndim", 1) == 0
    ):
        raise DataError(
            f"column {shown(name)} must hold one value per row, got {shown(values)}.", "repeat it for every row."
        )
    if isinstance(values, (list, tuple, range)):
        return _column_of_objects(name, list(values))
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        is_pandas = series.implementation.is_pandas_like()
        return _pandas_column(name, values) if is_pandas else pl.Series(name, values)
    return _column_of_array(name, values if isinstance(values, np.ma.MaskedArray) else np.asarray(values))


def _column_of_array(name: str, array: Any) -> pl.Series:
    if array.ndim != 1:
        raise DataError(
            f"column {shown(name)} must have one dimension, got shape {array.shape}.", "give each column its own name."
        )
    if array.dtype.kind == "O":
        return _column_of_objects(name, array.tolist())
    if array.dtype.kind in "Mm" and array.dtype != "datetime64[D]":  # Polars knows fewer units of time than numpy
        array = array.astype("datetime64[us]" if array.dtype.kind == "M" else "timedelta64[us]")
    mask = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    plain = np.ascontiguousarray(np.ma.getdata(array))
    return _masked(pl.Series(name, plain.astype(plain.dtype.newbyteorder("="), copy=False)), mask)


def _masked(column: pl.Series, mask: Any) -> pl.Series:
    """Return the column with missing values where the mask is true."""
    if mask is None or not mask.any():
        return column
    return pl.select(pl.when(~pl.Series(mask)).then(column).alias(column.name)).to_series()


def _column_of_objects(name: str, values: list[Any]) -> pl.Series:
    """Return Python objects of one kind as a column; what pandas or Python call missing is missing."""
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
            f"column {shown(name)} must hold values of one kind, got {' and '.join(sorted(names))}.",
            "convert it to one kind, for example all text, or leave it out with `features`.",
        )
    return _built(name, values, names.pop() if names else "str")


def _object_kind(column: str, kind: type) -> str:
    for name, parents, _ in OBJECT_KINDS:
        if issubclass(kind, parents):
            return name
    raise _unusable(column, kind.__name__)


def _built(name: str, values: list[Any], kind: str) -> pl.Series:
    """Return a column of one kind of Python object."""
    dtype = next(dtype for known, _, dtype in OBJECT_KINDS if known == kind)
    if kind == "float":  # Decimal and numpy numbers included
        return pl.Series(name, np.array(values, dtype=np.float64))
    try:
        return pl.Series(name, values, dtype=dtype)
    except (OverflowError, TypeError, pl.exceptions.PolarsError) as error:
        if kind == "int":  # too large: a hash or a key, whose every digit counts
            return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)
        raise DataError(
            f"column {shown(name)} must hold values of one kind, got {kind} values that do not go together: "
            f"{first_line(error)}",
            "convert it to one kind first.",
        ) from error


def _unusable(column: str, kind: str) -> DataError:
    return DataError(
        f"column {shown(column)} must hold numbers, text, booleans or dates, got {kind}.",
        "convert it, or leave it out with `features`.",
    )


def _pandas_column(name: str, series: Any) -> pl.Series:
    """Return a pandas column without pyarrow, which pandas users need not have."""
    if hasattr(series, "cat"):
        return _pandas_levels(name, series)
    dtype = nw.from_native(series, series_only=True).dtype
    mask = series.isna().to_numpy(dtype=bool)
    if isinstance(dtype, nw.Datetime):
        plain = series if dtype.time_zone is None else series.dt.tz_convert("UTC").dt.tz_localize(None)
        return _masked(pl.Series(name, plain.to_numpy().astype("datetime64[us]")), mask)
    if isinstance(dtype, nw.Duration):
        return _masked(pl.Series(name, series.to_numpy().astype("timedelta64[us]")), mask)
    if dtype.is_integer() or dtype.is_float() or isinstance(dtype, nw.Boolean):
        if isinstance(series.dtype, np.dtype):
            return _column_of_array(name, series.to_numpy())
        wide = np.bool_ if isinstance(dtype, nw.Boolean) else _widest(dtype)
        return _masked(pl.Series(name, series.to_numpy(dtype=wide, na_value=wide(0))), mask)
    objects = series.to_numpy(dtype=object)
    known: Any = np.where(mask, None, objects) if mask.any() else objects
    return _column_of_objects(name, known.tolist())


def _widest(dtype: Any) -> Any:
    if dtype.is_float():
        return np.float64
    return np.uint64 if isinstance(dtype, nw.UInt64) else np.int64


def _pandas_levels(name: str, series: Any) -> pl.Series:
    """Return a pandas categorical as text, or as an Enum where its order is declared."""
    levels = [text_of(level) for level in series.cat.categories]
    codes = pl.Series(name, series.cat.codes.to_numpy().astype(np.int64))
    codes = _masked(codes, codes.to_numpy() < 0)
    column = pl.Series(name, levels, dtype=pl.String).gather(codes.cast(pl.UInt32)).alias(name)
    is_order = series.cat.ordered and len(set(levels)) == len(levels)
    return column.cast(pl.Enum(levels)) if is_order else column


def clean_column(column: pl.Series) -> pl.Series:
    """Return the column as one of the clean kinds; a kind that has no such form is an error."""
    dtype = column.dtype
    if dtype in (pl.Boolean, pl.String, pl.Date, pl.Enum):
        return column
    if dtype.is_integer():
        return _clean_integers(column)
    if dtype.is_float() or dtype.is_decimal():
        numbers = column.cast(pl.Float64)
        return numbers.fill_nan(None) if _has_nan(numbers) else numbers
    if dtype in (pl.Categorical, pl.Null):
        return column.cast(pl.String)
    if isinstance(dtype, pl.Datetime):
        utc = column if dtype.time_zone is None else column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return utc.cast(pl.Datetime("us"))
    if isinstance(dtype, pl.Duration):
        return column.cast(pl.Duration("us")).to_physical() / MICROSECONDS_PER_DAY
    if dtype == pl.Object:
        return clean_column(_column_of_objects(column.name, column.to_list()))
    raise _unusable(column.name, str(dtype))


def depends_on_values(dtype: Any) -> bool:
    """Return whether the clean kind of a column depends on what is in it: parts of it may differ."""
    return dtype == pl.Object or (dtype.is_integer() and dtype not in SAFE_INTEGERS)


def _has_nan(numbers: pl.Series) -> bool:
    if numbers.null_count() or not len(numbers):
        return bool(numbers.is_nan().any())
    return bool(np.isnan(numbers.to_numpy().min()))  # as NaN is the least of any numbers it is among


def _clean_integers(column: pl.Series) -> pl.Series:
    try:
        return column.cast(pl.Int64)
    except pl.exceptions.InvalidOperationError:  # too large, as above
        return column.cast(pl.String)


def read_file(path: str | PathLike[str]) -> pl.DataFrame | pl.LazyFrame:
    """Return a CSV file as a frame, or a Parquet file as a lazy frame.

    In a CSV the texts "", "NA" and "NaN" are missing values, dates are recognised, fields are separated by commas,
    and the text is UTF-8. Kinds are inferred from all rows: a column of numbers with one word in it is text.
    """
    file = Path(path)
    check_file(file)
    return _read_parquet(file) if file.suffix.lower() == ".parquet" else _read_csv(file)


def check_file(file: Path) -> None:
    """Raise for a file that is not there, is empty, or is not what its name says."""
    if not file.is_file():
        raise _missing_file(file)
    if file.stat().st_size == 0:
        raise DataError(f"{shown(file.name)} must hold a table, got an empty file.", "was it written completely?")
    ending = file.suffix.lower()
    if ending == ".parquet":
        _check_parquet(file)
    elif ending == ".csv":
        _check_csv(file)
    else:
        raise DataError(
            f"{shown(file.name)} must end in .csv or .parquet, got {shown(ending)}.", "convert it, or rename it."
        )


def _missing_file(file: Path) -> DataError:
    given = repr(str(file))  # in full: the end of a long path says most
    if file.is_dir():
        return DataError(f"{given} must be a file, got a folder.", "name one .csv or .parquet file.")
    neighbours = sorted(entry.name for entry in file.parent.iterdir()) if file.parent.is_dir() else []
    nearest = nearest_name(file.name, neighbours)
    hint = (
        f"did you mean {shown(nearest)}?" if nearest is not None else f"it was looked for in {file.parent.resolve()}."
    )
    return DataError(f"{given} must be an existing file, got none of that name.", hint)


def _check_parquet(file: Path) -> None:
    with file.open("rb") as stream:
        start = stream.read(4)
    if start != b"PAR1":
        raise DataError(
            f"{shown(file.name)} must be a Parquet file, got {_looks_like(start)}.",
            "rename it to what it is, for example .csv, or write it again.",
        )


def _read_parquet(file: Path) -> pl.LazyFrame:
    frame = pl.scan_parquet(file)
    try:
        frame.collect_schema()
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"{shown(file.name)} must be a complete Parquet file, got: {first_line(error)}", "write it again."
        ) from None
    return frame


def _looks_like(start: bytes) -> str:
    for signature, kind in SIGNATURES.items():
        if start.startswith(signature):
            return kind
    return "something else" if b"\0" in start else "what looks like text"


def _check_csv(file: Path) -> None:
    with file.open("rb") as stream:
        start = stream.read(4096)
    if b"\0" in start or any(start.startswith(signature) for signature in SIGNATURES):
        raise DataError(
            f"{shown(file.name)} must be a CSV file, got {_looks_like(start)}.",
            "rename it to what it is, for example .parquet, or write it as CSV.",
        )


def _read_csv(file: Path) -> pl.DataFrame:
    try:
        _check_header(file)
        frame = pl.read_csv(file, null_values=MISSING_TEXTS, infer_schema_length=None, try_parse_dates=True)
    except (pl.exceptions.PolarsError, UnicodeDecodeError, csv.Error) as error:
        _check_fields(file)
        raise DataError(
            f"{shown(file.name)} must be a CSV file in UTF-8, got: {first_line(error)}",
            "look for an unclosed quotation mark, or save it as UTF-8.",
        ) from None
    if frame.height == 0:
        raise DataError(f"{shown(file.name)} must have rows, got a header only.", "was it written completely?")
    if frame.to_series(-1).null_count():  # Polars fills a row that ends too early; nothing else leaves that trace
        _check_fields(file)
    return frame


def _check_header(file: Path) -> None:
    """Raise for a header that Polars would mend without a word."""
    with file.open(newline="", encoding="utf-8-sig") as stream:
        names = next(csv.reader(stream), [])
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(
            f"the fields of {shown(file.name)} must be separated by commas, got the header {shown(names[0])}.",
            "write it with commas.",
        )
    checked_names(names)


def _check_fields(file: Path) -> None:
    """Raise for the first row that has more or fewer fields than the header, with its line."""
    with file.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        reader = csv.reader(stream)
        try:
            width = len(next(reader, []))
            broken = next((row for row in reader if row and len(row) != width), None)
        except csv.Error:  # a field beyond the reader's limit: there is no line to name
            return
        if broken is not None:
            raise DataError(
                f"every row of {shown(file.name)} must have {width} fields, "
                f"got {len(broken)} in line {reader.line_num}.",
                "look there for a comma that needs quotation marks, or for a row cut short.",
            )
