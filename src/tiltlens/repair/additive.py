"""A membership model that can be inspected and carried elsewhere: additive logistic, numbers in, numbers out.

log-odds(x) = intercept + Σ_j f_j(x_j), f_j a spline of a number or an effect of each level of a category.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tiltlens.engines.arrays import chunks
from tiltlens.engines.factorize import text_codes
from tiltlens.engines.messages import shown
from tiltlens.errors import DataError
from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.limits import LOOKED_UP, RIDGE, WEAK_RIDGE
from tiltlens.models.design import Encoding, LevelColumns, NumericColumn, Table, encoding
from tiltlens.models.features import Feature
from tiltlens.models.levels import MISSING, OTHER, numbers_of
from tiltlens.models.logit import ridge_logit
from tiltlens.paper.checks import Floats


@dataclass(frozen=True, slots=True)
class Texts:
    """The levels of a category: their texts, and the codes of missing values and of texts that are none of them."""

    values: tuple[str, ...]
    missing: int
    other: int

    def codes(self, column: pl.Series) -> Integers:
        """Return the code of each entry of a clean column."""
        values = pl.Series(self.values, dtype=pl.String)
        found = text_codes(column.cast(pl.String), values, first=0, other=self.other)
        return np.where(column.is_null().to_numpy(), self.missing, found) if column.null_count() else found

    def unseen(self, column: pl.Series) -> int:
        """Return how many entries are none of the texts, or missing where none was."""
        unlisted = column.is_not_null() & ~column.cast(pl.String).is_in(self.values)
        return int(unlisted.sum()) + (column.null_count() if self.missing == len(self.values) else 0)


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveLogit:
    """The model: how features become columns, which of them are texts, and the coefficients."""

    encoding: Encoding
    texts: Mapping[str, Texts]
    intercept: float
    slopes: Floats

    @property
    def features(self) -> tuple[str, ...]:
        """The columns it needs."""
        return (*(one.name for one in self.encoding.numeric), *(one.name for one in self.encoding.levels))

    def log_odds(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the log-odds of rows of numbers and codes, as many at a time as fit the cache."""
        rows = {name: column[index] for name, column in table.items()}
        found = np.empty(len(next(iter(rows.values()))))
        for part in chunks(found.size, LOOKED_UP):
            found[part] = self.encoding.applied(rows, part, self.slopes[:, None])[:, 0]
        found += self.intercept
        return found

    def of_frame(self, frame: pl.DataFrame) -> Floats:
        """Return the log-odds of the rows of a clean frame, which may be new ones."""
        return self.log_odds(self.checked_table(frame))

    def checked_table(self, frame: pl.DataFrame) -> dict[str, Any]:
        """Return the features of a clean frame as numbers and codes, where it has them all."""
        missing = [name for name in self.features if name not in frame.columns]
        if missing:
            raise DataError(
                f"`data` must hold every feature of the membership model, got none named {shown(missing[0])}.",
                f"it needs {', '.join(self.features)}.",
            )
        return self.table(frame)

    def unseen(self, frame: pl.DataFrame) -> dict[str, int]:
        """Return, by feature, how many rows hold a value that the model has not learnt: new, rare or missing."""
        found = {name: one.unseen(frame[name]) for name, one in self.texts.items()}
        for one in self.encoding.numeric:
            found[one.name] = 0 if one.has_missing else frame[one.name].null_count()
        return {name: found[name] for name in self.features if found[name]}

    def table(self, frame: pl.DataFrame) -> dict[str, Any]:
        """Return the features of a clean frame as numbers and codes."""
        return {name: self._column(frame[name]) for name in self.features}

    def _column(self, column: pl.Series) -> Any:
        if column.name in self.texts:
            return self.texts[column.name].codes(column)
        if column.dtype == pl.String:
            raise DataError(
                f"`data` must hold numbers in {shown(column.name)}, as the audited table did, got texts.",
                "cast the column.",
            )
        return numbers_of(column)

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain numbers and texts."""
        numeric = [
            {
                "feature": one.name,
                "mean": one.mean,
                "sd": one.sd,
                "has_missing": one.has_missing,
                "knots": one.knots.tolist(),
                "degree": one.degree,
            }
            for one in self.encoding.numeric
        ]
        levels = [
            {
                "feature": one.name,
                "ranks": one.rank_of.tolist(),
                "columns": one.count,
                "texts": list(self.texts[one.name].values),
                "missing": self.texts[one.name].missing,
                "other": self.texts[one.name].other,
            }
            for one in self.encoding.levels
        ]
        return {"intercept": self.intercept, "slopes": self.slopes.tolist(), "numeric": numeric, "levels": levels}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> AdditiveLogit:
        """Return the model that `to_dict` wrote."""
        numeric = tuple(
            NumericColumn(
                one["feature"],
                float(one["mean"]),
                float(one["sd"]),
                bool(one["has_missing"]),
                np.array(one["knots"], dtype=np.float64),
                int(one["degree"]),
            )
            for one in found["numeric"]
        )
        levels = tuple(
            LevelColumns(one["feature"], np.array(one["ranks"], dtype=np.intp), int(one["columns"]))
            for one in found["levels"]
        )
        texts = {one["feature"]: Texts(tuple(one["texts"]), one["missing"], one["other"]) for one in found["levels"]}
        slopes = np.array(found["slopes"], dtype=np.float64)
        linear = len(numeric) + sum(one.has_missing for one in numeric) + sum(one.count for one in levels)
        kinds = np.repeat(["linear", "spline"], [linear, slopes.size - linear])
        return cls(Encoding(numeric, levels, (), kinds), texts, float(found["intercept"]), slopes)


class Design(NamedTuple):
    """How features become columns without products, the texts of categories, and the table of the rows."""

    encoding: Encoding
    texts: Mapping[str, Texts]
    table: dict[str, Any]


def additive_design(features: Sequence[Feature]) -> Design:
    """Return the design of some features, without those that a membership model may not learn from."""
    table = {one.name: one.codes if one.values is None else one.values for one in features if one.in_membership}
    whole = encoding(table, np.arange(len(next(iter(table.values())))), multiplied=frozenset())
    kinds = whole.kinds[whole.kinds != "bent"]
    texts = {one.name: _texts(one) for one in features if one.name in table and one.values is None}
    return Design(Encoding(whole.numeric, whole.levels, (), kinds), texts, table)


def _texts(feature: Feature) -> Texts:
    levels = feature.levels
    if levels is None or levels.values is None:
        raise DataError(f"column {shown(feature.name)} must have levels, got none.", "leave it out.")
    values = tuple(levels.values.to_list())
    unseen = len(values)  # a level that no audited row has: no effect, as of rare ones
    return Texts(values, levels.missing if MISSING in values else unseen, levels.other if OTHER in values else unseen)


def fitted_logit(design: Design, rows: Integers, labels: Booleans, weights: Floats) -> AdditiveLogit:
    """Return the model fitted on some rows: splines and rare levels are held back by a ridge penalty."""
    encoder = design.encoding
    penalty = np.where(encoder.kinds == "spline", RIDGE, WEAK_RIDGE)
    found = ridge_logit(encoder.matrix(design.table, rows), labels[rows], weights[rows], penalty)
    return AdditiveLogit(encoder, design.texts, found.intercept, found.slopes)
