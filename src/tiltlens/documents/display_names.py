"""Readable names of groups: a value that says nothing by itself is shown with its column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import polars as pl

from tiltlens.documents.labels import group_words
from tiltlens.results.audit import Audit
from tiltlens.results.change import Change
from tiltlens.results.comparison import Comparison
from tiltlens.results.monitor import Monitor

JOINT = " & "  # between the columns and the values of an intersection
BARE = {"yes", "no", "true", "false", "none", "null"}
WORD = re.compile(r"[^\W\d_]{2}")
T = TypeVar("T")


def group_name(column: str, value: str) -> str:
    """Return what a group is called: its value, or "column = value" where the value is a number, a letter or a yes."""
    columns, values = column.split(JOINT), value.split(JOINT)
    if len(columns) != len(values):
        columns, values = [column], [value]
    return JOINT.join(
        f"{name} = {part}" if part.casefold() in BARE or not WORD.search(part) else part
        for name, part in zip(columns, values, strict=True)
    )


def named(audit: Audit) -> Audit:
    """Return an audit as readers see it: readable names of groups, and no sizes of those too small."""
    audit, column = audit.disclosed(), audit.group
    comparisons = {name: _named_comparison(c, column) for name, c in audit.items()}
    return replace(
        audit,
        reference=group_name(column, audit.reference),
        too_small=_by_name(audit.too_small, column),
        comparisons=_by_name(comparisons, column),
        monitor=None if audit.monitor is None else _named_monitor(audit.monitor, column),
    )


def _by_name(parts: Mapping[str, T], column: str) -> dict[str, T]:
    return {group_name(column, name): part for name, part in parts.items()}


def _named_comparison(c: Comparison, column: str) -> Comparison:
    text, end = pl.col("direction"), f" among {c.audited}"
    c = replace(c, audited=group_name(column, c.audited), reference=group_name(column, c.reference))
    who = f" among {group_words(c, 'audited')}"
    direction = pl.when(text.str.ends_with(end)).then(text.str.strip_suffix(end) + who).otherwise(text)
    return replace(c, contributions_full=c.contributions_full.with_columns(direction))


def _named_monitor(monitor: Monitor, column: str) -> Monitor:
    names = pl.col("audited").replace({name: group_name(column, name) for name in monitor.looks["audited"].unique()})
    return replace(monitor, looks=monitor.looks.with_columns(names), sequences=_by_name(monitor.sequences, column))


def named_change(change: Change) -> Change:
    """Return a change with readable names of groups."""
    column = change.group
    comparisons = {
        name: replace(c, audited=group_name(column, c.audited), reference=group_name(column, c.reference))
        for name, c in change.comparisons.items()
    }
    return replace(
        change,
        reference=group_name(column, change.reference),
        too_small=_by_name(change.too_small, column),
        comparisons=_by_name(comparisons, column),
    )
