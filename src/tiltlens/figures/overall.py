"""The gap over looks at growing data, and the deviations of many groups."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.display_names import group_name
from tiltlens.documents.labels import GROUP, labels
from tiltlens.documents.summary_access import Record
from tiltlens.figures.figure import Figure, figure, joined, nothing
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
    written,
)
from tiltlens.figures.theme import FAINT, QUIET, WIDTH, altair
from tiltlens.formats import interval_name, label, with_interval
from tiltlens.rows.measures import measure_of

DRAWN_LOOKS, DRAWN_GROUPS = 200, 40


def looks(audit: Record, audited: str | None = None) -> Figure:
    """Return a group's gap at each look with its confidence interval, and the wider confidence sequence around it."""
    if not audit["monitor"] or not audit["monitor"]["sequences"]:
        raise nothing("Gap at each look", "the audit has no state file of earlier looks")
    name = audited or next(iter(audit["monitor"]["sequences"]))
    m, rows = measure_of(audit), [row for row in audit["monitor"]["looks"] if row["audited"] == name][-DRAWN_LOOKS:]
    records = [
        {"look": row["look"]}
        | scaled(row | {"sequence": row["gap"]}, ("gap", "sequence"), m.factor)
        | {"gap_text": written(row, "gap", m.difference)}
        | {"sequence_text": with_interval(row["gap"], row["sequence_low"], row["sequence_high"], m.difference)}
        for row in rows
    ]
    description = f"{label(name, GROUP)} (audited): the gap over all people until each look. Last: "
    title, level = f"Gap at each look, {label(name, GROUP)}", interval_name(audit["settings"]["confidence"])
    notes = joined(f"thick: {level} of one look", "thin: confidence sequence, valid for all looks at once")
    subtitle = f"vs {label(audit['reference'], GROUP)} (reference), in {m.long_unit}"
    reading = {"look": "look", "gap_text": f"gap ({level})", "sequence_text": "gap (confidence sequence)"}
    chart = _over_looks(audit, name, records, f"gap, in {m.long_unit}", tooltip(reading))
    return figure(chart, records, title, f"{description}{records[-1]['sequence_text']}.", reading, subtitle, notes)


def _over_looks(audit: Record, name: str, records: list[Record], what: str, tips: list[Any]) -> Any:
    alt = altair()
    x = alt.X("look:O", title="look", axis=alt.Axis(labelAngle=0, labelOverlap=True, grid=False))
    comparison = audit["comparisons"].get(name, audit | {"audited": name})
    y, title = directed_axis("y", "gap", what, reach(records, ("sequence",), 0.0), comparison)
    layers = [
        lines_at("y", [0.0], title, "zero"),
        interval("y", "sequence", title, x, strokeWidth=3, color=FAINT),
        interval("y", "gap", title, x, strokeWidth=5, color=QUIET),
        dots("gap", size=50).encode(x=x, y=y, tooltip=tips),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=240)


def intersections(audit: Record) -> Figure:
    """Return the shrunken deviation of each listed group, the lowest first; of many, those at both ends."""
    title = "Deviation of each group from the overall mean"
    if not audit["intersections"] or not audit["intersections"]["table"]:
        raise nothing(title, "the audit has too few groups of ten people or more")
    m, rows = measure_of(audit), sorted(audit["intersections"]["table"], key=lambda row: row["deviation"])
    half = DRAWN_GROUPS // 2
    shown = rows if len(rows) <= DRAWN_GROUPS else [*rows[:half], *rows[-half:]]
    texts = labels((group_name(audit["group"], row["group"]) for row in shown), GROUP)
    records = [
        {"label": text, "text": written(row, "deviation", m.difference)} | scaled(row, ("deviation",), m.factor)
        for text, row in zip(texts, shown, strict=True)
    ]
    ends = f"{texts[0]} {m.difference(rows[0]['deviation'])}, {texts[-1]} {m.difference(rows[-1]['deviation'])}"
    description = f"One row per group: its mean minus the overall mean, shrunk by its noise. First and last: {ends}."
    note = joined(
        f"{interval_name(audit['settings']['confidence'])}, shrunk estimates",
        f"the {half} lowest and the {half} highest of {len(rows)}" if len(rows) > DRAWN_GROUPS else "",
        "groups of fewer than 10 people are not drawn" if audit["intersections"]["groups"] > len(rows) else "",
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
    return figure(chart, records, title, description, reading, f"All groups by {label(audit['group'])}", note)
