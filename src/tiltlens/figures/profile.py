"""One feature, value by value: how many people, what they score, and which way they would have to move."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import versus
from tiltlens.documents.summary_access import Record, dial_place, dial_words, profile_of, span, values_shown
from tiltlens.figures.distributions import HIDDEN
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, FAINT, INK, PAPER, QUIET, REFERENCE, altair
from tiltlens.formats import label, number, percent, short_number
from tiltlens.rows.measures import Measure, measure_of

ENDS = ("q05", "q25", "q50", "q75", "q95")
STEP = 30


def profile(comparison: Record, feature: str, position_index: int | None = None) -> Figure:
    """Return a feature's values in order: shares of both groups, the mean score, and the spread of f~.

    `position_index` is the place on the dial, by default that of the audit.
    """
    values = profile_of(comparison, feature)
    title = f"{label(feature, 40)}, value by value"
    if not values:
        return nothing(title, "the feature has no values")
    position = dial_place(comparison, position_index)
    m = measure_of(comparison)
    records = [_record(value, position, m) for value in values]
    where = dial_words(comparison, position)
    description = (
        f"{versus(comparison)}. For each value of the feature, three aligned panels: the share of each group that has "
        f"it, the audited people's {m.mean}, and the spread of the correction function among them"
        f"{where and f', {where}'}. "
        + "; ".join(f"{record['label']}: {record['people']}" for record in records[:8])
        + "."
    )
    hidden = "" if all(value["n"] is not None for value in values) else f"– {HIDDEN}"
    notes = (versus(comparison), where, values_shown(comparison, feature), hidden)
    return figure(_panels(records, values, m), records, title, description, *notes)


def _record(value: Record, position: int, m: Measure) -> Record:
    by_position = value["quantiles"]
    quantiles = by_position[min(position, len(by_position) - 1)] if by_position else [None] * len(ENDS)
    shares = {name: value[name] for name in ("share_audited", "share_reference", "score", "n", "n_reference")}
    audited, reference = (percent(value[f"share_{who}"]) for who in ("audited", "reference"))
    return (
        {"value": value["value"], "label": value["label"], "full": value["full"]}
        | shares
        | dict(zip(ENDS, quantiles, strict=True))
        | {"people": f"{audited} of the audited, {reference} of the reference group"}
        | {
            "score_text": (m.level if m.is_amount else short_number)(value["score"]),
            "median_text": number(quantiles[2], 2),
        }
    )


def _panels(records: list[Record], values: list[Record], m: Measure) -> Any:
    alt = altair()
    panels = [_people(records, m), _scores(records, m), _corrections(values, m)]
    return alt.hconcat(*panels, spacing=18)


def _y(is_first: bool) -> Any:
    alt = altair()
    axis = alt.Axis(ticks=False, domain=False, grid=True, labels=is_first, labelLimit=170)
    return alt.Y("label:N", sort=None, title=None, axis=axis)


def _tooltip(m: Measure) -> list[Any]:
    alt = altair()
    return [
        alt.Tooltip("full:N", title="value"),
        alt.Tooltip("people:N", title="people"),
        alt.Tooltip("score_text:N", title=m.mean),
        alt.Tooltip("median_text:N", title="median correction f̃"),
    ]


def _people(records: list[Record], m: Measure) -> Any:
    alt = altair()
    shares = [record[f"share_{who}"] or 0.0 for record in records for who in ("audited", "reference")]
    title = ["share of each group", "● audited   ◻ reference"]
    scale = alt.Scale(domain=[0, min(1.0, 1.08 * max(shares)) or 1.0], nice=False)
    x = alt.X("share_audited:Q", title=title, scale=scale, axis=alt.Axis(format=".0%", tickCount=4))
    y = _y(True)
    joins = alt.Chart().transform_filter("datum.share_audited != null && datum.share_reference != null")
    joins = joins.mark_rule(color=FAINT, strokeWidth=2).encode(x=x, x2=alt.X2(field="share_reference"), y=y)
    audited = (
        alt.Chart()
        .transform_filter("datum.share_audited != null")
        .mark_point(filled=True, size=90, color=AUDITED, opacity=1)
    )
    reference = (
        alt.Chart()
        .transform_filter("datum.share_reference != null")
        .mark_point(shape="square", size=75, color=REFERENCE, strokeWidth=2, fill=PAPER, opacity=1)
    )
    layers = [
        alt.Chart().mark_point(opacity=0).encode(y=y),  # every value keeps its row, whatever is shown of it
        joins,
        reference.encode(x=alt.X("share_reference:Q", title=title), y=y, tooltip=_tooltip(m)),
        audited.encode(x=x, y=y, tooltip=_tooltip(m)),
    ]
    return alt.layer(*layers).properties(width=240, height=alt.Step(STEP))


def _scores(records: list[Record], m: Measure) -> Any:
    alt = altair()
    scores = [record["score"] for record in records if record["score"] is not None]
    domain = span(scores) if m.is_amount else [0, 1]
    x = alt.X("score:Q", title=[m.mean, "of the audited"], scale=alt.Scale(domain=domain, zero=False))
    x.axis = alt.Axis(tickCount=3, format=m.axis) if m.is_amount else alt.Axis(tickCount=3)
    dots = (
        alt.Chart().transform_filter("datum.score != null").mark_point(filled=True, size=90, color=AUDITED, opacity=1)
    )
    rows = alt.Chart().mark_point(opacity=0).encode(y=_y(False))
    return alt.layer(rows, dots.encode(x=x, y=_y(False), tooltip=_tooltip(m))).properties(
        width=120, height=alt.Step(STEP)
    )


def _corrections(values: list[Record], m: Measure) -> Any:
    """Return the boxes; their axis holds every position of the dial, and stays where it is when the dial turns."""
    alt = altair()
    every = [end for value in values for position in value["quantiles"] or [] for end in position]
    finite = [end for end in every if end is not None]
    legend = "box 25 to 75%, line 5 to 95%, tick median" if finite else "too few people for its spread"
    title = ["correction f̃: over- ← 0 → under-represented", legend]
    reach = 1.1 * max([abs(end) for end in finite], default=1.0) or 1.0
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    y = _y(False)

    def base(*ends: str) -> Any:
        return alt.Chart().transform_filter(" && ".join(f"datum.{end} != null" for end in ends))

    lines = base("q05", "q95").mark_rule(color=QUIET, strokeWidth=1.5)
    boxes = base("q25", "q75").mark_bar(color=AUDITED, opacity=0.55, height=13)
    ticks = base("q50").mark_tick(color=INK, thickness=3, size=19, opacity=1)
    zero = alt.Chart(data([{"zero": 0}], "zero")).mark_rule(color=FAINT, strokeDash=[4, 3]).encode(x=alt.X("zero:Q"))
    layers = [
        alt.Chart().mark_point(opacity=0).encode(y=y),
        zero,
        lines.encode(x=alt.X("q05:Q", title=title, scale=scale), x2=alt.X2(field="q95"), y=y),
        boxes.encode(x=alt.X("q25:Q", title=title, scale=scale), x2=alt.X2(field="q75"), y=y, tooltip=_tooltip(m)),
        ticks.encode(x=alt.X("q50:Q", title=title, scale=scale), y=y, tooltip=_tooltip(m)),
    ]
    return alt.layer(*layers).properties(width=300, height=alt.Step(STEP))
