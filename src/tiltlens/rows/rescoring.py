"""The audited model's scores of the sample's rows, with the values that a feature has in other rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tiltlens.errors import TiltlensError
from tiltlens.estimators.influence import Integers
from tiltlens.paper.checks import Floats
from tiltlens.rows.roles import ColumnRoles
from tiltlens.sources.columns import NativeTable, taken_rows, with_columns_of

ASKED_AGAIN = 500  # rows that a model is asked about twice: a term of the group in one row of a hundred shows
SAME_ANSWERS = 1e-3  # mean difference, in points or sd, below which answers are equal: rounding may turn a decision
OTHER_ANSWERS = (
    "the model gave other answers for the same rows in another order, so its output is not made of the listed features "
    "alone: the adjusted gap is estimated as for given scores"
)


@dataclass(frozen=True, slots=True, eq=False)
class AskedModel:
    """A model, and the rows that it scored."""

    # The model, and how its outputs become scores
    model: object
    roles: ColumnRoles
    # The features of the rows, and the columns that they are made of; both clean
    table: pl.DataFrame
    inputs: pl.DataFrame
    # The columns as the model saw them, in the user's own table, and where in it each row stands; None where the model
    # saw `inputs`
    native: object = None
    row_number: Integers | None = None

    @property
    def features(self) -> list[str]:
        """What the model sees."""
        return self.roles.features_of(self.model)

    def rows(self, index: Integers) -> AskedModel:
        """Return the same of some of the rows."""
        row_number = None if self.row_number is None else self.row_number[index]
        table, inputs = (frame[pl.Series(index, dtype=pl.UInt32)] for frame in (self.table, self.inputs))
        return replace(self, table=table, inputs=inputs, row_number=row_number)

    def scores(self, feature: str, source: Integers) -> Floats:
        """Return the scores of all rows, each with the value of a feature that the row `source` has."""
        other, names = self.rows(source), self.roles.declared.sources([feature])
        seen, inputs = (with_columns_of(*pair, names) for pair in zip(self._seen(), other._seen(), strict=True))
        return self.roles.channel(seen, inputs, self.model).scores

    def changes(self, scores: Floats, scale: float) -> bool:
        """Return whether the model's answers differ from those before, on rows in another order and number.

        They are then made of something else than the columns: of where a row stands, of other rows, or of chance.
        """
        index = np.random.default_rng(0).permutation(len(scores))[:ASKED_AGAIN]
        index = np.concatenate([index, index[: index.size // 2 + 1]])
        try:
            again = self.roles.channel(*self.rows(index)._seen(), self.model).scores
        except TiltlensError:  # it answered before
            return True
        return bool(np.abs(again - scores[index]).mean() > SAME_ANSWERS * scale)

    def _seen(self) -> tuple[NativeTable, pl.DataFrame]:
        """Return the columns as the model sees them, and clean."""
        return self.inputs if self.row_number is None else taken_rows(self.native, self.row_number), self.inputs
