"""The additive logistic membership model, which can be inspected and saved as numbers.

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
from tiltlens.limits import RIDGE, WEAK_RIDGE
from tiltlens.paper.checks import Floats
from tiltlens.repair.tabular_model import CategoryLevels, TabularModel
from tiltlens.rows.features import Feature
from tiltlens.sources.arrays import chunks

LOOKED_UP = 1 << 15  # rows whose log-odds are made at a time: what they need stays in the cache


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveLogit(TabularModel):
    """The fitted model: encoding of the features, levels of the categories, and coefficients."""

    encoding: Encoding
    levels: Mapping[str, CategoryLevels]
    intercept: float
    slopes: Floats

    @property
    def features(self) -> tuple[str, ...]:
        """The columns it needs."""
        return (*(column.name for column in self.encoding.numeric), *(column.name for column in self.encoding.levels))

    def log_odds(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the log-odds of rows of numbers and codes, in chunks that fit the cache."""
        rows = {name: column[index] for name, column in table.items()}
        log_odds = np.empty(len(next(iter(rows.values()))))
        for part in chunks(log_odds.size, LOOKED_UP):
            log_odds[part] = self.encoding.applied(rows, part, self.slopes[:, None])[:, 0]
        log_odds += self.intercept
        return log_odds

    def columns(self, table: Table) -> Floats:
        """Return the columns of the design matrix."""
        return self.encoding.matrix(table, slice(None))

    def learnt_missing(self, name: str) -> bool:
        """Return whether it was fitted on missing numbers of a feature."""
        return any(column.name == name and column.has_missing for column in self.encoding.numeric)

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain numbers and texts."""
        numeric = [
            {
                "feature": column.name,
                "mean": column.mean,
                "sd": column.sd,
                "has_missing": column.has_missing,
                "knots": column.knots.tolist(),
                "degree": column.degree,
            }
            for column in self.encoding.numeric
        ]
        levels = [
            {"feature": column.name, "ranks": column.rank_of.tolist(), "columns": column.count}
            | self.levels[column.name].to_dict()
            for column in self.encoding.levels
        ]
        return {"intercept": self.intercept, "slopes": self.slopes.tolist(), "numeric": numeric, "levels": levels}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> AdditiveLogit:
        """Return the model that `to_dict` wrote."""
        numeric = tuple(
            NumericColumn(
                name=column["feature"],
                mean=float(column["mean"]),
                sd=float(column["sd"]),
                has_missing=bool(column["has_missing"]),
                knots=np.array(column["knots"], dtype=np.float64),
                degree=int(column["degree"]),
            )
            for column in saved["numeric"]
        )
        levels = tuple(
            LevelColumns(column["feature"], np.array(column["ranks"], dtype=np.intp), int(column["columns"]))
            for column in saved["levels"]
        )
        texts = {column["feature"]: CategoryLevels.from_dict(column) for column in saved["levels"]}
        slopes = np.array(saved["slopes"], dtype=np.float64)
        linear = sum(1 + column.has_missing for column in numeric) + sum(column.count for column in levels)
        kinds = np.repeat(["linear", "spline"], [linear, slopes.size - linear])
        return cls(Encoding(numeric, levels, (), kinds), texts, float(saved["intercept"]), slopes)


class Design(NamedTuple):
    """The encoding of the features without products, the levels of categories, and the table of the rows.

    `estimator` is a classifier to fit in place of the additive model.
    """

    encoding: Encoding
    levels: Mapping[str, CategoryLevels]
    table: dict[str, Any]
    estimator: Any = None


def additive_design(features: Sequence[Feature], estimator: Any = None) -> Design:
    """Return the design of the features that a membership model may use."""
    used = [feature for feature in features if feature.in_membership]
    table = feature_table(used)
    whole = encoding(table, np.arange(len(next(iter(table.values())))), multiplied=frozenset(), spike_share=1.0)
    kinds = whole.kinds[whole.kinds != "bent"]
    return Design(Encoding(whole.numeric, whole.levels, (), kinds), category_levels(used), table, estimator)


def feature_table(features: Sequence[Feature]) -> dict[str, Any]:
    """Return features as columns of numbers and codes."""
    return {feature.name: feature.codes if feature.values is None else feature.values for feature in features}


def category_levels(features: Sequence[Feature]) -> dict[str, CategoryLevels]:
    """Return the levels of the features that are categories."""
    return {feature.name: CategoryLevels.of(feature) for feature in features if feature.values is None}


def fit_additive(design: Design, rows: Integers, labels: Booleans, weights: Floats) -> AdditiveLogit:
    """Return the model fitted on some rows; a ridge penalty shrinks splines and rare levels."""
    penalty = np.where(design.encoding.kinds == "spline", RIDGE, WEAK_RIDGE)
    fit = ridge_logit(design.encoding.matrix(design.table, rows), labels[rows], weights[rows], penalty)
    return AdditiveLogit(design.encoding, design.levels, fit.intercept, fit.slopes)
