"""An audit's tables to hand on: every number, and the same table that people read on the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tiltlens.documents.audit_tables import contribution_table, group_table
from tiltlens.documents.display_names import named
from tiltlens.documents.document import TEXT, Cell, Column, Table
from tiltlens.documents.quantities import ERROR_RATE_KEYS, HEADLINE_KEYS, RATES_OF_GROUPS
from tiltlens.documents.sentences import IS_NO_FINDING, simultaneous_words
from tiltlens.documents.summary_access import estimate_of
from tiltlens.documents.unobserved_groups import soft_estimates
from tiltlens.formats import interval_name, label, minus
from tiltlens.rows.measures import measure_of

RATES, CONTRIBUTIONS = NAMES = ("rates", "contributions")
ENDS = ("", "_low", "_high")
AGAINST_REFERENCE = (*HEADLINE_KEYS, "standardised_difference")  # estimates of an audited group, beside its rate
BANDS = (
    "Intervals of alone and beyond the others are simultaneous confidence bands over all features, from which the "
    "verdicts are read."
)
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table to hand on.

    Attributes
    ----------
    name, title
        Of a file or a sheet; and what it shows.
    columns, records
        Every number as it is, None where it is not known or suppressed.
    table, notes
        The same for readers, and how to read it.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    records: list[list[Any]]
    table: Table
    notes: tuple[str, ...]


def export_tables(summary: Record) -> list[ExportTable]:
    """Return the tables of an audit; that of features is missing where none were listed."""
    tables = [_rates(summary)]
    return (
        [*tables, _contributions(summary)]
        if any(c["contributions"] for c in summary["comparisons"].values())
        else tables
    )


def about(summary: Record) -> list[tuple[str, str]]:
    """Return what a reader of the tables should know, by name."""
    readable, m, origin = named(summary, summary["group"]), measure_of(summary), summary["provenance"]
    notes = dict.fromkeys(note for c in readable["comparisons"].values() for note in c["checks"]["notes"])
    return [
        ("audit", f"{m.each}s by {summary['group']}"),
        ("reference", readable["reference"]),
        ("favourable outcome", str(summary["favourable"])),
        ("intervals", interval_name(summary["settings"]["confidence"])),
        ("numbers", "units of the amount" if m.factor == 1 else "parts of one: 0.01 is a point"),
        ("data, SHA-256", origin["data_sha256"]),
        *((("made", origin["created"]),) if origin["created"] else ()),
        *((name, text) for name, text in origin["stated"].items()),
        *(("warning", minus(note)) for note in notes),
        ("what it does not show", IS_NO_FINDING),
    ]


def _rates(summary: Record) -> ExportTable:
    """Return one row for each group: the audited ones, the reference, and those too small to be analysed."""
    comparisons = [c | soft_estimates(c) for c in summary["comparisons"].values()]
    first, m = comparisons[0], measure_of(summary)
    rates = ["favourable_rate", *(["metric_rate"] if first["outputs"]["metric_rates"] else [])]
    rates += [key for key in ERROR_RATE_KEYS if any(_error_rate(c, key) for c in comparisons)]
    keys = [key for key in AGAINST_REFERENCE if any(estimate_of(c, key) is not None for c in comparisons)]
    columns = ("group", "role", "people", *(f"{key}{end}" for key in (*rates, *keys) for end in ENDS))
    groups = [*((c, "audited") for c in comparisons), (first, "reference")]
    records = [[c[role], role, c["rows"][role], *_estimates(c, role, rates, keys)] for c, role in groups]
    records += [[name, "too small", *[None] * (len(columns) - 2)] for name in summary["too_small"]]
    confidence, readable = summary["settings"]["confidence"], named(summary, summary["group"])
    notes = [f"In brackets the {interval_name(confidence)}; compared with {label(readable['reference'])}{m.among}."]
    notes += filter(None, [simultaneous_words(summary, confidence)])
    title = f"{m.rate.capitalize()}s by {label(summary['group'])}"
    return ExportTable(RATES, title, columns, records, group_table(readable), (*notes, IS_NO_FINDING))


def _error_rate(c: Record, key: str) -> Any:
    return c["error_rates"] and c["error_rates"].get(key)


def _estimates(c: Record, role: str, rates: list[str], keys: list[str]) -> Iterator[float | None]:
    """Yield the numbers of a group, each with the ends of its interval; the reference is not compared with itself."""
    for key in rates:
        both = _error_rate(c, key) if key in ERROR_RATE_KEYS else c["outputs"][RATES_OF_GROUPS[key]]
        yield from _values(both and both[role])
    for key in keys:
        yield from _values(estimate_of(c, key) if role == "audited" else None)


def _values(estimate: Record | None) -> tuple[Any, Any, Any]:
    return (None, None, None) if estimate is None else (estimate["value"], estimate["low"], estimate["high"])


def _contributions(summary: Record) -> ExportTable:
    """Return one row for each audited group and feature."""
    rows = [(c, row) for c in summary["comparisons"].values() for row in c["contributions"]]
    columns = ("audited", "reference", *rows[0][1])
    records = [[c["audited"], c["reference"], *row.values()] for c, row in rows]
    comparisons = named(summary, summary["group"])["comparisons"].values()
    tables = [contribution_table(c, has_reasons=True) for c in comparisons]
    readable = tables[0]
    if len(tables) > 1:
        several = [
            (Cell(label(c["audited"])), *line)
            for c, table in zip(comparisons, tables, strict=True)
            for line in table.rows
        ]
        readable = replace(readable, columns=(Column("audited", TEXT), *readable.columns), rows=tuple(several))
    bands = (BANDS,) if any(row["alone_low"] is not None for _, row in rows) else ()
    title = measure_of(summary).headed("Contributions of features")
    return ExportTable(CONTRIBUTIONS, title, columns, records, readable, (*bands, IS_NO_FINDING))
