"""Contribution of each feature, alone and beyond the others, with the confidence band of its verdict."""

from __future__ import annotations

from tiltlens.documents.labels import disadvantage_sign, measure_of, strongest, versus
from tiltlens.documents.quantities import brief, written
from tiltlens.figures.figure import Figure, Record, figure, in_unit, joined, noted, nothing
from tiltlens.figures.marks import directed_axis, dots, interval, lines_at, name_axis, reach, scaled, tooltip
from tiltlens.figures.parts import FULL, SHOWN
from tiltlens.figures.parts import features as rows_of
from tiltlens.figures.theme import DISADVANTAGE, FAINT, INK, QUIET, WIDTH, ChartPart, altair
from tiltlens.formats import label
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import Contribution
from tiltlens.rows.wording import Measure

ROW = 38
ABOVE, BELOW = -8, 9  # pixels from the middle of a row: the bar, and the mark below it
NAMES = ("alone", "beyond_others")


def features(c: Comparison, materiality: float | None = None, shown: int = SHOWN) -> Figure:
    """Return one bar per feature, its contribution alone; the mark below it is its contribution beyond the others."""
    rows = rows_of(c, shown)
    if not rows:
        raise nothing("Contribution of each feature", "the audit has no features")
    m, threshold = measure_of(c), c.scale.materiality if materiality is None else materiality
    gap = c.gap
    title = f"Contribution of each feature to the gap of {m.with_unit(brief(gap, m)(gap.value))}"
    records = [_record(text, row, m, disadvantage_sign(c)) for text, row in rows]
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
    chart = _bars(c, records, m.factor * threshold, tooltip(reading), m)
    return figure(chart, records, title, description, reading, subtitle, note)


def _record(text: str, row: Contribution, m: Measure, sign: int) -> Record:
    estimates = {"alone": row.alone, "beyond_others": row.beyond_others}
    return (
        {"feature": row.feature, "label": text, "full": label(row.feature, FULL)}
        | {"verdict": str(row.verdict), "reason": row.reason}
        | scaled(estimates, m.factor)
        | {f"{name}_text": written(estimate, m.difference) for name, estimate in estimates.items()}
        | {"zero": 0.0, "is_disadvantage": sign * (row.alone or 0.0) > 0.0}
        | {"missing": str(row.verdict) if row.alone is None else None}
    )


def _bars(c: Comparison, records: list[Record], threshold: float, tips: list[ChartPart], m: Measure) -> ChartPart:
    alt = altair()
    domain = reach(records, NAMES, 0.0, -threshold, threshold, room=0.04)
    x, title = directed_axis("x", "alone", f"contribution, in {m.long_unit}", domain, c)
    y = name_axis(grid=False)
    colour = alt.condition("datum.is_disadvantage", alt.value(DISADVANTAGE), alt.value(FAINT))
    bars = alt.Chart().transform_filter("datum.alone != null").mark_bar(height=14, yOffset=ABOVE, opacity=0.75)
    missing = alt.Chart().transform_filter("datum.missing != null").mark_text(align="left", dx=5, color=QUIET)
    diamonds = dots("beyond_others", shape="diamond", size=75, yOffset=BELOW, color=QUIET)
    layers = [
        lines_at("x", (-threshold, 0.0, threshold), title),
        bars.encode(x=x, x2=alt.X2(field="zero"), y=y, color=colour, tooltip=tips),
        interval("x", "alone", title, y, yOffset=ABOVE, color=INK),
        interval("x", "beyond_others", title, y, yOffset=BELOW, color=QUIET),
        diamonds.encode(x=alt.X("beyond_others:Q", title=title), y=y, tooltip=tips),
        missing.encode(x=alt.X("zero:Q", title=title), y=y, text=alt.Text("missing:N")),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=ROW * len(records))
