"""Linear models of features: bases, partialling out, and additive regressions of costs.

The group and the score are regressed on a basis for every set of features: splines of numeric features, indicators of
levels, and products of two features; each column belongs to the features it is made of. Where features are many, only
those most associated with the group or the score are multiplied.

Regressions of a cost can be kept as plain numbers, and their link keeps the cost positive: either E[Y|x] = β₀ + xβ by
least squares, or log E[Y|x] = β₀ + xβ by Poisson quasi-likelihood, the usual model of claims. A ridge penalty shrinks
the slopes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from tiltlens._estimators.feature_gap import factorize_ints
from tiltlens._estimators.influence import Booleans, Integers
from tiltlens._estimators.ridges import FoldRidges, inverse
from tiltlens._learners.candidates import POISSON, minimise, ridge_line
from tiltlens._learners.design import (
    Block,
    CellBlock,
    Encoding,
    Table,
    column_blocks,
    column_owners,
    encoded_rows,
    encoding,
)
from tiltlens._limits import BASIS_KNOTS, BASIS_LEVELS, FINE_KNOTS, FOLDS, MODEL_CHUNK, MULTIPLIED, RIDGE, START_PENALTY
from tiltlens._rows.features import DesignColumn
from tiltlens._sources.arrays import chunks
from tiltlens._threads import in_threads
from tiltlens.paper.checks import Floats

MOST_COLUMNS = 600  # of the basis: a Gram matrix takes their square for each row
POOLED_SHARE = 0.05  # largest share of people in the baseline category of a feature that is not pooled
ROWS_A_VALUE = 10  # mean rows of a part per value that a ridge regression needs for the mean of each value
FEW_VALUED = 20  # values up to which a feature is never pooled for lack of rows


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Columns Φ of a table, standardised, the indices of the features that own each, and the block it belongs to."""

    encoder: Encoding
    owners: Integers
    blocks: Integers
    centre: Floats
    scale: Floats

    def rows(self, table: Table, index: Integers | slice, audited: Floats, outcome: Floats) -> Floats:
        """Return z = (1, Φ, S̄, W) of some rows."""
        level = outcome[index]
        z = np.empty((len(level), len(self.owners) + 3))  # filled in place: copies of many rows take longer than sums
        phi = self.encoder.matrix(table, index, out=z[:, 1:-2])
        phi -= self.centre
        phi /= self.scale
        z[:, 0], z[:, -2], z[:, -1] = 1.0, audited[index], level
        return z


def basis_of(table: Table, audited: Floats, outcome: Floats, omega: Floats, seed: int) -> Basis:
    """Return the basis of a table; ω are the rows' weights, half of them in each group."""
    index = encoded_rows(len(outcome), seed)
    # Products first: columns of single features cannot represent a pure interaction.
    room = MOST_COLUMNS - 2 * len(table) - MULTIPLIED * (MULTIPLIED - 1) // 2
    ranked = by_strength(table, (audited, outcome), omega, index, MULTIPLIED)
    smooth, multiplied = set(ranked[: max(room // (BASIS_KNOTS + 2), MULTIPLIED)]), set(ranked[:MULTIPLIED])
    encoder = encoding(table, index, BASIS_KNOTS, _affordable_levels(table), multiplied, smooth)
    return _make_basis(table, encoder, index)


def by_strength(table: Table, targets: Sequence[Floats], omega: Floats, index: Integers, fewest: int) -> list[str]:
    """Return the features, those most associated with a target on the rows `index` first; any order for the fewest."""
    if len(table) <= fewest:
        return list(table)
    observed, weights = [target[index] for target in targets], omega[index]
    largest = in_threads(lambda name: max(_explained(table[name][index], observed, weights)), list(table), len(index))
    strength = dict(zip(table, largest, strict=True))
    return sorted(strength, key=lambda name: (-round(strength[name], 9), name))


def _explained(column: DesignColumn, targets: Sequence[Floats], omega: Floats) -> Iterator[float]:
    """Yield R² of each target on ten equal parts of a numeric column, or on its levels."""
    codes = column.astype(np.intp) if column.dtype.kind != "f" else _tenths(column)
    mass = np.bincount(codes, omega)
    for target in targets:
        centred = target - float(np.average(target, weights=omega))
        spread = float(omega @ centred**2)
        # R² of a one-way layout, Σ T_c·m_c² over the total.
        between = np.bincount(codes, omega * centred) ** 2 / np.where(mass > 0.0, mass, 1.0)
        yield float(between.sum()) / spread if spread > 0 else 0.0


def _tenths(column: Floats) -> Integers:
    observed = column[~np.isnan(column)]
    edges = np.unique(np.quantile(observed, np.linspace(0.1, 0.9, 9))) if observed.size else np.zeros(0)
    return np.searchsorted(edges, np.where(np.isnan(column), np.inf, column))


def widen_basis(basis: Basis, table: Table, blocks: Sequence[Block], seed: int) -> Basis:
    """Return the basis with more blocks of columns."""
    return _make_basis(table, basis.encoder.widened(blocks), encoded_rows(len(next(iter(table.values()))), seed))


def _make_basis(table: Table, encoder: Encoding, index: Integers) -> Basis:
    matrix = encoder.large_matrix(table, index)
    owners = column_owners(table, encoder)
    blocks = column_blocks(encoder, owners)
    return Basis(encoder, owners, blocks, matrix.mean(axis=0), _scales(matrix.std(axis=0), blocks, encoder.kinds))


def _scales(spread: Floats, blocks: Integers, kinds: NDArray[np.str_]) -> Floats:
    """Return the divisors of the columns: their standard deviations, or that of a whole spline or block.

    In a spline or block, columns that rest on few rows thus keep a smaller variance and are shrunk more.
    """
    scale = np.where(spread > 1e-9, spread, 1.0)
    for number in np.unique(blocks):
        columns = np.flatnonzero((blocks == number) & np.isin(kinds, ("spline", "block")))
        scale[columns] = np.sqrt((scale[columns] ** 2).mean()) if columns.size else 1.0
    return scale


def _affordable_levels(table: Table) -> int:
    """Return how many columns a categorical feature may have; those with few values leave their room to others."""
    sizes = sorted(int(column.max(initial=0)) for column in table.values() if column.dtype.kind != "f")
    room = MOST_COLUMNS - (BASIS_KNOTS + 3) * (len(table) - len(sizes)) - MULTIPLIED * (MULTIPLIED - 1) // 2
    for rank, size in enumerate(sizes):
        share = max(room, 0) // (len(sizes) - rank)
        if size > share:
            return min(BASIS_LEVELS, max(share, 2))
        room -= size
    return BASIS_LEVELS


def basis_grams(
    basis: Basis, table: Table, audited: Floats, outcome: Floats, omega: Floats, fold: Integers, index: Integers
) -> Floats:
    """Return Σ ω·zzᵀ over the rows `index` of each fold, in chunks of rows; Σ ω is scaled to 1."""
    size = len(basis.owners) + 3

    def gram(number: int) -> Floats:
        rows, total = index[fold[index] == number], np.zeros((size, size))
        for chunk in chunks(len(rows), MODEL_CHUNK):
            part = rows[chunk]
            # √ω on either side: the Gram matrix is one product of a matrix with itself.
            z = basis.rows(table, part, audited, outcome)
            z *= np.sqrt(omega[part])[:, None]
            total += z.T @ z
        return total

    grams: Floats = np.array(in_threads(gram, range(FOLDS), len(index)))
    return grams / float(omega[index].sum())


def pooled_features(table: Table, basis: Basis, omega: Floats) -> list[str]:
    """Return the features that the regressions cannot learn: few rows per value, or values without a column.

    A regression is fitted on two fifths of the rows, and a ridge penalty shrinks the mean of few rows.
    """
    pooled = []
    for levels in basis.encoder.levels:
        codes = table[levels.name]
        without = levels.ranks(codes) > levels.count
        # Two fifths: the rows of a pair of folds.
        is_thin = 0.4 * len(codes) / max(len(factorize_ints(codes)[0]), 1) < ROWS_A_VALUE
        if float(omega[without].sum()) > POOLED_SHARE or (is_thin and levels.count > FEW_VALUED):
            pooled.append(levels.name)
    values = [block for block in basis.encoder.blocks if isinstance(block, CellBlock) and len(block.names) == 1]
    return pooled + [block.names[0] for block in values if float(omega[block.codes > block.width].sum()) > POOLED_SHARE]


@dataclass(frozen=True, eq=False)
class Partialling:
    """Regressions among the columns Φ of the features; each row uses those fitted on its group in the other folds.

    `ridges` are the rows of each group with its Gram matrices.
    """

    basis: Floats
    fold: Integers
    ridges: Sequence[tuple[Booleans, FoldRidges]]

    def columns(self, removed: Integers) -> Floats:
        """Return some columns of Φ minus their regression on all others, (n, removed)."""
        residuals = np.empty((len(self.basis), removed.size))
        for _, rows, _, mean, inverted in self._inverse_covariances:
            weights = inverted[:, removed] @ np.linalg.inv(inverted[np.ix_(removed, removed)])
            residuals[rows] = (self.basis[rows] - mean) @ weights
        return residuals

    def functions(self, values: Floats, removed: Integers, weights: Floats) -> Floats:
        """Return functions of the removed features minus their regression on the columns of the others, (n,).

        `values` are those of the function that was learnt without each fold, (folds, n).
        """
        residuals = np.empty(len(self.basis))
        for number, rows, train, mean, inverted in self._inverse_covariances:
            value, own = values[number], weights[train] / weights[train].sum()
            centred = value - own @ value[train]
            cross = (own * centred[train]) @ (self.basis[train] - mean)
            cross[removed] = 0.0
            slopes = inverted @ cross
            slopes -= inverted[:, removed] @ np.linalg.solve(inverted[np.ix_(removed, removed)], slopes[removed])
            residuals[rows] = centred[rows] - (self.basis[rows] - mean) @ slopes
        return residuals

    @cached_property
    def _inverse_covariances(self) -> list[tuple[int, Booleans, Booleans, Floats, Floats]]:
        """Each fold, its rows of a group, those in the other folds, and means and inverse covariance of the latter."""
        moments = []
        for group, ridges in self.ridges:
            for number in range(FOLDS):
                gram = ridges.grams.sum(axis=0) - ridges.grams[number]
                gram = gram / gram[0, 0]
                mean = gram[0, 1:-2]
                covariance = gram[1:-2, 1:-2] - np.outer(mean, mean)
                penalised = covariance + START_PENALTY / ridges.effective * np.eye(len(mean))
                rows = self.fold == number
                moments.append((number, group & rows, group & ~rows, mean, inverse(penalised)))
        return moments


COST_COLUMNS = 240  # of splines of all numbers, about
COST_ROWS = 50_000  # at most, for one fit
TRIED_ROWS = 10_000  # at most of each group, on which penalties and links are tried
PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # ridge penalties of a column, in rows
LINK_DECREMENT = 1e-9  # of the mean loss
SMALLEST_COST = 1e-200  # mean cost of rows without any


class Link(StrEnum):
    """The link between an additive model and an expected cost."""

    IDENTITY = "identity"
    LOG = "log"

    def mean(self, additive: Floats) -> Floats:
        """Return the expected cost."""
        return np.exp(additive) if self is Link.LOG else additive


@dataclass(frozen=True, slots=True)
class CostSettings:
    """The link and the ridge penalty of a cost regression."""

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
    """Return the regression of a cost; `weights` and, with a log link, costs are scaled to mean 1 for the penalties."""
    w = weights / weights.mean()
    if link is Link.IDENTITY:
        return CostFit(link, *ridge_line(matrix, cost, w, penalties))
    level = max(float(np.average(cost, weights=w)), SMALLEST_COST)
    x, ridge = np.column_stack([np.ones(len(matrix)), matrix]), np.append(1e-8, penalties)
    beta, _ = minimise(POISSON, x, cost / level, w, ridge, np.zeros(x.shape[1]), LINK_DECREMENT)
    return CostFit(link, float(beta[0] + np.log(level)), beta[1:])


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

        The loss is the Poisson deviance, or squared error if there are negative costs, which exclude the log link.
        Without negative costs, settings with an expected cost that is not positive are excluded.
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
