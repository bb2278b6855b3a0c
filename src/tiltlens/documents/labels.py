"""Text for figures: names from data, made safe to draw and to be told apart, and phrases about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tiltlens.documents.measures import Result, group_of, is_favourable_mean, measure_of
from tiltlens.formats import label
from tiltlens.results.change import GroupChange
from tiltlens.results.comparison import Comparison
from tiltlens.rows.wording import WORDING

SHORT = 40  # letters of a name in a sentence
GROUP = 26  # letters of a group, beside its role
DRAWN = 28  # letters beside a row of a figure
Compared = Comparison | GroupChange


class Pair(Protocol):
    """Anything about an audited group and a reference."""

    @property
    def audited(self) -> str | None:
        """Its name."""

    @property
    def reference(self) -> str:
        """Its name."""


def labels(names: Iterable[str], longest: int = DRAWN) -> list[str]:
    """Return names that can be drawn and told apart."""
    texts = [label(name, longest) or "(empty)" for name in names]
    used, taken = {_seen(text) for text in texts}, set[str]()  # a number must not make what another name is already
    distinct = []
    for text in texts:
        candidate, count = text, 1
        while _seen(candidate) in taken or (count > 1 and _seen(candidate) in used):
            count += 1
            candidate = f"{text} ({count})"
        taken.add(_seen(candidate))
        distinct.append(candidate)
    return distinct


def _seen(text: str) -> str:
    """Return what a reader sees: a page joins spaces."""
    return " ".join(text.split())


def groups(pair: Pair) -> tuple[str, str]:
    """Return the names of both groups with their roles."""
    return f"{label(pair.audited, GROUP)} (audited)", f"{label(pair.reference, GROUP)} (reference)"


def versus(pair: Pair) -> str:
    """Return who is compared with whom."""
    return " vs ".join(groups(pair))


def has_noun(result: Result) -> bool:
    """Return whether the user said what people are called."""
    return measure_of(result).people != WORDING.people


def group_words(c: Compared, role: str) -> str:
    """Return a group as a sentence names it: "Black applicants", or its name alone where people have no noun."""
    name, people = label(group_of(c, role), SHORT), measure_of(c).people
    if not has_noun(c) or name.casefold() == people.casefold():
        return name
    is_adjective = name[:1].isalpha() and "=" not in name
    return f"{name} {people}" if is_adjective else f"{people} ({name})"


def strongest(count: int, shown: int, what: str = "features") -> str:
    """Return how many are shown, where not all are."""
    return f"the {shown} strongest of {count} {what}" if count > shown else ""


def disadvantage_sign(c: Compared) -> int:
    """Return 1 where a positive gap puts the audited group at a disadvantage, −1 where a negative one does."""
    if isinstance(c, Comparison):
        if c.shortfall and measure_of(c).is_amount:  # low amounts may be favourable, such as prices
            return 1 if c.shortfall.value * c.gap.value > 0 else -1
        return -1 if is_favourable_mean(c) else 1
    gap, audited, reference = (c.old[key] for key in ("gap", "audited_rate", "reference_rate"))
    if gap is None or audited is None or reference is None:
        return -1
    return 1 if gap * (audited - reference) < 0.0 else -1  # rates are favourable ones


def disadvantage_words(c: Compared) -> tuple[str, str]:
    """Return what an axis of differences says of its direction, and at which end."""
    words = f"disadvantage of {group_words(c, 'audited')}"
    return (f"{words} →", "end") if disadvantage_sign(c) > 0 else (f"← {words}", "start")
