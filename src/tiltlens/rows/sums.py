"""The second pass: sums over all rows, of each group and of each value of a feature.

Rows that were all sampled are summed where they are; others are read again. One function makes
the sums of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.estimators.error_rates import UNKNOWN
from tiltlens.estimators.feature_gap import CellSums
from tiltlens.estimators.influence import Integers
from tiltlens.paper.checks import Floats
from tiltlens.paper.moments import GroupMoments
from tiltlens.rows.amounts import Unit
from tiltlens.rows.batch_rows import reading
from tiltlens.rows.levels import Levels
from tiltlens.rows.periods import period_codes
from tiltlens.rows.roles import ColumnRoles
from tiltlens.sources.arrays import chunked_moments
from tiltlens.sources.messages import shown


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Sums over all rows of some groups, added with `+`.

    Attributes
    ----------
    moments
        Of (ℓ, W_1, …) in each group; ℓ is 0 where no membership is given.
    amounts
        Of the amount in each group; none where scores are probabilities.
    square
        Σ w² of each group.
    exponential
        Σ w·e^ℓ·(1, ℓ, W_1, …) of each group, the exponent less `shift`; (groups, 0) where no membership is given.
    cells
        Sums by value of each feature that has few, one line for each group.
    truth, periods
        Sums by true outcome, 0, 1 and not known; and by period, the last of those without. None where none is given.
    """

    moments: tuple[GroupMoments, ...]
    amounts: tuple[GroupMoments, ...]
    square: Floats
    exponential: Floats
    shift: float
    cells: dict[str, CellSums]
    truth: CellSums | None = None
    periods: CellSums | None = None

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(
            tuple(one + more for one, more in zip(self.moments, other.moments, strict=True)),
            tuple(one + more for one, more in zip(self.amounts, other.amounts, strict=True)),
            self.square + other.square,
            self.exponential + other.exponential,
            self.shift,
            {name: one + other.cells[name] for name, one in self.cells.items()},
            None if self.truth is None or other.truth is None else self.truth + other.truth,
            None if self.periods is None or other.periods is None else self.periods + other.periods,
        )


@dataclass(frozen=True, slots=True, eq=False)
class SumRows:
    """Rows of compared groups that are summed: `group` holds a code per row, `weights` is None where all are 1."""

    group: Integers
    weights: Floats | None
    log_odds: Floats | None
    scores: Floats
    outcome: Floats
    codes: Mapping[str, Integers]
    truth: Integers | None = None
    is_amount: bool = False
    period: Integers | None = None
    periods: int = 0  # how many there are


def group_sums(rows: SumRows, groups: int, sizes: Mapping[str, int], shift: float) -> GroupSums:
    """Return the sums of some rows; `sizes` are the numbers of each feature's values."""
    ell = np.broadcast_to(0.0, len(rows.group)) if rows.log_odds is None else rows.log_odds
    columns = [ell, *(rows.scores[:, 1:].T if rows.scores.ndim == 2 else [rows.scores])]
    w = np.ones(len(rows.group)) if rows.weights is None else rows.weights
    exponential = np.zeros((groups, 0))
    if rows.log_odds is not None:
        tilt = w * np.exp(ell - shift)
        lines = (tilt, *(tilt * column for column in columns))
        exponential = np.column_stack([np.bincount(rows.group, line, groups) for line in lines])
    return GroupSums(
        tuple(chunked_moments(columns, rows.group, groups, rows.weights)),
        tuple(chunked_moments([rows.outcome], rows.group, groups, rows.weights)) if rows.is_amount else (),
        np.bincount(rows.group, w**2, groups).astype(np.float64),
        exponential,
        shift,
        {name: cell_sums(rows, codes, groups, sizes[name]) for name, codes in rows.codes.items()},
        None if rows.truth is None else cell_sums(rows, rows.truth, groups, UNKNOWN + 1),
        None if rows.period is None else cell_sums(rows, rows.period, groups, rows.periods + 1),
    )


def cell_sums(rows: SumRows, codes: Integers, groups: int, values: int) -> CellSums:
    """Return the sums by group and value of a feature: people, Σ w, Σ w², Σ w·W and Σ w·W²."""
    key, size = rows.group * values + codes, groups * values

    def total(column: Floats | None) -> Floats:
        return np.bincount(key, column, size).astype(np.float64).reshape(groups, values)

    people = total(None)
    if rows.weights is None:
        return CellSums(people, people, people, total(rows.outcome), total(rows.outcome**2))
    w = rows.weights
    return CellSums(people, total(w), total(w**2), total(w * rows.outcome), total(w * rows.outcome**2))


@dataclass(frozen=True, slots=True, eq=False)
class SumPlan:
    """How the rows of a batch are summed. It travels to every worker."""

    roles: ColumnRoles
    groups: tuple[str, ...]
    levels: tuple[Levels, ...]
    favourable: int
    largest_weight: float
    shift: float
    unit: Unit
    periods: tuple[str, ...] | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """How many values each feature has."""
        return {levels.name: len(levels.labels) for levels in self.levels}


def summed(plan: SumPlan, table: pl.DataFrame) -> GroupSums:
    """Return what one batch adds to the sums."""
    rows = reading(plan.roles, table)
    code = {label: number for number, label in enumerate(plan.groups)}
    group = np.array([code.get(label, -1) for label in rows.labels], dtype=np.int64)[rows.group]
    keep = np.flatnonzero(group >= 0)
    is_all = keep.size == group.size

    def kept(column: Any) -> Any:
        return column if is_all else column[keep]

    scores = kept(rows.scores)
    outcome = scores if scores.ndim == 1 else scores[:, plan.favourable]
    if plan.unit.is_amount:
        scores, outcome = plan.unit.channel(scores), plan.unit.seen(scores)
    kept_table = rows.table if is_all else rows.table[pl.Series(keep, dtype=pl.UInt32)]
    return group_sums(
        SumRows(
            kept(group),
            kept(rows.weights) / plan.largest_weight if plan.roles.is_weighted else None,
            None if rows.log_odds is None else kept(rows.log_odds),
            scores,
            outcome,
            {levels.name: levels.codes(kept_table[levels.name]) for levels in plan.levels},
            None if rows.truth is None else kept(rows.truth),
            plan.unit.is_amount,
            None if plan.periods is None or rows.period is None else period_codes(kept(rows.period), plan.periods),
            len(plan.periods or ()),
        ),
        len(plan.groups),
        plan.sizes,
        plan.shift,
    )


def check_same_rows(counts: Mapping[str, int], labels: Sequence[str], sums: GroupSums) -> None:
    """Raise if the sums have other numbers of rows than the survey, as with a query that draws rows at random."""
    for label, moments in zip(labels, sums.moments, strict=True):
        if moments.rows != counts[label]:
            raise DataError(
                f"`data` must have the same rows each time it is read, got {counts[label]:,} and then "
                f"{moments.rows:,} of {shown(label)}.",
                "write what a query draws by chance, or what others still write to, to a file first.",
            )
