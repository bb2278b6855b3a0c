"""Rows that were seen before, and rows that repeat another: by chance, or because they are one person's."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.special import gammaincinv

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Integers
from tiltlens.learners.design import Table
from tiltlens.limits import CONTINUOUS, EQUAL_SCORES, FEWEST_ALIKE, MORE_ALIKE, MOST_TOLD, SURE_COPIES
from tiltlens.paper.checks import Floats
from tiltlens.repair.coded import Texts
from tiltlens.rows.features import Feature
from tiltlens.rows.levels import numbers_of
from tiltlens.sources.hashing import Hashes, row_hashes

HASHED = ("rows", "alone", "unscored")
NONE: Hashes = np.empty(0, dtype=np.uint64)


def copies_of(
    table: Table, hashes: Hashes, group: Integers | None = None, outcome: Integers | None = None
) -> tuple[Integers, int]:
    """Return a number for each person, and how many rows repeat another's; none where chance may make them equal.

    Rows that are equal by their `hashes`, which are of the table alone, are copies where one feature has nearly as many
    values as there are distinct rows, unless they differ in their `group` as people who are alike do. Where no feature
    has, they are copies if they agree in group and outcome: of people who are alike by chance some differ; and if every
    row, group and outcome included, is there twice, or three times as often as it would be, and so on.
    """
    cells, own = np.unique(hashes, return_inverse=True)
    if is_continuous(table, cells.size):
        differ, expected = (0.0, 0.0) if group is None else _differing(own, group)
        is_chance = differ > (1.0 - MOST_TOLD) * expected
        return own, 0 if is_chance else own.size - cells.size
    if group is None:
        return own, 0
    labels = group if outcome is None else group * (int(outcome.max()) + 1) + outcome
    _, alike, counts = np.unique(own * (int(labels.max()) + 1) + labels, return_inverse=True, return_counts=True)
    times = int(np.gcd.reduce(counts))
    if times > 1 and 0.5**counts.size < 1.0 - SURE_COPIES:  # by chance half of the counts are odd
        order = np.argsort(alike, kind="stable")
        own[order] = np.arange(own.size) // times
        return own, own.size - own.size // times
    differ, expected = _differing(own, labels)
    is_chance = bool(gammaincinv(differ + 1.0, SURE_COPIES) >= (1.0 - MOST_TOLD) * expected)
    return (own, 0) if is_chance else (alike, alike.size - counts.size)


def is_continuous(table: Table, distinct: int) -> bool:
    """Return whether a feature has nearly as many values as there are distinct rows: no two people are then alike."""
    return any(np.unique(values).size > CONTINUOUS * distinct for values in table.values())


def _differing(cell: Integers, labels: Integers) -> tuple[float, float]:
    """Return in how many cells two of their rows differ in their labels, on average, and in how many people would.

    With π the labels' shares, two people differ with the chance 1 − Σπ² if features tell nothing of their labels, and
    with at least a part of it, 1 − `MOST_TOLD`, if features tell no more than that of the labels' variance.
    """
    often = np.bincount(cell)[cell] > 1
    if not often.any():
        return 0.0, 0.0
    _, cell = np.unique(cell[often], return_inverse=True)
    label, m = labels[often], np.bincount(cell)
    shares = np.bincount(label, 1.0 / m[cell]) / m.size
    kinds, n = np.unique(cell * shares.size + label, return_counts=True)
    of = m[kinds // shares.size]
    agree = float((n * (n - 1.0) / (of * (of - 1.0))).sum())
    return m.size - agree, m.size * (1.0 - float(shares @ shares))


class Seen(NamedTuple):
    """Hashes by which audited rows are known again: of features, scores and groups; and without the features.

    `features` are those that were hashed, with the levels of those that are texts. `unscored` are of features and
    groups, where features tell people apart: the same people may have been scored anew, or have rounded scores.
    """

    features: Mapping[str, Texts | None]
    rows: Hashes
    alone: Hashes
    unscored: Hashes = NONE

    @classmethod
    def of(
        cls,
        features: Sequence[Feature],
        scores: Floats,
        place: Integers,
        outcome: Integers | None,
        clusters: Integers | None,
    ) -> Seen:
        """Return the hashes of audited rows, copies of one as one; `place` are numbers of groups."""
        used = [one for one in features if one.in_membership]
        table = {one.name: one.codes if one.values is None else one.values for one in used}
        texts = {one.name: Texts.of(one) if one.values is None else None for one in used}
        rows, alone = (hashed_rows(columns, scores, place) for columns in (table, {}))
        people = _people(table, scores, (place, outcome), clusters, rows)
        tells = bool(table) and is_continuous(table, people.size)
        return cls(texts, rows[people], alone[people], hashed_rows(table, None, place)[people] if tells else NONE)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Seen:
        """Return what `to_dict` wrote."""
        texts = {name: None if one is None else Texts.from_dict(one) for name, one in found["features"].items()}
        return cls(texts, *(decoded(found.get(name, "")) for name in HASHED))

    def to_dict(self) -> dict[str, Any]:
        """Return the hashes as texts, and the features that they are of."""
        texts = {name: None if one is None else one.to_dict() for name, one in self.features.items()}
        return {"features": texts} | {name: b64encode(getattr(self, name).tobytes()).decode() for name in HASHED}

    def notes(
        self,
        frame: pl.DataFrame,
        scores: Floats,
        place: Integers,
        outcome: Integers | None,
        clusters: Integers | None,
    ) -> list[str]:
        """Raise where rows of a clean frame were audited; else return notes on those that equal others."""
        has_features = all(
            name in frame.columns and (texts is not None or frame[name].dtype != pl.String)
            for name, texts in self.features.items()
        )
        texts = self.features if has_features else {}
        table = {
            name: numbers_of(frame[name]) if one is None else one.codes(frame[name]) for name, one in texts.items()
        }
        hashes = hashed_rows(table, scores, place)
        people = _people(table, scores, (place, outcome), clusters, hashes)
        sure = bool(table) and is_continuous(table, people.size)
        found = seen_notes(hashes[people], self.rows if has_features else self.alone, bool(table), sure)
        if sure:
            seen_notes(hashed_rows(table, None, place)[people], self.unscored, True, False)
        if table and is_continuous(score_columns(scores), people.size):  # features may have been rounded
            seen_notes(hashed_rows({}, scores, place)[people], self.alone, False, is_sure=False)
        if clusters is not None or people.size == hashes.size:
            return found
        return [*found, _repeated(hashes.size - people.size)]


def decoded(text: str) -> Hashes:
    """Return hashes that were written as a text."""
    return np.frombuffer(b64decode(text), dtype=np.uint64)


def score_columns(scores: Floats) -> dict[str, Floats]:
    """Return scores as columns of a table, under names that no feature has."""
    columns = {"": scores} if scores.ndim == 1 else {str(y): one for y, one in enumerate(scores.T)}
    return {f"\0score{name}": np.ascontiguousarray(one) for name, one in columns.items()}


def hashed_rows(table: Table, scores: Floats | None, place: Integers) -> Hashes:
    """Return a hash of what each row holds: features, scores where they count, and the place of its group."""
    of_scores = {} if scores is None else score_columns(scores)
    return row_hashes({**table, **of_scores, "\0audited": place.astype(np.float64)})


def _people(
    table: Table,
    scores: Floats,
    labels: tuple[Integers, Integers | None],
    clusters: Integers | None,
    hashes: Hashes,
) -> Integers:
    """Return the first row of each person: rows that are copies, or equal ones of one cluster, count once."""
    if clusters is None:
        own, copies = copies_of(table, row_hashes({**table, **score_columns(scores)}), *labels)
        return np.unique(own, return_index=True)[1] if copies else np.arange(own.size)
    return np.unique(np.column_stack([clusters.astype(np.uint64), hashes]), axis=0, return_index=True)[1]


def seen_notes(hashes: Hashes, seen: Hashes, has_features: bool, is_sure: bool = True) -> list[str]:
    """Raise where people were audited; else return a note where some equal audited ones, as others may by chance.

    Of other people as many would, in proportion, as audited people equal another audited one, of whom a pair more may
    have been missed, unless features surely tell people apart. Without features scores and groups alone may agree.
    """
    again = int(np.isin(hashes, seen).sum())
    _, counts = np.unique(seen, return_counts=True)
    pairs = float(counts[counts > 1].sum()) + (0.0 if is_sure else 2.0)
    alike = hashes.size * pairs / max(seen.size, 1)
    by_chance = 0.0 if has_features else FEWEST_ALIKE + EQUAL_SCORES * hashes.size * seen.size
    if again > MORE_ALIKE * alike + 3.0 * math.sqrt(alike) + by_chance:
        raise DataError(
            f"`holdout` must hold rows that nothing was fitted on, got {again} that were audited.",
            "a bill of the rows of the fit is too small.",
        )
    rows = "1 row equals an audited one" if again == 1 else f"{again:,} rows equal audited ones"
    return [f"{rows}: they may be the same people"] if again else []


def _repeated(copies: int) -> str:
    return f"{copies:,} rows equal another one: if these are one person's, name `clusters`, or intervals are too narrow"
