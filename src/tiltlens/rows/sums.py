"""The second pass: sums over all rows, of each group and of each value of a feature.

Rows that were all sampled are summed where they are; others are read again. One function makes
the sums of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tiltlens.errors import DataError, shown
from tiltlens.estimators.feature_gap import CellSums
from tiltlens.estimators.influence import Integers
from tiltlens.paper.checks import Floats
from tiltlens.paper.moments import GroupMoments
from tiltlens.rows.batch_rows import read_batch
from tiltlens.rows.groups import NO_GROUP
from tiltlens.rows.levels import Levels
from tiltlens.rows.measures import Unit
from tiltlens.rows.roles import ColumnRoles
from tiltlens.rows.sampled_rows import Labels, SampledRows, SampleFacts, count_codes, encode_columns
from tiltlens.sources.arrays import chunked_moments


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Sums over all rows of some groups, added with `+`."""

    moments: tuple[GroupMoments, ...]  # of (ℓ, W_1, …) in each group; ℓ is 0 where no membership is given
    amounts: tuple[GroupMoments, ...]  # of the amount in each group; none where scores are probabilities
    square: Floats  # Σ w² of each group
    # Σ w·e^ℓ·(1, ℓ, W_1, …) of each group, the exponent less `shift`; (groups, 0) where no membership is given
    exponential: Floats
    shift: float
    cells: dict[str, CellSums]  # sums by value of each feature that has few, one line for each group
    # Sums by the codes of optional columns of the rows, such as the observed outcome and the period
    by_column: dict[str, CellSums]

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(
            moments=tuple(part + more for part, more in zip(self.moments, other.moments, strict=True)),
            amounts=tuple(part + more for part, more in zip(self.amounts, other.amounts, strict=True)),
            square=self.square + other.square,
            exponential=self.exponential + other.exponential,
            shift=self.shift,
            cells={name: sums + other.cells[name] for name, sums in self.cells.items()},
            by_column={name: sums + other.by_column[name] for name, sums in self.by_column.items()},
        )


def sum_rows(rows: SampledRows, sizes: Mapping[str, int], shift: float) -> GroupSums:
    """Return the sums of some rows; `sizes` are the numbers of each feature's values."""
    groups, weights = len(rows.groups), rows.weights if rows.facts.is_weighted else None
    ell = np.broadcast_to(0.0, len(rows.group)) if rows.log_odds is None else rows.log_odds
    columns = [ell, *rows.free_scores]
    w = np.ones(len(rows.group)) if weights is None else weights
    exponential = np.zeros((groups, 0))
    if rows.log_odds is not None:
        tilt = w * np.exp(ell - shift)
        lines = (tilt, *(tilt * column for column in columns))
        exponential = np.column_stack([np.bincount(rows.group, line, groups) for line in lines])
    amounts = chunked_moments([rows.score], rows.group, groups, weights) if rows.unit.is_amount else ()
    return GroupSums(
        moments=tuple(chunked_moments(columns, rows.group, groups, weights)),
        amounts=tuple(amounts),
        square=np.bincount(rows.group, w**2, groups).astype(np.float64),
        exponential=exponential,
        shift=shift,
        cells={name: cell_sums(rows, codes, sizes[name]) for name, codes in rows.value_codes.items()},
        by_column={name: cell_sums(rows, rows.columns[name], count) for name, count in count_codes(rows).items()},
    )


def cell_sums(rows: SampledRows, codes: Integers, values: int) -> CellSums:
    """Return the sums by group and value of a feature: people, Σ w, Σ w², Σ w·W and Σ w·W²."""
    groups = len(rows.groups)
    key, size = rows.group * values + codes, groups * values

    def total(column: Floats | None) -> Floats:
        return np.bincount(key, column, size).astype(np.float64).reshape(groups, values)

    people = total(None)
    if not rows.facts.is_weighted:
        return CellSums(people, people, people, total(rows.score), total(rows.score**2))
    w = rows.weights
    return CellSums(people, total(w), total(w**2), total(w * rows.score), total(w * rows.score**2))


@dataclass(frozen=True, slots=True, eq=False)
class SumPlan:
    """How the rows of a batch are summed. It travels to every worker."""

    roles: ColumnRoles
    groups: Labels
    levels: tuple[Levels, ...]
    labels: Mapping[str, Labels]  # of the codes of optional columns
    unit: Unit
    largest_weight: float
    shift: float

    @property
    def sizes(self) -> dict[str, int]:
        """How many values each feature has."""
        return {levels.name: len(levels.labels) for levels in self.levels}


def sum_batch(plan: SumPlan, table: pl.DataFrame) -> GroupSums:
    """Return what one batch adds to the sums."""
    batch = read_batch(plan.roles, table, for_sums=True)
    index = np.flatnonzero(batch.rows.code_groups(plan.groups) != NO_GROUP)
    kept = batch.table if index.size == batch.table.height else batch.table[pl.Series(index, dtype=pl.UInt32)]
    rows = batch.rows.recode(plan.groups)
    rows = replace(
        rows.in_unit(plan.unit) if plan.unit.is_amount else rows,
        weights=rows.weights / plan.largest_weight if plan.roles.is_weighted else rows.weights,
        columns=encode_columns(rows.columns, plan.labels),
        labels=plan.labels,
        value_codes={levels.name: levels.codes(kept[levels.name]) for levels in plan.levels},
        facts=SampleFacts(is_weighted=plan.roles.is_weighted),
    )
    return sum_rows(rows, plan.sizes, plan.shift)


def check_same_rows(counts: Mapping[str, int], labels: Sequence[str], sums: GroupSums) -> None:
    """Raise if the sums have other numbers of rows than the survey, as with a query that draws rows at random."""
    for label, moments in zip(labels, sums.moments, strict=True):
        if moments.rows != counts[label]:
            raise DataError(
                f"`data` must have the same rows each time it is read, got {counts[label]:,} and then "
                f"{moments.rows:,} of {shown(label)}.",
                "write what a query draws by chance, or what others still write to, to a file first.",
            )
