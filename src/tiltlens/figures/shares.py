"""Each feature's share of the correction, at one setting and along the dial."""

from __future__ import annotations

from typing import Any

import polars as pl

from tiltlens.documents.labels import labels, strongest, versus
from tiltlens.documents.summary_access import Record, features
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.placement import spread
from tiltlens.figures.theme import AUDITED, DASHES, LINES, WIDTH, altair
from tiltlens.formats import whole_percent, with_interval

DIAL_LINES = len(LINES)
HEIGHT = 320
ROW = 28


def correction_shares(comparison: Record) -> Figure:
    """Return each feature's share of the correction by itself, with its interval."""
    rows = features(comparison)
    title = "Shares of the correction"
    records = [_record(row) for row in rows]
    if all(record["share"] is None for record in records):
        return nothing(title, "no share is determined by these data")
    parts = ", ".join(f"{row['label']} {whole_percent(row['share'])}" for row in rows[:5])
    description = (
        f"{versus(comparison)}. For each feature a dot for the share of the correction to be had by moving its "
        f"distribution alone: {parts}."
    )
    note = "by each feature alone; features overlap, so shares do not sum to 100%"
    more = strongest(len(comparison["contributions"]), len(rows))
    return figure(_dots(records), records, title, description, note, more)


def _record(row: Record) -> Record:
    share, low, high = row["share"], row["share_low"], row["share_high"]
    record = {
        "feature": row["feature"],
        "label": row["label"],
        "full": row["full"],
        "share": share,
        "low": low,
        "high": high,
    }
    return record | {"text": with_interval(share, low, high, whole_percent)}


def _dots(records: list[Record]) -> Any:
    alt = altair()
    y = alt.Y("label:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=True))
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(format=".0%")
    x = alt.X("share:Q", title="share of the correction", scale=scale, axis=axis)
    tooltip = [alt.Tooltip("full:N", title="feature"), alt.Tooltip("text:N", title="share")]
    base = alt.Chart().encode(y=y)
    whiskers = base.transform_filter("datum.low != null && datum.high != null")
    whiskers = whiskers.mark_rule(strokeWidth=1.6, color=AUDITED)
    dots = base.transform_filter("datum.share != null")
    dots = dots.mark_point(filled=True, size=85, opacity=1, color=AUDITED).encode(x=x, tooltip=tooltip)
    layers = [whiskers.encode(x=alt.X("low:Q", title=x["title"]), x2=alt.X2(field="high")), dots]
    return alt.layer(*layers).properties(width=WIDTH, height=ROW * len(records))


def shares_along_tradeoff(comparison: Record, table: pl.DataFrame | None = None) -> Figure:
    """Return the shares from "align inputs" (0) to "align outputs" (1), one line a feature.

    `table` is `Correction.shares_along_tradeoff(positions)` where the summary's 21 positions will not do.
    """
    title = "Shares of the correction along the dial"
    rows = comparison["correction"]["tradeoff_table"] if table is None else table.to_dicts()
    names = list(dict.fromkeys(row["feature"] for row in rows if row["share"] is not None))
    if not names:
        return nothing(title, "no share is determined along the dial")
    texts = dict(zip(names, labels(names), strict=True))
    line_of = {name: number for number, name in enumerate(names[:DIAL_LINES])}
    records = [
        {"position": row["position"], "feature": row["feature"], "label": texts[row["feature"]]}
        | {"line": f"line {line_of[row['feature']] + 1}", "share": row["share"], "low": row["low"], "high": row["high"]}
        | {"text": with_interval(row["share"], row["low"], row["high"], whole_percent)}
        for row in rows
        if row["feature"] in line_of
    ]
    description = (
        f"{versus(comparison)}. One line a feature: its share of the correction, from aligning the inputs only (left) "
        "to aligning the outputs only (right). A line that moves says that one setting alone would mislead."
    )
    more = strongest(len(names), len(line_of))
    band = (
        "bands: intervals" if any(record["low"] is not None for record in records) else "plug-in values, no intervals"
    )
    return figure(_lines(records, len(line_of)), records, title, description, band, more)


def _lines(records: list[Record], count: int) -> Any:
    alt = altair()
    names = [f"line {number + 1}" for number in range(count)]
    most = max(max(record["share"] or 0.0, record["high"] or 0.0) for record in records)
    top = min(1.0, 1.05 * most) or 1.0
    x = alt.X(
        "position:Q",
        title="position of the dial: 0 aligns inputs → 1 aligns outputs",
        scale=alt.Scale(domain=[0, 1], nice=False),
    )
    y = alt.Y(
        "share:Q",
        title="share of the correction",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(format=".0%"),
    )
    colour = alt.Color("line:N", scale=alt.Scale(domain=names, range=LINES[:count]), legend=None)
    dash = alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=DASHES[:count]), legend=None)
    base = alt.Chart().encode(x=x, color=colour)
    bands = base.transform_filter("datum.low != null && datum.high != null").mark_area(opacity=0.1)
    lines = base.mark_line(strokeWidth=2.4).encode(y=y, strokeDash=dash)
    tooltip = [
        alt.Tooltip("label:N", title="feature"),
        alt.Tooltip("position:Q", title="position", format=".2f"),
        alt.Tooltip("text:N", title="share"),
    ]
    dots = base.mark_point(opacity=0, size=120).encode(y=y, tooltip=tooltip)
    layers = [
        bands.encode(y=alt.Y("low:Q", title=y["title"]), y2=alt.Y2(field="high")),
        lines,
        dots,
        _ends(records, top, colour, x),
    ]
    return alt.layer(*layers).properties(width=WIDTH - 120, height=HEIGHT)


def _ends(records: list[Record], top: float, colour: Any, x: Any) -> Any:
    """Return the lines' names at their right ends, moved apart."""
    alt = altair()
    last = max(record["position"] for record in records)
    ends = [record for record in records if record["position"] == last and record["share"] is not None]
    heights = spread([record["share"] for record in ends], 15 * top / HEIGHT)
    named = [
        {"position": last, "line": record["line"], "label": record["label"], "height": height}
        for record, height in zip(ends, heights, strict=True)
    ]
    texts = alt.Chart(data(named, "names")).mark_text(align="left", dx=7, fontWeight=600, limit=170)
    return texts.encode(x=x, y=alt.Y("height:Q"), text=alt.Text("label:N"), color=colour)
