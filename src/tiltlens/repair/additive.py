"""A membership model that can be inspected and carried elsewhere: additive logistic, numbers in, numbers out.

log-odds(x) = intercept + Σ_j f_j(x_j), f_j a spline of a number or an effect of each level of a category.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.learners.design import Encoding, LevelColumns, NumericColumn, Table, encoding
from tiltlens.learners.logit import ridge_logit
from tiltlens.limits import LOOKED_UP, RIDGE, WEAK_RIDGE
from tiltlens.paper.checks import Floats
from tiltlens.repair.coded import CodedModel, Texts
from tiltlens.rows.features import Feature
from tiltlens.sources.arrays import chunks


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveLogit(CodedModel):
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

    def columns(self, table: Table) -> Floats:
        """As of `CodedModel`."""
        return self.encoding.matrix(table, slice(None))

    def learnt_missing(self, name: str) -> bool:
        """As of `CodedModel`."""
        return any(one.name == name and one.has_missing for one in self.encoding.numeric)

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
            }
            | self.texts[one.name].to_dict()
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
        texts = {one["feature"]: Texts.from_dict(one) for one in found["levels"]}
        slopes = np.array(found["slopes"], dtype=np.float64)
        linear = len(numeric) + sum(one.has_missing for one in numeric) + sum(one.count for one in levels)
        kinds = np.repeat(["linear", "spline"], [linear, slopes.size - linear])
        return cls(Encoding(numeric, levels, (), kinds), texts, float(found["intercept"]), slopes)


class Design(NamedTuple):
    """How features become columns without products, the texts of categories, and the table of the rows.

    `estimator` is a classifier to fit in place of the additive model.
    """

    encoding: Encoding
    texts: Mapping[str, Texts]
    table: dict[str, Any]
    estimator: Any = None


def additive_design(features: Sequence[Feature], estimator: Any = None) -> Design:
    """Return the design of some features, without those that a membership model may not learn from."""
    table = {one.name: one.codes if one.values is None else one.values for one in features if one.in_membership}
    whole = encoding(table, np.arange(len(next(iter(table.values())))), multiplied=frozenset(), spike_share=1.0)
    kinds = whole.kinds[whole.kinds != "bent"]
    texts = {one.name: Texts.of(one) for one in features if one.name in table and one.values is None}
    return Design(Encoding(whole.numeric, whole.levels, (), kinds), texts, table, estimator)


def fitted_logit(design: Design, rows: Integers, labels: Booleans, weights: Floats) -> AdditiveLogit:
    """Return the model fitted on some rows: splines and rare levels are held back by a ridge penalty."""
    encoder = design.encoding
    penalty = np.where(encoder.kinds == "spline", RIDGE, WEAK_RIDGE)
    found = ridge_logit(encoder.matrix(design.table, rows), labels[rows], weights[rows], penalty)
    return AdditiveLogit(encoder, design.texts, found.intercept, found.slopes)
