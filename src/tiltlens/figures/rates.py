"""Favourable rates of all groups, and their ratios to the reference."""

from __future__ import annotations

from tiltlens.documents.headline import WEIGHTED, is_of_decisions
from tiltlens.documents.labels import GROUP, labels, level_of, measure_of
from tiltlens.documents.quantities import quantity, written
from tiltlens.estimators.estimate import Estimate
from tiltlens.figures.figure import Figure, Record, figure, joined, nothing, source_of
from tiltlens.figures.marks import ENDS, axis, dots, interval, lines_at, name_axis, scaled, tooltip
from tiltlens.figures.parts import span
from tiltlens.figures.theme import AUDITED, REFERENCE, ChartPart, altair
from tiltlens.formats import label, ratio
from tiltlens.limits import FOUR_FIFTHS
from tiltlens.results.audit import Audit
from tiltlens.rows.wording import Measure

GROUPS = 30
OTHER_WAY = 1 / FOUR_FIFTHS  # the audited group's rate is the higher one
NEAR = 1.1  # ratios from which on the other way is drawn


def rates(audit: Audit) -> Figure:
    """Return the favourable rate of every group with its interval, and its ratio to the reference's."""
    m, comparisons = measure_of(audit), list(audit.comparisons.values())
    is_soft = any(c.unobserved_group for c in comparisons)
    name = m.rate.capitalize()
    title = f"{name} by group {WEIGHTED}" if is_soft else f"{name} by group and ratio to the reference"
    if not comparisons:
        raise nothing(title, "the audit has no group to compare")
    first = comparisons[0]
    rows = [_row(first.reference, "reference", first.rates.reference, None, m)]
    rows += [_row(c.audited, "audited", c.rates.audited, c.impact_ratio, m) for c in comparisons]
    texts = labels((row["group"] for row in rows[:GROUPS]), GROUP)
    records = [row | {"label": text} for row, text in zip(rows, texts, strict=False)]
    parts = ", ".join(f"{record['label']} {m.level(record['rate'])}" for record in records[:6])
    description = f"One row per group: its {m.rate}{m.among}{'' if is_soft else ', and its ratio'}. {parts}."
    has_line = is_of_decisions(audit)
    people = first.rows["reference"] + sum(c.rows["audited"] for c in comparisons)
    note = joined(
        f"n = {people:,}",
        level_of(first) if records[0]["rate_low"] is not None else "",
        "dashed: four fifths" if has_line and not is_soft else "",
        f"the first {GROUPS} of {len(rows)} groups" if len(rows) > GROUPS else "",
        source_of(first),
    )
    subtitle = joined(f"● audited, ◼ reference ({label(first.reference, GROUP)})", m.among.removeprefix(", "))
    name_of_ratio = quantity("impact_ratio").label
    reading = {"label": "group", "rate_text": m.rate} | ({} if is_soft else {"ratio_text": name_of_ratio})
    chart = _panels(records, f"{name_of_ratio}: audited ÷ reference", has_line, m, tooltip(reading))
    chart = chart.hconcat[0] if is_soft else chart
    return figure(chart, records, title, description, reading, subtitle, note)


def _row(name: str, role: str, rate: Estimate, quotient: Estimate | None, m: Measure) -> Record:
    return {
        "group": name,
        "role": role,
        **scaled({"rate": rate, "ratio": quotient}, 1.0),
        "rate_text": written(rate, m.level),
        "ratio_text": written(quotient, ratio),
    }


def _panels(records: list[Record], ratio_title: str, has_line: bool, m: Measure, tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    lines = [1.0, *(_four_fifths(records) if has_line else [])]
    x_rate = axis("x", "rate", m.rate, _domain(records, "rate", [], m.is_amount), format=m.axis, tickCount=5)
    x_ratio = axis("x", "ratio", ratio_title, _domain(records, "ratio", lines, False))
    panels = [
        _panel("rate", x_rate, tips),
        alt.layer(lines_at("x", lines, ratio_title, solid=1.0), _panel("ratio", x_ratio, tips)),
    ]
    return alt.hconcat(*(panel.properties(width=270, height=alt.Step(30)) for panel in panels), spacing=20)


def _domain(records: list[Record], name: str, more: list[float], is_amount: bool) -> list[float]:
    """Return a domain that shows the intervals, and no more than it must."""
    ends = [record[f"{name}{end}"] for record in records for end in ENDS]
    numbers = [end for end in ends if end is not None] + more
    domain = span(numbers, 0.12) if is_amount else span(numbers, 0.12, 0.1)
    least = 0.0 if min(numbers, default=0.0) >= 0.0 else domain[0]
    return [max(domain[0], least), domain[1]]


def _four_fifths(records: list[Record]) -> list[float]:
    """Return where the lower rate is four fifths of the higher: beyond 1 only where a ratio comes near."""
    ends = [record[f"ratio{end}"] or 0.0 for record in records for end in ENDS]
    return [FOUR_FIFTHS, OTHER_WAY] if max(ends) > NEAR else [FOUR_FIFTHS]


def _panel(name: str, x: ChartPart, tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    y, roles = name_axis(name == "rate", 270), ["audited", "reference"]
    colour = alt.Color("role:N", scale=alt.Scale(domain=roles, range=[AUDITED, REFERENCE]), legend=None)
    shape = alt.Shape("role:N", scale=alt.Scale(domain=roles, range=["circle", "square"]), legend=None)
    return alt.layer(
        alt.Chart().mark_point(opacity=0).encode(y=y),
        interval("x", name, x["title"], y).encode(color=colour),
        dots(name, size=95).encode(x=x, y=y, color=colour, shape=shape, tooltip=tips),
    )
