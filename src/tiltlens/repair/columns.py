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
from tiltlens.paper.checks import Floats


class RepairTable:
    """A table of rows to repair, whose columns are given by name or as arrays of its length."""

    def __init__(self, data: Any) -> None:
        self._given = data
        self.frame = collected(data)

    def texts(self, argument: str, values: Any) -> NDArray[np.str_]:
        """Return the values as texts, "" where one is missing."""
        return np.array(
            ["" if value is None else text_of(value) for value in self._column(argument, values)], dtype=str
        )

    def probabilities(self, argument: str, values: Any) -> Floats:
        """Return the values as numbers from 0 to 1."""
        column = self._column(argument, values)
        numbers = column.cast(pl.Float64, strict=False).to_numpy()
        bad = ~((numbers >= 0.0) & (numbers <= 1.0))
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                f"`{argument}` must be probabilities, got {column[row]} in row {row}.",
                "fill or leave out such rows first.",
            )
        return np.asarray(numbers)

    def outcomes(self, argument: str, values: Any) -> Integers:
        """Return 0 or 1 for each row, or `UNKNOWN`."""
        codes, found = outcome_codes(self._column(argument, values), PLAIN)
        check_outcome(found, 2)
        return codes

    def _column(self, argument: str, values: Any) -> pl.Series:
        if not isinstance(values, str):
            check_index(argument, values, self._given)
            return column_of_values(argument, values, self.frame.height)
        if values not in self.frame.columns:
            raise DataError(
                f"`{argument}` must be a column of the data, got {shown(values)}.", f"see {listed(self.frame.columns)}."
            )
        return self.frame[values]
