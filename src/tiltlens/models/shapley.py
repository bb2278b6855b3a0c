"""Shapley values of the gap where joint cells are too many: v(A) = E0[W] − E1[E0[W|X_A]] by regressions.

Both m_A = E0[W|X_A] and the weights r_A = P1(X_A)/P0(X_A) are linear in the encoded columns of A, fitted on other
folds; v(A) = E0[W] − E1[m_A] − E0[r_A(W − m_A)] errs by the product of their errors only. One factorisation serves all
the subsets that an order of the features passes through.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np
from scipy.linalg import solve_triangular

from tiltlens.estimators.estimate import Booleans, Functional, Integers, Normal, Rows
from tiltlens.models.design import Table, encoded_rows, encoding
from tiltlens.models.logit import weighted_gram
from tiltlens.models.regressions import RIDGE, Columns, owned_columns, with_products
from tiltlens.paper.checks import Floats
from tiltlens.threads import in_threads, steps_in_threads

ORDERS = 32  # of the features; all of them where there are no more


@dataclass(frozen=True, slots=True, eq=False)
class LearnedShapley:
    """The values in the order of the table; they add up to `explained`, v of all features."""

    values: tuple[Normal, ...]
    explained: Normal
    orders: int


@dataclass(frozen=True, slots=True, eq=False)
class _Fold:
    """What a fold's regressions need: Gram matrix, right-hand sides of W and of P1/P0, columns of its own rows."""

    own: Integers
    matrix: Floats
    owners: Integers
    gram: Floats
    sides: Floats  # (columns, 2)
    level: float


def learned_shapley(
    rows: Rows, table: Table, outcome: Floats, fold: Integers, seed: int = 0, orders: int = ORDERS
) -> LearnedShapley:
    """Return each feature's mean contribution over the orders; its error is that of rows and that of orders."""
    count = len(table)
    columns = owned_columns(table, encoding(table, encoded_rows(outcome.size, seed)))
    every_fold = range(int(fold.max()) + 1)
    folds = in_threads(lambda f: _fold(rows, columns, outcome, fold == f), every_fold, outcome.size)
    pairs = list(_antithetic(count, orders, np.random.default_rng(seed)))
    gained = steps_in_threads(lambda pair: _mean_contributions(rows, outcome, folds, pair), pairs, outcome.size)
    values = np.array([value for value, _ in gained])
    influence = np.asarray(sum(part for _, part in gained)) / len(pairs)
    is_exhaustive = len(pairs) * 2 >= math.factorial(count)
    spread = np.zeros(count) if is_exhaustive else values.var(axis=0, ddof=1) / len(pairs)
    se = np.sqrt((influence**2).sum(axis=1) + spread)
    together = influence.sum(axis=0)
    explained = Normal(float(values.mean(axis=0).sum()), math.sqrt(float(together @ together)))
    found = tuple(Normal(float(v), float(s)) for v, s in zip(values.mean(axis=0), se, strict=True))
    return LearnedShapley(found, explained, sum(len(pair) for pair in pairs))


def _antithetic(count: int, orders: int, generator: np.random.Generator) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield orders with their reverses: all of them, or `orders` drawn at random."""
    if math.factorial(count) <= orders:
        every = list(permutations(range(count)))
        yield from ((order, order[::-1]) for order in every if order <= order[::-1])
        return
    for _ in range(orders // 2):
        order = tuple(generator.permutation(count).tolist())
        yield order, order[::-1]


def _fold(rows: Rows, columns: Columns, outcome: Floats, here: Booleans) -> _Fold:
    train = np.flatnonzero(rows.audited & ~here)
    w = rows.weights[train] / rows.weights[train].mean()
    matrix, owners = with_products(columns, outcome, train, w)
    centre, level = np.average(matrix[train], axis=0, weights=w), float(np.average(outcome[train], weights=w))
    x = matrix[train] - centre
    others = np.flatnonzero(~rows.audited & ~here)
    shift = np.average(matrix[others], axis=0, weights=rows.weights[others]) - centre
    sides = np.column_stack([np.dot(x.T, w * (outcome[train] - level)), train.size * shift])
    own = np.flatnonzero(here)
    return _Fold(own, matrix[own] - centre, owners, weighted_gram(x, w) + RIDGE * np.eye(len(owners)), sides, level)


def _mean_contributions(
    rows: Rows, outcome: Floats, folds: list[_Fold], orders: tuple[tuple[int, ...], ...]
) -> tuple[Floats, Floats]:
    """Return each feature's contribution, the mean over the orders, and its influence."""
    values, influence = np.zeros(len(orders[0])), np.zeros((len(orders[0]), outcome.size))
    for order in orders:
        for j, part in zip(order, _contributions(rows, outcome, folds, order), strict=True):
            values[j] += part.value / len(orders)
            influence[j] += part.influence / len(orders)
    return values, influence


def _contributions(rows: Rows, outcome: Floats, folds: list[_Fold], order: tuple[int, ...]) -> list[Functional]:
    """Return v(A ∪ j) − v(A) along an order, A being the features before j."""
    means, ratios = (np.empty((len(order) + 1, outcome.size)) for _ in range(2))
    for fold in folds:
        learned = fold.matrix @ _slopes(fold, order).reshape(len(fold.owners), -1)
        learned = learned.reshape(len(fold.own), len(order) + 1, 2)
        means[:, fold.own], ratios[:, fold.own] = fold.level + learned[:, :, 0].T, 1.0 + learned[:, :, 1].T
    values = [_explained(rows, outcome, mean, ratio) for mean, ratio in zip(means, ratios, strict=True)]
    return [
        Functional(after.value - before.value, after.influence - before.influence) for before, after in pairwise(values)
    ]


def _slopes(fold: _Fold, order: tuple[int, ...]) -> Floats:
    """Return the slopes of W and of P1/P0 on the columns of each leading part of the order, (columns, parts, 2).

    With the columns sorted by when they enter, each part's Cholesky factor is a leading block of the whole one.
    """
    place = np.argsort(order)
    enters = place[fold.owners].max(axis=1)
    sorted_columns = np.argsort(enters, kind="stable")
    factor = np.linalg.cholesky(fold.gram[np.ix_(sorted_columns, sorted_columns)])
    half = solve_triangular(factor, fold.sides[sorted_columns], lower=True, check_finite=False)
    slopes = np.zeros((len(enters), len(order) + 1, 2))
    for k, size in enumerate(np.searchsorted(enters[sorted_columns], np.arange(len(order)), side="right"), start=1):
        block = factor[:size, :size]
        solved = solve_triangular(block, half[:size], lower=True, trans="T", check_finite=False)
        slopes[sorted_columns[:size], k] = solved
    return slopes


def _explained(rows: Rows, outcome: Floats, mean: Floats, ratio: Floats) -> Functional:
    """Return v = E0[W] − E1[m] − E0[r(W − m)], IF = [S=0]/q·{(W−p) − r(W−m)} − [S=1]/(1−q)·(m − E1[m])."""
    at_audited = outcome - ratio * (outcome - mean)
    return Functional.of(rows, rows.mean0(at_audited) - rows.mean1(mean), at_audited, -mean)
