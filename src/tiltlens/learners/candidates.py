"""The candidates for the membership model, and the choice between them by held-out log-loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.learners.design import Encoding, Table
from tiltlens.learners.logit import Logit, log_loss, ridge_logit
from tiltlens.learners.screening import surviving_columns
from tiltlens.limits import (
    CHOICE_ROWS,
    CHOICE_SPLITS,
    FEW_COLUMNS,
    MULTIPLIED,
    RIDGE,
    ROWS_PER_DEGREE,
    SPLIT_ONCE,
    TREE_OPTIMISM,
    WEAK_RIDGE,
)
from tiltlens.paper.checks import Floats


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


def _logistic(name: str, **penalties: float) -> Candidate:
    return Candidate(name, MappingProxyType(penalties))


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
# Of many features most may be noise, and each of their columns a cost: those that survive a test are used.
WIDE_CANDIDATES = (
    CANDIDATES[0],
    Candidate("screened", MappingProxyType({"linear": RIDGE}), is_screened=True),
    Candidate(
        "screened splines", MappingProxyType({"linear": WEAK_RIDGE, "bent": RIDGE, "spline": RIDGE}), is_screened=True
    ),
    TREES,
)
# Where the data showed that columns were missed, they compete with trees, which need none, and with the simplest model.
BLOCK_CANDIDATES = (
    _logistic("blocks, ridge", linear=RIDGE, bent=RIDGE, spline=RIDGE, block=RIDGE),
    _logistic("blocks", linear=WEAK_RIDGE, bent=WEAK_RIDGE, spline=RIDGE, block=RIDGE),
)


def candidates(is_wide: bool, has_blocks: bool) -> tuple[Candidate, ...]:
    """Return the candidates for a table of many features or few, and of features that need blocks of columns."""
    if not has_blocks:
        return WIDE_CANDIDATES if is_wide else CANDIDATES
    return (*BLOCK_CANDIDATES, *(WIDE_CANDIDATES if is_wide else (CANDIDATES[0], TREES)))


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows to fit on: the encoded columns, the raw columns for trees, the labels and the weights."""

    matrix: Floats
    kinds: NDArray[np.str_]
    owners: Integers
    raw: Floats
    codes: Booleans
    audited: Booleans
    weights: Floats
    clusters: Integers | None = None

    def rows(self, index: Integers | Booleans) -> Sample:
        """Return some of the rows."""
        return Sample(
            self.matrix[index],
            self.kinds,
            self.owners,
            self.raw[index],
            self.codes,
            self.audited[index],
            self.weights[index],
            None if self.clusters is None else self.clusters[index],
        )


@dataclass(frozen=True, slots=True, eq=False)
class FittedLogit:
    """A logistic candidate with its coefficients on all columns, zero where it does not use them."""

    intercept: float
    slopes: Floats
    degrees: float  # coefficients that the data decided

    def log_odds(self, matrix: Floats, raw: Floats) -> Floats:
        """Return intercept + x·slopes."""
        return np.asarray(matrix @ self.slopes + self.intercept)


@dataclass(frozen=True, slots=True, eq=False)
class FittedTrees:
    """Boosted trees; their log-odds come from `decision_function`, which keeps the tails."""

    model: Any

    def log_odds(self, matrix: Floats, raw: Floats) -> Floats:
        """Return the trees' decision function."""
        return np.asarray(self.model.decision_function(raw), dtype=np.float64)


FittedModel = FittedLogit | FittedTrees


def every_log_odds(models: Sequence[FittedModel], encoder: Encoding, table: Table, index: slice) -> Floats:
    """Return the log-odds of models of one candidate at some rows, (models, n)."""
    logits = [model for model in models if isinstance(model, FittedLogit)]
    if not logits:
        matrix, raw = np.empty((0, 0)), encoder.raw(table, index)
        return np.array([model.log_odds(matrix, raw) for model in models])
    slopes = np.column_stack([model.slopes for model in logits])
    intercepts = np.array([model.intercept for model in logits])
    return np.asarray((encoder.applied(table, index, slopes) + intercepts).T)


def fit_candidate(candidate: Candidate, sample: Sample, seed: int) -> FittedModel:
    """Return the candidate fitted on the sample."""
    if candidate.is_trees:
        return _fit_trees(sample, seed)
    used, penalty = candidate.penalty(sample.kinds)
    if candidate.is_screened:
        survives = surviving_columns(sample.matrix, sample.owners, sample.audited, sample.weights)
        used, penalty = used & survives, penalty[survives[used]]
    fitted: Logit = ridge_logit(sample.matrix[:, used], sample.audited, sample.weights, penalty)
    slopes = np.zeros(used.size)
    slopes[used] = fitted.slopes
    return FittedLogit(fitted.intercept, slopes, fitted.degrees)


def _fit_trees(sample: Sample, seed: int) -> FittedTrees:
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
    return FittedTrees(model.fit(sample.raw, sample.audited, sample_weight=weights))


@dataclass(frozen=True, slots=True)
class Trial:
    """Each candidate's held-out log-loss in one part of the data, and how much of it is variance."""

    losses: Mapping[str, float]
    variance: Mapping[str, float]

    @property
    def biases(self) -> dict[str, float]:
        """Return log-loss less variance: what is left is bias, up to a constant."""
        return {name: loss - self.variance[name] for name, loss in self.losses.items()}

    @property
    def best(self) -> str:
        """Return the candidate of least bias in this part alone."""
        return min(self.biases, key=lambda name: self.biases[name])


def trial(sample: Sample, offered: Sequence[Candidate], seed: int) -> Trial:
    """Return the held-out log-losses of the candidates, three splits, or one where rows are many.

    The double cross-fit corrects for a model's variance; its bias it cannot see. A logistic model of d coefficients
    loses d/(2n) by variance; trees of few features about a tenth of what they gain on the rows they were fitted on.
    """
    generator = np.random.default_rng(seed)
    size = len(sample.audited)
    index = generator.permutation(size)[:CHOICE_ROWS]
    split = np.arange(index.size) % CHOICE_SPLITS
    if sample.clusters is not None:
        _, own = np.unique(sample.clusters[index], return_inverse=True)  # of these rows, so that no split is empty
        split = generator.permutation(int(own.max()) + 1)[own] % CHOICE_SPLITS
    is_quick = size > SPLIT_ONCE or len(sample.kinds) > FEW_COLUMNS
    held_out = range(1) if is_quick else range(CHOICE_SPLITS)
    losses: dict[str, float] = {}
    variance: dict[str, float] = {}
    for candidate in _affordable(offered, sample):
        tests = [_held_out(candidate, sample, index[split != s], index[split == s], seed) for s in held_out]
        losses[candidate.name], variance[candidate.name] = (float(mean) for mean in np.mean(tests, axis=0))
    return Trial(losses, variance)


def chosen(trials: Sequence[Trial], offered: Sequence[Candidate]) -> Candidate:
    """Return the candidate of least mean bias over the trials, among those that all of them could afford."""
    common = [c for c in offered if all(c.name in trial.losses for trial in trials)]
    return min(common, key=lambda candidate: sum(trial.biases[candidate.name] for trial in trials))


def _held_out(candidate: Candidate, sample: Sample, fit: Integers, test: Integers, seed: int) -> tuple[float, float]:
    """Return the mean log-loss on the rows `test` of a model fitted on the rows `fit`, and its variance part."""
    fitted, rest = sample.rows(fit), sample.rows(test)
    model = fit_candidate(candidate, fitted, seed)
    loss = _mean_loss(model, rest)
    if isinstance(model, FittedLogit):
        return loss, model.degrees / (2 * len(fit))
    if sample.raw.shape[1] > MULTIPLIED:  # of many features, what trees gain on their own rows is noise learnt by heart
        return loss, 0.0
    return loss, max(loss - _mean_loss(model, fitted), 0.0) / TREE_OPTIMISM


def _mean_loss(model: FittedModel, sample: Sample) -> float:
    losses = log_loss(model.log_odds(sample.matrix, sample.raw), sample.audited)
    return float(np.average(losses, weights=sample.weights))


def _affordable(offered: Sequence[Candidate], sample: Sample) -> list[Candidate]:
    """Return the candidates whose weakly penalised columns the smaller group has rows for; at least the first."""
    smaller = min(int(sample.audited.sum()), int((~sample.audited).sum()))
    enough = [c for c in offered if c.is_trees or _free_columns(c, sample) * ROWS_PER_DEGREE <= smaller]
    return enough or [offered[0]]


def _free_columns(candidate: Candidate, sample: Sample) -> int:
    _, penalty = candidate.penalty(sample.kinds)
    return int((penalty < RIDGE).sum())
