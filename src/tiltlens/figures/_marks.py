"""The theme of figures, their marks and axes, the space that these need, and labels that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any, TypeAlias

from tiltlens._analysis.bins import ValueProfile
from tiltlens._documents.document import BOTH, DRAWN, Compared, disadvantage_words, labels
from tiltlens._estimators.estimate import Estimate
from tiltlens._formats import label, number
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import Contribution
from tiltlens._rows.wording import Measure
from tiltlens.errors import DataError, MissingExtraError

ChartPart: TypeAlias = Any  # a chart of Altair, or a part or setting of one, whose types are not checked
AUDITED, REFERENCE = "#B85C00", "#0B5394"  # distinguishable in greyscale too, and never the only distinction
GREEN, RED = "#007A5A", "#A3171F"
DISADVANTAGE = "#A63603"  # of the audited group; everything else except the groups is grey or ink
INK, QUIET, FAINT, GRID, BAND, PAPER = "#1F2328", "#57606A", "#8C959F", "#E6E8EB", "#EEF0F2", "white"
# The names of colours in the page's style sheet, which has a light and a dark colour for each.
VARIABLES = {
    colour: f"var(--{name})"
    for name, colour in {
        "audited": AUDITED, "reference": REFERENCE, "green": GREEN, "red": RED, "disadvantage": DISADVANTAGE,
        "ink": INK, "quiet": QUIET, "faint": FAINT, "grid": GRID, "band": BAND, "paper": PAPER,
    }.items()
}  # fmt: skip
# For at most eight lines, each with its own dash.
LINES = ["#A63603", "#0B5394", "#007A5A", "#8E4585", "#7A6A00", "#3B6FB6", "#B0407A", "#57606A"]
DASHES = [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [10, 4], [4, 4], [1, 3], [12, 2, 2, 2, 2, 2]]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
WIDTH = 620
LABEL_LIMIT = 215


def altair() -> ModuleType:
    """Return Altair, which is installed with the extra `report`."""
    try:
        import altair as alt
    except ImportError:
        raise _missing("altair") from None
    return alt


class Altair:
    """The names of Altair, which is imported when the first of them is used."""

    def __getattr__(self, name: str) -> ChartPart:
        """Return what Altair has under a name."""
        return getattr(altair(), name)


alt = Altair()


def vl_convert() -> ModuleType:
    """Return vl-convert, which is installed with the extra `report` and draws without a browser or network."""
    try:
        import vl_convert
    except ImportError:
        raise _missing("vl-convert-python") from None
    return vl_convert


def _missing(package: str) -> MissingExtraError:
    return MissingExtraError(
        f"figures must have the package {package} to be drawn, got an installation without it.",
        "pip install altair vl-convert-python jinja2",
    )


def config() -> dict[str, Any]:
    """Return the house theme as a Vega-Lite config."""
    text = {"labelFontSize": 11.5, "titleFontSize": 12, "labelColor": INK, "titleColor": QUIET}
    return {
        "font": FONT,
        "background": PAPER,
        "padding": {"left": 12, "right": 16, "top": 12, "bottom": 12},
        "aria": False,  # marks are hidden from screen readers, since the description and the table have their numbers
        "view": {"stroke": None, "continuousWidth": WIDTH, "continuousHeight": 300},
        "axis": text
        | {"titleFontWeight": "normal", "gridColor": GRID, "domainColor": FAINT, "tickColor": FAINT}
        | {"labelLimit": LABEL_LIMIT, "titleLimit": 640, "titlePadding": 8, "labelPadding": 4, "labelFlush": False},
        "axisQuantitative": {"tickCount": 6},
        "legend": text | {"titleFontWeight": "normal", "labelLimit": 320, "titleLimit": 320, "symbolSize": 90},
        "title": {"fontSize": 15, "subtitleFontSize": 12, "color": INK, "subtitleColor": QUIET, "anchor": "start"}
        | {"frame": "bounds", "offset": 12, "subtitlePadding": 5, "fontWeight": 600, "limit": 760},
        "text": {"fontSize": 11.5, "color": INK, "limit": LABEL_LIMIT},
        "header": text,
        "rule": {"color": FAINT},
    }


def halo(chart: ChartPart, **style: ChartPart) -> list[ChartPart]:
    """Return text with an outline in the background colour, which keeps lines off the letters."""
    rim = style | {"color": PAPER, "stroke": PAPER, "strokeWidth": 4, "strokeJoin": "round"}
    return [chart.mark_text(**rim), chart.mark_text(**style)]


def on_page(spec: ChartPart) -> ChartPart:
    """Return a specification in which colours are CSS variables of the page; data are unchanged."""
    if isinstance(spec, dict):
        return {key: entry if key == "values" else on_page(entry) for key, entry in spec.items()}
    if isinstance(spec, list):
        return [on_page(entry) for entry in spec]
    return VARIABLES.get(spec, spec) if isinstance(spec, str) else spec


Record = dict[str, Any]  # one row of the data of a chart


def data(values: Sequence[Mapping[str, Any]], name: str = "table") -> dict[str, Any]:
    """Return rows as a named dataset inside the specification."""
    # Altair's own class checks every value against its schema, which takes longer than all the rest.
    return {"values": [dict(row) for row in values], "name": name}


def chart(values: Sequence[Mapping[str, Any]], name: str) -> ChartPart:
    """Return a chart of rows other than those of its figure."""
    return alt.Chart(data(values, name))


SHOWN = 20  # maximum number of features in a chart with one row per feature
VALUES = 24  # values of a feature
FULL = 200  # maximum number of characters of a name in a tooltip


def drawn_features(c: Comparison, limit: int | None = SHOWN, longest: int = DRAWN) -> list[tuple[str, Contribution]]:
    """Return the contributions of features in the order of the table, each with a label for a figure."""
    rows = c.by_feature[:limit]
    return [*zip(labels((row.feature for row in rows), longest), rows, strict=True)]


def profile_of(c: Comparison, feature: str) -> list[tuple[str, ValueProfile]]:
    """Return the values of a feature in order, each with a label for a figure."""
    profiles = c.bins().profiles
    if feature not in profiles:
        names = [label(name) for name in list(profiles)[:SHOWN]]
        raise DataError(f"`feature` must be one of the audit's features, got {label(feature)!r}.", f"they are {names}.")
    values = profiles[feature].values[:VALUES]
    return [*zip(labels(value.value for value in values), values, strict=True)]


def values_shown(c: Comparison, feature: str) -> str:
    """Return a note on how many values of a feature are shown, or "" if all are."""
    count = len(c.bins().profiles[feature].values)
    return f"the first {VALUES} of {count} values" if count > VALUES else ""


def dial_place(c: Comparison, position_index: int | None = None) -> int:
    """Return an index of the weighting slider, by default the position nearest to the audit's λ4/(λ2 + λ4).

    If outputs cannot be aligned, the slider has only one position.
    """
    last = max(len(c.bins().tradeoff) - 1, 0)
    if position_index is not None:
        if not isinstance(position_index, int) or position_index < 0:
            raise DataError(
                f"`position_index` must be a position of the weighting slider, got {position_index!r}.",
                "10 is its middle.",
            )
        return min(position_index, last)
    numbers = c.correction.numbers or {}
    inputs, outputs = (
        1.0 if (part := numbers.get(name)) is None else part for name in ("input_weight", "output_weight")
    )
    largest = max(inputs, outputs)  # weights may be as large as the largest float
    share = outputs / largest / (inputs / largest + outputs / largest) if largest else 0.5
    positions = [point.position for point in c.bins().tradeoff]
    return min(range(len(positions)), key=lambda index: abs(positions[index] - share), default=0)


def dial_words(c: Comparison, index: int) -> str:
    """Return the position of the weighting slider in words, or "" if there is none."""
    dial = c.bins().tradeoff
    return f"weighting slider at {number(dial[index].position, 2)} (0 aligns inputs, 1 aligns outputs)" if dial else ""


def span(values: list[float], room: float = 0.06, least: float = 1e-6) -> list[float]:
    """Return a domain that contains the values with a margin; one that contains 0 to 1 if there are none."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    reach = max(high - low, least)
    return [low - room * reach, high + room * reach]


def steps(low: float, high: float, count: int) -> list[tuple[float, float]]:
    """Return the edges of equal bins, rounded to remove rounding noise."""
    edges = [round(low + (high - low) * index / count, 10) for index in range(count + 1)]
    return list(pairwise(edges))


ENDS = ("", "_low", "_high")
TICKS = 10  # approximate maximum number on an axis


def tooltip(reading: Mapping[str, str]) -> list[ChartPart]:
    """Return the tooltip of a mark: the columns of `reading` with their headings."""
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in reading.items()]


def axis(
    channel: str, field: str, title: ChartPart, domain: list[float] | None = None, **options: ChartPart
) -> ChartPart:
    """Return a numeric axis for the channel "x" or "y"; `options` are those of `altair.Axis`."""
    drawn = getattr(alt, channel.upper())(f"{field}:Q", title=title)
    if domain is not None:
        drawn.scale = alt.Scale(domain=domain, nice=False, zero=False)
    if options:
        drawn.axis = alt.Axis(**options)
    return drawn


def tick_format(m: Measure, reach: float) -> str:
    """Return a number format in which neighbouring ticks of an axis differ."""
    step = m.factor * reach / TICKS
    return m.difference_axis if m.is_amount or step >= 0.1 else f".{math.ceil(-math.log10(step))}~f"


def directed_axis(
    channel: str, field: str, what: str, domain: list[float], c: Compared, **options: ChartPart
) -> tuple[ChartPart, ChartPart]:
    """Return an axis of gaps whose title shows which end is the disadvantage of the audited group, and the title."""
    words, anchor = disadvantage_words(c)
    title = [what, words]
    return axis(channel, field, title, domain, titleAnchor=anchor, **options), title


def name_axis(has_labels: bool = True, limit: int = 215, **options: ChartPart) -> ChartPart:
    """Return a y axis of rows, named by the column `label`."""
    drawn = alt.Axis(ticks=False, domain=False, labels=has_labels, labelLimit=limit, **({"grid": True} | options))
    return alt.Y("label:N", sort=None, title=None, axis=drawn)


def interval(channel: str, name: str, title: ChartPart, other: ChartPart, **style: ChartPart) -> ChartPart:
    """Return lines from `name`_low to `name`_high for rows that have both; `other` is the other channel."""
    base = alt.Chart().transform_filter(f"datum.{name}_low != null && datum.{name}_high != null")
    rule = base.mark_rule(**({"strokeWidth": 1.8, "color": INK} | style))
    second = {"x": alt.X2, "y": alt.Y2}[channel](field=f"{name}_high")
    across = {"y" if channel == "x" else "x": other}
    return rule.encode(**{channel: axis(channel, f"{name}_low", title), f"{channel}2": second}, **across)


def dots(name: str, **style: ChartPart) -> ChartPart:
    """Return filled points for the rows in which the column `name` is not null."""
    base = alt.Chart().transform_filter(f"datum.{name} != null")
    return base.mark_point(**({"filled": True, "size": 80, "opacity": 1, "color": INK} | style))


def lines_at(
    channel: str, values: Iterable[float], title: ChartPart, name: str = "lines", solid: float = 0.0
) -> ChartPart:
    """Return lines across the figure, dashed except at the value `solid`."""
    dash = alt.condition(f"datum.at == {solid}", alt.value([1, 0]), alt.value([5, 3]))
    base = chart([{"at": value} for value in values], name).mark_rule(color=FAINT)
    return base.encode(**{channel: axis(channel, "at", title)}, strokeDash=dash)


def scaled(estimates: Mapping[str, Estimate | None], factor: float) -> Record:
    """Return estimates and the limits of their intervals, multiplied by a factor, as columns for an axis."""
    record: Record = {}
    for name, estimate in estimates.items():
        ends = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
        record |= {f"{name}{end}": None if x is None else factor * x for end, x in zip(ENDS, ends, strict=True)}
    return record


def reach(records: Iterable[Record], names: Iterable[str], *more: float, room: float = 0.06) -> list[float]:
    """Return a domain that contains the given columns with their intervals, and further values."""
    keys = [f"{name}{end}" for name in names for end in ENDS]
    ends = [record[key] for record in records for key in keys if record.get(key) is not None]
    return span([*ends, *more], room)


def group_channels(
    field: str = "role", names: Sequence[str] = BOTH, orient: str | None = None
) -> tuple[ChartPart, ChartPart]:
    """Return the colour and the shape that distinguish the audited group and the reference.

    Their legend is placed at `orient`; without one, there is none.
    """
    legend = None if orient is None else alt.Legend(title=None, orient=orient, offset=4)
    colours = alt.Scale(domain=list(names), range=[AUDITED, REFERENCE])
    shapes = alt.Scale(domain=list(names), range=["circle", "square"])
    channel = f"{field}:N"
    return alt.Color(channel, scale=colours, legend=legend), alt.Shape(channel, scale=shapes, legend=legend)


def diagonal(x: ChartPart, y: ChartPart, names: tuple[str, str], ends: Iterable[float]) -> ChartPart:
    """Return the dashed line on which the columns on the two axes are equal."""
    line = chart([dict.fromkeys(names, end) for end in ends], "diagonal")
    return line.mark_line(color=QUIET, strokeDash=[5, 3]).encode(x=x, y=y)


def names_at(records: Sequence[Record], dataset: str, **style: ChartPart) -> ChartPart:
    """Return texts to the right of points; the column `name` has them."""
    texts = chart(records, dataset).mark_text(**({"align": "left"} | style))
    return texts.encode(text=alt.Text("name:N"))


Box = tuple[float, float, float, float]
LETTER, LINE = 6.8, 14.0  # width of a character and height of a line, in pixels
OFFSETS = ((11, 0, "left"), (-11, 0, "right"), (0, -15, "center"), (0, 16, "center"))
FURTHER = ((11, -13, "left"), (11, 13, "left"), (-11, -13, "right"), (-11, 13, "right"), (0, -28, "center"))
LONGEST = 215.0
MOST_SHARED = 60.0  # square pixels of a name that thin lines may cover


def placed(
    marks: list[Record], across: float, along: float, width: float, height: float, taken: list[Box]
) -> list[Record]:
    """Return the name of each mark with a position that avoids other names, marks, whiskers and the boxes `taken`.

    A name for which there is no such position is left out, except for the first; the mark's tooltip has it.
    """
    taken = list(taken)
    first = marks[0] if marks else None
    for mark in marks:
        taken += _mark_boxes(mark, across, along, height)
    positions = []
    for mark in marks:
        x, y = mark["reveals"] * across, height - mark["height"] * along
        wide = min(LETTER * len(mark["label"]), LONGEST)
        costs = []
        for order, (dx, dy, align) in enumerate(OFFSETS + FURTHER):
            box = _box(x + dx, y + dy, wide, align)
            costs.append((sum(_shared(box, other) for other in taken) + _outside(box, width, height), order, box))
        cost, best, box = min(costs)
        if cost > MOST_SHARED and mark is not first:
            positions.append({"name": None, "dx": 0, "dy": 0, "align": "left"})
            continue
        taken.append(box)
        dx, dy, align = (OFFSETS + FURTHER)[best]
        positions.append({"name": mark["label"], "dx": dx, "dy": dy, "align": align})
    return positions


def _mark_boxes(mark: Record, across: float, along: float, height: float) -> list[Box]:
    """Return the boxes that a mark and its whiskers cover."""
    x, y = mark["reveals"] * across, height - mark["height"] * along
    boxes = [(x - 7, y - 7, x + 7, y + 7)]
    if mark["reveals_low"] is not None and mark["reveals_high"] is not None:
        boxes.append((mark["reveals_low"] * across, y - 1, mark["reveals_high"] * across, y + 1))
    if mark["height_low"] is not None and mark["height_high"] is not None:
        boxes.append((x - 1, height - mark["height_high"] * along, x + 1, height - mark["height_low"] * along))
    return boxes


def _box(x: float, y: float, wide: float, align: str) -> Box:
    left = {"left": x, "right": x - wide, "center": x - wide / 2}[align]
    return (left, y - LINE / 2, left + wide, y + LINE / 2)


def _shared(a: Box, b: Box) -> float:
    """Return the area that two boxes share."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return wide * high if wide > 0 and high > 0 else 0.0


def _outside(box: Box, width: float, height: float) -> float:
    beyond = max(0.0, -box[0]) + max(0.0, box[2] - width) + max(0.0, -box[1]) + max(0.0, box[3] - height)
    return 20.0 * beyond


def spread(values: list[float], least: float) -> list[float]:
    """Return positions moved apart as little as possible, in the same order, so that their distances are ≥ `least`."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    blocks: list[list[float]] = []  # sum of the desired starts, and number of members
    for rank in range(len(order)):
        blocks.append([values[order[rank]], 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] + least * _half(blocks[-2], blocks[-1]) > (
            blocks[-1][0] / blocks[-1][1]
        ):
            wished, members = blocks.pop()
            blocks[-1][0] += wished
            blocks[-1][1] += members
    moved, rank = [0.0] * len(values), 0
    for total, members in blocks:
        for step in range(int(members)):
            moved[order[rank]] = total / members + least * (step - (members - 1) / 2)
            rank += 1
    return moved


def _half(first: list[float], second: list[float]) -> float:
    """Return the minimum distance between the centres of two blocks, in steps."""
    return (first[1] + second[1]) / 2
