"""An audit's tables to hand on: every number, and the same table that people read on the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tiltlens.analysis.error_rates import ErrorRate
from tiltlens.analysis.evidence import interval_columns, interval_schema
from tiltlens.documents.audit_tables import contribution_table, group_table, has_bands
from tiltlens.documents.document import TEXT, Cell, Column, Table
from tiltlens.documents.labels import group_of, level_of, measure_of, named
from tiltlens.documents.quantities import ERROR_RATE_KEYS, HEADLINE_KEYS
from tiltlens.documents.sentences import IS_NO_FINDING, simultaneous_words
from tiltlens.formats import label, minus
from tiltlens.results.audit import Audit
from tiltlens.results.comparison import Comparison

RATES, CONTRIBUTIONS = NAMES = ("rates", "contributions")
AGAINST_REFERENCE = (*HEADLINE_KEYS, "standardised_difference")  # estimates of an audited group, beside its rate
BANDS = (
    "Intervals of alone and beyond the others are simultaneous confidence bands over all features, from which the "
    "verdicts are read."
)


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table to hand on.

    Attributes
    ----------
    name, title
        The name of a file or a sheet; and its title.
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


def export_tables(audit: Audit) -> list[ExportTable]:
    """Return the tables of an audit; that of features is missing where none were listed."""
    tables = [_rates(audit)]
    return [*tables, _contributions(audit)] if any(c.by_feature for _, c in audit.items()) else tables


def about(audit: Audit) -> list[tuple[str, str]]:
    """Return what a reader of the tables should know, by name."""
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
    """Return one row for each group: the audited ones, the reference, and those too small to be analysed."""
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
    notes = [f"In brackets the {level_of(first)}; compared with {label(readable.reference)}{m.among}."]
    notes += filter(None, [simultaneous_words(audit)])
    title = f"{m.rate.capitalize()}s by {label(audit.group)}"
    return ExportTable(RATES, title, columns, records, group_table(readable), (*notes, IS_NO_FINDING))


def _error_rate(c: Comparison, key: str) -> ErrorRate | None:
    return None if c.error_rates is None else c.error_rates.rate(key)


def _estimates(c: Comparison, role: str, rates: list[str], keys: list[str]) -> Iterator[float | None]:
    """Yield the numbers of a group, each with the ends of its interval; the reference is not compared with itself."""
    of_groups = {"favourable_rate": c.outputs.rates, "metric_rate": c.outputs.metric_rates}
    for key in rates:
        both = of_groups[key] if key in of_groups else _error_rate(c, key)
        own = None if both is None else both.audited if role == "audited" else both.reference
        yield from interval_columns(key, own).values()
    for key in keys:
        yield from interval_columns(key, c.estimate(key) if role == "audited" else None).values()


def _contributions(audit: Audit) -> ExportTable:
    """Return one row for each audited group and feature."""
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
