"""Cross-fitted regressions: E1[W|X] for the unexplained part, E0[g|X_A] for the total shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tiltmeter.models.design import Encoding, Table, code_columns, encoded_rows, encoding
from tiltmeter.models.membership import CHUNK, Membership, prior_log_odds
from tiltmeter.theory.checks import Floats
from tiltmeter.theory.crossfit import CLIP, Gradient
from tiltmeter.theory.shapley import compact
from tiltmeter.theory.uncertainty import Integers, Rows

REGRESSED_ROWS = 50_000  # at most, for one fit
RIDGE = 1.0
SHRINKAGE = 2.0  # rows' worth of doubt about a cell's mean
MOST_VALUES = 64  # of a feature, for its joint cells to be few
PEEKED_ROWS = 5_000
ROWS_A_CELL = 10


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
        y, w = target[train], self.weights[train] / self.weights[train].mean()
        x = self.encoder.matrix(self.table, train)
        centre, middle = np.average(x, axis=0, weights=w), float(np.average(y, weights=w))
        x -= centre
        normal = (x.T * w) @ x + RIDGE * np.eye(x.shape[1])
        slopes = cho_solve(cho_factor(normal, lower=True), x.T @ (w * (y - middle)))
        left = y - middle - x @ slopes
        flexible = self._trees(train, left, w) if self.cells is None else self._cell_means(train, left, w)
        means = np.empty(wanted.size)
        for start in range(0, wanted.size, CHUNK):
            chunk = wanted[start : start + CHUNK]
            linear = (self.encoder.matrix(self.table, chunk) - centre) @ slopes
            means[start : start + CHUNK] = middle + linear + flexible(chunk)
        return means

    def _cell_means(self, train: Integers, left: Floats, w: Floats) -> Callable[[Integers], Floats]:
        assert self.cells is not None
        size = int(self.cells.max()) + 1
        sums, counts = (np.bincount(self.cells[train], v, size) for v in (w * left, w))
        means, cells = sums / (counts + SHRINKAGE), self.cells
        return lambda rows: means[cells[rows]]

    def _trees(self, train: Integers, left: Floats, w: Floats) -> Callable[[Integers], Floats]:
        from sklearn.ensemble import HistGradientBoostingRegressor

        is_weighted = bool((w != w[0]).any())
        is_code = code_columns(self.table)
        trees = HistGradientBoostingRegressor(
            max_iter=60,
            max_leaf_nodes=15 if train.size >= 2_000 else 6,
            l2_regularization=1.0,
            max_bins=63 if is_weighted else 255,
            early_stopping=False,
            categorical_features=is_code if is_code.any() else None,
            random_state=self.seed,
        )
        trees.fit(self.encoder.raw(self.table, train), left, sample_weight=w if is_weighted else None)
        return lambda rows: np.asarray(trees.predict(self.encoder.raw(self.table, rows)))


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
    for f in range(int(fold.max()) + 1):
        own = np.flatnonzero(fold == f)
        expected[own] = regressor.fitted(outcome, np.flatnonzero(~rows.audited & (fold != f)), own)
    return expected


def subset_expectations(
    rows: Rows,
    table: Table,
    membership: Membership,
    g: Gradient,
    features: Sequence[str],
    seed: int = 0,
) -> list[tuple[Floats, Floats]]:
    """Return (m_a, m_b) for each pairing: E0[g_a|X_A], E0[g_b|X_A], A = `features`.

    Each is fitted on the audited rows of its own model's part, with that model's g as the target; `g` says for
    which λ2 and λ4.
    """
    regressor = Regressor.of({name: table[name] for name in features}, rows.weights, seed)
    everyone, fold = np.arange(rows.audited.size), membership.fold
    means = np.empty(membership.part_log_odds.shape)
    for place, target in enumerate(_part_gradients(rows, membership, g)):
        train = np.flatnonzero(rows.audited & np.isin(fold, membership.parts[place].folds))
        means[place] = regressor.fitted(target, train, everyone)
    return [(means[half[fold, 0], everyone], means[half[fold, 1], everyone]) for half in membership.plan]


def _part_gradients(rows: Rows, membership: Membership, g: Gradient) -> Iterator[Floats]:
    """Yield λ2·ℓ + λ4·T of each part's model, ℓ clipped."""
    output = g.output_weight * g.output.values() if g.output is not None else 0.0
    for log_odds in membership.part_log_odds:
        yield g.input_weight * np.clip(log_odds - prior_log_odds(rows), -CLIP, CLIP) + output
