"""Unobserved groups in sentences: two estimates, the range between them, and the checks behind it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tiltlens.documents.quantities import Quantity, estimate_words
from tiltlens.formats import interval, minus, number, with_interval
from tiltlens.rows.measures import Measure, measure_of

Record = dict[str, Any]
OWN_ERROR = (
    "These intervals exclude the error of the probabilities themselves. Contributions are those to the weighted gap."
)
WEIGHTED = "weighted by group probability"


def expected(c: Record) -> str:
    """Return " expected" behind a number of people that group probabilities add up to."""
    return "" if c["unobserved_group"] is None else " expected"


def weighted(gap: Quantity, c: Record) -> Quantity:
    """Return the gap as it is called: for unobserved groups it is one of two estimates."""
    return replace(gap, label=gap_name(c))


def gap_name(c: Record) -> str:
    """Return the label of the gap: for unobserved groups it is one of two estimates."""
    return "weighted gap" if c.get("unobserved_group") else "gap"


def soft_estimates(c: Record) -> dict[str, Record | None]:
    """Return the other estimates of the gap; None each where groups are observed."""
    return {name: (c.get("unobserved_group") or {}).get(name) for name in ("linear", "bracket", "limits")}


def bracket_words(c: Record, groups: str) -> list[str]:
    """Return the range of the gap between two groups, because one estimate would mislead, and on what it rests."""
    return _bracket(c["unobserved_group"], measure_of(c), groups)


def soft_words(c: Record) -> list[str]:
    """Return how the estimates of the gap are to be read; nothing where groups are observed."""
    soft, measure = c["unobserved_group"], measure_of(c)
    if soft is None:
        return []
    lines = [
        "Weighted: each row counts in both groups by its probabilities. Linear: the slope of the "
        f"{measure.each} on the group probability.",
        *_checks(soft, measure),
    ]
    if soft["limits"] is not None:
        ends = interval(soft["limits"]["low"], soft["limits"]["high"], measure.difference)
        lines.append(f"If the probabilities are calibrated, the gap is {measure.with_unit(ends)}.")
    return [*lines, OWN_ERROR]


def _bracket(soft: Record, measure: Measure, groups: str) -> list[str]:
    between = f"gap in the {measure.mean} between {groups}"
    if soft["status"] == "not judged":
        return [f"The {between} is not estimated (not judged): {minus(soft['reason'])}."]
    if soft["bracket"] is None:
        return [f"The {between} cannot be estimated: everybody has the same group probabilities."]
    ends = interval(soft["bracket"]["low"], soft["bracket"]["high"], measure.difference)
    return [
        f"The {between} is estimated at {measure.with_unit(ends)}.",
        "This range holds if the probabilities are calibrated and the two estimates err in opposite directions "
        f"({soft['status']}: {minus(soft['reason'])}).",
    ]


def _checks(soft: Record, measure: Measure) -> list[str]:
    if soft["calibration"] is None or soft["signs"] is None:
        return []
    rows = "fewer than 10" if soft["labelled"] is None else f"{soft['labelled']:,}"
    slope = with_interval(**soft["calibration"]["slope"], shown=lambda value: number(value, 2))
    above, below = (estimate_words(soft["signs"][name], measure) for name in ("above_weighted", "below_linear"))
    return [
        f"On {rows} labelled rows the group has slope {slope} on its probability (1 if calibrated). The gap there is "
        f"{above} above the weighted and {below} below the linear estimate; it lies between them if both have one sign."
    ]
