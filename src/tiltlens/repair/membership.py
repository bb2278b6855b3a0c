"""Group-membership models of a score adjustment: P(group|x) from numbers and codes of levels.

The additive logistic model, log-odds(x) = intercept + Σ_j f_j(x_j) with f_j a spline of a number or an effect of each
level of a category, can be inspected and saved as numbers. Any scikit-learn classifier may take its place; it is saved
as a skops file within the JSON, which holds data and names of types, and no code.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tiltlens.errors import DataError, MissingExtraError
from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.learners.design import Encoding, Table, encoding
from tiltlens.learners.logit import ridge_logit
from tiltlens.learners.propensity import estimator_log_odds, fitted_clone
from tiltlens.limits import RIDGE, WEAK_RIDGE
from tiltlens.model_files.load import open_skops
from tiltlens.paper.checks import Floats
from tiltlens.rows.batch_rows import ONE_AT_A_TIME
from tiltlens.rows.features import Feature
from tiltlens.rows.levels import MISSING, OTHER, numbers_of
from tiltlens.sources.arrays import chunks
from tiltlens.sources.factorize import text_codes
from tiltlens.sources.messages import first_line, shown

LOOKED_UP = 1 << 15  # rows whose log-odds are made at a time: what they need stays in the cache


@dataclass(frozen=True, slots=True)
class CategoryLevels:
    """The levels of a category, and the codes of missing values and of texts that are not a level."""

    values: tuple[str, ...]
    missing: int
    other: int

    @classmethod
    def of(cls, feature: Feature) -> CategoryLevels:
        """Return the levels of an audited category."""
        levels = feature.levels
        if levels is None or levels.values is None:
            raise DataError(f"Column {shown(feature.name)} has no levels.", "leave it out.")
        values = tuple(levels.values.to_list())
        unseen = len(values)  # a level that no audited row has: it has no effect, like rare ones
        return cls(values, levels.missing if MISSING in values else unseen, levels.other if OTHER in values else unseen)

    def codes(self, column: pl.Series) -> Integers:
        """Return the code of each entry of a clean column."""
        values = pl.Series(self.values, dtype=pl.String)
        codes = text_codes(column.cast(pl.String), values, first=0, other=self.other)
        return np.where(column.is_null().to_numpy(), self.missing, codes) if column.null_count() else codes

    def texts(self, codes: Integers) -> pl.Series:
        """Return the text of each code, missing where it is not a level."""
        index = np.minimum(codes, len(self.values)).astype(np.uint32)
        return pl.Series([*self.values, None], dtype=pl.String).gather(pl.Series(index))

    def count_unseen(self, column: pl.Series) -> int:
        """Return how many entries are not a level, or missing where no audited entry was."""
        unlisted = column.is_not_null() & ~column.cast(pl.String).is_in(self.values)
        return int(unlisted.sum()) + (column.null_count() if self.missing == len(self.values) else 0)


@dataclass(frozen=True, slots=True, eq=False)
class MembershipModel:
    """A model of features as numbers and codes.

    `levels` has the levels of the categories, `missing` the names of features whose numbers it was fitted on although
    some were missing.
    """

    features: tuple[str, ...]
    levels: Mapping[str, CategoryLevels]
    missing: tuple[str, ...]

    def log_odds(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the log-odds of rows of numbers and codes."""
        raise NotImplementedError

    def columns(self, table: Table) -> Floats:
        """Return the columns of the design matrix."""
        raise NotImplementedError

    def checked_table(self, frame: pl.DataFrame) -> dict[str, Any]:
        """Return the features of a clean frame as numbers and codes, after a check that it has them all."""
        check_features(self.features, frame.columns)
        return {name: self._column(frame[name]) for name in self.features}

    def _column(self, column: pl.Series) -> Any:
        if column.name in self.levels:
            return self.levels[column.name].codes(column)
        if column.dtype == pl.String and column.null_count() == column.len():
            return np.full(column.len(), np.nan)  # a batch without any value has no type of its own
        if column.dtype == pl.String:
            raise DataError(
                f"Column {shown(column.name)} holds text, but numbers in the audited table.",
                "cast the column; for decimal commas, use tl.read(path, decimal=',').",
            )
        return numbers_of(column)

    def unseen_levels(self, frame: pl.DataFrame) -> dict[str, int]:
        """Return, by feature, how many rows hold a value that the model has not learnt, such as a new one."""
        counts = {}
        for name in self.features:
            if name in self.levels:
                counts[name] = self.levels[name].count_unseen(frame[name])
            else:
                infinite = int(np.isinf(numbers_of(frame[name])).sum())  # audited numbers are finite
                counts[name] = infinite + (0 if name in self.missing else frame[name].null_count())
        return {name: count for name, count in counts.items() if count}


def check_features(features: tuple[str, ...], columns: list[str]) -> None:
    """Raise where a column that an adjustment needs is missing."""
    missing = [name for name in features if name not in columns]
    if missing:
        raise DataError(
            f"Column {shown(missing[0])}, a feature of the group-membership model, not found in `data`.",
            f"the adjustment needs {', '.join(features)}.",
        )


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveLogit(MembershipModel):
    """The fitted additive logistic model: encoding of the features, and coefficients."""

    encoding: Encoding
    intercept: float
    slopes: Floats

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


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorLogit(MembershipModel):
    """A fitted classifier of a Polars frame: numbers, NaN where missing, and texts of the audited levels.

    It sees a level that no audited row had as missing.
    """

    estimator: Any

    def log_odds(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the log-odds of rows of numbers and codes."""
        inputs = _inputs(self.levels, {name: table[name][index] for name in self.features})
        try:
            with ONE_AT_A_TIME:
                return estimator_log_odds(self.estimator, inputs)
        except Exception as error:  # the user's code
            raise _refused(self.estimator, "predict", error) from error


Fitted = EstimatorLogit | AdditiveLogit


def dump_estimator(estimator: Any) -> str:
    """Return a classifier as the text of a skops file."""
    try:
        import skops.io as sio
    except ImportError:
        raise MissingExtraError("Saving a classifier requires skops.", extra="models") from None
    return b64encode(sio.dumps(estimator)).decode()


def load_estimator(content: str, trusted: Sequence[str]) -> Any:
    """Return the classifier of `dump_estimator`, if skops knows all of its types or they are trusted."""
    return open_skops("the group-membership model", b64decode(content), trusted)


def _inputs(levels: Mapping[str, CategoryLevels], table: Table) -> pl.DataFrame:
    return pl.DataFrame(
        {name: levels[name].texts(column) if name in levels else pl.Series(column) for name, column in table.items()}
    )


def _refused(estimator: Any, method: str, error: Exception) -> DataError:
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


def fit_membership(design: Design, rows: Integers, labels: Booleans, weights: Floats) -> Fitted:
    """Return the membership model fitted on some rows: the additive one, or the classifier of the design."""
    if design.estimator is None:
        return _fit_additive(design, rows, labels, weights)
    inputs = _inputs(design.levels, {name: column[rows] for name, column in design.table.items()})
    try:
        estimator = fitted_clone(design.estimator, inputs, labels[rows], weights[rows])
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
    features = (*(column.name for column in encoded.numeric), *(column.name for column in encoded.levels))
    missing = tuple(column.name for column in encoded.numeric if column.has_missing)
    return AdditiveLogit(features, design.levels, missing, encoded, fit.intercept, fit.slopes)
