"""Figures: a chart with its title, note, data and description."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tiltlens._documents.document import Compared, Pair, level_of, versus
from tiltlens._formats import label
from tiltlens._results.codec import write_bytes
from tiltlens._results.comparison import Comparison
from tiltlens.errors import DataError, NothingToDrawError
from tiltlens.figures._marks import ChartPart, config, data, vl_convert

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
