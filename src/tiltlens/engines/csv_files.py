"""CSV files as one table: what stands for a missing value, and of which kind a column is by all its rows.

Dates are recognised, fields are separated by commas, and the text is UTF-8.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from tiltlens.engines.messages import checked_names, first_line, shown
from tiltlens.errors import DataError
from tiltlens.limits import MOSTLY_NUMBERS, SUPPRESSED_BELOW

MISSING_TEXTS = ("", "?", "-", ".", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null")
UNREADABLE = (pl.exceptions.PolarsError, UnicodeDecodeError, csv.Error, OSError)


@dataclass(frozen=True, slots=True, eq=False)
class CsvTable:
    """CSV files as one table: numbers with one word among them, in any row of any file, are text.

    Attributes
    ----------
    kinds
        Of the columns of each file.
    padded, mostly_numbers
        Columns that are read as text but hold numbers, with spaces or a + before them; and those that are text because
        of a few values.
    index
        Columns without a name that count the rows, as pandas saves an index; they are left out.
    """

    files: Sequence[Path]
    na_values: Sequence[str]
    kinds: list[dict[str, Any]]
    padded: list[str]
    mostly_numbers: list[str]
    index: list[str]

    def as_texts(self, columns: Collection[str]) -> CsvTable:
        """Return the table with some columns as they are written: "007" is no 7."""
        kinds = [{name: pl.String if name in columns else kind for name, kind in file.items()} for file in self.kinds]
        return replace(self, kinds=kinds, padded=[name for name in self.padded if name not in columns])

    def scans(self) -> list[pl.LazyFrame]:
        """Return one lazy frame for each file."""
        scans = (_read_as(file, self.na_values, kinds) for file, kinds in zip(self.files, self.kinds, strict=True))
        numbers = cs.by_name(self.padded, require_all=False)
        return [scan.drop(self.index, strict=False).with_columns(_number(numbers)) for scan in scans]


def csv_table(files: Sequence[Path], na_values: Sequence[str]) -> CsvTable:
    """Return CSV files as one table."""
    found = [_csv_columns(file, na_values) for file in files]
    kinds: dict[str, Any] = {}
    for file in found:
        for name, kind in file.kinds.items():
            kinds[name] = _common_kind(kinds.get(name, kind), kind)
    known = {name: pl.String if kind == pl.Null else kind for name, kind in kinds.items()}
    numbers, values = (_total([file.counts[which] for file in found]) for which in (0, 1))
    texts = [name for name, kind in kinds.items() if kind == pl.String]
    return CsvTable(
        files,
        na_values,
        [{name: known[name] for name in file.kinds} for file in found],
        [name for name in texts if numbers[name] == values[name]],
        [name for name in texts if MOSTLY_NUMBERS * values[name] <= numbers[name] < values[name]],
        [name for name in kinds if all(name in file.index for file in found if name in file.kinds)],
    )


def _total(counts: Sequence[dict[str, int]]) -> Counter[str]:
    return sum(map(Counter, counts), Counter())


def csv_notes(table: CsvTable, scans: Sequence[pl.LazyFrame], columns: Sequence[str]) -> tuple[str, ...]:
    """Return what became of columns that their owner may not expect."""
    left_out = [f"the column without a name ({name}) is a saved index: left out" for name in table.index]
    return (*left_out, *(_text_note(name, scans) for name in table.mostly_numbers if name in columns))


def _text_note(name: str, scans: Sequence[pl.LazyFrame]) -> str:
    column = pl.col(name)
    strangers = column.filter(_number(column).is_null() & column.is_not_null())
    counts = (column.count().alias("known"), strangers.len().alias("count"), strangers.first().alias("first"))
    found = pl.concat(scan.select(counts) for scan in scans if name in scan.collect_schema()).collect()
    first = found["first"].drop_nulls()[0]
    known, count = found["known"].sum(), found["count"].sum()
    rows = f"{count:,}" if count >= SUPPRESSED_BELOW else f"fewer than {SUPPRESSED_BELOW}"
    return (
        f"{name} is read as text: no number in {rows} of {known:,} rows that have it, first {shown(first)}; "
        "what stands for a missing value is named by `na_values` (--na)"
    )


@dataclass(frozen=True, slots=True, eq=False)
class _CsvColumns:
    """What all rows of one CSV file say of its columns; `counts` are of numbers, and of known values."""

    kinds: dict[str, Any]
    counts: tuple[dict[str, int], dict[str, int]]
    index: list[str]


def _csv_columns(file: Path, na_values: Sequence[str]) -> _CsvColumns:
    """Return the columns of one CSV file, whose rows must have as many fields as the header."""
    try:
        names, unnamed = _header(file)
        schema = dict(_scanned(file, na_values, names).collect_schema())
        found = _counted(_read_as(file, na_values, schema), unnamed)
    except UNREADABLE as error:
        _check_fields(file)
        _check_dates(file, na_values, error)
        raise DataError(
            f"{shown(file.name)} must be a CSV file in UTF-8, got: {first_line(error)}",
            "look for an unclosed quotation mark, or save it as UTF-8.",
        ) from None
    rows = found["rows"]
    if rows == 0:
        raise DataError(f"{shown(file.name)} must have rows, got a header only.", "was it written completely?")
    known = {name: rows - found[f"gaps {name}"] for name in names}
    if known[names[-1]] < rows:  # Polars fills a row that ends too early; nothing else leaves that trace
        _check_fields(file)
    numbers = {name: found.get(f"numbers {name}", known[name] * kind.is_numeric()) for name, kind in schema.items()}
    return _CsvColumns(
        {name: kind if known[name] else pl.Null for name, kind in schema.items()},
        (numbers, known),
        [name for name in unnamed if found.get(f"index {name}")],
    )


def _scanned(file: Path, na_values: Sequence[str], names: Sequence[str], **options: Any) -> pl.LazyFrame:
    options = {"try_parse_dates": True, "infer_schema_length": None} | options
    return pl.scan_csv(file, null_values=[*MISSING_TEXTS, *na_values], new_columns=names, **options)


def _read_as(file: Path, na_values: Sequence[str], kinds: dict[str, Any]) -> pl.LazyFrame:
    return _scanned(file, na_values, list(kinds), schema_overrides=kinds, infer_schema_length=0)


def _counted(scan: pl.LazyFrame, unnamed: Sequence[str]) -> dict[str, Any]:
    """Return the rows, each column's gaps, each text's numbers, and whether a column without a name counts the rows.

    Of all columns: where Polars reads some only, it does not mind a field too many.
    """
    whole = [name for name, kind in scan.collect_schema().items() if name in unnamed and kind.is_integer()]
    counts = scan.select(
        pl.len().alias("rows"),
        pl.all().null_count().name.prefix("gaps "),
        _number(cs.string()).count().name.prefix("numbers "),
        (pl.col(whole).diff() == 1).all().name.prefix("index "),
    )
    return counts.collect(engine="streaming").row(0, named=True)


def _number(text: pl.Expr) -> pl.Expr:
    return text.str.strip_chars().cast(pl.Float64, strict=False)


def _common_kind(one: Any, other: Any) -> Any:
    """Return the kind that values of both kinds have: numbers together are floats, anything else together is text."""
    if one == other or other == pl.Null:
        return one
    if one == pl.Null:
        return other
    if one.is_integer() and other.is_integer():
        return pl.Int128
    return pl.Float64 if one.is_numeric() and other.is_numeric() else pl.String


def _header(file: Path) -> tuple[list[str], list[str]]:
    """Return the names of the columns, and which of them the header leaves empty, as pandas does for an index.

    A header that Polars would mend without a word is an error.
    """
    with file.open(newline="", encoding="utf-8-sig") as stream:
        names = next(csv.reader(stream), [])
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(
            f"the fields of {shown(file.name)} must be separated by commas, got the header {shown(names[0])}.",
            "write it with commas.",
        )
    unnamed = {place: f"column_{place + 1}" for place, name in enumerate(names) if not name}
    return checked_names([unnamed.get(place, name) for place, name in enumerate(names)]), list(unnamed.values())


def _check_dates(file: Path, na_values: Sequence[str], error: Exception) -> None:
    """Raise for dates of several forms: the error is then gone where dates are read as text."""
    try:
        _counted(_scanned(file, na_values, _header(file)[0], try_parse_dates=False), ())
    except UNREADABLE:
        return
    raise DataError(
        f"dates in a column of {shown(file.name)} must be written alike, got: {first_line(error)}",
        "write all of them like 2020-01-31.",
    ) from None


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
