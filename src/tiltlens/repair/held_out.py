"""Held-out rows, on which an adjustment is evaluated: no model was fitted on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Integers, Rows
from tiltlens.limits import MINIMUM_ROWS
from tiltlens.paper.checks import Floats
from tiltlens.repair.adjustment import Adjustment
from tiltlens.repair.columns import RepairTable, check_clusters, condition_notes, meets
from tiltlens.repair.row_checks import NewRowSums
from tiltlens.rows.features import DesignColumn
from tiltlens.rows.groups import JOINT
from tiltlens.sources.messages import listed, names_in, shown


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Rows of an audited group and the reference that no model was fitted on."""

    frame: pl.DataFrame
    group_name: str  # the column of groups, for readers
    labels: NDArray[np.str_]
    scores: Floats
    outcome: DesignColumn | None
    rows: Rows
    notes: tuple[str, ...] = ()


def read_held_out(
    adjustment: Adjustment,
    data: object,
    audited: str,
    scores: object,
    group: object,
    outcome: object,
    weights: object,
    clusters: object,
) -> HeldOutRows:
    """Return the rows of an audited group and the reference that meet the conditions of the audit.

    Columns are names, or arrays of the length of the table.
    """
    table = RepairTable(data)
    group_name = _group_name(group, table.frame.columns)
    labels, scores = table.texts("group", group), adjustment.read_scores(table.scores(scores))
    outcome = None if (column := table.outcome(outcome)) is None else adjustment.read_outcome(column)
    weights, clusters = table.weights(weights), table.clusters(clusters)
    is_compared, is_met = (labels == audited) | (labels == adjustment.reference), meets(table.frame, adjustment.given)
    keep = is_compared & (weights > 0.0) & is_met
    is_audited = labels[keep] == audited
    _check_sizes(int(is_audited.sum()), int((~is_audited).sum()), audited, adjustment.reference)
    frame = adjustment.declared.applied(table.frame.filter(keep))
    outcome, clusters = (None if column is None else column[keep] for column in (outcome, clusters))
    rows = Rows.of(is_audited, weights[keep], clusters)
    check_clusters(rows, (audited, adjustment.reference))
    outside, compared = int((is_compared & ~is_met).sum()), int(is_compared.sum())
    notes = (
        *condition_notes(adjustment.given, table.frame.columns, outside, compared, "they are left out"),
        *check_not_audited(adjustment, frame, labels[keep], scores[keep], outcome, clusters),
        *adjustment.row_notes(adjustment.row_sums(frame) + NewRowSums(frame.height)),
    )
    return HeldOutRows(
        frame=frame,
        group_name=group_name,
        labels=labels[keep],
        scores=scores[keep],
        outcome=outcome,
        rows=rows,
        notes=notes,
    )


def check_not_audited(
    adjustment: Adjustment,
    frame: pl.DataFrame,
    labels: NDArray[np.str_],
    scores: Floats,
    outcome: DesignColumn | None,
    clusters: Integers | None,
) -> list[str]:
    """Raise where rows were audited; return notes on rows that equal others."""
    adjustment.table(frame)
    labelled = None if outcome is None else np.unique(outcome, return_inverse=True)[1]
    groups = [adjustment.reference, *adjustment.groups]
    codes = np.select([labels == name for name in groups], np.arange(len(groups)))
    return adjustment.row_index.check(frame, scores, codes, labelled, clusters)


def _check_sizes(audited: int, reference: int, audited_name: str, reference_name: str) -> None:
    if min(audited, reference) < MINIMUM_ROWS:
        raise DataError(
            f"`held_out` must have {MINIMUM_ROWS} rows of each group at least, got {audited} and {reference}.",
            f"the groups are {shown(audited_name)} and {shown(reference_name)}: add rows of them.",
        )


def _group_name(group: object, columns: list[str]) -> str:
    names = names_in(group)
    if isinstance(group, str) or names is None or not all(name in columns for name in names):
        return group if isinstance(group, str) else "group"
    return JOINT.join(names)


def audited_group(adjustment: Adjustment, audited: str | None) -> str:
    """Return the group that is compared with the reference."""
    group = adjustment.audited if audited is None else audited
    if group is None or group not in adjustment.groups:
        got = "none" if audited is None else shown(audited)
        raise DataError(
            f"`audited` must be one of {listed(adjustment.groups)}, got {got}.",
            "`evaluate_groups` evaluates each of them.",
        )
    return group
