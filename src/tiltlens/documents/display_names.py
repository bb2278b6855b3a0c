"""Readable names of groups: a value that says nothing by itself is shown with its column."""

from __future__ import annotations

import re
from typing import Any

JOINT = " & "  # between the columns and the values of an intersection
ROLES = ("audited", "reference")  # keys whose value is the name of a group
BY_GROUP = ("comparisons", "too_small", "evaluations", "sequences")  # keys of records by group
UNNAMED = ("provenance", "bins", "tradeoff_table", "prototypes", "curve")
BARE = {"yes", "no", "true", "false", "none", "null"}
Record = dict[str, Any]
WORD = re.compile(r"[^\W\d_]{2}")


def group_name(column: str, value: str) -> str:
    """Return what a group is called: its value, or "column = value" where the value is a number, a letter or a yes."""
    columns, values = column.split(JOINT), value.split(JOINT)
    if len(columns) != len(values):
        columns, values = [column], [value]
    return JOINT.join(
        f"{name} = {part}" if part.casefold() in BARE or not WORD.search(part) else part
        for name, part in zip(columns, values, strict=True)
    )


def named(summary: Any, column: str, key: str = "") -> Any:
    """Return the summary of any result with readable names of its groups; numbers by row or bin are left alone."""
    if key in UNNAMED:
        return summary
    if isinstance(summary, dict):
        renamed = {
            group_name(column, name) if key in BY_GROUP else name: named(value, column, name)
            for name, value in summary.items()
        }
        if "contributions" in renamed:
            end, new_end = f" among {summary['audited']}", f" among {renamed['audited']}"
            renamed["contributions"] = [
                row | {"direction": re.sub(f"{re.escape(end)}$", lambda _: new_end, row["direction"])}
                for row in renamed["contributions"]
            ]
        return renamed
    if isinstance(summary, list):
        return [named(entry, column) for entry in summary]
    return group_name(column, summary) if key in ROLES and isinstance(summary, str) else summary
