"""Excel files, through Polars and fastexcel: one sheet, whose first row names the columns."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from tiltlens.errors import DataError, MissingExtraError
from tiltlens.sources.messages import checked_names, listed, shown, wrap_errors
from tiltlens.sources.read_options import ReadOptions
from tiltlens.sources.text_columns import INTEGER, NUMBER, FileTable, read_texts

ExcelSheet: TypeAlias = Any  # fastexcel need not be installed
UNNAMED = "__UNNAMED__"  # what the reader calls a column without a name


def excel_table(files: Sequence[Path], options: ReadOptions) -> FileTable:
    """Return one sheet of each Excel file as one table; a sheet has a million rows at most, and is kept in memory."""
    missing = [name for name in ("fastexcel", "pyarrow") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"Reading Excel files requires {missing[0]}, which is not installed.", extra="excel")
    sheets = [_sheet(file, options.sheet) for file in files]
    frames = [frame.lazy() for frame, _ in sheets]
    columns = read_texts(frames, options.decimal)
    with_errors = {name for _, names in sheets for name in names}

    def notes(names: Sequence[str]) -> list[str]:
        numbers = [name for name in names if columns.type_of(name) in (INTEGER, NUMBER)]
        broken = [name for name in names if name in with_errors]
        empty = [name for name in names if not columns.counts[name].known and name not in with_errors]
        return [
            *([f"numbers in text cells were read as numbers: {', '.join(numbers)}"] if numbers else []),
            *(f"column {name} has error cells, such as #N/A or #DIV/0!: they are missing values" for name in broken),
            *(
                f"column {name} has no value in any row. If it has formulas, open and save the file in Excel"
                for name in empty
            ),
            *columns.warnings(names, "missing values are empty cells"),
        ]

    return FileTable([columns.cast(frame) for frame in frames], notes)


def _sheet(file: Path, name: str | None) -> tuple[pl.DataFrame, set[str]]:
    """Return a sheet of a file, which must have no other where none is named, and which columns hold errors."""
    import fastexcel

    broken = f"{shown(file.name)} is not a complete Excel file"
    kinds = (fastexcel.FastExcelError, pl.exceptions.PolarsError, OSError)
    with wrap_errors(broken, "save it again.", kinds=kinds, hide_cause=True), _quiet():
        book = fastexcel.read_excel(file)
        sheet = _chosen(file, book.sheet_names, name)
        header = book.load_sheet(sheet, header_row=None, n_rows=1, dtypes="string").to_polars()
        if header.height and (names := [cell for cell in header.row(0) if cell is not None]):
            checked_names(names)  # the reader would rename a second column of the same name without a word
        frame = pl.read_excel(
            file, sheet_name=sheet, infer_schema_length=None, drop_empty_cols=False, raise_if_empty=False
        )
        has_gaps = any(column.null_count() for column in frame)
        errors = _errors(book.load_sheet(sheet, schema_sample_rows=None)) if has_gaps else set()
    if frame.height == 0:
        raise DataError(f"{shown(file.name)} has no rows.", "the first row of a sheet names its columns.")
    unused = [
        column.name for column in frame if column.name.startswith(UNNAMED) and column.null_count() == frame.height
    ]
    return frame.drop(unused), errors


def _errors(sheet: ExcelSheet) -> set[str]:
    """Return the columns with cells that Excel could not work out, which the reader leaves empty."""
    _, cells = sheet.to_arrow_with_errors()
    names = {column.index: column.name for column in sheet.available_columns()}
    return set() if cells is None else {names[cell.position[1]] for cell in cells.errors}


def _chosen(file: Path, sheets: list[str], name: str | None) -> str:
    """Return the sheet to read: the named one, or the only one."""
    if name is None and len(sheets) == 1:
        return sheets[0]
    if name is None or name not in sheets:
        problem = f"{len(sheets)} sheets, and none was named" if name is None else f"no sheet {shown(name)}"
        raise DataError(
            f"{shown(file.name)} has {problem} (`sheet` of tl.read, --sheet).", f"its sheets are {listed(sheets)}."
        )
    return name


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
