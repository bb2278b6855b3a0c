"""The tables of a published rule as a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

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
from tiltlens.documents.quantities import estimate_cell
from tiltlens.formats import NOTHING, interval_name, label, p_value, percent, ratio, whole
from tiltlens.results.outputs import row_estimate
from tiltlens.rows.groups import JOINT
from tiltlens.rules.measures import MEASURES, TESTS
from tiltlens.rules.tables import RuleTables

Row = Mapping[str, Any]  # of a frame


def rule_document(made: RuleTables) -> Document:
    """Return the tables of a rule, their tests, and what they do not decide."""
    rule = made.rule
    status = f"{rule.status_dated}: {rule.status}. Source: {rule.status_source}."
    blocks: list[Block] = [Paragraph(f"{rule.citation} ({rule.dated}). Compares {rule.compares}. {_rows(made)}", QUIET)]
    for name in made:
        table, tests = map(GroupRows.of, (made.tables[name], made.tests[name]))
        blocks += [Heading(f"By {' & '.join(map(label, table.columns))}", 2), rates_table(made, table)]
        blocks.append(Paragraph(f"People with unknown group (excluded): {made.unknown[name]:,}.", QUIET))
        blocks += _tests(made, tests)
        notes = [f"{table.name(row)}: {row['note']}." for row in (*table.rows, *tests.rows) if row["note"]]
        blocks += bullets(notes)
    last = f"Not decided by these tables: {rule.does_not_decide}"
    blocks += bullets([*made.notes, last], "Warnings")
    return Document(rule.title, (*blocks, Heading("Status of the rule"), Paragraph(status, QUIET)))


def _rows(made: RuleTables) -> str:
    rows = made.rows
    left_out = f"; {rows['missing_outcome']:,} excluded, outcome missing" if rows["missing_outcome"] else ""
    median = "" if made.median is None else f" Median score: {made.median:g}."
    return f"{rows['read']:,} rows read, {rows['used']:,} used{left_out}. Outcome: {label(made.outcome)}.{median}"


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The rows of a table, one for each group, and the columns that name the groups."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, frame: pl.DataFrame) -> GroupRows:
        """Return the rows of a frame."""
        names = (name for name in frame.columns if name not in MEASURES and name not in TESTS)
        return cls(tuple(names), tuple(frame.iter_rows(named=True)))

    def name(self, row: Row) -> str:
        """Return the name of a group."""
        return JOINT.join(label(row[column]) for column in self.columns)

    def heads(self) -> Iterator[Column]:
        """Yield the columns of names: the first is that of the row."""
        for index, name in enumerate(self.columns):
            yield Column(label(name), TEXT if index else NAME)

    def cells(self, row: Row) -> Iterator[Cell]:
        """Yield the names of a group."""
        return (Cell(label(row[column])) for column in self.columns)


def rates_table(made: RuleTables, table: GroupRows) -> Table:
    """Return people, rates and impact ratios of each group; the last group of columns are names."""
    heads = ("people", "share", f"{made.rate} rate", "impact ratio")
    rows = (
        (
            *table.cells(row),
            Cell(f"{row['n']:,}"),
            Cell(percent(row["share"])),
            Cell(percent(row["rate"])),
            estimate_cell(row_estimate(row, "impact_ratio"), ratio),
        )
        for row in table.rows
    )
    return Table("rates", (*table.heads(), *map(Column, heads)), tuple(rows), interval_name(made.limits.confidence))


def _tests(made: RuleTables, tests: GroupRows) -> Iterator[Table]:
    """Yield the tables of tests: sizes, significance and, where strata were named, within them."""
    if not tests.rows:
        return
    parts: list[tuple[str, tuple[str, ...], Callable[[Row], tuple[Cell, ...]]]] = [
        ("sizes", ("shortfall", "odds ratio"), _sizes),
        ("tests", ("z", "z test", "Fisher's test", "flips, ratio", "flips, z"), _significance),
    ]
    if made.strata:
        parts.append(("strata", ("strata", "CMH z", "CMH test", "common odds ratio"), _within))
    level = interval_name(made.limits.confidence)
    for name, heads, cells in parts:
        rows = ((*tests.cells(row), *cells(row)) for row in tests.rows)
        yield Table(name, (*tests.heads(), *map(Column, heads)), tuple(rows), level)


def _sizes(row: Row) -> tuple[Cell, ...]:
    return Cell(whole(row["shortfall"])), estimate_cell(row_estimate(row, "odds_ratio"), ratio)


def _significance(row: Row) -> tuple[Cell, ...]:
    tests = (Cell(_p(row[name])) for name in ("z_p_value", "fisher_p_value"))
    return Cell(ratio(row["z"])), *tests, Cell(whole(row["ratio_flips"])), Cell(whole(row["z_flips"]))


def _within(row: Row) -> tuple[Cell, ...]:
    tests = Cell(whole(row["strata"])), Cell(ratio(row["cmh_z"])), Cell(_p(row["cmh_p_value"]))
    return *tests, estimate_cell(row_estimate(row, "common_odds_ratio"), ratio)


def _p(value: float | None) -> str:
    return NOTHING if value is None else p_value(value)
