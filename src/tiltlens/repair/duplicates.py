"""Exact duplicates, by hash: rows that repeat another one, and held-out rows that were audited."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Integers
from tiltlens.learners.design import Table
from tiltlens.paper.checks import Floats
from tiltlens.repair.additive import category_levels, feature_table
from tiltlens.repair.tabular_model import CategoryLevels
from tiltlens.rows.features import Feature
from tiltlens.rows.levels import numbers_of
from tiltlens.sources.hashing import Hashes, row_hashes
from tiltlens.sources.messages import shown

MIXED_DUPLICATES = 0.1  # of the disagreement of different people: with more, rows with equal features are no duplicates
MORE_ALIKE = 2.0  # times as many matches with audited rows as expected by chance: these people were audited


def duplicate_clusters(table: Table, group: Integers, outcome: Integers | None) -> Integers | None:
    """Return a cluster for all rows with equal features, or None where there are none, or they are different people.

    Duplicates agree in group and outcome. Different people with equal features often disagree: two of them with the
    probability 1 − Σπ², π being the shares of the labels, unless the features determine the labels.
    """
    if not table:
        return None
    _, cells, sizes = np.unique(row_hashes(table), return_inverse=True, return_counts=True)
    if sizes.max() == 1:
        return None
    labels = group if outcome is None else group * (int(outcome.max()) + 1) + outcome
    shares = np.bincount(labels) / labels.size
    labels_of_cells = np.bincount(np.unique(cells * shares.size + labels) // shares.size)
    is_mixed = labels_of_cells[sizes > 1] > 1
    return None if is_mixed.mean() > MIXED_DUPLICATES * (1.0 - shares @ shares) else cells


def count_duplicates(clusters: Integers) -> int:
    """Return how many rows repeat another one of their cluster."""
    return int(clusters.size - np.unique(clusters).size)


@dataclass(frozen=True, slots=True, eq=False)
class AuditedRowIndex:
    """Hashes of audited rows (features, scores and group), one for each person, and the hashed features.

    Features that are categories have their levels, numbers None.
    """

    features: Mapping[str, CategoryLevels | None]
    hashes: Hashes

    @classmethod
    def of(
        cls, features: Sequence[Feature], scores: Floats, group: Integers, clusters: Integers | None
    ) -> AuditedRowIndex:
        """Return the index of audited rows."""
        used = [feature for feature in features if feature.in_membership]
        table, levels = feature_table(used), category_levels(used)
        return cls({name: levels.get(name) for name in table}, _hash_people(table, scores, group, clusters))

    @classmethod
    def empty(cls) -> AuditedRowIndex:
        """Return an index of no rows."""
        return cls({}, np.empty(0, dtype=np.uint64))

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> AuditedRowIndex:
        """Return the index that `to_dict` wrote."""
        features = {n: None if own is None else CategoryLevels.from_dict(own) for n, own in saved["features"].items()}
        return cls(features, np.frombuffer(b64decode(saved["hashes"]), dtype=np.uint64))

    def to_dict(self) -> dict[str, Any]:
        """Return the features and the hashes as texts."""
        features = {name: None if own is None else own.to_dict() for name, own in self.features.items()}
        return {"features": features, "hashes": b64encode(self.hashes.tobytes()).decode()}

    def check(
        self,
        frame: pl.DataFrame,
        scores: Floats,
        group: Integers,
        outcome: Integers | None,
        clusters: Integers | None,
    ) -> list[str]:
        """Raise where rows of a clean frame were audited; return notes on rows that equal others."""
        for name, levels in self.features.items():
            if name not in frame.columns or (levels is None and frame[name].dtype == pl.String):
                return [f"whether rows were audited cannot be checked without the column {shown(name)}"]
        table = {
            name: numbers_of(frame[name]) if levels is None else levels.codes(frame[name])
            for name, levels in self.features.items()
        }
        notes = []
        if clusters is None:
            clusters = duplicate_clusters(table, group, outcome)
            if clusters is not None:
                notes.append(
                    f"{count_duplicates(clusters):,} rows equal another one in every feature and count as separate "
                    "people. If they are not, pass `clusters`; otherwise intervals are too narrow"
                )
        return notes + check_not_audited(_hash_people(table, scores, group, clusters), self.hashes)


def _hash_people(table: Table, scores: Floats, group: Integers, clusters: Integers | None) -> Hashes:
    """Return the hash of each row; equal rows of one cluster count once."""
    columns = {"\0score": scores} if scores.ndim == 1 else {f"\0score{y}": column for y, column in enumerate(scores.T)}
    columns = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    hashes = row_hashes({**table, **columns, "\0group": group.astype(np.float64)})
    if clusters is None:
        return hashes
    order = np.lexsort((hashes, clusters))
    hashes, clusters = hashes[order], clusters[order]
    is_first = np.ones(hashes.size, dtype=np.bool_)
    is_first[1:] = (hashes[1:] != hashes[:-1]) | (clusters[1:] != clusters[:-1])
    return hashes[is_first]


def check_not_audited(hashes: Hashes, audited: Hashes) -> list[str]:
    """Raise where people were audited; return a note where some equal audited ones, as others may by chance.

    By chance as many would, in proportion, as audited people equal another one; a pair more may have been missed.
    """
    matches = int(np.isin(hashes, audited).sum())
    _, counts = np.unique(audited, return_counts=True)
    expected = hashes.size * (float(counts[counts > 1].sum()) + 2.0) / max(audited.size, 1)
    if matches > MORE_ALIKE * expected + 3.0 * math.sqrt(expected):
        raise DataError(
            f"{matches:,} rows of `held_out` were used in the audit.",
            "use rows that were not; otherwise the cost is understated.",
        )
    rows = "1 row equals an audited one" if matches == 1 else f"{matches:,} rows equal audited ones"
    return [f"{rows}: they may be the same people"] if matches else []
