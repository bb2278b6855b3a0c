"""Held-out rows, on which a repair is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Integers, Rows
from tiltlens.limits import MINIMUM_ROWS
from tiltlens.paper.checks import Floats
from tiltlens.repair.columns import RepairTable, check_clusters, condition_notes, meets
from tiltlens.repair.new_rows import beyond_notes, unseen_notes, values_beyond
from tiltlens.rows.groups import JOINT
from tiltlens.sources.messages import shown

if TYPE_CHECKING:
    from tiltlens.repair.score_tilt import ScoreTilt


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutColumns:
    """A table and its columns, each by name or as an array; and the group and class to evaluate."""

    data: Any
    scores: Any
    group: Any
    outcome: Any = None
    sample_weight: Any = None
    clusters: Any = None
    audited: str | None = None
    score_class: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Rows of an audited group and the reference that no model was fitted on."""

    frame: pl.DataFrame
    group_name: str  # the column of groups, for readers
    labels: NDArray[np.str_]
    scores: Floats
    outcome: Integers | None
    rows: Rows
    notes: tuple[str, ...] = ()


def read_held_out(tilt: ScoreTilt, given: HeldOutColumns, audited: str) -> HeldOutRows:
    """Return the rows of an audited group and the reference that meet the conditions of the audit."""
    table = RepairTable(given.data)
    labels, scores = table.texts("group", given.group), table.scores("scores", given.scores, tilt.classes)
    outcome = None if given.outcome is None else table.outcomes("outcome", given.outcome)
    weights, clusters = table.weights("sample_weight", given.sample_weight), table.clusters("clusters", given.clusters)
    is_compared, is_met = (labels == audited) | (labels == tilt.reference), meets(table.frame, tilt.given)
    keep = is_compared & (weights > 0.0) & is_met
    is_audited = labels[keep] == audited
    _check_sizes(int(is_audited.sum()), int((~is_audited).sum()), audited, tilt.reference)
    frame = tilt.declared.applied(table.frame.filter(keep))
    outcome, clusters = (None if column is None else column[keep] for column in (outcome, clusters))
    rows = Rows.of(is_audited, weights[keep], clusters)
    check_clusters(rows, (audited, tilt.reference))
    outside, compared = int((is_compared & ~is_met).sum()), int(is_compared.sum())
    notes = (
        *condition_notes(tilt.given, table.frame.columns, outside, compared, "they are left out"),
        *check_not_audited(tilt, frame, labels[keep], scores[keep], outcome, clusters),
        *unseen_notes(tilt.unseen_levels(frame), frame.height),
        *beyond_notes(values_beyond(tilt.table(frame), tilt.ranges), frame.height, tilt.ranges),
    )
    return HeldOutRows(
        frame=frame,
        group_name=_group_name(given.group, table.frame.columns),
        labels=labels[keep],
        scores=scores[keep],
        outcome=outcome,
        rows=rows,
        notes=notes,
    )


def check_not_audited(
    tilt: ScoreTilt,
    frame: pl.DataFrame,
    labels: NDArray[np.str_],
    scores: Floats,
    outcome: Integers | None,
    clusters: Integers | None,
) -> list[str]:
    """Raise where rows were audited; return notes on rows that equal others."""
    tilt.table(frame)
    groups = [tilt.reference, *tilt.groups]
    codes = np.select([labels == name for name in groups], np.arange(len(groups)))
    return tilt.row_index.check(frame, scores, codes, outcome, clusters)


def _check_sizes(audited: int, reference: int, audited_name: str, reference_name: str) -> None:
    if min(audited, reference) < MINIMUM_ROWS:
        raise DataError(
            f"`held_out` must have {MINIMUM_ROWS} rows of each group at least, got {audited} and {reference}.",
            f"the groups are {shown(audited_name)} and {shown(reference_name)}: bring more rows of them.",
        )


def _group_name(group: Any, columns: list[str]) -> str:
    if isinstance(group, str):
        return group
    is_crossed = isinstance(group, (list, tuple)) and all(name in columns for name in group)
    return JOINT.join(group) if is_crossed else "group"
