"""Shares of both groups, mean score and correction, by value of a feature."""

from __future__ import annotations

from tiltlens.analysis.bins import ValueProfile
from tiltlens.documents.labels import measure_of, versus
from tiltlens.figures.distributions import HIDDEN
from tiltlens.figures.figure import Figure, Record, figure, in_unit, noted, nothing
from tiltlens.figures.marks import axis, dots, lines_at, name_axis, tooltip
from tiltlens.figures.parts import FULL, dial_place, dial_words, profile_of, span, values_shown
from tiltlens.figures.theme import AUDITED, FAINT, INK, PAPER, QUIET, REFERENCE, ChartPart, altair
from tiltlens.formats import label, number, percent
from tiltlens.results.comparison import Comparison
from tiltlens.rows.wording import Measure

ENDS = ("q05", "q25", "q50", "q75", "q95")
STEP = 30


def profile(c: Comparison, feature: str, position_index: int | None = None) -> Figure:
    """Return a feature's values in order: shares of both groups, the mean score, and the spread of f~.

    `position_index` is the place on the dial, by default that of the audit.
    """
    values, m = profile_of(c, feature), measure_of(c)
    title = f"Profile of {label(feature, 40)} by value"
    if not values:
        raise nothing(title, "the feature has no values")
    position = dial_place(c, position_index)
    records = [_record(text, value, position, m) for text, value in values]
    where = dial_words(c, position)
    description = (
        f"{versus(c)}. For each value of the feature, three aligned panels: the share of each group that has "
        f"it, the audited people's {m.mean}, and the spread of the correction function among them"
        f"{where and f', {where}'}. "
        + "; ".join(f"{record['label']}: {record['people']}" for record in records[:8])
        + "."
    )
    hidden = "" if all(value.n is not None for _, value in values) else f"– {HIDDEN}"
    note = noted(c, where, values_shown(c, feature), hidden, intervals="")
    reading = {
        "full": "value",
        "audited_text": "share of the audited group",
        "reference_text": "share of the reference group",
        "score_text": m.mean,
        "median_text": "median correction f̃",
    }
    chart = _panels(records, [value for _, value in values], m, tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(c), note)


def _record(text: str, value: ValueProfile, position: int, m: Measure) -> Record:
    places = value.quantiles
    quantiles = places[min(position, len(places) - 1)] if places else [None] * len(ENDS)
    audited, reference = percent(value.share_audited), percent(value.share_reference)
    return (
        {"value": value.value, "label": text, "full": label(value.value, FULL)}
        | {"share_audited": value.share_audited, "share_reference": value.share_reference}
        | {"score": value.score, "n": value.n, "n_reference": value.n_reference}
        | dict(zip(ENDS, quantiles, strict=True))
        | {"people": f"{audited} of the audited, {reference} of the reference group"}
        | {"audited_text": audited, "reference_text": reference}
        | {"score_text": m.level(value.score), "median_text": number(quantiles[2], 2)}
    )


def _panels(records: list[Record], values: list[ValueProfile], m: Measure, tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    panels = [(_people(records, tips), 240), (_scores(records, m, tips), 130), (_corrections(values, tips), 300)]
    # Marks nobody sees keep a row for each value, whether or not it has a number.
    drawn = [
        alt.layer(alt.Chart().mark_point(opacity=0).encode(y=name_axis(index == 0, 170)), *layers)
        for index, (layers, _) in enumerate(panels)
    ]
    widths = [width for _, width in panels]
    sized = [panel.properties(width=width, height=alt.Step(STEP)) for panel, width in zip(drawn, widths, strict=True)]
    return alt.hconcat(*sized, spacing=18)


def _people(records: list[Record], tips: list[ChartPart]) -> list[ChartPart]:
    alt = altair()
    shares = [record[f"share_{who}"] or 0.0 for record in records for who in ("audited", "reference")]
    title = ["share of each group", "● audited   ◻ reference"]
    domain = [0.0, min(1.0, 1.08 * max(shares)) or 1.0]
    x, y = axis("x", "share_audited", title, domain, format=".0%", tickCount=4), name_axis(True, 170)
    joins = alt.Chart().transform_filter("datum.share_audited != null && datum.share_reference != null")
    joins = joins.mark_rule(color=FAINT, strokeWidth=2).encode(x=x, x2=alt.X2(field="share_reference"), y=y)
    reference = dots("share_reference", shape="square", filled=False, color=REFERENCE, strokeWidth=2, fill=PAPER)
    return [
        joins,
        reference.encode(x=axis("x", "share_reference", title), y=y, tooltip=tips),
        dots("share_audited", size=90, color=AUDITED).encode(x=x, y=y, tooltip=tips),
    ]


def _scores(records: list[Record], m: Measure, tips: list[ChartPart]) -> list[ChartPart]:
    scores = [record["score"] for record in records if record["score"] is not None]
    domain = span(scores, 0.1) if m.is_amount else [0.0, 1.0]
    x = axis("x", "score", [m.mean, "of the audited group"], domain, tickCount=3, format=m.axis)
    return [dots("score", size=90, color=AUDITED).encode(x=x, y=name_axis(False), tooltip=tips)]


def _corrections(values: list[ValueProfile], tips: list[ChartPart]) -> list[ChartPart]:
    """Return the boxes; their axis holds every position of the dial, and stays where it is when the dial turns."""
    alt = altair()
    every = [end for value in values for position in value.quantiles or [] for end in position]
    finite = [end for end in every if end is not None]
    legend = "box 25 to 75%, line 5 to 95%, tick median" if finite else "too few people for its spread"
    title = ["correction f̃:  ← over-represented | under-represented →", legend]
    most = 1.1 * max([abs(end) for end in finite], default=1.0) or 1.0
    y = name_axis(False)

    def base(*ends: str) -> ChartPart:
        return alt.Chart().transform_filter(" && ".join(f"datum.{end} != null" for end in ends))

    def from_to(low: str, high: str) -> Record:
        return {"x": axis("x", low, title, [-most, most]), "x2": alt.X2(field=high), "y": y}

    return [
        lines_at("x", [0.0], title, "zero"),
        base("q05", "q95").mark_rule(color=QUIET, strokeWidth=1.5).encode(**from_to("q05", "q95")),
        base("q25", "q75")
        .mark_bar(color=AUDITED, opacity=0.55, height=13)
        .encode(**from_to("q25", "q75"), tooltip=tips),
        base("q50").mark_tick(color=INK, thickness=3, size=19).encode(x=axis("x", "q50", title), y=y, tooltip=tips),
    ]
