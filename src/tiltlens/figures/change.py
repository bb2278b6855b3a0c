"""Contributions of features in two audits, and their change with the band that verdicts are read from."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import labels, strongest, versus
from tiltlens.documents.summary_access import FULL, SHOWN, Record, span
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, FAINT, INK, QUIET, REFERENCE, altair
from tiltlens.formats import label, with_interval
from tiltlens.rows.measures import Measure, measure_of

STEP = 34  # pixels of a row
LEFT, RIGHT = 330, 230  # pixels of the two panels


def change(moved: Record, materiality: float = 0.005, shown: int = SHOWN) -> Figure:
    """Return a row a feature: its points of the gap in the old and the new audit, beside them the change."""
    title = "Change of contributions"
    rows = [row for row in moved["features"] if row["alone_change"] is not None][:shown]
    if not rows:
        return nothing(title, "there are no features that both audits have")
    texts = labels(row["feature"] for row in rows)
    measure = measure_of(moved)
    records = [_record(row, text, measure) for row, text in zip(rows, texts, strict=True)]
    said = [measure.difference(row["alone_change"]) for row in rows]
    parts = ", ".join(f"{record['label']} {text}" for record, text in zip(records, said, strict=True))
    description = (
        f"{versus(moved)}. One row per feature: its contribution alone in the old and the new audit, "
        f"and the change. {parts}."
    )
    band = "lines: simultaneous confidence bands" if any(one["alone_change_low"] is not None for one in records) else ""
    counts = f"dashed: materiality threshold, ±{measure.with_unit(measure.size(materiality))}"
    more = strongest(len(moved["features"]), len(rows))
    return figure(
        _panels(records, measure.factor * materiality, measure.long_unit),
        records,
        title,
        description,
        "○ old, ● new",
        band,
        counts,
        more,
    )


def _record(row: Record, text: str, measure: Measure) -> Record:
    names = ("alone_old", "alone_new", "alone_change", "alone_change_low", "alone_change_high")
    numbers = {name: None if row[name] is None else measure.factor * row[name] for name in names}
    ends = (row["alone_change"], row["alone_change_low"], row["alone_change_high"])
    said = {"change_text": with_interval(*ends, measure.difference), "verdict": row["verdict"], "reason": row["reason"]}
    return {"feature": row["feature"], "label": text, "full": label(row["feature"], FULL)} | numbers | said


def _panels(records: list[Record], counts: float, unit: str) -> Any:
    alt = altair()
    tooltip = [
        alt.Tooltip("full:N", title="feature"),
        alt.Tooltip("alone_old:Q", title=f"{unit}, old", format="+.4~g"),
        alt.Tooltip("alone_new:Q", title=f"{unit}, new", format="+.4~g"),
        alt.Tooltip("change_text:N", title=f"change, {unit}"),
        alt.Tooltip("verdict:N", title="verdict"),
    ]
    both = [record[name] for record in records for name in ("alone_old", "alone_new")]
    return alt.hconcat(
        _moved(span([*both, 0.0], 0.08), tooltip, unit).properties(width=LEFT, height=alt.Step(STEP)),
        _changed(records, counts, tooltip, unit).properties(width=RIGHT, height=alt.Step(STEP)),
        spacing=24,
    )


def _moved(domain: list[float], tooltip: list[Any], unit: str) -> Any:
    """Return the panel of old and new, with a line from the one to the other."""
    alt = altair()
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    title = [f"{unit} through the feature", "(+: audited higher)"]
    axis = alt.Axis(ticks=False, domain=False, grid=True, labelLimit=210)
    named = alt.Y("label:N", sort=None, title=None, axis=axis)
    zero = alt.Chart(data([{"at": 0.0}], "zero")).mark_rule(color=FAINT).encode(x=alt.X("at:Q", title=title))
    way = alt.Chart().mark_rule(strokeWidth=2, color=QUIET)
    old = alt.Chart().mark_point(size=80, filled=False, strokeWidth=2, color=REFERENCE, opacity=1)
    new = alt.Chart().mark_point(size=90, filled=True, color=AUDITED, opacity=1)
    return alt.layer(
        zero,
        way.encode(x=alt.X("alone_old:Q", title=title, scale=scale), x2=alt.X2(field="alone_new"), y=named),
        old.encode(x=alt.X("alone_old:Q", title=title, scale=scale), y=named, tooltip=tooltip),
        new.encode(x=alt.X("alone_new:Q", title=title, scale=scale), y=named, tooltip=tooltip),
    )


def _changed(records: list[Record], counts: float, tooltip: list[Any], unit: str) -> Any:
    """Return the panel of the change, with its band."""
    alt = altair()
    names = ("alone_change", "alone_change_low", "alone_change_high")
    ends = [record[name] for record in records for name in names if record[name] is not None]
    scale = alt.Scale(domain=span([*ends, -counts, counts], 0.08), nice=False, zero=False)
    title = [f"change, in {unit}", "(new less old)"]
    y = alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labels=False, ticks=False, domain=False, grid=True))
    rules = [{"at": -counts, "kind": "counts"}, {"at": 0.0, "kind": "zero"}, {"at": counts, "kind": "counts"}]
    dash = alt.condition("datum.kind == 'counts'", alt.value([5, 3]), alt.value([1, 0]))
    lines = alt.Chart(data(rules, "lines")).mark_rule(color=FAINT)
    band = alt.Chart().transform_filter("datum.alone_change_low != null").mark_rule(strokeWidth=2, color=INK)
    dots = alt.Chart().mark_point(filled=True, size=80, color=INK, opacity=1, shape="diamond")
    low = alt.X("alone_change_low:Q", title=title, scale=scale)
    return alt.layer(
        lines.encode(x=alt.X("at:Q", title=title, scale=scale), strokeDash=dash),
        band.encode(x=low, x2=alt.X2(field="alone_change_high"), y=y, tooltip=tooltip),
        dots.encode(x=alt.X("alone_change:Q", title=title, scale=scale), y=y, tooltip=tooltip),
    )
