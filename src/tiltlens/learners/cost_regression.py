"""Additive regressions of a cost that can be kept as plain numbers, with a link that keeps the cost positive.

Either E[Y|x] = β₀ + xβ by least squares, or log E[Y|x] = β₀ + xβ by Poisson quasi-likelihood, the usual model of
claims. A ridge penalty shrinks the slopes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import xlogy

from tiltlens.estimators.influence import Integers
from tiltlens.learners.design import Encoding, Table, encoded_rows, encoding
from tiltlens.learners.logit import weighted_gram
from tiltlens.limits import BASIS_KNOTS, FINE_KNOTS, FOLDS, RIDGE
from tiltlens.paper.checks import Floats
from tiltlens.threads import in_threads

COST_COLUMNS = 240  # of splines of all numbers, about
COST_ROWS = 50_000  # at most, for one fit
TRIED_ROWS = 10_000  # at most of each group, on which penalties and links are tried
PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # rows that a column is worth
LINK_ITERATIONS = 50  # of Newton, which takes eight
LINK_DECREMENT = 1e-9  # of the mean loss
SMALLEST_COST = 1e-200  # mean cost of rows without any


class Link(StrEnum):
    """How an additive model becomes an expected cost."""

    IDENTITY = "identity"
    LOG = "log"

    def mean(self, additive: Floats) -> Floats:
        """Return the expected cost."""
        return np.exp(additive) if self is Link.LOG else additive


@dataclass(frozen=True, slots=True)
class CostSettings:
    """What a regression of a cost is fitted with."""

    link: Link
    penalty: float


@dataclass(frozen=True, slots=True, eq=False)
class CostFit:
    """The link, the intercept and the slopes of an additive regression of a cost."""

    link: Link
    intercept: float
    slopes: Floats

    def mean(self, matrix: Floats) -> Floats:
        """Return the expected cost of rows of a design matrix."""
        return self.link.mean(self.intercept + matrix @ self.slopes)


def cost_encoding(table: Table, seed: int = 0) -> Encoding:
    """Return the encoding of features for a cost: finer splines than for a group, and products where they are few."""
    numbers = sum(np.asarray(column).dtype.kind == "f" for column in table.values())
    knots = int(np.clip(COST_COLUMNS // max(numbers, 1), BASIS_KNOTS, FINE_KNOTS))
    rows = len(next(iter(table.values())))
    return encoding(table, encoded_rows(rows, seed), knots)


def fit_cost(matrix: Floats, cost: Floats, weights: Floats, penalties: Floats, link: Link) -> CostFit:
    """Return the regression of a cost; `weights` are scaled to mean 1, and costs to size 1, for the penalties."""
    w = weights / weights.mean()
    if link is Link.LOG:
        return _log_linear(matrix, cost, w, penalties)
    centre, level = np.average(matrix, axis=0, weights=w), float(np.average(cost, weights=w))
    x = matrix - centre
    normal = weighted_gram(x, w) + np.diag(penalties)
    slopes = cho_solve(cho_factor(normal, lower=True), np.dot(x.T, w * (cost - level)))
    return CostFit(link, level - float(centre @ slopes), slopes)


def _log_linear(matrix: Floats, cost: Floats, w: Floats, penalties: Floats) -> CostFit:
    """Return the minimiser of Σ w·(e^η − y·η) + ½Σ penalty·slope², with y = cost/mean."""
    level = max(float(np.average(cost, weights=w)), SMALLEST_COST)
    y, x = cost / level, np.column_stack([np.ones(len(matrix)), matrix])
    ridge, beta = np.append(1e-8, penalties), np.zeros(x.shape[1])

    def objective(beta: Floats) -> tuple[float, Floats]:
        with np.errstate(over="ignore"):  # of a step that is too long, and is halved
            eta = x @ beta
            mean = np.exp(eta)
            return float(w @ (mean - y * eta) + 0.5 * ridge @ beta**2), mean

    loss, mean = objective(beta)
    for _ in range(LINK_ITERATIONS):
        gradient = np.dot(x.T, w * (mean - y)) + ridge * beta
        step = cho_solve(cho_factor(weighted_gram(x, w * mean) + np.diag(ridge), lower=True), gradient)
        size, fall = 1.0, float(gradient @ step)
        if fall < LINK_DECREMENT * len(x):
            break
        trial, new = objective(beta - step)
        while not trial <= loss - 1e-4 * size * fall and size > 1e-6:
            size /= 2.0
            trial, new = objective(beta - size * step)
        beta, loss, mean = beta - size * step, trial, new
    return CostFit(Link.LOG, float(beta[0] + np.log(level)), beta[1:])


@dataclass(frozen=True, slots=True, eq=False)
class CostSample:
    """Rows of several groups with an observed cost; `group` has their codes, `fold` the folds of a cross-fit."""

    encoder: Encoding
    table: Table
    group: Integers
    cost: Floats
    weights: Floats
    fold: Integers
    seed: int = 0

    def fit(self, rows: Integers, settings: CostSettings) -> CostFit:
        """Return the regression fitted on some rows, at most `COST_ROWS` of them."""
        few = self._few(rows, COST_ROWS)
        penalties = np.full(self.encoder.kinds.size, settings.penalty)
        penalties[: len(self.encoder.numeric)] = RIDGE  # straight lines are shrunk least
        return fit_cost(
            self.encoder.matrix(self.table, few), self.cost[few], self.weights[few], penalties, settings.link
        )

    def cross_fit(self, settings: CostSettings, groups: int) -> Floats:
        """Return the expected cost of each row in each group by regressions that have not seen it, (groups, n)."""
        expected = np.empty((groups, self.cost.size))
        for group, fold, fit in self._fits(settings, groups):
            held_out = np.flatnonzero(self.fold == fold)
            additive = fit.intercept + self.encoder.applied(self.table, held_out, fit.slopes[:, None])[:, 0]
            expected[group, held_out] = fit.link.mean(additive)
        return expected

    def choose(self, groups: int) -> CostSettings:
        """Return the link and the penalty with the least loss on rows that were not fitted on.

        The loss is the Poisson deviance, or squared error where costs may be negative; there, and where a price would
        not be positive, no log or no identity link is possible.
        """
        few = np.sort(np.concatenate([self._few(np.flatnonzero(self.group == g), TRIED_ROWS) for g in range(groups)]))
        table = {name: column[few] for name, column in self.table.items()}
        part = CostSample(
            self.encoder, table, self.group[few], self.cost[few], self.weights[few], self.fold[few], self.seed
        )
        links = [Link.IDENTITY] if self.cost.min() < 0.0 else [Link.LOG, Link.IDENTITY]
        offered = [CostSettings(link, penalty) for link in links for penalty in PENALTIES]
        losses = in_threads(lambda settings: part._loss(settings, groups), offered, few.size)
        return offered[int(np.argmin(losses))]

    def _loss(self, settings: CostSettings, groups: int) -> float:
        every = self.cross_fit(settings, groups)
        own = every[self.group, np.arange(self.cost.size)]
        if self.cost.min() < 0.0:
            return float(self.weights @ (self.cost - own) ** 2)
        if every.min() <= 0.0:
            return np.inf
        return float(self.weights @ (xlogy(self.cost, self.cost / own) - self.cost + own))

    def _fits(self, settings: CostSettings, groups: int) -> Iterator[tuple[int, int, CostFit]]:
        for fold in range(FOLDS):
            for group in range(groups):
                yield group, fold, self.fit(np.flatnonzero((self.group == group) & (self.fold != fold)), settings)

    def _few(self, rows: Integers, most: int) -> Integers:
        if rows.size <= most:
            return rows
        return np.sort(np.random.default_rng(self.seed).choice(rows, most, replace=False))
