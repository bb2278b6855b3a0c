"""From the reference group's mean score to the audited group's, feature by feature."""

from __future__ import annotations

from typing import Any

from tiltlens.views.figures.figure import Figure, data, figure, nothing
from tiltlens.views.figures.reading import Record, features, means
from tiltlens.views.figures.theme import FAINT, INK, QUIET, WIDTH, altair
from tiltlens.views.figures.words import groups, labels, versus
from tiltlens.views.formats import interval, points, short_number

STRONGEST = 12
ROOM = 66  # pixels right of the last bar, for its text, however narrow the page
POINTS = "datum.value * 100"
KINDS = {"raises": "#A63603", "lowers": "#08519C", "mean": INK}
OVERLAP = "no Shapley values here: bars are each feature's own gap, which overlap and do not add up"


def waterfall(comparison: Record) -> Figure:
    """Return the gap in points: the reference mean, what each feature adds (Shapley), the rest, the audited mean."""
    rows = features(comparison, None)
    title = f"What the gap of {points(comparison['gap']['value'])} points is made of"
    if not rows:
        return nothing(title, "there are no features")
    if all(row["gap_shapley"] is None for row in rows):
        return _own_gaps(comparison, rows, title)
    audited, reference = means(comparison)
    records = _stairs(comparison, rows, reference)
    names = groups(comparison)
    records = [_mean(names[1], reference), *records, _mean(names[0], audited)]
    parts = ", ".join(f"{record['label']} {record['text']}" for record in _labelled(records))
    description = (
        f"{versus(comparison)}. Steps from the reference group's mean score, {short_number(reference)}, to the audited "
        f"group's, {short_number(audited)}, in points (hundredths of the score): {parts}."
    )
    note = "Shapley values, in points (hundredths of the score)"
    return figure(_drawn(_labelled(records), "mean score, in points"), _labelled(records), title, description, note)


def _own_gaps(comparison: Record, rows: list[Record], title: str) -> Figure:
    shown = [row for row in rows if row["gap"] is not None][:STRONGEST]
    if not shown:
        return nothing(title, "no feature's gap is known")
    records = _labelled(
        [_step(row["feature"], 0.0, row["gap"], row["gap_low"], row["gap_high"], "feature") for row in shown]
    )
    description = f"{versus(comparison)}. One bar a feature: the points of the gap it carries by itself. {OVERLAP}."
    more = f"the {len(shown)} strongest of {len(rows)} features" if len(rows) > len(shown) else ""
    return figure(_drawn(records, "points of the gap", False), records, title, description, OVERLAP, more)


def _stairs(comparison: Record, rows: list[Record], start: float) -> list[Record]:
    """Return one step a feature, largest first, the weak ones joined, and what the features leave."""
    known = sorted((row for row in rows if row["gap_shapley"] is not None), key=lambda row: -abs(row["gap_shapley"]))
    shown, rest = (known, []) if len(known) <= STRONGEST + 1 else (known[:STRONGEST], known[STRONGEST:])
    parts = [(row["feature"], row["gap_shapley"], row["gap_shapley_low"], row["gap_shapley_high"]) for row in shown]
    found = [(*part, "feature") for part in parts]
    if rest:
        found.append((f"{len(rest)} other features", sum(row["gap_shapley"] for row in rest), None, None, "others"))
    if comparison["shapley_remainder"] is not None:
        found.append(("left by the features", comparison["shapley_remainder"], None, None, "remainder"))
    records, place = [], start
    for name, value, low, high, role in found:
        records.append(_step(name, place, value, low, high, role))
        place += value
    return records


def _step(name: str, start: float, value: float, low: float | None, high: float | None, role: str) -> Record:
    arrow = "▲ " if value > 0 else "▼ " if value < 0 else ""
    return {
        "feature": name,
        "role": role,
        "contribution": value,
        "low": low,
        "high": high,
        "start": start,
        "end": start + value,
        "far": max(start, start + value),
        "kind": "raises" if value >= 0 else "lowers",
        "text": f"{arrow}{points(value)}",
        "range": interval(low, high, points),
    }


def _mean(name: str, value: float) -> Record:
    text = f"{100 * value:.2f}"
    step = {"feature": name, "role": "mean", "contribution": None, "low": None, "high": None, "start": value}
    return step | {"end": value, "far": value, "kind": "mean", "text": text, "range": ""}


def _labelled(records: list[Record]) -> list[Record]:
    """Return the steps with labels that can be told apart, each knowing the next."""
    texts = labels(record["feature"] for record in records)
    after = [*texts[1:], texts[-1]]
    return [record | {"label": a, "next": b} for record, a, b in zip(records, texts, after, strict=True)]


def _drawn(records: list[Record], axis: str, is_chain: bool = True) -> Any:
    alt = altair()
    ends = [record[name] for record in records for name in ("start", "end")]
    reach = max(ends) - min(ends) or 0.01
    domain = [min(ends) - 0.06 * reach, max(ends) + 0.02 * reach]
    y = alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labelLimit=230, ticks=False, domain=False))
    x = alt.X(
        "start:Q",
        title=f"{axis} (hundredths of the score)" if not is_chain else axis,
        scale=alt.Scale(domain=domain, range=[0, {"expr": f"width - {ROOM}"}], zero=False, nice=False),
        axis=alt.Axis(labelExpr=f"format({POINTS}, '.1~f')"),
    )
    colour = alt.Color("kind:N", scale=alt.Scale(domain=list(KINDS), range=list(KINDS.values())), legend=None)
    tooltip = [
        alt.Tooltip("label:N", title="step"),
        alt.Tooltip("text:N", title="points"),
        alt.Tooltip("range:N", title="interval"),
    ]
    bars = alt.Chart().transform_filter("datum.kind != 'mean'").mark_bar(height={"band": 0.62})
    marks = alt.Chart().transform_filter("datum.kind == 'mean'").mark_tick(thickness=4, size=22, opacity=1)
    texts = alt.Chart().mark_text(align="left", dx=7, fontWeight=600)
    layers = [
        bars.encode(x=x, x2=alt.X2(field="end"), y=y, color=colour, tooltip=tooltip),
        marks.encode(x=x, y=y, color=colour, tooltip=tooltip),
        texts.encode(x=alt.X("far:Q", title=x["title"]), y=y, text=alt.Text("text:N")),
    ]
    if is_chain:
        joins = alt.Chart().mark_rule(color=QUIET, strokeWidth=1).encode(x=alt.X("end:Q"), y=y, y2=alt.Y2(field="next"))
        layers.insert(0, joins)
    else:
        zero = alt.Chart(data([{"zero": 0}], "zero")).mark_rule(color=FAINT).encode(x=alt.X("zero:Q"))
        layers.insert(0, zero)
    return alt.layer(*layers).properties(width=WIDTH, height=30 * len(records))
