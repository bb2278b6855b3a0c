"""What a score adjustment trades: gap against accuracy from none of it to all, and what other rules attain."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import versus
from tiltlens.documents.repair_sentences import accuracy_name, targets
from tiltlens.documents.summary_access import Record, span
from tiltlens.figures.figure import Figure, figure, in_unit, joined, noted, nothing
from tiltlens.figures.marks import ENDS, axis, dots, interval, lines_at, reach, scaled, tooltip, written
from tiltlens.figures.theme import FAINT, INK, PAPER, QUIET, WIDTH, altair, halo
from tiltlens.formats import number, percent, points, whole_percent

HEIGHT = 320
WITHOUT, WITH = "without the group", "with the group"
RULE, MODEL = "another rule", "the audited model"
DASHES = [[1, 0], [6, 3]]


def repair_curve(evaluation: Record) -> Figure:
    """Return the gap against its cost, from no adjustment to the whole, with and without the group."""
    name = next((name for name in ("auc", "accuracy") if name in evaluation["curve"][0]), None)
    title = f"Gap and {'AUC' if name == 'auc' else 'accuracy'} along partial adjustments"
    if name is None:
        raise nothing(title, "the outcome of these people was not given")
    both = [evaluation, *([] if evaluation["compared_with"] is None else [evaluation["compared_with"]])]
    key, rates = targets(evaluation["repair"])[0]
    key = key if key in evaluation["curve"][0] else "gap"
    records = [record for summary in both for record in _steps(summary, name, key)]
    what = "AUC" if name == "auc" else "accuracy (%)"
    ends = records[0], records[len(evaluation["curve"]) - 1]
    from_to = " to ".join(f"{curve['gap_text']} points and {curve['worth_text']}" for curve in ends)
    lines = "one line with the group, one without" if len(both) > 1 else "one line"
    axis_title = f"gap in {rates}, audited minus reference, in points"
    repair = evaluation["repair"]
    description = f"{versus(repair)}. {what} against the {axis_title}, {lines}: {records[0]['way']} from {from_to}."
    reading = {
        "way": "adjustment",
        "part_text": "part of it",
        "gap_text": "gap (points)",
        "worth_text": what,
    }
    cost = "between the lines: the cost of not using the group" if len(both) > 1 else ""
    note = noted(evaluation, "◆ before", "one dot per tenth of the adjustment", cost, intervals="")
    chart = _traded(records, what, axis_title, tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(repair, "points"), note)


def attainable(summary: Record) -> Figure:
    """Return gap and accuracy of rules that were fitted on other rows, and the audited model's point."""
    title = "Gap and accuracy of other rules"
    if not summary["curve"]:
        raise nothing(title, "the search has no other rules")
    own = _rule(
        {f"{name}{end}": summary[name][key] for name in ("gap", "accuracy")
         for key, end in zip(("value", "low", "high"), ENDS, strict=True)},
        MODEL,
    )  # fmt: skip
    records = [own, *(_rule(row, RULE) for row in summary["curve"])]
    accuracy = accuracy_name(summary)
    description = (
        f"{versus(summary)}. One dot per rule: {accuracy} against the gap of decision rates, with intervals. "
        f"The audited model has {own['accuracy_text']} at a gap of {own['gap_text']} points."
    )
    reading = {"rule": "rule", "gap_text": "gap (points)", "accuracy_text": accuracy}
    weighted = "gaps are weighted" if summary.get("soft") else ""
    note = joined("◆ the audited model", "● other rules", "lines: confidence intervals", weighted)
    chart = _attained(records, accuracy, tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(summary, "points"), note)


def tolerances(summary: Record) -> Figure:
    """Return how far the gap shrinks for each loss of accuracy that counts as none, with one band for all."""
    title = "Reduction of the gap by accepted loss of accuracy"
    records = [
        scaled(row, ("tolerance", "gap_reduction"), 100.0)
        | {"verdict": row["verdict"], "tolerance_text": f"{100.0 * row['tolerance']:g}"}
        | {"text": written(row, "gap_reduction", points)}
        for row in summary["tolerances"]
    ]
    ends = ", ".join(f"{row['text']} points at {row['tolerance_text']}" for row in (records[0], records[-1]))
    description = f"{versus(summary)}. Reduction of the gap against the accepted loss of accuracy: {ends}."
    reading = {"tolerance_text": "accepted loss (points)", "text": "reduction (points)", "verdict": "verdict"}
    found = "● a less discriminatory alternative exists", "○ inconclusive, or not found"
    note = joined("simultaneous confidence band", *found)
    chart = _tolerated(records, tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(summary, "points"), note)


def _tolerated(records: list[Record], tips: list[Any]) -> Any:
    alt = altair()
    what = "reduction of the gap, in points →"
    x = alt.X("tolerance:Q", title="accepted loss of accuracy, in points")
    y = axis("y", "gap_reduction", what, reach(records, ("gap_reduction",), 0.0))
    low = axis("y", "gap_reduction_low", what)
    fill = alt.condition("datum.verdict == 'exists'", alt.value(INK), alt.value(PAPER))
    return alt.layer(
        lines_at("y", [0.0], what, "zero"),
        alt.Chart().mark_area(color=QUIET, opacity=0.2).encode(x=x, y=low, y2=alt.Y2(field="gap_reduction_high")),
        alt.Chart().mark_line(color=INK, strokeWidth=2).encode(x=x, y=y),
        dots("gap_reduction", filled=False).encode(x=x, y=y, fill=fill, tooltip=tips),
    ).properties(width=WIDTH, height=240)


def _steps(evaluation: Record, name: str, key: str) -> list[Record]:
    factor, worth_format = (1.0, number) if name == "auc" else (100.0, percent)
    return [
        {
            "way": WITH if evaluation["repair"]["use_group"] else WITHOUT,
            "part": row["part"],
            "gap": 100.0 * row[key],
            "worth": factor * row[name],
            "gap_text": points(row[key]),
            "worth_text": worth_format(row[name]),
            "part_text": whole_percent(row["part"]),
        }
        for row in evaluation["curve"]
    ]


def _traded(records: list[Record], what: str, title: str, tips: list[Any]) -> Any:
    alt = altair()
    x = axis("x", "gap", title, span([*(record["gap"] for record in records), 0.0], 0.1))
    y = axis("y", "worth", what, span([record["worth"] for record in records], 0.15))
    ways = [WITHOUT, WITH]
    colour = alt.Color("way:N", scale=alt.Scale(domain=ways, range=[INK, QUIET]), legend=None)
    dash = alt.StrokeDash("way:N", scale=alt.Scale(domain=ways, range=DASHES), legend=None)
    line = alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash, order="part:Q")
    before = dots("gap", shape="diamond", size=160).transform_filter("datum.part == 0")
    names: list[Any] = []
    inwards = "left" if records[0]["gap"] > 0.0 else "right"
    has_both = len({record["way"] for record in records}) > 1
    for way, dy in ((WITHOUT, 16), (WITH, -12)) if has_both else ():  # with the group less is lost: the upper line
        end = alt.Chart().transform_filter(f"datum.part == 1 && datum.way == '{way}'").encode(x=x, y=y, text="way:N")
        names += halo(end, dy=dy, align=inwards, fontWeight=600)
    marks = dots("gap", size=45).encode(x=x, y=y, color=colour, tooltip=tips)
    layers = [lines_at("x", [0.0], title, "zero"), line, marks, before.encode(x=x, y=y, tooltip=tips), *names]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _rule(row: Record, kind: str) -> Record:
    record = {"rule": kind} | scaled(row, ("gap", "accuracy"), 100.0)
    for name, write in (("gap", points), ("accuracy", percent)):
        record[f"{name}_text"] = written(row, name, write)
    return record


def _attained(records: list[Record], accuracy: str, tips: list[Any]) -> Any:
    alt = altair()
    titles = "gap of decision rates, audited minus reference, in points", f"{accuracy}, in %"
    x = axis("x", "gap", titles[0], reach(records, ("gap",), 0.0, room=0.05))
    y = axis("y", "accuracy", titles[1], reach(records, ("accuracy",), room=0.08))
    rules, model = f"datum.rule == '{RULE}'", f"datum.rule == '{MODEL}'"
    line = alt.Chart().transform_filter(rules).mark_line(strokeWidth=1.5, color=FAINT).encode(x=x, y=y)
    whiskers = [
        interval("y", "accuracy", titles[1], x, strokeWidth=1, color=FAINT).transform_filter(rules),
        interval("y", "accuracy", titles[1], x, strokeWidth=2).transform_filter(model),
        interval("x", "gap", titles[0], y, strokeWidth=2).transform_filter(model),
    ]
    others = dots("gap", size=45, color=QUIET).transform_filter(rules).encode(x=x, y=y, tooltip=tips)
    own = dots("gap", shape="diamond", size=180).transform_filter(model).encode(x=x, y=y, tooltip=tips)
    layers = [lines_at("x", [0.0], titles[0], "zero"), whiskers[0], line, others, *whiskers[1:], own]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
