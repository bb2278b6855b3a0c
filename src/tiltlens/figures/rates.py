"""Favourable rates of all groups, and their ratios to the reference."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import GROUP, labels
from tiltlens.documents.quantities import quantity
from tiltlens.documents.ratios import is_of_decisions
from tiltlens.documents.summary_access import Record, span
from tiltlens.documents.unobserved_groups import WEIGHTED
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, QUIET, REFERENCE, altair
from tiltlens.formats import NOTHING, short_number, with_interval
from tiltlens.limits import FOUR_FIFTHS
from tiltlens.rows.measures import Measure, measure_of

GROUPS = 30
OTHER_WAY = 1 / FOUR_FIFTHS  # the audited group's rate is the higher one
NEAR = 1.1  # ratios from which on the other way is drawn


def rates(audit: Record) -> Figure:
    """Return the favourable rate of every group with its interval, and its ratio to the reference's beside it."""
    m = measure_of(audit)
    comparisons = list(audit["comparisons"].values())
    is_soft = any(c.get("unobserved_group") for c in comparisons)
    title = f"{m.rate.capitalize()}s {WEIGHTED}" if is_soft else f"{m.rate.capitalize()}s and their ratios"
    if not comparisons:
        return nothing(title, "there is no group to compare")
    rows = [_row(comparisons[0]["reference"], "reference", comparisons[0]["outputs"]["rates"]["reference"], None, m)]
    rows += [_row(c["audited"], "audited", c["outputs"]["rates"]["audited"], c["impact_ratio"], m) for c in comparisons]
    texts = labels((row["group"] for row in rows[:GROUPS]), GROUP)
    records = [row | {"label": f"{text} ({row['role']})"} for row, text in zip(rows, texts, strict=False)]
    parts = ", ".join(f"{record['label']} {m.level(record['rate'])}" for record in records[:6])
    beside = "" if is_soft else " and, beside it, that over the reference's"
    description = f"One row a group: its {m.rate}{m.among}{beside}. {parts}."
    more = f"the first {GROUPS} of {len(rows)} groups" if len(rows) > GROUPS else ""
    panels = _panels(records, quantity("impact_ratio").label, is_of_decisions(audit), m)
    return figure(
        panels.hconcat[0] if is_soft else panels,
        records,
        title,
        description,
        m.among.removeprefix(", "),
        "with intervals" if _has_ends(records) else "",
        more,
    )


def _has_ends(records: list[Record]) -> bool:
    return any(record["rate_low"] is not None for record in records)


def _row(name: str, role: str, rate: Record, ratio: Record | None, m: Measure) -> Record:
    ratio = ratio or {"value": None, "low": None, "high": None}
    has_ratio = ratio["value"] is not None
    return {
        "group": name,
        "role": role,
        **{"rate" + end: rate[key] for end, key in (("", "value"), ("_low", "low"), ("_high", "high"))},
        **{"ratio" + end: ratio[key] for end, key in (("", "value"), ("_low", "low"), ("_high", "high"))},
        "rate_text": with_interval(**rate, shown=m.level),
        "ratio_text": with_interval(**ratio, shown=short_number) if has_ratio else NOTHING,
    }


def _panels(records: list[Record], ratio_is: str, has_line: bool, m: Measure) -> Any:
    alt = altair()
    rate = alt.X("rate:Q", title=[m.rate, "● audited   ◼ reference"], scale=_scale(records, "rate", [], m))
    rate.axis = alt.Axis(format=m.axis, tickCount=5)
    drawn = _four_fifths(records) if has_line else []
    title = [f"{ratio_is}: audited ÷ reference", *(["dashed: four fifths"] if has_line else [])]
    ratio = alt.X("ratio:Q", title=title, scale=_scale(records, "ratio", [*drawn, 1.0]))
    lines = [{"at": 1.0, "kind": "equal"}, *({"at": at, "kind": "four fifths"} for at in drawn)]
    dash = alt.StrokeDash("kind:N", scale=alt.Scale(domain=["equal", "four fifths"], range=[[1, 0], [4, 3]]))
    dash.legend = None
    marks = alt.Chart(data(lines, "lines")).mark_rule(color=QUIET).encode(x=alt.X("at:Q"), strokeDash=dash)
    panels = [
        _panel("rate", rate, ratio_is, m).properties(width=270, height=alt.Step(30)),
        alt.layer(marks, _panel("ratio", ratio, ratio_is, m)).properties(width=270, height=alt.Step(30)),
    ]
    return alt.hconcat(*panels, spacing=20)


def _scale(records: list[Record], name: str, more: list[float], m: Measure | None = None) -> Any:
    """Return a scale that shows the intervals, and no more than it must."""
    ends = [record[name + end] for record in records for end in ("", "_low", "_high")]
    numbers = [end for end in ends if end is not None] + more
    domain = span(numbers, 0.12) if m is not None and m.is_amount else span(numbers, 0.12, 0.1)
    least = 0.0 if min(numbers, default=0.0) >= 0.0 else domain[0]
    return altair().Scale(domain=[max(domain[0], least), domain[1]], nice=False, zero=False)


def _four_fifths(records: list[Record]) -> list[float]:
    """Return where the lower rate is four fifths of the higher: beyond 1 only where a ratio comes near."""
    ends = [record[f"ratio{end}"] or 0.0 for record in records for end in ("", "_low", "_high")]
    return [FOUR_FIFTHS, OTHER_WAY] if max(ends) > NEAR else [FOUR_FIFTHS]


def _panel(name: str, x: Any, ratio_is: str, m: Measure) -> Any:
    alt = altair()
    y = alt.Y("label:N", sort=None, title=None)
    y.axis = alt.Axis(ticks=False, domain=False, grid=True, labels=name == "rate", labelLimit=270)
    roles = ["audited", "reference"]
    colour = alt.Color("role:N", scale=alt.Scale(domain=roles, range=[AUDITED, REFERENCE]), legend=None)
    shape = alt.Shape("role:N", scale=alt.Scale(domain=roles, range=["circle", "square"]), legend=None)
    tooltip = [
        alt.Tooltip("label:N", title="group"),
        alt.Tooltip("rate_text:N", title=m.rate),
        alt.Tooltip("ratio_text:N", title=ratio_is),
    ]
    whiskers = alt.Chart().transform_filter(f"datum.{name}_low != null && datum.{name}_high != null")
    whiskers = whiskers.mark_rule(strokeWidth=1.8)
    dots = alt.Chart().transform_filter(f"datum.{name} != null").mark_point(filled=True, size=95, opacity=1)
    return alt.layer(
        alt.Chart().mark_point(opacity=0).encode(y=y),
        whiskers.encode(
            x=alt.X(f"{name}_low:Q", title=x["title"], scale=x["scale"]),
            x2=alt.X2(field=f"{name}_high"),
            y=y,
            color=colour,
        ),
        dots.encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip),
    )
