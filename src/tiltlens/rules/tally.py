"""Count people by group, stratum and outcome, batch by batch, and find the median of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats
from tiltlens.results.provenance import fingerprint_of
from tiltlens.rows.batch_rows import row_name
from tiltlens.rows.roles import OUTCOME, PEOPLE, must_be_column
from tiltlens.rules.outcomes import Asked, checked_numbers, checked_outcome
from tiltlens.sources.batches import Batches, FrameBatches, checked_columns
from tiltlens.sources.columns import check_index, column_of_values
from tiltlens.sources.opening import frame_of

MOST_TALLIED = 2_000_000  # kinds of people that are counted: more are keys, and fill the memory


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """How many rows are alike, added with `+`.

    Attributes
    ----------
    read, fingerprint
        Rows, and the sum of their hashes modulo 2^64.
    people
        The distinct rows of groups, strata and `OUTCOME`, and how many `PEOPLE` are each.
    """

    read: int
    fingerprint: int
    people: pl.DataFrame

    def __add__(self, other: Tally) -> Tally:
        both = pl.concat([self.people, other.people], how="vertical_relaxed")
        return Tally(self.read + other.read, (self.fingerprint + other.fingerprint) % 2**64, _summed(both))


def _summed(people: pl.DataFrame) -> pl.DataFrame:
    keys = [name for name in people.columns if name != PEOPLE]
    counts = people.group_by(keys).agg(pl.col(PEOPLE).sum())
    if counts.height > MOST_TALLIED:
        raise DataError(
            f"`group` and `strata` must have at most {MOST_TALLIED:,} values together, got more.",
            "name columns that many people share: a key is neither a group nor a stratum.",
        )
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Any data as batches: the columns of its own, and where the outcome is."""

    batches: Batches
    columns: tuple[str, ...]
    outcome: str

    @property
    def read(self) -> list[str]:
        """All that is read."""
        return list(dict.fromkeys([*self.columns, self.outcome]))


def opened(data: Any, batches: Batches | None, columns: Sequence[str], spec: Asked) -> Source:
    """Return the data as batches; an outcome that is an array becomes a column of data in memory."""
    value = spec.value
    outcome = value if isinstance(value, str) else OUTCOME
    if batches is not None:
        if outcome == OUTCOME:
            raise must_be_column(spec.argument, value)
        return Source(batches, (*checked_columns(batches, columns),), outcome)
    frame = frame_of(data, columns)
    own = checked_columns(FrameBatches(frame), columns)
    frame = frame.select(own)
    if outcome == OUTCOME:
        check_index(spec.argument, value, data)
        frame = frame.with_columns(column_of_values(spec.argument, value, frame.height).alias(OUTCOME))
    return Source(FrameBatches(frame), (*own,), outcome)


def tallied(source: Source, keys: Sequence[str], spec: Asked) -> tuple[Tally, tuple[float, float] | None]:
    """Return how many people are alike; of scores, which side of the middle they are on, and the two middle scores."""
    middle = None if spec.is_selection else _middle(source, spec)
    step = partial(_counted, source.columns, source.outcome, tuple(keys), spec, middle)
    return source.batches.fold(source.read, step), middle


def _counted(
    columns: tuple[str, ...],
    name: str,
    keys: tuple[str, ...],
    spec: Asked,
    middle: tuple[float, float] | None,
    table: pl.DataFrame,
) -> Tally:
    """Return what one batch adds. Its arguments travel to every worker."""
    column = table[name]
    checked_outcome(spec, column, row_name(table))
    outcome = column if middle is None else _sides(checked_numbers(spec, column), *middle)
    rows = table.select(keys).with_columns(outcome.alias(OUTCOME), pl.lit(1, pl.Int64).alias(PEOPLE))
    return Tally(table.height, fingerprint_of(table.select(columns)), _summed(rows))


def _sides(numbers: Floats, low: float, high: float) -> pl.Series:
    """Return −1 below the middle, 1 above it and 0 for a tie with it; null where the score is missing.

    Nobody lies between the two middle scores, so these comparisons are free of the rounding of their mean.
    """
    side = (numbers > low).astype(np.int8) - (numbers < high).astype(np.int8)
    return pl.select(pl.when(pl.Series(~np.isnan(numbers))).then(pl.Series(side))).to_series()


def _middle(source: Source, spec: Asked) -> tuple[float, float]:
    """Return the two middle scores, equal for an odd number of scores. The one column is held in memory."""
    parts: list[Floats] = source.batches.fold([source.outcome], partial(_known_numbers, source.outcome, spec))
    numbers = np.concatenate(parts)
    if not numbers.size:
        return np.nan, np.nan
    ranks = ((numbers.size - 1) // 2, numbers.size // 2)
    low, high = np.partition(numbers, ranks)[list(ranks)].tolist()
    return low, high


def _known_numbers(outcome: str, spec: Asked, table: pl.DataFrame) -> list[Floats]:
    """Return the scores of a batch that are not missing, as a list so that batches add up by `+`."""
    checked_outcome(spec, table[outcome], row_name(table))
    numbers = checked_numbers(spec, table[outcome])
    return [numbers[~np.isnan(numbers)]]
