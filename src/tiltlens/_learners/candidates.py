"""Candidates for the propensity model, and the ridge logistic regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from tiltlens._estimators.influence import Booleans, Integers
from tiltlens._formats import text_of
from tiltlens._learners.design import Encoding, Table
from tiltlens._limits import FEW_COLUMNS, MULTIPLIED, RIDGE, WEAK_RIDGE
from tiltlens._rows.features import DesignColumn, Feature, encode_features
from tiltlens._rows.levels import MISSING
from tiltlens._rows.scores import ORDERED, favourable_index
from tiltlens.errors import DataError, quoted, quoted_list
from tiltlens.paper.checks import Floats

NEWTON_STEPS = 60  # which takes ten
LOGIT_DECREMENT = 1e-7  # of the mean log-loss


@dataclass(frozen=True, slots=True, eq=False)
class Logit:
    """Log-odds intercept + x·slopes, with the effective degrees of freedom (`degrees`)."""

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
    beta, factor = minimise(LOGISTIC, x, labels, w, ridge, beta, LOGIT_DECREMENT)
    # tr(S) with S = H(H + R)⁻¹ (37).
    degrees = len(ridge) - float(np.trace(cho_solve(factor, np.diag(ridge))))
    return Logit(float(beta[0]), beta[1:], degrees)


@dataclass(frozen=True, slots=True)
class Family:
    """A distribution: its mean as a function of η, its variance as one of the mean, and the loss of rows (η, y)."""

    mean: Callable[[Floats], Floats]
    variance: Callable[[Floats], Floats]
    loss: Callable[[Floats, Any], Floats]


def minimise(
    family: Family, x: Floats, y: Floats | Booleans, w: Floats, ridge: Floats, start: Floats, decrement: float
) -> tuple[Floats, tuple[Floats, bool]]:
    """Return the β that minimises Σ w·loss(xβ, y) + ½Σ ridge·β², by Newton steps, and the last Hessian's factor."""

    def objective(eta: Floats, beta: Floats) -> float:
        with np.errstate(over="ignore"):  # of a step that is too long, and is halved
            return float(np.dot(w, family.loss(eta, y)) + 0.5 * ridge @ beta**2)

    beta, eta = start, x @ start
    loss = objective(eta, beta)
    for _ in range(NEWTON_STEPS):
        mean = family.mean(eta)
        gradient = np.dot(x.T, w * (mean - y)) + ridge * beta
        factor = cho_factor(weighted_gram(x, w * family.variance(mean)) + np.diag(ridge), lower=True)
        step = cho_solve(factor, gradient)
        size, fall = 1.0, float(gradient @ step)
        if fall < decrement * len(x):
            break
        eta_step = x @ step
        # Armijo: separable groups make a full Newton step overshoot.
        while not (trial := objective(eta - size * eta_step, beta - size * step)) <= loss - 1e-4 * size * fall:
            if size < 2e-6:
                break
            size /= 2
        beta, eta, loss = beta - size * step, eta - size * eta_step, trial
    return beta, factor


def weighted_gram(x: Floats, weights: Floats) -> Floats:
    """Return Σ w·xxᵀ, as a product of a matrix with itself, which takes half of the work."""
    scaled = x * np.sqrt(weights)[:, None]
    return np.asarray(scaled.T @ scaled)


def log_loss(log_odds: Floats, labels: Booleans) -> Floats:
    """Return each row's −log P(its label), from log-odds of True."""
    return np.asarray(np.logaddexp(0.0, np.where(labels, -log_odds, log_odds)))


LOGISTIC = Family(expit, lambda mean: mean * (1.0 - mean), log_loss)
POISSON = Family(np.exp, lambda mean: mean, lambda eta, y: np.exp(eta) - y * eta)


def ridge_line(matrix: Floats, y: Floats, w: Floats, penalty: Floats) -> tuple[float, Floats]:
    """Return the intercept and the slopes that minimise Σ w·(y − intercept − x·slopes)² + Σ penalty·slope²."""
    # Centred, so that the penalty leaves the intercept alone.
    centre, level = w @ matrix / w.sum(), float(np.average(y, weights=w))
    x = matrix - centre
    factor = cho_factor(weighted_gram(x, w) + np.diag(penalty), lower=True)
    slopes = np.asarray(cho_solve(factor, np.dot(x.T, w * (y - level))))
    return level - float(centre @ slopes), slopes


POLISHING_STEPS = 4  # of Newton after a solver that stops at five digits
LARGEST_STEP = 0.1  # of a coefficient while polishing: beyond it there is no point to polish


def logistic_design(features: Sequence[Feature]) -> Floats:
    """Return a matrix for a plain logistic regression.

    Numbers, and ordered levels as 0, 1, 2, …, are standardised (missing ones at the mean, with an indicator); other
    levels have one column each but the first.
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
    with warnings.catch_warnings():  # a level found in one group only has an infinite coefficient
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
            f"`outcome` must have exactly two values, got {len(values)} in column {quoted(column.name)}.",
            f"the values are {quoted_list(values.to_list())}; make a yes/no column first.",
        )
    return values


CHOICE_SPLITS = 3  # of a part, two to fit and one to test
CHOICE_ROWS = 40_000  # of a part, at most, that the choice uses
SPLIT_ONCE = 20_000  # rows from which one split of them is enough
TREE_OPTIMISM = 10.0  # measured on known truths: see `trial`
ROWS_PER_DEGREE = 5  # of the smaller group, for each weakly penalised coefficient
SURVIVAL = 4.0  # standard deviations by which n·R² of a feature must exceed its mean under independence


@dataclass(frozen=True, slots=True)
class Candidate:
    """A family of membership models: boosted trees, or logistic with one ridge penalty per kind of column."""

    name: str
    penalties: Mapping[str, float] | None
    is_screened: bool = False  # uses only features that survive a test on the rows it is fitted on

    @property
    def is_trees(self) -> bool:
        """Whether this is the boosted trees."""
        return self.penalties is None

    def penalty(self, kinds: NDArray[np.str_]) -> tuple[Booleans, Floats]:
        """Return which columns are used, and the penalty of each of those."""
        penalties = self.penalties or {}
        used = np.isin(kinds, list(penalties))
        return used, np.array([penalties[str(kind)] for kind in kinds[used]])


def _logistic(name: str, is_screened: bool = False, **penalties: float) -> Candidate:
    return Candidate(name, MappingProxyType(penalties), is_screened)


TREES = Candidate("trees", None)
CANDIDATES = (
    _logistic("linear, ridge", linear=RIDGE),
    _logistic("linear", linear=WEAK_RIDGE),
    _logistic("curved", linear=WEAK_RIDGE, bent=WEAK_RIDGE),
    _logistic("smooth, ridge", linear=RIDGE, bent=RIDGE, spline=RIDGE),
    _logistic("smooth", linear=WEAK_RIDGE, bent=WEAK_RIDGE, spline=RIDGE),
    _logistic("splines", linear=WEAK_RIDGE, bent=WEAK_RIDGE, spline=WEAK_RIDGE),
    TREES,
)
# With many features most may be noise that only adds variance, so those that pass a test are used.
WIDE_CANDIDATES = (
    CANDIDATES[0],
    _logistic("screened", is_screened=True, linear=RIDGE),
    _logistic("screened splines", is_screened=True, linear=WEAK_RIDGE, bent=RIDGE, spline=RIDGE),
    TREES,
)
# If blocks were added, models with them compete with trees, which do not need them, and with the simplest model.
BLOCK_CANDIDATES = (
    _logistic("blocks, ridge", linear=RIDGE, bent=RIDGE, spline=RIDGE, block=RIDGE),
    _logistic("blocks", linear=WEAK_RIDGE, bent=WEAK_RIDGE, spline=RIDGE, block=RIDGE),
)


def candidates(is_wide: bool, has_blocks: bool) -> tuple[Candidate, ...]:
    """Return the candidates for a table of many features or few, with or without blocks of columns."""
    if not has_blocks:
        return WIDE_CANDIDATES if is_wide else CANDIDATES
    return (*BLOCK_CANDIDATES, *(WIDE_CANDIDATES if is_wide else (CANDIDATES[0], TREES)))


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows to fit on: the encoded columns, the raw columns for trees, the labels and the weights.

    `matrix` has the encoded columns of many rows, `index` says which of these are the sample's.
    """

    matrix: Floats
    index: Integers
    kinds: NDArray[np.str_]
    owners: Integers
    raw: Floats
    codes: Booleans
    audited: Booleans
    weights: Floats
    clusters: Integers | None = None

    def rows(self, index: Integers | Booleans) -> Sample:
        """Return the rows with this index."""
        return replace(
            self,
            index=self.index[index],
            raw=self.raw[index],
            audited=self.audited[index],
            weights=self.weights[index],
            clusters=None if self.clusters is None else self.clusters[index],
        )

    def columns(self, numbers: Integers) -> Floats:
        """Return some encoded columns; copies of all of them take longer than most fits."""
        return self.matrix.T[numbers].take(self.index, axis=1).T


Trees: TypeAlias = Any  # HistGradientBoostingClassifier, which has no types, and is imported when it is fitted
FittedModel = Logit | Trees  # the former with coefficients on all columns


def every_log_odds(models: Sequence[FittedModel], encoder: Encoding, table: Table, index: slice) -> Floats:
    """Return the log-odds of models of one candidate at some rows, (models, n)."""
    trees = [model for model in models if not isinstance(model, Logit)]
    if trees:
        raw = encoder.raw(table, index)
        return np.array([model.decision_function(raw) for model in trees])
    slopes = np.column_stack([model.slopes for model in models])
    intercepts = np.array([model.intercept for model in models])
    return np.asarray((encoder.applied(table, index, slopes) + intercepts).T)


def fit_candidate(candidate: Candidate, sample: Sample, seed: int) -> FittedModel:
    """Return the candidate fitted on the sample."""
    if candidate.is_trees:
        return fit_trees(sample, seed)
    used, penalty = candidate.penalty(sample.kinds)
    if candidate.is_screened:
        survives = surviving_columns(sample.columns, sample.owners, sample.audited, sample.weights)
        used, penalty = used & survives, penalty[survives[used]]
    fitted = ridge_logit(sample.columns(np.flatnonzero(used)), sample.audited, sample.weights, penalty)
    slopes = np.zeros(used.size)
    slopes[used] = fitted.slopes
    return replace(fitted, slopes=slopes)


def fit_trees(sample: Sample, seed: int) -> Trees:
    """Return boosted trees fitted on the sample."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    size = len(sample.audited)
    is_weighted = bool((sample.weights != sample.weights[0]).any())
    model = HistGradientBoostingClassifier(
        max_iter=40 if size < 2_000 else 60 if size < 10_000 else 100,
        max_leaf_nodes=6 if size < 2_000 else 8 if size < 10_000 else 15,
        l2_regularization=1.0,
        max_bins=63 if is_weighted else 255,  # scikit-learn takes a millisecond for each weighted bin edge
        early_stopping=False,
        categorical_features=sample.codes if sample.codes.any() else None,
        random_state=seed,
    )
    weights = sample.weights / sample.weights.mean() if is_weighted else None
    return model.fit(sample.raw, sample.audited, sample_weight=weights)


def surviving_columns(
    matrix: Callable[[Integers], Floats], owners: Integers, labels: Booleans, weights: Floats
) -> Booleans:
    """Return the columns of features that are associated with the labels: n·R² well above its degrees of freedom.

    A feature of k columns has n·R² of about k by chance, with a standard deviation of √(2k).
    """
    w = weights / weights.sum()
    target = labels - float(w @ labels)
    size, spread = 1.0 / float(w @ w), float(w @ target**2)
    survives = np.zeros(int(owners.max(initial=-1)) + 1, dtype=np.bool_)
    for feature in range(survives.size):
        columns = np.flatnonzero((owners == feature).all(axis=1))
        if columns.size:
            x = matrix(columns)
            x -= w @ x
            weighted = x.T * w
            gram, cross = weighted @ x, weighted @ target
            # Levels and splines may be collinear among themselves.
            gram[np.diag_indices(columns.size)] += 1e-8 * np.trace(gram) + 1e-12
            explained = float(cross @ np.linalg.solve(gram, cross)) / spread
            survives[feature] = size * explained > columns.size + SURVIVAL * np.sqrt(2 * columns.size)
    return np.asarray(survives[owners].all(axis=1))


@dataclass(frozen=True, slots=True)
class Trial:
    """Each candidate's held-out log-loss in one part of the data, and how much of it is variance."""

    losses: Mapping[str, float]
    variance: Mapping[str, float]

    @property
    def biases(self) -> dict[str, float]:
        """Return log-loss minus variance, which is bias up to a constant."""
        return {name: loss - self.variance[name] for name, loss in self.losses.items()}


def trial(sample: Sample, offered: Sequence[Candidate], seed: int) -> Trial:
    """Return the held-out log-losses of the candidates over three splits, or one if there are many rows.

    The double cross-fit corrects for a model's variance, but not for its bias. A logistic model of d coefficients loses
    d/(2n) by variance, trees of few features about a tenth of their gain on the training rows.
    """
    generator = np.random.default_rng(seed)
    size = len(sample.audited)
    # Within the part: evaluation rows do not influence the choice.
    index = generator.permutation(size)[:CHOICE_ROWS]
    split = np.arange(index.size) % CHOICE_SPLITS
    if sample.clusters is not None:
        _, cluster = np.unique(sample.clusters[index], return_inverse=True)  # of these rows, so that no split is empty
        split = generator.permutation(int(cluster.max()) + 1)[cluster] % CHOICE_SPLITS
    is_quick = size > SPLIT_ONCE or len(sample.kinds) > FEW_COLUMNS
    held_out = range(1) if is_quick else range(CHOICE_SPLITS)
    losses: dict[str, float] = {}
    variance: dict[str, float] = {}
    parts = [(sample.rows(index[split != s]), sample.rows(index[split == s])) for s in held_out]
    for candidate in _affordable(offered, sample):
        tests = [_held_out(candidate, *part, seed) for part in parts]
        losses[candidate.name], variance[candidate.name] = (float(mean) for mean in np.mean(tests, axis=0))
    return Trial(losses, variance)


def choose_candidate(trials: Sequence[Trial], offered: Sequence[Candidate]) -> Candidate:
    """Return the candidate of least mean bias over the trials, among those that all of them could afford."""
    common = [c for c in offered if all(c.name in trial.losses for trial in trials)]
    # (37): variance is taken from the loss, since the double cross-fit removes it and leaves squared bias.
    return min(common, key=lambda candidate: sum(trial.biases[candidate.name] for trial in trials))


def _held_out(candidate: Candidate, fitted: Sample, rest: Sample, seed: int) -> tuple[float, float]:
    """Return the mean log-loss on the sample `rest` of a model of the other sample, and its variance part."""
    model = fit_candidate(candidate, fitted, seed)
    loss = _mean_loss(model, rest)
    if isinstance(model, Logit):
        # tr(S)/(2n) ≥ tr(S²)/(2n), the loss that estimating the coefficients costs (37).
        return loss, model.degrees / (2 * fitted.index.size)
    if fitted.raw.shape[1] > MULTIPLIED:  # with many features, the gain of trees on training rows is overfitting
        return loss, 0.0
    return loss, max(loss - _mean_loss(model, fitted), 0.0) / TREE_OPTIMISM


def _mean_loss(model: FittedModel, sample: Sample) -> float:
    if isinstance(model, Logit):
        used = np.flatnonzero(model.slopes)
        log_odds = sample.columns(used) @ model.slopes[used] + model.intercept
    else:
        log_odds = model.decision_function(sample.raw)  # unlike predict_proba it keeps the tails
    return float(np.average(log_loss(log_odds, sample.audited), weights=sample.weights))


def _affordable(offered: Sequence[Candidate], sample: Sample) -> list[Candidate]:
    """Return the candidates whose weakly penalised columns are few enough for the smaller group; at least the first."""
    smaller = min(int(sample.audited.sum()), int((~sample.audited).sum()))
    # Hardly penalised columns need rows of the smaller group, or their fit separates it.
    free_columns = {c.name: int((c.penalty(sample.kinds)[1] < RIDGE).sum()) for c in offered}
    enough = [c for c in offered if c.is_trees or free_columns[c.name] * ROWS_PER_DEGREE <= smaller]
    return enough or [offered[0]]
