"""Axes, intervals, reference lines and tooltips, which all figures share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiltlens.documents.labels import Compared, disadvantage_words
from tiltlens.estimators.estimate import Estimate
from tiltlens.figures.figure import Record, data
from tiltlens.figures.parts import span
from tiltlens.figures.theme import FAINT, INK, ChartPart, altair

ENDS = ("", "_low", "_high")


def tooltip(reading: Mapping[str, str]) -> list[ChartPart]:
    """Return the tooltip of a mark: columns of texts, each with its heading."""
    alt = altair()
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in reading.items()]


def axis(
    channel: str, field: str, title: ChartPart, domain: list[float] | None = None, **options: ChartPart
) -> ChartPart:
    """Return an axis of numbers, "x" or "y"; `options` are those of `altair.Axis`."""
    alt = altair()
    drawn = getattr(alt, channel.upper())(f"{field}:Q", title=title)
    if domain is not None:
        drawn.scale = alt.Scale(domain=domain, nice=False, zero=False)
    if options:
        drawn.axis = alt.Axis(**options)
    return drawn


def directed_axis(
    channel: str, field: str, what: str, domain: list[float], c: Compared, **options: ChartPart
) -> tuple[ChartPart, ChartPart]:
    """Return an axis of differences that says at which end the audited group is at a disadvantage, and its title."""
    words, anchor = disadvantage_words(c)
    title = [what, words]
    return axis(channel, field, title, domain, titleAnchor=anchor, **options), title


def name_axis(has_labels: bool = True, limit: int = 215, **options: ChartPart) -> ChartPart:
    """Return the rows of a figure by the names in the column `label`."""
    alt = altair()
    drawn = alt.Axis(ticks=False, domain=False, labels=has_labels, labelLimit=limit, **({"grid": True} | options))
    return alt.Y("label:N", sort=None, title=None, axis=drawn)


def interval(channel: str, name: str, title: ChartPart, other: ChartPart, **style: ChartPart) -> ChartPart:
    """Return a line from `name`_low to `name`_high of each row that has both; `other` is the other channel."""
    alt = altair()
    base = alt.Chart().transform_filter(f"datum.{name}_low != null && datum.{name}_high != null")
    rule = base.mark_rule(**({"strokeWidth": 1.8, "color": INK} | style))
    second = {"x": alt.X2, "y": alt.Y2}[channel](field=f"{name}_high")
    across = {"y" if channel == "x" else "x": other}
    return rule.encode(**{channel: axis(channel, f"{name}_low", title), f"{channel}2": second}, **across)


def dots(name: str, **style: ChartPart) -> ChartPart:
    """Return filled points of the rows that have a number."""
    base = altair().Chart().transform_filter(f"datum.{name} != null")
    return base.mark_point(**({"filled": True, "size": 80, "opacity": 1, "color": INK} | style))


def lines_at(
    channel: str, values: Iterable[float], title: ChartPart, name: str = "lines", solid: float = 0.0
) -> ChartPart:
    """Return lines across the figure, dashed except where there is no difference."""
    alt = altair()
    dash = alt.condition(f"datum.at == {solid}", alt.value([1, 0]), alt.value([5, 3]))
    base = alt.Chart(data([{"at": value} for value in values], name)).mark_rule(color=FAINT)
    return base.encode(**{channel: axis(channel, "at", title)}, strokeDash=dash)


def scaled(estimates: Mapping[str, Estimate | None], factor: float) -> Record:
    """Return estimates with the ends of their intervals as an axis has them."""
    record: Record = {}
    for name, estimate in estimates.items():
        ends = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
        record |= {f"{name}{end}": None if x is None else factor * x for end, x in zip(ENDS, ends, strict=True)}
    return record


def reach(records: Iterable[Record], names: Iterable[str], *more: float, room: float = 0.06) -> list[float]:
    """Return a domain that holds the numbers, their intervals and more."""
    keys = [f"{name}{end}" for name in names for end in ENDS]
    ends = [record[key] for record in records for key in keys if record.get(key) is not None]
    return span([*ends, *more], room)
