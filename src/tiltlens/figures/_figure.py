"""Figures: a chart with its title, note, data and description, and the theme of all charts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import polars as pl

from tiltlens._documents.document import Compared, Pair, level_of, versus
from tiltlens._formats import label
from tiltlens._results.codec import write_bytes
from tiltlens._results.comparison import Comparison
from tiltlens.errors import DataError, MissingExtraError, NothingToDrawError

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
ENDINGS = (".png", ".svg", ".html")
BETWEEN = " · "
LINE = 110  # maximum number of characters of a line below the title
SOURCE = 90  # maximum number of characters of the source of the data
# Notebook files save a dict only under a name that ends in +json, unlike Altair 6's own ".v6.json".
NOTEBOOK = "application/vnd.vegalite.v6+json"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>tiltlens figure</title>
<style>body {{ margin: 1.5rem; font-family: system-ui, sans-serif; }} #figure {{ width: 100%; }}
#figure svg {{ max-width: 100%; height: auto; }}</style>
<script>{script}</script>
</head>
<body>
<div id="figure"></div>
<script>vegaEmbed("#figure", {spec}, {{renderer: "svg", actions: false}});</script>
</body>
</html>
"""


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A picture of a result.

    Attributes
    ----------
    chart
        The Altair chart; its main data is the dataset "table".
    table
        The numbers behind the picture, tidy.
    title, subtitle, note
        The title names the quantity or finding, the subtitle groups and unit, the note people, intervals and source.
    description
        The figure in plain words, for readers who cannot see it.
    reading
        The columns of the table for readers, each with its heading; the others only place marks.
    """

    chart: ChartPart
    table: pl.DataFrame
    title: str
    subtitle: str
    note: str
    description: str
    reading: Mapping[str, str]

    def spec(self, width: int | str | None = None) -> dict[str, Any]:
        """Return the Vega-Lite specification; `width` is in pixels, or "container" to fill the page's column.

        Panels side by side cannot fill a column: they keep their width, and a page scales their SVG.
        """
        if width is not None and width != "container" and (not isinstance(width, int) or width < 1):
            raise DataError(f'`width` must be a whole number of pixels or "container", got {width!r}.', "try 620.")
        spec: dict[str, Any] = self.chart.to_dict(validate=False)  # validated by tests: it takes longer than to draw
        if "hconcat" in spec:
            return _spread(spec, width) if isinstance(width, int) else spec
        if width is not None:
            spec["width"] = width
            spec["autosize"] = {"type": "fit-x", "contains": "padding"}
        return spec

    def save(self, path: str | Path, scale: float = 2.0) -> None:
        """Write the figure to a .png, .svg or .html file, whole or not at all; the page needs no network."""
        target = Path(path)
        ending = target.suffix.lower()
        if ending not in ENDINGS:
            raise DataError(
                f"`path` must end in one of {', '.join(ENDINGS)}, got {str(path)!r}.", "for example figure.svg."
            )
        write_bytes(target, self._drawn(ending, scale))

    def _drawn(self, ending: str, scale: float) -> bytes:
        converter = vl_convert()
        if ending == ".png":
            return bytes(converter.vegalite_to_png(self.spec(), scale=scale))
        if ending == ".svg":
            return str(converter.vegalite_to_svg(self.spec())).encode()
        # Names in the data must not end the script that contains them.
        spec = json.dumps(self.spec("container"), allow_nan=False).replace("<", "\\u003c")
        return PAGE.format(script=converter.javascript_bundle(), spec=spec).encode()

    def _repr_mimebundle_(self, *_: ChartPart, **__: ChartPart) -> dict[str, Any]:
        """Return the specification for notebooks that can draw it, and an SVG for others; neither needs a network."""
        return {NOTEBOOK: self.spec(), "image/svg+xml": self._drawn(".svg", 1.0).decode()}

    def __repr__(self) -> str:
        return f"Figure({self.title!r}, {len(self.table)} rows)"


def _spread(spec: dict[str, Any], width: int) -> dict[str, Any]:
    """Return side-by-side panels scaled to a total width, in their former proportions."""
    whole = sum(panel["width"] for panel in spec["hconcat"])
    for panel in spec["hconcat"]:
        panel["width"] = round(width * panel["width"] / whole)
    return spec


def data(values: Sequence[Mapping[str, Any]], name: str = "table") -> dict[str, Any]:
    """Return rows as a named dataset inside the specification."""
    # Altair's own class checks every value against its schema, which takes longer than all the rest.
    return {"values": [dict(row) for row in values], "name": name}


def figure(
    chart: ChartPart,
    records: Sequence[Mapping[str, Any]],
    title: str,
    description: str,
    reading: Mapping[str, str],
    subtitle: str = "",
    note: str = "",
) -> Figure:
    """Return a finished figure: title, subtitle, note, alt text and the house theme."""
    lines = [line for text in (subtitle, note) for line in _wrapped(text)]
    heading: dict[str, Any] = {"text": title} | ({"subtitle": lines} if lines else {})
    # Attributes are set because each of Altair's methods copies the whole chart with its data.
    chart.title, chart.description = heading, f"{title}. {description}"
    chart.config, chart.data = config(), data(records)
    table = pl.DataFrame(list(records), infer_schema_length=None)
    return Figure(chart, table, title, subtitle, note, description, reading)


def _wrapped(text: str) -> list[str]:
    """Return a text as lines that fit below the title, split between its parts."""
    lines = [""]
    for part in text.split(BETWEEN):
        longer = f"{lines[-1]}{BETWEEN}{part}" if lines[-1] else part
        lines = [*lines[:-1], longer] if len(longer) <= LINE or not lines[-1] else [*lines, part]
    return [line for line in lines if line]


def joined(*parts: str) -> str:
    """Return the parts that are not empty as one text."""
    return BETWEEN.join(part for part in parts if part)


def in_unit(pair: Pair, unit: str = "") -> str:
    """Return the subtitle: the groups compared, and the unit."""
    return f"{versus(pair)}{unit and f', in {unit}'}"


def noted(c: Compared, *parts: str, intervals: str = "CI") -> str:
    """Return the note: numbers of people, intervals, further parts, and the source of the data.

    `intervals` names the intervals; it is "" if none are drawn.
    """
    sizes = [c.rows] if isinstance(c, Comparison) else [c.rows["old"], c.rows["new"]]
    people = " then ".join(dict.fromkeys(people_of(each) for each in sizes))
    level = level_of(c).replace("CI", intervals) if intervals else ""
    return joined(people, level, *parts, source_of(c))


def people_of(sizes: Mapping[str, int]) -> str:
    """Return how many people of both groups there are."""
    return f"n = {sizes['audited']:,} / {sizes['reference']:,}"


def source_of(c: Compared) -> str:
    """Return the source of the data, if the user stated it."""
    source = label(c.scale.source, SOURCE)
    return source and f"Source: {source}"


def nothing(title: str, reason: str) -> NothingToDrawError:
    """Return the error of a figure that has nothing to show."""
    return NothingToDrawError(f"Figure “{title}” has nothing to show: {reason}.")
