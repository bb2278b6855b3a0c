"""From the reference group's mean score to the audited group's, feature by feature."""

from __future__ import annotations

from collections.abc import Sequence

from tiltlens.documents.headline import gap_name
from tiltlens.documents.labels import disadvantage_sign, group_words, labels, means, measure_of, versus
from tiltlens.documents.quantities import brief, brief_of, quantity
from tiltlens.estimators.estimate import Estimate
from tiltlens.figures.figure import Figure, Record, figure, in_unit, joined, noted, nothing
from tiltlens.figures.marks import interval, name_axis, tooltip
from tiltlens.figures.parts import FULL
from tiltlens.figures.theme import DISADVANTAGE, FAINT, INK, PAPER, QUIET, WIDTH, ChartPart, altair
from tiltlens.formats import interval as interval_text
from tiltlens.formats import label
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import Contribution
from tiltlens.rows.wording import Measure

STRONGEST = 12
ROOM = 66  # pixels right of the last bar, for its text, however narrow the page
KINDS = {"disadvantage": DISADVANTAGE, "advantage": FAINT, "mean": INK}  # of a step, by what it does to the audited
REMAINS = "datum.is_remainder == true"
NAME = 34  # letters of a step, the role of a group among them
LEFT = quantity("adjusted_gap").label
REMAINDER = "remainder"  # by the regressions of the Shapley contributions, where these miss the adjusted gap
THROUGH, EQUAL = (quantity(key).label for key in ("gap_explained_by_exempt", "gap_given_exempt"))
NO_PARTS = "the audit has no Shapley contributions; see the contribution of each feature alone"


def waterfall(c: Comparison) -> Figure:
    """Return the gap in parts: the reference mean, what each feature adds (Shapley), the rest, the audited mean."""
    rows, m = c.by_feature, measure_of(c)
    gap = c.gap
    title = f"Decomposition of the {gap_name(c)} of {m.with_unit(brief(gap, m)(gap.value))}"
    if not rows:
        raise nothing(title, "the audit has no features")
    if all(row.shapley is None for row in rows) and c.gap_parts.gap_explained_by_exempt is None:
        raise nothing(title, NO_PARTS)
    audited, reference = means(c)
    records = _stairs(c, rows, reference)
    names = (label(name, NAME) for name in (c.reference, c.audited))
    records = [_mean(next(names), reference, m), *records, _mean(next(names), audited, m)]
    parts = ", ".join(f"{record['label']} {record['text']}" for record in _labelled(records))
    description = (
        f"{versus(c)}. Steps from the reference group's {m.mean}, {m.level(reference)}, to the audited "
        f"group's, {m.level(audited)}, in {m.long_unit}: {parts}."
    )
    has_ends = any(record["reach_low"] is not None for record in records)
    filled = f"orange: disadvantage of {group_words(c, 'audited')}; outlined: not accounted for by features"
    subtitle = joined(in_unit(c, m.long_unit), "Shapley contributions")
    reading = {"full": "step", "text": m.long_unit, "range": "interval"}
    note = noted(c, filled, intervals="CI" if has_ends else "")
    drawn = _labelled(records)
    return figure(_steps(drawn, m, tooltip(reading)), drawn, title, description, reading, subtitle, note)


def _stairs(c: Comparison, rows: Sequence[Contribution], start: float) -> list[Record]:
    """Return one step a feature in the order of the table, the weak ones joined, and what the features leave."""
    gap, steps = c.gap_parts, list[tuple[str, Estimate, str]]()
    if gap.gap_explained_by_exempt is not None:
        steps.append((THROUGH, gap.gap_explained_by_exempt, "exempt"))
    shapley = [(row.feature, row.shapley, "feature") for row in rows if row.shapley is not None]
    most = len(shapley) if len(shapley) <= STRONGEST + 1 else STRONGEST
    largest = {name for name, *_ in sorted(shapley, key=lambda step: -abs(step[1]))[:most]}
    steps += [step for step in shapley if step[0] in largest]
    rest = [step for step in shapley if step[0] not in largest]
    if rest:
        steps.append((f"{len(rest)} other features", Estimate(sum(value for _, value, _ in rest)), "others"))
    if gap.shapley_remainder is not None:
        name = LEFT if _agrees(c, gap.shapley_remainder) else REMAINDER
        steps.append((name, _remainder(c, gap.shapley_remainder), "remainder"))
    elif gap.gap_given_exempt is not None:
        steps.append((EQUAL, gap.gap_given_exempt, "equal"))
    m, records, level = measure_of(c), [], start
    sign = disadvantage_sign(c)
    values = [_shown(c, estimate.value, role) for _, estimate, role in steps]
    write = brief_of(values, m)
    for (name, estimate, role), shown in zip(steps, values, strict=True):
        value, text = estimate.value, write(shown)
        kind = "disadvantage" if value * sign > 0 else "advantage"
        ends = interval_text(estimate.low, estimate.high, write)
        records.append(
            _step(name, level, estimate)
            | {"kind": kind, "text": text, "range": ends}
            | {"role": role, "is_remainder": role in ("remainder", "equal")}
        )
        level += value
    return records


def _agrees(c: Comparison, remainder: float) -> bool:
    """Return whether the remainder of the Shapley contributions and the adjusted gap are one number to a reader."""
    return c.adjusted_gap is not None and abs(c.adjusted_gap - remainder) < c.scale.materiality


def _remainder(c: Comparison, remainder: float) -> Estimate:
    """Return the remainder with its interval, which is that of the adjusted gap where both agree."""
    left = c.adjusted_gap
    return (
        Estimate(remainder, left.low, left.high) if left is not None and _agrees(c, remainder) else Estimate(remainder)
    )


def _shown(c: Comparison, value: float, role: str) -> float:
    """Return a step as the sentences have it: two estimators of the adjusted gap differ in the last digit."""
    left = c.adjusted_gap
    return left.value if role == "remainder" and left is not None and _agrees(c, value) else value


def _step(name: str, start: float, estimate: Estimate) -> Record:
    value, low, high = estimate.value, estimate.low, estimate.high
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


def _steps(records: list[Record], m: Measure, tips: list[ChartPart]) -> ChartPart:
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
