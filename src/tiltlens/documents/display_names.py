"""What groups are called: a value that says nothing by itself is shown with its column."""

from __future__ import annotations

import re
from typing import Any

JOINT = " & "  # between the columns and the values of an intersection
BARE = {"yes", "no", "true", "false", "none", "null"}
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


def named(summary: dict[str, Any]) -> dict[str, Any]:
    """Return an audit's summary with every group called as a reader should read it."""
    column = summary["group"]
    return summary | {
        "reference": group_name(column, summary["reference"]),
        "too_small": {group_name(column, name): size for name, size in summary["too_small"].items()},
        "comparisons": {group_name(column, name): _comparison(column, c) for name, c in summary["comparisons"].items()},
    }


def _comparison(column: str, c: dict[str, Any]) -> dict[str, Any]:
    audited, reference = (group_name(column, c[who]) for who in ("audited", "reference"))
    end = f" among {c['audited']}"
    proxies = [
        row | {"direction": row["direction"].removesuffix(end) + f" among {audited}"}
        if row["direction"].endswith(end)
        else row
        for row in c["proxies"]
    ]
    return c | {"audited": audited, "reference": reference, "proxies": proxies}
