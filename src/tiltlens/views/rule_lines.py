"""The tables of a rule as lines of text, the same on the terminal, in a notebook and on the page."""

from __future__ import annotations

from typing import Any

from tiltlens.views.formats import interval, interval_name, label, number, percent


def rule_lines(summary: dict[str, Any], table: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of one table."""
    columns = [label(name) for name in table["columns"]]
    ends = interval_name(summary["confidence"])
    head = [*columns, "people", "share", f"{summary['rate']} rate", "impact ratio", ends, "note"]
    return head, [_line(row) for row in table["rows"]]


def _line(row: dict[str, Any]) -> list[str]:
    return [
        *(label(value) for value in row["group"].values()),
        f"{row['n']:,}",
        percent(row["share"]),
        percent(row["rate"]),
        number(row["impact_ratio"]),
        interval(row["impact_ratio_low"], row["impact_ratio_high"]),
        row["note"],
    ]


def rows_read(summary: dict[str, Any]) -> str:
    """Return whose outcome was read, and how many have none."""
    rows = summary["rows"]
    left = f"; {rows['missing_outcome']:,} left out, outcome missing" if rows["missing_outcome"] else ""
    median = "" if summary["median"] is None else f" Median score: {summary['median']:g}."
    return f"{rows['read']:,} rows read, {rows['used']:,} used{left}. Outcome: {label(summary['outcome'])}.{median}"


def title(table: dict[str, Any]) -> str:
    """Return by what a table divides people."""
    return f"By {' & '.join(label(name) for name in table['columns'])}"


def unknown_people(table: dict[str, Any]) -> str:
    """Return how many people a table leaves out."""
    return f"People of unknown group, in none of the rows: {table['unknown']:,}."


def does_not_decide(rule: dict[str, Any]) -> str:
    """Return what the tables cannot tell."""
    return f"What the tables do not decide. {rule['does_not_decide']}"
