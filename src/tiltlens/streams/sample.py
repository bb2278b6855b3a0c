"""A sample of the rows that depends on what they hold alone, not on order, parts or engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.engines.arrays import chunks
from tiltlens.estimators.estimate import Integers
from tiltlens.paper.checks import Floats
from tiltlens.streams.places import Placed

SAMPLED = 20_000  # distinct rows, those of the smallest hashes
FITTED_ROWS = 40_000  # of each group, at most, that a membership model is fitted on
MOST_FITTED = 400_000  # of all groups together
MANY = 100_000  # hashes that are grouped before they are sorted
BILLION = 1e9
CHUNK = 1 << 16  # rows that are hashed at a time
ALL_HASHES = 2**64 - 1
ODD, HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)  # a factor and a shift that mix the bits of a hash
ONE = np.ones(1)
# names of columns that stand beside the features: no table has a name with a NUL in it
GROUP, WEIGHT, LOG_ODDS, HASH, PEOPLE = "\0group", "\0weight", "\0log-odds", "\0hash", "\0people"
SCORE, QUARTER = "\0score ", "\0quarter"  # a score is followed by its number


class Bound:
    """The largest hash that may still be in a sample: it sinks as batches are seen, and spares those that follow."""

    def __init__(self) -> None:
        self.limit = ALL_HASHES

    def sink(self, sampled: NDArray[np.uint64]) -> None:
        """Take note of the hashes of a sample that others may join: none above theirs will be needed."""
        self.limit = min(self.limit, int(sampled[-1]))


@dataclass(frozen=True, slots=True, eq=False)
class RowSample:
    """Distinct rows with the smallest hashes, how many people each stands for, and whether no other rows exist.

    Which rows these are depends on what they hold alone, not on order, parts or engine. Where a table has few
    distinct rows, the sample is the table.
    """

    frame: pl.DataFrame
    is_complete: bool
    bound: Bound = field(default_factory=Bound)

    def __add__(self, other: RowSample) -> RowSample:
        frame = pl.concat([self.frame, other.frame])
        index, people, is_all = _lowest(frame[HASH].to_numpy(), frame[PEOPLE].to_numpy())
        found = _rows_at(frame, index).with_columns(pl.Series(PEOPLE, people))
        if not is_all:
            self.bound.sink(found[HASH].to_numpy())
        return RowSample(found, is_all and self.is_complete and other.is_complete, self.bound)


def _rows_at(frame: pl.DataFrame, index: Integers) -> pl.DataFrame:
    return frame[pl.Series(index, dtype=pl.UInt32)]  # with an array, Polars first looks for negative places


def _lowest(hashes: NDArray[np.uint64], people: Integers) -> tuple[Integers, Integers, bool]:
    """Return where the lowest distinct hashes first are, in order, their people, and whether there are no others."""
    place = np.arange(len(hashes))
    if len(hashes) > MANY:  # of so many, often few are distinct
        rows = pl.DataFrame({"hash": hashes, "people": people, "place": place})
        found = rows.group_by("hash").agg(pl.col("people").sum(), pl.col("place").min())
        hashes, people, place = (found[name].to_numpy() for name in found.columns)
    order = np.argsort(hashes)
    starts = _first_of_equals(hashes[order])
    first, crowd = np.minimum.reduceat(place[order], starts), np.add.reduceat(people[order], starts)
    return first[:SAMPLED], crowd[:SAMPLED], len(starts) <= SAMPLED


def _first_of_equals(ordered: NDArray[np.uint64]) -> NDArray[np.intp]:
    return np.flatnonzero(np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]]))


@dataclass(frozen=True, slots=True, eq=False)
class GroupSample:
    """Rows of each group with the smallest hashes. Unlike in a `RowSample`, of equal rows each is drawn for itself."""

    frame: pl.DataFrame

    def __add__(self, other: GroupSample) -> GroupSample:
        return _nearest(pl.concat([self.frame, other.frame]))

    def of(self, *groups: str) -> pl.DataFrame:
        """Return the rows of some groups, sorted by their hashes, and a quarter for each, by turns within a group."""
        turn = (pl.int_range(pl.len()).over(GROUP) % 4).alias(QUARTER)
        return self.frame.filter(pl.col(GROUP).is_in(groups)).sort(HASH, GROUP).with_columns(turn)


def _nearest(frame: pl.DataFrame) -> GroupSample:
    most = min(FITTED_ROWS, MOST_FITTED // max(frame[GROUP].n_unique(), 1))
    if frame.height <= most:
        return GroupSample(frame)
    return GroupSample(frame.filter(pl.col(HASH).rank("ordinal").over(GROUP) <= most))


@dataclass(frozen=True, slots=True, eq=False)
class SampleRows:
    """Rows that samples are drawn from.

    Attributes
    ----------
    codes, labels
        The group of each row, and what each code stands for.
    weights
        None where all are 1.
    scores
        (m, n).
    placed
        Features by their distinct values, where these are few.
    """

    features: pl.DataFrame
    codes: Integers
    labels: pl.Series
    weights: Floats | None
    log_odds: Floats
    scores: Floats
    placed: Mapping[str, Placed | None] = field(default_factory=dict)

    def at(self, places: Integers, **others: NDArray[Any]) -> pl.DataFrame:
        """Return the rows at some places as samples hold them, with columns beside."""
        ones = np.ones(len(places))
        columns = {
            GROUP: self.labels.gather(self.codes[places]),
            WEIGHT: ones if self.weights is None else self.weights[places],
            LOG_ODDS: self.log_odds[places],
            **{f"{SCORE}{y}": column[places] for y, column in enumerate(self.scores)},
        }
        parts = (pl.Series(name, column) for name, column in (columns | others).items())
        return _rows_at(self.features, places).with_columns(*parts)

    def hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row; kinds that differ from engine to engine are hashed as one."""
        columns = [_hashable(one, self.placed.get(one.name)) for one in self.features.get_columns()]
        columns.append(_Hashable(self.codes, _bits_of(self.labels)))
        numbers = (ONE if self.weights is None else self.weights, self.log_odds, *self.scores)
        columns += [_Hashable(column) for column in numbers]
        return _hashed(columns, len(self.codes))


def group_sample(rows: SampleRows) -> GroupSample:
    """Return a sample of each group in a batch."""
    hashes = single_hashes(rows)
    return _nearest(rows.at(np.arange(len(hashes)), **{HASH: hashes}))


def single_hashes(rows: SampleRows) -> NDArray[np.uint64]:
    """Return a hash of each row that equal rows do not share, in one batch or in two: people are drawn one by one.

    It depends on who else of its group is in the batch, so a row has the same one in every pass that cuts the same
    batches.
    """
    hashes = rows.hashes()
    order = np.argsort(hashes, kind="stable")
    starts = _first_of_equals(hashes[order])
    turn = np.empty(len(order), dtype=np.int64)
    turn[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    frame = pl.DataFrame({"row": hashes, "turn": turn, GROUP: rows.codes})
    in_batch = frame.with_columns(pl.col("row").sum().over(GROUP).alias("batch")).drop(GROUP)
    return in_batch.hash_rows(seed=0).to_numpy()


def sampled(rows: SampleRows, bound: Bound) -> tuple[RowSample, int]:
    """Return the rows with the smallest hashes, those above the bound left out, and Σ of all hashes, modulo 2^64."""
    hashes, most = rows.hashes(), bound.limit
    enough = ALL_HASHES * 6 * SAMPLED // (5 * max(len(hashes), 1))  # where all rows differ
    limit = min(most, enough) if most == ALL_HASHES else most
    while True:
        near = np.flatnonzero(hashes <= np.uint64(limit))
        index, people, is_all = _lowest(hashes[near], np.ones(len(near), dtype=np.int64))
        if limit == most or not is_all:
            break
        limit = min(most, 6 * SAMPLED * limit // (5 * max(len(index), 1)))
    picked = near[index]
    if not is_all:
        bound.sink(hashes[picked])
    frame = rows.at(picked, **{HASH: hashes[picked], PEOPLE: people})
    return RowSample(frame, is_all and limit == ALL_HASHES, bound), int(hashes.sum())


class _Hashable(NamedTuple):
    """A column that is hashed: numbers, bits, or the places of each row's bits in a table."""

    values: NDArray[Any]
    table: NDArray[np.uint64] | None = None


def _hashable(column: pl.Series, found: Placed | None) -> _Hashable:
    if found is not None:
        return _Hashable(found.places, _bits_of(found.values))
    return _Hashable(_bits_of(column) if _is_text(column) else _numbers(column))


def _hashed(columns: Sequence[_Hashable], rows: int) -> NDArray[np.uint64]:
    """Return Σ of each column's bits, mixed in a way of its own, and mixed again.

    High bits are folded down first: multiplied by an odd number, the sign of a float would stay where it is, and rows
    that differ by the signs of two columns would often have the same hash.
    """
    factors = ODD ** np.arange(1, 2 * len(columns), 2, dtype=np.uint64)  # odd, and all different
    both = list(zip(columns, factors, strict=True))
    tables = [None if one.table is None else _mixed(one.table, factor) for one, factor in both]
    hashes = np.zeros(rows, dtype=np.uint64)
    for part in chunks(rows, CHUNK):
        found = hashes[part]
        for (column, factor), table in zip(both, tables, strict=True):
            values = column.values[part] if len(column.values) > 1 else column.values  # one stands for all rows
            found += _mixed(_bits(values), factor) if table is None else table.take(values)
        _mix(_mix(found))
    return hashes


def _mixed(bits: NDArray[np.uint64], factor: np.uint64) -> NDArray[np.uint64]:
    folded = bits >> HALF
    folded ^= bits
    folded *= factor
    return _mix(folded)


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Let each bit change about half of the others, in place."""
    bits ^= bits >> HALF
    bits *= ODD
    bits ^= bits >> HALF
    return bits


def _bits_of(values: pl.Series) -> NDArray[np.uint64]:
    """Return the hashes of texts, or the bits of numbers."""
    return values.cast(pl.String).hash().to_numpy() if _is_text(values) else _bits(_numbers(values))


def _is_text(column: pl.Series) -> bool:
    return not (column.dtype.is_numeric() or column.dtype.is_temporal() or column.dtype == pl.Boolean)


def _numbers(column: pl.Series) -> Floats:
    if column.dtype.is_temporal():
        column = column.cast(pl.Datetime("us")).to_physical()
    return column.cast(pl.Float64).to_numpy()


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return bits as they are, or those of numbers to nine decimals; equal numbers of any kind have the same."""
    if values.dtype == np.uint64:
        return values
    with np.errstate(over="ignore"):
        rounded = values * BILLION
    np.rint(rounded, out=rounded)
    rounded += 0.0  # −0 is 0
    return rounded.view(np.uint64)
