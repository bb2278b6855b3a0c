"""The rows of a batch that are kept, and the second pass: sums over all rows by group and by value of a feature.

If the sample is complete its rows are summed, otherwise the data are read again. One function computes both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._estimators.error_rates import UNKNOWN as OUTCOME_MISSING
from tiltlens._estimators.feature_gap import CellSums
from tiltlens._estimators.influence import Integers
from tiltlens._rows.groups import (
    CRITERIA,
    DECIDED,
    NO_GROUP,
    Meant,
    check_sample_weight,
    equals_mask,
    factorize_groups,
    group_chances,
    outcome_codes,
    outcome_names,
    wrong_decisions,
)
from tiltlens._rows.levels import Levels
from tiltlens._rows.roles import ColumnRoles
from tiltlens._rows.sampled_rows import (
    ColumnValues,
    Labels,
    SampledRows,
    SampleFacts,
    count_codes,
    encode_columns,
    read_columns,
)
from tiltlens._rows.scores import Channel, RowName
from tiltlens._rows.wording import NOT_GIVEN, Unit
from tiltlens._sources.arrays import chunked_moments, factorize_texts
from tiltlens._sources.batches import ROW
from tiltlens.errors import DataError, shown
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import GroupMoments

Booleans = NDArray[np.bool_]
ONE_AT_A_TIME = Lock()  # a user's model may not be made for several threads


@dataclass(frozen=True, slots=True, eq=False)
class BatchRows:
    """The rows of a batch that are kept."""

    # The rows, and the columns of their table. Without weights, one number is broadcast to all rows.
    rows: SampledRows
    table: pl.DataFrame
    channel: Channel  # the scores of the whole batch
    # The number of rows read, of rows left out by reason, and of rows without a group
    read: int
    left_out: dict[str, int]
    without_group: int
    # The values of the observed outcome, and which outcome each stands for; None where none is given
    outcome_values: Meant | None
    source: NDArray[np.intp] | None = None  # for unobserved groups: the row of which each is a copy, from 0

    @property
    def people(self) -> Floats:
        """The number of people of each group: rows, or the sum of their probabilities."""
        group, size, probabilities = self.rows.group, len(self.rows.groups), self.rows.probabilities
        if probabilities is None:
            return np.bincount(group, minlength=size).astype(np.float64)
        return np.asarray(np.bincount(group, probabilities[np.arange(group.size), group], size), dtype=np.float64)

    @property
    def score_columns(self) -> Floats:
        """(m, n): one row for each column of scores."""
        return np.atleast_2d(self.rows.scores.T)


def read_batch(roles: ColumnRoles, table: pl.DataFrame, for_sums: bool = False) -> BatchRows:
    """Return the rows of a batch that are kept; `for_sums` without the columns that sums do not need."""
    named = row_name(table)
    with nullcontext() if roles.model is None else ONE_AT_A_TIME:
        channel = roles.channel(table, table, roles.model, named)
    y_true, values = _read_outcomes(roles, table, channel)
    is_other = _is_other(roles, channel, y_true)
    if roles.metric == "fnr":
        channel = channel.reversed()
    elif roles.metric in DECIDED and y_true is not None:
        channel = wrong_decisions(roles.metric, channel, y_true)
    weights = check_sample_weight(roles.sample_weight, table, named)
    keep, left_out = _keep_rows(roles, table, channel, weights, is_other)
    columns: dict[str, ColumnValues] = {} if y_true is None else {"y_true": y_true}
    groups = roles.soft
    if roles.soft:
        columns["probabilities"] = group_chances(roles.group, table, named)
        group = np.where(columns["probabilities"].sum(axis=1) > 0.0, 0, NO_GROUP)  # NaN is not above 0
    else:
        group, groups = _read_groups(roles, table)
    without_group = int((keep & (group == NO_GROUP)).sum())
    keep &= group != NO_GROUP
    scores = channel.scores
    score = scores if scores.ndim == 1 else scores[:, channel.favourable]
    rows = SampledRows(groups, group, weights, scores, score, columns, favourable=channel.favourable)
    if not keep.all():
        table, rows = table.filter(keep), rows.take(np.flatnonzero(keep))
    kept = roles.declared.applied(table, roles.sources if roles.keeps_inputs else ())
    rows = replace(rows, columns={**rows.columns, **read_columns(roles, kept, for_sums)})
    batch = BatchRows(rows, kept, channel, keep.size, left_out, without_group, outcome_values=values)
    return _copy_by_group(batch) if roles.soft else batch


def _copy_by_group(batch: BatchRows) -> BatchRows:
    """Return a copy of each row for each group that it may belong to, weighted by the probability."""
    probabilities = np.asarray(batch.rows.probabilities)
    group, source = np.nonzero(probabilities.T)
    copies = batch.rows.take(source)
    rows = replace(copies, group=group, weights=copies.weights * probabilities[source, group])
    return replace(batch, rows=rows, table=batch.table[pl.Series(source, dtype=pl.UInt32)], source=source)


def row_name(table: pl.DataFrame) -> RowName:
    """Return a function that names a row in messages: by its number in the table, where rows have an order."""
    if ROW in table.columns:
        return lambda row: f"row {table[ROW][row]}"
    return "row {} of a batch".format


def _read_groups(roles: ColumnRoles, table: pl.DataFrame) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a code per row, `NO_GROUP` where it has none, and the label of each code."""
    columns = [table[name] for name in roles.group]
    if len(columns) == 1 and columns[0].dtype == pl.String:
        texts, codes = factorize_texts(columns[0], first=0, missing=NO_GROUP)
        return codes, tuple(texts)
    return factorize_groups(roles.name, columns)


def _read_outcomes(roles: ColumnRoles, table: pl.DataFrame, channel: Channel) -> tuple[Integers | None, Meant | None]:
    if roles.label is None:
        return None, None
    return outcome_codes(table[roles.label], outcome_names(channel, roles.favourable))


def _is_other(roles: ColumnRoles, channel: Channel, y_true: Integers | None) -> dict[str, Booleans]:
    """Return the rows to which a metric does not apply: without an outcome, or with another outcome or decision."""
    if roles.metric is None or y_true is None:
        return {}
    has_outcome = y_true != OUTCOME_MISSING
    if roles.metric in CRITERIA:
        other = {"other_outcome": has_outcome & (y_true != CRITERIA[roles.metric])}
    else:
        other = {"other_decision": has_outcome & ~channel.missing & (channel.scores != DECIDED[roles.metric])}
    return {"missing_outcome": ~has_outcome, **other}


def _keep_rows(
    roles: ColumnRoles, table: pl.DataFrame, channel: Channel, weights: Floats, is_other: dict[str, Booleans]
) -> tuple[Booleans, dict[str, int]]:
    """Return which rows are kept, and the number left out by reason; a row is counted under the first that applies."""
    keep, left_out = np.ones(table.height, dtype=np.bool_), {}
    reasons = {f"{NOT_GIVEN}{column}": ~equals_mask(table[column], value) for column, value in roles.where.items()}
    for reason, rows in (reasons | is_other | {"missing_score": channel.missing, "zero_weight": weights == 0}).items():
        left_out[reason] = int((keep & rows).sum())
        keep &= ~rows
    return keep, left_out


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Sums over all rows of some groups, added with `+`."""

    moments: tuple[GroupMoments, ...]  # of (ℓ, W_1, …) in each group; ℓ is 0 where no membership is given
    amounts: tuple[GroupMoments, ...]  # of the amount in each group; none where scores are probabilities
    square: Floats  # Σ w² of each group
    # Σ w·e^(ℓ − shift)·(1, ℓ, W_1, …) of each group; (groups, 0) if no membership is given
    exponential: Floats
    shift: float
    cells: dict[str, CellSums]  # sums by value of each countable feature, one line per group
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
    """The inputs for summing the rows of a batch. It is sent to every worker."""

    roles: ColumnRoles
    groups: Labels
    levels: tuple[Levels, ...]
    labels: Mapping[str, Labels]  # of the codes of optional columns
    unit: Unit
    largest_weight: float
    shift: float

    @property
    def sizes(self) -> dict[str, int]:
        """The number of values of each feature."""
        return {levels.name: len(levels.labels) for levels in self.levels}


def sum_batch(plan: SumPlan, table: pl.DataFrame) -> GroupSums:
    """Return the sums of one batch."""
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
    """Raise if the sums have different numbers of rows from the survey, as with a query that draws at random."""
    for label, moments in zip(labels, sums.moments, strict=True):
        if moments.rows != counts[label]:
            raise DataError(
                f"`data` must have the same rows each time it is read, got {counts[label]:,} and then "
                f"{moments.rows:,} of {shown(label)}.",
                "write what a query draws by chance, or what others still write to, to a file first.",
            )
