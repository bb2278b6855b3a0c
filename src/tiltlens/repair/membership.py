"""Group-membership models of a score adjustment: P(group|x) from numbers and codes of levels.

The additive logistic model, log-odds(x) = intercept + Σ_j f_j(x_j) with f_j a spline of a number or an effect of each
level of a category, can be inspected and saved as numbers. Any scikit-learn classifier may take its place; it is saved
as a skops file within the JSON, which holds data and names of types, and no code.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from tiltlens.errors import DataError, MissingExtraError
from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.learners.design import Encoding, Table, encoding
from tiltlens.learners.logit import ridge_logit
from tiltlens.learners.propensity import estimator_log_odds, fit_clone
from tiltlens.limits import RIDGE, WEAK_RIDGE
from tiltlens.model_files.load import open_skops
from tiltlens.paper.checks import Floats
from tiltlens.repair.coded_features import (
    AdditiveModel,
    CategoryLevels,
    CodedFeatures,
    category_levels,
    encoded_features,
    feature_table,
)
from tiltlens.rows.batch_rows import ONE_AT_A_TIME
from tiltlens.rows.features import DesignColumn, Feature
from tiltlens.rows.predictions import UserModel
from tiltlens.sources.messages import first_line


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveLogit(AdditiveModel):
    """The fitted additive logistic model."""

    def log_odds(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the log-odds of rows of numbers and codes."""
        return self.additive(table, index)


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorLogit(CodedFeatures):
    """A fitted classifier of a Polars frame: numbers, NaN where missing, and texts of the audited levels.

    It sees a level that no audited row had as missing.
    """

    estimator: object

    def disclosed(self) -> EstimatorLogit:
        """Return the same with the classifier as text, as files have it."""
        return replace(self, estimator=dump_estimator(self.estimator))

    def log_odds(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the log-odds of rows of numbers and codes."""
        inputs = _inputs(self.levels, {name: table[name][index] for name in self.features})
        try:
            with ONE_AT_A_TIME:
                return estimator_log_odds(self.estimator, inputs)
        except Exception as error:  # the user's code
            raise _refused(self.estimator, "predict", error) from error


Fitted = EstimatorLogit | AdditiveLogit


def dump_estimator(estimator: object) -> str:
    """Return a classifier as the text of a skops file."""
    try:
        import skops.io as sio
    except ImportError:
        raise MissingExtraError("Saving a classifier requires skops.", extra="models") from None
    return b64encode(sio.dumps(estimator)).decode()


def load_estimator(content: str, trusted: Sequence[str]) -> UserModel:
    """Return the classifier of `dump_estimator`, if skops knows all of its types or they are trusted."""
    return open_skops("the group-membership model", b64decode(content), trusted)


def _inputs(levels: Mapping[str, CategoryLevels], table: Table) -> pl.DataFrame:
    return pl.DataFrame(
        {name: levels[name].texts(column) if name in levels else pl.Series(column) for name, column in table.items()}
    )


def _refused(estimator: object, method: str, error: Exception) -> DataError:
    return DataError(
        f"`propensity_model` {type(estimator).__name__} cannot {method} the features: {first_line(error)}",
        "pass a pipeline that encodes texts (handle_unknown='ignore') and fills missing numbers.",
    )


class Design(NamedTuple):
    """The encoding of the features without products, the levels of categories, and the table of the rows.

    `estimator` is a classifier to fit in place of the additive model.
    """

    encoding: Encoding
    levels: Mapping[str, CategoryLevels]
    table: dict[str, DesignColumn]
    estimator: object = None


def additive_design(features: Sequence[Feature], estimator: object = None) -> Design:
    """Return the design of the features that a membership model may use."""
    used = [feature for feature in features if feature.in_membership]
    table = feature_table(used)
    whole = encoding(table, np.arange(len(next(iter(table.values())))), multiplied=frozenset(), spike_share=1.0)
    kinds = whole.kinds[whole.kinds != "bent"]
    return Design(Encoding(whole.numeric, whole.levels, (), kinds), category_levels(used), table, estimator)


def fit_membership(design: Design, rows: Integers, labels: Booleans, weights: Floats) -> Fitted:
    """Return the membership model fitted on some rows: the additive one, or the classifier of the design."""
    if design.estimator is None:
        return _fit_additive(design, rows, labels, weights)
    inputs = _inputs(design.levels, {name: column[rows] for name, column in design.table.items()})
    try:
        estimator = fit_clone(design.estimator, inputs, labels[rows], weights[rows])
    except Exception as error:  # the user's code
        raise _refused(design.estimator, "fit", error) from error
    numbers = [name for name in design.table if name not in design.levels]
    missing = tuple(name for name in numbers if np.isnan(design.table[name]).any())
    return EstimatorLogit(tuple(design.table), design.levels, missing, estimator)


def _fit_additive(design: Design, rows: Integers, labels: Booleans, weights: Floats) -> AdditiveLogit:
    """Return the additive model; a ridge penalty shrinks splines and rare levels."""
    encoded = design.encoding
    penalty = np.where(encoded.kinds == "spline", RIDGE, WEAK_RIDGE)
    fit = ridge_logit(encoded.matrix(design.table, rows), labels[rows], weights[rows], penalty)
    features, missing = encoded_features(encoded)
    return AdditiveLogit(features, design.levels, missing, encoded, fit.intercept, fit.slopes)
