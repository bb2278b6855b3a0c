"""Distributions of the correction function: over the audited group, and per value of a feature (the paper's Fig. 2)."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import GROUP, labels
from tiltlens.documents.summary_access import Record, dial_place, dial_words, profile_of, steps, values_shown
from tiltlens.figures.distributions import HIDDEN, NO_SHAPE, WITHHELD
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, FAINT, PAPER, QUIET, WIDTH, altair
from tiltlens.formats import label, percent

MEANING = ["correction f̃", "over-represented ← 0 → under-represented"]
LOW, HIGH = -4.0, 4.0  # the ends of the bins are open
ROW = 78
SHORT = 22  # letters of a value's name, to leave room for its people


def correction_distribution(comparison: Record, position_index: int | None = None) -> Figure:
    """Return the distribution of f~ over the audited group at a position of the dial, by default the audit's own."""
    title = "How the correction is spread over the audited group"
    histograms = comparison["bins"]["correction"]
    if not histograms:
        return nothing(title, "there is no correction to show")
    position = dial_place(comparison, position_index)
    shares = histograms[position]
    records = [
        {"from": low, "to": high, "share": share, "withheld": share is None, "middle": (low + high) / 2}
        | {"shown": HIDDEN if share is None else percent(share)}
        for (low, high), share in zip(steps(LOW, HIGH, len(shares)), shares, strict=True)
    ]
    if not any(shares):
        return nothing(title, NO_SHAPE)
    name = label(comparison["audited"], GROUP)
    where = dial_words(comparison, position)
    description = (
        f"Histogram of the correction function over the audited group, {where}. Profiles right of 0 are "
        "under-represented among them, those left of 0 over-represented."
    )
    note = WITHHELD if None in shares else ""
    chart = _histogram(_domain(_ever_used(histograms)))
    return figure(chart, records, title, description, name, where, note)


def _ever_used(histograms: list[list[float | None]]) -> list[Record]:
    """Return the bins with people at any position: the axis stays where it is when the dial turns."""
    used = [any(share != 0 for share in shares) for shares in zip(*histograms, strict=True)]
    edges = zip(steps(LOW, HIGH, len(used)), used, strict=True)
    return [{"from": low, "to": high, "share": float(is_used)} for (low, high), is_used in edges]


def _histogram(domain: list[float]) -> Any:
    alt = altair()
    bars = (
        alt.Chart()
        .mark_bar(color=AUDITED, stroke=PAPER, strokeWidth=0.6, clip=True)
        .encode(
            x=alt.X("from:Q", title=MEANING, scale=alt.Scale(domain=domain, nice=False)),
            x2=alt.X2(field="to"),
            y=alt.Y("share:Q", title="share of the audited group", axis=alt.Axis(format=".0%")),
            y2=alt.Y2(datum=0),
            tooltip=[
                alt.Tooltip("from:Q", title="f̃ from", format=".2f"),
                alt.Tooltip("to:Q", title="f̃ to", format=".2f"),
                alt.Tooltip("shown:N", title="share of the audited group"),
            ],
        )
    )
    hidden = alt.Chart().transform_filter("datum.withheld").mark_text(text="✕", fontSize=9, dy=-6, color=QUIET)
    hidden = hidden.encode(x=alt.X("middle:Q"), y=alt.Y(datum=0))
    return alt.layer(bars, hidden, _zero_line()).properties(width=WIDTH, height=240)


def _zero_line() -> Any:
    alt = altair()
    return alt.Chart(data([{"zero": 0}], "zero")).mark_rule(color=FAINT, strokeDash=[4, 3]).encode(x=alt.X("zero:Q"))


def _domain(records: list[Record]) -> list[float]:
    """Return where there are people, with 0 inside."""
    seen = [end for record in records if record["share"] != 0 for end in (record["from"], record["to"])]
    return [max(min([*seen, 0.0]) - 0.2, LOW), min(max([*seen, 0.0]) + 0.2, HIGH)]


def correction_by_value(comparison: Record, feature: str) -> Figure:
    """Return the distributions of f~ for each value of a feature, one above the other (the paper's Fig. 2)."""
    values = profile_of(comparison, feature)
    title = f"The correction by value of {label(feature, 40)}"
    records = [record for row, value in enumerate(values) for record in _bins_of(value, len(values) - 1 - row)]
    tallest = max((record["share"] or 0.0 for record in records), default=0.0)
    if tallest == 0.0:
        return nothing(title, "no value has ten people in a bin, or there are too many values: nothing can be shown")
    for record in records:
        if record["share"] is not None:
            record["top"] = record["bottom"] + 0.9 * record["share"] / tallest
    description = (
        "One histogram of the correction function per value of the feature, over the audited group. Where the "
        "histograms differ, the feature is part of the correction; where they are alike, it is not. "
        f"Values: {', '.join(value['label'] for value in values)}."
    )
    note = WITHHELD if any(record["withheld"] for record in records) else ""
    chart = _ridges(records, values)
    people = f"share of the {label(comparison['audited'], GROUP)} people with each value"
    return figure(chart, records, title, description, people, values_shown(comparison, feature), note)


def _bins_of(value: Record, bottom: int) -> list[Record]:
    """Return the bins that have people, or withhold how many."""
    counts = value["correction"]
    if counts is None or not value["n"]:
        return []
    return [
        {
            "value": value["value"],
            "label": value["label"],
            "full": value["full"],
            "people": value["n"],
            "from": low,
            "to": high,
        }
        | {"count": count, "share": None if count is None else count / value["n"], "withheld": count is None}
        | {"shown": HIDDEN if count is None else f"{count:,}"}
        | {"bottom": bottom, "top": None, "middle": (low + high) / 2}
        for (low, high), count in zip(steps(LOW, HIGH, len(counts)), counts, strict=True)
        if count != 0  # most bins are empty, and there may be hundreds of values
    ]


def _ridges(records: list[Record], values: list[Record]) -> Any:
    alt = altair()
    high = alt.Y("bottom:Q", axis=None, scale=alt.Scale(domain=[0, len(values)], nice=False, zero=True))
    x = alt.X("from:Q", title=MEANING, scale=alt.Scale(domain=_domain(records), nice=False))
    bars = (
        alt.Chart()
        .mark_rect(color=AUDITED, stroke=PAPER, strokeWidth=0.4)
        .encode(
            x=x,
            x2=alt.X2(field="to"),
            y=high,
            y2=alt.Y2(field="top"),
            tooltip=[
                alt.Tooltip("full:N", title="value"),
                alt.Tooltip("from:Q", title="f̃ from", format=".2f"),
                alt.Tooltip("to:Q", title="f̃ to", format=".2f"),
                alt.Tooltip("shown:N", title="people"),
            ],
        )
        .transform_filter("datum.count > 0")
    )
    hidden = alt.Chart().transform_filter("datum.withheld").mark_text(text="✕", fontSize=9, dy=-6, color=QUIET)
    lines = alt.Chart(data([{"bottom": row} for row in range(len(values))], "baselines")).mark_rule(color=FAINT)
    drawn = alt.layer(lines.encode(y=high), _zero_line(), bars, hidden.encode(x=alt.X("middle:Q"), y=high))
    return (
        alt.layer(drawn, _value_axis(values))
        .resolve_scale(y="independent")
        .properties(width=WIDTH, height=max(ROW * len(values), 80))
    )


def _value_axis(values: list[Record]) -> Any:
    """Return an axis that names the rows: marks nobody sees, at their middles."""
    alt = altair()
    names = labels((value["value"] for value in values), SHORT)
    people = ["withheld" if value["n"] is None else f"{value['n']:,} people" for value in values]
    rows = [{"label": f"{name} ({count})"} for name, count in zip(names, people, strict=True)]
    axis = alt.Axis(title=None, grid=False, ticks=False, domain=False, orient="left", labelLimit=250)
    return alt.Chart(data(rows, "values")).mark_point(opacity=0).encode(y=alt.Y("label:N", sort=None, axis=axis))
