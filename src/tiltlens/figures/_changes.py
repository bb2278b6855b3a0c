"""Figures of changes: along time, between two audits, by a score adjustment, and by alternatives."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tiltlens._documents.document import (
    GROUP,
    labels,
    measure_of,
    strongest,
    versus,
)
from tiltlens._documents.headline import gap_name
from tiltlens._documents.quantities import written
from tiltlens._documents.repair_sentences import accuracy_name, targets
from tiltlens._estimators.estimate import Estimate
from tiltlens._formats import count, interval_name, label, number, p_value, percent, points, whole_percent
from tiltlens._repair.alternatives import Alternatives
from tiltlens._repair.evaluation import RepairEvaluation
from tiltlens._results.audit import Audit
from tiltlens._results.change import GroupChange
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import row_estimate
from tiltlens._rows.wording import Measure
from tiltlens.figures import _marks as draw
from tiltlens.figures._figure import Figure, figure, in_unit, joined, noted, nothing, people_of
from tiltlens.figures._marks import ChartPart, Record, alt

PERIOD = 16  # maximum number of characters of a period's name
LEVEL, SHORT = 6, 8  # up to this many periods with names of this length, names are horizontal


def periods(c: Comparison) -> Figure:
    """Return the gap of each period with its interval, in chronological order, and the gap over all periods."""
    title = f"{gap_name(c).capitalize()} over time"
    table, m = c.periods, measure_of(c)
    if table is None or table.frame.is_empty():
        raise nothing(title, "the audit has no periods")
    texts = labels(table.frame["period"], PERIOD)
    records = [_period(row, text, m) for row, text in zip(table.frame.iter_rows(named=True), texts, strict=True)]
    measured = [record for record in records if record["gap"] is not None]
    if not measured:
        raise nothing(title, "every period has fewer than ten people of a group")
    parts = ", ".join(f"{record['label']} {record['gap_text']}" for record in (measured[0], measured[-1]))
    description = f"{versus(c)}. One point per period: its gap. First and last: {parts}."
    test = table.equal_gaps
    note = noted(
        c,
        "dashed: all periods",
        "" if test is None else f"test of equal gaps: {p_value(test.p_value)}",
        "periods with too few people are left out" if len(measured) < len(records) else "",
        intervals="CI per period" if measured[0]["gap_low"] is not None else "",
    )
    reading = {
        "label": "period",
        "gap_text": m.headed("gap"),
        "audited_rate": f"{m.rate}, audited",
        "reference_rate": f"{m.rate}, reference",
        "n_audited": "people, audited",
        "n_reference": "people, reference",
    }
    chart = _over_time(c, records, m, draw.tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(c, m.long_unit), note)


def _period(row: Record, text: str, m: Measure) -> Record:
    gap = row_estimate(row, "gap")
    return {
        "label": text,
        **draw.scaled({"gap": gap}, m.factor),
        "gap_text": written(gap, m.difference),
        "audited_rate": m.level(row["audited_rate"]),
        "reference_rate": m.level(row["reference_rate"]),
        "n_audited": count(row["n_audited"]),
        "n_reference": count(row["n_reference"]),
    }


def _over_time(c: Comparison, records: list[Record], m: Measure, tips: list[ChartPart]) -> ChartPart:
    pooled = m.factor * c.gap.value
    domain = draw.reach(records, ("gap",), 0.0, pooled)
    y, title = draw.directed_axis("y", "gap", f"gap, in {m.long_unit}", domain, c)
    order = [record["label"] for record in records]
    angle = -40 if len(order) > LEVEL or any(len(text) > SHORT for text in order) else 0
    x = alt.X("label:N", sort=order, title=None, axis=alt.Axis(labelAngle=angle, labelOverlap=True, grid=False))
    line = alt.Chart().mark_line(strokeWidth=1.5, color=draw.QUIET, invalid="break-paths-filter-domains")
    layers = [
        draw.lines_at("y", dict.fromkeys((0.0, pooled)), title),
        line.encode(x=x, y=y),
        draw.interval("y", "gap", title, x, strokeWidth=2),
        draw.dots("gap").encode(x=x, y=y, tooltip=tips),
    ]
    return alt.layer(*layers).properties(width=draw.WIDTH, height=240)


DRAWN_LOOKS = 200


def looks(audit: Audit, audited: str | None = None) -> Figure:
    """Return a group's gap at each look with its confidence interval and its wider confidence sequence."""
    if audit.monitor is None or not audit.monitor.sequences:
        raise nothing("Gap at each look", "the audit has no state file of earlier looks")
    name = audited or next(iter(audit.monitor.sequences))
    m, rows = measure_of(audit), audit.monitor.looks.filter(audited=name).tail(DRAWN_LOOKS).iter_rows(named=True)
    records = []
    for row in rows:
        gap, sequence = row_estimate(row, "gap"), Estimate(row["gap"], row["sequence_low"], row["sequence_high"])
        texts = {"gap_text": written(gap, m.difference), "sequence_text": written(sequence, m.difference)}
        records.append({"look": row["look"]} | draw.scaled({"gap": gap, "sequence": sequence}, m.factor) | texts)
    description = f"{label(name, GROUP)} (audited): the gap over all people until each look. Last: "
    title, level = f"Gap at each look, {label(name, GROUP)}", interval_name(audit.settings.confidence)
    notes = joined(f"thick: {level} of one look", "thin: confidence sequence, valid for all looks at once")
    subtitle = f"vs {label(audit.reference, GROUP)} (reference), in {m.long_unit}"
    reading = {"look": "look", "gap_text": f"gap ({level})", "sequence_text": "gap (confidence sequence)"}
    chart = _over_looks(audit, name, records, f"gap, in {m.long_unit}", draw.tooltip(reading))
    return figure(chart, records, title, f"{description}{records[-1]['sequence_text']}.", reading, subtitle, notes)


def _over_looks(audit: Audit, name: str, records: list[Record], what: str, tips: list[ChartPart]) -> ChartPart:
    x = alt.X("look:O", title="look", axis=alt.Axis(labelAngle=0, labelOverlap=True, grid=False))
    c = audit.comparisons.get(name) or replace(audit[0], audited=name)
    y, title = draw.directed_axis("y", "gap", what, draw.reach(records, ("sequence",), 0.0), c)
    layers = [
        draw.lines_at("y", [0.0], title, "zero"),
        draw.interval("y", "sequence", title, x, strokeWidth=3, color=draw.FAINT),
        draw.interval("y", "gap", title, x, strokeWidth=5, color=draw.QUIET),
        draw.dots("gap", size=50).encode(x=x, y=y, tooltip=tips),
    ]
    return alt.layer(*layers).properties(width=draw.WIDTH, height=240)


STEP = 34  # height of a row in pixels
LEFT, RIGHT = 330, 230  # widths of the two panels in pixels


def change(moved: GroupChange, shown: int = draw.SHOWN) -> Figure:
    """Return the figure with one row per feature: its old and new contribution, and the change."""
    title = "Change in each feature's contribution"
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
    chart = _panels(moved, records, m, m.factor * materiality, draw.tooltip(reading))
    subtitle = joined(in_unit(moved, m.long_unit), "○ old, ● new")
    return figure(chart, records, title, description, reading, subtitle, note)


def _record(row: Record, text: str, m: Measure) -> Record:
    alone = row_estimate(row, "alone_change")
    return (
        {"feature": row["feature"], "label": text, "full": label(row["feature"], draw.FULL)}
        | {name: m.factor * row[name] for name in ("alone_old", "alone_new")}
        | draw.scaled({"alone_change": alone}, m.factor)
        | {"old_text": m.difference(row["alone_old"]), "new_text": m.difference(row["alone_new"])}
        | {"change_text": written(alone, m.difference), "verdict": row["verdict"]}
    )


def _panels(
    moved: GroupChange, records: list[Record], m: Measure, threshold: float, tips: list[ChartPart]
) -> ChartPart:
    """Return the panel of old and new contributions, and the panel of changes with their bands."""
    y, unnamed = draw.name_axis(), draw.name_axis(has_labels=False)
    domain = draw.reach(records, ("alone_old", "alone_new"), 0.0, room=0.08)
    old, title = draw.directed_axis("x", "alone_old", f"contribution, in {m.long_unit}", domain, moved)
    new = draw.axis("x", "alone_new", title)
    path = alt.Chart().mark_rule(strokeWidth=2, color=draw.QUIET).encode(x=old, x2=alt.X2(field="alone_new"), y=y)
    hollow = draw.dots("alone_old", filled=False, fill=draw.PAPER, strokeWidth=2).encode(x=old, y=y, tooltip=tips)
    both = alt.layer(
        draw.lines_at("x", [0.0], title, "zero"), path, hollow, draw.dots("alone_new").encode(x=new, y=y, tooltip=tips)
    )
    changes = draw.reach(records, ("alone_change",), -threshold, threshold, room=0.08)
    x, title = draw.directed_axis("x", "alone_change", f"new − old, in {m.long_unit}", changes, moved)
    changed = alt.layer(
        draw.lines_at("x", (-threshold, 0.0, threshold), title),
        draw.interval("x", "alone_change", title, unnamed),
        draw.dots("alone_change", shape="diamond").encode(x=x, y=unnamed, tooltip=tips),
    )
    height = alt.Step(STEP)
    return alt.hconcat(
        both.properties(width=LEFT, height=height), changed.properties(width=RIGHT, height=height), spacing=24
    )


HEIGHT = 320
NAMES = 0.3  # share of the axis that is kept free for names beyond the lines


WITHOUT, WITH = "without the group", "with the group"
RULE, MODEL, CHOSEN = "another rule", "the audited rule", "the alternative"
DASHES = [[1, 0], [6, 3]]


def repair_curve(evaluation: RepairEvaluation) -> Figure:
    """Return the gap against AUC or accuracy along partial adjustments, with and without the group."""
    curve, repair = evaluation.curve, evaluation.repair
    name = next((name for name in ("auc", "accuracy") if name in curve.columns), None)
    title = f"Gap and {'AUC' if name == 'auc' else 'accuracy'} along partial adjustments"
    if name is None:
        raise nothing(title, "the outcome of these people was not given")
    both = [evaluation, *([] if evaluation.compared_with is None else [evaluation.compared_with])]
    key, rates = targets(repair)[0]
    key = key if key in curve.columns else "gap"
    records = [record for each in both for record in _steps(each, name, key)]
    what = "AUC" if name == "auc" else "accuracy (%)"
    ends = records[0], records[curve.height - 1]
    from_to = " to ".join(f"{end['gap_text']} points and {end['worth_text']}" for end in ends)
    lines = "one line with the group, one without" if len(both) > 1 else "one line"
    axis_title = f"gap in {rates}, audited minus reference, in points"
    description = f"{versus(repair)}. {what} against the {axis_title}, {lines}: {records[0]['way']} from {from_to}."
    reading = {
        "way": "adjustment",
        "part_text": "part of it",
        "gap_text": "gap (points)",
        "worth_text": what,
    }
    cost = "between the lines: the cost of not using the group" if len(both) > 1 else ""
    note = joined(people_of(evaluation.rows), "◆ before", "one dot per tenth of the adjustment", cost)
    chart = _traded(records, what, [f"gap in {rates}, in points", "audited minus reference"], draw.tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(repair, "points"), note)


def attainable(search: Alternatives) -> Figure:
    """Return the gap and accuracy of rules fitted on other rows, and of the audited rule."""
    title = "Gap and accuracy of other rules"
    if search.curve.is_empty():
        raise nothing(title, "the search has no other rules")
    own = _rule(search.gap, search.accuracy, MODEL)
    rows = search.curve.iter_rows(named=True)
    others = (_rule(row_estimate(row, "gap"), row_estimate(row, "accuracy"), RULE) for row in rows)
    records = [own, *others, _alternative(search)]
    accuracy = accuracy_name(search)
    description = (
        f"{versus(search)}. One dot per rule: {accuracy} against the gap of decision rates, with intervals. "
        f"The audited rule has {own['accuracy_text']} at a gap of {own['gap_text']} points."
    )
    reading = {"rule": "rule", "gap_text": "gap (points)", "accuracy_text": accuracy}
    weighted = "gaps are weighted" if search.soft else ""
    level = interval_name(search.confidence)
    note = joined(
        people_of(search.rows), "◆ the audited rule", "● other rules", "○ the alternative", f"lines: {level}", weighted
    )
    chart = _attained(records, accuracy, draw.tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(search, "points"), note)


def tolerances(search: Alternatives) -> Figure:
    """Draw the reduction in the gap for each accepted loss of accuracy, with one simultaneous confidence band."""
    title = "Reduction in the gap by accepted loss of accuracy"
    records = [_tolerance(row) for row in search.tolerances.iter_rows(named=True)]
    ends = ", ".join(f"{row['text']} points at {row['tolerance_text']}" for row in (records[0], records[-1]))
    description = f"{versus(search)}. Reduction of the gap against the accepted loss of accuracy: {ends}."
    reading = {"tolerance_text": "accepted loss (points)", "text": "reduction (points)", "verdict": "verdict"}
    labels = "● a less discriminatory alternative exists", "○ inconclusive, or not found"
    level = interval_name(search.confidence).replace("CI", "simultaneous confidence band")
    note = joined(people_of(search.rows), level, *labels)
    chart = _tolerated(records, draw.tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(search, "points"), note)


def _tolerance(row: Record) -> Record:
    reduction = row_estimate(row, "gap_reduction")
    return (
        {"tolerance": 100.0 * row["tolerance"], "verdict": row["verdict"]}
        | draw.scaled({"gap_reduction": reduction}, 100.0)
        | {"tolerance_text": f"{100.0 * row['tolerance']:g}", "text": written(reduction, points)}
    )


def _tolerated(records: list[Record], tips: list[ChartPart]) -> ChartPart:
    what = "reduction of the gap, in points →"
    x = alt.X("tolerance:Q", title="accepted loss of accuracy, in points")
    y = draw.axis("y", "gap_reduction", what, draw.reach(records, ("gap_reduction",), 0.0))
    low = draw.axis("y", "gap_reduction_low", what)
    fill = alt.condition("datum.verdict == 'exists'", alt.value(draw.INK), alt.value(draw.PAPER))
    return alt.layer(
        draw.lines_at("y", [0.0], what, "zero"),
        alt.Chart().mark_area(color=draw.QUIET, opacity=0.2).encode(x=x, y=low, y2=alt.Y2(field="gap_reduction_high")),
        alt.Chart().mark_line(color=draw.INK, strokeWidth=2).encode(x=x, y=y),
        draw.dots("gap_reduction", filled=False).encode(x=x, y=y, fill=fill, tooltip=tips),
    ).properties(width=draw.WIDTH, height=240)


def _steps(evaluation: RepairEvaluation, name: str, key: str) -> list[Record]:
    factor, worth_format = (1.0, number) if name == "auc" else (100.0, percent)
    return [
        {
            "way": WITH if evaluation.repair.use_group else WITHOUT,
            "part": row["part"],
            "gap": 100.0 * row[key],
            "worth": factor * row[name],
            "gap_text": points(row[key]),
            "worth_text": worth_format(row[name]),
            "part_text": whole_percent(row["part"]),
        }
        for row in evaluation.curve.iter_rows(named=True)
    ]


def _traded(records: list[Record], what: str, title: list[str], tips: list[ChartPart]) -> ChartPart:
    is_leftwards = records[0]["gap"] > 0.0
    low, high = draw.span([*(record["gap"] for record in records), 0.0], 0.1)
    room = NAMES * (high - low)  # space for names beyond the end of the lines
    x = draw.axis("x", "gap", title, [low - room * is_leftwards, high + room * (not is_leftwards)])
    y = draw.axis("y", "worth", what, draw.span([record["worth"] for record in records], 0.15))
    ways = [WITHOUT, WITH]
    colour = alt.Color("way:N", scale=alt.Scale(domain=ways, range=[draw.INK, draw.QUIET]), legend=None)
    dash = alt.StrokeDash("way:N", scale=alt.Scale(domain=ways, range=DASHES), legend=None)
    line = alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash, order="part:Q")
    before = draw.dots("gap", shape="diamond", size=160).transform_filter("datum.part == 0")
    names: list[ChartPart] = []
    outwards = {"align": "right", "dx": -10} if is_leftwards else {"align": "left", "dx": 10}
    for way in ways if len({record["way"] for record in records}) > 1 else ():
        end = alt.Chart().transform_filter(f"datum.part == 1 && datum.way == '{way}'").encode(x=x, y=y, text="way:N")
        names += draw.halo(end, fontWeight=600, **outwards)
    marks = draw.dots("gap", size=45).encode(x=x, y=y, color=colour, tooltip=tips)
    layers = [draw.lines_at("x", [0.0], title, "zero"), line, marks, before.encode(x=x, y=y, tooltip=tips), *names]
    return alt.layer(*layers).properties(width=draw.WIDTH, height=HEIGHT)


def _rule(gap: Estimate | None, accuracy: Estimate | None, kind: str) -> Record:
    texts = {"gap_text": written(gap, points), "accuracy_text": written(accuracy, percent)}
    return {"rule": kind} | draw.scaled({"gap": gap, "accuracy": accuracy}, 100.0) | texts


def _alternative(search: Alternatives) -> Record:
    """Return the rule that was chosen on other rows for the accepted loss of accuracy."""
    (row,) = search.tolerances.filter(pl.col("tolerance") == search.tolerance).iter_rows(named=True)
    accuracy = Estimate(search.accuracy.value + search.accuracy_change.value)
    return _rule(Estimate(row["gap"]), accuracy, CHOSEN)


def _attained(records: list[Record], accuracy: str, tips: list[ChartPart]) -> ChartPart:
    titles = ["gap of decision rates, in points", "audited minus reference"], f"{accuracy}, in %"
    x = draw.axis("x", "gap", titles[0], draw.reach(records, ("gap",), 0.0, room=0.05))
    y = draw.axis("y", "accuracy", titles[1], draw.reach(records, ("accuracy",), room=0.08))
    rules, model = f"datum.rule == '{RULE}'", f"datum.rule == '{MODEL}'"
    line = alt.Chart().transform_filter(rules).mark_line(strokeWidth=1.5, color=draw.FAINT).encode(x=x, y=y)
    whiskers = [
        draw.interval("y", "accuracy", titles[1], x, strokeWidth=1, color=draw.FAINT).transform_filter(rules),
        draw.interval("y", "accuracy", titles[1], x, strokeWidth=2).transform_filter(model),
        draw.interval("x", "gap", titles[0], y, strokeWidth=2).transform_filter(model),
    ]
    others = draw.dots("gap", size=45, color=draw.QUIET).transform_filter(rules).encode(x=x, y=y, tooltip=tips)
    own = draw.dots("gap", shape="diamond", size=180).transform_filter(model).encode(x=x, y=y, tooltip=tips)
    ring = draw.dots("gap", filled=False, size=200, strokeWidth=2.2).transform_filter(f"datum.rule == '{CHOSEN}'")
    chosen = ring.encode(x=x, y=y, tooltip=tips)
    layers = [draw.lines_at("x", [0.0], titles[0], "zero"), whiskers[0], line, others, *whiskers[1:], own, chosen]
    return alt.layer(*layers).properties(width=draw.WIDTH, height=HEIGHT)
