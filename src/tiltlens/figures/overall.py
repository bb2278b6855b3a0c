"""The gap over looks at growing data, and the deviations of many groups."""

from __future__ import annotations

from dataclasses import replace

from tiltlens.documents.labels import GROUP, group_name, labels, measure_of
from tiltlens.documents.quantities import written
from tiltlens.estimators.estimate import Estimate
from tiltlens.figures.figure import Figure, Record, figure, joined, nothing
from tiltlens.figures.marks import (
    axis,
    directed_axis,
    dots,
    interval,
    lines_at,
    name_axis,
    reach,
    scaled,
    tooltip,
)
from tiltlens.figures.theme import FAINT, QUIET, WIDTH, ChartPart, altair
from tiltlens.formats import interval_name, label
from tiltlens.results.audit import Audit
from tiltlens.results.outputs import row_estimate
from tiltlens.rows.wording import Measure

DRAWN_LOOKS, DRAWN_GROUPS = 200, 40


def looks(audit: Audit, audited: str | None = None) -> Figure:
    """Return a group's gap at each look with its confidence interval, and the wider confidence sequence around it."""
    if audit.monitor is None or not audit.monitor.sequences:
        raise nothing("Gap at each look", "the audit has no state file of earlier looks")
    name = audited or next(iter(audit.monitor.sequences))
    m, rows = measure_of(audit), audit.monitor.looks.filter(audited=name).tail(DRAWN_LOOKS).iter_rows(named=True)
    records = [_look(row, m) for row in rows]
    description = f"{label(name, GROUP)} (audited): the gap over all people until each look. Last: "
    title, level = f"Gap at each look, {label(name, GROUP)}", interval_name(audit.settings.confidence)
    notes = joined(f"thick: {level} of one look", "thin: confidence sequence, valid for all looks at once")
    subtitle = f"vs {label(audit.reference, GROUP)} (reference), in {m.long_unit}"
    reading = {"look": "look", "gap_text": f"gap ({level})", "sequence_text": "gap (confidence sequence)"}
    chart = _over_looks(audit, name, records, f"gap, in {m.long_unit}", tooltip(reading))
    return figure(chart, records, title, f"{description}{records[-1]['sequence_text']}.", reading, subtitle, notes)


def _look(row: Record, m: Measure) -> Record:
    gap, sequence = row_estimate(row, "gap"), Estimate(row["gap"], row["sequence_low"], row["sequence_high"])
    texts = {"gap_text": written(gap, m.difference), "sequence_text": written(sequence, m.difference)}
    return {"look": row["look"]} | scaled({"gap": gap, "sequence": sequence}, m.factor) | texts


def _over_looks(audit: Audit, name: str, records: list[Record], what: str, tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    x = alt.X("look:O", title="look", axis=alt.Axis(labelAngle=0, labelOverlap=True, grid=False))
    c = audit.comparisons.get(name) or replace(audit[0], audited=name)
    y, title = directed_axis("y", "gap", what, reach(records, ("sequence",), 0.0), c)
    layers = [
        lines_at("y", [0.0], title, "zero"),
        interval("y", "sequence", title, x, strokeWidth=3, color=FAINT),
        interval("y", "gap", title, x, strokeWidth=5, color=QUIET),
        dots("gap", size=50).encode(x=x, y=y, tooltip=tips),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=240)


def intersections(audit: Audit) -> Figure:
    """Return the shrunken deviation of each listed group, the lowest first; of many, those at both ends."""
    title = "Deviation of each group from the overall mean"
    every = None if audit.intersections is None else audit.intersections.disclosed()
    if every is None or every.frame.is_empty():
        raise nothing(title, "the audit has too few groups of ten people or more")
    m, rows = measure_of(audit), sorted(every.frame.iter_rows(named=True), key=lambda row: row["deviation"])
    half = DRAWN_GROUPS // 2
    shown = rows if len(rows) <= DRAWN_GROUPS else [*rows[:half], *rows[-half:]]
    texts = labels((group_name(audit.group, row["group"]) for row in shown), GROUP)
    records = [
        {"label": text, "text": written(deviation, m.difference)} | scaled({"deviation": deviation}, m.factor)
        for text, deviation in zip(texts, (row_estimate(row, "deviation") for row in shown), strict=True)
    ]
    ends = f"{texts[0]} {m.difference(rows[0]['deviation'])}, {texts[-1]} {m.difference(rows[-1]['deviation'])}"
    description = f"One row per group: its mean minus the overall mean, shrunk by its noise. First and last: {ends}."
    note = joined(
        f"{interval_name(audit.settings.confidence)}, shrunk estimates",
        f"the {half} lowest and the {half} highest of {len(rows)}" if len(rows) > DRAWN_GROUPS else "",
        "groups of fewer than 10 people are not drawn" if every.groups > len(rows) else "",
    )
    what = f"deviation of the {m.mean}, in {m.long_unit}"
    reading = {"label": "group", "text": m.headed("deviation")}
    x, y = axis("x", "deviation", what, reach(records, ("deviation",), 0.0)), name_axis(limit=270)
    chart = altair().layer(
        lines_at("x", [0.0], what, "zero"),
        interval("x", "deviation", what, y),
        dots("deviation").encode(x=x, y=y, tooltip=tooltip(reading)),
    )
    chart = chart.properties(width=WIDTH, height=altair().Step(22))
    return figure(chart, records, title, description, reading, f"All groups by {label(audit.group)}", note)
