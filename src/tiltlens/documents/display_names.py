"""What groups are called: a value that says nothing by itself is shown with its column."""

from __future__ import annotations

import re
from typing import Any

JOINT = " & "  # between the columns and the values of an intersection
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


def with_display_names(part: Record, column: str | None = None) -> Record:
    """Return the summary of a result with every group named for readers.

    `column` is that of the groups; a summary that names its own has it for all of its parts.
    """
    column = part.get("group", column)
    if "constraints" in part and not part["audited"]:  # a score adjustment for several groups
        part = part | {"audited": ", ".join(dict.fromkeys(str(one["audited"]) for one in part["constraints"]))}
    renamed = {key: with_display_names(part[key], column) for key in ("repair", "compared_with") if part.get(key)}
    if "evaluations" in part:
        evaluations = part["evaluations"].items()
        renamed["evaluations"] = {name: with_display_names(evaluation, column) for name, evaluation in evaluations}
    return part | renamed | ({} if column is None else _named_groups(part, column))


def _named_groups(part: Record, column: str) -> Record:
    """Return the keys of a summary that hold the names of groups."""
    named: Record = {who: group_name(column, part[who]) for who in ("audited", "reference") if who in part}
    if "constraints" in part:
        named["constraints"] = [with_display_names(constraint, column) for constraint in part["constraints"]]
    if "too_small" in part:
        named["too_small"] = {group_name(column, name): size for name, size in part["too_small"].items()}
    if "comparisons" in part:
        comparisons = part["comparisons"].items()
        named["comparisons"] = {group_name(column, name): with_display_names(c, column) for name, c in comparisons}
    if "proxies" in part:
        end = f" among {part['audited']}"  # of a direction, which names the audited group
        named["proxies"] = [
            row | {"direction": row["direction"].removesuffix(end) + f" among {named['audited']}"}
            if row["direction"].endswith(end)
            else row
            for row in part["proxies"]
        ]
    return named
