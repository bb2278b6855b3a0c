"""The gap along time."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import labels, versus
from tiltlens.documents.summary_access import Record, span
from tiltlens.documents.unobserved_groups import gap_name
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, FAINT, WIDTH, altair
from tiltlens.formats import count, p_value, with_interval
from tiltlens.rows.measures import Measure, measure_of

PERIOD = 16  # letters of a period
LEVEL, SHORT = 6, 8  # periods, and letters of each, whose names stand level


def periods(comparison: Record) -> Figure:
    """Return the gap of each period with its interval, in the order of time."""
    title = f"{gap_name(comparison).capitalize()} over time"
    table = comparison.get("periods")
    if not table or not table["table"]:
        return nothing(title, "no periods were asked for")
    texts = labels((row["period"] for row in table["table"]), PERIOD)
    records = [_record(row, text, measure_of(comparison)) for row, text in zip(table["table"], texts, strict=True)]
    if all(record["gap"] is None for record in records):
        return nothing(title, "every period has fewer than ten people of a group")
    measured = [record for record in records if record["gap"] is not None]
    parts = ", ".join(f"{record['label']} {record['gap_text']}" for record in (measured[0], measured[-1]))
    what = "One point a period: the difference of the groups' means."
    description = f"{versus(comparison)}. {what} First and last: {parts}."
    test = table["equal_gaps"]
    said = "" if test is None else f"test of equal gaps: {p_value(test['p_value'])}"
    few = "gaps in the line: too few people" if len(measured) < len(records) else ""
    lines = "lines: each period's own interval" if measured[0]["gap_low"] is not None else ""
    return figure(_drawn(records, measure_of(comparison)), records, title, description, lines, said, few)


def _record(row: Record, text: str, measure: Measure) -> Record:
    names = ("gap", "gap_low", "gap_high")
    numbers = {name: None if row[name] is None else measure.factor * row[name] for name in names}
    return {
        "label": text,
        **numbers,
        "gap_text": with_interval(row["gap"], row["gap_low"], row["gap_high"], measure.difference),
        "audited_rate": measure.level(row["audited_rate"]),
        "reference_rate": measure.level(row["reference_rate"]),
        "n_audited": count(row["n_audited"]),
        "n_reference": count(row["n_reference"]),
        "reason": row["reason"],
    }


def _drawn(records: list[Record], measure: Measure) -> Any:
    alt = altair()
    ends = [record[f"gap{end}"] for record in records for end in ("", "_low", "_high")]
    scale = alt.Scale(domain=span([*(end for end in ends if end is not None), 0.0], 0.06), nice=False, zero=False)
    title = f"gap, in {measure.long_unit} (+: audited higher)"
    order = [record["label"] for record in records]
    angle = -40 if len(order) > LEVEL or any(len(text) > SHORT for text in order) else 0
    x = alt.X("label:N", sort=order, title=None, axis=alt.Axis(labelAngle=angle, labelOverlap=True, grid=False))
    y = alt.Y("gap:Q", title=title, scale=scale)
    tooltip = [
        alt.Tooltip("label:N", title="period"),
        alt.Tooltip("gap_text:N", title=f"gap, {measure.long_unit}"),
        alt.Tooltip("audited_rate:N", title=f"{measure.rate}, audited"),
        alt.Tooltip("reference_rate:N", title=f"{measure.rate}, reference"),
    ]
    zero = alt.Chart(data([{"at": 0.0}], "zero")).mark_rule(color=FAINT).encode(y=alt.Y("at:Q", title=title))
    band = alt.Chart().transform_filter("datum.gap_low != null").mark_rule(strokeWidth=2, color=AUDITED)
    line = alt.Chart().mark_line(strokeWidth=1.5, color=AUDITED, opacity=0.6, invalid="break-paths-filter-domains")
    dots = alt.Chart().transform_filter("datum.gap != null").mark_point(filled=True, size=70, color=AUDITED, opacity=1)
    low = alt.Y("gap_low:Q", title=title, scale=scale)
    return alt.layer(
        zero,
        line.encode(x=x, y=y),
        band.encode(x=x, y=low, y2=alt.Y2(field="gap_high"), tooltip=tooltip),
        dots.encode(x=x, y=y, tooltip=tooltip),
    ).properties(width=WIDTH, height=240)
