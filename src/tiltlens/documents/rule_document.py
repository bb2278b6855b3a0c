"""The tables of a published rule as a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tiltlens.documents.document import (
    NAME,
    QUIET,
    TEXT,
    Block,
    Cell,
    Column,
    Document,
    Heading,
    Paragraph,
    Table,
    bullets,
)
from tiltlens.documents.quantities import estimate_cell, row_estimate
from tiltlens.formats import NOTHING, interval_name, label, number, p_value, percent, ratio, whole

Record = dict[str, Any]


def rule_document(summary: Record) -> Document:
    """Return the tables of a rule, their tests, and what they do not decide."""
    rule = summary["rule"]
    status = f"{rule['status_dated']}: {rule['status']}. Source: {rule['status_source']}."
    blocks: list[Block] = [
        Paragraph(f"{rule['citation']} ({rule['dated']}). Compares {rule['compares']}. {_rows(summary)}", QUIET)
    ]
    for table in summary["tables"]:
        blocks += [Heading(f"By {' & '.join(map(label, table['columns']))}", 2), rates_table(summary, table)]
        blocks.append(Paragraph(f"People with unknown group (excluded): {table['unknown']:,}.", QUIET))
        blocks += _tests(summary, table)
        notes = [f"{_name(row)}: {row['note']}." for row in (*table["rows"], *table["tests"]) if row["note"]]
        blocks += bullets(notes)
    last = f"Not decided by these tables: {rule['does_not_decide']}"
    blocks += bullets([*summary["notes"], last], "Warnings")
    return Document(rule["title"], (*blocks, Heading("Status of the rule"), Paragraph(status, QUIET)))


def _name(row: Record) -> str:
    return " & ".join(label(value) for value in row["group"].values())


def _rows(summary: Record) -> str:
    rows = summary["rows"]
    left_out = f"; {rows['missing_outcome']:,} excluded, outcome missing" if rows["missing_outcome"] else ""
    median = "" if summary["median"] is None else f" Median score: {summary['median']:g}."
    return f"{rows['read']:,} rows read, {rows['used']:,} used{left_out}. Outcome: {label(summary['outcome'])}.{median}"


def rates_table(summary: Record, table: Record) -> Table:
    """Return people, rates and impact ratios of each group; the last group of columns are names."""
    heads = ("people", "share", f"{summary['rate']} rate", "impact ratio")
    rows = (
        (
            *(Cell(label(value)) for value in row["group"].values()),
            Cell(f"{row['n']:,}"),
            Cell(percent(row["share"])),
            Cell(percent(row["rate"])),
            estimate_cell(row_estimate(row, "impact_ratio"), ratio),
        )
        for row in table["rows"]
    )
    return Table("rates", (*_names(table), *map(Column, heads)), tuple(rows), interval_name(summary["confidence"]))


def _names(table: Record) -> Iterator[Column]:
    """Yield the columns of names: the first is that of the row."""
    for index, name in enumerate(table["columns"]):
        yield Column(label(name), TEXT if index else NAME)


def _tests(summary: Record, table: Record) -> Iterator[Table]:
    """Yield the tables of tests: sizes, significance and, where strata were named, within them."""
    if not table["tests"]:
        return
    parts: list[tuple[str, tuple[str, ...], Callable[[Record], tuple[Cell, ...]]]] = [
        ("sizes", ("shortfall", "odds ratio"), _sizes),
        ("tests", ("z", "z test", "Fisher's test", "flips, ratio", "flips, z"), _significance),
    ]
    if summary["strata"]:
        parts.append(("strata", ("strata", "CMH z", "CMH test", "common odds ratio"), _within))
    for name, heads, cells in parts:
        rows = ((*(Cell(label(value)) for value in row["group"].values()), *cells(row)) for row in table["tests"])
        yield Table(name, (*_names(table), *map(Column, heads)), tuple(rows), interval_name(summary["confidence"]))


def _sizes(row: Record) -> tuple[Cell, ...]:
    return Cell(number(row["shortfall"], 1)), estimate_cell(row_estimate(row, "odds_ratio"), ratio)


def _significance(row: Record) -> tuple[Cell, ...]:
    tests = (Cell(_p(row[name])) for name in ("z_p_value", "fisher_p_value"))
    return Cell(ratio(row["z"])), *tests, Cell(whole(row["ratio_flips"])), Cell(whole(row["z_flips"]))


def _within(row: Record) -> tuple[Cell, ...]:
    tests = Cell(whole(row["strata"])), Cell(ratio(row["cmh_z"])), Cell(_p(row["cmh_p_value"]))
    return *tests, estimate_cell(row_estimate(row, "common_odds_ratio"), ratio)


def _p(value: float | None) -> str:
    return NOTHING if value is None else p_value(value)
