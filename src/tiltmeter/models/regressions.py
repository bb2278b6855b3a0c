"""Cross-fitted regressions: E1[W|X] for the unexplained part, E0[g|X_A] for the total shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tiltmeter.models.design import Encoding, Table, code_columns, encoded_rows, encoding
from tiltmeter.models.membership import CHUNK, Membership, prior_log_odds
from tiltmeter.theory.checks import Floats
from tiltmeter.theory.crossfit import CLIP, Gradient
from tiltmeter.theory.uncertainty import Integers, Rows

REGRESSED_ROWS = 50_000  # at most, for one fit
RIDGE = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """Ridge regression on all encoded columns, then boosted trees on what it leaves."""

    encoder: Encoding
    intercept: float
    slopes: Floats
    trees: Any

    def predict(self, table: Table, size: int) -> Floats:
        """Return the fitted mean of every row, a chunk of rows at a time."""
        fitted = np.empty(size)
        for start in range(0, size, CHUNK):
            chunk = slice(start, min(start + CHUNK, size))
            fitted[chunk] = self.intercept + self.encoder.matrix(table, chunk) @ self.slopes
            fitted[chunk] += self.trees.predict(self.encoder.raw(table, chunk))
        return fitted


def regression(
    table: Table, encoder: Encoding, index: Integers, target: Floats, weights: Floats, seed: int
) -> Regression:
    """Return the regression of `target` on the features, over the rows `index`."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    if index.size > REGRESSED_ROWS:
        index = np.sort(np.random.default_rng(seed).choice(index, REGRESSED_ROWS, replace=False))
    y, w = target[index], weights[index] / weights[index].mean()
    x = encoder.matrix(table, index)
    centre, middle = np.average(x, axis=0, weights=w), float(np.average(y, weights=w))
    x -= centre
    normal = (x.T * w) @ x + RIDGE * np.eye(x.shape[1])
    slopes = cho_solve(cho_factor(normal, lower=True), x.T @ (w * (y - middle)))
    is_weighted = bool((w != w[0]).any())
    trees = HistGradientBoostingRegressor(
        max_iter=60,
        max_leaf_nodes=15 if index.size >= 2_000 else 6,
        l2_regularization=1.0,
        max_bins=63 if is_weighted else 255,
        early_stopping=False,
        categorical_features=code_columns(table) if code_columns(table).any() else None,
        random_state=seed,
    )
    trees.fit(encoder.raw(table, index), y - middle - x @ slopes, sample_weight=w if is_weighted else None)
    return Regression(encoder, middle - float(centre @ slopes), slopes, trees)


def reference_expectation(rows: Rows, table: Table, outcome: Floats, fold: Integers, seed: int = 0) -> Floats:
    """Return μ(x) = E1[W|X=x] for every row, learnt from the reference rows of the other folds."""
    encoder = encoding(table, encoded_rows(outcome.size, seed))
    expected = np.empty(outcome.size)
    for f in range(int(fold.max()) + 1):
        train = np.flatnonzero(~rows.audited & (fold != f))
        fitted = regression(table, encoder, train, outcome, rows.weights, seed)
        own = np.flatnonzero(fold == f)
        expected[own] = fitted.predict({name: column[own] for name, column in table.items()}, own.size)
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
    subset = {name: table[name] for name in features}
    encoder = encoding(subset, encoded_rows(rows.audited.size, seed))
    everyone, fold = np.arange(rows.audited.size), membership.fold
    means = np.empty(membership.part_log_odds.shape)
    for place, target in enumerate(_part_gradients(rows, membership, g)):
        train = np.flatnonzero(rows.audited & np.isin(fold, membership.parts[place].folds))
        fitted = regression(subset, encoder, train, target, rows.weights, seed)
        means[place] = fitted.predict(subset, everyone.size)
    return [(means[half[fold, 0], everyone], means[half[fold, 1], everyone]) for half in membership.plan]


def _part_gradients(rows: Rows, membership: Membership, g: Gradient) -> Iterator[Floats]:
    """Yield λ2·ℓ + λ4·T of each part's model, ℓ clipped."""
    output = g.output_weight * g.output.values() if g.output is not None else 0.0
    for log_odds in membership.part_log_odds:
        yield g.input_weight * np.clip(log_odds - prior_log_odds(rows), -CLIP, CLIP) + output
