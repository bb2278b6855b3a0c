"""Figures of distributions: scores, overlap and calibration of the group-membership model, profiles of features."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tiltlens._analysis.bins import GroupBin, ValueProfile
from tiltlens._documents import document as doc
from tiltlens._documents.quantities import written
from tiltlens._formats import Shown, count, label, number, percent, short_number
from tiltlens._results.comparison import Comparison
from tiltlens._rows.wording import Measure
from tiltlens.figures import _marks as draw
from tiltlens.figures._figure import Figure, figure, in_unit, noted, nothing
from tiltlens.figures._marks import ChartPart, Record, alt

two_decimals = partial(number, digits=2)
HIDDEN = "suppressed: fewer than 10 people, or derivable"  # any bin that would reveal a small one
WITHHELD = f"✕ {HIDDEN}"
HEAD = 1.3  # times the tallest bar, to leave space for a name and a mean
FAR = 0.7  # position on the axis beyond which labels are placed to the left
HEIGHT = 280
NO_SHAPE = "every bin has fewer than ten people, or would reveal one that has"


def score_distribution(c: Comparison) -> Figure:
    """Return the distribution of the score in both groups with their means; for decisions, one bar per group."""
    m, bins = doc.measure_of(c), c.bins().score
    if c.scale.score_type == "decision":
        return _decisions(c, m)
    audited, reference = doc.means(c)
    title = f"Distribution of {m.each}s by group"
    word = f"1 − {m.each}" if c.scale.metric == "fnr" else m.each
    write = m.level if m.is_amount else percent
    records = _records(bins, write)
    if not any(record["share"] for record in records):
        raise nothing(title, NO_SHAPE)
    marked = [
        {"group": group, "mean": mean, "text": f"mean {m.level(mean)}", "side": side}
        for group, mean, side in (("audited", audited, 1), ("reference", reference, -1))
    ]
    description = (
        f"{doc.versus(c)}. Back-to-back histograms of the {word}: the audited group above, the reference group "
        f"below. The means are {m.level(audited)} and {m.level(reference)}."
    )
    reading = {"group": "group", "bin": word, "shown": "share of the group"}
    better = "lower" if doc.disadvantage_sign(c) > 0 else "higher"
    x = draw.axis("x", "from", f"{word} ({better} is better)", [bins[0].start, bins[-1].stop], format=m.axis)
    chart = _mirrored(c, records, x, marked, draw.tooltip(reading))
    open_ends = "values beyond the axis are in the last bin" if m.is_amount else ""
    note = noted(c, open_ends, _hidden_note(records), intervals="")
    unit = "% of each group" if not m.is_amount else f"% of each group, {m.each}s in {m.long_unit}"
    return figure(chart, records, title, description, reading, in_unit(c, unit), note)


def _decisions(c: Comparison, m: Measure) -> Figure:
    """Return one bar per group: the rate of the decision whose gap is audited, with its interval."""
    title = f"{m.mean.capitalize()} by group"
    estimates = doc.mean_estimates(c)
    records = [
        {"role": role, "label": doc.group_words(c, role), "zero": 0.0, "whole": 1.0, "text": written(rate, percent)}
        | draw.scaled({"rate": rate}, 1.0)
        | {"level": percent(rate.value), "people": f"{c.rows[role]:,}"}
        for role, rate in (("reference", estimates.reference), ("audited", estimates.audited))
    ]
    reading = {"label": "group", "text": m.mean, "people": m.people}
    y, what = draw.name_axis(grid=False, limit=270), f"{m.mean}{m.among}"
    x = draw.axis("x", "rate", what, [0, 1], format=".0%", tickCount=5)
    colour, _ = draw.group_channels()
    bar = alt.Chart().mark_bar(height=22)
    layers = [
        bar.encode(x=alt.X("zero:Q", title=what), x2=alt.X2(field="whole"), y=y, color=alt.value(draw.BAND)),
        bar.encode(x=x, x2=alt.X2(field="zero"), y=y, color=colour, tooltip=draw.tooltip(reading)),
        draw.interval("x", "rate", what, y),
        alt.Chart()
        .mark_text(align="left", dx=7, color=draw.PAPER, fontWeight=600)
        .encode(x=alt.X("zero:Q"), y=y, text="level:N"),
    ]
    parts = ", ".join(f"{record['label']} {record['level']}" for record in records)
    chart = alt.layer(*layers).properties(width=draw.WIDTH, height=alt.Step(40))
    note = noted(c, intervals="CI" if records[0]["rate_low"] is not None else "")
    subtitle = in_unit(c, "% of each group")
    return figure(chart, records, title, f"{doc.versus(c)}. {parts}.", reading, subtitle, note)


def overlap(c: Comparison) -> Figure:
    """Draw the distributions of the log-ratio in both groups; bins with one group only have no counterparts."""
    title = "Overlap of the two groups"
    records = _records(c.bins().overlap, two_decimals)
    if not any(record["share"] for record in records):
        raise nothing(title, NO_SHAPE)
    description = (
        f"{doc.versus(c)}. Back-to-back histograms of the log-ratio: how much more common a record is in the "
        "audited group. Where one side is empty, people of the other group have no counterparts."
    )
    ends = [end for record in records if record["share"] != 0 for end in (record["from"], record["to"])]
    reading = {"group": "group", "bin": "log-ratio", "shown": "share of the group"}
    meaning = ["log-ratio ℓ: such people are more common", "← in the reference group | in the audited group →"]
    chart = _mirrored(c, records, draw.axis("x", "from", meaning, [min(ends), max(ends)]), [], draw.tooltip(reading))
    counterparts = "where both sides have bars, people have counterparts"
    note = noted(c, counterparts, _hidden_note(records), intervals="")
    return figure(chart, records, title, description, reading, in_unit(c, "% of each group"), note)


def _records(bins: Sequence[GroupBin], write: Shown) -> list[Record]:
    return [
        {"group": group, "side": side, "height": None if share is None else side * share}
        | bin_record(part.start, part.stop, share, percent(share), write)
        for group, side in (("audited", 1), ("reference", -1))
        for part in bins
        for share in (part.audited if group == "audited" else part.reference,)
    ]


def bin_record(low: float, high: float, share: float | None, text: str, write: Shown = two_decimals) -> Record:
    """Return a bin: its edges, also as text, its middle, and its share, if it is not suppressed, with its text."""
    edges = {"from": low, "to": high, "bin": f"{write(low)} to {write(high)}", "middle": (low + high) / 2}
    return edges | {"share": share, "withheld": share is None, "shown": HIDDEN if share is None else text}


def _hidden_note(records: list[Record]) -> str:
    return WITHHELD if any(record["withheld"] for record in records) else ""


def _mirrored(
    c: Comparison, records: list[Record], x: ChartPart, marked: list[Record], tips: list[ChartPart]
) -> ChartPart:
    tallest = max(record["share"] or 0.0 for record in records)
    percents: Record = {"labelExpr": "format(abs(datum.value), '.0%')", "tickCount": 5}
    y = draw.axis("y", "height", "share of each group", [-HEAD * tallest, HEAD * tallest], **percents)
    x.scale.clamp = True
    colour, _ = draw.group_channels("group")
    bars = alt.Chart().mark_bar(stroke=draw.PAPER, strokeWidth=0.6, opacity=0.9, clip=True)
    bars = bars.encode(x=x, x2=alt.X2(field="to"), y=y, y2=alt.Y2(datum=0), color=colour, tooltip=tips)
    crosses = [
        alt.Chart()
        .transform_filter(f"datum.withheld&&datum.side=={side}")
        .mark_text(text="✕", fontSize=9, dy=dy, color=draw.QUIET)
        .encode(x=alt.X("middle:Q"), y=alt.Y(datum=0))
        for side, dy in ((1, -7), (-1, 8))
    ]
    zero = draw.chart([{"zero": 0}], "baseline").mark_rule(color=draw.QUIET).encode(y=alt.Y("zero:Q"))
    layers = [bars, *crosses, zero, *_names(c), *_means(marked, tallest, x["scale"]["domain"])]
    return alt.layer(*layers).properties(width=draw.WIDTH, height=HEIGHT)


def _names(c: Comparison) -> list[ChartPart]:
    """Return the names of the groups in the two corners."""
    places = (("▲", draw.AUDITED, 2, "top"), ("▼", draw.REFERENCE, HEIGHT - 2, "bottom"))
    return [
        draw.chart([{"name": f"{glyph} {text}"}], f"name_{baseline}")
        .mark_text(align="left", baseline=baseline, fontWeight=600, color=colour, limit=300)
        .encode(text=alt.Text("name:N"), x=alt.value(4), y=alt.value(height))
        for text, (glyph, colour, height, baseline) in zip(doc.groups(c), places, strict=True)
    ]


def _means(marked: list[Record], tallest: float, domain: list[float]) -> list[ChartPart]:
    if not marked:
        return []
    far = domain[0] + FAR * (domain[1] - domain[0])
    ends = [
        mark
        | {"zero": 0, "end": mark["side"] * 1.06 * tallest}
        # On a narrow page there is no space to the right of a line that is far right.
        | ({"align": "right", "dx": -5} if mark["mean"] > far else {"align": "left", "dx": 5})
        for mark in marked
    ]
    base = draw.chart(ends, "means").encode(x=alt.X("mean:Q"))
    rules = base.mark_rule(color=draw.INK, strokeWidth=1.5, strokeDash=[5, 3])
    at = {name: alt.expr(f"datum.{name}") for name in ("align", "dx")}
    texts = base.mark_text(fontWeight=600, **at).encode(y=alt.Y("end:Q"), text=alt.Text("text:N"))
    return [rules.encode(y=alt.Y("zero:Q"), y2=alt.Y2(field="end")), texts]


ENDS = ("q05", "q25", "q50", "q75", "q95")
STEP = 30


def profile(c: Comparison, feature: str, position_index: int | None = None) -> Figure:
    """Return a feature's values in order: shares of both groups, the mean score, and the spread of f~.

    `position_index` is the position of the slider, by default that of the audit.
    """
    values, m = draw.profile_of(c, feature), doc.measure_of(c)
    title = f"Profile of {label(feature, 40)} by value"
    if not values:
        raise nothing(title, "the feature has no values")
    position = draw.dial_place(c, position_index)
    records = [_record(text, value, position, m) for text, value in values]
    where = draw.dial_words(c, position)
    description = (
        f"{doc.versus(c)}. For each value of the feature, three aligned panels: the share of each group that has "
        f"it, the audited people's {m.mean}, and the spread of the correction function among them"
        f"{where and f', {where}'}. "
        + "; ".join(f"{record['label']}: {record['people']}" for record in records[:8])
        + "."
    )
    hidden = "" if all(value.n is not None for _, value in values) else f"– {HIDDEN}"
    note = noted(c, where, draw.values_shown(c, feature), hidden, intervals="")
    reading = {
        "full": "value",
        "audited_text": "share of the audited group",
        "reference_text": "share of the reference group",
        "score_text": m.mean,
        "median_text": "median correction f̃",
    }
    chart = _panels(records, [value for _, value in values], m, draw.tooltip(reading))
    return figure(chart, records, title, description, reading, in_unit(c), note)


def _record(text: str, value: ValueProfile, position: int, m: Measure) -> Record:
    places = value.quantiles
    quantiles = places[min(position, len(places) - 1)] if places else [None] * len(ENDS)
    audited, reference = percent(value.share_audited), percent(value.share_reference)
    return (
        {"value": value.value, "label": text, "full": label(value.value, draw.FULL)}
        | {"share_audited": value.share_audited, "share_reference": value.share_reference}
        | {"score": value.score, "n": value.n, "n_reference": value.n_reference}
        | dict(zip(ENDS, quantiles, strict=True))
        | {"people": f"{audited} of the audited, {reference} of the reference group"}
        | {"audited_text": audited, "reference_text": reference}
        | {"score_text": m.level(value.score), "median_text": number(quantiles[2], 2)}
    )


def _panels(records: list[Record], values: list[ValueProfile], m: Measure, tips: list[ChartPart]) -> ChartPart:
    panels = [(_people(records, tips), 240), (_scores(records, m, tips), 130), (_corrections(values, tips), 300)]
    # Invisible marks reserve a row for each value, with or without numbers.
    drawn = [
        alt.layer(alt.Chart().mark_point(opacity=0).encode(y=draw.name_axis(index == 0, 170)), *layers)
        for index, (layers, _) in enumerate(panels)
    ]
    widths = [width for _, width in panels]
    sized = [panel.properties(width=width, height=alt.Step(STEP)) for panel, width in zip(drawn, widths, strict=True)]
    return alt.hconcat(*sized, spacing=18)


def _people(records: list[Record], tips: list[ChartPart]) -> list[ChartPart]:
    shares = [record[f"share_{who}"] or 0.0 for record in records for who in ("audited", "reference")]
    title = ["share of each group", "● audited   ◻ reference"]
    domain = [0.0, min(1.0, 1.08 * max(shares)) or 1.0]
    x, y = draw.axis("x", "share_audited", title, domain, format=".0%", tickCount=4), draw.name_axis(True, 170)
    joins = alt.Chart().transform_filter("datum.share_audited != null && datum.share_reference != null")
    joins = joins.mark_rule(color=draw.FAINT, strokeWidth=2).encode(x=x, x2=alt.X2(field="share_reference"), y=y)
    reference = draw.dots(
        "share_reference", shape="square", filled=False, color=draw.REFERENCE, strokeWidth=2, fill=draw.PAPER
    )
    return [
        joins,
        reference.encode(x=draw.axis("x", "share_reference", title), y=y, tooltip=tips),
        draw.dots("share_audited", size=90, color=draw.AUDITED).encode(x=x, y=y, tooltip=tips),
    ]


def _scores(records: list[Record], m: Measure, tips: list[ChartPart]) -> list[ChartPart]:
    scores = [record["score"] for record in records if record["score"] is not None]
    domain = draw.span(scores, 0.1) if m.is_amount else [0.0, 1.0]
    x = draw.axis("x", "score", [m.mean, "of the audited group"], domain, tickCount=3, format=m.axis)
    return [draw.dots("score", size=90, color=draw.AUDITED).encode(x=x, y=draw.name_axis(False), tooltip=tips)]


def _corrections(values: list[ValueProfile], tips: list[ChartPart]) -> list[ChartPart]:
    """Return the boxes of f~; their axis covers every position of the slider, so that it does not move with it."""
    every = [end for value in values for position in value.quantiles or [] for end in position]
    finite = [end for end in every if end is not None]
    legend = "box 25 to 75%, line 5 to 95%, tick median" if finite else "too few people for its spread"
    title = ["correction f̃:  ← over-represented | under-represented →", legend]
    most = 1.1 * max([abs(end) for end in finite], default=1.0) or 1.0
    y = draw.name_axis(False)

    def base(*ends: str) -> ChartPart:
        return alt.Chart().transform_filter(" && ".join(f"datum.{end} != null" for end in ends))

    def from_to(low: str, high: str) -> Record:
        return {"x": draw.axis("x", low, title, [-most, most]), "x2": alt.X2(field=high), "y": y}

    return [
        draw.lines_at("x", [0.0], title, "zero"),
        base("q05", "q95").mark_rule(color=draw.QUIET, strokeWidth=1.5).encode(**from_to("q05", "q95")),
        base("q25", "q75")
        .mark_bar(color=draw.AUDITED, opacity=0.55, height=13)
        .encode(**from_to("q25", "q75"), tooltip=tips),
        base("q50")
        .mark_tick(color=draw.INK, thickness=3, size=19)
        .encode(x=draw.axis("x", "q50", title), y=y, tooltip=tips),
    ]


WITHIN = 0.1  # standard deviations


def calibration(c: Comparison) -> Figure:
    """Return the observed against the expected log-ratio by tenths of the people, with the diagonal."""
    title = "Calibration of the group-membership model"
    bins = c.bins().calibration
    if not bins:
        raise nothing(title, "a group has fewer than ten people")
    records = [
        {"expected": part.expected, "observed": part.observed, "n": part.n}
        | {"expected_text": short_number(part.expected), "observed_text": short_number(part.observed)}
        | {"people": count(part.n)}
        for part in bins
    ]
    description = (
        f"{doc.versus(c)}. Each dot is a tenth of the people, or several tenths if one has few people of a group. "
        "Across: the log-ratio that the model expects; up: the observed log-ratio. On the diagonal the two are equal."
    )
    reading = {"expected_text": "expected log-ratio", "observed_text": "observed log-ratio", "people": "people"}
    subtitle = in_unit(c, "log-ratios (0: as common in both groups)")
    note = noted(c, "dots: tenths of the people", "dashed: observed equals expected", intervals="")
    return figure(_diagonal(records, draw.tooltip(reading)), records, title, description, reading, subtitle, note)


def _diagonal(records: list[Record], tips: list[ChartPart]) -> ChartPart:
    ends = draw.span([record[name] for record in records for name in ("expected", "observed")], 0.12, 0.2)
    x, y = (
        draw.axis("x", "expected", "expected log-ratio", ends),
        draw.axis("y", "observed", "observed log-ratio", ends),
    )
    line = draw.diagonal(x, y, ("expected", "observed"), ends)
    marks = draw.dots("observed", size=100, stroke=draw.PAPER, strokeWidth=1).encode(x=x, y=y, tooltip=tips)
    return alt.layer(line, marks).properties(width=380, height=260)


def balance(c: Comparison) -> Figure:
    """Return the remaining differences in means between the audited and the reweighted reference group."""
    title = "Balance after reweighting the reference group"
    if c.checks.balance is None:
        raise nothing(title, "plug-in values have no balance")
    checks = c.checks.balance.disclosed()
    if not checks.mismatches:
        raise nothing(title, "the audit has no features to balance")
    names = doc.labels(mismatch.name for mismatch in checks.mismatches)
    records: list[Record] = []
    for mismatch, name in zip(checks.mismatches, names, strict=True):
        value, reach = mismatch.difference, 2 * mismatch.se
        record = {"name": mismatch.name, "label": name, "difference": value, "se": mismatch.se}
        record |= {"text": f"{short_number(value)} ± {short_number(reach)}"}
        records.append(record | {"difference_low": value - reach, "difference_high": value + reach})
    worst = records[0]
    description = (
        f"{doc.versus(c)}. Differences that remain between the audited group and the reweighted reference group, "
        f"in standard deviations, with two standard errors on either side. Largest: {worst['label']}, {worst['text']}."
    )
    verdict = f"model judged {'adequate' if checks.is_adequate else 'inadequate'}"
    note = noted(c, "lines: ±2 standard errors", f"grey: ±{WITHIN}", verdict, intervals="")
    reading = {"label": "feature or product", "text": "difference (standard deviations)"}
    subtitle = in_unit(c, "standard deviations")
    return figure(_mismatches(records, draw.tooltip(reading)), records, title, description, reading, subtitle, note)


def _mismatches(records: list[Record], tips: list[ChartPart]) -> ChartPart:
    y, title = draw.name_axis(), "difference, in SD"
    ends = [record[f"difference{end}"] or 0.0 for record in records for end in ("_low", "_high")]
    most = 1.05 * max([abs(end) for end in ends] + [1.5 * WITHIN])
    x = draw.axis("x", "difference", title, [-most, most])
    beyond = f"abs(datum.difference) > {WITHIN}"
    shape = alt.condition(beyond, alt.value("diamond"), alt.value("circle"))
    band = draw.chart([{"low": -WITHIN, "high": WITHIN}], "band").mark_rect(color=draw.BAND)
    layers = [
        band.encode(x=draw.axis("x", "low", title), x2=alt.X2(field="high")),
        draw.lines_at("x", [0.0], title, "zero"),
        draw.interval("x", "difference", title, y, color=draw.QUIET, strokeWidth=1.6),
        draw.dots("difference").encode(x=x, y=y, shape=shape, tooltip=tips),
    ]
    return alt.layer(*layers).properties(width=draw.WIDTH - 140, height=20 * len(records))
