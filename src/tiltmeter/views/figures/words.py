"""Text for figures: names from data made safe to draw, and numbers made readable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

LONGEST = 60
JOINERS = "\u200c\u200d"  # not printable by themselves, but letters and emoji are made with them


def label(name: Any, longest: int = LONGEST) -> str:
    """Return a name that can be drawn: no control characters, not too long."""
    text = "".join(one if one.isprintable() or one in JOINERS else "�" for one in str(name)[: longest + 1])
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def labels(names: Iterable[Any]) -> list[str]:
    """Return names that can be drawn and told apart."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        text = label(name) or "(empty)"
        seen[text] = seen.get(text, 0) + 1
        found.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return found


def points(value: float | None, sign: bool = True) -> str:
    """Return a part of the gap in points, hundredths of the score."""
    if value is None:
        return "–"
    return f"{100 * value:+.2f}" if sign else f"{100 * value:g}"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def percent(value: float | None, digits: int = 0) -> str:
    """Return a share as a percentage, or a dash where there is none."""
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def interval(low: float | None, high: float | None, shown: Any = number) -> str:
    """Return the ends of an interval in words."""
    if low is None and high is None:
        return "no interval"
    return f"{shown(low)} to {'no limit' if high is None else shown(high)}"


def groups(comparison: dict[str, Any]) -> tuple[str, str]:
    """Return the names of both groups with their roles."""
    return f"{label(comparison['audited'], 40)} (audited)", f"{label(comparison['reference'], 40)} (reference)"


def versus(comparison: dict[str, Any]) -> str:
    """Return who is compared with whom."""
    return f"{label(comparison['audited'], 40)} (audited) against {label(comparison['reference'], 40)} (reference)"


def strongest(count: int, shown: int, what: str = "features") -> str:
    """Return how many are shown, where not all are."""
    return f"the {shown} strongest of {count} {what}" if count > shown else ""


def joined(parts: Sequence[str]) -> str:
    """Return the parts that say something, as one line."""
    return "; ".join(part for part in parts if part)
