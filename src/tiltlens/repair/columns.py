"""Columns of the rows to repair: by name, or as arrays as long as the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.limits import SCORE_ROUNDING
from tiltlens.paper.checks import Floats
from tiltlens.rows.groups import factorize_groups
from tiltlens.rows.outcomes import PLAIN, check_outcome, outcome_codes
from tiltlens.rows.scores import RowName
from tiltlens.rows.weights import check_sample_weight, equals_mask
from tiltlens.sources.columns import check_index, column_of_values
from tiltlens.sources.messages import listed, shown, text_of
from tiltlens.sources.opening import collected


class RepairTable:
    """A table of rows to repair, whose columns are given by name or as arrays of its length."""

    def __init__(self, data: Any) -> None:
        self._given = data
        self.frame = collected(data)

    def texts(self, argument: str, values: Any) -> NDArray[np.str_]:
        """Return the values as texts, "" where one is missing; of several columns their intersections."""
        is_crossed = isinstance(values, (list, tuple)) and all(one in self.frame.columns for one in values)
        return crossed_texts([self._column(argument, one) for one in (values if is_crossed else [values])])

    def probabilities(self, argument: str, values: Any) -> Floats:
        """Return the values as numbers from 0 to 1."""
        return probabilities_of(argument, self._column(argument, values))

    def scores(self, argument: str, values: Any, classes: int) -> Floats:
        """Return probabilities: (n,) of two classes, (n, K) of more, whose rows add up to 1."""
        if getattr(values, "ndim", 1) == 2:
            check_index(argument, values, self._given)
        found = [self.probabilities(argument, one) for one in score_columns_of(values)]
        return class_scores(argument, found, classes)

    def outcomes(self, argument: str, values: Any) -> Integers:
        """Return 0 or 1 for each row, or `UNKNOWN`."""
        codes, found = outcome_codes(self._column(argument, values), PLAIN)
        check_outcome(found, 2)
        return codes

    def weights(self, argument: str, values: Any) -> Floats:
        """Return the weight of each row, 1 where none are given."""
        if values is None:
            return np.ones(self.frame.height)
        column = self._column(argument, values).alias(argument)
        return check_sample_weight(argument, column.to_frame(), "row {}".format)

    def clusters(self, argument: str, values: Any) -> Integers | None:
        """Return the number of each row's cluster, None where none are given; a row without one is one of its own."""
        if values is None:
            return None
        texts = self.texts(argument, values)
        found = np.unique(texts, return_inverse=True)[1]
        return np.where(texts == "", found.max() + 1 + np.arange(found.size), found)

    def _column(self, argument: str, values: Any) -> pl.Series:
        if not isinstance(values, str):
            check_index(argument, values, self._given)
            return column_of_values(argument, values, self.frame.height)
        if values not in self.frame.columns:
            raise DataError(
                f"`{argument}` must be a column of the data, got {shown(values)}.", f"see {listed(self.frame.columns)}."
            )
        return self.frame[values]


def texts_of(column: pl.Series) -> NDArray[np.str_]:
    """Return the values of a clean column as texts, "" where one is missing."""
    known = column.unique()
    texts = pl.Series(["" if value is None else text_of(value) for value in known], dtype=pl.String)
    return column.replace_strict(known, texts, return_dtype=pl.String).to_numpy().astype(str)


def crossed_texts(columns: Sequence[pl.Series]) -> NDArray[np.str_]:
    """Return the groups of rows as texts, of several columns their intersections; "" where one is missing."""
    if len(columns) == 1:
        return texts_of(columns[0])
    codes, labels = factorize_groups("group", columns)
    return np.array([*labels, ""])[codes]  # an unknown one is −1, the last


def probabilities_of(argument: str, column: pl.Series, row_name: RowName = "row {}".format) -> Floats:
    """Return the values of a clean column as numbers, which must lie between 0 and 1."""
    numbers = column.cast(pl.Float64, strict=False).to_numpy()
    if not (numbers.min(initial=0.0) >= 0.0 and numbers.max(initial=0.0) <= 1.0):  # not so where one is NaN
        row = int(np.argmax(~((numbers >= 0.0) & (numbers <= 1.0))))
        raise DataError(
            f"`{argument}` must be probabilities, got {column[row]} in {row_name(row)}.",
            "fill or leave out such rows first.",
        )
    return np.asarray(numbers)


def score_columns_of(scores: Any) -> list[Any]:
    """Return scores column by column, names or arrays: one, or one for each class."""
    if isinstance(scores, (list, tuple)) and scores and all(isinstance(one, str) for one in scores):
        return list(scores)
    is_matrix = getattr(scores, "ndim", 1) == 2
    return list(np.asarray(scores).T) if is_matrix else [scores]


def class_scores(argument: str, columns: Sequence[Floats], classes: int, row_name: RowName = "row {}".format) -> Floats:
    """Return probabilities as a repair takes them: (n,) of two classes, (n, K) of more, whose rows add up to 1."""
    check_classes(argument, len(columns), classes)
    if classes == 2:
        return columns[0]
    found = np.column_stack(list(columns))
    total = found.sum(axis=1)
    wrong = np.abs(total - 1.0) > SCORE_ROUNDING
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"`{argument}` must add up to 1 in each row, got {total[row]:.6g} in {row_name(row)}.",
            "pass the probability of every class.",
        )
    return np.asarray(found / total[:, None])


def check_classes(argument: str, columns: int, classes: int) -> None:
    """Raise unless there are as many columns of scores as the repair is of."""
    if columns != (1 if classes == 2 else classes):
        needs = "one column, of W(1|x)" if classes == 2 else f"{classes} columns, one for each class"
        raise DataError(
            f"`{argument}` must be {needs}, as the audited scores were, got {columns}.",
            "a repair is of scores of the same classes.",
        )


def condition_words(given: Mapping[str, str]) -> str:
    """Return conditions as a reader reads them."""
    return " and ".join(f"{shown(name)} = {shown(value)}" for name, value in given.items())


def meets(frame: pl.DataFrame, given: Mapping[str, str]) -> Booleans:
    """Return which rows of a clean frame meet those of the conditions whose column it has."""
    found = np.ones(frame.height, dtype=np.bool_)
    for name in given.keys() & set(frame.columns):
        found &= equals_mask(frame[name], given[name])
    return found


def condition_notes(given: Mapping[str, str], names: Sequence[str], outside: int, rows: int, what: str) -> list[str]:
    """Return what to say of rows that do not meet the conditions, and of conditions that cannot be checked."""
    unknown = {name: value for name, value in given.items() if name not in names}
    notes = [f"{outside:,} of {rows:,} rows do not meet {condition_words(given)}, the repair's condition: {what}"]
    unchecked = (
        f"whether rows meet {condition_words(unknown)}, the repair's condition, cannot be checked: there is no such "
        "column, and all are held to do"
    )
    return (notes if outside else []) + ([unchecked] if unknown else [])


def check_clusters(rows: Rows, groups: tuple[str, str]) -> None:
    """Raise where all rows of a group belong together: how far chance may move its mean cannot be told."""
    if rows.clusters is None:
        return
    for name, mine in zip(groups, (rows.audited, ~rows.audited), strict=True):
        if np.unique(rows.clusters[mine]).size < 2:
            raise DataError(
                f"`clusters` must be two or more of each group, got 1 of {shown(name)}.",
                "they are which rows belong together, such as those of one customer: leave them out if none do.",
            )
