"""Use of each feature against how well it separates the groups; without a `use`, `drives` in its place."""

from __future__ import annotations

import math
from typing import NamedTuple

from tiltlens.documents.labels import disadvantage_sign, measure_of, versus
from tiltlens.documents.quantities import written
from tiltlens.estimators.estimate import Estimate
from tiltlens.figures.figure import Figure, Record, data, figure, in_unit, joined, noted, nothing
from tiltlens.figures.marks import axis, interval, lines_at, scaled, tooltip
from tiltlens.figures.parts import FULL, features
from tiltlens.figures.placement import LETTER, LINE, Box, placed, spread
from tiltlens.figures.theme import DISADVANTAGE, FAINT, PAPER, QUIET, WIDTH, ChartPart, altair, halo
from tiltlens.formats import label, number
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import Contribution
from tiltlens.rows.wording import Measure

ROUND = (1.0, 2.0, 5.0)  # digits of the levels of curves
DECADES = 5  # of levels below the largest
LABELLED = 10
MOST = 1.04  # of reveals, which is 1 at most
HEIGHT = 400
LIMIT = 215
NARROW = 440  # pixels, in which the names of the corners would lie on each other
FIELDS = ("reveals", "drives", "use", "alone", "alignment")


class Upwards(NamedTuple):
    """What the map shows upwards: its column, its axis, its description, and its right corners."""

    name: str
    title: str
    described: str
    corners: tuple[str, str]  # upper right, lower right

    def of(self, row: Contribution) -> Estimate | None:
        """Return how far up a feature stands."""
        return row.use if self.name == "use" else row.drives


DRIVES = Upwards(
    "drives",
    "association with the {output} within groups →",
    "is associated more with the {output} within groups. Curves join equal {unit} of the gap",
    ("reveals the group, associated with the {output}", "reveals the group only"),
)
USE = Upwards(
    "use",
    "use: change of the {output} with the feature, all else equal →",
    "is used more by the {output}",
    ("contributes and is used", "stand-in: contributes, not used"),
)


def proxy_map(c: Comparison, materiality: float | None = None) -> Figure:
    """Return the proxy map: how far each feature reveals the group, and whether the score uses it.

    Use is estimated for features with a material contribution. If none has one, the map shows `drives` upwards.
    """
    title = "Proxy map: use of each feature against how far it reveals the group"
    rows = [(text, row) for text, row in features(c, None) if row.reveals is not None]
    up = USE if any(row.use is not None for _, row in rows) else DRIVES
    drawn = [pair for pair in rows if up.of(pair[1]) is not None]
    if not drawn:
        raise nothing(title, "no feature has both numbers of the map")
    m, threshold = measure_of(c), c.scale.materiality if materiality is None else materiality
    records = [_record(text, row, m, up, disadvantage_sign(c)) for text, row in drawn]
    right, top = min(_end(records, "reveals", 1.08), MOST), _end(records, "height", 1.15)  # the corners have names
    # Labels are placed for the usual width: on a wider page they only have more room.
    corners = [text.format(output=m.output) for text in up.corners]
    named = placed(records[:LABELLED], WIDTH / right, HEIGHT / top, WIDTH, HEIGHT, _corner_boxes(corners))
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
    chart = _map(records, (right, top), levels, threshold, m, up, corners, tooltip(reading))
    note = _note(c, len(rows), len(drawn), m.with_unit(m.size(threshold)), up)
    subtitle = joined(in_unit(c), "▲ adds to the disadvantage, ▽ does not")
    return figure(chart, records, title, description, reading, subtitle, note)


def _note(c: Comparison, count: int, drawn: int, threshold: str, up: Upwards) -> str:
    left_out = f"{count - drawn} without a material contribution not drawn" if drawn < count else ""
    dashed = f"dashed: materiality threshold, {threshold}"
    curves = "curves: contribution to the gap" if up is DRIVES else ""
    labelled = f"named: at most the {LABELLED} strongest of {drawn}" if drawn > LABELLED else ""
    has_ends = any(row.reveals is not None and row.reveals.low is not None for row in c.by_feature)
    return noted(c, curves, dashed, left_out, labelled, intervals="CI" if has_ends else "")


def _record(text: str, row: Contribution, m: Measure, up: Upwards, sign: int) -> Record:
    estimates: dict[str, Estimate | None] = {name: getattr(row, name) for name in FIELDS}
    height = up.of(row)
    value = None if height is None else height.value
    return {
        "feature": row.feature,
        "label": text,
        "full": label(row.feature, FULL),
        "verdict": str(row.verdict),
        **scaled(estimates | {"height": height}, 1.0),
        "is_disadvantage": sign * (row.alone or 0.0) > 0.0,
        "alone_text": written(row.alone, m.difference),
        "alignment_text": number(row.alignment, 2),
        "reveals_text": number(row.reveals, 2),
        "height_text": m.level(value) if m.is_amount else number(value, 3),
        **{"name": None, "dx": 0, "dy": 0, "align": "left"},
    }


def _corner_boxes(corners: list[str]) -> list[Box]:
    """Return where the corners' words stand: the upper and the lower right."""
    tops = (0.0, HEIGHT - LINE - 6)
    return [(WIDTH - LETTER * len(t) - 6, top, WIDTH, top + LINE + 6) for t, top in zip(corners, tops, strict=True)]


def _end(records: list[Record], name: str, room: float) -> float:
    """Return where an axis ends: beyond every mark and its interval."""
    return room * max(max(record[name], record[f"{name}_high"] or 0.0) for record in records) or 0.1


def _levels(most: float, materiality: float) -> list[float]:
    """Return at most five levels whose curves cross the map, the materiality among them."""
    is_drawn = 0 < materiality < most
    least = materiality if is_drawn else 0.0
    top = math.floor(math.log10(most)) if most > 0 else 0
    levels = [float(f"{digit}e{power}") for power in range(top - DECADES, top + 1) for digit in ROUND]
    rounds = [level for level in levels if least < level < 0.75 * most][-4:]
    return sorted([materiality, *rounds] if is_drawn else rounds)


def _curve(level: float, right: float, top: float, materiality: float) -> list[Record]:
    """Return height = level / reveals within the map."""
    start, count = level / top, 32
    xs = [start * (right / start) ** (step / count) for step in range(count + 1)]
    return [
        {"level": level, "is_material": level == materiality, "step": step, "reveals": x, "height": level / x}
        for step, x in enumerate(xs)
    ]


def _curve_names(levels: list[float], right: float, top: float, m: Measure) -> list[Record]:
    """Return the curves' names at their right ends, moved apart."""
    heights = spread([level / right for level in levels], 13 * top / HEIGHT)
    return [
        {"reveals": right, "height": height} | {"name": m.with_unit(m.size(level))}
        for level, height in zip(levels, heights, strict=True)
    ]


def _map(
    records: list[Record],
    ends: tuple[float, float],
    levels: list[float],
    materiality: float,
    m: Measure,
    up: Upwards,
    corners: list[str],
    tips: list[ChartPart],
) -> ChartPart:
    right, top = ends
    x = axis("x", "reveals", "reveals the group (0: not at all, 1: completely) →", [0, right])
    y = axis("y", "height", up.title.format(output=m.output), [0, top])
    if m.is_amount:
        y.axis = altair().Axis(format=m.axis)
    lines = _curves(levels, right, top, materiality, m) if levels else []
    lines += [lines_at("y", [materiality], y["title"], "threshold")] if up is USE else []
    whiskers = [
        interval("x", "reveals", x["title"], y, color=QUIET, strokeWidth=1.2),
        interval("y", "height", y["title"], x, color=QUIET, strokeWidth=1.2),
    ]
    named = [whisker.transform_filter("datum.name != null") for whisker in whiskers]
    layers = [*lines, *_corners(corners), *named, _marks(x, y, tips), *_names(x, y)]
    return altair().layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _corners(corners: list[str]) -> list[ChartPart]:
    alt = altair()
    opacity, layers = alt.expr(f"width < {NARROW} ? 0 : 1"), []
    for text, end, down in zip(corners, ("top", "bottom"), (6, HEIGHT - 10), strict=True):
        base = alt.Chart(data([{"text": text}], f"corner_{end}"))
        base = base.encode(text=alt.Text("text:N"), y=alt.value(down), x=alt.value("width"))
        style = {"color": QUIET, "fontStyle": "italic", "limit": 320, "opacity": opacity}
        layers += halo(base, align="right", baseline=end, dx=-6, **style)
    return layers


def _curves(levels: list[float], right: float, top: float, materiality: float, m: Measure) -> list[ChartPart]:
    alt = altair()
    curves = [point for level in levels for point in _curve(level, right, top, materiality)]
    base = alt.Chart(data(curves, "curves")).encode(x=alt.X("reveals:Q"), y=alt.Y("height:Q"))
    lines = base.mark_line(color=FAINT, strokeWidth=1, clip=True).encode(
        detail=alt.Detail("level:N"),
        strokeDash=alt.condition("datum.is_material", alt.value([6, 3]), alt.value([1, 0])),
    )
    ends = alt.Chart(data(_curve_names(levels, right, top, m), "curve_names"))
    ends = ends.mark_text(align="left", dx=4, fontSize=11, color=QUIET)
    return [lines, ends.encode(x=alt.X("reveals:Q"), y=alt.Y("height:Q"), text=alt.Text("name:N"))]


def _marks(x: ChartPart, y: ChartPart, tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    shape = alt.condition("datum.is_disadvantage", alt.value("triangle-up"), alt.value("triangle-down"))
    fill = alt.condition("datum.is_disadvantage", alt.value(DISADVANTAGE), alt.value(PAPER))
    stroke = alt.condition("datum.is_disadvantage", alt.value(DISADVANTAGE), alt.value(QUIET))
    marks = alt.Chart(name="marks").mark_point(size=130, opacity=1, strokeWidth=1.5, invalid=None)
    chosen = alt.selection_point(name="feature", fields=["feature"])
    return marks.encode(x=x, y=y, fill=fill, stroke=stroke, shape=shape, tooltip=tips).add_params(chosen)


def _names(x: ChartPart, y: ChartPart) -> list[ChartPart]:
    alt = altair()
    base = alt.Chart().transform_filter("datum.name != null").encode(x=x, y=y, text=alt.Text("name:N"))
    position = {"dx": alt.expr("datum.dx"), "dy": alt.expr("datum.dy"), "align": alt.expr("datum.align")}
    return halo(base, fontWeight=600, limit=LIMIT, **position)
