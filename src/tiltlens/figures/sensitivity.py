"""The adjusted gap that an omitted factor would leave, by its two strengths."""

from __future__ import annotations

from tiltlens.analysis.sensitivity import Sensitivity
from tiltlens.documents.labels import labels, measure_of, versus
from tiltlens.documents.sentences import sensitivity_words
from tiltlens.figures.figure import Figure, Record, data, figure, in_unit, noted, nothing
from tiltlens.figures.marks import axis, tooltip
from tiltlens.figures.placement import spread
from tiltlens.figures.theme import FAINT, INK, QUIET, WIDTH, ChartPart, altair, halo
from tiltlens.formats import percent
from tiltlens.results.comparison import Comparison
from tiltlens.rows.wording import Measure

TITLE = "Strength of an omitted factor that would account for the adjusted gap"
DRAWN = 8  # listed features, the strongest first
LEFT = (0.75, 0.5, 0.25, 0.0)  # parts of the gap that the curves leave; 0: all is accounted for
STEPS, HEIGHT = 40, 340
NAMED = 0.045  # part of an axis, below which names would lie on each other
FEATURE = 18  # letters of a name


def sensitivity(c: Comparison, quantity: str = "adjusted_gap") -> Figure:
    """Return curves of equal gap by the shares that an omitted factor explains, with listed features as points."""
    bounds, m = c.gap_parts.sensitivity.get(quantity), measure_of(c)
    if bounds is None:
        raise nothing(TITLE, "the adjusted gap was not estimated from rows")
    gap = bounds.gap.value
    if not bounds.scale or abs(gap) < c.scale.materiality:
        raise nothing(TITLE, f"the adjusted gap of {m.with_unit(m.difference(gap))} is not material")
    points = bounds.yardsticks[:DRAWN]
    names = labels((row.feature for row in points), FEATURE)
    strengths = [max(row.r2_group for row in points), max(row.r2_score for row in points)] if points else [0.0, 0.0]
    right, top = (min(1.15 * max(most, 2.0 * bounds.robustness_value.value), 1.0) for most in strengths)
    records = [
        row._asdict()
        | {"r2_score_text": percent(row.r2_score), "r2_group_text": percent(row.r2_group)}
        | {"label": name, "name": name if max(row.r2_group / right, row.r2_score / top) > NAMED else ""}
        for row, name in zip(points, names, strict=True)
    ]
    lines = [point for left in LEFT for point in _curve(bounds, left, right, top, m)]
    words = " ".join(sensitivity_words(c, quantity))
    description = f"{versus(c)}. {words} Further right and up, an omitted factor accounts for more."
    weak = ", ".join(record["label"] for record in records if not record["name"])
    near_0 = f"not drawn, near 0: {weak}" if weak else ""
    note = noted(c, "curves: adjusted gap that would remain", "dots: listed features", near_0, intervals="")
    reading = {"label": "feature", "r2_group_text": "of group membership", "r2_score_text": f"of the {m.each}s"}
    chart = _chart(records, lines, right, top, m, tooltip(reading))
    subtitle = in_unit(c, "% of the variance left by the listed features")
    return figure(chart, records or [{"label": ""}], TITLE, description, reading, subtitle, note)


def _curve(bounds: Sensitivity, left: float, right: float, top: float, m: Measure) -> list[Record]:
    """Return R²_W = (B/𝒮)²·(1 − R²_S)/R²_S within the figure, B what is taken from the gap."""
    taken = ((1.0 - left) * bounds.gap.value / bounds.scale) ** 2
    start = taken / (top + taken)
    name = m.with_unit(m.difference(left * bounds.gap.value)) if left else "all accounted for"
    if start >= right:
        return []
    shares = [start * (right / start) ** (step / STEPS) for step in range(STEPS + 1)]
    return [
        {"name": name, "is_zero": left == 0.0, "step": step, "r2_group": x, "r2_score": taken * (1.0 - x) / x}
        for step, x in enumerate(shares)
    ]


def _chart(
    records: list[Record], lines: list[Record], right: float, top: float, m: Measure, tips: list[ChartPart]
) -> ChartPart:
    alt = altair()
    percents: Record = {"format": ".0%", "tickCount": 6}
    x = axis("x", "r2_group", "share of the variance of group membership that it explains →", [0, right], **percents)
    y = axis("y", "r2_score", f"share of the {m.each}s' variance that it explains →", [0, top], **percents)
    base = alt.Chart(data(lines, "curves")).encode(x=x, y=y)
    curves = base.mark_line(clip=True).encode(
        detail=alt.Detail("name:N"),
        order=alt.Order("step:Q"),
        color=alt.condition("datum.is_zero", alt.value(INK), alt.value(FAINT)),
        strokeWidth=alt.condition("datum.is_zero", alt.value(2.2), alt.value(1)),
    )
    ends = [point for point in lines if point["step"] == STEPS]
    heights = spread([point["r2_score"] for point in ends], 13 * top / HEIGHT)
    named = [point | {"r2_score": height} for point, height in zip(ends, heights, strict=True)]
    names = alt.Chart(data(named, "curve_names")).mark_text(align="left", dx=4, fontSize=11, color=QUIET)
    layers = [curves, names.encode(x=x, y=y, text=alt.Text("name:N"))]
    if records:
        named_dots = (
            alt.Chart().transform_filter("datum.name != ''").mark_point(filled=True, size=70, opacity=1, color=INK)
        )
        layers += [
            named_dots.encode(x=x, y=y, tooltip=tips),
            *halo(alt.Chart().encode(x=x, y=y, text=alt.Text("name:N")), align="left", dx=7, dy=-5),
        ]
    return alt.layer(*layers).properties(width=WIDTH - 60, height=HEIGHT)
