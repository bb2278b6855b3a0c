"""How every figure looks: colours that survive grey and colour-blindness, type, and room."""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeAlias

from tiltlens.errors import MissingExtraError

ChartPart: TypeAlias = Any  # a chart of Altair, or a part or setting of one: type checkers do not know them here
AUDITED, REFERENCE = "#B85C00", "#0B5394"  # also apart in grey, and never told by colour alone
GREEN, RED = "#007A5A", "#A3171F"
DISADVANTAGE = "#A63603"  # of the audited group; everything else that is no group is grey or ink
INK, QUIET, FAINT, GRID, BAND, PAPER = "#1F2328", "#57606A", "#8C959F", "#E6E8EB", "#EEF0F2", "white"
# What the page calls them: its style sheet has a light and a dark colour of each name.
VARIABLES = {
    colour: f"var(--{name})"
    for name, colour in {
        "audited": AUDITED, "reference": REFERENCE, "green": GREEN, "red": RED, "disadvantage": DISADVANTAGE,
        "ink": INK, "quiet": QUIET, "faint": FAINT, "grid": GRID, "band": BAND, "paper": PAPER,
    }.items()
}  # fmt: skip
# For at most eight lines, each with a dash of its own.
LINES = ["#A63603", "#0B5394", "#007A5A", "#8E4585", "#7A6A00", "#3B6FB6", "#B0407A", "#57606A"]
DASHES = [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [10, 4], [4, 4], [1, 3], [12, 2, 2, 2, 2, 2]]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
WIDTH = 620
LABEL_LIMIT = 215


def altair() -> ModuleType:
    """Return Altair, which the extra `report` brings."""
    try:
        import altair as alt
    except ImportError:
        raise _missing("altair") from None
    return alt


def vl_convert() -> ModuleType:
    """Return vl-convert, which the extra `report` brings: it draws without a browser and without a network."""
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
        "aria": False,  # marks are hidden from screen readers: description and table have their numbers
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
    """Return text on a rim of paper, which keeps lines out of the letters."""
    rim = style | {"color": PAPER, "stroke": PAPER, "strokeWidth": 4, "strokeJoin": "round"}
    return [chart.mark_text(**rim), chart.mark_text(**style)]


def on_page(spec: ChartPart) -> ChartPart:
    """Return a specification whose colours follow the page, light or dark; data stay as they are."""
    if isinstance(spec, dict):
        return {key: entry if key == "values" else on_page(entry) for key, entry in spec.items()}
    if isinstance(spec, list):
        return [on_page(entry) for entry in spec]
    return VARIABLES.get(spec, spec) if isinstance(spec, str) else spec
