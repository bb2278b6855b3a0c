"""What is said of few people: nothing that could tell who they are, nor let it be worked out by subtraction."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.limits import SUPPRESSED_BELOW

Counts = int | NDArray[np.integer]


def withheld(counts: Integers) -> Booleans:
    """Return which counts are kept back: those from 1 to 9, and neighbours that keep these from being worked out.

    The total is known, so what is withheld has a known sum. Alone, m small counts are free where that sum is from
    m + 8 to 9m − 8: each could be anything from 1 to 9. Otherwise their nearest neighbours with people go too, one or
    two, until the sum is at least m + 18. Neighbours are chosen by place: a choice by size would tell how large they
    are. A reader who knows this rule and all that is shown can rule out at most one of the values from 1 to 9 of a
    small count; where nothing is shown, only what the total rules out.
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
    """Return whether the sum of these counts, each from 1 to 9, tells nothing of any of them."""
    number, largest = len(small), SUPPRESSED_BELOW - 1
    return number + largest - 1 <= int(np.sum(small)) <= largest * number - largest + 1


def disclosed_rows(rows: dict[str, int], too_small: Collection[int]) -> dict[str, int | None]:
    """Return where the rows went, as the summary tells it: what was used and left out adds up to what was read.

    Rows of groups too small to be compared are told where their sum leaves the size of each free. Otherwise they are
    None and not among those read: what is left when all else is taken from `read` would be them.
    """
    if not too_small or leaves_free(np.array(list(too_small))):
        return dict(rows)
    return rows | {"read": rows["read"] - rows["too_small_group"], "too_small_group": None}


def part_of_group(share: float, people: int, of_all: int) -> str:
    """Return a share of a group in words that tell no count below ten, nor that of the others."""
    if people < SUPPRESSED_BELOW:
        return "fewer than ten people"
    return "all but fewer than ten people" if of_all - people < SUPPRESSED_BELOW else f"{100 * share:.1f} %"


def may_show(below: Counts, here: Counts, above: Counts) -> Any:
    """Return whether a quantile picks nobody out: ten people have it, or ten lie strictly below and ten above.

    People are counted, not weights: of one who weighs as much as a hundred, the quantile would be the value.
    """
    return (here >= SUPPRESSED_BELOW) | ((below >= SUPPRESSED_BELOW) & (above >= SUPPRESSED_BELOW))
