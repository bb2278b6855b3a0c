"""Figures of the correction: its distribution overall and by value of a feature, and the correction paths."""

from __future__ import annotations

from tiltlens._analysis.bins import LeastChange, PathStop, ValueProfile
from tiltlens._documents.document import GROUP, labels, measure_of, versus
from tiltlens._formats import count, label, number, percent, short_number, whole_percent
from tiltlens._results.comparison import Comparison
from tiltlens._rows.wording import Measure
from tiltlens.figures import _marks as draw
from tiltlens.figures._distributions import HIDDEN, NO_SHAPE, WITHHELD, bin_record
from tiltlens.figures._figure import Figure, figure, in_unit, joined, noted, nothing
from tiltlens.figures._marks import ChartPart, Record, alt

MEANING = ["correction f̃", "← over-represented | under-represented →"]
LOW, HIGH = -4.0, 4.0  # limits of the axis; the outer bins are open-ended
ROW = 78
SHORT = 22  # maximum number of characters of a value's name, to leave space for the number of people


def correction_distribution(c: Comparison, position_index: int | None = None) -> Figure:
    """Draw the distribution of f~ over the audited group at a position of the slider, by default the audit's own."""
    title = "Distribution of the correction in the audited group"
    histograms = c.bins().correction
    if not histograms:
        raise nothing(title, "the audit has no correction")
    position = draw.dial_place(c, position_index)
    shares = histograms[position]
    records = [
        bin_record(low, high, share, percent(share))
        for (low, high), share in zip(draw.steps(LOW, HIGH, len(shares)), shares, strict=True)
    ]
    if not any(shares):
        raise nothing(title, NO_SHAPE)
    where = draw.dial_words(c, position)
    description = (
        f"Histogram of the correction function over the audited group, {where}. Profiles right of 0 are "
        "under-represented among them, those left of 0 over-represented."
    )
    used = [any(share != 0 for share in column) for column in zip(*histograms, strict=True)]  # somewhere on the slider
    ends = [edge for edge, is_used in zip(draw.steps(LOW, HIGH, len(used)), used, strict=True) if is_used]
    reading = {"bin": "correction f̃", "shown": "share of the audited group"}
    note = noted(c, where, WITHHELD if None in shares else "", intervals="")
    subtitle = f"% of {label(c.audited, GROUP)} (audited)"
    chart = _histogram(_domain(ends), draw.tooltip(reading))
    return figure(chart, records, title, description, reading, subtitle, note)


def _histogram(domain: list[float], tips: list[ChartPart]) -> ChartPart:
    bars = alt.Chart().mark_bar(color=draw.AUDITED, stroke=draw.PAPER, strokeWidth=0.6, clip=True)
    bars = bars.encode(
        x=draw.axis("x", "from", MEANING, domain),
        x2=alt.X2(field="to"),
        y=alt.Y("share:Q", title="share of the audited group", axis=alt.Axis(format=".0%")),
        y2=alt.Y2(datum=0),
        tooltip=tips,
    )
    hidden = alt.Chart().transform_filter("datum.withheld").mark_text(text="✕", fontSize=9, dy=-6, color=draw.QUIET)
    hidden = hidden.encode(x=alt.X("middle:Q"), y=alt.Y(datum=0))
    return alt.layer(bars, hidden, _zero_line()).properties(width=draw.WIDTH, height=240)


def _zero_line() -> ChartPart:
    return draw.chart([{"zero": 0}], "zero").mark_rule(color=draw.FAINT, strokeDash=[4, 3]).encode(x=alt.X("zero:Q"))


def _domain(bins: list[tuple[float, float]]) -> list[float]:
    """Return the domain of the bins with people, including 0."""
    ends = [0.0, *(end for edges in bins for end in edges)]
    return [max(min(ends) - 0.2, LOW), min(max(ends) + 0.2, HIGH)]


def correction_by_value(c: Comparison, feature: str) -> Figure:
    """Return the distributions of f~ for each value of a feature, one above the other (the paper's Fig. 2)."""
    values = draw.profile_of(c, feature)
    title = f"Correction by value of {label(feature, 40)}"
    records = [
        record for row, (text, value) in enumerate(values) for record in _bins_of(text, value, len(values) - 1 - row)
    ]
    tallest = max((record["share"] or 0.0 for record in records), default=0.0)
    if tallest == 0.0:
        raise nothing(title, "no value has ten people in a bin, or there are too many values")
    for record in records:
        if record["share"] is not None:
            record["top"] = record["bottom"] + 0.9 * record["share"] / tallest
    description = (
        "One histogram of the correction function per value of the feature, over the audited group. Where the "
        "histograms differ, the feature is part of the correction; where they are equal, it is not. "
        f"Values: {', '.join(text for text, _ in values)}."
    )
    is_hidden = any(record["withheld"] for record in records)
    note = noted(c, draw.values_shown(c, feature), f"not drawn: bins {HIDDEN}" if is_hidden else "", intervals="")
    reading = {"full": "value", "bin": "correction f̃", "shown": "people"}
    subtitle = joined(f"% of {label(c.audited, GROUP)} (audited) with each value")
    chart = _ridges(records, [value for _, value in values], draw.tooltip(reading))
    return figure(chart, records, title, description, reading, subtitle, note)


def _bins_of(text: str, value: ValueProfile, bottom: int) -> list[Record]:
    """Return the bins with people, including those whose count is suppressed."""
    counts, people = value.correction, value.n
    if counts is None or not people:
        return []
    named = {"value": value.value, "label": text, "full": label(value.value, draw.FULL), "people": value.n}
    return [
        named
        | bin_record(low, high, None if n is None else n / people, count(n))
        | {"count": n, "bottom": bottom, "top": None}
        for (low, high), n in zip(draw.steps(LOW, HIGH, len(counts)), counts, strict=True)
        if n != 0  # most bins are empty, and there may be hundreds of them
    ]


def _ridges(records: list[Record], values: list[ValueProfile], tips: list[ChartPart]) -> ChartPart:
    high = alt.Y("bottom:Q", axis=None, scale=alt.Scale(domain=[0, len(values)], nice=False, zero=True))
    x = draw.axis("x", "from", MEANING, _domain([(record["from"], record["to"]) for record in records]))
    bars = (
        alt.Chart()
        .mark_rect(color=draw.AUDITED, stroke=draw.PAPER, strokeWidth=0.4)
        .transform_filter("datum.count > 0")
    )
    bars = bars.encode(x=x, x2=alt.X2(field="to"), y=high, y2=alt.Y2(field="top"), tooltip=tips)
    lines = draw.chart([{"bottom": row} for row in range(len(values))], "baselines").mark_rule(color=draw.FAINT)
    both = alt.layer(alt.layer(lines.encode(y=high), _zero_line(), bars), _value_axis(values))
    return both.resolve_scale(y="independent").properties(width=draw.WIDTH, height=max(ROW * len(values), 80))


def _value_axis(values: list[ValueProfile]) -> ChartPart:
    """Return an axis with the names of the rows, from invisible marks in their middles."""
    names = labels((value.value for value in values), SHORT)
    people = ["suppressed" if value.n is None else f"{value.n:,} people" for value in values]
    rows = [{"label": f"{name} ({text})"} for name, text in zip(names, people, strict=True)]
    axis = alt.Axis(title=None, grid=False, ticks=False, domain=False, orient="left", labelLimit=250)
    return draw.chart(rows, "values").mark_point(opacity=0).encode(y=alt.Y("label:N", sort=None, axis=axis))


GREEN_WAY, RED_WAY = "align outputs only", "align inputs and outputs"
DASHES = [[1, 0], [7, 4]]
BESIDE: Record = {"align": "left", "dx": 9, "dy": -17}
COLOURS = {GREEN_WAY: draw.GREEN, RED_WAY: draw.RED, "audited": draw.AUDITED, "reference": draw.REFERENCE}


def simplex(summary: Record) -> Figure:
    """Draw the paper's Fig. 1 from `simplex_paths(world).to_dict()`: both paths in the triangle of distributions."""
    title = "Two paths that close a gap"
    records = [
        {"way": name, "step": step, "weight": stop["weight"], "x": stop["x"], "y": stop["y"]}
        | {f"q{atom + 1}": part for atom, part in enumerate(stop["q"])}
        for name, way in ((GREEN_WAY, "green"), (RED_WAY, "red"))
        for step, stop in enumerate(summary[way])
    ]
    description = (
        "The triangle of all distributions over three kinds of people. From the audited group P0, one path moves "
        "straight to the line on which the scores of both groups agree; the other moves to the reference group P1, "
        "which lies on that line too."
    )
    reading = {"way": "path", "step": "step", "weight": "weight t"}
    subtitle = "All distributions over three kinds of people"
    return figure(_triangle(summary, records, draw.tooltip(reading)), records, title, description, reading, subtitle)


def _triangle(summary: Record, records: list[Record], tips: list[ChartPart]) -> ChartPart:
    corners = [*summary["corners"], summary["corners"][0]]
    outline = [{"x": c["x"], "y": c["y"], "step": step} for step, c in enumerate(corners)]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-0.06, 1.06], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-0.06, 0.93], nice=False))
    edge = draw.chart(outline, "triangle").mark_line(color=draw.FAINT, strokeWidth=1.2)
    layers = [edge.encode(x=x, y=y, order=alt.Order("step:Q")), _corner_names(summary, x, y)]
    if summary["level"]:
        ends = [{"x": end["x"], "y": end["y"], "step": step} for step, end in enumerate(summary["level"])]
        level = draw.chart(ends, "level").mark_line(color=draw.INK, strokeWidth=1.4, strokeDash=[2, 3])
        layers.append(level.encode(x=x, y=y, order=alt.Order("step:Q")))
        layers.append(_level_name(ends, x, y))
    layers += [_ways(x, y, tips), *_points(summary, x, y)]
    layers += _way_names(records, x, y)
    return alt.layer(*layers).properties(width=540, height=470)


def _corner_names(summary: Record, x: ChartPart, y: ChartPart) -> ChartPart:
    offsets = [(-0.012, -0.035), (0.012, -0.035), (0.0, 0.035)]
    named = [
        {"x": corner["x"] + dx, "y": corner["y"] + dy, "text": f"all on x{'₁₂₃'[number]}"}
        for number, (corner, (dx, dy)) in enumerate(zip(summary["corners"], offsets, strict=True))
    ]
    return draw.chart(named, "corner_names").mark_text(color=draw.QUIET).encode(x=x, y=y, text=alt.Text("text:N"))


def _level_name(ends: list[Record], x: ChartPart, y: ChartPart) -> ChartPart:
    """Return the name of the line without disparate impact, at its lower end."""
    low = min(ends, key=lambda end: end["y"])
    named = [{"x": low["x"], "y": low["y"], "text": "no disparate impact"}]
    text = draw.chart(named, "level_name").mark_text(align="left", dx=6, dy=-10, fontStyle="italic", color=draw.INK)
    return text.encode(x=x, y=y, text=alt.Text("text:N"))


def _points(summary: Record, x: ChartPart, y: ChartPart) -> list[ChartPart]:
    marks = [
        {"x": summary[key]["x"], "y": summary[key]["y"], "role": role, "text": f"{key.upper()}, {role}"}
        for key, role in (("p0", "audited"), ("p1", "reference"))
    ]
    colour, (_, shape) = _colour("role:N"), draw.group_channels()
    base = draw.chart(marks, "groups").encode(x=x, y=y)
    dots = base.mark_point(filled=True, size=150, opacity=1, stroke=draw.PAPER).encode(color=colour, shape=shape)
    texts = base.encode(text=alt.Text("text:N"), color=colour)
    below = texts.transform_filter("datum.role == 'audited'")
    above = texts.transform_filter("datum.role == 'reference'")
    return [
        dots,
        *draw.halo(below, dy=18, fontWeight=600),
        *draw.halo(above, dy=-17, dx=14, align="left", fontWeight=600),
    ]


def _colour(field: str) -> ChartPart:
    """Return the colour scale that the layers of paths and groups share."""
    return alt.Color(field, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=None)


def _ways(x: ChartPart, y: ChartPart, tips: list[ChartPart]) -> ChartPart:
    dash = alt.StrokeDash("way:N", scale=alt.Scale(domain=[GREEN_WAY, RED_WAY], range=DASHES), legend=None)
    lines = alt.Chart().mark_line(strokeWidth=2.8)
    return lines.encode(x=x, y=y, order=alt.Order("step:Q"), color=_colour("way:N"), strokeDash=dash, tooltip=tips)


def _way_names(records: list[Record], x: ChartPart, y: ChartPart) -> list[ChartPart]:
    """Return the names of the paths at their middles, each on the side away from the other path."""
    middles = [_middle([record for record in records if record["way"] == way]) for way in (GREEN_WAY, RED_WAY)]
    is_left = middles[0]["x"] <= middles[1]["x"]
    layers = []
    for middle, at_left in zip(middles, (is_left, not is_left), strict=True):
        base = draw.chart([middle | {"text": middle["way"]}], f"name_{'left' if at_left else 'right'}")
        base = base.encode(x=x, y=y, text=alt.Text("text:N"), color=_colour("way:N"))
        side = {"align": "right", "dx": -12} if at_left else {"align": "left", "dx": 12}
        layers += draw.halo(base, fontWeight=600, **side)
    return layers


def _middle(stops: list[Record]) -> Record:
    """Return a stop slightly before the middle of a path."""
    first, last = stops[0], stops[-1]
    half = (0.6 * first["x"] + 0.4 * last["x"], 0.6 * first["y"] + 0.4 * last["y"])  # more space at the base
    return min(stops, key=lambda stop: (stop["x"] - half[0]) ** 2 + (stop["y"] - half[1]) ** 2)


def paths(c: Comparison) -> Figure:
    """Return the output divergence that remains as the audited group's inputs change, along both paths."""
    title = "Output divergence that remains as inputs change"
    path, least = c.bins().path, c.bins().least_change
    start = c.correction.output_divergence
    if c.unobserved_group:
        raise nothing(title, "the output divergence of unobserved groups is not reported")
    if start is None or not (path.green or path.red):
        raise nothing(title, "the output divergence is not finite")
    if start.value == 0:
        raise nothing(title, "the outputs of both groups are equal")
    stops = [(GREEN_WAY, 0.0, start.value, None), *_stops(GREEN_WAY, path.green)]
    if least is not None:
        stops.append((GREEN_WAY, least.cost, 0.0, least.favourable_rate))
    stops += [(RED_WAY, 0.0, start.value, None), *_stops(RED_WAY, path.red)]
    m = measure_of(c)
    records = [_record(step, stop, start.value, m) for step, stop in enumerate(stops)]
    ends = [[record["left"] for record in records if record["way"] == way][-1] for way in (GREEN_WAY, RED_WAY)]
    cost = (
        "no change of inputs closes it" if least is None else f"least change of inputs: {short_number(least.cost)} nats"
    )
    description = (
        f"{versus(c)}. Two paths from the audited group as it is, at the top left. Aligning outputs only "
        f"leaves {whole_percent(ends[0])} of the output divergence, aligning inputs and outputs leaves "
        f"{whole_percent(ends[1])}. {cost[0].upper()}{cost[1:]}."
    )
    reading = {"way": "path", "change_text": "change of inputs (nats)", "left_text": "divergence left", "rate": m.rate}
    note = noted(c, cost, "divergences are KL, plug-in values", intervals="")
    subtitle = in_unit(c, f"% of the current divergence of {number(start.value)} nats")
    chart = _plane(records, least, draw.tooltip(reading))
    return figure(chart, records, title, description, reading, subtitle, note)


def _stops(way: str, path: list[PathStop]) -> list[tuple[str, float, float, float | None]]:
    return [
        (way, point.input_change, point.output_divergence, point.favourable_rate)
        for point in path
        if point.input_change is not None and point.output_divergence is not None
    ]


def _record(step: int, stop: tuple[str, float, float, float | None], start: float, m: Measure) -> Record:
    way, change, divergence, rate = stop
    left = divergence / start
    record = {"way": way, "step": step, "input_change": change, "output_divergence": divergence, "left": left}
    return record | {"change_text": number(change, 3), "left_text": percent(left), "rate": m.level(rate)}


def _plane(records: list[Record], least: LeastChange | None, tips: list[ChartPart]) -> ChartPart:
    right = max(record["input_change"] for record in records) or 1e-3
    title = "change of the audited group's inputs, KL divergence in nats →"
    x = draw.axis("x", "input_change", title, [0, 1.22 * right])
    most = max(record["left"] for record in records)
    y = draw.axis("y", "left", "output divergence that remains", [0, 1.12 * most], format=".0%", tickCount=5)
    names = [GREEN_WAY, RED_WAY]
    shape = alt.Shape("way:N", scale=alt.Scale(domain=names, range=["circle", "square"]), legend=None)
    stops = alt.Chart().mark_point(filled=True, size=38, opacity=1)
    stops = stops.encode(x=x, y=y, color=_colour("way:N"), shape=shape, tooltip=tips)
    layers = [_ways(x, y, tips), stops, *_plane_marks(records, least, x, y)]
    return alt.layer(*layers).properties(width=draw.WIDTH, height=300)


def _plane_marks(records: list[Record], least: LeastChange | None, x: ChartPart, y: ChartPart) -> list[ChartPart]:
    marks = [{"input_change": 0.0, "left": 1.0, "text": "audited group as it is"} | BESIDE]
    if least is not None:
        words = f"least change {short_number(least.cost)}"
        is_far = least.cost > max(record["input_change"] for record in records) / 2
        # On a narrow page there is no space to the right of a far mark; above it, the paths have come down.
        position = {"align": "center", "dx": -8, "dy": -34} if is_far else BESIDE
        marks.append({"input_change": least.cost, "left": 0.0, "text": words} | position)
    base = draw.chart(marks, "marks").encode(x=x, y=y)
    diamonds = base.mark_point(filled=True, size=120, opacity=1, color=draw.INK, shape="diamond")
    at = {name: alt.expr(f"datum.{name}") for name in BESIDE}
    texts = draw.halo(base.encode(text=alt.Text("text:N")), fontWeight=600, **at)
    named = []
    for way, height in ((GREEN_WAY, 0.74), (RED_WAY, 0.5)):
        stops = [record for record in records if record["way"] == way and record["input_change"] > 0]
        if stops:
            named.append(min(stops, key=lambda stop: abs(stop["left"] - height)))
    words = draw.chart(named, "way_names").encode(x=x, y=y, text=alt.Text("way:N"), color=_colour("way:N"))
    return [diamonds, *texts, *draw.halo(words, align="left", dx=10, dy=-4, fontWeight=600)]
