"""Rows that were not audited: columns by name or as arrays, checks of them, and held-out rows to evaluate on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError, check_columns, listed, names_in, shown
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.formats import text_of
from tiltlens.limits import MINIMUM_ROWS, SCORE_ROUNDING
from tiltlens.paper.checks import Floats
from tiltlens.repair.adjustment import Adjustment
from tiltlens.repair.rows import NewRowSums
from tiltlens.rows.features import DesignColumn
from tiltlens.rows.groups import JOINT, check_sample_weight, equals_mask, factorize_groups
from tiltlens.rows.scores import RowName
from tiltlens.sources.columns import ValuesLike, check_index, column_of_values
from tiltlens.sources.engines import collected


class RepairTable:
    """A table of rows to repair, whose columns are given by name or as arrays of its length."""

    def __init__(self, data: object) -> None:
        self._given = data
        self.frame = collected(data)

    def texts(self, argument: str, values: object) -> NDArray[np.str_]:
        """Return the values as texts, "" where one is missing; for several columns their intersections."""
        columns: list[object] = [*crossed_columns(values, self.frame.columns)] or [values]
        return crossed_texts([self._column(argument, column) for column in columns])

    def scores(self, values: object) -> list[pl.Series]:
        """Return the columns of scores."""
        if getattr(values, "ndim", 1) == 2:
            check_index("scores", values, self._given)
        return [self._column("scores", column) for column in score_columns_of(values)]

    def outcome(self, values: object) -> pl.Series | None:
        """Return the column of outcomes, if any."""
        return None if values is None else self._column("outcome", values)

    def weights(self, values: object) -> Floats:
        """Return the weight of each row, 1 where none are given."""
        if values is None:
            return np.ones(self.frame.height)
        column = self._column("sample_weight", values).alias("sample_weight")
        return check_sample_weight("sample_weight", column.to_frame(), "row {}".format)

    def clusters(self, values: object) -> Integers | None:
        """Return the cluster of each row, None where none are given; a row without one is a cluster of its own."""
        if values is None:
            return None
        texts = self.texts("clusters", values)
        codes = np.unique(texts, return_inverse=True)[1]
        return np.where(texts == "", codes.max() + 1 + np.arange(codes.size), codes)

    def _column(self, argument: str, values: object) -> pl.Series:
        if not isinstance(values, str):
            check_index(argument, values, self._given)
            return column_of_values(argument, values, self.frame.height)
        check_columns(argument, [values], self.frame.columns)
        return self.frame[values]


def crossed_columns(values: object, columns: Sequence[str]) -> list[str]:
    """Return the columns that values name, if the table has all of them; nothing for an array."""
    names = names_in(values) or []
    return names if all(name in columns for name in names) else []


def crossed_texts(columns: Sequence[pl.Series]) -> NDArray[np.str_]:
    """Return the groups of rows as texts, for several columns their intersections; "" where one is missing."""
    if len(columns) == 1:
        values = columns[0].unique()
        texts = pl.Series(["" if value is None else text_of(value) for value in values], dtype=pl.String)
        return columns[0].replace_strict(values, texts, return_dtype=pl.String).to_numpy().astype(str)
    codes, labels = factorize_groups("group", columns)
    return np.array([*labels, ""])[codes]  # the code of a missing group is −1


def probabilities_of(column: pl.Series, row_name: RowName = "row {}".format) -> Floats:
    """Return the values of a clean column as numbers, which must lie between 0 and 1."""
    numbers = column.cast(pl.Float64, strict=False).to_numpy()
    if not (numbers.min(initial=0.0) >= 0.0 and numbers.max(initial=0.0) <= 1.0):  # False where one is NaN
        row = int(np.argmax(~((numbers >= 0.0) & (numbers <= 1.0))))
        raise DataError(
            f"`scores` must be probabilities, got {column[row]} in {row_name(row)}.",
            "fill or leave out such rows first.",
        )
    return np.asarray(numbers)


def score_columns_of(scores: ValuesLike) -> list[ValuesLike]:
    """Return scores as a list of columns, names or arrays, one for each class."""
    if isinstance(scores, (list, tuple)) and scores and all(isinstance(name, str) for name in scores):
        return list(scores)
    is_matrix = getattr(scores, "ndim", 1) == 2
    return list(np.asarray(scores).T) if is_matrix else [scores]


def class_scores(columns: Sequence[Floats], row_name: RowName = "row {}".format) -> Floats:
    """Return probabilities as one array: (n,) for one column, (n, K) for more, whose rows add up to 1."""
    if len(columns) == 1:
        return columns[0]
    scores = np.column_stack(list(columns))
    total = scores.sum(axis=1)
    wrong = np.abs(total - 1.0) > SCORE_ROUNDING
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"`scores` must add up to 1 in each row, got {total[row]:.6g} in {row_name(row)}.",
            "pass the probability of every class.",
        )
    return np.asarray(scores / total[:, None])


def condition_words(given: Mapping[str, str]) -> str:
    """Return conditions in words."""
    return " and ".join(f"{shown(name)} = {shown(value)}" for name, value in given.items())


def meets(frame: pl.DataFrame, given: Mapping[str, str]) -> Booleans:
    """Return which rows of a clean frame meet those of the conditions whose column it has."""
    is_met = np.ones(frame.height, dtype=np.bool_)
    for name in given.keys() & set(frame.columns):
        is_met &= equals_mask(frame[name], given[name])
    return is_met


def condition_notes(given: Mapping[str, str], names: Sequence[str], outside: int, rows: int, what: str) -> list[str]:
    """Return notes on rows that do not meet the conditions, and on conditions that cannot be checked."""
    missing = {name: value for name, value in given.items() if name not in names}
    notes = []
    if outside:
        notes.append(f"{outside:,} of {rows:,} rows do not meet the condition {condition_words(given)}; {what}")
    if missing:
        notes.append(
            f"the condition {condition_words(missing)} cannot be checked because the column is missing; all rows are "
            "assumed to meet it"
        )
    return notes


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

    def check_not_audited(self, adjustment: Adjustment) -> list[str]:
        """Raise where rows were audited; return notes on rows that equal others."""
        adjustment.table(self.frame)  # raises where a feature is missing, or not of its audited type
        outcome = None if self.outcome is None else np.unique(self.outcome, return_inverse=True)[1]
        groups = [adjustment.reference, *adjustment.groups]
        codes = np.select([self.labels == name for name in groups], np.arange(len(groups)))
        return adjustment.row_index.check(self.frame, self.scores, codes, outcome, self.rows.clusters)


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
    group_name = group if isinstance(group, str) else JOINT.join(crossed_columns(group, table.frame.columns)) or "group"
    labels, scores = table.texts("group", group), adjustment.read_scores(table.scores(scores))
    outcome = None if (column := table.outcome(outcome)) is None else adjustment.read_outcome(column)
    weights, clusters = table.weights(weights), table.clusters(clusters)
    is_compared, is_met = (labels == audited) | (labels == adjustment.reference), meets(table.frame, adjustment.given)
    keep = is_compared & (weights > 0.0) & is_met
    clusters = None if clusters is None else clusters[keep]
    _check_groups(labels[keep], clusters, (audited, adjustment.reference))
    held_out = HeldOutRows(
        frame=adjustment.declared.applied(table.frame.filter(keep)),
        group_name=group_name,
        labels=labels[keep],
        scores=scores[keep],
        outcome=None if outcome is None else outcome[keep],
        rows=Rows.of(labels[keep] == audited, weights[keep], clusters),
    )
    outside, compared, frame = int((is_compared & ~is_met).sum()), int(is_compared.sum()), held_out.frame
    notes = (
        *condition_notes(adjustment.given, table.frame.columns, outside, compared, "they are left out"),
        *held_out.check_not_audited(adjustment),
        *adjustment.row_notes(adjustment.row_sums(frame) + NewRowSums(frame.height)),
    )
    return replace(held_out, notes=notes)


def _check_groups(labels: NDArray[np.str_], clusters: Integers | None, groups: tuple[str, str]) -> None:
    """Raise where a group has too few rows, or is one cluster: the error of its mean cannot be estimated."""
    sizes = [int((labels == name).sum()) for name in groups]
    if min(sizes) < MINIMUM_ROWS:
        raise DataError(
            f"`held_out` must have {MINIMUM_ROWS} rows of each group at least, got {sizes[0]} and {sizes[1]}.",
            f"the groups are {shown(groups[0])} and {shown(groups[1])}: add rows of them.",
        )
    for name in groups:
        if clusters is not None and np.unique(clusters[labels == name]).size < 2:
            raise DataError(
                f"`clusters` must be two or more of each group, got 1 of {shown(name)}.",
                "clusters are rows that belong together, such as those of one customer; omit them if no rows do.",
            )


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
