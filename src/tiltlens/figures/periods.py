"""The gap over time."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import labels, versus
from tiltlens.documents.summary_access import Record
from tiltlens.documents.unobserved_groups import gap_name
from tiltlens.figures.figure import Figure, figure, in_unit, noted, nothing
from tiltlens.figures.marks import directed_axis, dots, interval, lines_at, reach, scaled, tooltip, written
from tiltlens.figures.theme import QUIET, WIDTH, altair
from tiltlens.formats import count, p_value
from tiltlens.rows.measures import Measure, measure_of

PERIOD = 16  # letters of a period
LEVEL, SHORT = 6, 8  # periods, and letters of each, whose names stand level


def periods(comparison: Record) -> Figure:
    """Return the gap of each period with its interval, in the order of time, and the gap over all periods."""
    title = f"{gap_name(comparison).capitalize()} over time"
    table, m = comparison.get("periods"), measure_of(comparison)
    if not table or not table["table"]:
        raise nothing(title, "the audit has no periods")
    texts = labels((row["period"] for row in table["table"]), PERIOD)
    records = [_record(row, text, m) for row, text in zip(table["table"], texts, strict=True)]
    measured = [record for record in records if record["gap"] is not None]
    if not measured:
        raise nothing(title, "every period has fewer than ten people of a group")
    parts = ", ".join(f"{record['label']} {record['gap_text']}" for record in (measured[0], measured[-1]))
    description = f"{versus(comparison)}. One point per period: its gap. First and last: {parts}."
    test = table["equal_gaps"]
    note = noted(
        comparison,
        "dashed: all periods",
        "" if test is None else f"test of equal gaps: {p_value(test['p_value'])}",
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
    chart = _over_time(comparison, records, m, tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(comparison, m.long_unit), note)


def _record(row: Record, text: str, m: Measure) -> Record:
    return {
        "label": text,
        **scaled(row, ("gap",), m.factor),
        "gap_text": written(row, "gap", m.difference),
        "audited_rate": m.level(row["audited_rate"]),
        "reference_rate": m.level(row["reference_rate"]),
        "n_audited": count(row["n_audited"]),
        "n_reference": count(row["n_reference"]),
    }


def _over_time(comparison: Record, records: list[Record], m: Measure, tips: list[Any]) -> Any:
    alt = altair()
    pooled = m.factor * comparison["gap"]["value"]
    domain = reach(records, ("gap",), 0.0, pooled)
    y, title = directed_axis("y", "gap", f"gap, in {m.long_unit}", domain, comparison)
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
