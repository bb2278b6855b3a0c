"""From the reference group's mean score to the audited group's, feature by feature."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import disadvantage_sign, group_words, labels, versus
from tiltlens.documents.quantities import brief, quantity
from tiltlens.documents.summary_access import FULL, Record, features, means
from tiltlens.documents.unobserved_groups import gap_name
from tiltlens.figures.figure import Figure, figure, in_unit, joined, noted, nothing
from tiltlens.figures.marks import interval, name_axis, tooltip
from tiltlens.figures.theme import DISADVANTAGE, FAINT, INK, PAPER, QUIET, WIDTH, altair
from tiltlens.formats import Shown, label
from tiltlens.formats import interval as interval_text
from tiltlens.rows.measures import Measure, measure_of

STRONGEST = 12
ROOM = 66  # pixels right of the last bar, for its text, however narrow the page
KINDS = {"disadvantage": DISADVANTAGE, "advantage": FAINT, "mean": INK}  # of a step, by what it does to the audited
REMAINS = "datum.is_remainder == true"
NAME = 34  # letters of a step, the role of a group among them
LEFT = quantity("adjusted_gap").label
ROUGHER = f"rougher estimate of the {LEFT}"  # by the regressions of the Shapley contributions
THROUGH, EQUAL = (quantity(key).label for key in ("gap_explained_by_exempt", "gap_given_exempt"))
NO_PARTS = "the audit has no Shapley contributions; see the contribution of each feature alone"


def waterfall(comparison: Record) -> Figure:
    """Return the gap in parts: the reference mean, what each feature adds (Shapley), the rest, the audited mean."""
    rows, m = features(comparison, None), measure_of(comparison)
    gap = comparison["gap"]
    title = f"Decomposition of the {gap_name(comparison)} of {m.with_unit(brief(gap, m)(gap['value']))}"
    if not rows:
        raise nothing(title, "the audit has no features")
    if all(row["shapley"] is None for row in rows) and comparison["gap_parts"]["gap_explained_by_exempt"] is None:
        raise nothing(title, NO_PARTS)
    audited, reference = means(comparison)
    records = _stairs(comparison, rows, reference)
    names = (label(comparison[role], NAME) for role in ("reference", "audited"))
    records = [_mean(next(names), reference, m), *records, _mean(next(names), audited, m)]
    parts = ", ".join(f"{record['label']} {record['text']}" for record in _labelled(records))
    description = (
        f"{versus(comparison)}. Steps from the reference group's {m.mean}, {m.level(reference)}, to the audited "
        f"group's, {m.level(audited)}, in {m.long_unit}: {parts}."
    )
    has_ends = any(record["reach_low"] is not None for record in records)
    filled = f"orange: disadvantage of {group_words(comparison, 'audited')}; outlined: not accounted for by features"
    subtitle = joined(in_unit(comparison, m.long_unit), "Shapley contributions")
    reading = {"full": "step", "text": m.long_unit, "range": "interval"}
    note = noted(comparison, filled, intervals="CI" if has_ends else "")
    drawn = _labelled(records)
    return figure(_steps(drawn, m, tooltip(reading)), drawn, title, description, reading, subtitle, note)


def _stairs(comparison: Record, rows: list[Record], start: float) -> list[Record]:
    """Return one step a feature, largest first, the weak ones joined, and what the features leave."""
    steps = (
        [(THROUGH, *_ends(comparison["gap_parts"]["gap_explained_by_exempt"]), "exempt")]
        if comparison["gap_parts"]["gap_explained_by_exempt"]
        else []
    )
    measured = sorted((row for row in rows if row["shapley"] is not None), key=lambda row: -abs(row["shapley"]))
    strongest, rest = (measured, []) if len(measured) <= STRONGEST + 1 else (measured[:STRONGEST], measured[STRONGEST:])
    parts = [(row["feature"], row["shapley"], row["shapley_low"], row["shapley_high"]) for row in strongest]
    steps += [(*part, "feature") for part in parts]
    if rest:
        steps.append((f"{len(rest)} other features", sum(row["shapley"] for row in rest), None, None, "others"))
    if comparison["gap_parts"]["shapley_remainder"] is not None:
        name = LEFT if _agrees(comparison) else ROUGHER
        steps.append((name, comparison["gap_parts"]["shapley_remainder"], *_remainder_ends(comparison), "remainder"))
    elif comparison["gap_parts"]["gap_given_exempt"] is not None:
        steps.append((EQUAL, *_ends(comparison["gap_parts"]["gap_given_exempt"]), "equal"))
    m, records, level = measure_of(comparison), [], start
    sign = disadvantage_sign(comparison)
    write = brief({"value": max(abs(step[1]) for step in steps)}, m)
    for name, value, low, high, role in steps:
        kind = "disadvantage" if value * sign > 0 else "advantage"
        text = _remainder_text(comparison, write) if role == "remainder" else write(value)
        ends = interval_text(low, high, write)
        records.append(
            _step(name, level, value, low, high)
            | {"kind": kind, "text": text, "range": ends}
            | {"role": role, "is_remainder": role in ("remainder", "equal")}
        )
        level += value
    return records


def _agrees(comparison: Record) -> bool:
    """Return whether the remainder of the Shapley contributions and the adjusted gap are one number to a reader."""
    left, remainder = comparison["adjusted_gap"], comparison["gap_parts"]["shapley_remainder"]
    return left is not None and abs(left["value"] - remainder) < comparison["scale"]["materiality"]


def _remainder_ends(comparison: Record) -> tuple[float | None, float | None]:
    """Return the interval of the remainder, which is that of the adjusted gap where both agree."""
    left = comparison["adjusted_gap"]
    return (left["low"], left["high"]) if _agrees(comparison) else (None, None)


def _remainder_text(comparison: Record, write: Shown) -> str:
    """Return the remainder as the sentences have it: two estimators of the adjusted gap differ in the last digit."""
    remainder = comparison["gap_parts"]["shapley_remainder"]
    return write(comparison["adjusted_gap"]["value"] if _agrees(comparison) else remainder)


def _ends(estimate: Record) -> tuple[float, float | None, float | None]:
    return estimate["value"], estimate["low"], estimate["high"]


def _step(name: str, start: float, value: float, low: float | None, high: float | None) -> Record:
    return {
        "feature": name,
        "contribution": value,
        "low": low,
        "high": high,
        "start": start,
        "end": start + value,
        "reach_low": None if low is None else start + low,
        "reach_high": None if high is None else start + high,
        "far": max(start, start + value, start + value if high is None else start + high),
    }


def _mean(name: str, value: float, m: Measure) -> Record:
    step: Record = dict.fromkeys(("contribution", "low", "high", "reach_low", "reach_high"))
    return (
        {"feature": name, "role": "mean", "is_remainder": False, "start": value}
        | step
        | {"end": value, "far": value, "kind": "mean", "text": m.level(value), "range": ""}
    )


def _labelled(records: list[Record]) -> list[Record]:
    """Return the steps with labels that can be told apart, each knowing the next."""
    labels_of_steps = labels((record["feature"] for record in records), NAME)
    after = [*labels_of_steps[1:], labels_of_steps[-1]]
    return [
        record | {"full": label(record["feature"], FULL), "label": a, "next": b}
        for record, a, b in zip(records, labels_of_steps, after, strict=True)
    ]


def _steps(records: list[Record], m: Measure, tips: list[Any]) -> Any:
    alt = altair()
    names = ("start", "end", "reach_low", "reach_high")
    ends = [record[name] for record in records for name in names if record[name] is not None]
    reach = max(ends) - min(ends) or 0.01 * (abs(ends[0]) or 1.0)
    domain = [min(ends) - 0.06 * reach, max(ends) + 0.02 * reach]
    y, title = name_axis(limit=205, grid=False), f"{m.mean}, in {m.long_unit if m.is_amount else '%'}"
    x = alt.X(
        "start:Q",
        title=title,
        scale=alt.Scale(domain=domain, range=[0, {"expr": f"width - {ROOM}"}], zero=False, nice=False),
        axis=alt.Axis(labelExpr=f"format(datum.value * {m.factor}, '{m.difference_axis}')"),
    )
    scale = alt.Scale(domain=list(KINDS), range=list(KINDS.values()))
    colour, stroke = alt.Color("kind:N", scale=scale, legend=None), alt.Stroke("kind:N", scale=scale, legend=None)
    joins = alt.Chart().mark_rule(color=QUIET, strokeWidth=1).encode(x=alt.X("end:Q"), y=y, y2=alt.Y2(field="next"))
    steps = alt.Chart().transform_filter("datum.kind != 'mean'").transform_filter(REMAINS.replace("==", "!="))
    rest = alt.Chart().transform_filter(REMAINS).mark_bar(height={"band": 0.58}, fill=PAPER, strokeWidth=2)
    means = alt.Chart().transform_filter("datum.kind == 'mean'").mark_tick(thickness=4, size=22, opacity=1)
    texts = alt.Chart().mark_text(align="left", dx=7, fontWeight=600)
    layers = [
        joins,
        steps.mark_bar(height={"band": 0.62}, opacity=0.75).encode(
            x=x, x2=alt.X2(field="end"), y=y, color=colour, tooltip=tips
        ),
        rest.encode(x=x, x2=alt.X2(field="end"), y=y, stroke=stroke, tooltip=tips),
        interval("x", "reach", title, y),
        means.encode(x=x, y=y, color=colour, tooltip=tips),
        texts.encode(x=alt.X("far:Q", title=title), y=y, text=alt.Text("text:N")),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=30 * len(records))
