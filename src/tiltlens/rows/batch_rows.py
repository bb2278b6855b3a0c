"""The rows of a batch that count: their groups, scores, weights and optional columns."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.estimators.error_rates import UNKNOWN as OUTCOME_MISSING
from tiltlens.estimators.influence import Integers
from tiltlens.paper.checks import Floats
from tiltlens.rows.exclusions import NOT_GIVEN
from tiltlens.rows.groups import NO_GROUP, factorize_groups, group_chances
from tiltlens.rows.outcomes import CRITERIA, DECIDED, Meant, outcome_codes, outcome_names, wrong_decisions
from tiltlens.rows.roles import ColumnRoles
from tiltlens.rows.sampled_rows import ColumnValues, SampledRows, read_columns
from tiltlens.rows.scores import Channel, RowName
from tiltlens.rows.weights import check_sample_weight, equals_mask
from tiltlens.sources.arrays import factorize_texts
from tiltlens.sources.batches import ROW

Booleans = NDArray[np.bool_]
ONE_AT_A_TIME = Lock()  # a user's model may not be made for several threads


@dataclass(frozen=True, slots=True, eq=False)
class BatchRows:
    """The rows of a batch that are kept."""

    # The rows, and the columns of their table. Where no weights are given, one number stands for all of them.
    rows: SampledRows
    table: pl.DataFrame
    channel: Channel  # the scores of the whole batch
    # How many rows there were, how many were left out for which reason, and how many have no group
    read: int
    left_out: dict[str, int]
    without_group: int
    # The values of the observed outcome, and which outcome each stands for; None where none is given
    outcome_values: Meant | None
    source: NDArray[np.intp] | None = None  # where groups have probabilities: the row that each copy is of, from 0 on

    @property
    def people(self) -> Floats:
        """How many people each group has: rows, or the sum of their probabilities."""
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
    """Return the rows that a metric is not about: those without an outcome, with another one, or another decision."""
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
    """Return which rows count, and how many do not for which reason; the first reason counts."""
    keep, left_out = np.ones(table.height, dtype=np.bool_), {}
    reasons = {f"{NOT_GIVEN}{column}": ~equals_mask(table[column], value) for column, value in roles.where.items()}
    for reason, rows in (reasons | is_other | {"missing_score": channel.missing, "zero_weight": weights == 0}).items():
        left_out[reason] = int((keep & rows).sum())
        keep &= ~rows
    return keep, left_out
