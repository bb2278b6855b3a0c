"""Why rows are left out of a comparison, in words."""

from __future__ import annotations

from collections.abc import Mapping

from tiltlens.formats import label

NOT_GIVEN = "not_given_"  # before the column of a condition
REASONS = {
    "missing_score": "without a score",
    "zero_weight": "with weight 0",
    "missing_outcome": "without an observed outcome",
    "other_outcome": "with the other outcome",
    "other_decision": "with the other decision",
    "missing_group": "without a group",
    "too_small_group": "of groups of fewer than 10 people",
    "group_not_audited": "of groups that are not compared",
}


def reason_words(reason: str) -> str:
    """Return what the rows are that were left out for a reason: "without a score"."""
    if reason.startswith(NOT_GIVEN):
        return f"outside the condition on {label(reason.removeprefix(NOT_GIVEN))}"
    return REASONS.get(reason, reason.replace("_", " "))


def exclusion_words(sizes: Mapping[str, int | None]) -> str:
    """Return how many rows were left out for which reason; sizes that are not published have no number."""
    parts = ((size, reason_words(reason)) for reason, size in sizes.items() if size != 0)
    return ", ".join(f"{'rows' if size is None else f'{size:,}'} {words}" for size, words in parts)
