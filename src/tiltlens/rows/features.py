"""Columns as features: codes of readable levels, numbers where there are any, and notes on what was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.limits import LARGEST
from tiltlens.paper.checks import Floats
from tiltlens.rows.levels import MISSING, OTHER, Kind, Levels, feature_levels, numbers_of, readable
from tiltlens.rows.roles import GROUP
from tiltlens.rows.value_counts import exact_counts
from tiltlens.sources.messages import listed, shown
from tiltlens.threads import in_threads

DesignColumn: TypeAlias = NDArray[Any]  # what a model learns from: numbers, NaN where missing, or codes of levels
FEWEST_AUDITED = 5  # audited rows of a level in each fold; singletons vanish from the leave-one-out sums
FIRST_LOOK = 2_000  # rows that usually show that the groups share the values of a feature
MOST_TURNS = 4  # of the groups along the values of a feature, for it to be bands of them


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """One feature: `codes` index `labels`; `values` are its numbers, NaN where missing, if it has any.

    `is_ordered` says that neighbouring codes are neighbours in meaning; `is_group` that the feature is the group
    itself or a one-to-one recoding of it; `levels` how other rows become codes.
    """

    name: str
    kind: Kind
    codes: Integers
    labels: tuple[str, ...]
    values: Floats | None = None
    notes: tuple[str, ...] = ()
    is_ordered: bool = False
    is_group: bool = False
    levels: Levels | None = None

    @property
    def in_membership(self) -> bool:
        """Return whether a membership model may learn from the feature."""
        return self.kind not in ("constant", "identifier") and not self.is_group

    @property
    def is_binned(self) -> bool:
        """Return whether its levels are bins of numbers, made for pictures."""
        return self.levels is not None and self.levels.is_binned

    def rows(self, index: Integers) -> Feature:
        """Return the feature on some of the rows."""
        return replace(self, codes=self.codes[index], values=None if self.values is None else self.values[index])


def feature_of(levels: Levels, column: pl.Series) -> Feature:
    """Return a clean column as a feature of these levels."""
    values = numbers_of(column) if levels.has_numbers else None
    largest = 0.0 if values is None else float(np.nanmax(np.abs(values), initial=0.0))
    if largest > LARGEST or 0.0 < largest < 1.0 / LARGEST:  # squares would be infinite, or 0
        raise DataError(
            f"Column {shown(levels.name)} has values up to {largest:g}, outside {1 / LARGEST:g} to {LARGEST:g}.",
            "rescale it, or leave it out with `exclude` (--exclude).",
        )
    return Feature(
        name=levels.name,
        kind=levels.kind,
        codes=levels.codes(column),
        labels=levels.labels,
        values=values,
        notes=levels.notes,
        is_ordered=levels.is_ordered,
        is_group=levels.is_group,
        levels=levels,
    )


def encode_features(table: pl.DataFrame, names: Sequence[str]) -> tuple[Feature, ...]:
    """Return one feature per column of a clean table, none left out."""
    return tuple(in_threads(lambda name: encode_feature(table[name]), names, table.height))


def encode_feature(column: pl.Series, weights: Floats | None = None) -> Feature:
    """Return one clean column as a feature; row weights count as repeated rows when edges and levels are chosen."""
    everyone = pl.Series(GROUP, ["everyone"])
    counts = exact_counts(column, np.zeros(len(column), dtype=np.int64), everyone, weights)
    return feature_of(feature_levels(column.name, counts, everyone.to_list(), weights is not None, False), column)


def joined_feature(feature: Feature, rows: Rows, fold: Integers, minimum: int = FEWEST_AUDITED) -> Feature:
    """Return the feature with levels joined until each has `minimum` audited rows in every fold, where possible.

    Ordered levels join a neighbour (missing ones the largest level), others "(other)"; notes say so.
    """
    labels = feature.labels
    counts = rows.counts_by_fold(fold, feature.codes, len(labels))  # audited rows by fold and level
    if counts.min(axis=0).min(initial=minimum) >= minimum:
        return feature
    join = _joined_neighbours if feature.is_ordered else _pooled
    parts = join(counts, labels, minimum)
    part_of = np.empty(len(labels), dtype=np.int64)
    for number, part in enumerate(parts):
        part_of[part] = number
    names = [_part_label(part, labels, feature.is_ordered) for part in parts]
    notes = (
        f"levels {listed([labels[level] for level in part])} joined as {shown(name)}: "
        f"fewer than {minimum} audited rows in a fold"
        for part, name in zip(parts, names, strict=True)
        if len(part) > 1
    )
    return replace(feature, codes=part_of[feature.codes], labels=readable(names), notes=(*feature.notes, *notes))


def _joined_neighbours(counts: Integers, labels: Sequence[str], minimum: int) -> list[list[int]]:
    """Return runs of ordered levels, the rarest joined first, each time with its smaller neighbour."""
    parts = [[level] for level, label in enumerate(labels) if label != MISSING]
    missing = [level for level, label in enumerate(labels) if label == MISSING]

    def total(part: list[int]) -> int:
        return int(counts[:, part].sum())

    while len(parts) > 1:
        rarity = [_rarity(counts, part) for part in parts]
        rarest = int(np.argmin(rarity))
        if rarity[rarest] >= minimum:
            break
        sides = [side for side in (rarest - 1, rarest + 1) if 0 <= side < len(parts)]
        first = min(rarest, min(sides, key=lambda side: total(parts[side])))
        parts[first : first + 2] = [parts[first] + parts[first + 1]]
    if missing and parts and _rarity(counts, missing) < minimum:
        max(parts, key=total).extend(missing)
    elif missing:
        parts.append(missing)
    return parts


def _rarity(counts: Integers, part: Sequence[int]) -> int:
    return int(counts[:, list(part)].sum(axis=1).min())


def _pooled(counts: Integers, labels: Sequence[str], minimum: int) -> list[list[int]]:
    """Return single levels and one pool, last, of the rare ones and of as many more as the pool needs."""
    total = counts.sum(axis=0)
    by_size = sorted(range(len(labels)), key=lambda level: (total[level], labels[level]))
    pool = [level for level in by_size if labels[level] == OTHER or _rarity(counts, [level]) < minimum]
    for level in by_size:
        if _rarity(counts, pool) >= minimum:
            break
        if level not in pool:
            pool.append(level)
    rest = [[level] for level in range(len(labels)) if level not in pool]
    return [*rest, sorted(pool)]


def _part_label(part: Sequence[int], labels: Sequence[str], ordered: bool) -> str:
    if len(part) == 1:
        return labels[part[0]]
    if not ordered:
        return OTHER
    names = [labels[level] for level in part]
    return " or ".join(names) if len(names) <= 3 else f"{names[0]} … {names[-1]}"


def flag_separating(feature: Feature, audited: Booleans) -> Feature:
    """Return the feature, marked as the group itself where its values identify the two groups.

    No value is shared, and in the order of the values the groups take turns a few times at most, as with bands of age.
    """
    if not feature.in_membership:
        return feature
    values = feature.codes if feature.values is None else feature.values
    if _shares_values(values[:FIRST_LOOK], audited[:FIRST_LOOK]):
        return feature
    if values.dtype.kind == "f" and np.isnan(values).any():
        return feature  # people of both groups may share the missing value
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    turns = np.flatnonzero(np.diff(audited[order]))
    is_shared = bool((ordered[turns] == ordered[turns + 1]).any())
    if is_shared or not 0 < turns.size <= MOST_TURNS or ordered[0] == ordered[-1]:
        return feature
    note = "its values identify the two groups, so estimates that compare people of both groups leave it out"
    return replace(feature, is_group=True, notes=(note, *feature.notes))


def _shares_values(values: DesignColumn, audited: Booleans) -> bool:
    """Return whether the groups take turns so often among some rows that no bands of values can separate them."""
    turns = np.flatnonzero(np.diff(audited[np.argsort(values, kind="stable")]))
    return bool(turns.size > MOST_TURNS * max(len(np.unique(values)), 1)) or bool(
        turns.size > MOST_TURNS and len(np.unique(values)) == len(values)
    )


def design_columns(features: Sequence[Feature]) -> dict[str, DesignColumn]:
    """Return what a membership model learns from: floats (NaN = missing), or the codes of categorical levels.

    Constants, identifiers and copies of the group are left out; their notes say so. No features, no columns.
    """
    columns: dict[str, DesignColumn] = {}
    for feature in features:
        if feature.in_membership:
            columns[feature.name] = feature.codes if feature.values is None else feature.values
    if features and not columns:
        reasons = ", ".join(f"{shown(f.name)} is {_reason(f)}" for f in features[:20])
        raise DataError(
            f"No feature can be used: {reasons}.",
            "add a feature whose values people of both groups may share.",
        )
    return columns


def check_exempt(features: Sequence[Feature], exempt: Sequence[str]) -> None:
    """Raise where people of both groups cannot be compared at equal values of an exempt factor."""
    for feature in features:
        if feature.name in exempt and not feature.in_membership:
            raise DataError(
                f"{shown(feature.name)} cannot be exempt, because it is {_reason(feature)}.",
                "name features that vary, and whose values people of both groups share.",
            )


def _reason(feature: Feature) -> str:
    if feature.is_group:
        return "the group itself"
    return "constant" if feature.kind == "constant" else "an identifier"
