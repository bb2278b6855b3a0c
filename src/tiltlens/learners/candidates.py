"""The candidates for the membership model, and the choice between them by held-out log-loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.learners.design import Encoding, Table
from tiltlens.learners.logit import Logit, log_loss, ridge_logit
from tiltlens.limits import FEW_COLUMNS, MULTIPLIED, RIDGE, WEAK_RIDGE
from tiltlens.paper.checks import Floats

CHOICE_SPLITS = 3  # of a part, two to fit and one to test
CHOICE_ROWS = 40_000  # of a part, at most, that the choice looks at
SPLIT_ONCE = 20_000  # rows from which one split of them is enough
TREE_OPTIMISM = 10.0  # measured on known truths: see `trial`
ROWS_PER_DEGREE = 5  # of the smaller group, for each coefficient left unpenalised
SURVIVAL = 4.0  # standard deviations by which n·R² of a feature must exceed what chance gives


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
# With many features most may be noise, and each of their columns a cost: those that pass a test are used.
WIDE_CANDIDATES = (
    CANDIDATES[0],
    _logistic("screened", is_screened=True, linear=RIDGE),
    _logistic("screened splines", is_screened=True, linear=WEAK_RIDGE, bent=RIDGE, spline=RIDGE),
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
        return replace(
            self,
            matrix=self.matrix[index],
            raw=self.raw[index],
            audited=self.audited[index],
            weights=self.weights[index],
            clusters=None if self.clusters is None else self.clusters[index],
        )


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
        survives = surviving_columns(sample.matrix, sample.owners, sample.audited, sample.weights)
        used, penalty = used & survives, penalty[survives[used]]
    fitted = ridge_logit(sample.matrix[:, used], sample.audited, sample.weights, penalty)
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


def surviving_columns(matrix: Floats, owners: Integers, labels: Booleans, weights: Floats) -> Booleans:
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
            x = matrix[:, columns]
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
    """Return the held-out log-losses of the candidates, three splits, or one where rows are many.

    The double cross-fit corrects for a model's variance; its bias it cannot see. A logistic model of d coefficients
    loses d/(2n) by variance; trees of few features about a tenth of what they gain on the rows they were fitted on.
    """
    generator = np.random.default_rng(seed)
    size = len(sample.audited)
    # Within the part: rows of evaluation have no part in the choice.
    index = generator.permutation(size)[:CHOICE_ROWS]
    split = np.arange(index.size) % CHOICE_SPLITS
    if sample.clusters is not None:
        _, cluster = np.unique(sample.clusters[index], return_inverse=True)  # of these rows, so that no split is empty
        split = generator.permutation(int(cluster.max()) + 1)[cluster] % CHOICE_SPLITS
    is_quick = size > SPLIT_ONCE or len(sample.kinds) > FEW_COLUMNS
    held_out = range(1) if is_quick else range(CHOICE_SPLITS)
    losses: dict[str, float] = {}
    variance: dict[str, float] = {}
    for candidate in _affordable(offered, sample):
        tests = [_held_out(candidate, sample, index[split != s], index[split == s], seed) for s in held_out]
        losses[candidate.name], variance[candidate.name] = (float(mean) for mean in np.mean(tests, axis=0))
    return Trial(losses, variance)


def choose_candidate(trials: Sequence[Trial], offered: Sequence[Candidate]) -> Candidate:
    """Return the candidate of least mean bias over the trials, among those that all of them could afford."""
    common = [c for c in offered if all(c.name in trial.losses for trial in trials)]
    # (37): variance is taken from the loss, since the double cross-fit removes it and leaves squared bias.
    return min(common, key=lambda candidate: sum(trial.biases[candidate.name] for trial in trials))


def _held_out(candidate: Candidate, sample: Sample, fit: Integers, test: Integers, seed: int) -> tuple[float, float]:
    """Return the mean log-loss on the rows `test` of a model fitted on the rows `fit`, and its variance part."""
    fitted, rest = sample.rows(fit), sample.rows(test)
    model = fit_candidate(candidate, fitted, seed)
    loss = _mean_loss(model, rest)
    if isinstance(model, Logit):
        # tr(S)/(2n) ≥ tr(S²)/(2n), the loss that estimating the coefficients costs (37).
        return loss, model.degrees / (2 * len(fit))
    if sample.raw.shape[1] > MULTIPLIED:  # of many features, what trees gain on their own rows is noise learnt by heart
        return loss, 0.0
    return loss, max(loss - _mean_loss(model, fitted), 0.0) / TREE_OPTIMISM


def _mean_loss(model: FittedModel, sample: Sample) -> float:
    if isinstance(model, Logit):
        log_odds = sample.matrix @ model.slopes + model.intercept
    else:
        log_odds = model.decision_function(sample.raw)  # unlike predict_proba it keeps the tails
    return float(np.average(log_loss(log_odds, sample.audited), weights=sample.weights))


def _affordable(offered: Sequence[Candidate], sample: Sample) -> list[Candidate]:
    """Return the candidates whose weakly penalised columns the smaller group has rows for; at least the first."""
    smaller = min(int(sample.audited.sum()), int((~sample.audited).sum()))
    # Hardly penalised columns need rows of the smaller group, or their fit separates it.
    free_columns = {c.name: int((c.penalty(sample.kinds)[1] < RIDGE).sum()) for c in offered}
    enough = [c for c in offered if c.is_trees or free_columns[c.name] * ROWS_PER_DEGREE <= smaller]
    return enough or [offered[0]]
