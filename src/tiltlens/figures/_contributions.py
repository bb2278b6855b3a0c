"""Figures of features: contributions, the proxy map, and shares of the correction."""

from __future__ import annotations

import math
from typing import NamedTuple

import polars as pl

from tiltlens._documents.document import disadvantage_sign, labels, measure_of, strongest, versus
from tiltlens._documents.headline import gap_name
from tiltlens._documents.quantities import FEATURES, brief, format_of, written
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import label, number, whole_percent, with_interval
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import Contribution
from tiltlens._rows.wording import Measure
from tiltlens.figures import _marks as draw
from tiltlens.figures._figure import Figure, figure, in_unit, joined, noted, nothing
from tiltlens.figures._marks import ChartPart, Record, alt

FEATURE_ROW = 38
LEAST = 8  # features that are always drawn, however weak
ABOVE, BELOW = -8, 9  # offset in pixels of the bar and of the mark below it from the middle of a row
NAMES = ("alone", "beyond_others")


def features(c: Comparison, materiality: float | None = None, shown: int = draw.SHOWN) -> Figure:
    """Draw one bar per feature: its contribution alone, with a mark for its contribution beyond the others."""
    rows = _without_weak(draw.drawn_features(c, shown))
    if not rows:
        raise nothing("Contribution of each feature", "the audit has no features")
    m, threshold = measure_of(c), c.scale.materiality if materiality is None else materiality
    gap = c.gap
    title = f"Contribution of each feature to the {gap_name(c)} of {m.with_unit(brief(gap, m)(gap.value))}"
    records = [_contribution(text, row, m, disadvantage_sign(c)) for text, row in rows]
    parts = ", ".join(f"{text} {m.difference(row.alone)} ({row.verdict})" for text, row in rows[:5])
    description = (
        f"{versus(c)}. One bar per feature: its contribution alone, in {m.long_unit} of the {m.output}; the "
        f"mark below it is its contribution beyond the others. {parts}."
    )
    has_bands = any(record["alone_low"] is not None for record in records)
    note = noted(
        c,
        f"dashed: materiality threshold, ±{m.with_unit(m.size(threshold))}",
        "given the exempt factors" if c.gap_parts.exempt else "",
        strongest(len(c.by_feature), len(rows)),
        intervals="simultaneous confidence bands" if has_bands else "",
    )
    subtitle = joined(in_unit(c, m.long_unit), "bar: alone; ◆: beyond the others")
    reading = {
        "full": "feature",
        "alone_text": m.headed("contribution alone"),
        "beyond_others_text": m.headed("contribution beyond the others"),
        "verdict": "verdict",
        "reason": "reason",
    }
    chart = _bars(c, records, m.factor * threshold, draw.tooltip(reading), m)
    return figure(chart, records, title, description, reading, subtitle, note)


def _without_weak(rows: list[tuple[str, Contribution]]) -> list[tuple[str, Contribution]]:
    """Return the rows up to the last without the verdict "no material contribution", but at least `LEAST`."""
    places = (index for index, (_, row) in enumerate(rows, 1) if row.verdict != Verdict.NO_MATERIAL_CONTRIBUTION)
    return rows[: max([LEAST, *places])]


def _contribution(text: str, row: Contribution, m: Measure, sign: int) -> Record:
    estimates = {"alone": row.alone, "beyond_others": row.beyond_others}
    return (
        {"feature": row.feature, "label": text, "full": label(row.feature, draw.FULL)}
        | {"verdict": str(row.verdict), "reason": row.reason}
        | draw.scaled(estimates, m.factor)
        | {f"{name}_text": written(estimate, m.difference) for name, estimate in estimates.items()}
        | {"zero": 0.0, "is_disadvantage": sign * (row.alone or 0.0) > 0.0}
        | {"missing": str(row.verdict) if row.alone is None else None}
    )


def _bars(c: Comparison, records: list[Record], threshold: float, tips: list[ChartPart], m: Measure) -> ChartPart:
    domain = draw.reach(records, NAMES, 0.0, -threshold, threshold, room=0.04)
    x, title = draw.directed_axis("x", "alone", f"contribution, in {m.long_unit}", domain, c)
    room = draw.LETTER * len(title[1])
    if disadvantage_sign(c) < 0:  # on a phone, a long title ends at the right edge
        x["axis"]["titleX"] = alt.expr(f"width < {room:.0f} ? width : 0")
        x["axis"]["titleAlign"] = alt.expr(f"width < {room:.0f} ? 'right' : 'left'")
    y = draw.name_axis(grid=False)
    colour = alt.condition("datum.is_disadvantage", alt.value(draw.DISADVANTAGE), alt.value(draw.FAINT))
    bars = alt.Chart().transform_filter("datum.alone != null").mark_bar(height=14, yOffset=ABOVE, opacity=0.75)
    missing = alt.Chart().transform_filter("datum.missing != null").mark_text(align="left", dx=5, color=draw.QUIET)
    diamonds = draw.dots("beyond_others", shape="diamond", size=75, yOffset=BELOW, color=draw.QUIET)
    layers = [
        draw.lines_at("x", (-threshold, 0.0, threshold), title),
        bars.encode(x=x, x2=alt.X2(field="zero"), y=y, color=colour, tooltip=tips),
        draw.interval("x", "alone", title, y, yOffset=ABOVE, color=draw.INK),
        draw.interval("x", "beyond_others", title, y, yOffset=BELOW, color=draw.QUIET),
        diamonds.encode(x=alt.X("beyond_others:Q", title=title), y=y, tooltip=tips),
        missing.encode(x=alt.X("zero:Q", title=title), y=y, text=alt.Text("missing:N")),
    ]
    return alt.layer(*layers).properties(width=draw.WIDTH, height=FEATURE_ROW * len(records))


ROUND = (1.0, 2.0, 5.0)  # leading digits of the levels of curves
DECADES = 5  # powers of ten below the largest level
LABELLED = 10
MOST = 1.04  # end of the axis of `reveals`, which is at most 1
MAP_HEIGHT = 400
LIMIT = 215
NARROW = 450  # width in pixels below which the names of the corners would overlap
FIELDS = ("reveals", "drives", "use", "alone", "alignment")


class VerticalAxis(NamedTuple):
    """The quantity on the vertical axis: its column, axis title, description, and the names of the right corners."""

    name: str
    title: str
    described: str
    corners: tuple[str, str]  # upper right, lower right

    def of(self, row: Contribution) -> Estimate | None:
        """Return the position of a feature on the vertical axis."""
        return row.use if self.name == "use" else row.drives


DRIVES = VerticalAxis(
    "drives",
    "association with the {output} within groups, in {unit} →",
    "is associated more with the {output} within groups. Curves join equal {unit} of the gap",
    ("reveals the group, associated with the {output}", "reveals the group only"),
)
USE = VerticalAxis(
    "use",
    "use: change of the {output}, all else equal, in {unit} →",
    "is used more by the {output}",
    ("contributes and is used", "stand-in: contributes, not used"),
)


def proxy_map(c: Comparison, materiality: float | None = None) -> Figure:
    """Return the proxy map: how much each feature reveals the group, and whether the score uses it.

    Use is estimated only for features with a material contribution. If there are none, the vertical axis is `drives`.
    """
    title = "Proxy map: use of each feature against how far it reveals the group"
    rows = [(text, row) for text, row in draw.drawn_features(c, None) if row.reveals is not None]
    up = USE if any(row.use is not None for _, row in rows) else DRIVES
    drawn = [pair for pair in rows if up.of(pair[1]) is not None]
    if not drawn:
        raise nothing(title, "no feature has both numbers of the map")
    m, threshold = measure_of(c), c.scale.materiality if materiality is None else materiality
    records = [_record(text, row, m, up, disadvantage_sign(c)) for text, row in drawn]
    right, top = min(_end(records, "reveals", 1.08), MOST), _end(records, "height", 1.15)  # the corners have names
    # Labels are placed for the usual width; wider pages only give them more space.
    corners = [text.format(output=m.output) for text in up.corners]
    named = draw.placed(
        records[:LABELLED], draw.WIDTH / right, MAP_HEIGHT / top, draw.WIDTH, MAP_HEIGHT, _corner_boxes(corners)
    )
    records = [record | position for record, position in zip(records, named, strict=False)] + records[LABELLED:]
    levels = _levels(right * top, threshold) if up is DRIVES else []
    description = (
        f"{versus(c)}. Each mark is a feature: further right it reveals the group more, further up it "
        f"{up.described.format(output=m.output, unit=m.long_unit)}. Strongest: {drawn[0][0]}, "
        f"{m.with_unit(m.difference(drawn[0][1].alone))}."
    )
    reading = {
        "full": "feature",
        "alone_text": m.headed("contribution alone"),
        "reveals_text": "reveals the group",
        "height_text": up.name,
        "alignment_text": "alignment",
        "verdict": "verdict",
    }
    chart = _map((right, top), levels, threshold, m, up, corners, draw.tooltip(reading))
    note = _note(c, len(rows), len(drawn), m.with_unit(m.size(threshold)), up)
    subtitle = joined(in_unit(c), "▲ adds to the disadvantage, ▽ does not")
    return figure(chart, records, title, description, reading, subtitle, note)


def _note(c: Comparison, count: int, drawn: int, threshold: str, up: VerticalAxis) -> str:
    left_out = f"not drawn: {count - drawn} without an estimate of {up.name}" if drawn < count else ""
    dashed = f"dashed: materiality threshold, {threshold}"
    curves = "curves: contribution to the gap" if up is DRIVES else ""
    labelled = f"named: at most the {LABELLED} strongest of {drawn}" if drawn > LABELLED else ""
    has_ends = any(row.reveals is not None and row.reveals.low is not None for row in c.by_feature)
    return noted(c, curves, dashed, left_out, labelled, intervals="CI" if has_ends else "")


def _record(text: str, row: Contribution, m: Measure, up: VerticalAxis, sign: int) -> Record:
    estimates: dict[str, Estimate | None] = {name: getattr(row, name) for name in FIELDS}
    height = up.of(row)
    value = None if height is None else height.value
    return {
        "feature": row.feature,
        "label": text,
        "full": label(row.feature, draw.FULL),
        "verdict": str(row.verdict),
        **draw.scaled(estimates | {"height": height}, 1.0),
        "is_disadvantage": sign * (row.alone or 0.0) > 0.0,
        "alone_text": written(row.alone, m.difference),
        "alignment_text": number(row.alignment, 2),
        "reveals_text": number(row.reveals, 2),
        "height_text": format_of(FEATURES[up.name].scale, m).value(value),
        **{"name": None, "dx": 0, "dy": 0, "align": "left"},
    }


def _corner_boxes(corners: list[str]) -> list[draw.Box]:
    """Return the boxes of the words in the upper and the lower right corner."""
    tops = (0.0, MAP_HEIGHT - draw.LINE - 6)
    return [
        (draw.WIDTH - draw.LETTER * len(t) - 6, top, draw.WIDTH, top + draw.LINE + 6)
        for t, top in zip(corners, tops, strict=True)
    ]


def _end(records: list[Record], name: str, room: float) -> float:
    """Return the end of an axis, beyond every mark and its interval."""
    return room * max(max(record[name], record[f"{name}_high"] or 0.0) for record in records) or 0.1


def _levels(most: float, materiality: float) -> list[float]:
    """Return at most five levels whose curves cross the map, including the materiality threshold."""
    is_drawn = 0 < materiality < most
    least = materiality if is_drawn else 0.0
    top = math.floor(math.log10(most)) if most > 0 else 0
    levels = [float(f"{digit}e{power}") for power in range(top - DECADES, top + 1) for digit in ROUND]
    rounds = [level for level in levels if least < level < 0.75 * most][-4:]
    return sorted([materiality, *rounds] if is_drawn else rounds)


def _curve(level: float, right: float, top: float, materiality: float) -> list[Record]:
    """Return points of the curve height = level / reveals within the map."""
    start, count = level / top, 32
    xs = [start * (right / start) ** (step / count) for step in range(count + 1)]
    return [
        {"level": level, "is_material": level == materiality, "step": step, "reveals": x, "height": level / x}
        for step, x in enumerate(xs)
    ]


def _curve_names(levels: list[float], right: float, top: float, m: Measure) -> list[Record]:
    """Return the names of the curves at their right ends, moved apart so that they do not overlap."""
    heights = draw.spread([level / right for level in levels], 13 * top / MAP_HEIGHT)
    return [
        {"reveals": right, "height": height} | {"name": m.with_unit(m.size(level))}
        for level, height in zip(levels, heights, strict=True)
    ]


def _map(
    ends: tuple[float, float],
    levels: list[float],
    materiality: float,
    m: Measure,
    up: VerticalAxis,
    corners: list[str],
    tips: list[ChartPart],
) -> ChartPart:
    right, top = ends
    x = draw.axis("x", "reveals", "reveals the group (0: not at all, 1: completely) →", [0, right])
    y = draw.axis("y", "height", up.title.format(output=m.output, unit=m.unit or m.long_unit), [0, top])
    y.axis = alt.Axis(labelExpr=f"format(datum.value * {m.factor}, '{m.difference_axis}')")
    lines = _curves(levels, right, top, materiality, m) if levels else []
    lines += [draw.lines_at("y", [materiality], y["title"], "threshold")] if up is USE else []
    whiskers = [
        draw.interval("x", "reveals", x["title"], y, color=draw.QUIET, strokeWidth=1.2),
        draw.interval("y", "height", y["title"], x, color=draw.QUIET, strokeWidth=1.2),
    ]
    named = [whisker.transform_filter("datum.name != null") for whisker in whiskers]
    layers = [*lines, *_corners(corners), *named, _marks(x, y, tips), *_names(x, y)]
    return alt.layer(*layers).properties(width=draw.WIDTH, height=MAP_HEIGHT)


def _corners(corners: list[str]) -> list[ChartPart]:
    opacity, layers = alt.expr(f"width < {NARROW} ? 0 : 1"), []
    for text, end, down in zip(corners, ("top", "bottom"), (6, MAP_HEIGHT - 10), strict=True):
        base = draw.chart([{"text": text}], f"corner_{end}")
        base = base.encode(text=alt.Text("text:N"), y=alt.value(down), x=alt.value("width"))
        style = {"color": draw.QUIET, "fontStyle": "italic", "limit": 320, "opacity": opacity}
        layers += draw.halo(base, align="right", baseline=end, dx=-6, **style)
    return layers


def _curves(levels: list[float], right: float, top: float, materiality: float, m: Measure) -> list[ChartPart]:
    curves = [point for level in levels for point in _curve(level, right, top, materiality)]
    base = draw.chart(curves, "curves").encode(x=alt.X("reveals:Q"), y=alt.Y("height:Q"))
    lines = base.mark_line(color=draw.FAINT, strokeWidth=1, clip=True).encode(
        detail=alt.Detail("level:N"),
        strokeDash=alt.condition("datum.is_material", alt.value([6, 3]), alt.value([1, 0])),
    )
    ends = draw.names_at(_curve_names(levels, right, top, m), "curve_names", dx=4, fontSize=11, color=draw.QUIET)
    return [lines, ends.encode(x=alt.X("reveals:Q"), y=alt.Y("height:Q"))]


def _marks(x: ChartPart, y: ChartPart, tips: list[ChartPart]) -> ChartPart:
    shape = alt.condition("datum.is_disadvantage", alt.value("triangle-up"), alt.value("triangle-down"))
    fill = alt.condition("datum.is_disadvantage", alt.value(draw.DISADVANTAGE), alt.value(draw.PAPER))
    stroke = alt.condition("datum.is_disadvantage", alt.value(draw.DISADVANTAGE), alt.value(draw.QUIET))
    marks = alt.Chart(name="marks").mark_point(size=130, opacity=1, strokeWidth=1.5, invalid=None)
    chosen = alt.selection_point(name="feature", fields=["feature"])
    return marks.encode(x=x, y=y, fill=fill, stroke=stroke, shape=shape, tooltip=tips).add_params(chosen)


def _names(x: ChartPart, y: ChartPart) -> list[ChartPart]:
    base = alt.Chart().transform_filter("datum.name != null").encode(x=x, y=y, text=alt.Text("name:N"))
    position = {"dx": alt.expr("datum.dx"), "dy": alt.expr("datum.dy"), "align": alt.expr("datum.align")}
    return draw.halo(base, fontWeight=600, limit=LIMIT, **position)


DIAL_LINES = len(draw.LINES)
HEIGHT = 320
ROW = 28


def correction_shares(c: Comparison) -> Figure:
    """Return each feature's share of the correction, if its distribution alone is moved, with its interval."""
    rows = draw.drawn_features(c)
    title = "Share of the correction achieved by each feature alone"
    records = [
        {"feature": row.feature, "label": text, "full": label(row.feature, draw.FULL)}
        | draw.scaled({"share": row.share}, 1.0)
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
    what, y = "share of the correction", draw.name_axis()
    x = draw.axis("x", "share", what, [0, 1], format=".0%")
    chart = alt.layer(
        draw.interval("x", "share", what, y), draw.dots("share").encode(x=x, y=y, tooltip=draw.tooltip(reading))
    )
    chart = chart.properties(width=draw.WIDTH, height=ROW * len(records))
    return figure(chart, records, title, description, reading, in_unit(c, "% of the correction"), note)


def shares_along_tradeoff(c: Comparison, table: pl.DataFrame | None = None) -> Figure:
    """Return each feature's share from "align inputs" (0) to "align outputs" (1), as one line.

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
    chart = _lines(records, len(line_of), draw.tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(c, "% of the correction"), note)


def _lines(records: list[Record], count: int, tips: list[ChartPart]) -> ChartPart:
    names = [f"line {number + 1}" for number in range(count)]
    top = min(1.0, 1.05 * max(max(record["share"] or 0.0, record["high"] or 0.0) for record in records)) or 1.0
    x = draw.axis("x", "position", "← weight on inputs | weight on outputs →", [0, 1])
    y = draw.axis("y", "share", "share of the correction", [0, top], format=".0%")
    colour = alt.Color("line:N", scale=alt.Scale(domain=names, range=draw.LINES[:count]), legend=None)
    dash = alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=draw.DASHES[:count]), legend=None)
    base = alt.Chart().encode(x=x, color=colour)
    bands = base.transform_filter("datum.low != null && datum.high != null").mark_area(opacity=0.1)
    layers = [
        bands.encode(y=alt.Y("low:Q", title=y["title"]), y2=alt.Y2(field="high")),
        base.mark_line(strokeWidth=2.4).encode(y=y, strokeDash=dash),
        base.mark_point(opacity=0, size=120).encode(y=y, tooltip=tips),
        _ends(records, top, colour, x),
    ]
    return alt.layer(*layers).properties(width=draw.WIDTH - 120, height=HEIGHT)


def _ends(records: list[Record], top: float, colour: ChartPart, x: ChartPart) -> ChartPart:
    """Return the names of the lines at their right ends, moved apart so that they do not overlap."""
    last = max(record["position"] for record in records)
    ends = [record for record in records if record["position"] == last and record["share"] is not None]
    heights = draw.spread([record["share"] for record in ends], 15 * top / HEIGHT)
    named = [
        {"position": last, "line": record["line"], "label": record["label"], "height": height}
        for record, height in zip(ends, heights, strict=True)
    ]
    texts = draw.chart(named, "names").mark_text(align="left", dx=7, fontWeight=600, limit=170)
    return texts.encode(x=x, y=alt.Y("height:Q"), text=alt.Text("label:N"), color=colour)
