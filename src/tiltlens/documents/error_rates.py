"""Error rates in words: what they are called, the lines of their table, and what they do not show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tiltlens.formats import Shown, count, label, percent, points, short_number, signed
from tiltlens.rows.measures import CRITERIA, WHOSE, criterion_of

NAMES = {
    **CRITERIA,
    "calibration": "outcome less {output}, in points",
    "auc": "area under the curve",
}
OF_DECISIONS = {"fpr": "how often they get decision 1", "fnr": "how often they get decision 0"}
OF_SCORES = {"fpr": "their mean score", "fnr": "1 less their mean score"}
MEANINGS = {
    "calibration": "above 0 where the outcome is more frequent than the {output}s say",
    "auc": "how often, of two people, the one with the outcome has the higher {output}",
}
SIGNS = (
    "Differences are audited less reference: above 0, the audited group is more often wrongly given 1 (false "
    "positives) or 0 (false negatives)."
)
DOES_NOT_SHOW = (
    "Error rates also differ where the outcome is not equally frequent in both groups, even of scores that mean the "
    "same in both. Where outcomes are known only of people who were accepted, these are errors among them alone."
)


class RateLine(NamedTuple):
    """An error rate as a table has it: its name and meaning, its estimates, and how a value and a difference look."""

    name: str
    meaning: str
    found: dict[str, Any] | None
    reason: str
    shown: Shown
    difference: Shown


def rate_lines(c: dict[str, Any], is_decisions: bool) -> Iterator[RateLine]:
    """Yield the lines of the table."""
    found = c["error_rates"]
    for key, name in NAMES.items():
        shown, difference = (percent, points) if key in WHOSE else (points, points)
        shown, difference = (short_number, auc_difference) if key == "auc" else (shown, difference)
        name = name.format(output="decision" if is_decisions else "score")
        yield RateLine(name, meaning(key, is_decisions), found[key], found["reasons"].get(key, ""), shown, difference)


def auc_difference(value: float | None) -> str:
    """Return a difference of areas under the curve: it is no rate, and has no points."""
    return signed(value, 3)


def meaning(key: str, is_decisions: bool) -> str:
    """Return what an error rate is of decisions, or of scores."""
    if key in WHOSE:
        return f"of {WHOSE[key]}, {(OF_DECISIONS if is_decisions else OF_SCORES)[key]}"
    return MEANINGS[key].format(output="decision" if is_decisions else "score")


def people_words(c: dict[str, Any]) -> str:
    """Return how many people of each group are without and with the outcome."""
    parts = ["expected by chances"] if c["soft_group"] else []
    for group in ("audited", "reference"):
        found = c["error_rates"]["people"][group]
        parts.append(f"{group}: {_counted(found['without'])} without, {_counted(found['with'])} with the outcome")
        parts[-1] += f", {count(found['unknown'])} unknown" if found["unknown"] else ""
    return "; ".join(parts)


def _counted(people: int | None) -> str:
    return "a withheld number" if people is None else count(people)


def criterion_words(summary: dict[str, Any], is_decisions: bool) -> str:
    """Return what was audited instead of the scores of all."""
    key, column = criterion_of(summary) or "", label(summary["provenance"]["question"]["outcome"])
    return (
        f"What is compared is the {NAMES[key]}: {meaning(key, is_decisions)} (outcome: {column}). It is of them alone. "
        f"{DOES_NOT_SHOW}"
    )
