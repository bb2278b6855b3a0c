"""Use of each feature against how far it reveals the group; where use is not known, how far it drives the score."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tiltlens.documents.labels import versus
from tiltlens.documents.summary_access import Record, features
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.placement import placed, spread
from tiltlens.figures.theme import DIVERGING, FAINT, INK, PAPER, QUIET, WIDTH, altair, halo
from tiltlens.formats import number, with_interval
from tiltlens.rows.measures import Measure, measure_of

ROUND = (1.0, 2.0, 5.0)  # digits of the levels of curves
DECADES = 5  # of levels below the largest
LABELLED = 10
MOST = 1.04  # of reveals, which is 1 at most
HEIGHT = 400
RAISES, LOWERS, NEITHER = "audited higher", "audited lower", "neither"
LIMIT = 215
NARROW = 440  # pixels, in which the names of the corners would lie on each other
ENDS: dict[str, Any] = {"left": 0, "right": "width"}
FIELDS = ("reveals", "drives", "use", "alone", "alignment")


class Upwards(NamedTuple):
    """What the map shows upwards, with what its title, its description and its corners say of it."""

    name: str
    title: str
    described: str
    corners: tuple[str, str, str, str]  # upper right, lower right, upper left, lower left


DRIVES = Upwards(
    "drives",
    "drives the {output}, the group held fixed →",
    "drives the {output} more. Curves join places of equal {unit} of the gap",
    ("reveals the group and drives the {output}", "reveals, unused", "drives, neutral", "neither"),
)
USE = Upwards(
    "use",
    "use: how far the {output} moves with it, all else equal →",
    "is used more by the {output}",
    ("contributes and is used", "stands in", "used, neutral", "neither"),
)


def proxy_map(comparison: Record, materiality: float | None = None) -> Figure:
    """Return the proxy map: how far each feature reveals the group, and whether the score uses it.

    Use is known for features with a material contribution. Where it is for none, the map shows `drives` upwards.
    """
    title = "Proxy map"
    rows = [row for row in features(comparison, None) if row["reveals"] is not None]
    up = USE if any(row.get("use") is not None for row in rows) else DRIVES
    drawn = [row for row in rows if row.get(up.name) is not None]
    if not drawn:
        return nothing(title, "no feature has both numbers of the map")
    m, counts = measure_of(comparison), comparison["scale"]["materiality"] if materiality is None else materiality
    records = [_record(row, m, up) for row in drawn]
    right, top = min(_end(records, "reveals", 1.08), MOST), _end(records, "height", 1.15)  # the corners have names
    # Labels are placed for the usual width: on a wider page they only have more room.
    named = placed(records[:LABELLED], WIDTH / right, HEIGHT / top, WIDTH, HEIGHT)
    records = [record | position for record, position in zip(records, named, strict=False)] + records[LABELLED:]
    first = drawn[0]
    description = (
        f"{versus(comparison)}. Each mark is a feature: further right it reveals the group more, further up it "
        f"{up.described.format(output=m.output, unit=m.long_unit)}. Strongest: {first['label']}, "
        f"{m.with_unit(m.difference(first['alone']))}."
    )
    labelled = (
        f"the {LABELLED} strongest of {len(drawn)} features have names and intervals" if len(drawn) > LABELLED else ""
    )
    if up is DRIVES:
        note, levels = f"curves: {m.long_unit} of the gap where both are fully aligned", _levels(right * top, counts)
    else:
        left_out = len(rows) - len(drawn)
        others = f"; {left_out} without a material contribution not drawn" if left_out else ""
        note, levels = f"dashed: use of {m.with_unit(m.size(counts))}, the materiality threshold{others}", []
    chart = _drawn(records, right, top, levels, counts, m, up)
    return figure(chart, records, title, description, note, labelled)


def _record(row: Record, m: Measure, up: Upwards) -> Record:
    gap, alignment = row["alone"], row["alignment"]
    record = {"feature": row["feature"], "label": row["label"], "full": row["full"], "verdict": row["verdict"]}
    for end in ("", "_low", "_high"):
        record |= {f"{name}{end}": row.get(f"{name}{end}") for name in FIELDS}
        record |= {f"height{end}": row.get(f"{up.name}{end}")}
    return record | {
        "sign": NEITHER if not gap else RAISES if gap > 0 else LOWERS,
        "alone_text": with_interval(gap, row["alone_low"], row["alone_high"], m.difference),
        "alignment_text": number(alignment, 2),
        "height_text": m.level(row[up.name]) if m.is_amount else number(row[up.name], 3),
        "name": None,
        "dx": 0,
        "dy": 0,
        "align": "left",
    }


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


def _curve_names(levels: list[float], right: float, top: float, materiality: float, m: Measure) -> list[Record]:
    """Return the curves' names at their right ends, moved apart."""
    heights = spread([level / right for level in levels], 13 * top / HEIGHT)
    return [
        {"reveals": right, "height": height}
        | {"name": f"{m.factor * level:.3g} {m.abbreviation}".rstrip() + (" (materiality)" * (level == materiality))}
        for level, height in zip(levels, heights, strict=True)
    ]


def _drawn(
    records: list[Record], right: float, top: float, levels: list[float], materiality: float, m: Measure, up: Upwards
) -> Any:
    alt = altair()
    x = alt.X(
        "reveals:Q",
        title="reveals the group (0: not at all, 1: completely) →",
        scale=alt.Scale(domain=[0, right], nice=False),
    )
    y = alt.Y(
        "height:Q",
        title=up.title.format(output=m.output),
        scale=alt.Scale(domain=[0, top], nice=False),
    )
    lines = _curves(levels, right, top, materiality, m) if up is DRIVES else [_threshold(materiality)]
    layers = [*lines, *_regions(m, up), *_whiskers(x, y), _marks(records, x, y, m, up), *_names(x, y)]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _threshold(materiality: float) -> Any:
    alt = altair()
    line = alt.Chart(data([{"height": materiality}], "threshold")).mark_rule(color=FAINT, strokeDash=[6, 3])
    return line.encode(y=alt.Y("height:Q"))


def _regions(m: Measure, up: Upwards) -> list[Any]:
    alt = altair()
    ends = (("right", "top"), ("right", "bottom"), ("left", "top"), ("left", "bottom"))
    corners = [(text.format(output=m.output), *end) for text, end in zip(up.corners, ends, strict=True)]
    layers, opacity = [], alt.expr(f"width < {NARROW} ? 0 : 1")
    for corner, (text, side, end) in enumerate(corners):
        down = 6 if end == "top" else HEIGHT - 6
        base = alt.Chart(data([{"text": text}], f"region_{corner}"))
        base = base.encode(text=alt.Text("text:N"), y=alt.value(down), x=alt.value(ENDS[side]))
        inwards = -6 if side == "right" else 6
        style = {"color": QUIET, "fontStyle": "italic", "limit": 300, "opacity": opacity}
        layers += halo(base, align=side, baseline=end, dx=inwards, **style)
    return layers


def _curves(levels: list[float], right: float, top: float, materiality: float, m: Measure) -> list[Any]:
    alt = altair()
    if not levels:
        return []
    curves = [point for level in levels for point in _curve(level, right, top, materiality)]
    base = alt.Chart(data(curves, "curves")).encode(x=alt.X("reveals:Q"), y=alt.Y("height:Q"))
    lines = base.mark_line(color=FAINT, strokeWidth=1, clip=True).encode(
        detail=alt.Detail("level:N"),
        strokeDash=alt.condition("datum.is_material", alt.value([6, 3]), alt.value([1, 0])),
    )
    ends = alt.Chart(data(_curve_names(levels, right, top, materiality, m), "curve_names"))
    ends = ends.mark_text(align="left", dx=4, fontSize=11, color=QUIET)
    return [lines, ends.encode(x=alt.X("reveals:Q"), y=alt.Y("height:Q"), text=alt.Text("name:N"))]


def _whiskers(x: Any, y: Any) -> list[Any]:
    alt = altair()
    base = alt.Chart().mark_rule(color=QUIET, strokeWidth=1.2, opacity=0.7)
    across = base.encode(x=alt.X("reveals_low:Q", title=x["title"]), x2=alt.X2(field="reveals_high"), y=y)
    along = base.encode(x=x, y=alt.Y("height_low:Q", title=y["title"]), y2=alt.Y2(field="height_high"))
    return [
        across.transform_filter("datum.name != null && datum.reveals_low != null && datum.reveals_high != null"),
        along.transform_filter("datum.name != null && datum.height_low != null && datum.height_high != null"),
    ]


def _marks(records: list[Record], x: Any, y: Any, m: Measure, up: Upwards) -> Any:
    alt = altair()
    chosen = alt.selection_point(name="feature", fields=["feature"])
    scale = alt.Scale(domain=[-1, 1], range=DIVERGING, clamp=True, interpolate="rgb")
    legend = alt.Legend(gradientLength=130, values=[-1, 0, 1], orient="top", direction="horizontal")
    colour = alt.Color("alignment:Q", scale=scale, title="alignment, −1 to 1", legend=legend)
    shapes = alt.Scale(domain=[RAISES, LOWERS, NEITHER], range=["triangle-up", "triangle-down", "circle"])
    return (
        alt.Chart(name="marks")
        .mark_point(filled=True, size=130, opacity=1, stroke=INK, strokeWidth=0.8, invalid=None)
        .encode(
            x=x,
            y=y,
            color=alt.condition("isValid(datum.alignment)", colour, alt.value(PAPER)),
            shape=alt.Shape("sign:N", scale=shapes, title=f"sign of its {m.long_unit}", legend=_signs(records)),
            tooltip=[
                alt.Tooltip("full:N", title="feature"),
                alt.Tooltip("alone_text:N", title=f"{m.long_unit} of the gap"),
                alt.Tooltip("reveals:Q", title="reveals the group", format=".3f"),
                alt.Tooltip("height_text:N", title="use" if up is USE else f"drives the {m.output}"),
                alt.Tooltip("alignment_text:N", title="alignment"),
                alt.Tooltip("verdict:N", title="verdict"),
            ],
        )
        .add_params(chosen)
    )


def _signs(records: list[Record]) -> Any:
    present = {record["sign"] for record in records}
    values = [sign for sign in (RAISES, LOWERS, NEITHER) if sign in present]
    return altair().Legend(orient="top", direction="horizontal", values=values, symbolFillColor=QUIET)


def _names(x: Any, y: Any) -> list[Any]:
    alt = altair()
    base = alt.Chart().transform_filter("datum.name != null").encode(x=x, y=y, text=alt.Text("name:N"))
    position = {"dx": alt.expr("datum.dx"), "dy": alt.expr("datum.dy"), "align": alt.expr("datum.align")}
    return halo(base, fontWeight=600, limit=LIMIT, **position)
