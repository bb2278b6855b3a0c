"""Contribution of each feature, alone and beyond the others, with the band that verdicts are read from."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import strongest, versus
from tiltlens.documents.summary_access import SHOWN, Record, span
from tiltlens.documents.summary_access import features as rows_of
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import FAINT, HIGHER, INK, LOWER, QUIET, REFERENCE, WIDTH, altair
from tiltlens.formats import with_interval
from tiltlens.rows.measures import Measure, measure_of

ROW = 38
ABOVE, BELOW = -7, 9  # pixels from the middle of a row: the bar, and the mark below it
SIDES = {"higher": HIGHER, "lower": LOWER}


def features(comparison: Record, materiality: float | None = None, shown: int = SHOWN) -> Figure:
    """Return a bar a feature: its part of the gap with its band, below it what would be lost without it."""
    title = "Contribution of each feature"
    rows = rows_of(comparison, shown)
    if not rows:
        return nothing(title, "there are no features")
    m, counts = measure_of(comparison), comparison["scale"]["materiality"] if materiality is None else materiality
    records = [_record(row, m) for row in rows]
    parts = ", ".join(f"{row['label']} {m.difference(row['alone'])} ({row['verdict']})" for row in rows[:5])
    description = (
        f"{versus(comparison)}. One bar per feature: its contribution alone, in {m.long_unit} of the {m.output}; the "
        f"mark below it is its contribution beyond the others. {parts}."
    )
    has_bands = any(record["alone_low"] is not None for record in records)
    band = "lines: simultaneous confidence bands" if has_bands else "no bands"
    more = strongest(len(comparison["contributions"]), len(rows))
    note = f"bar: alone; ◆: beyond the others; dashed: materiality threshold, ±{m.with_unit(m.size(counts))}"
    held = "given the exempt factors" if comparison["gap_parts"]["exempt"] else ""
    return figure(_drawn(records, m.factor * counts, m), records, title, description, note, band, held, more)


def _record(row: Record, m: Measure) -> Record:
    record = {
        "feature": row["feature"],
        "label": row["label"],
        "full": row["full"],
        "verdict": row["verdict"],
        "reason": row["reason"],
    }
    for name in ("alone", "beyond_others"):
        for end in ("", "_low", "_high"):
            value = row[f"{name}{end}"]
            record[f"{name}{end}"] = None if value is None else m.factor * value  # as the axis has them
        record[f"{name}_text"] = with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"], m.difference)
    return record | {
        "zero": 0.0,
        "side": "higher" if (row["alone"] or 0.0) >= 0.0 else "lower",
        "said": row["verdict"] if row["alone"] is None else None,
    }


def _drawn(records: list[Record], counts: float, m: Measure) -> Any:
    alt = altair()
    names = [f"{name}{end}" for name in ("alone", "beyond_others") for end in ("", "_low", "_high")]
    ends = [record[name] for record in records for name in names if record[name] is not None]
    scale = alt.Scale(domain=span([*ends, 0.0, -counts, counts], 0.04), nice=False, zero=False)
    x = alt.X("alone:Q", title=[f"{m.long_unit} of the {m.output}", "(+: audited higher)"], scale=scale)
    y = alt.Y("label:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=False, labelLimit=210))
    colour = alt.Color("side:N", scale=alt.Scale(domain=list(SIDES), range=list(SIDES.values())), legend=None)
    tooltip = [
        alt.Tooltip("full:N", title="feature"),
        alt.Tooltip("alone_text:N", title=m.headed("contribution alone")),
        alt.Tooltip("beyond_others_text:N", title=m.headed("contribution beyond the others")),
        alt.Tooltip("verdict:N", title="verdict"),
        alt.Tooltip("reason:N", title="reason"),
    ]
    said = alt.Chart().transform_filter("datum.said != null").mark_text(align="left", dx=5, color=QUIET)
    bars = alt.Chart().transform_filter("datum.alone != null").mark_bar(height=13, yOffset=ABOVE, opacity=0.75)
    marks = alt.Chart().transform_filter("datum.beyond_others != null")
    marks = marks.mark_point(shape="diamond", filled=True, size=70, yOffset=BELOW, color=REFERENCE, opacity=1)
    layers = [
        *_lines(counts, x),
        bars.encode(x=x, x2=alt.X2(field="zero"), y=y, color=colour, tooltip=tooltip),
        _band("alone", ABOVE, INK, x, y, tooltip),
        _band("beyond_others", BELOW, REFERENCE, x, y, tooltip),
        marks.encode(x=alt.X("beyond_others:Q", title=x["title"]), y=y, tooltip=tooltip),
        said.encode(x=alt.X("zero:Q", title=x["title"]), y=y, text=alt.Text("said:N")),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=ROW * len(records))


def _band(name: str, offset: int, colour: str, x: Any, y: Any, tooltip: list[Any]) -> Any:
    alt = altair()
    base = alt.Chart().transform_filter(f"datum.{name}_low != null && datum.{name}_high != null")
    rule = base.mark_rule(color=colour, strokeWidth=1.8, yOffset=offset)
    ends = alt.X(f"{name}_low:Q", title=x["title"])
    return rule.encode(x=ends, x2=alt.X2(field=f"{name}_high"), y=y, tooltip=tooltip)


def _lines(counts: float, x: Any) -> list[Any]:
    """Return 0, and the materiality threshold on both sides of it."""
    alt = altair()
    rules = [{"at": -counts, "kind": "counts"}, {"at": 0.0, "kind": "zero"}, {"at": counts, "kind": "counts"}]
    dash = alt.condition("datum.kind == 'counts'", alt.value([5, 3]), alt.value([1, 0]))
    base = alt.Chart(data(rules, "lines")).mark_rule(color=FAINT)
    return [base.encode(x=alt.X("at:Q", title=x["title"]), strokeDash=dash)]
