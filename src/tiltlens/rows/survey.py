"""The first pass: who is there, which values the features take, and a sample of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.limits import FEW_COPIES, LISTED_VALUES
from tiltlens.paper.checks import Floats
from tiltlens.paper.moments import GroupMoments
from tiltlens.rows.batch_rows import Reading, reading
from tiltlens.rows.declared import INPUT
from tiltlens.rows.groups import factorize_groups
from tiltlens.rows.outcomes import Meant
from tiltlens.rows.periods import found_periods
from tiltlens.rows.roles import (
    CHANCE,
    CLUSTER,
    CONTENT,
    GROUP,
    HASH,
    LABEL,
    LOG_ODDS,
    OUTCOME,
    PERIOD,
    SCORE,
    WEIGHT,
    ColumnRoles,
)
from tiltlens.rows.sample import HashThreshold, RowSample
from tiltlens.rows.scores import favourable_word
from tiltlens.rows.value_counts import ValueCounts, value_counts
from tiltlens.sources.arrays import chunked_moments
from tiltlens.sources.batches import ROW
from tiltlens.sources.factorize import Factorized, factorize
from tiltlens.sources.hashing import Hashes, mixed_hashes, nested_hashes, row_hashes


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What the first pass finds, added with `+`.

    Attributes
    ----------
    read, left_out, unknown
        Rows read; left out for which reason; of unknown group.
    values
        Of each feature.
    sample
        Some rows, all of them where there are few: their group, weight, scores and log-odds beside the features.
    weight_range
        Least and largest weight of each group.
    outside
        How many rows of each group have a membership that is not between 0 and 1.
    is_decisions
        Whether every score is 0 or 1.
    amounts
        The moments of each group's amounts; empty where scores are probabilities.
    favourable, labels
        The column of the scores that a person wants, and what the outcomes are called.
    words
        All that were found where decisions are words; None where they are numbers.
    is_present, seen
        Whether each value of `where` occurs, and some values that do.
    outcomes
        The values of the true outcome, and which outcome each stands for; None where none is given.
    people
        How many each group has: rows, or the sum of their chances.
    fingerprint, rows_fingerprint
        Σ of hashes of all rows that count, modulo 2^64: the same rows in any order have the same. The second is of rows
        without their scores: two models' audits of the same rows have the same.
    periods
        Those found, in their order; None where none are asked for.
    """

    read: int
    left_out: dict[str, int]
    unknown: int
    values: dict[str, ValueCounts]
    sample: RowSample
    weight_range: dict[str, tuple[float, float]]
    outside: dict[str, int]
    is_decisions: bool
    amounts: dict[str, GroupMoments]
    favourable: int
    labels: tuple[str, ...]
    words: tuple[str, ...] | None
    is_present: dict[str, bool]
    seen: dict[str, tuple[Any, ...]]
    outcomes: Meant | None
    people: dict[str, float]
    fingerprint: int
    rows_fingerprint: int
    periods: tuple[str, ...] | None = None

    @property
    def kept(self) -> int:
        """How many rows count."""
        return self.read - sum(self.left_out.values()) - self.unknown

    def outcome(self, favourable: Any) -> str:
        """Return what the outcome that a person wants is called; `favourable` is what the user calls it."""
        if self.words is None:
            return self.labels[self.favourable]
        return favourable_word("scores", favourable, self.words)

    def __add__(self, other: Survey) -> Survey:
        return Survey(
            self.read + other.read,
            {reason: count + other.left_out[reason] for reason, count in self.left_out.items()},
            self.unknown + other.unknown,
            {name: one + other.values[name] for name, one in self.values.items()},
            self.sample + other.sample,
            _joined_ranges(self.weight_range, other.weight_range),
            _added(self.outside, other.outside),
            self.is_decisions and other.is_decisions,
            _joined_moments(self.amounts, other.amounts),
            self.favourable,
            self.labels,
            None if self.words is None else tuple(sorted({*self.words, *(other.words or ())}))[:LISTED_VALUES],
            {column: one or other.is_present[column] for column, one in self.is_present.items()},
            {column: tuple(sorted({*one, *other.seen[column]}))[:LISTED_VALUES] for column, one in self.seen.items()},
            None if self.outcomes is None else _first_values(self.outcomes | (other.outcomes or {})),
            _added(self.people, other.people),
            (self.fingerprint + other.fingerprint) % 2**64,
            (self.rows_fingerprint + other.rows_fingerprint) % 2**64,
            None if self.periods is None else found_periods((*self.periods, *(other.periods or ()))),
        )


def _first_values(found: Meant) -> Meant:
    return {value: found[value] for value in sorted(found)[:LISTED_VALUES]}


def _added(counts: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    return {group: counts.get(group, 0) + others.get(group, 0) for group in {**counts, **others}}


def _joined_ranges(
    ranges: Mapping[str, tuple[float, float]], others: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    joined = dict(ranges)
    for group, (least, most) in others.items():
        low, high = joined.get(group, (least, most))
        joined[group] = min(low, least), max(high, most)
    return joined


def _joined_moments(moments: Mapping[str, GroupMoments], others: Mapping[str, GroupMoments]) -> dict[str, GroupMoments]:
    both = {group: one + others[group] for group, one in moments.items() if group in others}
    return {**moments, **others, **both}


def surveyed(roles: ColumnRoles, size: int, threshold: HashThreshold, table: pl.DataFrame) -> Survey:
    """Return what one batch adds to the survey; `threshold` is that of the samples of all batches."""
    rows = reading(roles, table)
    factorized = {name: factorize(rows.table[name]) for name in roles.features}
    weights = rows.weights if roles.is_weighted else None
    labels = pl.Series(GROUP, rows.labels, dtype=pl.String)
    of_rows, hashes = _hashes(roles, rows, factorized, labels)
    keys = _sampling_keys(roles, rows, hashes)
    return Survey(
        read=rows.read,
        left_out=rows.left_out,
        unknown=rows.unknown,
        values={
            name: value_counts(rows.table[name], factorized[name], rows.group, labels, weights)
            for name in roles.features
        },
        sample=_sampled(roles, rows, keys, labels, size, threshold),
        weight_range=_weight_ranges(rows),
        outside=_outside(rows),
        is_decisions=rows.channel.kind == "decisions",
        amounts=_amounts(rows) if rows.channel.kind == "amounts" else {},
        favourable=rows.channel.favourable,
        labels=rows.channel.labels,
        words=rows.channel.words,
        is_present={column: rows.left_out[f"not_given_{column}"] < table.height for column in roles.where},
        seen={column: tuple(table[column].drop_nulls().unique().sort().head(LISTED_VALUES)) for column in roles.where},
        outcomes=rows.outcomes,
        people={label: float(count) for label, count in zip(rows.labels, rows.people, strict=True) if count},
        fingerprint=_fingerprint(rows, hashes),
        rows_fingerprint=_fingerprint(rows, of_rows),
        periods=None if rows.period is None else found_periods(rows.period.drop_nulls().unique()),
    )


def _hashes(
    roles: ColumnRoles, rows: Reading, factorized: dict[str, Factorized | None], labels: pl.Series
) -> list[Hashes]:
    """Return the hash of each row that counts, by its features, group, weight and membership; and by its scores too."""
    columns: dict[str, pl.Series | NDArray[Any]] = {name: rows.table[name] for name in roles.features}
    columns |= {GROUP: rows.group, WEIGHT: rows.weights}
    if rows.log_odds is not None:
        columns[LOG_ODDS] = rows.log_odds
    scores = {f"{SCORE}{y}": column for y, column in enumerate(rows.score_columns)}
    return nested_hashes([columns, scores], {**factorized, GROUP: Factorized(labels, rows.group)})


def _fingerprint(rows: Reading, hashes: Hashes) -> int:
    """Return the sum of the hashes of rows with their outcomes; rows are drawn without looking at these."""
    if not hashes.size:
        return 0
    return int((hashes if rows.truth is None else mixed_hashes(hashes, rows.truth)).sum())


def _cluster_hashes(name: str, rows: Reading) -> Hashes:
    """Return the hash of each row's cluster: clusters are drawn whole."""
    missing = rows.table[name].null_count()
    if missing:
        raise DataError(
            f"`clusters` must be known for every row, got {missing} without one.",
            "give a row that belongs to nobody else a number of its own.",
        )
    return row_hashes({CLUSTER: rows.table[name]})


class _Keys(NamedTuple):
    """What rows are drawn by; and, of copies in several groups, what their row holds."""

    drawn_by: Hashes
    content: Hashes | None = None


def _sampling_keys(roles: ColumnRoles, rows: Reading, hashes: Hashes) -> _Keys:
    if roles.clusters is not None:
        return _Keys(_cluster_hashes(roles.clusters, rows))
    if rows.place is None:
        return _Keys(_row_keys(rows, hashes))
    content = np.zeros(int(rows.place.max(initial=-1)) + 1, dtype=np.uint64)
    np.add.at(content, rows.place, hashes)
    first = np.zeros(content.size, dtype=np.intp)
    first[rows.place[::-1]] = np.arange(rows.place.size)[::-1]
    numbers = _row_numbers(rows, content)
    own = numbers[first] if ROW in rows.table.columns else numbers
    return _Keys(mixed_hashes(content, own)[rows.place], content[rows.place])


def _row_numbers(rows: Reading, hashes: Hashes) -> NDArray[Any]:
    """Return the rows' numbers; Spark's have no order: any will do that differ from batch to batch."""
    if ROW in rows.table.columns:
        return rows.table[ROW].to_numpy()
    return np.arange(len(hashes)) + int(hashes[:1].sum() % 2**32)


def _row_keys(rows: Reading, hashes: Hashes) -> Hashes:
    """Return what rows are drawn by: their hash, and of copies of a row one of its own for each, by its number.

    Copies would otherwise be drawn together or not at all, and a table of few distinct rows would lose most of them.
    Where some rows of a batch are copies, others will have theirs in other batches: then all are drawn by their number.
    """
    is_copy = pl.Series(hashes).is_duplicated().to_numpy()
    if not is_copy.any():
        return hashes
    if is_copy.mean() > FEW_COPIES:
        is_copy[:] = True
    numbers, keys = _row_numbers(rows, hashes), hashes.copy()
    keys[is_copy] = mixed_hashes(hashes[is_copy], numbers[is_copy])
    return keys


def _sampled(
    roles: ColumnRoles, rows: Reading, keys: _Keys, labels: pl.Series, size: int, threshold: HashThreshold
) -> RowSample:
    counts = np.bincount(rows.group, minlength=len(labels))
    limits = threshold.limits(rows.labels)
    drawn = None
    if (limits < np.iinfo(np.uint64).max).any():
        drawn = np.flatnonzero(keys.drawn_by <= limits[rows.group])

    def part(values: NDArray[Any]) -> NDArray[Any]:
        return values if drawn is None else values[drawn]

    columns = [
        labels.gather(part(rows.group)).alias(GROUP),
        pl.Series(WEIGHT, part(rows.weights)),
        *(pl.Series(f"{SCORE}{y}", part(column)) for y, column in enumerate(rows.score_columns)),
        pl.Series(HASH, part(keys.drawn_by)),
    ]
    columns += [] if rows.log_odds is None else [pl.Series(LOG_ODDS, part(rows.log_odds))]
    columns += [] if rows.truth is None else [pl.Series(OUTCOME, part(rows.truth))]
    columns += [] if keys.content is None else [pl.Series(CONTENT, part(keys.content))]
    if rows.chances is not None:
        columns += [pl.Series(f"{CHANCE}{k}", part(column)) for k, column in enumerate(rows.chances.T)]
    if roles.known_groups is not None:
        codes, texts = factorize_groups(roles.known_groups, [rows.table[roles.known_groups]])
        columns.append(pl.Series(LABEL, [*texts, None], dtype=pl.String).gather(part(codes % (len(texts) + 1))))
    if rows.period is not None:
        columns.append((rows.period if drawn is None else rows.period.gather(drawn)).alias(PERIOD))
    kept = [*roles.features, *(name for name in rows.table.columns if name == ROW or name.startswith(INPUT))]
    columns += [rows.table[name] if drawn is None else rows.table[name].gather(drawn) for name in kept]
    present = {label: int(count) for label, count in zip(rows.labels, counts, strict=True) if count}
    return RowSample((pl.DataFrame({one.name: one for one in columns}),), present, size, threshold)


def _by_group(rows: Reading) -> list[tuple[str, NDArray[np.bool_]]]:
    return [(label, rows.group == code) for code, label in enumerate(rows.labels) if (rows.group == code).any()]


def _amounts(rows: Reading) -> dict[str, GroupMoments]:
    if not rows.scores.size:
        return {}
    moments = chunked_moments([rows.scores], rows.group, len(rows.labels), None)
    return {label: one for label, one in zip(rows.labels, moments, strict=True) if one.rows}


def _weight_ranges(rows: Reading) -> dict[str, tuple[float, float]]:
    if rows.weights.size and rows.weights.strides == (0,):  # one number that stands for all rows
        return {label: (1.0, 1.0) for label, _ in _by_group(rows)}
    return {label: _ends(rows.weights[mine]) for label, mine in _by_group(rows)}


def _ends(weights: Floats) -> tuple[float, float]:
    return float(weights.min()), float(weights.max())


def _outside(rows: Reading) -> dict[str, int]:
    """Return how many rows of each group have a membership that is not between 0 and 1."""
    if rows.log_odds is None or np.isfinite(rows.log_odds).all():
        return {}
    return {label: int((~np.isfinite(rows.log_odds[mine])).sum()) for label, mine in _by_group(rows)}
