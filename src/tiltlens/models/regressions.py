"""Cross-fitted regressions: E1[W|X] for the unexplained part, E0[g|all features but one] for the total shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tiltlens.estimators.crossfit import CLIP
from tiltlens.estimators.estimate import Booleans, Integers, Rows
from tiltlens.estimators.shapley import compact
from tiltlens.models.design import Encoding, Table, code_columns, encoded_rows, encoding
from tiltlens.models.logit import weighted_gram
from tiltlens.models.membership import CHUNK, Membership, prior_log_odds
from tiltlens.paper.checks import Floats
from tiltlens.threads import in_threads, steps_in_threads

REGRESSED_ROWS = 30_000  # at most, for one fit
RIDGE = 1.0
SHRINKAGE = 2.0  # rows' worth of doubt about a cell's mean
MOST_VALUES = 64  # of a feature, for its joint cells to be few
PEEKED_ROWS = 5_000
ROWS_A_CELL = 10
PICKED_PRODUCTS = 20  # of two features, at most
TELLING = 3.0  # standard errors by which a product must go with what is left
TRIED_PARTS = 3  # in which trees are tried
TREES_HELP = 0.005  # of the target's variance, held out, for trees to be worth their time
TREES_USE = 0.001  # of the target's variance, by which trees must depend on a feature to be grown again without it

Predictor = Callable[[Integers], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Ridge:
    """A ridge regression on all encoded columns."""

    encoder: Encoding
    slopes: Floats
    level: float

    def means(self, table: Table, index: Integers | slice) -> Floats:
        """Return what it expects at some rows."""
        return np.asarray(self.level + self.encoder.applied(table, index, self.slopes[:, None])[:, 0])


def ridge(encoder: Encoding, table: Table, target: Floats, train: Integers, w: Floats) -> tuple[Ridge, Floats]:
    """Return the regression of `target` on the rows `train`, of weights `w`, and what it leaves there."""
    x, y = encoder.matrix(table, train), target[train]
    centre, middle = np.average(x, axis=0, weights=w), float(np.average(y, weights=w))
    x -= centre
    normal = weighted_gram(x, w) + RIDGE * np.eye(x.shape[1])
    slopes = cho_solve(cho_factor(normal, lower=True), np.dot(x.T, w * (y - middle)))
    return Ridge(encoder, slopes, middle - float(centre @ slopes)), y - middle - x @ slopes


@dataclass(frozen=True, slots=True, eq=False)
class Regressor:
    """Ridge regression on all encoded columns, then a flexible fit to what it leaves.

    The flexible part is boosted trees or, where the features have few joint values, their cells' means, shrunk.
    """

    table: Table
    encoder: Encoding
    cells: Integers | None
    weights: Floats
    seed: int

    @classmethod
    def of(cls, table: Table, weights: Floats, seed: int) -> Regressor:
        """Return the regressor on these features."""
        return cls(table, encoding(table, encoded_rows(len(weights), seed)), joint_values(table), weights, seed)

    def fitted(self, target: Floats, train: Integers, wanted: Integers) -> Floats:
        """Return the mean of `target` given the features at the rows `wanted`, learnt from the rows `train`."""
        if train.size > REGRESSED_ROWS:
            train = np.sort(np.random.default_rng(self.seed).choice(train, REGRESSED_ROWS, replace=False))
        w = self.weights[train] / self.weights[train].mean()
        linear, left = ridge(self.encoder, self.table, target, train, w)
        flexible = self._trees(train, left, w) if self.cells is None else cell_means(self.cells, train, left, w)
        means = np.empty(wanted.size)
        for start in range(0, wanted.size, CHUNK):
            chunk = wanted[start : start + CHUNK]
            means[start : start + CHUNK] = linear.means(self.table, chunk) + flexible(chunk)
        return means

    def _trees(self, train: Integers, left: Floats, w: Floats) -> Predictor:
        trees = boosted_trees(self.encoder.raw(self.table, train), code_columns(self.table), left, w, self.seed)
        return lambda rows: np.asarray(trees.predict(self.encoder.raw(self.table, rows)))


def cell_means(cells: Integers, train: Integers, left: Floats, w: Floats) -> Predictor:
    """Return each joint cell's mean of `left`, shrunk towards 0."""
    size = int(cells.max()) + 1
    sums, counts = (np.bincount(cells[train], v, size) for v in (w * left, w))
    means = sums / (counts + SHRINKAGE)
    return lambda rows: means[cells[rows]]


def boosted_trees(raw: Floats, is_code: Booleans, left: Floats, w: Floats, seed: int) -> Any:
    """Return boosted trees on the raw features, fitted to `left`."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    is_weighted = bool((w != w[0]).any())
    trees = HistGradientBoostingRegressor(
        max_iter=60,
        max_leaf_nodes=15 if len(left) >= 2_000 else 6,
        l2_regularization=1.0,
        max_bins=63 if is_weighted else 255,
        early_stopping=False,
        categorical_features=is_code if is_code.any() else None,
        random_state=seed,
    )
    return trees.fit(raw, left, sample_weight=w if is_weighted else None)


def joint_values(table: Table) -> Integers | None:
    """Return the joint cell of each row's feature values; None where there are too many for cell means."""
    columns = []
    for column in table.values():
        if len(np.unique(column[:PEEKED_ROWS])) > MOST_VALUES:
            return None
        columns.append(np.unique(column, return_inverse=True)[1])
    cells = compact(np.column_stack(columns))[0]
    return cells if ROWS_A_CELL * (int(cells.max()) + 1) <= len(cells) else None


def reference_expectation(rows: Rows, table: Table, outcome: Floats, fold: Integers, seed: int = 0) -> Floats:
    """Return μ(x) = E1[W|X=x] for every row, learnt from the reference rows of the other folds."""
    regressor = Regressor.of(table, rows.weights, seed)
    expected = np.empty(outcome.size)

    def expect(f: int) -> None:
        own = np.flatnonzero(fold == f)
        expected[own] = regressor.fitted(outcome, np.flatnonzero(~rows.audited & (fold != f)), own)

    steps_in_threads(expect, range(int(fold.max()) + 1), fold.size)
    return expected


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """All encoded columns of all rows, and which one or two features (places in the table) own each.

    The first `movable` of them, those of single features, may be multiplied with each other.
    """

    matrix: Floats
    owners: Integers  # (columns, 2)
    movable: int


def owned_columns(table: Table, encoder: Encoding) -> Columns:
    """Return the columns of `Encoding.matrix` with their owners."""
    place = {name: j for j, name in enumerate(table)}
    numeric = [(place[column.name], column) for column in encoder.numeric]
    levels = [(place[column.name], column) for column in encoder.levels]
    single = [j for j, _ in numeric] + [j for j, column in numeric if column.has_missing]
    single += [j for j, column in levels for _ in range(column.count)]
    multiplied = [j for j, _ in numeric] + [j for j, column in levels if column.count == 1]
    products = [(multiplied[i], multiplied[k]) for i, k in encoder.products]
    splines = [j for j, column in numeric for _ in range(column.width)]
    owners = [*((j, j) for j in single), *products, *((j, j) for j in splines)]
    return Columns(encoder.matrix(table, slice(None)), np.array(owners, dtype=np.intp), len(single))


def with_products(columns: Columns, target: Floats, train: Integers, w: Floats) -> tuple[Floats, Integers]:
    """Return the columns and their owners, with the products of two features that explain what the others leave.

    They are picked on the rows `train`, of weights `w`.
    """
    matrix, owners = columns.matrix, columns.owners
    x = matrix[train] - np.average(matrix[train], axis=0, weights=w)
    y = target[train] - np.average(target[train], weights=w)
    left = y - x @ np.linalg.solve(weighted_gram(x, w) + RIDGE * np.eye(x.shape[1]), x.T @ (w * y))
    z = x[:, : columns.movable]
    strength = np.abs((z.T * (w * left)) @ z) / np.sqrt((z**2).T @ z**2 + 1e-12)
    one, other = np.triu_indices(columns.movable, 1)
    strong = strength[one, other] * (owners[one, 0] != owners[other, 0])
    best = np.argsort(-strong, kind="stable")[:PICKED_PRODUCTS]
    best = best[strong[best] > TELLING * float(left.std())]
    one, other = one[best], other[best]
    movable = matrix[:, : columns.movable] - np.average(matrix[train, : columns.movable], axis=0, weights=w)
    picked = np.column_stack([owners[one, 0], owners[other, 0]])
    return np.hstack([matrix, movable[:, one] * movable[:, other]]), np.vstack([owners, picked])


@dataclass(frozen=True, slots=True, eq=False)
class LeaveOneOut:
    """Regressions on all features and on all but each one, from one factorisation.

    Ridge regression on the encoded columns and the most telling products of two features; then cells' means where
    joint values are few, or trees where these help.
    """

    features: int
    columns: Columns
    raw: Floats
    is_code: Booleans
    cells: tuple[Integers, ...] | None
    weights: Floats
    seed: int

    @classmethod
    def of(cls, table: Table, weights: Floats, seed: int) -> LeaveOneOut:
        """Return the regressions on these features."""
        encoder = encoding(table, encoded_rows(len(weights), seed))
        cells = None
        if (together := joint_values(table)) is not None:
            codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in table.values()])
            cells = (together, *(compact(np.delete(codes, j, axis=1))[0] for j in range(len(table))))
        raw = encoder.raw(table, slice(None))
        columns = owned_columns(table, encoder)
        return cls(len(table), columns, raw, code_columns(table), cells, weights, seed)

    def means(self, target: Floats, train: Integers, has_trees: bool) -> Floats:
        """Return E[`target`|X] and E[`target`|X without j] at all rows, (1 + features, n)."""
        w = self.weights[train] / self.weights[train].mean()
        means = self._linear(target, train, w)
        left = target[train] - means[:, train]
        if self.cells is not None:
            for j, cells in enumerate(self.cells):
                means[j] += cell_means(cells, train, left[j], w)(np.arange(len(target)))
        elif has_trees:
            means += self._trees(left, train, w, float(np.var(target[train])))
        return means

    def trees_gain(self, target: Floats, train: Integers, test: Integers) -> float:
        """Return the part of the held-out variance that trees explain of what the linear part leaves."""
        w = self.weights[train] / self.weights[train].mean()
        linear = self._linear(target, train, w)[0]
        trees = boosted_trees(self.raw[train], self.is_code, (target - linear)[train], w, self.seed)
        left = (target - linear)[test]
        spread = float(np.var(target[test]))
        return float(np.mean(left**2 - (left - trees.predict(self.raw[test])) ** 2)) / spread if spread > 0 else 0.0

    def _linear(self, target: Floats, train: Integers, w: Floats) -> Floats:
        """Return the ridge regressions' means at all rows, (1 + features, n).

        With K = (XᵀX + ridge)⁻¹ and slopes β, leaving out the columns B leaves β − K_{·B} K_BB⁻¹ β_B.
        """
        matrix, owners = with_products(self.columns, target, train, w)
        centre, middle = np.average(matrix[train], axis=0, weights=w), float(np.average(target[train], weights=w))
        x = matrix[train] - centre
        inverse = np.linalg.inv(weighted_gram(x, w) + RIDGE * np.eye(x.shape[1]))
        slopes = inverse @ np.dot(x.T, w * (target[train] - middle))
        every = [slopes]
        for j in range(self.features):
            gone = np.flatnonzero((owners == j).any(axis=1))
            every.append(slopes - inverse[:, gone] @ np.linalg.solve(inverse[np.ix_(gone, gone)], slopes[gone]))
        return np.asarray(middle + ((matrix - centre) @ np.column_stack(every)).T)

    def _trees(self, left: Floats, train: Integers, w: Floats, spread: float) -> Floats:
        """Return what trees add: those of all features also serve without a feature that they hardly use."""
        raw, own = self.raw, self.raw[train]
        together = boosted_trees(own, self.is_code, left[0], w, self.seed)
        added = np.tile(together.predict(raw), (1 + self.features, 1))
        shuffled = np.random.default_rng(self.seed).permutation(train.size)
        for j in range(self.features if self.features > 1 else 0):
            moved = own.copy()
            moved[:, j] = own[shuffled, j]
            if float(np.var(together.predict(moved) - added[0, train])) > TREES_USE * spread:
                is_code = np.delete(self.is_code, j)
                trees = boosted_trees(np.delete(own, j, axis=1), is_code, left[1 + j], w, self.seed)
                added[1 + j] = trees.predict(np.delete(raw, j, axis=1))
        return added


def left_out_expectations(
    rows: Rows, table: Table, membership: Membership, targets: Sequence[Floats], seed: int = 0
) -> Iterator[list[tuple[Floats, Floats]]]:
    """Yield (m_a, m_b) for each pairing: E0[g_a|·], E0[g_b|·] given all features, then given all but each one.

    `targets` holds g of each part's model; each is fitted on the audited rows of that part.
    """
    regressions, fold = LeaveOneOut.of(table, rows.weights, seed), membership.fold
    inside = [np.isin(fold, part.folds) for part in membership.parts]
    trains, tests = (
        [np.flatnonzero(rows.audited & here) for here in sides] for sides in (inside, [~i for i in inside])
    )
    has_trees = False
    if regressions.cells is None:
        tried = list(zip(targets, trains, tests, strict=True))[:TRIED_PARTS]
        has_trees = float(np.mean(in_threads(lambda one: regressions.trees_gain(*one), tried, fold.size))) > TREES_HELP
    learnt = list(zip(targets, trains, strict=True))
    fits = steps_in_threads(lambda one: regressions.means(*one, has_trees), learnt, fold.size)
    everyone, means = np.arange(fold.size), np.array(fits)
    for j in range(1 + len(table)):
        yield [(means[half[fold, 0], j, everyone], means[half[fold, 1], j, everyone]) for half in membership.plan]


def part_log_ratios(rows: Rows, membership: Membership) -> list[Floats]:
    """Return ℓ of each part's model, clipped."""
    return [np.clip(ell - prior_log_odds(rows), -CLIP, CLIP) for ell in membership.part_log_odds]
