"""Regressions of the score on the group and all features, or all but some: what use of a feature is measured with.

Three kinds compete by held-out loss: ridge regressions on the basis within each group, of the score or of its log-odds,
and boosted trees that have the group as an input. See docs/methods.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, logit

from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.estimators.penalties import block_penalties
from tiltlens.estimators.ridges import PAIRINGS, PARTS, FoldRidges
from tiltlens.estimators.sets import RidgeSets, SetCoefficients
from tiltlens.estimators.use import mean_products, squared_uses
from tiltlens.limits import FOLDS, LARGEST_LOG_ODDS, MOST_TREE_LEVELS, START_PENALTY, TREE_BINS, USE_TREES
from tiltlens.models.design import Table, code_columns
from tiltlens.paper.checks import Floats

Sets = Sequence[Sequence[int]]
SCORE, LOG_ODDS, TREES = "score", "log-odds", "trees"
# Trees are fitted on the folds c and c + 1 only, and judged on the other three.
CYCLE = tuple((one, (one + 1) % FOLDS) for one in range(FOLDS))


@dataclass(frozen=True, eq=False)
class ScoreUse:
    """The use of sets of features by a score, from the rows that regressions on sets of features show.

    Attributes
    ----------
    ridges, z, fold, at
        The regressions whose basis is used; (1, Φ, S̄, W) of the rows, their folds, and these rows.
    table
        The features of the rows, for trees.
    is_probability, has_trees
        Whether the score has log-odds; and whether trees compete.
    negligible
        A residual, in the score's unit, that no other learner needs to make smaller.
    """

    ridges: FoldRidges
    z: Floats
    fold: Integers
    at: Rows
    table: Table
    is_probability: bool
    has_trees: bool
    negligible: float
    seed: int

    @classmethod
    def of(
        cls, sets: RidgeSets, table: Table, is_probability: bool, has_trees: bool, negligible: float, seed: int
    ) -> ScoreUse:
        """Return the same of the rows that `sets` show, which stand for themselves alone."""
        at = Rows.of(sets.at.audited, sets.at.weights, sets.at.clusters)
        return cls(sets.ridges, sets.z, sets.fold, at, table, is_probability, has_trees, negligible, seed)

    def squared(self, sets: Sets) -> SetCoefficients:
        """Return U of sets of features, by the best of the learners."""
        if self.learner == TREES:
            return self._by_trees(sets)
        return squared_uses(self.at, self._ridge_products(self.learner, [[], *sets]))

    @cached_property
    def learner(self) -> str:
        """The learner with the smallest held-out loss, the variance of its fits aside; trees only where they matter."""
        losses = {one: self._loss(self._ridge_products(one, [[]])) for one in self._ridge_learners}
        best = min(losses, key=lambda one: losses[one])
        if not self.has_trees or 2.0 * np.sqrt(max(losses[best], 0.0)) <= self.negligible:
            return best
        return TREES if self._loss(_cyclic(self._whole_trees, self.fold)) < losses[best] else best

    @property
    def _ridge_learners(self) -> tuple[str, ...]:
        return (SCORE, LOG_ODDS) if self.is_probability else (SCORE,)

    def _loss(self, products: Floats) -> float:
        return float(mean_products(self.at, products)[0])

    @property
    def score(self) -> Floats:
        """W."""
        return self.z[:, -1]

    @cached_property
    def _rows(self) -> Floats:
        """(1, Φ, logit W, W) of the rows; W twice where it is no probability."""
        first = self.score
        if self.is_probability:
            least = expit(-LARGEST_LOG_ODDS)
            first = logit(np.clip(first, least, 1.0 - least))
        return np.column_stack([self.z[:, :-2], first, self.score])

    @cached_property
    def _groups(self) -> list[tuple[Booleans, Floats, FoldRidges]]:
        """The rows of each group, their shares, and the regressions of both targets within the group."""
        found = []
        for group, share in ((self.at.audited, self.at.audited_share), (~self.at.audited, self.at.reference_share)):
            weighted = self._rows * np.sqrt(share)[:, None]
            grams = [weighted[here].T @ weighted[here] for here in (group & (self.fold == f) for f in range(FOLDS))]
            ridges = FoldRidges(np.array(grams), self.ridges.owners, self.ridges.blocks, 1.0 / float(share @ share))
            found.append((group, share, ridges))
        return found

    def _ridge_products(self, learner: str, sets: Sets) -> Floats:
        """Return (W − a)(W − b) of each row without each set, for the three pairings of parts, (3, n, sets)."""
        left = np.empty((len(PARTS), len(self.z), len(sets)))
        for group, _, ridges in self._groups:
            z = self._rows[group]
            for part, vectors in enumerate(ridges.left_out(sets)):
                if learner == SCORE:
                    left[part, group] = z @ vectors[1]
                else:
                    left[part, group] = z[:, -1:] - expit(z[:, -2:-1] - z @ vectors[0])
        products = np.empty((len(PAIRINGS[0]), *left.shape[1:]))
        for number, pairings in enumerate(PAIRINGS):
            here = self.fold == number
            for place, (a, b) in enumerate(pairings):
                products[place, here] = left[a, here] * left[b, here]
        return products

    @cached_property
    def _raw(self) -> tuple[Floats, Booleans]:
        """The features and the group as trees take them, and which of these columns are codes."""
        columns = [column if column.dtype.kind == "f" else _frequent(column) for column in self.table.values()]
        raw = np.column_stack([*columns, self.at.audited]).astype(np.float64, copy=False)
        return raw, np.append(code_columns(self.table), True)

    def _trees(self, features: Sequence[int]) -> Floats:
        """Return W − T of each row without some features, by trees from each two neighbouring folds, (5, n)."""
        raw, is_code = self._raw
        kept = [place for place in range(raw.shape[1]) if place not in features]
        omega = (self.at.audited_share + self.at.reference_share) * 0.5 * len(raw)
        left = np.empty((FOLDS, len(raw)))
        for place, part in enumerate(CYCLE):
            train = np.isin(self.fold, part)
            trees = _boosted(raw[train][:, kept], is_code[kept], self.score[train], omega[train], self.seed)
            left[place] = self.score - trees.predict(raw[:, kept])
        return left

    @cached_property
    def _whole_trees(self) -> Floats:
        return self._trees([])[:, :, None]

    def _by_trees(self, sets: Sets) -> SetCoefficients:
        """Return U of sets, the larger of two estimates.

        Trees without a set are compared with trees of all features. A feature that hardly matters makes these worse:
        they are also compared with themselves and a regression of what they leave on the set's columns.
        """
        found = []
        for one in sets:
            left = self._trees(one)
            whole = _cyclic(np.concatenate([self._whole_trees, left[:, :, None]], axis=2), self.fold)
            both = squared_uses(self.at, whole), squared_uses(self.at, self._beyond(one, left))
            found.append(max(both, key=lambda squared: float(squared.values[0])))
        between = np.zeros((3, len(sets)))
        for place, squared in enumerate(found):
            between[:, place] = squared.between[:, 0] if len(squared.between) == 3 else 0.0
        return SetCoefficients(
            np.array([squared.values[0] for squared in found]),
            np.hstack([squared.influence for squared in found]),
            between,
        )

    def _beyond(self, features: Sequence[int], left: Floats) -> Floats:
        """Return the products of what trees without a set leave after and before a regression on the set's columns.

        The columns are less what the others expect of them, and once more with their sign changed in one group. Trees
        are of two folds, the regressions of one each.
        """
        columns = self.ridges.columns_of(features)
        phi = self._partialled(columns)
        phi = np.hstack([phi, np.where(self.at.audited, 1.0, -1.0)[:, None] * phi])
        blocks = self.ridges.blocks[columns]
        numbers = np.concatenate([blocks, blocks + 1 + blocks.max()])
        own = [np.flatnonzero(numbers == one) for one in np.unique(numbers)]
        products = np.empty((3, len(phi), 2))
        for place, part in enumerate(CYCLE):
            others = [(part[1] + step) % FOLDS for step in (1, 2, 3)]
            rows = {fold: np.flatnonzero(self.fold == fold) for fold in others}
            slopes = {fold: self._slopes(phi[at], left[place, at], at, own) for fold, at in rows.items()}
            for number, fold in enumerate(others):
                plain = left[place, rows[fold]]
                a, b = (plain - phi[rows[fold]] @ slopes[other] for other in others if other != fold)
                products[number, rows[fold]] = np.column_stack([a * b, plain**2])
        return products

    def _slopes(self, phi: Floats, left: Floats, at: Integers, blocks: list[Integers]) -> Floats:
        """Return the ridge regression of what is left on columns, from the rows `at`."""
        w = (self.at.audited_share + self.at.reference_share)[at]
        w = w / w.sum()
        x, y = phi - w @ phi, left - w @ left
        covariance, cross = x.T @ (w[:, None] * x), x.T @ (w * y)
        penalties = block_penalties(covariance, cross, float(w @ y**2), blocks, 1.0 / float(w @ w))
        return np.asarray(np.linalg.solve(covariance + np.diag(penalties), cross))

    def _partialled(self, columns: Integers) -> Floats:
        """Return some columns less what all others expect of them within each group, from other folds."""
        found = np.empty((len(self.z), columns.size))
        for here, mean, inverse in self._inverses:
            weights = inverse[:, columns] @ np.linalg.inv(inverse[np.ix_(columns, columns)])
            found[here] = (self.z[here, 1:-2] - mean) @ weights
        return found

    @cached_property
    def _inverses(self) -> list[tuple[Booleans, Floats, Floats]]:
        """The rows of each group and fold, and from its other folds the means of Φ and its inverse covariance."""
        found = []
        for group, _, ridges in self._groups:
            for number in range(FOLDS):
                gram = ridges.grams.sum(axis=0) - ridges.grams[number]
                gram = gram / gram[0, 0]
                mean = gram[0, 1:-2]
                covariance = gram[1:-2, 1:-2] - np.outer(mean, mean)
                penalised = covariance + START_PENALTY / ridges.effective * np.eye(len(mean))
                inverse = cho_solve(cho_factor(penalised, lower=True), np.eye(len(mean)))
                found.append((group & (self.fold == number), mean, np.asarray(inverse)))
        return found


def _frequent(codes: Integers) -> Integers:
    """Return codes by frequency, the rarest joined: trees have few bins."""
    rank = np.argsort(np.argsort(-np.bincount(codes), kind="stable"), kind="stable")
    return np.asarray(np.minimum(rank, MOST_TREE_LEVELS)[codes])


def _cyclic(left: Floats, fold: Integers) -> Floats:
    """Return the products of what two parts that have not seen a row leave, (1, n, sets) of (5, n, sets)."""
    first, second = (fold + 1) % FOLDS, (fold + 3) % FOLDS
    at = np.arange(fold.size)
    return (left[first, at] * left[second, at])[None]


def _boosted(raw: Floats, is_code: Booleans, target: Floats, weights: Floats, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    trees = HistGradientBoostingRegressor(
        **USE_TREES,
        max_bins=TREE_BINS + 1,
        early_stopping=False,
        categorical_features=is_code if is_code.any() else None,
        random_state=seed,
    )
    return trees.fit(raw, target, sample_weight=weights if (weights != weights[0]).any() else None)
