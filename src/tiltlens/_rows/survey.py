"""The first pass: the groups, the values of the features, and one bounded sample of the rows.

The sample depends only on the contents of rows, not on their order, on batches or on engines. Within a group, the rows
with the smallest hashes are drawn. All groups have the same quota, so rare groups are kept whole and larger groups
share the remaining room equally.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import and_
from typing import Any, TypeAlias, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._estimators.error_rates import UNKNOWN
from tiltlens._limits import LISTED_VALUES
from tiltlens._rows.groups import Meant
from tiltlens._rows.levels import ValueCounts, value_counts
from tiltlens._rows.roles import CONTENT, GROUP, HASH, INPUT, LOG_ODDS, OUTCOME, SCORE, WEIGHT, ColumnRoles
from tiltlens._rows.row_columns import ColumnValues, Labels, collect_labels, join_labels, store_columns, take_values
from tiltlens._rows.sampled_rows import BatchRows, SampledRows, read_batch
from tiltlens._rows.scores import favourable_word
from tiltlens._sources.arrays import (
    Factorized,
    HashedColumn,
    Hashes,
    chunked_moments,
    factorize,
    mixed_hashes,
    nested_hashes,
    row_hashes,
)
from tiltlens._sources.tables import ROW, add_fields, join_named
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import GroupMoments

FEW_COPIES = 1e-4  # share of a batch's rows: with more copies, rows unique in it have copies in other batches
Sortable: TypeAlias = Any  # a value of a column: a text, a number, a boolean or a date
V = TypeVar("V")
ALL_HASHES = np.uint64(2**64 - 1)


# The largest hash of each group that may still be drawn. It only saves work in later batches: threads that read a table
# share it, and a worker on another machine starts with the one it was sent.
Thresholds = dict[str, np.uint64]


def group_quota(counts: Mapping[str, int], size: int) -> int:
    """Return the largest c with Σ_g min(n_g, c) ≤ `size`: the largest number of rows per group that fits."""
    room, left = size, len(counts)
    for count in sorted(counts.values()):
        if count * left > room:
            return room // left
        room, left = room - count, left - 1
    return max(counts.values(), default=size)


@dataclass(frozen=True, slots=True, eq=False)
class RowSample:
    """Some rows, added with `+`: those of the smallest hashes of each group."""

    parts: tuple[pl.DataFrame, ...]  # the rows as they came, batch by batch
    counts: dict[str, int]  # the number of rows of each group, drawn or not
    size: int  # the largest number of rows that is kept
    thresholds: Thresholds = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether all rows are in the sample."""
        return sum(self.counts.values()) <= self.size

    @property
    def frame(self) -> pl.DataFrame:
        """The rows."""
        return self._drawn().parts[0]

    def __add__(self, other: RowSample) -> RowSample:
        both = replace(self, parts=self.parts + other.parts, counts=join_named(self.counts, other.counts))
        rows = sum(part.height for part in both.parts)
        return both if rows <= 1.5 * self.size else both._drawn()

    def _drawn(self) -> RowSample:
        """Return the sample in one part, reduced to at most `size` rows."""
        frame = self.parts[0] if len(self.parts) == 1 else pl.concat(self.parts)
        if frame.height <= self.size:
            return replace(self, parts=(frame,))
        quota = group_quota(self.counts, self.size)
        hashes, keep = frame[HASH].to_numpy(), np.ones(frame.height, dtype=np.bool_)
        for group, count in self.counts.items():
            if count > quota:
                mine = np.flatnonzero((frame[GROUP] == group).to_numpy())
                ordered = np.sort(hashes[mine])
                last = ordered[: min(quota, ordered.size)]
                if quota < ordered.size and ordered[quota] == last[-1] and last[0] != last[-1]:
                    last = last[last < last[-1]]  # a cluster is drawn whole or not at all
                keep[mine] = False
                keep[mine[hashes[mine] <= last[-1]][:quota]] = True  # a cluster larger than the quota is cut to it
                self.thresholds[group] = min(self.thresholds.get(group, ALL_HASHES), last[-1])
        return replace(self, parts=(frame.filter(pl.Series(keep)),))


def _first_values(values: tuple[Sortable, ...], others: tuple[Sortable, ...]) -> tuple[Sortable, ...]:
    return tuple(sorted({*values, *others}))[:LISTED_VALUES]


def _first_outcomes(values: Meant, others: Meant) -> Meant:
    joined = values | others
    return {value: joined[value] for value in sorted(joined)[:LISTED_VALUES]}


def _wider(ends: tuple[float, float], others: tuple[float, float]) -> tuple[float, float]:
    return min(ends[0], others[0]), max(ends[1], others[1])


def _joined(join: Callable[[V, V], V]) -> dict[str, Callable[[V | None, V | None], V | None]]:
    """Return the metadata of a field that is None in all batches, or joined."""
    return {"join": lambda first, second: first if first is None or second is None else join(first, second)}


SAME, MODULO = _joined(lambda first, _: first), _joined(lambda first, second: (first + second) % 2**64)


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """The results of the first pass, added with `+`."""

    read: int
    left_out: dict[str, int]  # by reason
    without_group: int
    values: dict[str, ValueCounts]  # by feature
    # The sample, or all rows if there are few: group, weight, scores, optional columns and features
    sample: RowSample
    # Least and largest weight of each group
    weight_range: dict[str, tuple[float, float]] = field(metadata={"join_each": _wider})
    outside: dict[str, int]  # the number of rows of each group whose given propensity is not between 0 and 1
    is_decisions: bool = field(metadata={"join": and_})  # whether every score is 0 or 1
    amounts: dict[str, GroupMoments]  # the moments of each group's amounts; empty where scores are probabilities
    # The column of the scores of the favourable outcome, and the names of the outcomes
    favourable: int = field(metadata=SAME)
    classes: Labels = field(metadata=SAME)
    # All words found if decisions are words; None if they are numbers
    words: tuple[str, ...] | None = field(metadata=_joined(_first_values))
    seen: dict[str, tuple[Sortable, ...]] = field(metadata={"join_each": _first_values})  # some values, by condition
    # The values of the observed outcome, and which outcome each stands for; None where none is given
    outcome_values: Meant | None = field(metadata=_joined(_first_outcomes))
    people: dict[str, float]  # the number of each group: rows, or the sum of their probabilities
    # Σ of hashes of all kept rows, modulo 2^64, which does not depend on their order. The second is of rows without
    # their scores, so that audits of two models on the same rows agree in it.
    fingerprint: int = field(metadata=MODULO)
    rows_fingerprint: int = field(metadata=MODULO)
    # The texts of each column that has codes for them, such as "period", in their order
    labels: dict[str, Labels] = field(metadata={"join": join_labels})
    # For each group and observed outcome, (3, 6): people, Σw, Σw², ΣwW, Σw²W and Σw²W²; empty if rows are dependent:
    # with clusters, and for unobserved groups
    totals: dict[str, Floats]

    @property
    def kept(self) -> int:
        """The number of rows that are kept."""
        return self.read - sum(self.left_out.values()) - self.without_group

    def outcome(self, favourable: object) -> str:
        """Return the name of the favourable outcome; `favourable` is the user's argument."""
        if self.words is None:
            return self.classes[self.favourable]
        return favourable_word("scores", favourable, self.words)

    def __add__(self, other: Survey) -> Survey:
        return add_fields(self, other)


def survey_batch(roles: ColumnRoles, size: int, thresholds: Thresholds, table: pl.DataFrame) -> Survey:
    """Return the survey of one batch; `thresholds` are shared by the samples of all batches."""
    batch = read_batch(roles, table)
    rows, kept = batch.rows, batch.table
    factorized = {name: factorize(kept[name]) for name in roles.features}
    weights = rows.weights if roles.is_weighted else None
    groups = pl.Series(GROUP, rows.groups, dtype=pl.String)
    of_rows, hashes = _hash_rows(roles, batch, factorized, groups)
    return Survey(
        read=batch.read,
        left_out=batch.left_out,
        without_group=batch.without_group,
        values={
            name: value_counts(kept[name], factorized[name], rows.group, groups, weights) for name in roles.features
        },
        sample=_sample_rows(roles, batch, hashes, size, thresholds),
        weight_range=_by_group(rows, (_weight_range(rows, code) for code in range(len(rows.groups)))),
        outside=_count_outside(rows),
        is_decisions=batch.channel.kind == "decisions",
        amounts=_by_group(rows, chunked_moments([rows.scores], rows.group, len(rows.groups), None))
        if batch.channel.kind == "amounts" and rows.scores.size
        else {},
        favourable=batch.channel.favourable,
        classes=batch.channel.labels,
        words=batch.channel.words,
        seen={column: tuple(table[column].drop_nulls().unique().sort().head(LISTED_VALUES)) for column in roles.where},
        outcome_values=batch.outcome_values,
        people=_by_group(rows, batch.people.tolist()),
        fingerprint=_fingerprint(rows, hashes),
        rows_fingerprint=_fingerprint(rows, of_rows),
        labels=collect_labels(rows.columns),
        totals={} if roles.soft or roles.clusters is not None else _totals(rows, roles.is_weighted),
    )


def _hash_rows(
    roles: ColumnRoles, batch: BatchRows, factorized: dict[str, Factorized | None], groups: pl.Series
) -> list[Hashes]:
    """Return the hash of each row by its features, group, weight and propensity; and by its scores too."""
    rows = batch.rows
    columns: dict[str, HashedColumn] = {name: batch.table[name] for name in roles.features}
    columns |= {GROUP: rows.group, WEIGHT: rows.weights}
    if rows.log_odds is not None:
        columns[LOG_ODDS] = rows.log_odds
    scores = {f"{SCORE}{y}": column for y, column in enumerate(batch.score_columns)}
    return nested_hashes([columns, scores], {**factorized, GROUP: Factorized(groups, rows.group)})


def _fingerprint(rows: SampledRows, hashes: Hashes) -> int:
    """Return the sum of the hashes of rows with their outcomes; rows are drawn without looking at these."""
    if not hashes.size:
        return 0
    if rows.cost is not None:
        return int(mixed_hashes(hashes, row_hashes({OUTCOME: rows.cost})).sum())
    return int((hashes if rows.y_true is None else mixed_hashes(hashes, rows.y_true)).sum())


def _sampling_keys(batch: BatchRows, hashes: Hashes) -> tuple[Hashes, Hashes | None]:
    """Return the hashes by which rows are drawn, or their clusters, which are drawn whole.

    If rows have copies in several groups, the hashes of their contents are the second.
    """
    if batch.rows.cluster is not None:
        return batch.rows.cluster, None
    if batch.source is None:
        return _row_keys(hashes, _row_numbers(batch.table, hashes)), None
    _, first = np.unique(batch.source, return_index=True)
    content = np.zeros(first.size, dtype=np.uint64)
    np.add.at(content, batch.source, hashes)
    numbers = _row_numbers(batch.table, content)
    keys = _row_keys(content, numbers[first] if ROW in batch.table.columns else numbers)
    return keys[batch.source], content[batch.source]


def _row_numbers(table: pl.DataFrame, hashes: Hashes) -> NDArray[np.integer]:
    """Return the rows' numbers; rows of Spark have no order, so arbitrary numbers that differ between batches."""
    if ROW in table.columns:
        return table[ROW].to_numpy()
    return np.arange(len(hashes)) + int(hashes[:1].sum() % 2**32)


def _row_keys(hashes: Hashes, numbers: NDArray[np.integer]) -> Hashes:
    """Return the keys by which rows are drawn: their hashes; copies of a row get different keys by their row numbers.

    Otherwise copies would be drawn all or none, and a table of few distinct rows would lose most of them. If more than
    a few rows of a batch are copies, others have copies in other batches, so all keys then include the row number.
    """
    repeats = np.count_nonzero(np.diff(np.sort(hashes)) == 0)  # sorting is much faster than marking the copies
    if not repeats:
        return hashes
    is_copy = pl.Series(hashes).is_duplicated().to_numpy() if repeats <= FEW_COPIES * hashes.size else None
    if is_copy is None or is_copy.mean() > FEW_COPIES:
        return mixed_hashes(hashes, numbers)
    keys = hashes.copy()
    keys[is_copy] = mixed_hashes(hashes[is_copy], numbers[is_copy])
    return keys


def _sample_rows(roles: ColumnRoles, batch: BatchRows, hashes: Hashes, size: int, thresholds: Thresholds) -> RowSample:
    """Return the rows of a batch that may be drawn."""
    rows, table, index = batch.rows, batch.table, None
    keys, content = _sampling_keys(batch, hashes)
    limits = np.array([thresholds.get(group, ALL_HASHES) for group in rows.groups], dtype=np.uint64)
    if (limits < ALL_HASHES).any():
        index = np.flatnonzero(keys <= limits[rows.group])

    def part(values: ColumnValues) -> ColumnValues:
        return values if index is None else take_values(values, index)

    columns = [
        pl.Series(GROUP, rows.groups, dtype=pl.String).gather(part(rows.group)),
        pl.Series(WEIGHT, part(rows.weights)),
        *(pl.Series(f"{SCORE}{y}", part(column)) for y, column in enumerate(batch.score_columns)),
        pl.Series(HASH, part(keys)),
        *([] if content is None else [pl.Series(CONTENT, part(content))]),
        *store_columns({name: part(values) for name, values in rows.columns.items()}),
    ]
    kept = [*roles.features, *(name for name in table.columns if name == ROW or name.startswith(INPUT))]
    columns += [part(table[name]) for name in kept]
    counts = _by_group(rows, np.bincount(rows.group, minlength=len(rows.groups)).tolist())
    return RowSample((pl.DataFrame({column.name: column for column in columns}),), counts, size, thresholds)


def _by_group(rows: SampledRows, values: Iterable[V]) -> dict[str, V]:
    """Return a value of each group by the names of the groups that have rows."""
    counts = np.bincount(rows.group, minlength=len(rows.groups))
    return {label: value for label, value, count in zip(rows.groups, values, counts, strict=True) if count}


def _totals(rows: SampledRows, is_weighted: bool) -> dict[str, Floats]:
    """Return the sums of each group by outcome."""
    groups, outcomes = len(rows.groups), UNKNOWN + 1
    key = rows.group * outcomes + (UNKNOWN if rows.y_true is None else rows.y_true)

    def total(column: Floats | None) -> Floats:
        return np.bincount(key, column, groups * outcomes).astype(np.float64).reshape(groups, outcomes)

    people, w, score = total(None), rows.weights, rows.score
    if is_weighted:
        with np.errstate(over="ignore"):  # weights near the largest float: results do not use such sums
            columns = (people, *map(total, (w, w**2, w * score, w**2 * score, (w * score) ** 2)))
    else:
        columns = (people, people, people, first := total(score), first, total(score**2))
    return _by_group(rows, np.stack(columns, axis=-1))


def _weight_range(rows: SampledRows, code: int) -> tuple[float, float]:
    if rows.weights.strides == (0,):  # one number, broadcast to all rows
        return 1.0, 1.0
    weights = rows.weights[rows.group == code]
    return float(weights.min(initial=math.inf)), float(weights.max(initial=0.0))


def _count_outside(rows: SampledRows) -> dict[str, int]:
    """Return the number of rows of each group whose given propensity is not between 0 and 1."""
    if rows.log_odds is None or np.isfinite(rows.log_odds).all():
        return {}
    return _by_group(rows, np.bincount(rows.group, ~np.isfinite(rows.log_odds), len(rows.groups)).astype(int).tolist())
