"""Columns as features: readable levels, numbers, and notes on columns that are features by mistake."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._estimators.influence import Booleans, Integers, Rows
from tiltlens._limits import LARGEST, SUPPRESSED_BELOW
from tiltlens._notes import Note
from tiltlens._rows.levels import MISSING, OTHER, Kind, Levels, exact_counts, feature_levels, numbers_of, readable
from tiltlens._rows.roles import GROUP, common_prefix
from tiltlens._sources.arrays import Hashes
from tiltlens._threads import in_threads
from tiltlens.errors import DataError, quoted, quoted_list
from tiltlens.paper.checks import Floats

DesignColumn: TypeAlias = NDArray[Any]  # input of a model: numbers, NaN where missing, or codes of levels
FEWEST_AUDITED = 5  # audited rows of a level in each fold; singletons vanish from the leave-one-out sums
FIRST_LOOK = 2_000  # rows, enough in most cases to see that the groups share the values of a feature
MOST_TURNS = 4  # most changes of group along the sorted values of a feature that identifies the groups by bands


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """One feature: `codes` index `labels`; `values` are its numbers, NaN where missing, if it has any.

    `is_ordered` is whether neighbouring codes are neighbours in meaning; `is_group` whether the feature is the group
    itself or a one-to-one recoding of it. `levels` encodes other rows.
    """

    name: str
    kind: Kind
    codes: Integers
    labels: tuple[str, ...]
    values: Floats | None = None
    notes: tuple[Note, ...] = ()
    is_ordered: bool = False
    is_group: bool = False
    levels: Levels | None = None

    @property
    def in_membership(self) -> bool:
        """Return whether the feature may enter a membership model."""
        return self.kind not in ("constant", "identifier") and not self.is_group

    @property
    def is_binned(self) -> bool:
        """Return whether its levels are bins of numbers, made for figures."""
        return self.levels is not None and self.levels.is_binned

    def rows(self, index: Integers) -> Feature:
        """Return the feature on some of the rows."""
        return replace(
            self, codes=self.codes.take(index), values=None if self.values is None else self.values.take(index)
        )


def feature_of(levels: Levels, column: pl.Series) -> Feature:
    """Return a clean column as a feature of these levels."""
    values = numbers_of(column) if levels.has_numbers else None
    largest = 0.0 if values is None else float(np.nanmax(np.abs(values), initial=0.0))
    if largest > LARGEST or 0.0 < largest < 1.0 / LARGEST:  # squares would be infinite, or 0
        raise DataError(
            f"Column {quoted(levels.name)} has values up to {largest:g}, outside {1 / LARGEST:g} to {LARGEST:g}.",
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
    """Return the feature with levels merged until each has `minimum` audited rows in every fold, if possible.

    Ordered levels are merged with a neighbour (missing ones with the largest level), others into "(other)", with notes.
    """
    labels = feature.labels
    shape = (int(fold.max(initial=0)) + 1, len(labels))
    counts = rows.counts(fold * len(labels) + feature.codes, math.prod(shape))[0].reshape(shape)  # of audited rows
    if counts.min(axis=0).min(initial=minimum) >= minimum:
        return feature
    join = _joined_neighbours if feature.is_ordered else _pooled
    parts = join(counts, labels, minimum)
    part_of = np.empty(len(labels), dtype=np.int64)
    for number, part in enumerate(parts):
        part_of[part] = number
    names = [_part_label(part, labels, feature.is_ordered) for part in parts]
    notes = (
        Note(
            "merged levels",
            levels=quoted_list([labels[level] for level in part]),
            name=quoted(name),
            minimum=minimum,
        )
        for part, name in zip(parts, names, strict=True)
        if len(part) > 1
    )
    return replace(feature, codes=part_of[feature.codes], labels=readable(names), notes=(*feature.notes, *notes))


def _joined_neighbours(counts: Integers, labels: Sequence[str], minimum: int) -> list[list[int]]:
    """Return runs of ordered levels, merging the rarest first, each time with its smaller neighbour."""
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
    """Return single levels and, last, a pool of the rare ones, filled up with the next rarest as far as needed."""
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
    """Return the feature, marked as the group itself if its values identify the two groups.

    Then no value is shared, and the group changes at most a few times along the sorted values, as with bands of age.
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
    note = Note("separates the groups")
    return replace(feature, is_group=True, notes=(note, *feature.notes))


def _shares_values(values: DesignColumn, audited: Booleans) -> bool:
    """Return whether the group changes so often along the sorted values that bands cannot separate the groups."""
    turns, distinct = np.diff(audited[np.argsort(values, kind="stable")]).sum(), len(np.unique(values))
    return bool(turns > MOST_TURNS * (1 if distinct == len(values) else distinct))


def design_columns(features: Sequence[Feature]) -> dict[str, DesignColumn]:
    """Return the input of a membership model: floats (NaN = missing), or the codes of categorical levels.

    Constants, identifiers and copies of the group are left out, as their notes say.
    """
    columns: dict[str, DesignColumn] = {}
    for feature in features:
        if feature.in_membership:
            columns[feature.name] = feature.codes if feature.values is None else feature.values
    if features and not columns:
        reasons = ", ".join(f"{quoted(f.name)} is {_reason(f)}" for f in features[:20])
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
                f"{quoted(feature.name)} cannot be exempt, because it is {_reason(feature)}.",
                "name features that vary, and whose values people of both groups share.",
            )


def _reason(feature: Feature) -> str:
    if feature.is_group:
        return "the group itself"
    return "constant" if feature.kind == "constant" else "an identifier"


RANKED_ROWS = 5_000  # on which features that repeat the score are found: more would only take longer
REPEATED_R2 = 0.99  # of the score by one feature, above which it is the score or was computed from it
REPEATED_RANKS = 0.999  # the same for the absolute rank correlation
REPEATED_IDS = 0.95  # distinct values per row, below which an identifier's repeats are not a coincidence
FEWEST_APART = 10  # rows that differ from the most frequent value: the order of fewer may be chance
IDENTIFIER = re.compile(r"(^|[\W_])(id|ID|Id|uuid|UUID)$|[a-z](ID|Id)$")
HINT = "leave it out with `exclude` (--exclude)"


# A note neither leaves out a feature nor changes a verdict.
def leakage_notes(
    features: Sequence[Feature],
    score: Floats,
    row_numbers: Integers,
    seen: Sequence[str],
    output: str,
    where: Iterable[str],
) -> Iterator[Note]:
    """Yield a note on each kind of column that is unlikely to be a proper feature.

    `seen` are the input columns of the audited model, whose score is called `output`; `where` are the columns that
    select rows or contain outcomes. Only the first rows are used, so their order must be unrelated to their contents.
    """
    at = np.arange(min(score.size, RANKED_ROWS))
    few = [feature.rows(at) for feature in features]
    others = [feature for feature in few if feature.name not in set(seen)]
    is_repeated = in_threads(lambda feature: _repeats(feature, score[at]), others, at.size)
    repeating = [feature.name for feature, repeats in zip(others, is_repeated, strict=True) if repeats]
    if repeating:
        old = "amount" if output == "amount" else "score or a decision"
        yield Note("repeats the score", columns=quoted_list(repeating), output=output, old=old, remedy=HINT)
    order = np.argsort(row_numbers[at])
    counting = [feature.name for feature in few if _counts_rows(feature, order)]
    if counting:
        yield Note("row number", columns=quoted_list(counting), remedy=HINT)
    named = [feature.name for feature in features if any(_words(name) <= _words(feature.name) for name in where)]
    if named:
        yield Note("named like an outcome", columns=quoted_list(named), remedy=HINT)


def _words(name: str) -> set[str]:
    return set(re.split(r"[\W_]+", name.casefold()))


def _counts_rows(feature: Feature, order: Integers) -> bool:
    """Return whether the feature has whole numbers that rise, or fall, with every row."""
    if feature.kind not in ("numeric", "identifier") or feature.values is None:
        return False
    steps = np.diff(feature.values[order])
    is_whole = bool((feature.values == np.floor(feature.values)).all())
    return is_whole and steps.size >= FEWEST_APART and bool((steps > 0).all() or (steps < 0).all())


def _repeats(feature: Feature, score: Floats) -> bool:
    """Return whether the score follows from the feature, or the feature from the order of the scores."""
    if not _varies(feature.codes) or not _varies(score):
        return False
    score = score / np.abs(score).max()  # squares of tiny numbers are 0
    if _explained(feature.codes, score) > REPEATED_R2:
        return True
    has_order = feature.values is not None or feature.is_ordered or len(feature.labels) == 2
    values = feature.codes.astype(np.float64) if feature.values is None else feature.values
    is_observed = ~np.isnan(values)
    values, score = values[is_observed], score[is_observed]
    if not (has_order and _varies(values) and _varies(score)):
        return False
    linear = np.corrcoef(values / np.abs(values).max(), score)[0, 1]  # squares of huge numbers overflow
    ranks = np.corrcoef(pl.Series(values).rank(), pl.Series(score).rank())[0, 1]
    is_close = bool(linear**2 > REPEATED_R2 or abs(ranks) > REPEATED_RANKS)
    return is_close or _is_monotone(values, score)


def _varies(values: NDArray[np.generic]) -> bool:
    """Return whether enough rows differ from the most frequent value."""
    _, counts = np.unique(values, return_counts=True)
    return bool(values.size - counts.max(initial=0) >= FEWEST_APART)


def _explained(codes: Integers, score: Floats) -> float:
    """Return R² of the score on the means of a feature's levels, adjusted for their number."""
    people, centred = np.bincount(codes), score - score.mean()
    levels = int((people > 0).sum())
    between = float((np.bincount(codes, centred) ** 2 / np.maximum(people, 1)).sum())
    return 1.0 - (1.0 - between / float(centred @ centred)) * (score.size - 1) / max(score.size - levels, 1)


def _is_monotone(values: Floats, score: Floats) -> bool:
    """Return whether values never fall, or never rise, with the score, as with decisions made from it."""
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(score[order]) > 0])
    least, most = (end.reduceat(values[order], starts) for end in (np.minimum, np.maximum))
    return bool((most[:-1] <= least[1:]).all() or (least[:-1] >= most[1:]).all())


def check_clusters(name: str, clusters: Hashes, group: Integers, groups: Sequence[str]) -> None:
    """Raise if all rows of a group are in one cluster: standard errors, which sum its influences, would then be 0."""
    for code, label in enumerate(groups):
        if len(np.unique(clusters[group == code])) == 1:
            raise DataError(
                f"Group {quoted(label)} has one cluster only (`clusters`, {quoted(name)}), but intervals need two.",
                "name a column that identifies people or households, or drop it.",
            )


def cluster_note(name: str, clusters: Hashes, group: Integers) -> Note:
    """Return a note on the number of clusters, and on how many of them have rows of several groups."""
    pairs = np.unique(np.column_stack([clusters, group.astype(np.uint64)]), axis=0)[:, 0]
    count = len(np.unique(pairs))
    several = len(pairs) - count
    count_text = f"{several:,}" if several >= SUPPRESSED_BELOW else f"fewer than {SUPPRESSED_BELOW}"
    mixed = f", {count_text} of them with rows of several groups" if several else ""
    return Note("clusters", column=name, rows=len(group), clusters=count, mixed=mixed)


def repeated_ids(table: pl.DataFrame) -> Iterator[Note]:
    """Yield a note on columns that are named like an identifier and whose values repeat: such rows may be dependent."""
    for name in table.columns:
        distinct = table[name].n_unique() if IDENTIFIER.search(name) else table.height
        if FEWEST_APART <= distinct <= REPEATED_IDS * table.height:
            yield Note("repeated identifier", column=name)


def one_hot_notes(table: pl.DataFrame) -> list[Note]:
    """Return a note on columns of 0 and 1 with a common prefix, of which exactly one is 1 in each row."""
    binary = {
        column.name: column.to_numpy() == 1
        for column in table.get_columns()
        if not column.null_count() and (column.dtype == pl.Boolean or column.dtype.is_numeric())
        if column.cast(pl.Float64).is_in([0.0, 1.0]).all()
    }
    prefixes, run, total = list[str](), list[str](), None
    for name in [*sorted(binary), ""]:  # the last ends the last run
        if not common_prefix([*run, name]) or (total is not None and bool((total & binary[name]).any())):
            prefixes += [common_prefix(run)] if len(run) > 1 and total is not None and total.all() else []
            run, total = [], None
        if name:
            run, total = [*run, name], binary[name] if total is None else total | binary[name]
    if not prefixes:
        return []
    example = f"--blocks {prefixes[0].rstrip('_=.:- ')}={prefixes[0]}*"
    columns = " or ".join(quoted(f"{prefix}*") for prefix in prefixes)
    return [Note("one-hot columns", columns=columns, example=example)]
