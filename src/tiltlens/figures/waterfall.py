"""From the reference group's mean score to the audited group's, feature by feature."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import labels, versus
from tiltlens.documents.quantities import brief, quantity
from tiltlens.documents.summary_access import FULL, Record, features, means
from tiltlens.documents.unobserved_groups import gap_name
from tiltlens.figures.figure import Figure, figure, nothing
from tiltlens.figures.theme import HIGHER, INK, LOWER, QUIET, WIDTH, altair
from tiltlens.formats import Shown, interval, label
from tiltlens.rows.measures import Measure, measure_of

STRONGEST = 12
ROOM = 66  # pixels right of the last bar, for its text, however narrow the page
KINDS = {"widens": HIGHER, "narrows": LOWER, "remains": QUIET, "mean": INK}  # of a step, by what it does to the gap
NAME = 34  # letters of a step, the role of a group among them
LEFT = quantity("adjusted_gap").label
THROUGH, EQUAL = (quantity(key).label for key in ("gap_explained_by_exempt", "gap_given_exempt"))
NO_PARTS = "there are no Shapley contributions here; see the contribution of each feature alone"


def waterfall(comparison: Record) -> Figure:
    """Return the gap in parts: the reference mean, what each feature adds (Shapley), the rest, the audited mean."""
    rows, m = features(comparison, None), measure_of(comparison)
    gap = comparison["gap"]
    title = f"Decomposition of the {gap_name(comparison)} of {m.with_unit(brief(gap, m)(gap['value']))}"
    if not rows:
        return nothing(title, "there are no features")
    if all(row["shapley"] is None for row in rows) and comparison["gap_parts"]["gap_explained_by_exempt"] is None:
        return nothing(title, NO_PARTS)
    audited, reference = means(comparison)
    records = _stairs(comparison, rows, reference)
    names = (label(comparison[role], NAME) for role in ("reference", "audited"))
    records = [_mean(next(names), reference, m), *records, _mean(next(names), audited, m)]
    parts = ", ".join(f"{record['label']} {record['text']}" for record in _labelled(records))
    description = (
        f"{versus(comparison)}. Steps from the reference group's {m.mean}, {m.level(reference)}, to the audited "
        f"group's, {m.level(audited)}, in {m.long_unit}: {parts}."
    )
    note = f"Shapley contributions, in {m.long_unit}; orange widens the gap, blue narrows it, grey remains"
    ends = "lines: confidence intervals" if any(record["low"] is not None for record in records) else ""
    return figure(_drawn(_labelled(records), m), _labelled(records), title, description, note, ends)


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
        steps.append((LEFT, comparison["gap_parts"]["shapley_remainder"], *_remainder_ends(comparison), "remainder"))
    elif comparison["gap_parts"]["gap_given_exempt"] is not None:
        steps.append((EQUAL, *_ends(comparison["gap_parts"]["gap_given_exempt"]), "equal"))
    m, records, level = measure_of(comparison), [], start
    write = brief({"value": max(abs(step[1]) for step in steps)}, m)
    for name, value, low, high, role in steps:
        is_wider = value * comparison["gap"]["value"] >= 0
        kind = "remains" if role in ("remainder", "equal") else "widens" if is_wider else "narrows"
        text = _remainder_text(comparison, write) if role == "remainder" else write(value)
        ends = interval(low, high, write)
        records.append(_step(name, level, value, low, high) | {"role": role, "kind": kind, "text": text, "range": ends})
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
        {"feature": name, "role": "mean", "start": value}
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


def _drawn(records: list[Record], m: Measure) -> Any:
    alt = altair()
    names = ("start", "end", "reach_low", "reach_high")
    ends = [record[name] for record in records for name in names if record[name] is not None]
    reach = max(ends) - min(ends) or 0.01 * (abs(ends[0]) or 1.0)
    domain = [min(ends) - 0.06 * reach, max(ends) + 0.02 * reach]
    axis = alt.Axis(labelLimit=205, ticks=False, domain=False, labelExpr="split(datum.label, '\\n')")
    y = alt.Y("label:N", sort=None, title=None, axis=axis)
    x = alt.X(
        "start:Q",
        title=f"{m.mean}, in {m.long_unit}",
        scale=alt.Scale(domain=domain, range=[0, {"expr": f"width - {ROOM}"}], zero=False, nice=False),
        axis=alt.Axis(labelExpr=f"format(datum.value * {m.factor}, '{m.difference_axis}')"),
    )
    colour = alt.Color("kind:N", scale=alt.Scale(domain=list(KINDS), range=list(KINDS.values())), legend=None)
    tooltip = [
        alt.Tooltip("full:N", title="step"),
        alt.Tooltip("text:N", title=m.long_unit),
        alt.Tooltip("range:N", title="interval"),
    ]
    joins = alt.Chart().mark_rule(color=QUIET, strokeWidth=1).encode(x=alt.X("end:Q"), y=y, y2=alt.Y2(field="next"))
    bars = alt.Chart().transform_filter("datum.kind != 'mean'").mark_bar(height={"band": 0.62}, opacity=0.75)
    marks = alt.Chart().transform_filter("datum.kind == 'mean'").mark_tick(thickness=4, size=22, opacity=1)
    whiskers = alt.Chart().transform_filter("datum.reach_low != null").mark_rule(color=INK, strokeWidth=1.8)
    texts = alt.Chart().mark_text(align="left", dx=7, fontWeight=600)
    layers = [
        joins,
        bars.encode(x=x, x2=alt.X2(field="end"), y=y, color=colour, tooltip=tooltip),
        whiskers.encode(x=alt.X("reach_low:Q", title=x["title"]), x2=alt.X2(field="reach_high"), y=y, tooltip=tooltip),
        marks.encode(x=x, y=y, color=colour, tooltip=tooltip),
        texts.encode(x=alt.X("far:Q", title=x["title"]), y=y, text=alt.Text("text:N")),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=30 * len(records))
