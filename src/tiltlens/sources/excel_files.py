"""Excel files, through Polars and fastexcel: one sheet, whose first row names the columns."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl

from tiltlens.errors import DataError, MissingExtraError
from tiltlens.sources.messages import checked_names, first_line, listed, shown
from tiltlens.sources.read_options import ReadOptions
from tiltlens.sources.text_columns import INTEGER, NUMBER, TextColumns, read_texts

UNNAMED = "__UNNAMED__"  # what the reader calls a column without a name


@dataclass(frozen=True, slots=True, eq=False)
class ExcelTable:
    """Excel files as one table; `errors` are columns with cells such as #N/A."""

    scans: list[pl.LazyFrame]
    columns: TextColumns
    errors: Collection[str]

    def notes(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what users may not expect of how these columns were read."""
        numbers = [name for name in columns if self.columns.type_of(name) in (INTEGER, NUMBER)]
        errors = [name for name in columns if name in self.errors]
        empty = [name for name in columns if not self.columns.counts[name].known and name not in self.errors]
        return (
            *([f"cells of text that hold numbers were read as numbers: {', '.join(numbers)}"] if numbers else []),
            *(f"{name} has cells that are errors, such as #N/A or #DIV/0!: they are missing values" for name in errors),
            *(
                f"{name} has no value in any row; formulas whose values were not saved look so: save the file in Excel"
                for name in empty
            ),
            *self.columns.warnings(columns, "missing values are empty cells"),
        )


def excel_table(files: Sequence[Path], options: ReadOptions) -> ExcelTable:
    """Return one sheet of each Excel file as one table; a sheet has a million rows at most, and is held in memory."""
    missing = [name for name in ("fastexcel", "pyarrow") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"Excel files must be read by {missing[0]}, which is not installed.", extra="excel")
    sheets = [_sheet(file, options.sheet) for file in files]
    frames = [frame.lazy() for frame, _ in sheets]
    columns = read_texts(frames, options.decimal)
    errors = {name for _, names in sheets for name in names}
    return ExcelTable([columns.cast(frame) for frame in frames], columns, errors)


def _sheet(file: Path, name: str | None) -> tuple[pl.DataFrame, set[str]]:
    """Return a sheet of a file, which must have no other where none is named, and which columns hold errors."""
    import fastexcel

    try:
        with _quiet():
            book = fastexcel.read_excel(file)
            sheet = _chosen(file, book.sheet_names, name)
            _check_header(book.load_sheet(sheet, header_row=None, n_rows=1, dtypes="string").to_polars())
            frame = pl.read_excel(
                file, sheet_name=sheet, infer_schema_length=None, drop_empty_cols=False, raise_if_empty=False
            )
            has_gaps = any(one.null_count() for one in frame)
            errors = _errors(book.load_sheet(sheet, schema_sample_rows=None)) if has_gaps else set()
    except (fastexcel.FastExcelError, pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{shown(file.name)} must be a complete Excel file, got: {first_line(error)}", "save it again."
        ) from None
    if frame.height == 0:
        raise DataError(f"{shown(file.name)} must have rows, got none.", "the first row of a sheet names its columns.")
    unused = [one.name for one in frame if one.name.startswith(UNNAMED) and one.null_count() == frame.height]
    return frame.drop(unused), errors


def _errors(sheet: Any) -> set[str]:
    """Return the columns with cells that Excel could not work out, which the reader leaves empty."""
    _, found = sheet.to_arrow_with_errors()
    names = {column.index: column.name for column in sheet.available_columns()}
    return set() if found is None else {names[cell.position[1]] for cell in found.errors}


def _chosen(file: Path, sheets: list[str], name: str | None) -> str:
    if name is None and len(sheets) != 1:
        raise DataError(
            f"`sheet` of tl.read (--sheet) must name one of the {len(sheets)} sheets of {shown(file.name)}, got none.",
            f"they are {listed(sheets)}.",
        )
    if name is not None and name not in sheets:
        raise DataError(
            f"`sheet` must be a sheet of {shown(file.name)}, got {shown(name)}.", f"they are {listed(sheets)}."
        )
    return sheets[0] if name is None else name


def _check_header(first: pl.DataFrame) -> None:
    """Raise for names that a sheet has twice, which the reader would mend without a word."""
    names = [one for one in first.row(0) if one is not None] if first.height else []
    if names:
        checked_names(names)


@contextmanager
def _quiet() -> Generator[None]:
    """Keep the reader from logging that it takes a column for text."""
    log = logging.getLogger("fastexcel")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
