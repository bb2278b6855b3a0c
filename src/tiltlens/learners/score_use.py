"""Regressions of the score on the group and all features, or all but some: what use of a feature is measured with.

Four kinds compete by held-out loss: ridge regressions within each group of the score's log-odds on columns of single
features, of the log-odds and of the score on the whole basis, and boosted trees that have the group as an input. See
docs/methods.md, section 5.
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
from tiltlens.estimators.sets import RidgeSets, SetCoefficients, evenly
from tiltlens.estimators.use import mean_products, squared_uses
from tiltlens.learners.design import Table, code_columns
from tiltlens.limits import (
    FOLDS,
    LARGEST_LOG_ODDS,
    MOST_TREE_LEVELS,
    START_PENALTY,
    TREE_BINS,
    UNDERSMOOTHED,
    USE_TREE_ROWS,
    USE_TREES,
)
from tiltlens.paper.checks import Floats
from tiltlens.threads import in_threads

Sets = Sequence[Sequence[int]]
ADDITIVE, LOG_ODDS, SCORE, TREES = "additive log-odds", "log-odds", "score", "trees"
# Trees are fitted on the folds c and c + 1 only, and judged on the other three.
CYCLE = tuple((one, (one + 1) % FOLDS) for one in range(FOLDS))


@dataclass(frozen=True, eq=False)
class ScoreUse:
    """The use of sets of features by a score, from the rows that regressions on sets of features show.

    Attributes
    ----------
    z, owners, blocks
        (1, Φ, W) of the rows; the features that each column of Φ belongs to, and its block (`FoldRidges`).
    fold, at
        The rows' folds, and these rows.
    table
        The features of the rows, for trees.
    is_probability, has_trees
        Whether the score has log-odds; and whether trees compete.
    negligible
        A residual, in the score's unit, that no other learner needs to make smaller.
    """

    z: Floats
    owners: Integers
    blocks: Integers
    fold: Integers
    at: Rows
    table: Table
    is_probability: bool
    has_trees: bool
    negligible: float
    seed: int

    @classmethod
    def of(
        cls,
        sets: RidgeSets,
        table: Table,
        numbers: Table,
        is_probability: bool,
        has_trees: bool,
        least: float,
        seed: int,
    ) -> ScoreUse:
        """Return the same of the rows that `sets` show, which stand for themselves alone.

        `numbers` are the features that are numbers, as they are: the basis has their ranks, models mostly do not.
        """
        at = Rows.of(sets.at.audited, sets.at.weights, sets.at.clusters)
        places = [place for place, name in enumerate(table) if name in numbers]
        added = [_standardised(numbers[name]) for name in table if name in numbers]
        z = np.column_stack([sets.z[:, :-2], *added, sets.z[:, -1]])
        owners = np.vstack([sets.ridges.owners, np.repeat(np.array(places, dtype=np.intp), 3).reshape(-1, 3)])
        blocks = np.append(sets.ridges.blocks, sets.ridges.blocks.max(initial=-1) + 1 + np.arange(len(places)))
        return cls(z, owners, blocks, sets.fold, at, table, is_probability, has_trees, least, seed)

    def squared(self, sets: Sets) -> SetCoefficients:
        """Return U of sets of features, by the best of the learners."""
        if self.learner == TREES:
            return self._by_trees(sets)
        return squared_uses(self.at, self._ridge_products(self.learner, [[], *sets]))

    @property
    def learner(self) -> str:
        """The learner with the smallest held-out loss, less the variance of its fits; the first that is good enough."""
        return min(self._losses, key=lambda one: self._losses[one])

    @property
    def missed(self) -> float:
        """The mean square that the learner leaves of a score: what it may miss of the use of a feature."""
        return max(self._losses[self.learner], 0.0)

    @cached_property
    def _losses(self) -> dict[str, float]:
        losses: dict[str, float] = {}
        for one in (ADDITIVE, LOG_ODDS, SCORE, TREES):
            if (one in (ADDITIVE, LOG_ODDS) and not self.is_probability) or (one == TREES and not self.has_trees):
                continue
            products = _cyclic(self._whole_trees, self.fold) if one == TREES else self._ridge_products(one, [[]])
            losses[one] = float(mean_products(self.at, products)[0])
            if 2.0 * np.sqrt(max(losses[one], 0.0)) <= self.negligible:
                break
        return losses

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
        return np.column_stack([self.z[:, :-1], first, self.score])

    @cached_property
    def _groups(self) -> list[tuple[Booleans, FoldRidges]]:
        """The rows of each group, and the regressions of both targets within it."""
        found = []
        for group, share in ((self.at.audited, self.at.audited_share), (~self.at.audited, self.at.reference_share)):
            weighted = self._rows * np.sqrt(share)[:, None]
            grams = [weighted[here].T @ weighted[here] for here in (group & (self.fold == f) for f in range(FOLDS))]
            found.append((group, FoldRidges(np.array(grams), self.owners, self.blocks, 1.0 / float(share @ share))))
        return found

    @cached_property
    def _singles(self) -> tuple[Integers, list[tuple[Booleans, FoldRidges]]]:
        """The columns of single features among those of the rows, and the regressions on these alone."""
        own = np.flatnonzero((self.owners == self.owners[:, :1]).all(axis=1))
        kept = np.concatenate([[0], 1 + own, [-2, -1]]) % self._rows.shape[1]
        blocks = np.unique(self.blocks[own], return_inverse=True)[1]
        return kept, [
            (group, FoldRidges(ridges.grams[:, kept][:, :, kept], self.owners[own], blocks, ridges.effective))
            for group, ridges in self._groups
        ]

    def _ridge_products(self, learner: str, sets: Sets) -> Floats:
        """Return (W − a)(W − b) of each row without each set, for the three pairings of parts, (3, n, sets)."""
        rows, groups = self._rows, self._groups
        if learner == ADDITIVE:
            kept, groups = self._singles
            rows = rows[:, kept]
        left = np.empty((len(PARTS), len(rows), len(sets)))
        for group, ridges in groups:
            z = rows[group]
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

        def left(part: tuple[int, int]) -> Floats:
            train = evenly(np.flatnonzero(np.isin(self.fold, part)), USE_TREE_ROWS)
            trees = _boosted(raw[train][:, kept], is_code[kept], self.score[train], omega[train], self.seed)
            return np.asarray(self.score - trees.predict(raw[:, kept]))

        return np.array(list(in_threads(left, CYCLE, len(raw))))

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

        The columns are those of the set's features alone, less what all others expect of them, and once more with their
        sign changed in one group. Trees are of two folds, the regressions of one each.
        """
        columns = np.flatnonzero(np.isin(self.owners, list(features)).all(axis=1))
        phi = self._partialled(columns)
        phi = np.hstack([phi, np.where(self.at.audited, 1.0, -1.0)[:, None] * phi])
        blocks = self.blocks[columns]
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

    def _slopes(self, phi: Floats, left: Floats, at: Integers, blocks: Sequence[Integers]) -> Floats:
        """Return the ridge regression of what is left on columns, from the rows `at`."""
        w = (self.at.audited_share + self.at.reference_share)[at]
        w = w / w.sum()
        x, y = phi - w @ phi, left - w @ left
        covariance, cross = x.T @ (w[:, None] * x), x.T @ (w * y)
        # This regression is what is sought, not one of two in a product: it is not undersmoothed.
        penalties = block_penalties(covariance, cross, float(w @ y**2), blocks, 1.0 / float(w @ w)) / UNDERSMOOTHED
        return np.asarray(np.linalg.solve(covariance + np.diag(penalties), cross))

    def _partialled(self, columns: Integers) -> Floats:
        """Return some columns less what all others expect of them within each group, from other folds."""
        found = np.empty((len(self.z), columns.size))
        for here, mean, inverse in self._inverses:
            weights = inverse[:, columns] @ np.linalg.inv(inverse[np.ix_(columns, columns)])
            found[here] = (self.z[here, 1:-1] - mean) @ weights
        return found

    @cached_property
    def _inverses(self) -> list[tuple[Booleans, Floats, Floats]]:
        """The rows of each group and fold, and from its other folds the means of Φ and its inverse covariance."""
        found = []
        for group, ridges in self._groups:
            for number in range(FOLDS):
                gram = ridges.grams.sum(axis=0) - ridges.grams[number]
                gram = gram / gram[0, 0]
                mean = gram[0, 1:-2]
                covariance = gram[1:-2, 1:-2] - np.outer(mean, mean)
                penalised = covariance + START_PENALTY / ridges.effective * np.eye(len(mean))
                inverse = cho_solve(cho_factor(penalised, lower=True), np.eye(len(mean)))
                found.append((group & (self.fold == number), mean, np.asarray(inverse)))
        return found


def _standardised(values: Floats) -> Floats:
    """Return (x − mean)/sd, 0 where x is missing."""
    known = values[~np.isnan(values)]
    sd = float(known.std()) if known.size else 0.0
    return np.where(np.isnan(values) | (sd <= 0.0), 0.0, (values - (known.mean() if known.size else 0.0)) / (sd or 1.0))


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
