"""CSV files as one table: what stands for a missing value, and of which kind a column is by all its rows.

Dates are recognised. Of what the text is made, `csv_text` says.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tiltlens.errors import DataError
from tiltlens.limits import INFERRED_ROWS
from tiltlens.sources.csv_dialect import CsvText, csv_text, western_text, whole_zip
from tiltlens.sources.messages import checked_names, first_line, shown
from tiltlens.sources.numeric_strings import (
    LEADING_ZERO,
    Counts,
    NumberTexts,
    number_texts,
    points_in_doubt,
    text_counts,
)
from tiltlens.sources.read_options import ReadOptions

MISSING_TEXTS = ("", "?", "-", ".", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null")
UNREADABLE = (pl.exceptions.PolarsError, UnicodeDecodeError, csv.Error, OSError)
REMEDY = "what stands for a missing value is named by `na_values` of tl.read (--na-values)"


@dataclass(frozen=True, eq=False)
class CsvTable:
    """CSV files as one table: numbers with one word among them, in any row of any file, are text.

    Attributes
    ----------
    texts, kinds
        Of each file, and the kinds of its columns.
    numbers
        Columns that are read as text but hold numbers.
    index, unused
        Columns without a name that are left out: those that count the rows, as pandas saves an index, and those without
        any value, as a mark at the end of every line makes one.
    """

    texts: Sequence[CsvText]
    na_values: Sequence[str]
    kinds: list[dict[str, Any]]
    numbers: NumberTexts
    index: list[str]
    unused: list[str]

    def as_texts(self, columns: Collection[str]) -> CsvTable:
        """Return the table with some columns as they are written: "007" is no 7."""
        kinds = [{name: pl.String if name in columns else kind for name, kind in file.items()} for file in self.kinds]
        return replace(self, kinds=kinds, numbers=self.numbers.without(columns))

    @cached_property
    def scans(self) -> list[pl.LazyFrame]:
        """One lazy frame for each file."""
        scans = (_read_as(text, self.na_values, kinds) for text, kinds in zip(self.texts, self.kinds, strict=True))
        return [self.numbers.read(scan.drop(*self.index, *self.unused, strict=False)) for scan in scans]

    def check(self, columns: Sequence[str]) -> None:
        """Raise for a column that cannot be read for what it is."""
        self.numbers.check(columns)

    def notes(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what became of columns that their owner may not expect."""
        left_out = [f"the column without a name ({name}) is a saved index: left out" for name in self.index]
        encodings = [text.note for text in self.texts if text.note is not None]
        return (*encodings, *left_out, *self.numbers.notes(self.scans, columns, REMEDY))


def csv_table(files: Sequence[Path], options: ReadOptions) -> CsvTable:
    """Return CSV files as one table."""
    found = []
    for path in files:
        with whole_zip(path):
            found.append(_csv_columns(path, options))
    kinds: dict[str, Any] = {}
    for file in found:
        for name, kind in file.kinds.items():
            kinds[name] = _common_kind(kinds.get(name, kind), kind)
    known = {name: pl.String if kind == pl.Null else kind for name, kind in kinds.items()}
    by_file = [{name: known[name] for name in file.kinds} for file in found]
    texts = [file.text for file in found]
    left_out = [name for name in kinds if all(name in file.left_out for file in found if name in file.kinds)]
    return CsvTable(
        texts,
        options.na_values,
        by_file,
        _number_texts(texts, options.na_values, by_file, [file.counts for file in found], kinds),
        [name for name in left_out if kinds[name] != pl.Null],
        [name for name in left_out if kinds[name] == pl.Null],
    )


def _number_texts(
    texts: Sequence[CsvText],
    na_values: Sequence[str],
    by_file: Sequence[dict[str, Any]],
    counts: Sequence[tuple[Counts, Counts, Counts]],
    kinds: dict[str, Any],
) -> NumberTexts:
    """Return which columns of texts hold numbers; beside decimal commas, points of other columns are doubted."""
    named = [name for name, kind in kinds.items() if kind == pl.String]
    floats = [name for name, kind in kinds.items() if kind == pl.Float64]
    as_texts = [
        _read_as(text, na_values, own | {name: pl.String for name in floats if name in own})
        for text, own in zip(texts, by_file, strict=True)
    ]
    found = number_texts(as_texts, counts, named)
    points = points_in_doubt(as_texts, floats, found.with_commas)
    return replace(found, doubtful={**found.doubtful, **points})


@dataclass(frozen=True, slots=True, eq=False)
class _CsvColumns:
    """What all rows of one CSV file say of its columns.

    `counts` are of numbers among texts, of digits with marks, and of known values; `left_out` are columns without a
    name that are an index, or empty.
    """

    text: CsvText
    kinds: dict[str, Any]
    counts: tuple[Counts, Counts, Counts]
    left_out: list[str]


def _csv_columns(file: Path, options: ReadOptions) -> _CsvColumns:
    """Return the columns of one CSV file, which is looked at for another encoding where it is not UTF-8."""
    text = csv_text(file, options.encoding)
    try:
        return _columns_of(text, options.na_values)
    except UNREADABLE as error:
        other = None if options.encoding else western_text(file)
        if other is None:
            raise _unreadable(text, options.na_values, error) from None
    try:
        return _columns_of(other, options.na_values)
    except UNREADABLE as error:
        raise _unreadable(other, options.na_values, error) from None


def _columns_of(text: CsvText, na_values: Sequence[str]) -> _CsvColumns:
    """Return the columns of one CSV file, whose rows must have as many fields as the header."""
    names, unnamed = _header(text)
    schema, found = _kinds(text, na_values, names, unnamed)
    rows = found["rows"]
    if rows == 0:
        raise DataError(f"{shown(text.file.name)} must have rows, got a header only.", "was it written completely?")
    known = {name: rows - found[f"gaps {name}"] for name in names}
    if known[names[-1]] < rows:  # Polars fills a row that ends too early; nothing else leaves that trace
        _check_fields(text)
    numbers = {name: found.get(f"numbers {name}", known[name] * kind.is_numeric()) for name, kind in schema.items()}
    marked = {name: found.get(f"marked {name}") or 0 for name in names}
    return _CsvColumns(
        text,
        {name: kind if known[name] else pl.Null for name, kind in schema.items()},
        (numbers, marked, known),
        [name for name in unnamed if found.get(f"index {name}") or not known[name]],
    )


def _kinds(
    text: CsvText, na_values: Sequence[str], names: Sequence[str], unnamed: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the kinds of columns by all rows, and what was counted.

    A kind that the first rows have is that of all where all can be read as it: Polars looks for kinds far more slowly
    than it reads rows. What is unknown in the first rows tells nothing.
    """
    first = _scanned(text, na_values, names, infer_schema_length=INFERRED_ROWS)
    try:
        seen = first.head(INFERRED_ROWS).select(pl.all().count() > 0).collect()
        schema = dict(first.collect_schema())
        if all(seen.row(0)) and _is_plain(text, na_values, schema):
            return schema, _counted(_read_as(text, na_values, schema), unnamed)
    except pl.exceptions.PolarsError as error:
        if "utf-8" in str(error):
            raise
    schema = _with_codes(text, na_values, dict(_scanned(text, na_values, names).collect_schema()))
    return schema, _counted(_read_as(text, na_values, schema), unnamed)


def _with_codes(text: CsvText, na_values: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the kinds of columns with whole numbers as texts where some begin with a zero: 01 is a code."""
    whole = dict.fromkeys((name for name, kind in schema.items() if kind.is_integer()), pl.String)
    if not whole:
        return schema
    texts = _read_as(text, na_values, schema | whole)
    found = texts.select(pl.col(list(whole)).str.contains(LEADING_ZERO).any()).collect(engine="streaming")
    return schema | {name: kind for name, kind in whole.items() if found[name].item()}


def _is_plain(text: CsvText, na_values: Sequence[str], schema: dict[str, Any]) -> bool:
    """Return whether whole numbers and moments are written plainly in all rows: " 5", "+5", "05" and dates pass."""
    forms = {name: r"^-?(0|[1-9]\d*)$" for name, kind in schema.items() if kind.is_integer()}
    forms |= {name: ":" for name, kind in schema.items() if kind == pl.Datetime}
    texts = _read_as(text, na_values, schema | dict.fromkeys(forms, pl.String))
    found = texts.select(pl.col(name).str.contains(form).all() for name, form in forms.items())
    return all(found.collect(engine="streaming").row(0)) if forms else True


def _unreadable(text: CsvText, na_values: Sequence[str], error: Exception) -> DataError:
    if "utf-8" in str(error):
        return DataError(
            f"{shown(text.file.name)} must be written in UTF-8, got: {first_line(error)}",
            "leave out `encoding` of tl.read (--encoding) to have it found out, or name the one it was saved in.",
        )
    _check_fields(text)
    _check_dates(text, na_values, error)
    return DataError(
        f"{shown(text.file.name)} must be a CSV file, got: {first_line(error)}",
        "look for an unclosed quotation mark, or for a file cut short.",
    )


def _scanned(text: CsvText, na_values: Sequence[str], names: Sequence[str], **options: Any) -> pl.LazyFrame:
    options = {"try_parse_dates": True, "infer_schema_length": None} | options
    nulls = [*MISSING_TEXTS, *na_values]
    return pl.scan_csv(
        text.source, separator=text.separator, null_values=nulls, new_columns=names, glob=False, **options
    )


def _read_as(text: CsvText, na_values: Sequence[str], kinds: dict[str, Any]) -> pl.LazyFrame:
    return _scanned(text, na_values, list(kinds), schema_overrides=kinds, infer_schema_length=0)


def _counted(scan: pl.LazyFrame, unnamed: Sequence[str]) -> dict[str, Any]:
    """Return the rows, each column's gaps, each text's numbers, and whether a column without a name counts the rows.

    Of all columns: where Polars reads some only, it does not mind a field too many.
    """
    whole = [name for name, kind in scan.collect_schema().items() if name in unnamed and kind.is_integer()]
    counts = scan.select(
        pl.len().alias("rows"),
        pl.all().null_count().name.prefix("gaps "),
        *text_counts(),
        (pl.col(whole).diff() == 1).all().name.prefix("index "),
    )
    return counts.collect(engine="streaming").row(0, named=True)


def _common_kind(one: Any, other: Any) -> Any:
    """Return the kind that values of both kinds have: numbers together are floats, anything else together is text."""
    if one == other or other == pl.Null:
        return one
    if one == pl.Null:
        return other
    if one.is_integer() and other.is_integer():
        return pl.Int128
    return pl.Float64 if one.is_numeric() and other.is_numeric() else pl.String


def _header(text: CsvText) -> tuple[list[str], list[str]]:
    """Return the names of the columns, and which of them the header leaves empty, as pandas does for an index.

    A header that Polars would mend without a word is an error.
    """
    names = next((row for _, row in text.rows()), [])
    if names and names[0].startswith("sep="):
        raise DataError(
            f"the first line of {shown(text.file.name)} must name the columns, got {shown(names[0])}.",
            "delete that line, which Excel put there: what separates fields is found out.",
        )
    unnamed = {place: f"column_{place + 1}" for place, name in enumerate(names) if not name}
    return checked_names([unnamed.get(place, name) for place, name in enumerate(names)]), list(unnamed.values())


def _check_dates(text: CsvText, na_values: Sequence[str], error: Exception) -> None:
    """Raise for dates of several forms: the error is then gone where dates are read as text."""
    try:
        _counted(_scanned(text, na_values, _header(text)[0], try_parse_dates=False), ())
    except UNREADABLE:
        return
    raise DataError(
        f"dates in a column of {shown(text.file.name)} must be written alike, got: {first_line(error)}",
        "write all of them like 2020-01-31.",
    ) from None


def _check_fields(text: CsvText) -> None:
    """Raise for the first row that has more or fewer fields than the header, with its line."""
    try:
        rows = text.rows("replace")
        width = len(next(rows, (0, []))[1])
        broken = next(((line, row) for line, row in rows if row and len(row) != width), None)
    except (csv.Error, OSError, EOFError):  # a field beyond the reader's limit, or a broken file: no line to name
        return
    if broken is not None:
        hint = "look there for a comma that needs quotation marks, or for a row cut short."
        if broken[0] == 2 and width < len(broken[1]):
            hint = "if line 1 is a title or a comment, delete it: the names of the columns come first."
        raise DataError(
            f"every row of {shown(text.file.name)} must have {width} fields, got {len(broken[1])} in line {broken[0]}.",
            hint,
        )
