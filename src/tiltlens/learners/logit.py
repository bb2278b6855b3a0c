"""Logistic regressions: ridge with a penalty for each column, by Newton's method, and the paper's plain ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from tiltlens.errors import DataError, listed, shown
from tiltlens.estimators.influence import Booleans
from tiltlens.formats import text_of
from tiltlens.paper.checks import Floats
from tiltlens.rows.features import DesignColumn, Feature, encode_features
from tiltlens.rows.levels import MISSING
from tiltlens.rows.scores import ORDERED, favourable_index

LOGIT_ITERATIONS = 60  # of Newton, which takes ten
LOGIT_DECREMENT = 1e-7  # of the mean log-loss


@dataclass(frozen=True, slots=True, eq=False)
class Logit:
    """Log-odds intercept + x·slopes, with the number of coefficients the data decided (`degrees`)."""

    intercept: float
    slopes: Floats
    degrees: float


def ridge_logit(matrix: Floats, labels: Booleans, weights: Floats, penalty: Floats) -> Logit:
    """Return the minimiser of Σ w·log(1 + e^{−±η}) + ½Σ penalty·slope², η = intercept + x·slopes.

    `weights` are scaled to mean 1, so that a penalty means the same whatever their unit.
    """
    x = np.column_stack([np.ones(len(matrix)), matrix])
    w = weights / weights.mean()
    # The intercept is free: shrinking it would move the prior, hence ℓ.
    ridge = np.concatenate([[1e-8], penalty])
    beta = np.zeros(x.shape[1])
    share = np.clip(float(np.dot(w, labels)) / float(w.sum()), 1e-6, 1 - 1e-6)
    beta[0] = np.log(share / (1.0 - share))
    eta = x @ beta
    loss = _objective(eta, beta, labels, w, ridge)
    for _ in range(LOGIT_ITERATIONS):
        mu = expit(eta)
        gradient = np.dot(x.T, w * (mu - labels)) + ridge * beta
        factor = cho_factor(weighted_gram(x, w * mu * (1.0 - mu)) + np.diag(ridge), lower=True)
        step = cho_solve(factor, gradient)
        size, fall = 1.0, float(gradient @ step)
        if fall < LOGIT_DECREMENT * len(x):
            break
        start, eta_step = (beta, eta), x @ step
        while True:
            beta, eta = start[0] - size * step, start[1] - size * eta_step
            trial = _objective(eta, beta, labels, w, ridge)
            # Armijo: separable groups make a full Newton step overshoot.
            if trial <= loss - 1e-4 * size * fall or size < 2e-6:
                break
            size /= 2
        loss = trial
    # tr(S) with S = H(H + R)⁻¹ (37).
    degrees = len(ridge) - float(np.trace(cho_solve(factor, np.diag(ridge))))
    return Logit(float(beta[0]), beta[1:], degrees)


def weighted_gram(x: Floats, weights: Floats) -> Floats:
    """Return Σ w·xxᵀ; as a product of a matrix with itself, half of it need not be worked out."""
    scaled = x * np.sqrt(weights)[:, None]
    return np.asarray(scaled.T @ scaled)


def _objective(eta: Floats, beta: Floats, labels: Booleans, weights: Floats, ridge: Floats) -> float:
    return float(np.dot(weights, log_loss(eta, labels)) + 0.5 * ridge @ beta**2)


def log_loss(log_odds: Floats, labels: Booleans) -> Floats:
    """Return each row's −log P(its label), from log-odds of True."""
    return np.asarray(np.logaddexp(0.0, np.where(labels, -log_odds, log_odds)))


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
