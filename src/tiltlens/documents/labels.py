"""Text for figures: names from data, made safe to draw and to be told apart, and phrases about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tiltlens.formats import label
from tiltlens.rows.measures import is_favourable_mean, measure_of
from tiltlens.rows.wording import WORDING

SHORT = 40  # letters of a name in a sentence
GROUP = 26  # letters of a group, beside its role
DRAWN = 28  # letters beside a row of a figure


def labels(names: Iterable[Any], longest: int = DRAWN) -> list[str]:
    """Return names that can be drawn and told apart."""
    texts = [label(name, longest) or "(empty)" for name in names]
    used, taken = {_seen(text) for text in texts}, set[str]()  # a number must not make what another name is already
    found = []
    for text in texts:
        candidate, count = text, 1
        while _seen(candidate) in taken or (count > 1 and _seen(candidate) in used):
            count += 1
            candidate = f"{text} ({count})"
        taken.add(_seen(candidate))
        found.append(candidate)
    return found


def _seen(text: str) -> str:
    """Return what a reader sees: a page joins spaces."""
    return " ".join(text.split())


def groups(comparison: dict[str, Any]) -> tuple[str, str]:
    """Return the names of both groups with their roles."""
    return f"{label(comparison['audited'], GROUP)} (audited)", f"{label(comparison['reference'], GROUP)} (reference)"


def has_noun(comparison: dict[str, Any]) -> bool:
    """Return whether the user said what people are called."""
    return measure_of(comparison).people != WORDING.people


def group_words(comparison: dict[str, Any], role: str) -> str:
    """Return a group as a sentence names it: "Black applicants", or its name alone where people have no noun."""
    name, people = label(comparison[role], SHORT), measure_of(comparison).people
    if not has_noun(comparison) or name.casefold() == people.casefold():
        return name
    is_adjective = name[:1].isalpha() and "=" not in name
    return f"{name} {people}" if is_adjective else f"{people} ({name})"


def versus(comparison: dict[str, Any]) -> str:
    """Return who is compared with whom."""
    return f"{label(comparison['audited'], GROUP)} (audited) vs {label(comparison['reference'], GROUP)} (reference)"


def strongest(count: int, shown: int, what: str = "features") -> str:
    """Return how many are shown, where not all are."""
    return f"the {shown} strongest of {count} {what}" if count > shown else ""


def disadvantage_sign(summary: dict[str, Any]) -> int:
    """Return 1 where a positive gap puts the audited group at a disadvantage, −1 where a negative one does."""
    if "outputs" in summary or not summary.get("old"):
        return -1 if is_favourable_mean(summary) else 1
    values: list[Any] = [
        (summary["old"].get(key) or {}).get("value") for key in ("gap", "audited_rate", "reference_rate")
    ]
    if None in values:
        return -1
    gap, audited, reference = values
    return 1 if gap * (audited - reference) < 0.0 else -1  # rates are favourable ones


def disadvantage_words(summary: dict[str, Any]) -> tuple[str, str]:
    """Return what an axis of differences says of its direction, and at which end."""
    words = f"disadvantage of {group_words(summary, 'audited')}"
    return (f"{words} →", "end") if disadvantage_sign(summary) > 0 else (f"← {words}", "start")
