"""Distributions of the correction function: over the audited group, and per value of a feature (the paper's Fig. 2)."""

from __future__ import annotations

from tiltlens.analysis.bins import ValueProfile
from tiltlens.documents.labels import GROUP, labels
from tiltlens.figures.distributions import HIDDEN, NO_SHAPE, WITHHELD
from tiltlens.figures.figure import Figure, Record, data, figure, joined, noted, nothing
from tiltlens.figures.marks import axis, tooltip
from tiltlens.figures.parts import FULL, dial_place, dial_words, profile_of, steps, values_shown
from tiltlens.figures.theme import AUDITED, FAINT, PAPER, QUIET, WIDTH, ChartPart, altair
from tiltlens.formats import count, label, number, percent
from tiltlens.results.comparison import Comparison

MEANING = "correction f̃:  ← over-represented | under-represented →"
LOW, HIGH = -4.0, 4.0  # the ends of the bins are open
ROW = 78
SHORT = 22  # letters of a value's name, to leave room for its people


def correction_distribution(c: Comparison, position_index: int | None = None) -> Figure:
    """Return the distribution of f~ over the audited group at a position of the dial, by default the audit's own."""
    title = "Distribution of the correction in the audited group"
    histograms = c.bins().correction
    if not histograms:
        raise nothing(title, "the audit has no correction")
    position = dial_place(c, position_index)
    shares = histograms[position]
    records = [
        {"from": low, "to": high, "share": share, "withheld": share is None, "middle": (low + high) / 2}
        | {"bin": _bin(low, high), "shown": HIDDEN if share is None else percent(share)}
        for (low, high), share in zip(steps(LOW, HIGH, len(shares)), shares, strict=True)
    ]
    if not any(shares):
        raise nothing(title, NO_SHAPE)
    where = dial_words(c, position)
    description = (
        f"Histogram of the correction function over the audited group, {where}. Profiles right of 0 are "
        "under-represented among them, those left of 0 over-represented."
    )
    used = [any(share != 0 for share in column) for column in zip(*histograms, strict=True)]  # at any position
    ends = [edge for edge, is_used in zip(steps(LOW, HIGH, len(used)), used, strict=True) if is_used]
    reading = {"bin": "correction f̃", "shown": "share of the audited group"}
    note = noted(c, where, WITHHELD if None in shares else "", intervals="")
    subtitle = f"% of {label(c.audited, GROUP)} (audited)"
    chart = _histogram(_domain(ends), tooltip(reading))
    return figure(chart, records, title, description, reading, subtitle, note)


def _bin(low: float, high: float) -> str:
    return f"{number(low, 2)} to {number(high, 2)}"


def _histogram(domain: list[float], tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    bars = alt.Chart().mark_bar(color=AUDITED, stroke=PAPER, strokeWidth=0.6, clip=True)
    bars = bars.encode(
        x=axis("x", "from", MEANING, domain),
        x2=alt.X2(field="to"),
        y=alt.Y("share:Q", title="share of the audited group", axis=alt.Axis(format=".0%")),
        y2=alt.Y2(datum=0),
        tooltip=tips,
    )
    hidden = alt.Chart().transform_filter("datum.withheld").mark_text(text="✕", fontSize=9, dy=-6, color=QUIET)
    hidden = hidden.encode(x=alt.X("middle:Q"), y=alt.Y(datum=0))
    return alt.layer(bars, hidden, _zero_line()).properties(width=WIDTH, height=240)


def _zero_line() -> ChartPart:
    alt = altair()
    return alt.Chart(data([{"zero": 0}], "zero")).mark_rule(color=FAINT, strokeDash=[4, 3]).encode(x=alt.X("zero:Q"))


def _domain(bins: list[tuple[float, float]]) -> list[float]:
    """Return where there are people, with 0 inside."""
    ends = [0.0, *(end for edges in bins for end in edges)]
    return [max(min(ends) - 0.2, LOW), min(max(ends) + 0.2, HIGH)]


def correction_by_value(c: Comparison, feature: str) -> Figure:
    """Return the distributions of f~ for each value of a feature, one above the other (the paper's Fig. 2)."""
    values = profile_of(c, feature)
    title = f"Correction by value of {label(feature, 40)}"
    records = [
        record for row, (text, value) in enumerate(values) for record in _bins_of(text, value, len(values) - 1 - row)
    ]
    tallest = max((record["share"] or 0.0 for record in records), default=0.0)
    if tallest == 0.0:
        raise nothing(title, "no value has ten people in a bin, or there are too many values")
    for record in records:
        if record["share"] is not None:
            record["top"] = record["bottom"] + 0.9 * record["share"] / tallest
    description = (
        "One histogram of the correction function per value of the feature, over the audited group. Where the "
        "histograms differ, the feature is part of the correction; where they are equal, it is not. "
        f"Values: {', '.join(text for text, _ in values)}."
    )
    is_hidden = any(record["withheld"] for record in records)
    note = noted(c, values_shown(c, feature), f"not drawn: bins {HIDDEN}" if is_hidden else "", intervals="")
    reading = {"full": "value", "bin": "correction f̃", "shown": "people"}
    subtitle = joined(f"% of {label(c.audited, GROUP)} (audited) with each value")
    return figure(
        _ridges(records, [value for _, value in values], tooltip(reading)),
        records,
        title,
        description,
        reading,
        subtitle,
        note,
    )


def _bins_of(text: str, value: ValueProfile, bottom: int) -> list[Record]:
    """Return the bins that have people, or withhold how many."""
    counts, people = value.correction, value.n
    if counts is None or not people:
        return []
    named = {"value": value.value, "label": text, "full": label(value.value, FULL), "people": value.n}
    return [
        named
        | {"from": low, "to": high, "bin": _bin(low, high), "middle": (low + high) / 2}
        | {"count": n, "share": None if n is None else n / people, "withheld": n is None}
        | {"shown": HIDDEN if n is None else count(n), "bottom": bottom, "top": None}
        for (low, high), n in zip(steps(LOW, HIGH, len(counts)), counts, strict=True)
        if n != 0  # most bins are empty, and there may be hundreds of values
    ]


def _ridges(records: list[Record], values: list[ValueProfile], tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    high = alt.Y("bottom:Q", axis=None, scale=alt.Scale(domain=[0, len(values)], nice=False, zero=True))
    x = axis("x", "from", MEANING, _domain([(record["from"], record["to"]) for record in records]))
    bars = alt.Chart().mark_rect(color=AUDITED, stroke=PAPER, strokeWidth=0.4).transform_filter("datum.count > 0")
    bars = bars.encode(x=x, x2=alt.X2(field="to"), y=high, y2=alt.Y2(field="top"), tooltip=tips)
    lines = alt.Chart(data([{"bottom": row} for row in range(len(values))], "baselines")).mark_rule(color=FAINT)
    both = alt.layer(alt.layer(lines.encode(y=high), _zero_line(), bars), _value_axis(values))
    return both.resolve_scale(y="independent").properties(width=WIDTH, height=max(ROW * len(values), 80))


def _value_axis(values: list[ValueProfile]) -> ChartPart:
    """Return an axis that names the rows: marks nobody sees, at their middles."""
    alt = altair()
    names = labels((value.value for value in values), SHORT)
    people = ["suppressed" if value.n is None else f"{value.n:,} people" for value in values]
    rows = [{"label": f"{name} ({text})"} for name, text in zip(names, people, strict=True)]
    axis = alt.Axis(title=None, grid=False, ticks=False, domain=False, orient="left", labelLimit=250)
    return alt.Chart(data(rows, "values")).mark_point(opacity=0).encode(y=alt.Y("label:N", sort=None, axis=axis))
