"""Text for figures: names from data made safe to draw, and numbers made readable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tiltmeter.views.formats import LONGEST, label

GROUP = 24


def labels(names: Iterable[Any], longest: int = LONGEST) -> list[str]:
    """Return names that can be drawn and told apart."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        text = label(name, longest) or "(empty)"
        seen[text] = seen.get(text, 0) + 1
        found.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return found


def points(value: float | None, sign: bool = True) -> str:
    """Return a part of the gap in points, hundredths of the score."""
    if value is None:
        return "–"
    return (f"{100 * value:+.2f}" if sign else f"{100 * value:g}").replace("-", "−")


def number(value: float | None, digits: int = 3) -> str:
    """Return a number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


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
    return f"{label(comparison['audited'], GROUP)} (audited)", f"{label(comparison['reference'], GROUP)} (reference)"


def versus(comparison: dict[str, Any]) -> str:
    """Return who is compared with whom."""
    return (
        f"{label(comparison['audited'], GROUP)} (audited) against {label(comparison['reference'], GROUP)} (reference)"
    )


def strongest(count: int, shown: int, what: str = "features") -> str:
    """Return how many are shown, where not all are."""
    return f"the {shown} strongest of {count} {what}" if count > shown else ""


def joined(parts: Sequence[str]) -> str:
    """Return the parts that say something, as one line."""
    return "; ".join(part for part in parts if part)
