"""What a repair trades: the gap against accuracy from no repair to the whole, and what other rules attain."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import versus
from tiltlens.documents.repair_sentences import accuracy_name, targets
from tiltlens.documents.summary_access import Record, span
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, FAINT, INK, QUIET, REFERENCE, WIDTH, altair, halo
from tiltlens.formats import number, percent, points, whole_percent, with_interval

HEIGHT = 320
WITHOUT, WITH = "without the group", "with the group"


def repair_curve(evaluation: Record) -> Figure:
    """Return the gap against what it costs, from no repair to the whole; blind beside group-aware where both are."""
    title = "Partial adjustments"
    name = next((name for name in ("auc", "accuracy") if name in evaluation["curve"][0]), None)
    if name is None:
        return nothing(title, "the outcome of these people was not given")
    both = [evaluation, *([] if evaluation["compared_with"] is None else [evaluation["compared_with"]])]
    key, rates = targets(evaluation["repair"])[0]
    records = [record for one in both for record in _steps(one, name, key if key in evaluation["curve"][0] else "gap")]
    what = "AUC" if name == "auc" else "accuracy (%)"
    ends = records[0], records[len(evaluation["curve"]) - 1]
    said = " to ".join(f"{curve['gap_text']} points and {curve['worth_text']}" for curve in ends)
    way = "one line with the group, one without" if len(both) > 1 else "one line"
    axis = [f"gap in {rates}", "(points, audited minus reference)"]
    groups, first = versus(evaluation["repair"]), records[0]["way"]
    description = f"{groups}. The {what} against the {' '.join(axis)}, {way}: {first} from {said}."
    price = "between the lines: the cost of not using the group" if len(both) > 1 else ""
    notes = "◆ before", "each dot a tenth of the adjustment", price
    return figure(_traded(records, what, axis), records, title, description, *notes)


def attainable(summary: Record) -> Figure:
    """Return gap and accuracy of rules that were fitted on other rows, and the audited model's point."""
    title = "Other rules"
    rows = summary["curve"]
    if not rows:
        return nothing(title, "there are no rules")
    records = [_rule(row, "another rule") for row in rows]
    own = _rule(
        {f"{name}{end}": summary[name][key] for name in ("gap", "accuracy") for key, end in ENDS} | {"auc": None},
        "the audited model",
    )
    description = (
        f"{versus(summary)}. One dot per rule: {accuracy_name(summary)} against the gap of decision rates, with "
        f"intervals. The audited model has {own['accuracy_text']} at a gap of {own['gap_text']} points."
    )
    notes = (
        "◆ the audited model",
        "● other rules",
        "lines: intervals",
        "gaps are weighted" if summary.get("soft") else "",
    )
    return figure(_attained(records, own, accuracy_name(summary)), [own, *records], title, description, *notes)


def tolerances(summary: Record) -> Figure:
    """Return how far the gap shrinks for each loss of accuracy that counts as none, with one band for all."""
    names = ("tolerance", "gap_reduction", "gap_reduction_low", "gap_reduction_high")
    records = [
        {name: 100.0 * row[name] for name in names} | {"verdict": row["verdict"]} for row in summary["tolerances"]
    ]
    ends = ", ".join(
        f"{number(row['gap_reduction'], 1)} points at {row['tolerance']:g}" for row in (records[0], records[-1])
    )
    description = f"{versus(summary)}. Reduction of the gap against the accepted loss of accuracy: {ends}."
    notes = (
        "band: holds for all losses at once",
        "● a less discriminatory alternative exists",
        "○ inconclusive, or not found",
    )
    return figure(_tolerated(records), records, "Accepted loss of accuracy", description, *notes)


def _tolerated(records: list[Record]) -> Any:
    alt = altair()
    ends = [record[f"gap_reduction{end}"] for record in records for end in ("_low", "_high")]
    titles = "accepted loss of accuracy, in points", "reduction of the gap, in points"
    scale = alt.Scale(domain=span([*ends, 0.0], 0.06), nice=False, zero=False)
    x = alt.X("tolerance:Q", title=titles[0])
    y, low = (alt.Y(f"gap_reduction{end}:Q", title=titles[1], scale=scale) for end in ("", "_low"))
    fill = alt.condition("datum.verdict == 'exists'", alt.value(1.0), alt.value(0.0))
    zero = alt.Chart(data([{"at": 0.0}], "zero")).mark_rule(color=FAINT).encode(y=alt.Y("at:Q", title=titles[1]))
    band = alt.Chart().mark_area(color=AUDITED, opacity=0.2).encode(x=x, y=low, y2=alt.Y2(field="gap_reduction_high"))
    line = alt.Chart().mark_line(color=AUDITED, strokeWidth=2).encode(x=x, y=y)
    dots = alt.Chart().mark_point(size=80, color=AUDITED, fill=AUDITED, opacity=1)
    dots = dots.encode(x=x, y=y, fillOpacity=fill)
    return alt.layer(zero, band, line, dots).properties(width=WIDTH, height=240)


ENDS = (("value", ""), ("low", "_low"), ("high", "_high"))


def _steps(evaluation: Record, name: str, key: str) -> list[Record]:
    factor, worth_format = (1.0, number) if name == "auc" else (100.0, percent)
    way = WITH if evaluation["repair"]["use_group"] else WITHOUT
    return [
        {
            "way": way,
            "part": row["part"],
            "gap": 100.0 * row[key],
            "worth": factor * row[name],
            "gap_text": points(row[key]),
            "worth_text": worth_format(row[name]),
            "part_text": whole_percent(row["part"]),
        }
        for row in evaluation["curve"]
    ]


def _traded(records: list[Record], what: str, title: list[str]) -> Any:
    alt = altair()
    x = alt.X(
        "gap:Q",
        title=title,
        scale=alt.Scale(domain=span([*(record["gap"] for record in records), 0.0], 0.1), nice=False, zero=False),
    )
    worths = alt.Scale(domain=span([record["worth"] for record in records], 0.15), nice=False, zero=False)
    y = alt.Y("worth:Q", title=what, scale=worths)
    scale = alt.Scale(domain=[WITHOUT, WITH], range=[AUDITED, REFERENCE])
    colour = alt.Color("way:N", title=None, scale=scale, legend=None)
    dash = alt.StrokeDash("way:N", scale=alt.Scale(domain=[WITHOUT, WITH], range=[[1, 0], [6, 3]]), legend=None)
    tooltip = [
        alt.Tooltip("way:N", title="repair"),
        alt.Tooltip("part_text:N", title="part of it"),
        alt.Tooltip("gap_text:N", title="difference, points"),
        alt.Tooltip("worth_text:N", title=what),
    ]
    zero = alt.Chart(data([{"at": 0.0}], "zero")).mark_rule(color=FAINT).encode(x=alt.X("at:Q", title=title))
    line = alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash, order="part:Q")
    dots = alt.Chart().mark_point(filled=True, size=45, opacity=1).encode(x=x, y=y, color=colour, tooltip=tooltip)
    start = alt.Chart().transform_filter("datum.part == 0")
    before = start.mark_point(filled=True, shape="diamond", size=160, color=INK, opacity=1).encode(
        x=x, y=y, tooltip=tooltip
    )
    names: list[Any] = []
    inwards = "left" if records[0]["gap"] > 0.0 else "right"
    has_both = len({record["way"] for record in records}) > 1
    for way, dy in ((WITHOUT, 16), (WITH, -12)) if has_both else ():  # with the group less is lost: the upper line
        end = alt.Chart().transform_filter(f"datum.part == 1 && datum.way == '{way}'").encode(x=x, y=y, text="way:N")
        names += halo(end, dy=dy, align=inwards, fontWeight=600)
    return alt.layer(zero, line, dots, before, *names).properties(width=WIDTH, height=HEIGHT)


def _rule(row: Record, kind: str) -> Record:
    record: Record = {"rule": kind}
    for name, number_format in (("gap", points), ("accuracy", percent)):
        ends = [row[f"{name}{end}"] for _, end in ENDS]
        for end_value, (_, end) in zip(ends, ENDS, strict=True):
            record[f"{name}{end}"] = None if end_value is None else 100.0 * end_value
        value, low, high = ends
        record[f"{name}_text"] = with_interval(value, low, high, number_format)
    return record


def _attained(records: list[Record], own: Record, accuracy: str) -> Any:
    alt = altair()
    every = [own, *records]
    gaps, rights = (
        [record[f"{name}{end}"] for record in every for _, end in ENDS if record[f"{name}{end}"] is not None]
        for name in ("gap", "accuracy")
    )
    domains = span([*gaps, 0.0], 0.05), span(rights, 0.08)
    scales = [alt.Scale(domain=domain, nice=False, zero=False) for domain in domains]
    titles = "gap of decision rates, in points (+: audited higher)", f"{accuracy}, in per cent"
    x, y = alt.X("gap:Q", title=titles[0], scale=scales[0]), alt.Y("accuracy:Q", title=titles[1], scale=scales[1])
    low = alt.Y("accuracy_low:Q", title=titles[1], scale=scales[1])
    left = alt.X("gap_low:Q", title=titles[0], scale=scales[0])
    tooltip = [
        alt.Tooltip("rule:N", title="rule"),
        alt.Tooltip("gap_text:N", title="gap, points"),
        alt.Tooltip("accuracy_text:N", title=accuracy),
    ]
    zero = alt.Chart(data([{"at": 0.0}], "zero")).mark_rule(color=FAINT).encode(x=alt.X("at:Q", title=titles[0]))
    others = alt.Chart().transform_filter("datum.rule == 'another rule'")
    mine = alt.Chart().transform_filter("datum.rule != 'another rule'")
    band = others.mark_rule(strokeWidth=1, color=QUIET, opacity=0.5)
    cross = mine.mark_rule(strokeWidth=2, color=AUDITED)
    diamond = mine.mark_point(filled=True, shape="diamond", size=180, color=AUDITED, opacity=1)
    return alt.layer(
        zero,
        band.encode(x=x, y=low, y2=alt.Y2(field="accuracy_high")),
        others.mark_line(strokeWidth=1.5, color=REFERENCE, opacity=0.6).encode(x=x, y=y),
        others.mark_point(filled=True, size=45, color=REFERENCE, opacity=1).encode(x=x, y=y, tooltip=tooltip),
        cross.encode(x=x, y=low, y2=alt.Y2(field="accuracy_high")),
        cross.encode(x=left, x2=alt.X2(field="gap_high"), y=y),
        diamond.encode(x=x, y=y, tooltip=tooltip),
    ).properties(width=WIDTH, height=HEIGHT)
