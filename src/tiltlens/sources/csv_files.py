"""CSV files as one table, whose columns have types by all their rows."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import polars as pl

from tiltlens.errors import DataError
from tiltlens.sources.csv_dialect import CsvText, check_gzip, read_csv_text, unknown_encoding
from tiltlens.sources.messages import checked_names, first_line, shown
from tiltlens.sources.read_options import ReadOptions
from tiltlens.sources.text_columns import TextColumns, TextCounts, count_texts, sum_counts

MISSING_TEXTS = ("", "?", "-", ".", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null")
REMEDY = "missing values are named by `na_values` of tl.read (--na-values)"


@dataclass(frozen=True, eq=False)
class CsvTable:
    """CSV files as one table.

    Attributes
    ----------
    files
        Each file with its text columns, missing values being null.
    columns
        Types of the columns over all files.
    index, unused
        Columns without a name that are left out: saved indices, and those without any value.
    texts
        Columns that stay as they are written.
    """

    files: Sequence[CsvFile]
    columns: TextColumns
    index: Sequence[str]
    unused: Sequence[str]
    texts: Collection[str] = ()

    def as_texts(self, columns: Collection[str]) -> CsvTable:
        """Return the table with some columns as they are written: "007" stays so."""
        return replace(self, texts=columns)

    @cached_property
    def scans(self) -> list[pl.LazyFrame]:
        """One lazy frame for each file."""
        scans = (file.scan.drop(*self.index, *self.unused, strict=False) for file in self.files)
        return [self.columns.cast(scan, self.texts) for scan in scans]

    def notes(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what users may not expect of how these columns were read."""
        encodings = [file.text.warning for file in self.files if file.text.warning is not None]
        left_out = [f"the column without a name ({name}) is a saved index and was left out" for name in self.index]
        return (*encodings, *left_out, *self.columns.warnings(columns, REMEDY))


@dataclass(frozen=True, slots=True, eq=False)
class CsvFile:
    """One CSV file: its text, its rows as text columns, their counts, and columns without a name."""

    text: CsvText
    scan: pl.LazyFrame
    counts: Mapping[str, TextCounts]
    unnamed: Sequence[str]


def csv_table(files: Sequence[Path], options: ReadOptions) -> CsvTable:
    """Return CSV files as one table."""
    read = []
    for path in files:
        with check_gzip(path):
            read.append(_read_file(path, options))
    counts = sum_counts(file.counts for file in read)
    named = {name for file in read for name in file.counts if name not in file.unnamed}
    unnamed = [name for name in counts if name not in named]
    unused = [name for name in unnamed if not counts[name].known]
    index = [name for name in unnamed if counts[name].is_index]
    return CsvTable(read, TextColumns(counts, options.decimal), index, unused)


def _read_file(path: Path, options: ReadOptions) -> CsvFile:
    """Return one CSV file, whose rows must have as many fields as the header."""
    try:
        text = read_csv_text(path, options.encoding)
    except UnicodeDecodeError:
        raise unknown_encoding(path) from None
    except csv.Error as error:
        raise _not_csv(path, error) from None
    names, unnamed = _column_names(text)
    missing = [*MISSING_TEXTS, *options.na_values]
    fields = pl.scan_csv(text.source, separator=text.separator, new_columns=names, infer_schema=False, glob=False)
    scan = fields.with_columns(pl.when(~pl.all().is_in(missing)).then(pl.all()))
    try:
        counts = count_texts(scan, options.decimal, unnamed)
    except (pl.exceptions.PolarsError, OSError) as error:
        if "utf-8" in str(error):
            raise unknown_encoding(path) from None
        _check_fields(text)
        raise _not_csv(path, error) from None
    last = counts[names[-1]]
    if last.rows == 0:
        raise DataError(f"{shown(path.name)} must have rows, got a header only.", "was it written completely?")
    if last.known < last.rows:  # Polars fills rows that end too early with nulls
        _check_fields(text)
    return CsvFile(text, scan, counts, unnamed)


def _not_csv(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{shown(path.name)} must be a CSV file, got: {first_line(error)}",
        "look for an unclosed quotation mark, or for a file cut short.",
    )


def _column_names(text: CsvText) -> tuple[list[str], list[str]]:
    """Return the names of the columns, and those of them that the header leaves empty, as pandas does for an index."""
    header = text.header
    if header and header[0].startswith("sep="):
        raise DataError(
            f"the first line of {shown(text.file.name)} must name the columns, got {shown(header[0])}.",
            "delete that line, which Excel put there: the separator is detected.",
        )
    unnamed = {position: f"column_{position + 1}" for position, name in enumerate(header) if not name}
    names = [unnamed.get(position, name) for position, name in enumerate(header)]
    return checked_names(names), list(unnamed.values())


def _check_fields(text: CsvText) -> None:
    """Raise for the first row that has more or fewer fields than the header, with its line."""
    width = len(text.header)
    try:
        ragged = next(((line, len(row)) for line, row in text.rows() if row and len(row) != width), None)
    except csv.Error:  # a field beyond the reader's limit: no line to name
        return
    if ragged is not None:
        line, fields = ragged
        hint = "look there for a comma that needs quotation marks, or for a row cut short."
        if line == 2 and width < fields:
            hint = "if line 1 is a title or a comment, delete it: the names of the columns come first."
        raise DataError(
            f"every row of {shown(text.file.name)} must have {width} fields, got {fields} in line {line}.", hint
        )
