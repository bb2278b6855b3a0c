"""What every page of the terminal is made of: numbers as a terminal writes them, tables, headings and lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from tiltlens import formats
from tiltlens.formats import typed

DOES_NOT_SHOW = (
    "A potential proxy is a reason to look, not a finding of wrongdoing: the numbers are associations under this one "
    "model and these data, they show no cause and are no verdict on a model or a person."
)


def number(value: float | None, digits: int = 4) -> str:
    """Return a number as a terminal writes it."""
    return typed(formats.number(value, digits))


def points(value: float | None) -> str:
    """Return points of the score as a terminal writes them."""
    return typed(formats.points(value))


def percent(value: float | None) -> str:
    """Return a share as a terminal writes it."""
    return typed(formats.percent(value))


def whole(value: float | None) -> str:
    """Return an estimated count as a terminal writes it."""
    return typed(formats.whole(value))


def estimate_cells(found: dict[str, Any], shown: Callable[[float | None], str] = number) -> tuple[str, str]:
    """Return an estimate's value and its interval."""
    return typed(shown(found["value"])), typed(formats.interval(found["low"], found["high"], shown))


def bullets(lines: Iterable[str]) -> Table:
    """Return lines, each with a dot before it."""
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row("•", Text(line))
    return table


def heading(title: str) -> Text:
    """Return what stands over a part of a page."""
    return Text(f"\n{title}", "bold cyan")


def empty_table(first: str, numbers: Sequence[str], words: Sequence[str] = (), folds: bool = False) -> Table:
    """Return an empty table: what a row is about, its numbers, its words.

    Where there is little room words give way, or names where there are none, or where these `folds`: they are from
    data. Numbers are never cut.
    """
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=bool(words) and not folds, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for name in words:
        table.add_column(name)
    return table
