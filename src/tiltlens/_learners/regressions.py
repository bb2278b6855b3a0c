"""Regressions of the score on all features, cross-fitted with half of the weight in each group; and on one number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from tiltlens._estimators.feature_gap import Hidden, Residuals, joint_codes
from tiltlens._estimators.influence import Booleans, Integers, Rows
from tiltlens._estimators.ridges import PARTS
from tiltlens._learners.blocks import BasisFit
from tiltlens._learners.candidates import ridge_line, weighted_gram
from tiltlens._learners.design import Block, Encoding, Table, code_columns, encoded_rows, encoding
from tiltlens._learners.linear_models import by_strength
from tiltlens._learners.propensity import Propensity, in_folds, row_folds, served_folds
from tiltlens._limits import BASIS_KNOTS, MODEL_CHUNK, RIDGE
from tiltlens._rows.predictions import UserModel
from tiltlens._sources.arrays import below
from tiltlens._threads import steps_in_threads
from tiltlens.paper.checks import Floats

SMOOTH_FEATURES = 25  # most features with splines in a regression of the score, and most in its trees
REGRESSED_ROWS = 30_000  # at most, for one fit
SMALLEST_SHRINKAGE = 0.01  # rows at 0 by which a cell's mean is shrunk, at least
LARGEST_SHRINKAGE = 1e6  # and at most
FEW_JOINT_VALUES = 64  # of a feature, for its joint cells to be few
TREE_BINS = 62  # of a numeric feature, for trees on residuals of a ridge regression
FEWEST_LEAF_ROWS = 20  # of a leaf of boosted trees
PEEKED_ROWS = 5_000  # from which it is seen whether a feature has few values
CELL_MEAN_ROWS = 10  # for each joint cell, on average, for cell means to be used
SMOOTH_ROWS = 50_000  # at most, for one fit
SMOOTH_RIDGE = 1e-6  # of a column's variance: the splines stay defined where they are collinear
Predictor = Callable[[Integers], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Ridge:
    """A ridge regression on all encoded columns."""

    encoder: Encoding
    slopes: Floats
    level: float

    def means(self, table: Table, index: Integers | slice) -> Floats:
        """Return the predictions at some rows."""
        return np.asarray(self.level + self.encoder.applied(table, index, self.slopes[:, None])[:, 0])


def ridge(encoder: Encoding, table: Table, target: Floats, train: Integers, w: Floats) -> tuple[Ridge, Floats]:
    """Return the regression of `target` on the rows `train`, of weights `w`, and its residuals there."""
    x, y = encoder.matrix(table, train), target[train]
    level, slopes = ridge_line(x, y, w, np.full(x.shape[1], RIDGE))
    return Ridge(encoder, slopes, level), y - level - x @ slopes


@dataclass(frozen=True, slots=True)
class TreeSize:
    """The size of boosted trees: their number, their leaves, and the smallest share of the rows in a leaf."""

    trees: int = 60
    leaves: int = 15
    least: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Regressor:
    """Ridge regression on all encoded columns, then a flexible fit to its residuals.

    The flexible fit is boosted trees or, if the features have few joint values, shrunken cell means. For features with
    more values than columns, shrunken means by value of the remaining residuals follow. Of many features, only those
    most associated with the score, `strong`, have splines and enter the trees.
    """

    table: Table
    encoder: Encoding
    strong: frozenset[str]
    cells: Integers | None
    values: tuple[Integers, ...]
    weights: Floats
    seed: int
    trees: TreeSize = TreeSize()

    @classmethod
    def of(
        cls,
        table: Table,
        values: Mapping[str, Integers],
        outcome: Floats,
        weights: Floats,
        seed: int,
        blocks: Sequence[Block] = (),
    ) -> Regressor:
        """Return the regressor on these features; `values` are the codes of all values of those that have codes."""
        index = encoded_rows(len(weights), seed)
        smooth = frozenset(by_strength(table, (outcome,), weights, index, SMOOTH_FEATURES)[:SMOOTH_FEATURES])
        encoder = encoding(table, index, smooth=smooth).widened(blocks)
        many = tuple(
            values[column.name] for column in encoder.levels if int(values[column.name].max(initial=0)) > column.count
        )
        return cls(table, encoder, smooth, joint_values(table), many, weights, seed)

    def fitted(self, target: Floats, train: Integers, wanted: Integers) -> Floats:
        """Return the mean of `target` given the features at the rows `wanted`, learnt from the rows `train`."""
        return np.asarray(self.stages(target, train, wanted).sum(axis=0))

    def stages(self, target: Floats, train: Integers, wanted: Integers) -> Floats:
        """Return the same as two terms, (2, rows): the ridge regression, and the sum of the flexible parts."""
        if train.size > REGRESSED_ROWS:
            train = np.sort(np.random.default_rng(self.seed).choice(train, REGRESSED_ROWS, replace=False))
        w = self.weights[train] / self.weights[train].mean()
        # In sequence: trees alone miss products that the ridge columns represent, and ridge fits miss steps.
        linear, left = ridge(self.encoder, self.table, target, train, w)
        flexible = [self._trees(train, left, w) if self.cells is None else cell_means(self.cells, train, left, w)]
        for codes in self.values:
            left = left - flexible[-1](train)
            flexible.append(cell_means(codes, train, left, w))
        means = np.empty((2, wanted.size))
        for start in range(0, wanted.size, MODEL_CHUNK):
            chunk = wanted[start : start + MODEL_CHUNK]
            added = sum(part(chunk) for part in flexible)
            means[:, start : start + MODEL_CHUNK] = linear.means(self.table, chunk), added
        return means

    def _trees(self, train: Integers, left: Floats, w: Floats) -> Predictor:
        table = {name: column for name, column in self.table.items() if name in self.strong}
        trees = fit_boosted_trees(self.encoder.raw(table, train), code_columns(table), left, w, self.seed, self.trees)
        return lambda rows: np.asarray(trees.predict(self.encoder.raw(table, rows)))


def cell_means(cells: Integers, train: Integers, left: Floats, w: Floats) -> Predictor:
    """Return a predictor by each cell's mean of `left`, shrunk towards 0 as if by σ²/τ² more rows with value 0.

    σ² and τ² are the variances within and between cells of a one-way layout (empirical Bayes).
    """
    size = int(cells.max()) + 1
    sums, counts, squares = (np.bincount(cells[train], v, size) for v in (w * left, w, w * left**2))
    there = counts > 0
    plain = np.divide(sums, counts, out=np.zeros(size), where=there)
    spare = max(float(counts.sum()) - int(there.sum()), 1.0)
    within = max(float((squares - counts * plain**2).sum()), 0.0) / spare
    between = (
        float((counts[there] * plain[there] ** 2).sum()) / float(counts.sum()) - within * there.sum() / counts.sum()
    )
    # If τ² is 0, the means are shrunk to almost 0.
    shrinkage = within / between if between > 1e-12 * within else LARGEST_SHRINKAGE
    means = sums / (counts + min(max(shrinkage, SMALLEST_SHRINKAGE), LARGEST_SHRINKAGE))
    return lambda rows: means[cells[rows]]


@dataclass(frozen=True, slots=True, eq=False)
class BinnedTrees:
    """Boosted trees on columns that were cut at quantiles first: with weights, scikit-learn does that very slowly."""

    edges: tuple[Floats, ...]
    model: UserModel

    def predict(self, raw: Floats) -> Floats:
        """Return the predictions of the trees."""
        return np.asarray(self.model.predict(_cut(raw, self.edges)))


def _cut(raw: Floats, edges: Sequence[Floats]) -> Floats:
    """Return each number's position among the edges of its column, NaN where it is missing; codes stay as they are."""
    columns = [
        np.where(np.isnan(column), np.nan, below(cuts, column)) if cuts.size else column
        for column, cuts in zip(np.ascontiguousarray(raw.T), edges, strict=True)
    ]
    return np.column_stack(columns)


def fit_boosted_trees(
    raw: Floats, is_code: Booleans, left: Floats, w: Floats, seed: int, size: TreeSize
) -> BinnedTrees:
    """Return boosted trees on the raw features, fitted to `left`."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    is_weighted = bool((w != w[0]).any())
    quantiles = np.linspace(0.0, 1.0, TREE_BINS + 1)[1:-1]
    edges = tuple(
        np.zeros(0) if code or np.isnan(column).all() else np.unique(np.nanquantile(column, quantiles))
        for column, code in zip(raw.T, is_code, strict=True)
    )
    trees = HistGradientBoostingRegressor(
        max_iter=size.trees,
        max_leaf_nodes=size.leaves if len(left) >= 2_000 else 6,
        min_samples_leaf=max(int(size.least * len(left)), FEWEST_LEAF_ROWS),
        l2_regularization=1.0,
        max_bins=TREE_BINS + 1,
        early_stopping=False,
        categorical_features=is_code if is_code.any() else None,
        random_state=seed,
    )
    return BinnedTrees(edges, trees.fit(_cut(raw, edges), left, sample_weight=w if is_weighted else None))


def joint_values(table: Table) -> Integers | None:
    """Return the joint cell of each row's feature values; None where there are too many for cell means."""
    if any(len(np.unique(column[:PEEKED_ROWS])) > FEW_JOINT_VALUES for column in table.values()):
        return None
    columns = [np.unique(column, return_inverse=True)[1] for column in table.values()]
    cells = joint_codes(np.column_stack(columns))[0]
    return cells if CELL_MEAN_ROWS * (int(cells.max()) + 1) <= len(cells) else None


@dataclass(frozen=True, slots=True, eq=False)
class Expectations:
    """Cross-fitted E[W|X] (`pairs`) and E[S̄|X] (`groups`) at every row: for each pairing those of both halves, (2, n).

    `groups` is empty if the membership is known. `hidden` are the parts of the gap that cells of features still hide.
    """

    fold: Integers
    pairs: tuple[Floats, ...]
    groups: tuple[Floats, ...] = ()
    hidden: tuple[Hidden, ...] = ()

    @property
    def mean(self) -> Floats:
        """The mean of all models that have not seen a row."""
        return np.asarray(np.mean([pair.mean(axis=0) for pair in self.pairs], axis=0))


def expectations(
    rows: Rows,
    table: Table,
    values: Mapping[str, Integers],
    outcome: Floats,
    membership: Propensity | None,
    folds: int,
    seed: int,
    blocks: Sequence[Block] = (),
) -> Expectations:
    """Return E[W|X], each group with half of the weight, fitted on the parts of a cross-fitted membership.

    Where the membership is given, not fitted, each fold's model is fitted on all others.
    """
    omega = rows.balanced_weights
    regressor = Regressor.of(table, values, outcome, omega * omega.size, seed, blocks)
    if membership is None or membership.is_known:
        fold = row_folds(rows, folds, seed)
        # One fit per fold serves as both halves, because the given membership is a single fit.
        expected = np.empty(outcome.size)

        def expect(number: int) -> None:
            held_out = np.flatnonzero(fold == number)
            expected[held_out] = regressor.fitted(outcome, np.flatnonzero(fold != number), held_out)

        steps_in_threads(expect, range(folds), fold.size)
        return Expectations(fold, (np.array([expected, expected]),))
    fold = membership.fold
    trains = [np.flatnonzero(in_folds(fold, part.folds)) for part in membership.parts]
    wanted = [np.flatnonzero(in_folds(fold, served_folds(membership.plan, number))) for number in range(len(trains))]
    both = list(zip(trains, wanted, strict=True))
    every = np.zeros((len(both), fold.size))
    for number, fitted in enumerate(steps_in_threads(lambda split: regressor.fitted(outcome, *split), both, fold.size)):
        every[number, wanted[number]] = fitted
    at = np.arange(fold.size)
    groups = tuple(expit(both) for both in membership.halves)
    return Expectations(fold, tuple(every[half[fold].T, at] for half in membership.plan), groups)


def best_expectations(
    rows: Rows,
    outcome: Floats,
    membership: Propensity | None,
    expected: Expectations,
    fit: BasisFit,
) -> Expectations:
    """Return the expectations of the group and of the score, each from the regressions with the smaller bias.

    Those of `fit` use a basis. The mean product of two independent fits' residuals is the irreducible variance plus the
    squared bias, without the variance of the fits. `hidden` is computed from the residuals of the best regressions.
    """
    if membership is None or membership.is_known:
        return expected
    # Parts of the propensity and of the ridges are the same pairs of folds, in another order.
    part_of = np.array([PARTS.index(part.folds) for part in membership.parts])
    omega = rows.balanced_weights
    every, at, fold = fit.part_residuals, np.arange(outcome.size), membership.fold
    best, is_basis = [], []
    for number, target, others in ((0, rows.audited * 1.0, expected.groups), (1, outcome, expected.pairs)):
        # E[(W − m_a)(W − m_b)] = Var(W|X) + bias²: products of independent fits leave out their variance.
        basis = tuple(target - every[number][part_of[half][fold].T, at] for half in membership.plan)
        losses = [sum(float(omega @ ((target - a) * (target - b))) for a, b in pairs) for pairs in (basis, others)]
        is_basis.append(losses[0] < losses[1])
        best.append(basis if is_basis[-1] else others)
    if all(is_basis):
        return replace(expected, groups=best[0], pairs=best[1], hidden=fit.left)
    group = rows.audited - np.mean([pair.mean(axis=0) for pair in best[0]], axis=0)
    score = outcome - np.mean([pair.mean(axis=0) for pair in best[1]], axis=0)
    left = fit.hidden(Residuals(group, score, omega, float(omega @ group**2)))
    return replace(expected, groups=best[0], pairs=best[1], hidden=left)


@dataclass(frozen=True, slots=True, eq=False)
class SmoothPart:
    """Targets at training rows, (rows, t), and the rows at which their means are predicted."""

    train: Integers
    target: Floats
    wanted: Integers

    @classmethod
    def of(cls, target: Floats, train: Integers, wanted: Integers) -> SmoothPart:
        """Return the part, with at most `SMOOTH_ROWS` rows to learn from: a dozen slopes need no more."""
        few = train[:: -(-train.size // SMOOTH_ROWS)]
        return cls(few, target[few], wanted)


def spline_means(column: Floats, parts: Sequence[SmoothPart], weights: Floats, seed: int) -> list[Floats]:
    """Return E[target|x] of each part at the rows where it is wanted, by cubic splines, almost without a penalty."""
    table = {"x": column}
    encoder = encoding(table, encoded_rows(len(column), seed), BASIS_KNOTS)
    matrix = encoder.matrix(table, slice(None))
    means = []
    for part in parts:
        x, w = matrix.take(part.train, axis=0), weights[part.train] / weights[part.train].sum()
        centre, level = w @ x, w @ part.target
        x = x - centre
        scale = np.sqrt(np.maximum(w @ x**2, 1e-12))
        gram = weighted_gram(x / scale, w) + SMOOTH_RIDGE * np.eye(x.shape[1])
        # Several targets share the factorisation: ℓ, T and W of one part.
        slopes = cho_solve(cho_factor(gram, lower=True), ((x / scale).T * w) @ (part.target - level))
        slopes = slopes / scale[:, None]
        means.append(np.dot(matrix.take(part.wanted, axis=0), slopes) + (level - centre @ slopes))
    return means
