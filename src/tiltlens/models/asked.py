"""The audited model, asked again: what it says of the sample's rows where a feature has the values of other rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tiltlens.engines.tables import taken_rows, with_column_of
from tiltlens.estimators.influence import Integers
from tiltlens.models.predictions import model_columns
from tiltlens.models.roles import ColumnRoles
from tiltlens.models.scores import channel_of
from tiltlens.paper.checks import Floats


@dataclass(frozen=True, slots=True, eq=False)
class AskedModel:
    """A model, and the rows that it scored.

    Attributes
    ----------
    model, roles
        The model, and how its outputs become scores.
    table
        The features of the rows, clean.
    native, place
        The features as the model saw them, in the user's own table, and where in it each row stands; None where the
        model saw `table`.
    """

    model: Any
    roles: ColumnRoles
    table: pl.DataFrame
    native: Any = None
    place: Integers | None = None

    @property
    def features(self) -> list[str]:
        """What the model sees."""
        return model_columns(self.model, self.roles.features)

    def rows(self, index: Integers) -> AskedModel:
        """Return the same of some of the rows."""
        place = None if self.place is None else self.place[index]
        return replace(self, table=self.table[pl.Series(index, dtype=pl.UInt32)], place=place)

    def scores(self, feature: str, source: Integers) -> Floats:
        """Return the scores of all rows, each with the value of a feature that the row `source` has."""
        other = self.rows(source)
        table = with_column_of(self.table, other.table, feature)
        native = table
        if self.native is not None and self.place is not None and other.place is not None:
            native = with_column_of(taken_rows(self.native, self.place), taken_rows(self.native, other.place), feature)
        return channel_of(
            native,
            table,
            model=self.model,
            output=self.roles.output,
            features=self.roles.features,
            favourable=self.roles.favourable,
            threshold=self.roles.threshold,
            labels=self.roles.labels,
        ).scores


def asked_model(model: Any, roles: ColumnRoles, table: pl.DataFrame, native: Any, place: Integers) -> AskedModel | None:
    """Return the model to be asked again, None where scores were given instead."""
    if model is None:
        return None
    return AskedModel(model, roles, table, native, None if native is None else np.asarray(place))
