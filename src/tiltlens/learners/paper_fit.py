"""The paper's way: plain logistic regressions on the features' values, fitted once on all rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats
from tiltlens.rows.features import DesignColumn, Feature, encode_features
from tiltlens.rows.levels import MISSING
from tiltlens.rows.scores import ORDERED, favourable_index
from tiltlens.sources.messages import listed, shown, text_of

POLISHING_STEPS = 4  # of Newton after a solver that stops at five digits
LARGEST_STEP = 0.1  # of a coefficient while polishing: beyond it there is no point to polish


def logistic_design(features: Sequence[Feature]) -> Floats:
    """Return a matrix for a plain logistic regression.

    Numbers as they are, standardised (missing ones at the mean, with a column of their own), ordered levels as
    their codes 0, 1, 2, …, other levels one column each but the first.
    """
    columns: list[Floats] = []
    for feature in features:
        if feature.in_membership:
            columns += _columns(feature)
    if not columns:
        raise DataError("`features` must include a column that varies and is not an identifier, got none.", "add one.")
    return np.column_stack(columns)


def logistic_log_odds(features: Sequence[Feature], target: DesignColumn, weights: Floats | None = None) -> Floats:
    """Return the log-odds of `target` by an unpenalised logistic regression on all rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    matrix = logistic_design(features)
    # The paper has no penalty; published numbers are those of the maximum of the likelihood.
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000)
    with warnings.catch_warnings():  # a level that one group alone has has no finite coefficient
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = model.fit(matrix, target, sample_weight=weights)
    design = np.column_stack([np.ones(len(matrix)), matrix])
    start = np.concatenate([fitted.intercept_, fitted.coef_[0]])
    w = np.ones(len(matrix)) if weights is None else weights / weights.mean()
    return design @ _polished(design, target.astype(np.float64), w, start)


def _polished(x: Floats, y: Floats, w: Floats, beta: Floats) -> Floats:
    """Return the coefficients after a few Newton steps: solvers stop at five digits, published numbers have more."""
    for _ in range(POLISHING_STEPS):
        mu = expit(x @ beta)
        gradient, hessian = x.T @ (w * (y - mu)), (x.T * (w * mu * (1.0 - mu))) @ x
        step = np.linalg.lstsq(hessian, gradient)[0]
        if np.abs(step).max() > LARGEST_STEP:  # separable or collinear: there is no point to polish
            break
        beta = beta + step
    return beta


def _columns(feature: Feature) -> list[Floats]:
    if feature.values is not None:
        return _numeric(feature.values)
    if feature.is_ordered:
        numbers = np.array([np.nan if label == MISSING else level for level, label in enumerate(feature.labels)])
        return _numeric(numbers[feature.codes])
    return [(feature.codes == level).astype(np.float64) for level in range(1, len(feature.labels))]


def _numeric(values: Floats) -> list[Floats]:
    missing = np.isnan(values)
    observed = values[~missing]
    spread = float(observed.std()) if observed.size else 0.0
    standardised = np.where(missing, 0.0, (values - observed.mean()) / spread) if spread > 0 else np.zeros(len(values))
    return [standardised, missing.astype(np.float64)] if missing.any() else [standardised]


def with_outcome_scores(
    table: pl.DataFrame, features: Sequence[str], outcome: str, favourable: object
) -> tuple[pl.DataFrame, list[str], Any]:
    """Return the table with the probabilities of the outcome's values as columns, their names, and the favourable one.

    For an outcome of 0 and 1 that is one column, and `favourable` stays as it is.
    """
    labels = tuple(text_of(value) for value in _two_values(table[outcome]))
    wanted = favourable_index(favourable, labels)
    scores = pl.Series(outcome_scores(table, features, outcome))
    names = [f"{outcome} = {label}" for label in labels]
    if set(labels) in ORDERED:
        return table.with_columns(scores.alias(names[1])), names[1:], ("low", "high")[wanted]
    return table.with_columns((1.0 - scores).alias(names[0]), scores.alias(names[1])), names, names[wanted]


def outcome_scores(table: pl.DataFrame, features: Sequence[str], outcome: str) -> Floats:
    """Return P(outcome = 1|x) by the paper's plain logistic model, for data without a model; NaN where not known."""
    target = _binary(table[outcome])
    is_observed = ~np.isnan(target)
    encoded = encode_features(table.filter(pl.Series(is_observed)), features)
    scores = np.full(table.height, np.nan)
    scores[is_observed] = expit(logistic_log_odds(encoded, target[is_observed] > 0.5))
    return scores


def _binary(column: pl.Series) -> Floats:
    """Return a column of two values as 0 and 1, NaN where missing: the larger value is 1."""
    return np.asarray((column == _two_values(column)[1]).cast(pl.Float64).to_numpy(), dtype=np.float64)


def _two_values(column: pl.Series) -> pl.Series:
    """Return the two values of a column, the smaller first."""
    values = column.drop_nulls().unique().sort()
    if len(values) != 2:
        raise DataError(
            f"`outcome` must have exactly two values, got {len(values)} in column {shown(column.name)}.",
            f"the values are {listed(values.to_list())}; make a yes/no column first.",
        )
    return values
