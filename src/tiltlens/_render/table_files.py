"""Tables of an audit for spreadsheets and documents, and the files that contain them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tiltlens._analysis.error_rates import ErrorRate
from tiltlens._analysis.evidence import interval_columns, interval_schema
from tiltlens._documents.document import NUMBER, TEXT, Cell, Column, Table, group_of, level_of, measure_of, named
from tiltlens._documents.quantities import HEADLINE_KEYS
from tiltlens._documents.sentences import IS_NO_FINDING, simultaneous_words
from tiltlens._documents.tables import contribution_table, group_table, has_bands
from tiltlens._formats import JOINERS, label, minus
from tiltlens._results.audit import Audit
from tiltlens._results.codec import check_target, write_bytes, write_text
from tiltlens._results.comparison import ERROR_RATE_KEYS, Comparison
from tiltlens.errors import DataError, MissingExtraError

RATES, CONTRIBUTIONS = NAMES = ("rates", "contributions")
AGAINST_REFERENCE = (*HEADLINE_KEYS, "standardised_difference")  # an audited group's, beside its rate
BANDS = (
    "Intervals of alone and beyond the others are simultaneous confidence bands over all features, from which the "
    "verdicts are read."
)


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table for export.

    Attributes
    ----------
    name, title
        The name of a file or a sheet; and its title.
    columns, records
        All numbers, unrounded; None if unknown or suppressed.
    table, notes
        The same table for readers, and notes on how to read it.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    records: list[list[Any]]
    table: Table
    notes: tuple[str, ...]


def export_tables(audit: Audit) -> list[ExportTable]:
    """Return the tables of an audit; the table of contributions is left out if no features were listed."""
    tables = [_rates(audit)]
    return [*tables, _contributions(audit)] if any(c.by_feature for _, c in audit.items()) else tables


def about(audit: Audit) -> list[tuple[str, str]]:
    """Return facts about the audit that readers of the tables need, as pairs of name and text."""
    readable, m, origin = named(audit), measure_of(audit), audit.provenance
    notes = dict.fromkeys(note for _, c in readable.items() for note in c.checks.notes)
    return [
        ("audit", f"{m.each}s by {audit.group}"),
        ("reference", readable.reference),
        ("favourable outcome", str(audit.favourable)),
        ("intervals", level_of(audit[0])),
        ("numbers", "units of the amount" if m.factor == 1 else "parts of one: 0.01 is a point"),
        ("data, SHA-256", origin.data_sha256),
        *((("made", origin.created),) if origin.created else ()),
        *((name, text) for name, text in origin.stated.items()),
        *(("warning", minus(note)) for note in notes),
        ("what it does not show", IS_NO_FINDING),
    ]


def _rates(audit: Audit) -> ExportTable:
    """Return one row per group: the audited ones, the reference, and those too small to be analysed."""
    comparisons = [*audit.comparisons.values()]
    first, m = comparisons[0], measure_of(audit)
    rates = ["favourable_rate", *(["metric_rate"] if first.outputs.metric_rates is not None else [])]
    rates += [key for key in ERROR_RATE_KEYS if any(_error_rate(c, key) is not None for c in comparisons)]
    keys = [key for key in AGAINST_REFERENCE if any(c.estimate(key) is not None for c in comparisons)]
    columns = ("group", "role", "people", *interval_schema(*rates, *keys))
    groups = [*((c, "audited") for c in comparisons), (first, "reference")]
    records = [[group_of(c, role), role, c.rows[role], *_estimates(c, role, rates, keys)] for c, role in groups]
    records += [[name, "too small", *[None] * (len(columns) - 2)] for name in audit.too_small]
    readable = named(audit)
    compared = f"Groups are compared with {label(readable.reference)}{m.among}."
    notes = [f"Intervals in brackets are {level_of(first)}s. {compared}"]
    notes += filter(None, [simultaneous_words(audit)])
    title = f"{m.rate.capitalize()}s by {label(audit.group)}"
    return ExportTable(RATES, title, columns, records, group_table(readable), (*notes, IS_NO_FINDING))


def _error_rate(c: Comparison, key: str) -> ErrorRate | None:
    return None if c.error_rates is None else c.error_rates.rate(key)


def _estimates(c: Comparison, role: str, rates: list[str], keys: list[str]) -> Iterator[float | None]:
    """Yield the estimates of a group with the limits of their intervals; the reference has only rates."""
    of_groups = {"favourable_rate": c.outputs.rates, "metric_rate": c.outputs.metric_rates}
    for key in rates:
        both = of_groups[key] if key in of_groups else _error_rate(c, key)
        own = None if both is None else both.audited if role == "audited" else both.reference
        yield from interval_columns(key, own).values()
    for key in keys:
        yield from interval_columns(key, c.estimate(key) if role == "audited" else None).values()


def _contributions(audit: Audit) -> ExportTable:
    """Return one row per audited group and feature."""
    columns = ("audited", "reference", *audit[0].contributions_full.columns)
    records = [[c.audited, c.reference, *row] for _, c in audit.items() for row in c.contributions_full.rows()]
    comparisons = named(audit).comparisons.values()
    tables = [contribution_table(c, has_reasons=True) for c in comparisons]
    readable = tables[0]
    if len(tables) > 1:
        several = [
            (Cell(label(c.audited)), *line) for c, table in zip(comparisons, tables, strict=True) for line in table.rows
        ]
        readable = replace(readable, columns=(Column("audited", TEXT), *readable.columns), rows=tuple(several))
    bands = (BANDS,) if any(has_bands(c) for _, c in audit.items()) else ()
    title = measure_of(audit).headed("Contributions of features")
    return ExportTable(CONTRIBUTIONS, title, columns, records, readable, (*bands, IS_NO_FINDING))


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # as in spreadsheet formulas
LONGEST_CELL = 32_767  # maximum number of characters of a cell in Excel
WIDEST_COLUMN = 60  # maximum width of a column in Excel, in characters
MADE = datetime(2000, 1, 1)  # creation time of every workbook, so that the same audit gives the same bytes
MARKDOWN = re.compile(r"([\\`*_\[\]<>|~$&@]|:(?=//)|(?<=www)\.)")  # "@", "://" and "www." would become links
LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\char34{}", "`": "{`}"},
    **{"[": "{[}", "]": "{]}", "*": "{*}"},  # after the end of a row they would be read as its options
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
        write_text(path, "\n".join(TEXTS[path.suffix.lower()](table) for table in tables))
        return [path]
    formats = TEXTS | {".csv": csv_text}
    texts = {path / f"{table.name}{ending}": text(table) for table in tables for ending, text in formats.items()}
    path.mkdir(exist_ok=True)
    for file, text in texts.items():
        write_text(file, text)
    return list(texts)


def files_of_tables(target: str | None) -> list[Path]:
    """Return the files that `write_tables` would write."""
    if target is None or target.lower().endswith((".xlsx", *TEXTS)):
        return [] if target is None else [Path(target)]
    return [Path(target, f"{name}{ending}") for name in NAMES for ending in (*TEXTS, ".csv")]


def check_tables(target: str | Path | None) -> None:
    """Raise if tables cannot be written, so that an audit fails before it is computed."""
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
    """Return a table as CSV; an apostrophe precedes texts that a spreadsheet could take for formulas."""
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
    return "".join(character if character.isprintable() or character in JOINERS else "�" for character in text)


def texts(table: ExportTable) -> list[list[str]]:
    """Return the head and rows of a table as texts."""
    return [
        [column.label for column in table.table.columns],
        *([_text(cell) for cell in row] for row in table.table.rows),
    ]


def _text(cell: Cell) -> str:
    return f"{cell.text} ({cell.interval})" if cell.interval else cell.text


def markdown(table: ExportTable) -> str:
    """Return a table in Markdown with its title and notes."""
    rows = [[_markdown(cell) for cell in row] for row in texts(table)]
    rows.insert(1, ["---:" if column.kind == NUMBER else "---" for column in table.table.columns])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"**{_markdown(table.title)}**", "", *lines, "", *map(_markdown, table.notes), ""])


def _markdown(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", _printable(text))


def latex(table: ExportTable) -> str:
    """Return a table in LaTeX that needs no packages."""
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
    return "".join(LATEX.get(character, character) for character in _printable(text)).replace("--", "-{}-")


def _workbook(tables: Sequence[ExportTable], origin: Sequence[tuple[str, str]]) -> bytes:
    """Return a workbook with one sheet per table and a sheet of facts about the audit; texts are never formulas."""
    import xlsxwriter

    stream = io.BytesIO()
    with xlsxwriter.Workbook(
        stream, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    ) as book:
        book.set_properties({"created": MADE})
        for table in tables:
            _sheet(book, table.name, table.columns, table.records)
        _sheet(book, "about", ("what", "is"), origin)
    return stream.getvalue()


def _sheet(book: Any, name: str, columns: Sequence[str], records: Sequence[Sequence[Any]]) -> None:
    sheet = book.add_worksheet(name)
    bold, quote_prefix = book.add_format({"bold": True}), book.add_format({"quote_prefix": True})
    numbers = book.add_format({"num_format": "#,##0.####"})
    for row, record in enumerate((columns, *records)):
        for index, cell in enumerate(record):
            if isinstance(cell, str):
                text = _printable(cell)[:LONGEST_CELL]
                is_formula = cell.lstrip(" ").startswith(FORMULA)
                sheet.write_string(row, index, text, bold if row == 0 else quote_prefix if is_formula else None)
            elif cell is not None:
                sheet.write_number(row, index, cell, numbers)
    sheet.freeze_panes(1, 1)
    for index, column in enumerate(columns):
        longest = max((len(str(record[index])) for record in records if isinstance(record[index], str)), default=0)
        sheet.set_column(index, index, min(max(len(column), longest) + 2, WIDEST_COLUMN))


TEXTS: dict[str, Callable[[ExportTable], str]] = {".md": markdown, ".tex": latex}
