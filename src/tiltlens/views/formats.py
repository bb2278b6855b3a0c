"""Numbers as text, the same on the terminal and on the page."""

from __future__ import annotations

from typing import Any
from unicodedata import bidirectional

NOTHING = "–"
LONGEST = 60
ISOLATE, END = "\u2068", "\u2069"  # what stands between them does not turn the text around it
JOINERS = "\u200c\u200d"  # not printable by themselves, but letters and emoji are made with them


def number(value: float | None) -> str:
    """Return four decimals, or none from a hundred on."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:z.4f}"


def interval(estimate: dict[str, Any] | None) -> str:
    """Return "low to high" of an estimate."""
    if estimate is None or estimate["low"] is None:
        return NOTHING
    high = "no limit" if estimate["high"] is None else number(estimate["high"])
    return f"{number(estimate['low'])} to {high}"


def points(value: float | None) -> str:
    """Return hundredths of the score, signed."""
    return NOTHING if value is None else f"{100 * value:+z.2f}"


def whole_percent(value: float | None) -> str:
    """Return a share as a whole percentage."""
    return NOTHING if value is None else f"{100 * value:.0f} %"


def percent(value: float | None) -> str:
    """Return a share as a percentage with one decimal."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def count(value: float | None) -> str:
    """Return a count of people; "fewer than 10" where it is withheld."""
    return "fewer than 10" if value is None else f"{value:,.0f}"


def p_value(value: float) -> str:
    """Return a p-value."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def label(name: Any, longest: int = LONGEST) -> str:
    """Return a name that can be shown: no control characters, not too long, its direction its own affair."""
    text = "".join(one if one.isprintable() or one in JOINERS else "�" for one in str(name)[: longest + 1])
    text = text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
    is_from_right = any(bidirectional(one) in ("R", "AL") for one in text)
    return f"{ISOLATE}{text}{END}" if is_from_right else text
