"""The parts of the page: which figures a comparison is shown with, and the numbers that move in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from tiltmeter.views import figures
from tiltmeter.views.figures import Figure
from tiltmeter.views.report import words


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A figure on the page. Title and note are the page's own text: they wrap, and are read aloud."""

    element: str
    title: str
    note: str
    description: str
    spec: dict[str, Any]
    table: pl.DataFrame

    @classmethod
    def of(cls, element: str, figure: Figure) -> Drawing:
        """Return a figure that fills its column."""
        spec = figure.spec(width="container") | {"background": "transparent"}
        heading = spec.pop("title")
        return cls(element, figure.title, heading.get("subtitle", ""), figure.description, spec, figure.table)


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One audited group on the page: its place, its numbers, its sentences and its drawings by name."""

    place: int
    name: str
    c: dict[str, Any]
    found: list[str]
    sure: list[str]
    drawings: dict[str, Drawing]


def overview(summary: dict[str, Any]) -> Drawing:
    """Return the picture of all groups together."""
    return Drawing.of("rates", figures.rates(summary))


def section(summary: dict[str, Any], place: int, name: str) -> Section:
    """Return the part of the page about one audited group."""
    c, settings = summary["comparisons"][name], summary["settings"]
    drawn = {
        "outputs": figures.outputs(c),
        "waterfall": figures.waterfall(c),
        "map": figures.proxy_map(c, settings["materiality"]),
        "shares": figures.shares(c),
        "ways": figures.ways(c),
        "correction": figures.correction_distribution(c, start_position(c)),
        "overlap": figures.overlap(c),
        "calibration": figures.calibration(c),
    }
    if c["balance"] is not None:
        drawn["balance"] = figures.balance(c)
    drawings = {key: Drawing.of(f"{key}-{place}", figure) for key, figure in drawn.items()}
    drawings["correction"] = replace(drawings["correction"], note="")  # it names a position, and the dial moves
    return Section(place, name, c, words.found_words(c, settings), words.sure_words(c), drawings)


def start_position(c: dict[str, Any]) -> int:
    """Return where the dial stands at first: the middle, or the left end where outputs cannot be aligned."""
    return len(c["bins"]["dial"]) // 2


def moving(c: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a comparison that follow the dial or a click, features as a list: a name is no key."""
    return {
        "dial": c["bins"]["dial"],
        "correction": c["bins"]["correction"],
        "features": [_feature(c, row) for row in c["proxies"]],
    }


def _feature(c: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    profile = c["bins"]["profiles"][row["feature"]]
    unused = {"correction", "scores"}
    values = [{key: entry for key, entry in value.items() if key not in unused} for value in profile["values"]]
    for value, full in zip(values, profile["values"], strict=True):
        value["means"] = None if full["scores"] is None else [full["log_odds"], *full["scores"]]
    return {
        "name": row["feature"],
        "form": None if c["dial"] is None or row["share"] is None else c["dial"][row["feature"]],
        "direction": row["direction"],
        "notes": row["notes"],
        "values": values,
    }


def shorten(parts: dict[str, dict[str, Any]]) -> bool:
    """Take the quantiles from the weakest features that still have them; return whether there were any."""
    having = [
        feature
        for part in parts.values()
        for feature in part["features"]
        if any(value.get("quantiles") for value in feature["values"])
    ]
    for feature in having[len(having) // 2 :]:
        for value in feature["values"]:
            value["quantiles"] = None
    return bool(having)
