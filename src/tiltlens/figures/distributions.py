"""Both groups' distributions back to back: of the score, and of the log-ratio; decisions as shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiltlens.analysis.bins import GroupBin
from tiltlens.documents.labels import disadvantage_sign, group_words, groups, mean_estimates, means, measure_of, versus
from tiltlens.documents.quantities import written
from tiltlens.figures.figure import Figure, Record, data, figure, in_unit, noted, nothing
from tiltlens.figures.marks import axis, interval, name_axis, scaled, tooltip
from tiltlens.figures.theme import AUDITED, BAND, INK, PAPER, QUIET, REFERENCE, WIDTH, ChartPart, altair
from tiltlens.formats import number, percent
from tiltlens.results.comparison import Comparison
from tiltlens.rows.wording import Measure

HIDDEN = "suppressed: fewer than 10 people, or derivable"  # a bin of any size, if small ones would follow from it
WITHHELD = f"✕ {HIDDEN}"
HEAD = 1.3  # of the tallest bar: above it stand a name and a mean
FAR = 0.7  # of the way to the right
HEIGHT = 280
NO_SHAPE = "every bin has fewer than ten people, or would reveal one that has"


def score_distribution(c: Comparison) -> Figure:
    """Return the distributions of the score in both groups with their means; for decisions, the share of each group."""
    m, bins = measure_of(c), c.bins().score
    if c.scale.score_type == "decision":
        return _decisions(c, m)
    audited, reference = means(c)
    title = f"Distribution of {m.each}s by group"
    word = f"1 − {m.each}" if c.scale.metric == "fnr" else m.each
    write = (lambda end: m.level(end)) if m.is_amount else percent
    records = _records(bins, write)
    if not any(record["share"] for record in records):
        raise nothing(title, NO_SHAPE)
    marked = [
        {"group": group, "mean": mean, "text": f"mean {m.level(mean)}", "side": side}
        for group, mean, side in (("audited", audited, 1), ("reference", reference, -1))
    ]
    description = (
        f"{versus(c)}. Back-to-back histograms of the {word}: the audited group above, the reference group "
        f"below. The means are {m.level(audited)} and {m.level(reference)}."
    )
    reading = {"group": "group", "bin": word, "shown": "share of the group"}
    better = "lower" if disadvantage_sign(c) > 0 else "higher"
    x = axis("x", "from", f"{word} ({better} is better)", [bins[0].start, bins[-1].stop], format=m.axis)
    chart = _mirrored(c, records, x, marked, tooltip(reading))
    open_ends = "values beyond the axis are in the last bin" if m.is_amount else ""
    note = noted(c, open_ends, _hidden_note(records), intervals="")
    unit = "% of each group" if not m.is_amount else f"% of each group, {m.each}s in {m.long_unit}"
    return figure(chart, records, title, description, reading, in_unit(c, unit), note)


def _decisions(c: Comparison, m: Measure) -> Figure:
    """Return one bar per group: its rate of the decision that the gap is of, with its interval."""
    title = f"{m.mean.capitalize()} by group"
    estimates = mean_estimates(c)
    records = [
        {"role": role, "label": group_words(c, role), "zero": 0.0, "whole": 1.0, "text": written(rate, percent)}
        | scaled({"rate": rate}, 1.0)
        | {"level": percent(rate.value), "people": f"{c.rows[role]:,}"}
        for role, rate in (("reference", estimates.reference), ("audited", estimates.audited))
    ]
    alt = altair()
    reading = {"label": "group", "text": m.mean, "people": m.people}
    y, what = name_axis(grid=False, limit=270), f"{m.mean}{m.among}"
    x = axis("x", "rate", what, [0, 1], format=".0%", tickCount=5)
    colour = alt.Color("role:N", scale=alt.Scale(domain=["audited", "reference"], range=[AUDITED, REFERENCE]))
    colour.legend = None
    bar = alt.Chart().mark_bar(height=22)
    layers = [
        bar.encode(x=alt.X("zero:Q", title=what), x2=alt.X2(field="whole"), y=y, color=alt.value(BAND)),
        bar.encode(x=x, x2=alt.X2(field="zero"), y=y, color=colour, tooltip=tooltip(reading)),
        interval("x", "rate", what, y),
        alt.Chart()
        .mark_text(align="left", dx=7, color=PAPER, fontWeight=600)
        .encode(x=alt.X("zero:Q"), y=y, text="level:N"),
    ]
    parts = ", ".join(f"{record['label']} {record['level']}" for record in records)
    chart = alt.layer(*layers).properties(width=WIDTH, height=alt.Step(40))
    note = noted(c, intervals="CI" if records[0]["rate_low"] is not None else "")
    subtitle = in_unit(c, "% of each group")
    return figure(chart, records, title, f"{versus(c)}. {parts}.", reading, subtitle, note)


def overlap(c: Comparison) -> Figure:
    """Return the distributions of the log-ratio in both groups: where one is empty, they cannot be compared."""
    title = "Overlap of the two groups"
    records = _records(c.bins().overlap, lambda end: number(end, 2))
    if not any(record["share"] for record in records):
        raise nothing(title, NO_SHAPE)
    description = (
        f"{versus(c)}. Back-to-back histograms of the log-ratio: how much commoner a record is in the "
        "audited group. Where one side is empty, people of the other group have no counterparts."
    )
    ends = [end for record in records if record["share"] != 0 for end in (record["from"], record["to"])]
    reading = {"group": "group", "bin": "log-ratio", "shown": "share of the group"}
    meaning = "log-ratio ℓ:  ← commoner in the reference group | commoner in the audited group →"
    chart = _mirrored(c, records, axis("x", "from", meaning, [min(ends), max(ends)]), [], tooltip(reading))
    counterparts = "where both sides have bars, people have counterparts"
    note = noted(c, counterparts, _hidden_note(records), intervals="")
    return figure(chart, records, title, description, reading, in_unit(c, "% of each group"), note)


def _records(bins: Sequence[GroupBin], write: Callable[[float], str]) -> list[Record]:
    return [
        {"group": group, "from": part.start, "to": part.stop, "share": share, "side": side}
        | {"bin": f"{write(part.start)} to {write(part.stop)}", "withheld": share is None}
        | {"shown": HIDDEN if share is None else percent(share)}
        | {"height": None if share is None else side * share, "middle": (part.start + part.stop) / 2}
        for group, side in (("audited", 1), ("reference", -1))
        for part in bins
        for share in (part.audited if group == "audited" else part.reference,)
    ]


def _hidden_note(records: list[Record]) -> str:
    return WITHHELD if any(record["withheld"] for record in records) else ""


def _mirrored(
    c: Comparison, records: list[Record], x: ChartPart, marked: list[Record], tips: list[ChartPart]
) -> ChartPart:
    alt = altair()
    tallest = max(record["share"] or 0.0 for record in records)
    percents: Record = {"labelExpr": "format(abs(datum.value), '.0%')", "tickCount": 5}
    y = axis("y", "height", "share of each group", [-HEAD * tallest, HEAD * tallest], **percents)
    x.scale.clamp = True
    colour = alt.Color("group:N", scale=alt.Scale(domain=["audited", "reference"], range=[AUDITED, REFERENCE]))
    colour.legend = None
    bars = alt.Chart().mark_bar(stroke=PAPER, strokeWidth=0.6, opacity=0.9, clip=True)
    bars = bars.encode(x=x, x2=alt.X2(field="to"), y=y, y2=alt.Y2(datum=0), color=colour, tooltip=tips)
    crosses = [
        alt.Chart()
        .transform_filter(f"datum.withheld&&datum.side=={side}")
        .mark_text(text="✕", fontSize=9, dy=dy, color=QUIET)
        .encode(x=alt.X("middle:Q"), y=alt.Y(datum=0))
        for side, dy in ((1, -7), (-1, 8))
    ]
    zero = alt.Chart(data([{"zero": 0}], "baseline")).mark_rule(color=QUIET).encode(y=alt.Y("zero:Q"))
    layers = [bars, *crosses, zero, *_names(c), *_means(marked, tallest, x["scale"]["domain"])]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _names(c: Comparison) -> list[ChartPart]:
    """Return the groups' names at the two corners."""
    alt = altair()
    places = (("▲", AUDITED, 2, "top"), ("▼", REFERENCE, HEIGHT - 2, "bottom"))
    return [
        alt.Chart(data([{"name": f"{glyph} {text}"}], f"name_{baseline}"))
        .mark_text(align="left", baseline=baseline, fontWeight=600, color=colour, limit=300)
        .encode(text=alt.Text("name:N"), x=alt.value(4), y=alt.value(height))
        for text, (glyph, colour, height, baseline) in zip(groups(c), places, strict=True)
    ]


def _means(marked: list[Record], tallest: float, domain: list[float]) -> list[ChartPart]:
    if not marked:
        return []
    alt = altair()
    far = domain[0] + FAR * (domain[1] - domain[0])
    ends = [
        mark
        | {"zero": 0, "end": mark["side"] * 1.06 * tallest}
        # Far to the right a narrow page has no room beyond the line.
        | ({"align": "right", "dx": -5} if mark["mean"] > far else {"align": "left", "dx": 5})
        for mark in marked
    ]
    base = alt.Chart(data(ends, "means")).encode(x=alt.X("mean:Q"))
    rules = base.mark_rule(color=INK, strokeWidth=1.5, strokeDash=[5, 3])
    at = {name: alt.expr(f"datum.{name}") for name in ("align", "dx")}
    texts = base.mark_text(fontWeight=600, **at).encode(y=alt.Y("end:Q"), text=alt.Text("text:N"))
    return [rules.encode(y=alt.Y("zero:Q"), y2=alt.Y2(field="end")), texts]
