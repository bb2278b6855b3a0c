"""The two paths that close a gap: on the simplex (the paper's Fig. 1), and for any world as change against result."""

from __future__ import annotations

from tiltlens.analysis.bins import LeastChange, PathStop
from tiltlens.documents.labels import measure_of, versus
from tiltlens.figures.figure import Figure, Record, data, figure, in_unit, noted, nothing
from tiltlens.figures.marks import axis, tooltip
from tiltlens.figures.theme import (
    AUDITED,
    FAINT,
    GREEN,
    INK,
    PAPER,
    QUIET,
    RED,
    REFERENCE,
    WIDTH,
    ChartPart,
    altair,
    halo,
)
from tiltlens.formats import number, percent, short_number, whole_percent
from tiltlens.results.comparison import Comparison
from tiltlens.rows.wording import Measure

GREEN_WAY, RED_WAY = "align outputs only", "align inputs and outputs"
DASHES = [[1, 0], [7, 4]]
BESIDE: Record = {"align": "left", "dx": 9, "dy": -17}
COLOURS = {GREEN_WAY: GREEN, RED_WAY: RED, "audited": AUDITED, "reference": REFERENCE}


def simplex(summary: Record) -> Figure:
    """Return the paper's Fig. 1 from `simplex_paths(world).to_dict()`: both ways on the triangle of distributions."""
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
    return figure(_triangle(summary, records, tooltip(reading)), records, title, description, reading, subtitle)


def _triangle(summary: Record, records: list[Record], tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    corners = [*summary["corners"], summary["corners"][0]]
    outline = [{"x": c["x"], "y": c["y"], "step": step} for step, c in enumerate(corners)]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-0.06, 1.06], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-0.06, 0.93], nice=False))
    edge = alt.Chart(data(outline, "triangle")).mark_line(color=FAINT, strokeWidth=1.2)
    layers = [edge.encode(x=x, y=y, order=alt.Order("step:Q")), _corner_names(summary, x, y)]
    if summary["level"]:
        ends = [{"x": end["x"], "y": end["y"], "step": step} for step, end in enumerate(summary["level"])]
        level = alt.Chart(data(ends, "level")).mark_line(color=INK, strokeWidth=1.4, strokeDash=[2, 3])
        layers.append(level.encode(x=x, y=y, order=alt.Order("step:Q")))
        layers.append(_level_name(ends, x, y))
    layers += [_ways(x, y, tips), *_points(_groups(summary), x, y)]
    layers += _way_names(records, x, y)
    return alt.layer(*layers).properties(width=540, height=470)


def _corner_names(summary: Record, x: ChartPart, y: ChartPart) -> ChartPart:
    alt = altair()
    offsets = [(-0.012, -0.035), (0.012, -0.035), (0.0, 0.035)]
    named = [
        {"x": corner["x"] + dx, "y": corner["y"] + dy, "text": f"all on x{'₁₂₃'[number]}"}
        for number, (corner, (dx, dy)) in enumerate(zip(summary["corners"], offsets, strict=True))
    ]
    return alt.Chart(data(named, "corner_names")).mark_text(color=QUIET).encode(x=x, y=y, text=alt.Text("text:N"))


def _level_name(ends: list[Record], x: ChartPart, y: ChartPart) -> ChartPart:
    """Return the line's name, beside its lower end."""
    alt = altair()
    low = min(ends, key=lambda end: end["y"])
    named = [{"x": low["x"], "y": low["y"], "text": "no disparate impact"}]
    text = alt.Chart(data(named, "level_name")).mark_text(align="left", dx=6, dy=-10, fontStyle="italic", color=INK)
    return text.encode(x=x, y=y, text=alt.Text("text:N"))


def _groups(summary: Record) -> list[Record]:
    return [
        {"x": summary["p0"]["x"], "y": summary["p0"]["y"], "role": "audited", "text": "P0, audited"},
        {"x": summary["p1"]["x"], "y": summary["p1"]["y"], "role": "reference", "text": "P1, reference"},
    ]


def _points(marks: list[Record], x: ChartPart, y: ChartPart) -> list[ChartPart]:
    alt = altair()
    roles = ["audited", "reference"]
    colour = _colour("role:N")
    shape = alt.Shape("role:N", scale=alt.Scale(domain=roles, range=["circle", "square"]), legend=None)
    base = alt.Chart(data(marks, "groups")).encode(x=x, y=y)
    dots = base.mark_point(filled=True, size=150, opacity=1, stroke=PAPER).encode(color=colour, shape=shape)
    texts = base.encode(text=alt.Text("text:N"), color=colour)
    below = texts.transform_filter("datum.role == 'audited'")
    above = texts.transform_filter("datum.role == 'reference'")
    return [dots, *halo(below, dy=18, fontWeight=600), *halo(above, dy=-17, dx=14, align="left", fontWeight=600)]


def _colour(field: str) -> ChartPart:
    """Return one colour scale for ways and groups: layers share it."""
    alt = altair()
    return alt.Color(field, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=None)


def _ways(x: ChartPart, y: ChartPart, tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    dash = alt.StrokeDash("way:N", scale=alt.Scale(domain=[GREEN_WAY, RED_WAY], range=DASHES), legend=None)
    lines = alt.Chart().mark_line(strokeWidth=2.8)
    return lines.encode(x=x, y=y, order=alt.Order("step:Q"), color=_colour("way:N"), strokeDash=dash, tooltip=tips)


def _way_names(records: list[Record], x: ChartPart, y: ChartPart) -> list[ChartPart]:
    """Return the ways' names at their middles, each on the side away from the other way."""
    alt = altair()
    middles = [_middle([record for record in records if record["way"] == way]) for way in (GREEN_WAY, RED_WAY)]
    is_left = middles[0]["x"] <= middles[1]["x"]
    layers = []
    for middle, at_left in zip(middles, (is_left, not is_left), strict=True):
        name = data([middle | {"text": middle["way"]}], f"name_{'left' if at_left else 'right'}")
        base = alt.Chart(name).encode(x=x, y=y, text=alt.Text("text:N"), color=_colour("way:N"))
        side = {"align": "right", "dx": -12} if at_left else {"align": "left", "dx": 12}
        layers += halo(base, fontWeight=600, **side)
    return layers


def _middle(stops: list[Record]) -> Record:
    """Return a stop a little before half the way."""
    first, last = stops[0], stops[-1]
    half = (0.6 * first["x"] + 0.4 * last["x"], 0.6 * first["y"] + 0.4 * last["y"])  # names have more room at the base
    return min(stops, key=lambda stop: (stop["x"] - half[0]) ** 2 + (stop["y"] - half[1]) ** 2)


def paths(c: Comparison) -> Figure:
    """Return the output divergence that remains as the inputs of the audited group change, along both paths."""
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
    subtitle = in_unit(c, f"% of today's divergence of {number(start.value)} nats")
    chart = _plane(records, least, tooltip(reading))
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
    alt = altair()
    right = max(record["input_change"] for record in records) or 1e-3
    title = "change of the audited group's inputs, KL divergence in nats →"
    x = axis("x", "input_change", title, [0, 1.22 * right])
    most = max(record["left"] for record in records)
    y = axis("y", "left", "output divergence that remains", [0, 1.12 * most], format=".0%", tickCount=5)
    names = [GREEN_WAY, RED_WAY]
    shape = alt.Shape("way:N", scale=alt.Scale(domain=names, range=["circle", "square"]), legend=None)
    stops = alt.Chart().mark_point(filled=True, size=38, opacity=1)
    stops = stops.encode(x=x, y=y, color=_colour("way:N"), shape=shape, tooltip=tips)
    layers = [_ways(x, y, tips), stops, *_plane_marks(records, least, x, y)]
    return alt.layer(*layers).properties(width=WIDTH, height=300)


def _plane_marks(records: list[Record], least: LeastChange | None, x: ChartPart, y: ChartPart) -> list[ChartPart]:
    alt = altair()
    marks = [{"input_change": 0.0, "left": 1.0, "text": "audited group as it is"} | BESIDE]
    if least is not None:
        words = f"least change {short_number(least.cost)}"
        is_far = least.cost > max(record["input_change"] for record in records) / 2
        # Far to the right a narrow page has no room beyond the mark, and above it the paths have come down.
        position = {"align": "center", "dx": -8, "dy": -34} if is_far else BESIDE
        marks.append({"input_change": least.cost, "left": 0.0, "text": words} | position)
    base = alt.Chart(data(marks, "marks")).encode(x=x, y=y)
    diamonds = base.mark_point(filled=True, size=120, opacity=1, color=INK, shape="diamond")
    at = {name: alt.expr(f"datum.{name}") for name in BESIDE}
    texts = halo(base.encode(text=alt.Text("text:N")), fontWeight=600, **at)
    named = []
    for way, height in ((GREEN_WAY, 0.74), (RED_WAY, 0.5)):
        stops = [record for record in records if record["way"] == way and record["input_change"] > 0]
        if stops:
            named.append(min(stops, key=lambda stop: abs(stop["left"] - height)))
    words = alt.Chart(data(named, "way_names")).encode(x=x, y=y, text=alt.Text("way:N"), color=_colour("way:N"))
    return [diamonds, *texts, *halo(words, align="left", dx=10, dy=-4, fontWeight=600)]
