"""Suppress numbers about few people, so that none is shown and none can be worked out by subtraction."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.limits import SUPPRESSED_BELOW

Counts = int | NDArray[np.integer]


def withheld(counts: Integers) -> Booleans:
    """Return which counts are suppressed: those from 1 to 9, and neighbours that prevent working these out.

    The total is public, so the sum of the suppressed counts is known. If m small counts sum to between m + 8 and
    9m − 8, each could be any number from 1 to 9. Otherwise the nearest larger counts are suppressed too, one or two,
    until the sum is at least m + 18. They are chosen by position, because a choice by size would reveal their size.
    A reader who knows this rule and all that is shown can rule out at most one of the values from 1 to 9 of a small
    count; if nothing is shown, only the values that the total rules out.
    """
    counts = np.asarray(counts)
    hidden = (counts > 0) & (counts < SUPPRESSED_BELOW)
    small = int(hidden.sum())
    if not small or leaves_free(counts[hidden]):
        return hidden
    # By position, never by size: a choice by size would bound the counts that it hides.
    others = np.flatnonzero(counts >= SUPPRESSED_BELOW)
    distance = np.abs(others - np.flatnonzero(hidden)[0])
    for other in others[np.lexsort((-others, distance))].tolist():
        hidden[other] = True
        if int(counts[hidden].sum()) >= small + 2 * SUPPRESSED_BELOW - 2:
            break
    return hidden


def leaves_free(small: Integers) -> bool:
    """Return whether the sum of these counts, each from 1 to 9, leaves each of them any value from 1 to 9."""
    number, largest = len(small), SUPPRESSED_BELOW - 1
    return number + largest - 1 <= int(np.sum(small)) <= largest * number - largest + 1


def disclosed_rows(rows: dict[str, int], too_small: Collection[int]) -> dict[str, int | None]:
    """Return the row counts that the summary shows; rows used and left out add up to the rows read.

    Rows of groups too small to compare are shown if their sum leaves the size of each group open. Otherwise they are
    None and subtracted from `read`, from which they could be worked out.
    """
    if not too_small or leaves_free(np.array(list(too_small))):
        return dict(rows)
    return rows | {"read": rows["read"] - rows["too_small_group"], "too_small_group": None}


def part_of_group(share: float, people: int, of_all: int) -> str:
    """Return a share of a group in words that reveal a count below ten neither of these people nor of the others."""
    if people < SUPPRESSED_BELOW:
        return "fewer than ten people"
    return "all but fewer than ten people" if of_all - people < SUPPRESSED_BELOW else f"{100 * share:.1f}%"


def may_show(below: Counts, here: Counts, above: Counts) -> Any:
    """Return whether a quantile identifies nobody: ten people have it, or ten lie strictly below and ten above.

    People are counted, not weights: one person with a very large weight could be the quantile.
    """
    return (here >= SUPPRESSED_BELOW) | ((below >= SUPPRESSED_BELOW) & (above >= SUPPRESSED_BELOW))
