"""What a reader sees first, the same on the page, on a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tiltlens.documents.headline import (
    STATES,
    gap_status,
    headline,
    level_name,
    named_list,
    of_kind,
)
from tiltlens.documents.labels import SHORT
from tiltlens.documents.next_steps import next_steps
from tiltlens.documents.quantities import brief, fill, quantity
from tiltlens.documents.ratios import against_four_fifths, is_of_decisions
from tiltlens.documents.summary_access import by_gap, checks_of, fares_worse, warnings_of
from tiltlens.documents.unobserved_groups import expected
from tiltlens.documents.verdict_texts import OPEN
from tiltlens.estimators.verdicts import Materiality, is_significant
from tiltlens.formats import count, interval, label, p_value, ratio
from tiltlens.rows.measures import Measure, is_favourable_mean, measure_of, metric_of

Record = dict[str, Any]


class Tile(NamedTuple):
    """A number of the first screen: its name, its value and a note."""

    name: str
    value: str
    note: str


class Doubt(NamedTuple):
    """A line about the reliability of a comparison."""

    text: str
    is_warning: bool


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """The finding about the group with the largest disadvantage, and about all groups where there are several."""

    headline: str
    findings: tuple[str, ...]
    tiles: tuple[Tile, ...]
    reliability: tuple[Doubt, ...]
    next_steps: tuple[str, ...]
    lead: str = ""  # above the headline, of several groups


def first_screen(summary: Record) -> FirstScreen:
    """Return the first screen of an audit, or of a comparison alone."""
    ordered = by_gap(summary) if "comparisons" in summary else summary
    comparisons = [*ordered.get("comparisons", {"": summary}).values()]
    c = comparisons[0]
    first, *others = headline(ordered, c)
    steps = tuple(next_steps(ordered, comparisons))
    if len(comparisons) == 1:
        return FirstScreen(first, tuple(others), tuple(tiles(ordered, c)), tuple(reliability(ordered, c)), steps)
    lead = f"{'Largest disadvantage' if fares_worse(c) else 'Widest gap'} among {len(comparisons)} groups"
    return FirstScreen(
        first, tuple(_states(comparisons)), (), tuple(_all_reliability(ordered, comparisons)), steps, lead
    )


def _all_reliability(summary: Record, comparisons: list[Record]) -> Iterator[Doubt]:
    """Yield how reliable an audit of several groups is: what holds of all of them, or of how many."""
    m, groups = measure_of(summary), len(comparisons)
    sizes = sorted(c["rows"]["audited"] for c in comparisons)
    people, others = f"{m.people}{expected(comparisons[0])}", count(comparisons[0]["rows"]["reference"])
    yield Doubt(f"{count(sizes[0])} to {count(sizes[-1])} {people} per group, {others} in the reference", False)
    failed = [c["audited"] for c in comparisons if (checks := checks_of(c)) is not None and not checks["is_adequate"]]
    if any(checks_of(c) is not None for c in comparisons):
        text = f"failed for {named_list(failed)}" if failed else f"passed for all {groups} groups"
        yield Doubt(f"overlap and calibration checks {text}", bool(failed))
    if is_open := sum(bool(of_kind(c["contributions"], OPEN)) for c in comparisons):
        yield Doubt(f"features without a clear verdict in {is_open} of {groups} groups", True)
    if warned := sum(bool(warnings_of(c)) for c in comparisons):
        yield Doubt(f"warnings about {warned} of {groups} groups below", True)
    if "provenance" in summary and not summary["provenance"]["stated"]:
        yield Doubt("no provenance recorded", True)


def _states(comparisons: list[Record]) -> Iterator[str]:
    """Yield how many groups have a material gap, none, or an inconclusive one, by name."""
    other = label(comparisons[0]["reference"], SHORT)
    parts = []
    for status, words in STATES.items():
        for is_worse in (True, False) if status is Materiality.MATERIAL else (None,):
            chosen = [c for c in comparisons if gap_status(c) is status and is_worse in (None, fares_worse(c))]
            whose = {True: " to their disadvantage", False: " to their advantage", None: ""}[is_worse]
            if chosen:
                parts.append(f"{len(chosen)} with {words}{whose} ({named_list([c['audited'] for c in chosen])})")
    if parts:
        yield f"Of {len(comparisons)} groups compared with {other}: {'; '.join(parts)}."


def tiles(summary: Record, c: Record) -> list[Tile]:
    """Return the numbers of the first screen: gap, adjusted gap and ratio; without features the shortfall as well."""
    if c["unobserved_group"] is not None:
        return list(_soft_tiles(c))
    numbers = [_gap_tile(summary, c, key) for key in ("gap", "adjusted_gap") if c[key] is not None]
    numbers += _ratio_tiles(summary, c)
    return numbers if c["adjusted_gap"] is not None or c["shortfall"] is None else [*numbers, _shortfall(c)]


def _gap_tile(summary: Record, c: Record, key: str) -> Tile:
    """Return a gap with its unit, interval and definition."""
    m, item, estimate = measure_of(c), quantity(key), c[key]
    write = brief(estimate, m)
    low, high = estimate["low"], estimate["high"]
    ends = "" if low is None else f"{level_name(summary)} {interval(low, high, write)}; "
    return Tile(item.label, m.with_unit(write(estimate["value"])), f"{ends}{fill(item.definition, m)}")


def _ratio_tiles(summary: Record, c: Record) -> Iterator[Tile]:
    key = "adverse_impact_ratio" if is_of_decisions(c) else "impact_ratio"
    if (estimate := c[key]) is None:
        return
    notes = [] if estimate["low"] is None else [f"{level_name(summary)} {_ends(estimate)}"]
    notes += [against_four_fifths(estimate)] if is_of_decisions(c) else []
    yield Tile(quantity(key).label, ratio(estimate["value"]), "; ".join([*notes, ratio_words(c)]))


def ratio_words(c: Record) -> str:
    """Return whose rates a ratio divides, and rates of what: for low scores they are not the means of the gap."""
    m, who, other = measure_of(c), label(c["audited"], SHORT), label(c["reference"], SHORT)
    if is_favourable_mean(c) or m.is_amount or metric_of(c):
        what = m.predicted if m.each == "score" else m.rate
        return f"{what}{m.among}, {who} ÷ {other}"
    rates = " ÷ ".join(m.level(c["outputs"]["rates"][role]["value"]) for role in ("audited", "reference"))
    if m.each == "decision":
        return f"of the favourable decision{f', {m.favoured}' if m.favoured else ''}: {rates}, {who} ÷ {other}"
    return f"of the favourable outcome, 100% minus the score: {rates}, {who} ÷ {other}"


def _ends(estimate: Record) -> str:
    return interval(estimate["low"], estimate["high"], ratio)


def _soft_tiles(c: Record) -> Iterator[Tile]:
    """Yield both estimates and the limits of the gap between unobserved groups."""
    m: Measure = measure_of(c)
    for key, name, note in (
        ("weighted", "weighted gap", "each row counts in both groups by its probabilities"),
        ("linear", quantity("linear").label, fill(quantity("linear").definition, m)),
    ):
        if (estimate := c["unobserved_group"][key]) is not None:
            ends = interval(estimate["low"], estimate["high"], m.difference)
            note = note if estimate["low"] is None else f"{ends}; {note}"
            yield Tile(name, m.with_unit(m.difference(estimate["value"])), note)
    if (limits := c["unobserved_group"]["limits"]) is not None:
        ends = interval(limits["low"], limits["high"], m.difference)
        yield Tile(quantity("limits").label, m.with_unit(ends), quantity("limits").definition)


def _shortfall(c: Record) -> Tile:
    estimate, m = c["shortfall"], measure_of(c)
    ends = "" if estimate["low"] is None else f"{interval(estimate['low'], estimate['high'], m.total)}; "
    return Tile(quantity("shortfall").label, m.total(estimate["value"]), f"{ends}{m.affected_words}")


def reliability(summary: Record, c: Record) -> Iterator[Doubt]:
    """Yield how reliable a comparison is, a short line each."""
    rows, checks, m = c["contributions"], checks_of(c), measure_of(c)
    yield Doubt(f"{count(c['rows']['audited'])} and {count(c['rows']['reference'])} {m.people}{expected(c)}", False)
    if c["unobserved_group"]:
        status = c["unobserved_group"]["status"]
        yield Doubt(f"group probabilities: {status}", status != "checked")
    if c["gap"]["low"] is None:
        yield Doubt("plug-in values: no intervals, no verdicts", True)
    elif c["gap_test"] and "settings" in summary:
        p = c["gap_test"]["p_value"]
        is_sure = is_significant(p, summary["settings"]["confidence"], len(summary["comparisons"]))
        is_doubt = not is_sure and gap_status(c) is not Materiality.NOT_MATERIAL
        yield Doubt(f"gap {'' if is_sure else 'not '}statistically significant ({p_value(p)})", is_doubt)
    if checks is not None:
        result = "passed" if checks["is_adequate"] else "failed"
        yield Doubt(f"overlap and calibration checks {result}", not checks["is_adequate"])
    if is_open := len(of_kind(rows, OPEN)):
        yield Doubt(f"{is_open} of {len(rows)} features without a clear verdict", True)
    if warnings := len(warnings_of(c)):
        yield Doubt(f"{warnings} warning{'s' if warnings > 1 else ''} below", True)
    if "provenance" in summary and not summary["provenance"]["stated"]:
        yield Doubt("no provenance recorded", True)
