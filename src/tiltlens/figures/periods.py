"""The gap over time."""

from __future__ import annotations

from tiltlens.documents.headline import gap_name
from tiltlens.documents.labels import labels, measure_of, versus
from tiltlens.documents.quantities import written
from tiltlens.figures.figure import Figure, Record, figure, in_unit, noted, nothing
from tiltlens.figures.marks import directed_axis, dots, interval, lines_at, reach, scaled, tooltip
from tiltlens.figures.theme import QUIET, WIDTH, ChartPart, altair
from tiltlens.formats import count, p_value
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import row_estimate
from tiltlens.rows.wording import Measure

PERIOD = 16  # letters of a period
LEVEL, SHORT = 6, 8  # periods, and letters of each, whose names stand level


def periods(c: Comparison) -> Figure:
    """Return the gap of each period with its interval, in the order of time, and the gap over all periods."""
    title = f"{gap_name(c).capitalize()} over time"
    table, m = c.periods, measure_of(c)
    if table is None or table.frame.is_empty():
        raise nothing(title, "the audit has no periods")
    texts = labels(table.frame["period"], PERIOD)
    records = [_record(row, text, m) for row, text in zip(table.frame.iter_rows(named=True), texts, strict=True)]
    measured = [record for record in records if record["gap"] is not None]
    if not measured:
        raise nothing(title, "every period has fewer than ten people of a group")
    parts = ", ".join(f"{record['label']} {record['gap_text']}" for record in (measured[0], measured[-1]))
    description = f"{versus(c)}. One point per period: its gap. First and last: {parts}."
    test = table.equal_gaps
    note = noted(
        c,
        "dashed: all periods",
        "" if test is None else f"test of equal gaps: {p_value(test.p_value)}",
        "periods with too few people are left out" if len(measured) < len(records) else "",
        intervals="CI per period" if measured[0]["gap_low"] is not None else "",
    )
    reading = {
        "label": "period",
        "gap_text": m.headed("gap"),
        "audited_rate": f"{m.rate}, audited",
        "reference_rate": f"{m.rate}, reference",
        "n_audited": "people, audited",
        "n_reference": "people, reference",
    }
    chart = _over_time(c, records, m, tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(c, m.long_unit), note)


def _record(row: Record, text: str, m: Measure) -> Record:
    gap = row_estimate(row, "gap")
    return {
        "label": text,
        **scaled({"gap": gap}, m.factor),
        "gap_text": written(gap, m.difference),
        "audited_rate": m.level(row["audited_rate"]),
        "reference_rate": m.level(row["reference_rate"]),
        "n_audited": count(row["n_audited"]),
        "n_reference": count(row["n_reference"]),
    }


def _over_time(c: Comparison, records: list[Record], m: Measure, tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    pooled = m.factor * c.gap.value
    domain = reach(records, ("gap",), 0.0, pooled)
    y, title = directed_axis("y", "gap", f"gap, in {m.long_unit}", domain, c)
    order = [record["label"] for record in records]
    angle = -40 if len(order) > LEVEL or any(len(text) > SHORT for text in order) else 0
    x = alt.X("label:N", sort=order, title=None, axis=alt.Axis(labelAngle=angle, labelOverlap=True, grid=False))
    line = alt.Chart().mark_line(strokeWidth=1.5, color=QUIET, invalid="break-paths-filter-domains")
    layers = [
        lines_at("y", dict.fromkeys((0.0, pooled)), title),
        line.encode(x=x, y=y),
        interval("y", "gap", title, x, strokeWidth=2),
        dots("gap").encode(x=x, y=y, tooltip=tips),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=240)
