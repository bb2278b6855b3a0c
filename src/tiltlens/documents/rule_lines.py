"""The tables of a rule as lines of text, the same on the terminal, in a notebook and on the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiltlens.formats import NOTHING, interval, interval_name, label, number, p_value, percent, ratio, whole


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


def test_lines(summary: dict[str, Any], table: dict[str, Any]) -> list[tuple[list[str], list[list[str]]]]:
    """Return heads and rows of what practice asks: how large, how easily by chance; within strata where asked for."""
    tests = table["tests"]
    if not tests:
        return []
    columns, ends = [label(name) for name in table["columns"]], interval_name(summary["confidence"])
    parts: list[tuple[list[str], Callable[[dict[str, Any]], list[str]]]] = [
        (["shortfall", "odds ratio", ends], _size),
        (["z", "z test", "Fisher's test", "flips, ratio", "flips, z"], _chance),
    ]
    if summary["strata"]:
        parts.append((["strata", "CMH z", "CMH test", "common odds ratio", ends], _within))
    return [
        ([*columns, *head], [[*(label(value) for value in row["group"].values()), *cells(row)] for row in tests])
        for head, cells in parts
    ]


def _size(row: dict[str, Any]) -> list[str]:
    return [number(row["shortfall"], 1), *_odds(row, "odds_ratio")]


def _chance(row: dict[str, Any]) -> list[str]:
    tests = (_p(row[name]) for name in ("z_p_value", "fisher_p_value"))
    return [ratio(row["z"]), *tests, whole(row["ratio_flips"]), whole(row["z_flips"])]


def _within(row: dict[str, Any]) -> list[str]:
    return [whole(row["strata"]), ratio(row["cmh_z"]), _p(row["cmh_p_value"]), *_odds(row, "common_odds_ratio")]


def _odds(row: dict[str, Any], name: str) -> tuple[str, str]:
    return ratio(row[name]), interval(row[f"{name}_low"], row[f"{name}_high"], ratio)


def _p(value: float | None) -> str:
    return NOTHING if value is None else p_value(value)


def status(rule: dict[str, Any]) -> str:
    """Return whether a rule is in force, as of when, and who says so."""
    return f"Status, {rule['status_dated']}: {rule['status']}. Source: {rule['status_source']}."


def test_remarks(table: dict[str, Any]) -> list[str]:
    """Return what is to be known of the tests of single groups."""
    found = ((" & ".join(label(value) for value in row["group"].values()), row["note"]) for row in table["tests"])
    return [f"{name}: {note}." for name, note in found if note]


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
