"""Each feature's share of the correction, at one setting and along the trade-off."""

from __future__ import annotations

import polars as pl

from tiltlens.documents.labels import labels, strongest, versus
from tiltlens.documents.quantities import written
from tiltlens.figures.figure import Figure, Record, data, figure, in_unit, noted, nothing
from tiltlens.figures.marks import axis, dots, interval, name_axis, scaled, tooltip
from tiltlens.figures.parts import FULL, features
from tiltlens.figures.placement import spread
from tiltlens.figures.theme import DASHES, LINES, WIDTH, ChartPart, altair
from tiltlens.formats import label, number, whole_percent, with_interval
from tiltlens.results.comparison import Comparison

DIAL_LINES = len(LINES)
HEIGHT = 320
ROW = 28


def correction_shares(c: Comparison) -> Figure:
    """Return each feature's share of the correction alone, with its interval."""
    rows = features(c)
    title = "Share of the correction achieved by each feature alone"
    records = [
        {"feature": row.feature, "label": text, "full": label(row.feature, FULL)}
        | scaled({"share": row.share}, 1.0)
        | {"text": written(row.share, whole_percent)}
        for text, row in rows
    ]
    if all(record["share"] is None for record in records):
        raise nothing(title, "the data determine no share")
    parts = ", ".join(f"{text} {whole_percent(row.share)}" for text, row in rows[:5])
    description = (
        f"{versus(c)}. One dot per feature: the share of the correction achieved by moving the distribution "
        f"of this feature alone: {parts}."
    )
    has_ends = any(record["share_low"] is not None for record in records)
    overlap = "features overlap, so shares do not sum to 100%"
    more = strongest(len(c.by_feature), len(rows))
    note = noted(c, overlap, more, intervals="CI" if has_ends else "")
    reading = {"full": "feature", "text": "share of the correction"}
    what, y = "share of the correction", name_axis()
    x = axis("x", "share", what, [0, 1], format=".0%")
    chart = altair().layer(interval("x", "share", what, y), dots("share").encode(x=x, y=y, tooltip=tooltip(reading)))
    chart = chart.properties(width=WIDTH, height=ROW * len(records))
    return figure(chart, records, title, description, reading, in_unit(c, "% of the correction"), note)


def shares_along_tradeoff(c: Comparison, table: pl.DataFrame | None = None) -> Figure:
    """Return the shares from "align inputs" (0) to "align outputs" (1), one line per feature.

    `table` is `Correction.shares_along_tradeoff(positions)` if the usual 21 positions are too few.
    """
    title = "Share of the correction by weight on outputs"
    rows = (c.correction.shares_along_tradeoff() if table is None else table).to_dicts()
    names = list(dict.fromkeys(row["feature"] for row in rows if row["share"] is not None))
    if not names:
        raise nothing(title, "the data determine no share")
    texts = dict(zip(names, labels(names), strict=True))
    line_of = {name: number for number, name in enumerate(names[:DIAL_LINES])}
    records = [
        row
        | {"label": texts[row["feature"]], "line": f"line {line_of[row['feature']] + 1}"}
        | {"text": with_interval(row["share"], row["low"], row["high"], whole_percent)}
        | {"position_text": number(row["position"], 2)}
        for row in rows
        if row["feature"] in line_of
    ]
    description = (
        f"{versus(c)}. One line per feature: its share of the correction, from aligning the inputs only "
        "(left) to aligning the outputs only (right). If a line changes, one setting alone would mislead."
    )
    has_bands = any(record["low"] is not None for record in records)
    more = strongest(len(names), len(line_of))
    note = noted(c, "" if has_bands else "plug-in values", more, intervals="CI" if has_bands else "")
    reading = {"label": "feature", "position_text": "weight on outputs", "text": "share"}
    chart = _lines(records, len(line_of), tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(c, "% of the correction"), note)


def _lines(records: list[Record], count: int, tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    names = [f"line {number + 1}" for number in range(count)]
    top = min(1.0, 1.05 * max(max(record["share"] or 0.0, record["high"] or 0.0) for record in records)) or 1.0
    x = axis("x", "position", "← weight on inputs | weight on outputs →", [0, 1])
    y = axis("y", "share", "share of the correction", [0, top], format=".0%")
    colour = alt.Color("line:N", scale=alt.Scale(domain=names, range=LINES[:count]), legend=None)
    dash = alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=DASHES[:count]), legend=None)
    base = alt.Chart().encode(x=x, color=colour)
    bands = base.transform_filter("datum.low != null && datum.high != null").mark_area(opacity=0.1)
    layers = [
        bands.encode(y=alt.Y("low:Q", title=y["title"]), y2=alt.Y2(field="high")),
        base.mark_line(strokeWidth=2.4).encode(y=y, strokeDash=dash),
        base.mark_point(opacity=0, size=120).encode(y=y, tooltip=tips),
        _ends(records, top, colour, x),
    ]
    return alt.layer(*layers).properties(width=WIDTH - 120, height=HEIGHT)


def _ends(records: list[Record], top: float, colour: ChartPart, x: ChartPart) -> ChartPart:
    """Return the names of lines at their right ends, moved apart."""
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
