"""Rows that were seen before, and rows that repeat another: by chance, or because they are one person's."""

from __future__ import annotations

import math

import numpy as np

from tiltlens.engines.hashing import Hashes
from tiltlens.errors import DataError
from tiltlens.estimators.influence import Integers
from tiltlens.limits import CONTINUOUS, EQUAL_SCORES, FEWEST_ALIKE, MORE_ALIKE
from tiltlens.models.design import Table


def copies_of(table: Table, hashes: Hashes) -> tuple[Integers, int]:
    """Return a number for each distinct row, and how many rows repeat another; none where chance may make them equal.

    People are alike by chance where no feature has nearly as many values as there are distinct rows.
    """
    distinct, own = np.unique(hashes, return_inverse=True)
    is_continuous = any(np.unique(values).size > CONTINUOUS * distinct.size for values in table.values())
    return own, own.size - distinct.size if is_continuous else 0


def seen_notes(hashes: Hashes, seen: Hashes, has_features: bool) -> list[str]:
    """Raise where rows were audited; else return a note where some equal audited ones, as other people's may.

    Of other people as many would, in proportion, as audited rows equal another audited one; and some by chance, where
    rows are known by their scores and groups alone, without features.
    """
    again = int(np.isin(hashes, seen).sum())
    _, counts = np.unique(seen, return_counts=True)
    alike = hashes.size * float(counts[counts > 1].sum()) / max(seen.size, 1)
    by_chance = 0.0 if has_features else FEWEST_ALIKE + EQUAL_SCORES * hashes.size * seen.size
    if again > MORE_ALIKE * alike + 3.0 * math.sqrt(alike) + by_chance:
        raise DataError(
            f"`holdout` must hold rows that nothing was fitted on, got {again} that were audited.",
            "a bill of the rows of the fit is too small.",
        )
    return [f"{again} rows equal audited ones: they may be the same people"] if again else []


def repeated_notes(table: Table, hashes: Hashes) -> list[str]:
    """Return a note where rows of a hold-out repeat another one by no accident."""
    copies = copies_of(table, hashes)[1]
    note = f"{copies:,} rows equal another one: if these are one person's, name `clusters`, or intervals are too narrow"
    return [note] if copies else []
