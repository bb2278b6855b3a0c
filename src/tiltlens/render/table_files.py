"""Tables to hand on as files: XLSX, CSV, Markdown and LaTeX. Names come from data, and are text wherever they go."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tiltlens.documents.document import NUMBER, Cell, Column
from tiltlens.errors import DataError, MissingExtraError
from tiltlens.formats import JOINERS
from tiltlens.render.export_tables import NAMES, ExportTable, about, export_tables
from tiltlens.results.audit import Audit
from tiltlens.results.codec import check_target, write_bytes, write_text

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what a spreadsheet may take for one
LONGEST_CELL = 32_767  # characters of a cell in Excel
WIDEST_COLUMN = 60  # characters of a column in Excel, at most
MADE = datetime(2000, 1, 1)  # in every workbook: the same audit has the same bytes
MARKDOWN = re.compile(r"([\\`*_\[\]<>|~$&@]|:(?=//)|(?<=www)\.)")  # links are made of the last three
LATEX = {
    **{one: f"\\{one}" for one in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\char34{}", "`": "{`}"},
    **{"[": "{[}", "]": "{]}", "*": "{*}"},  # else, after the end of a row, they would be its options
    **{"÷": r"$\div$", "±": r"$\pm$", "≤": r"$\le$", "≥": r"$\ge$", "−": "-"},
}


def write_tables(audit: Audit, target: str | Path) -> list[Path]:
    """Write an audit's tables to one file (.xlsx, .md, .tex), or into a folder as CSV, Markdown and LaTeX.

    Return the files.
    """
    check_tables(target)
    path, tables = Path(target), export_tables(audit)
    if path.suffix.lower() == ".xlsx":
        write_bytes(path, _workbook(tables, about(audit)))
        return [path]
    if path.suffix.lower() in TEXTS:
        write_text(path, "\n".join(TEXTS[path.suffix.lower()](one) for one in tables))
        return [path]
    formats = TEXTS | {".csv": csv_text}
    texts = {path / f"{one.name}{ending}": text(one) for one in tables for ending, text in formats.items()}
    path.mkdir(exist_ok=True)
    for file, text in texts.items():
        write_text(file, text)
    return list(texts)


def files_of_tables(target: str | None) -> list[Path]:
    """Return the files that `write_tables` writes."""
    if target is None or target.lower().endswith((".xlsx", *TEXTS)):
        return [] if target is None else [Path(target)]
    return [Path(target, f"{name}{ending}") for name in NAMES for ending in (*TEXTS, ".csv")]


def check_tables(target: str | Path | None) -> None:
    """Raise where tables could not be written: better before an audit than after it."""
    if target is None:
        return
    path = Path(target)
    ending = path.suffix.lower()
    if ending == ".xlsx" and find_spec("xlsxwriter") is None:
        raise MissingExtraError(
            "`tables` in XLSX must be written by xlsxwriter, which is not installed.", extra="tables"
        )
    if ending == ".xlsx" or ending in TEXTS:
        check_target(str(path))
    elif ending and not path.is_dir():
        raise DataError(
            f"`tables` must be a folder, or a file that ends in .xlsx, .md or .tex, got {str(target)!r}.",
            "a folder gets each table as CSV, Markdown and LaTeX.",
        )
    elif path.exists() and not path.is_dir():
        raise DataError(f"`tables` must be a folder, got the file {str(target)!r}.", "choose another name.")
    else:
        check_target(str((path if path.is_dir() else path.parent) / "rates.csv"))


def csv_text(table: ExportTable) -> str:
    """Return a table as CSV; before a text that a spreadsheet could take for a formula stands an apostrophe."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(
        [_spreadsheet_text(cell) if isinstance(cell, str) else cell for cell in row] for row in table.records
    )
    return stream.getvalue()


def _spreadsheet_text(text: str) -> str:
    clean = _printable(text)
    return f"'{clean}" if text.lstrip(" ").startswith(FORMULA) else clean


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() or one in JOINERS else "�" for one in text)


def texts(table: ExportTable) -> list[list[str]]:
    """Return head and rows of a table as texts."""
    return [
        [column.label for column in table.table.columns],
        *([_text(cell) for cell in row] for row in table.table.rows),
    ]


def _text(cell: Cell) -> str:
    return f"{cell.text} ({cell.interval})" if cell.interval else cell.text


def markdown(table: ExportTable) -> str:
    """Return a table in Markdown, with its title and how to read it."""
    rows = [[_markdown(cell) for cell in row] for row in texts(table)]
    rows.insert(1, ["---:" if column.kind == NUMBER else "---" for column in table.table.columns])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"**{_markdown(table.title)}**", "", *lines, "", *map(_markdown, table.notes), ""])


def _markdown(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", _printable(text))


def latex(table: ExportTable) -> str:
    """Return a table in LaTeX, without packages."""
    kinds = "".join(_latex_kind(column) for column in table.table.columns)
    head, *rows = (" & ".join(_latex(cell) for cell in row) + r" \\" for row in texts(table))
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_latex(table.title)}}}",
            rf"\begin{{tabular}}{{{kinds}}}",
            *(r"\hline", head, r"\hline", *rows, r"\hline"),
            r"\end{tabular}",
            *(rf"\par {_latex(note)}" for note in table.notes),
            r"\end{table}",
            "",
        ]
    )


def _latex_kind(column: Column) -> str:
    return "r" if column.kind == NUMBER else r"p{0.3\linewidth}" if column.label == "reason" else "l"


def _latex(text: str) -> str:
    return "".join(LATEX.get(one, one) for one in _printable(text)).replace("--", "-{}-")


def _workbook(tables: Sequence[ExportTable], known: Sequence[tuple[str, str]]) -> bytes:
    """Return the tables as sheets of a workbook, and a sheet of what to know; a text is a text, never a formula."""
    import xlsxwriter

    stream = io.BytesIO()
    with xlsxwriter.Workbook(
        stream, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    ) as book:
        book.set_properties({"created": MADE})
        for table in tables:
            _sheet(book, table.name, table.columns, table.records)
        _sheet(book, "about", ("what", "is"), known)
    return stream.getvalue()


def _sheet(book: Any, name: str, columns: Sequence[str], records: Sequence[Sequence[Any]]) -> None:
    sheet = book.add_worksheet(name)
    bold, quoted = book.add_format({"bold": True}), book.add_format({"quote_prefix": True})
    numbers = book.add_format({"num_format": "#,##0.####"})
    for row, record in enumerate((columns, *records)):
        for place, cell in enumerate(record):
            if isinstance(cell, str):
                text = _printable(cell)[:LONGEST_CELL]
                is_formula = cell.lstrip(" ").startswith(FORMULA)
                sheet.write_string(row, place, text, bold if row == 0 else quoted if is_formula else None)
            elif cell is not None:
                sheet.write_number(row, place, cell, numbers)
    sheet.freeze_panes(1, 1)
    for place, column in enumerate(columns):
        longest = max((len(str(record[place])) for record in records if isinstance(record[place], str)), default=0)
        sheet.set_column(place, place, min(max(len(column), longest) + 2, WIDEST_COLUMN))


TEXTS: dict[str, Callable[[ExportTable], str]] = {".md": markdown, ".tex": latex}
