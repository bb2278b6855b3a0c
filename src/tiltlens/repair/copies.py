"""Rows that were seen before, and rows that repeat another: by chance, or because they are one person's."""

from __future__ import annotations

import math

import numpy as np

from tiltlens.engines.hashing import Hashes
from tiltlens.errors import DataError
from tiltlens.estimators.influence import Integers
from tiltlens.limits import CONTINUOUS, MORE_ALIKE
from tiltlens.paper.checks import Floats


def copies_of(hashes: Hashes, most_values: int) -> tuple[Integers, int]:
    """Return a number for each distinct row, and how many rows repeat another; none where chance may make them equal.

    `most_values` are the distinct values of the column that has most: where these are few, people are alike by chance.
    """
    distinct, own = np.unique(hashes, return_inverse=True)
    return own, own.size - distinct.size if most_values > CONTINUOUS * distinct.size else 0


def seen_notes(hashes: Hashes, seen: Hashes) -> list[str]:
    """Raise where rows were audited; else return a note where some equal audited ones, as other people's may.

    Of other people as many would, in proportion, as audited rows equal another audited one.
    """
    again = int(np.isin(hashes, seen).sum())
    _, counts = np.unique(seen, return_counts=True)
    alike = hashes.size * float(counts[counts > 1].sum()) / max(seen.size, 1)
    if again > MORE_ALIKE * alike + 3.0 * math.sqrt(alike):
        raise DataError(
            f"`holdout` must hold rows that nothing was fitted on, got {again} that were audited.",
            "a bill of the rows of the fit is too small.",
        )
    return [f"{again} rows equal audited ones: they may be the same people"] if again else []


def repeated_notes(hashes: Hashes, scores: Floats) -> list[str]:
    """Return a note where rows of a hold-out repeat another one by no accident."""
    copies = copies_of(hashes, np.unique(scores).size)[1]
    note = f"{copies:,} rows equal another one: if these are one person's, name `clusters`, or intervals are too narrow"
    return [note] if copies else []
