"""Figures of gaps: rates by group, the waterfall of a gap, and the intersections of many groups."""

from __future__ import annotations

from collections.abc import Sequence

from tiltlens._documents import document as doc
from tiltlens._documents.headline import WEIGHTED, gap_name, is_of_decisions
from tiltlens._documents.quantities import brief, brief_of, quantity, written
from tiltlens._estimators.estimate import Estimate
from tiltlens._formats import interval as interval_text
from tiltlens._formats import interval_name, label, ratio
from tiltlens._limits import FOUR_FIFTHS
from tiltlens._results.audit import Audit
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import Contribution, row_estimate
from tiltlens._rows.wording import Measure
from tiltlens.figures import _marks as draw
from tiltlens.figures._figure import Figure, figure, in_unit, joined, noted, nothing, source_of
from tiltlens.figures._marks import ChartPart, Record, alt

GROUPS = 30
NAME_OF_GROUP = 40  # letters
OTHER_WAY = 1 / FOUR_FIFTHS  # four fifths if the audited group's rate is the higher one
NEAR = 1.1  # ratio above which the second line is drawn


def rates(audit: Audit) -> Figure:
    """Return the favourable rate of every group with its interval, and its ratio to the reference's rate."""
    m, comparisons = doc.measure_of(audit), list(audit.comparisons.values())
    is_soft = any(c.unobserved_group for c in comparisons)
    name = m.rate.capitalize()
    title = f"{name} by group {WEIGHTED}" if is_soft else f"{name} by group and ratio to the reference"
    if not comparisons:
        raise nothing(title, "the audit has no group to compare")
    first = comparisons[0]
    rows = [_row(first.reference, "reference", first.rates.reference, None, m)]
    rows += [_row(c.audited, "audited", c.rates.audited, c.impact_ratio, m) for c in comparisons]
    texts = doc.labels((row["group"] for row in rows[:GROUPS]), NAME_OF_GROUP)
    records = [row | {"label": text} for row, text in zip(rows, texts, strict=False)]
    parts = ", ".join(f"{record['label']} {m.level(record['rate'])}" for record in records[:6])
    description = f"One row per group: its {m.rate}{m.among}{'' if is_soft else ', and its ratio'}. {parts}."
    has_line = is_of_decisions(audit)
    people = first.rows["reference"] + sum(c.rows["audited"] for c in comparisons)
    note = joined(
        f"n = {people:,}",
        doc.level_of(first) if records[0]["rate_low"] is not None else "",
        "dashed: four fifths" if has_line and not is_soft else "",
        f"the first {GROUPS} of {len(rows)} groups" if len(rows) > GROUPS else "",
        source_of(first),
    )
    subtitle = joined(f"● audited, ◼ reference ({label(first.reference, doc.GROUP)})", m.among.strip())
    name_of_ratio = quantity("impact_ratio").label
    reading = {"label": "group", "rate_text": m.rate} | ({} if is_soft else {"ratio_text": name_of_ratio})
    chart = _panels(records, f"{name_of_ratio}: audited ÷ reference", has_line, m, draw.tooltip(reading))
    chart = chart.hconcat[0] if is_soft else chart
    return figure(chart, records, title, description, reading, subtitle, note)


def _row(name: str, role: str, rate: Estimate, quotient: Estimate | None, m: Measure) -> Record:
    return {
        "group": name,
        "role": role,
        **draw.scaled({"rate": rate, "ratio": quotient}, 1.0),
        "rate_text": written(rate, m.level),
        "ratio_text": written(quotient, ratio),
    }


def _panels(records: list[Record], ratio_title: str, has_line: bool, m: Measure, tips: list[ChartPart]) -> ChartPart:
    # The lower rate is four fifths of the higher; above 1, there is a line only if a ratio is near it.
    ends = [record[f"ratio{end}"] or 0.0 for record in records for end in draw.ENDS]
    lines = [1.0, *([FOUR_FIFTHS] if has_line else []), *([OTHER_WAY] if has_line and max(ends) > NEAR else [])]
    x_rate = draw.axis("x", "rate", m.rate, _domain(records, "rate", [], m.is_amount), format=m.axis, tickCount=5)
    x_ratio = draw.axis("x", "ratio", ratio_title, _domain(records, "ratio", lines, False))
    panels = [
        _panel("rate", x_rate, tips),
        alt.layer(draw.lines_at("x", lines, ratio_title, solid=1.0), _panel("ratio", x_ratio, tips)),
    ]
    return alt.hconcat(*(panel.properties(width=270, height=alt.Step(30)) for panel in panels), spacing=20)


def _domain(records: list[Record], name: str, more: list[float], is_amount: bool) -> list[float]:
    """Return a domain just large enough for the intervals."""
    ends = [record[f"{name}{end}"] for record in records for end in draw.ENDS]
    numbers = [end for end in ends if end is not None] + more
    domain = draw.span(numbers, 0.12) if is_amount else draw.span(numbers, 0.12, 0.1)
    least = 0.0 if min(numbers, default=0.0) >= 0.0 else domain[0]
    return [max(domain[0], least), domain[1]]


def _panel(name: str, x: ChartPart, tips: list[ChartPart]) -> ChartPart:
    y, (colour, shape) = draw.name_axis(name == "rate", 270), draw.group_channels()
    return alt.layer(
        alt.Chart().mark_point(opacity=0).encode(y=y),
        draw.interval("x", name, x["title"], y).encode(color=colour),
        draw.dots(name, size=95).encode(x=x, y=y, color=colour, shape=shape, tooltip=tips),
    )


STRONGEST = 12
ROOM = 66  # pixels for the text right of the last bar, even on a narrow page
KINDS = {"disadvantage": draw.DISADVANTAGE, "advantage": draw.FAINT, "mean": draw.INK}  # by effect on the audited group
REMAINS = "datum.is_remainder == true"
NAME = 34  # maximum number of characters of a step's name, including the role of a group
LEFT = quantity("adjusted_gap").label
REMAINDER = "remainder"  # label of the Shapley remainder if it differs materially from the adjusted gap
THROUGH, EQUAL = (quantity(key).label for key in ("gap_explained_by_exempt", "gap_given_exempt"))
NO_PARTS = "the audit has no Shapley contributions; see the contribution of each feature alone"


def waterfall(c: Comparison) -> Figure:
    """Draw the gap in parts: reference mean, each feature's Shapley contribution, the remainder, audited mean."""
    rows, m = c.by_feature, doc.measure_of(c)
    gap = c.gap
    title = f"Decomposition of the {gap_name(c)} of {m.with_unit(brief(gap, m)(gap.value))}"
    if not rows:
        raise nothing(title, "the audit has no features")
    if all(row.shapley is None for row in rows) and c.gap_parts.gap_explained_by_exempt is None:
        raise nothing(title, NO_PARTS)
    audited, reference = doc.means(c)
    records = _stairs(c, rows, reference)
    names = (label(name, NAME) for name in (c.reference, c.audited))
    records = [_mean(next(names), reference, m), *records, _mean(next(names), audited, m)]
    parts = ", ".join(f"{record['label']} {record['text']}" for record in _labelled(records))
    description = (
        f"{doc.versus(c)}. Steps from the reference group's {m.mean}, {m.level(reference)}, to the audited "
        f"group's, {m.level(audited)}, in {m.long_unit}: {parts}."
    )
    has_ends = any(record["reach_low"] is not None for record in records)
    filled = f"orange: disadvantage of {doc.group_words(c, 'audited')}; outlined: not accounted for by features"
    subtitle = joined(in_unit(c, m.long_unit), "Shapley contributions")
    reading = {"full": "step", "text": m.long_unit, "range": "interval"}
    note = noted(c, filled, intervals="CI" if has_ends else "")
    drawn = _labelled(records)
    return figure(_steps(drawn, m, draw.tooltip(reading)), drawn, title, description, reading, subtitle, note)


def _stairs(c: Comparison, rows: Sequence[Contribution], start: float) -> list[Record]:
    """Return one step per feature in the order of the table, with weak features joined, and the remainder."""
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
    m, records, level = doc.measure_of(c), [], start
    sign = doc.disadvantage_sign(c)
    values = [_drawn_value(c, estimate.value, role) for _, estimate, role in steps]
    write = brief_of(values, m)
    for (name, estimate, role), drawn_value in zip(steps, values, strict=True):
        value, text = estimate.value, write(drawn_value)
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
    """Return whether the remainder of the Shapley contributions differs immaterially from the adjusted gap."""
    return c.adjusted_gap is not None and abs(c.adjusted_gap - remainder) < c.scale.materiality


def _remainder(c: Comparison, remainder: float) -> Estimate:
    """Return the remainder, with the interval of the adjusted gap if both agree."""
    left = c.adjusted_gap
    return (
        Estimate(remainder, left.low, left.high) if left is not None and _agrees(c, remainder) else Estimate(remainder)
    )


def _drawn_value(c: Comparison, value: float, role: str) -> float:
    """Return the value of a step as shown: for a remainder that agrees with the adjusted gap, the adjusted gap."""
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
    """Return the steps with distinct labels, each with the label of the next step."""
    labels_of_steps = doc.labels((record["feature"] for record in records), NAME)
    after = [*labels_of_steps[1:], labels_of_steps[-1]]
    return [
        record | {"full": label(record["feature"], draw.FULL), "label": a, "next": b}
        for record, a, b in zip(records, labels_of_steps, after, strict=True)
    ]


def _steps(records: list[Record], m: Measure, tips: list[ChartPart]) -> ChartPart:
    names = ("start", "end", "reach_low", "reach_high")
    ends = [record[name] for record in records for name in names if record[name] is not None]
    reach = max(ends) - min(ends) or 0.01 * (abs(ends[0]) or 1.0)
    domain = [min(ends) - 0.06 * reach, max(ends) + 0.02 * reach]
    y, title = draw.name_axis(limit=205, grid=False), f"{m.mean}, in {m.long_unit if m.is_amount else '%'}"
    x = alt.X(
        "start:Q",
        title=title,
        scale=alt.Scale(domain=domain, range=[0, {"expr": f"width - {ROOM}"}], zero=False, nice=False),
        axis=alt.Axis(labelExpr=f"format(datum.value * {m.factor}, '{draw.tick_format(m, reach)}')"),
    )
    scale = alt.Scale(domain=list(KINDS), range=list(KINDS.values()))
    colour, stroke = alt.Color("kind:N", scale=scale, legend=None), alt.Stroke("kind:N", scale=scale, legend=None)
    joins = (
        alt.Chart().mark_rule(color=draw.QUIET, strokeWidth=1).encode(x=alt.X("end:Q"), y=y, y2=alt.Y2(field="next"))
    )
    steps = alt.Chart().transform_filter("datum.kind != 'mean'").transform_filter(REMAINS.replace("==", "!="))
    rest = alt.Chart().transform_filter(REMAINS).mark_bar(height={"band": 0.58}, fill=draw.PAPER, strokeWidth=2)
    means = alt.Chart().transform_filter("datum.kind == 'mean'").mark_tick(thickness=4, size=22, opacity=1)
    texts = alt.Chart().mark_text(align="left", dx=7, fontWeight=600)
    layers = [
        joins,
        steps.mark_bar(height={"band": 0.62}, opacity=0.75).encode(
            x=x, x2=alt.X2(field="end"), y=y, color=colour, tooltip=tips
        ),
        rest.encode(x=x, x2=alt.X2(field="end"), y=y, stroke=stroke, tooltip=tips),
        draw.interval("x", "reach", title, y),
        means.encode(x=x, y=y, color=colour, tooltip=tips),
        texts.encode(x=alt.X("far:Q", title=title), y=y, text=alt.Text("text:N")),
    ]
    return alt.layer(*layers).properties(width=draw.WIDTH, height=30 * len(records))


DRAWN_GROUPS = 40


def intersections(audit: Audit) -> Figure:
    """Return the shrunken deviation of each group in increasing order; of many groups, only the extremes."""
    title = "Deviation of each group from the overall mean"
    every = None if audit.intersections is None else audit.intersections.disclosed()
    if every is None or every.frame.is_empty():
        raise nothing(title, "the audit has too few groups of ten people or more")
    m, rows = doc.measure_of(audit), sorted(every.frame.iter_rows(named=True), key=lambda row: row["deviation"])
    half = DRAWN_GROUPS // 2
    drawn = rows if len(rows) <= DRAWN_GROUPS else [*rows[:half], *rows[-half:]]
    texts = doc.labels((doc.group_name(audit.group, row["group"]) for row in drawn), doc.GROUP)
    records = [
        {"label": text, "text": written(deviation, m.difference)} | draw.scaled({"deviation": deviation}, m.factor)
        for text, deviation in zip(texts, (row_estimate(row, "deviation") for row in drawn), strict=True)
    ]
    ends = f"{texts[0]} {m.difference(rows[0]['deviation'])}, {texts[-1]} {m.difference(rows[-1]['deviation'])}"
    description = f"One row per group: its mean minus the overall mean, shrunk by its noise. First and last: {ends}."
    note = joined(
        f"{interval_name(audit.settings.confidence)}, shrunk estimates",
        f"the {half} lowest and the {half} highest of {len(rows)}" if len(rows) > DRAWN_GROUPS else "",
        "groups of fewer than 10 people are not drawn" if every.groups > len(rows) else "",
    )
    what = f"deviation of the {m.mean}, in {m.long_unit}"
    reading = {"label": "group", "text": m.headed("deviation")}
    x, y = draw.axis("x", "deviation", what, draw.reach(records, ("deviation",), 0.0)), draw.name_axis(limit=270)
    chart = alt.layer(
        draw.lines_at("x", [0.0], what, "zero"),
        draw.interval("x", "deviation", what, y),
        draw.dots("deviation").encode(x=x, y=y, tooltip=draw.tooltip(reading)),
    )
    chart = chart.properties(width=draw.WIDTH, height=alt.Step(22))
    return figure(chart, records, title, description, reading, f"All groups by {label(audit.group)}", note)
