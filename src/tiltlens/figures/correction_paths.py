"""The two ways out of a disparity: on the simplex (the paper's Fig. 1), and for any world as change against result."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import versus
from tiltlens.documents.summary_access import Record
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, FAINT, GREEN, INK, PAPER, QUIET, RED, REFERENCE, WIDTH, altair, halo
from tiltlens.formats import number, short_number
from tiltlens.rows.measures import measure_of

OUTPUTS, BOTH = "align outputs", "align inputs and outputs"
GREEN_WAY, RED_WAY = f"green: {OUTPUTS}", f"red: {BOTH}"
AIMS = {GREEN_WAY: OUTPUTS, RED_WAY: BOTH}
DASHES = [[1, 0], [7, 4]]
BESIDE: Record = {"align": "left", "dx": 9, "dy": -17}
NOTHING = 5e-5  # nats, which four digits do not show
COLOURS = {GREEN_WAY: GREEN, RED_WAY: RED, "audited": AUDITED, "reference": REFERENCE}


def simplex(summary: Record) -> Figure:
    """Return the paper's Fig. 1 from `simplex_paths(world).to_dict()`: both ways on the triangle of distributions."""
    title = "Two ways out of a disparity"
    records = [
        {"way": name, "step": step, "weight": stop["weight"], "x": stop["x"], "y": stop["y"]}
        | {f"q{atom + 1}": part for atom, part in enumerate(stop["q"])}
        for name, way in ((GREEN_WAY, "green"), (RED_WAY, "red"))
        for step, stop in enumerate(summary[way])
    ]
    description = (
        "The triangle of all distributions over three kinds of people. From the audited group P0, the green way moves "
        "straight to the line on which the scores of both groups agree; the red way moves to the reference group P1, "
        "which lies on that line too."
    )
    return figure(_triangle(summary, records), records, title, description, "all distributions over three atoms")


def _triangle(summary: Record, records: list[Record]) -> Any:
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
    layers += [_ways(x, y, "step:Q", [("weight", "weight t")]), *_points(_groups(summary), x, y)]
    layers += _way_names(records, x, y)
    return alt.layer(*layers).properties(width=540, height=470)


def _corner_names(summary: Record, x: Any, y: Any) -> Any:
    alt = altair()
    offsets = [(-0.012, -0.035), (0.012, -0.035), (0.0, 0.035)]
    named = [
        {"x": corner["x"] + dx, "y": corner["y"] + dy, "text": f"all on x{'₁₂₃'[number]}"}
        for number, (corner, (dx, dy)) in enumerate(zip(summary["corners"], offsets, strict=True))
    ]
    return alt.Chart(data(named, "corner_names")).mark_text(color=QUIET).encode(x=x, y=y, text=alt.Text("text:N"))


def _level_name(ends: list[Record], x: Any, y: Any) -> Any:
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


def _points(marks: list[Record], x: Any, y: Any) -> list[Any]:
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


def _colour(field: str) -> Any:
    """Return one colour scale for ways and groups: layers share it."""
    alt = altair()
    return alt.Color(field, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=None)


def _ways(x: Any, y: Any, order: str, more: list[tuple[str, str]]) -> Any:
    alt = altair()
    names = [GREEN_WAY, RED_WAY]
    tooltip = [alt.Tooltip("way:N", title="way")]
    tooltip += [alt.Tooltip(f"{field}:Q", title=title, format=".4g") for field, title in more]
    return (
        alt.Chart()
        .mark_line(strokeWidth=2.8)
        .encode(
            x=x,
            y=y,
            order=alt.Order(order),
            color=_colour("way:N"),
            strokeDash=alt.StrokeDash("way:N", scale=alt.Scale(domain=names, range=DASHES), legend=None),
            tooltip=tooltip,
        )
    )


def _way_names(records: list[Record], x: Any, y: Any) -> list[Any]:
    """Return the ways' names at their middles, each on the side away from the other way."""
    alt = altair()
    middles = [_middle([record for record in records if record["way"] == way]) for way in (GREEN_WAY, RED_WAY)]
    is_left = middles[0]["x"] <= middles[1]["x"]
    layers = []
    for middle, at_left in zip(middles, (is_left, not is_left), strict=True):
        name = data([middle | {"text": AIMS[middle["way"]]}], f"name_{'left' if at_left else 'right'}")
        base = alt.Chart(name).encode(x=x, y=y, text=alt.Text("text:N"), color=_colour("way:N"))
        side = {"align": "right", "dx": -12} if at_left else {"align": "left", "dx": 12}
        layers += halo(base, fontWeight=600, **side)
    return layers


def _middle(stops: list[Record]) -> Record:
    """Return the stop about half the way along."""
    first, last = stops[0], stops[-1]
    half = ((first["x"] + last["x"]) / 2, (first["y"] + last["y"]) / 2)
    return min(stops, key=lambda stop: (stop["x"] - half[0]) ** 2 + (stop["y"] - half[1]) ** 2)


def paths(comparison: Record) -> Figure:
    """Return how far the inputs must change, and what is then left of the output divergence, along both ways."""
    title = "What it takes to remove the disparity"
    paths, least = comparison["bins"]["path"], comparison["bins"]["least_change"]
    start = comparison["correction"]["output_divergence"]
    if comparison.get("unobserved_group"):
        return nothing(title, "the output divergence of unobserved groups is not reported")
    if start is None or not (paths["green"] or paths["red"]):
        return nothing(title, "outputs have no finite divergence: there is no way to draw")
    if start["value"] == 0:
        return nothing(title, "the outputs of both groups agree: there is nothing to remove")
    records = _stops(GREEN_WAY, start["value"], paths["green"])
    if least is not None:
        records.append(_stop(GREEN_WAY, len(records), None, least["cost"], 0.0, least["favourable_rate"]))
    records += _stops(RED_WAY, start["value"], paths["red"])
    cost = (
        "no change of the inputs removes it" if least is None else f"least change: {short_number(least['cost'])} nats"
    )
    ends = [_left(records, way) for way in (GREEN_WAY, RED_WAY)]
    description = (
        f"{versus(comparison)}. Two ways down from the audited group as it is, at the top left: the green one aligns "
        f"outputs only and leaves {ends[0]} of the output divergence, the red one aligns inputs and outputs and leaves "
        f"{ends[1]}. {cost[0].upper()}{cost[1:]}."
    )
    rate = measure_of(comparison).rate
    records = [
        {name.replace("favourable_rate", _key(rate)): value for name, value in record.items()} for record in records
    ]
    note = "distances are KL divergences, in nats; plug-in values"
    return figure(_plane(records, start["value"], least, rate), records, title, description, note, cost)


def _key(rate: str) -> str:
    return rate.replace(" ", "_")


def _left(records: list[Record], way: str) -> str:
    """Return what the last stop of a way leaves."""
    left = [record["output_divergence"] for record in records if record["way"] == way][-1]
    return "nothing" if abs(left) < NOTHING else f"{number(left)} nats"


def _stops(way: str, start: float, path: list[Record]) -> list[Record]:
    stops = [_stop(way, 0, 0.0, 0.0, start, None)]
    for point in path:
        if point["input_change"] is not None and point["output_divergence"] is not None:
            numbers = (point["weight"], point["input_change"], point["output_divergence"], point["favourable_rate"])
            stops.append(_stop(way, len(stops), *numbers))
    return stops


def _stop(way: str, step: int, weight: float | None, change: float, left: float, rate: float | None) -> Record:
    record = {"way": way, "step": step, "weight": weight, "input_change": change}
    return record | {"output_divergence": left, "favourable_rate": rate}


def _plane(records: list[Record], start: float, least: Record | None, rate: str) -> Any:
    alt = altair()
    right = max(record["input_change"] for record in records) or 1e-3
    top = max(record["output_divergence"] for record in records) or 1e-3
    x = alt.X(
        "input_change:Q",
        title="distance that the audited group's inputs move, KL(Q‖P0) in nats →",
        scale=alt.Scale(domain=[0, 1.22 * right], nice=False),
    )
    y = alt.Y(
        "output_divergence:Q",
        title="distance of outcomes left, in nats",
        scale=alt.Scale(domain=[0, 1.1 * top], nice=False),
    )
    fields = [("weight", "weight t"), ("input_change", "input change"), ("output_divergence", "divergence left")]
    lines = _ways(x, y, "step:Q", [*fields, (_key(rate), rate)])
    names = [GREEN_WAY, RED_WAY]
    dots = (
        alt.Chart()
        .mark_point(filled=True, size=38, opacity=1)
        .encode(
            x=x,
            y=y,
            color=_colour("way:N"),
            shape=alt.Shape("way:N", scale=alt.Scale(domain=names, range=["circle", "square"]), legend=None),
        )
    )
    layers = [lines, dots, *_plane_marks(records, start, least, x, y)]
    return alt.layer(*layers).properties(width=WIDTH, height=300)


def _plane_marks(records: list[Record], start: float, least: Record | None, x: Any, y: Any) -> list[Any]:
    alt = altair()
    marks = [{"input_change": 0.0, "output_divergence": start, "text": "P0: the audited group as it is"} | BESIDE]
    if least is not None:
        words = f"least change {short_number(least['cost'])}"
        is_far = least["cost"] > max(record["input_change"] for record in records) / 2
        # Far to the right a narrow page has no room beyond the mark, and above it the ways have come down.
        position = {"align": "center", "dx": -8, "dy": -26} if is_far else BESIDE
        marks.append({"input_change": least["cost"], "output_divergence": 0.0, "text": words} | position)
    base = alt.Chart(data(marks, "marks")).encode(x=x, y=y)
    dots = base.mark_point(filled=True, size=120, opacity=1, color=INK, shape="diamond")
    at = {name: alt.expr(f"datum.{name}") for name in BESIDE}
    texts = halo(base.encode(text=alt.Text("text:N")), fontWeight=600, **at)
    named = []
    for way, dx in ((GREEN_WAY, -1), (RED_WAY, 1)):
        stops = [record for record in records if record["way"] == way and record["step"] > 0]
        if stops:
            middle = min(stops, key=lambda stop: abs(stop["output_divergence"] - (0.62 - 0.12 * dx) * start))
            named.append(middle | {"text": way, "dx": dx})
    colour = _colour("way:N")
    labels = alt.Chart(data(named, "way_names")).mark_text(align="left", dx=10, fontWeight=600)
    return [dots, *texts, labels.encode(x=x, y=y, text=alt.Text("text:N"), color=colour)]
