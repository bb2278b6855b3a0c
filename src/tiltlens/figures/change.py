"""Contributions of features in two audits, and their change with the band that verdicts are read from."""

from __future__ import annotations

from tiltlens.documents.labels import labels, measure_of, strongest, versus
from tiltlens.documents.quantities import written
from tiltlens.figures.figure import Figure, Record, figure, in_unit, joined, noted, nothing
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
from tiltlens.figures.parts import FULL, SHOWN
from tiltlens.figures.theme import PAPER, QUIET, ChartPart, altair
from tiltlens.formats import label
from tiltlens.results.change import GroupChange
from tiltlens.results.outputs import row_estimate
from tiltlens.rows.wording import Measure

STEP = 34  # pixels of a row
LEFT, RIGHT = 330, 230  # pixels of the two panels


def change(moved: GroupChange, shown: int = SHOWN) -> Figure:
    """Return one row per feature: its contribution in the old and the new audit, and the change."""
    title = "Change of each feature's contribution"
    rows = [row for row in moved.features.iter_rows(named=True) if row["alone_change"] is not None][:shown]
    if not rows:
        raise nothing(title, "the audits have no feature in common")
    texts, m, materiality = labels(row["feature"] for row in rows), measure_of(moved), moved.scale.materiality
    records = [_record(row, text, m) for row, text in zip(rows, texts, strict=True)]
    parts = ", ".join(f"{text} {m.difference(row['alone_change'])}" for row, text in zip(rows, texts, strict=True))
    description = (
        f"{versus(moved)}. One row per feature: its contribution alone in the old and the new audit, "
        f"and the change. {parts}."
    )
    has_bands = any(record["alone_change_low"] is not None for record in records)
    note = noted(
        moved,
        f"dashed: materiality threshold, ±{m.with_unit(m.size(materiality))}",
        strongest(moved.features.height, len(rows)),
        intervals="simultaneous confidence bands" if has_bands else "",
    )
    reading = {
        "full": "feature",
        "old_text": m.headed("old"),
        "new_text": m.headed("new"),
        "change_text": m.headed("change"),
        "verdict": "verdict",
    }
    chart = _panels(moved, records, m, m.factor * materiality, tooltip(reading))
    return figure(
        chart, records, title, description, reading, joined(in_unit(moved, m.long_unit), "○ old, ● new"), note
    )


def _record(row: Record, text: str, m: Measure) -> Record:
    alone = row_estimate(row, "alone_change")
    return (
        {"feature": row["feature"], "label": text, "full": label(row["feature"], FULL)}
        | {name: m.factor * row[name] for name in ("alone_old", "alone_new")}
        | scaled({"alone_change": alone}, m.factor)
        | {"old_text": m.difference(row["alone_old"]), "new_text": m.difference(row["alone_new"])}
        | {"change_text": written(alone, m.difference), "verdict": row["verdict"]}
    )


def _panels(
    moved: GroupChange, records: list[Record], m: Measure, threshold: float, tips: list[ChartPart]
) -> ChartPart:
    """Return the panel of old and new with a line between them, and the panel of the change with its band."""
    alt = altair()
    y, unnamed = name_axis(), name_axis(has_labels=False)
    domain = reach(records, ("alone_old", "alone_new"), 0.0, room=0.08)
    old, title = directed_axis("x", "alone_old", f"contribution, in {m.long_unit}", domain, moved)
    new = axis("x", "alone_new", title)
    path = alt.Chart().mark_rule(strokeWidth=2, color=QUIET).encode(x=old, x2=alt.X2(field="alone_new"), y=y)
    hollow = dots("alone_old", filled=False, fill=PAPER, strokeWidth=2).encode(x=old, y=y, tooltip=tips)
    both = alt.layer(
        lines_at("x", [0.0], title, "zero"), path, hollow, dots("alone_new").encode(x=new, y=y, tooltip=tips)
    )
    changes = reach(records, ("alone_change",), -threshold, threshold, room=0.08)
    x, title = directed_axis("x", "alone_change", f"new − old, in {m.long_unit}", changes, moved)
    changed = alt.layer(
        lines_at("x", (-threshold, 0.0, threshold), title),
        interval("x", "alone_change", title, unnamed),
        dots("alone_change", shape="diamond").encode(x=x, y=unnamed, tooltip=tips),
    )
    height = alt.Step(STEP)
    return alt.hconcat(
        both.properties(width=LEFT, height=height), changed.properties(width=RIGHT, height=height), spacing=24
    )
