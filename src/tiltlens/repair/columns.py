"""Columns of the rows to repair: by name, or as arrays as long as the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.engines.columns import check_index, column_of_values
from tiltlens.engines.messages import listed, shown, text_of
from tiltlens.engines.sources import collected
from tiltlens.errors import DataError
from tiltlens.estimators.influence import Integers
from tiltlens.models.outcomes import PLAIN, check_outcome, outcome_codes
from tiltlens.models.scores import RowName
from tiltlens.models.weights import check_sample_weight
from tiltlens.paper.checks import Floats


class RepairTable:
    """A table of rows to repair, whose columns are given by name or as arrays of its length."""

    def __init__(self, data: Any) -> None:
        self._given = data
        self.frame = collected(data)

    def texts(self, argument: str, values: Any) -> NDArray[np.str_]:
        """Return the values as texts, "" where one is missing."""
        return texts_of(self._column(argument, values))

    def probabilities(self, argument: str, values: Any) -> Floats:
        """Return the values as numbers from 0 to 1."""
        return probabilities_of(argument, self._column(argument, values))

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
