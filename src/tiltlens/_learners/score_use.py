"""Measure the use of features by a score, from regressions of the score on the group and the other features.

Three ridge regressions within each group compete by held-out loss: of the score's log-odds on columns of single
features, and of the log-odds and of the score on the whole basis. If the residuals of the best are negligible, or
if the score is a decision, use is the increase in loss without a feature's columns. Otherwise the residuals of
regressions without the feature, by ridge or by boosted trees, are projected onto its columns. See docs/methods.md,
section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from scipy.special import expit, logit

from tiltlens._estimators.influence import Booleans, Integers, Rows
from tiltlens._estimators.ridges import PAIRINGS, PARTS, UNSEEN, FoldRidges
from tiltlens._estimators.sets import RidgeSets, evenly
from tiltlens._estimators.use import (
    Projection,
    Use,
    estimate_uses,
    judge_projections,
    mean_products,
    orthonormalise,
    project_residuals,
    squared_uses,
    strongest_projection,
    widen_use,
)
from tiltlens._learners.design import Table, code_columns
from tiltlens._learners.linear_models import Partialling
from tiltlens._limits import (
    CLEAR_USE,
    FOLDS,
    JOINT_LOSS,
    LARGEST_LOG_ODDS,
    LEAF_ROWS,
    LEAVES,
    LOST_FIT,
    MODIFIED_LINES,
    MODIFIER_LEVELS,
    MODIFIERS,
    MOST_TREE_LEVELS,
    SMALL_RESIDUAL,
    USE_TREE_ROWS,
    USE_TREES,
    VALUED_COLUMNS,
    WIDE_USE,
)
from tiltlens._threads import each, in_threads
from tiltlens.paper.checks import Floats

Features = Sequence[int]
MISSING = -9.0  # of normal scores, for trees: below all others
ADDITIVE, LOG_ODDS, SCORE = "additive log-odds", "log-odds", "score"


@dataclass(frozen=True, slots=True)
class _Fit:
    """Residuals without a set, projected onto its lines, curves, strongest column and all; and their mean square."""

    lines: Projection
    curves: Projection
    strongest: Projection
    whole: Projection
    residual_square: float

    def judge(self, confidence: float, materiality: float) -> Use:
        others = (self.curves, self.strongest)
        return judge_projections(self.lines, others, self.whole, self.residual_square, confidence, materiality)


@dataclass(frozen=True, eq=False)
class ScoreUse:
    """The use of sets of features by a score.

    Attributes
    ----------
    z, owners, blocks
        (1, Φ, W) of the rows; the features that own each column of Φ, and its block (`FoldRidges`).
    fold, at
        The rows' folds and weights.
    table
        The features of the rows, for trees.
    candidates
        The features whose use is in question.
    ignored
        The features that the model is known to ignore. They are left out of every regression.
    is_probability, is_decision
        Whether the score has log-odds; whether it is 0 or 1.
    materiality
        The threshold, in the unit of the score.
    """

    z: Floats
    owners: Integers
    blocks: Integers
    fold: Integers
    at: Rows
    table: Table
    candidates: Features
    ignored: Features
    is_probability: bool
    is_decision: bool
    materiality: float
    seed: int
    _ridge_fits: dict[tuple[int, ...], _Fit] = field(default_factory=dict, init=False)
    _tree_residuals: dict[tuple[int, ...], Floats] = field(default_factory=dict, init=False)

    @classmethod
    def of(
        cls,
        sets: RidgeSets,
        table: Table,
        numbers: Table,
        candidates: Features,
        ignored: Features,
        *,
        is_probability: bool,
        is_decision: bool,
        materiality: float,
        seed: int,
    ) -> ScoreUse:
        """Return the use of features from the rows of `sets`, which represent themselves only.

        `numbers` are the untransformed numeric features: the basis has their ranks, but most models do not.
        """
        at = Rows.of(sets.at.audited, sets.at.weights, sets.at.clusters)
        positions = [position for position, name in enumerate(table) if name in numbers]
        added = [_standardise(numbers[name]) for name in table if name in numbers]
        z = np.column_stack([sets.z[:, :-2], *added, sets.z[:, -1]])
        owners = np.vstack([sets.ridges.owners, np.repeat(np.array(positions, dtype=np.intp), 3).reshape(-1, 3)])
        blocks = np.append(sets.ridges.blocks, sets.ridges.blocks.max(initial=-1) + 1 + np.arange(len(positions)))
        return cls(
            z, owners, blocks, sets.fold, at, table, candidates, ignored, is_probability, is_decision, materiality, seed
        )

    def measure(self, sets: Sequence[Features], confidence: float) -> list[Use]:
        """Return the use of sets of features."""
        residual_square = max(self._losses[self.learner], 0.0)
        if self.is_decision:
            uses = self._compare_losses(sets, confidence, 0.0)
            return [self._confirm(*parts, confidence) for parts in zip(uses, sets, strict=True)]
        if 2.0 * np.sqrt(residual_square) <= SMALL_RESIDUAL * self.materiality:
            uses = self._compare_losses(sets, confidence, residual_square)
            residuals = self._ridge_residuals(sets).T
            return [self._widen(*parts, confidence) for parts in zip(uses, sets, residuals, strict=True)]
        return [self._judge(features, confidence) for features in each(sets)]

    @property
    def learner(self) -> str:
        """The ridge regression with the smallest held-out loss, corrected for the variance of its fits."""
        return min(self._losses, key=lambda learner: self._losses[learner])

    @cached_property
    def _losses(self) -> dict[str, float]:
        """The losses of the ridge regressions, up to the first with negligible residuals."""
        losses: dict[str, float] = {}
        for learner in (ADDITIVE, LOG_ODDS, SCORE):
            if learner == SCORE or (self.is_probability and not self.is_decision):
                losses[learner] = float(mean_products(self.at, self._ridge_products(learner, [[]]))[0])
                if 2.0 * np.sqrt(max(losses[learner], 0.0)) <= SMALL_RESIDUAL * self.materiality:
                    break
        return losses

    def _compare_losses(self, sets: Sequence[Features], confidence: float, residual_square: float) -> list[Use]:
        """Return the use of sets by the loss of the ridge regressions with and without their columns."""
        without = [list(self.ignored), *([*self.ignored, *features] for features in sets)]
        squared = squared_uses(self.at, self._ridge_products(self.learner, without))
        return estimate_uses(squared, confidence, residual_square, self.materiality)

    def _confirm(self, use: Use, features: Features, confidence: float) -> Use:
        """Return the use by losses, from 0 on if neither projections nor trees without the set confirm it.

        Regressions without one of two near-copies may lack the products that were found for it alone.
        """
        if use.low <= 0.0 or self._ridge_fit(features).judge(confidence, self.materiality).low > 0.0:
            return use
        products = self._ridge_products(self.learner, [self.ignored])
        squares = np.broadcast_to(self._trees(features)[:, None] ** 2, products.shape)
        squared = squared_uses(self.at, np.concatenate([products, squares], axis=2))
        trees = estimate_uses(squared, confidence)[0]
        return Use(min(use.value, trees.value), min(use.low, trees.low), use.high)

    def _judge(self, features: Features, confidence: float) -> Use:
        """Return the use of a set by projections of residuals: of ridges where they show clear use, else of trees."""
        if self._is_clear(features):
            return self._ridge_fit(features).judge(confidence, self.materiality)
        together = next((group for group in self._groups_left_out if set(features) <= set(group)), features)
        # (15a) is valid for every T; the one with the smaller residuals gives the smaller covariance K.
        residuals = min(self._ridge_residuals([together])[:, 0], self._trees(together), key=self._mean_square)
        if self._mean_square(residuals) > LOST_FIT * self._whole_residual:
            # Neither ridges nor trees replace the set, as with a parity that no projection onto few columns shows.
            use = self._compare_losses([features], confidence, self._whole_residual)[0]
            if use.low > 0.0:
                return use
        use = self._fit(features, residuals).judge(confidence, self.materiality)
        return self._widen(use, features, residuals, confidence)

    def _widen(self, use: Use, features: Features, residuals: Floats, confidence: float) -> Use:
        """Return the use, widened if a column fitted to the residuals shows more of it, such as a rapid wave."""
        residual_square = self._mean_square(residuals)
        if use.high > self.materiality or 2.0 * np.sqrt(residual_square) <= self.materiality:
            return use
        learnt = project_residuals(self.at, residuals, self._learn_column(features, residuals)[:, None])
        return widen_use(use, learnt, residual_square, confidence, self.materiality)

    def _learn_column(self, features: Features, residuals: Floats) -> Floats:
        """Return residuals as a function of a set and the group, minus its regression on the other features.

        Both are fitted on the other folds, the function by a tree.
        """
        from sklearn.tree import DecisionTreeRegressor

        inputs = np.nan_to_num(self._inputs[0][:, [*features, -1]], nan=MISSING)
        weights, functions = self.at.balanced_weights, np.empty((FOLDS, len(self.z)))
        for number in range(FOLDS):
            train = self.fold != number
            tree = DecisionTreeRegressor(max_leaf_nodes=LEAVES, min_samples_leaf=LEAF_ROWS, random_state=self.seed)
            tree.fit(inputs[train], residuals[train], sample_weight=weights[train])
            functions[number] = _standardise(tree.predict(inputs))
        removed = np.isin(self.owners, [*self.ignored, *features]).any(axis=1)
        return self._partialling.functions(functions, np.flatnonzero(removed), weights)

    def _is_clear(self, features: Features) -> bool:
        """Whether ridge residuals show clear use.

        The regressions of the score and of the columns share a basis, so a misfit of both would look like small use.
        """
        return self._ridge_fit(features).judge(CLEAR_USE, self.materiality).low > WIDE_USE * self.materiality

    def _ridge_fit(self, features: Features) -> _Fit:
        key = tuple(features)
        if key not in self._ridge_fits:
            self._ridge_fits[key] = self._fit(features, self._ridge_residuals([features])[:, 0])
        return self._ridge_fits[key]

    def _fit(self, features: Features, residuals: Floats) -> _Fit:
        return _Fit(*self._project(features, residuals), self._mean_square(residuals))

    def _mean_square(self, residuals: Floats) -> float:
        return float(self.at.balanced_weights @ residuals**2)

    @cached_property
    def _whole_residual(self) -> float:
        """The mean squared residual of the ridge regressions on all features."""
        return self._mean_square(self._ridge_residuals([[]])[:, 0])

    @cached_property
    def _groups_left_out(self) -> list[list[int]]:
        """Groups of candidates without clear use that trees may leave out together.

        A group grows while leaving it out hardly raises the ridge loss, so copies of a used feature stay apart.
        """
        unclear = [feature for feature in self.candidates if not self._is_clear([feature])]
        most = JOINT_LOSS * self._whole_residual
        groups: list[list[int]] = []
        for feature in sorted(unclear, key=lambda feature: self._ridge_fit([feature]).residual_square):
            wider = [[*group, feature] for group in groups]
            losses = [self._mean_square(left) for left in self._ridge_residuals(wider).T]
            fitting = next((number for number, loss in enumerate(losses) if loss <= most), None)
            if fitting is None:
                groups.append([feature])
            else:
                groups[fitting].append(feature)
        return groups

    def _project(self, features: Features, residuals: Floats) -> tuple[Projection, Projection, Projection, Projection]:
        """Project residuals onto a set's lines, its own columns, its strongest modified column, and most of them.

        Lines and steps are modified by the group and by indicators of other features, so that they still have mean 0
        given the other features. The other features come in the order of their use.
        """
        removed = np.flatnonzero(np.isin(self.owners, [*self.ignored, *features]).any(axis=1))
        columns = self._partialling.columns(removed)
        own = columns[:, np.isin(self.owners[removed], list(features)).all(axis=1)]
        lines = columns[:, np.isin(removed, self._lines(features))]
        steepest = lines[:, np.argsort(-lines.var(axis=0), kind="stable")[:MODIFIED_LINES]]
        weights = self.at.balanced_weights
        directions = orthonormalise(weights, own)
        # Projected on the set's own residual columns, steps have mean 0 given the other features.
        steps = directions @ (directions.T @ (weights[:, None] * self._steps(features)))
        bases = np.hstack([steepest, steps])
        modifiers = [k for k in self._modifiers if k not in (*self.ignored, *features)]
        factors = [np.where(self.at.audited, 1.0, -1.0), *(factor for k in modifiers for factor in self._indicators[k])]
        modified = np.hstack([bases, *(bases * factor[:, None] for factor in factors)])
        return (
            project_residuals(self.at, residuals, lines),
            project_residuals(self.at, residuals, own),
            strongest_projection(self.at, residuals, modified),
            project_residuals(self.at, residuals, np.hstack([own, modified[:, :VALUED_COLUMNS]])),
        )

    def _steps(self, features: Features) -> Floats:
        """Return whether the numbers of a set are above their medians, (n, numbers)."""
        numbers = [column for k, column in enumerate(self.table.values()) if k in features and column.dtype.kind == "f"]
        return np.array([column > np.nanmedian(column) for column in numbers]).reshape(-1, len(self.z)).T * 1.0

    def _lines(self, features: Features) -> Integers:
        """Return the columns that are linear in a set: the normal scores of numbers, and the levels of categories."""
        kinds = list(self.table.values())
        lines = []
        for feature in features:
            single = np.flatnonzero((self.owners == feature).all(axis=1))
            lines.append(single[:1] if kinds[feature].dtype.kind == "f" else single)
        return np.concatenate(lines)

    @cached_property
    def _modifiers(self) -> list[int]:
        """The features whose omission raises the loss of the ridge regressions most."""
        losses = [self._mean_square(left) for left in self._ridge_residuals([[k] for k in range(len(self.table))]).T]
        return [int(k) for k in np.argsort(-np.array(losses), kind="stable")[:MODIFIERS]]

    @cached_property
    def _indicators(self) -> list[list[Floats]]:
        """Whether a number is in its first or last quarter, or a category is one of its most frequent levels."""
        indicators = []
        for column in self.table.values():
            if column.dtype.kind == "f":
                low, high = np.nanquantile(column, (0.25, 0.75))
                indicators.append([(column <= low) * 1.0, (column > high) * 1.0])
            else:
                levels = np.argsort(-np.bincount(column), kind="stable")[:MODIFIER_LEVELS]
                indicators.append([(column == level) * 1.0 for level in levels])
        return indicators

    @cached_property
    def _partialling(self) -> Partialling:
        return Partialling(self.z[:, 1:-1], self.fold, self._ridges)

    @property
    def score(self) -> Floats:
        """W."""
        return self.z[:, -1]

    @cached_property
    def _rows(self) -> Floats:
        """(1, Φ, logit W, W) of the rows; W twice if it is not a probability."""
        first = self.score
        if self.is_probability:
            # Scores of 0 and 1 have infinite log-odds, which are clipped to ±9.
            least = expit(-LARGEST_LOG_ODDS)
            first = logit(np.clip(first, least, 1.0 - least))
        return np.column_stack([self.z[:, :-1], first, self.score])

    @cached_property
    def _ridges(self) -> list[tuple[Booleans, FoldRidges]]:
        """The rows of each group, and the regressions of both targets within it."""
        regressions = []
        for group, share in ((self.at.audited, self.at.audited_share), (~self.at.audited, self.at.reference_share)):
            weighted = self._rows * np.sqrt(share)[:, None]
            grams = [weighted[rows].T @ weighted[rows] for rows in (group & (self.fold == f) for f in range(FOLDS))]
            effective, apply = 1.0 / float(share @ share), partial(in_threads, rows=len(self.owners) ** 2)
            ridges = FoldRidges(np.array(grams), self.owners, self.blocks, effective, apply)
            regressions.append((group, ridges))
        return regressions

    @cached_property
    def _single_ridges(self) -> tuple[Integers, list[tuple[Booleans, FoldRidges]]]:
        """The columns of single features among those of the rows, and the regressions on these alone."""
        own = np.flatnonzero((self.owners == self.owners[:, :1]).all(axis=1))
        kept = np.concatenate([[0], 1 + own, [-2, -1]]) % self._rows.shape[1]
        blocks = np.unique(self.blocks[own], return_inverse=True)[1]
        return kept, [
            (
                group,
                FoldRidges(ridges.grams[:, kept][:, :, kept], self.owners[own], blocks, ridges.effective, ridges.apply),
            )
            for group, ridges in self._ridges
        ]

    def _part_residuals(self, learner: str, sets: Sequence[Features]) -> Floats:
        """Return W − m of each row without each set, by the regressions of each pair of folds, (parts, n, sets)."""
        rows, regressions = self._rows, self._ridges
        if learner == ADDITIVE:
            kept, regressions = self._single_ridges
            rows = rows[:, kept]
        residuals = np.empty((len(PARTS), len(rows), len(sets)))
        for group, ridges in regressions:
            z = rows[group]
            for part, (vectors,) in enumerate(ridges.left_out(sets, [1 if learner == SCORE else 0])):
                left = z @ vectors
                if learner != SCORE:
                    # W − σ(fitted log-odds): z @ v is logit W minus its regression.
                    left = z[:, -1:] - expit(z[:, -2:-1] - left)
                residuals[part, group] = left
        return residuals

    def _ridge_products(self, learner: str, sets: Sequence[Features]) -> Floats:
        """Return (W − a)(W − b) of each row without each set, for the three pairings of parts, (3, n, sets)."""
        residuals = self._part_residuals(learner, sets)
        products = np.empty((len(PAIRINGS[0]), *residuals.shape[1:]))
        for number, pairings in enumerate(PAIRINGS):
            rows = self.fold == number
            for index, (a, b) in enumerate(pairings):
                products[index, rows] = residuals[a, rows] * residuals[b, rows]
        return products

    def _ridge_residuals(self, sets: Sequence[Features]) -> Floats:
        """Return W − m of each row without each set, averaged over the regressions that have not seen it, (n, sets)."""
        without = [[*self.ignored, *features] for features in sets]
        return np.asarray(np.einsum("pns,np->ns", self._part_residuals(self.learner, without), UNSEEN[self.fold]))

    @cached_property
    def _inputs(self) -> tuple[Floats, Booleans]:
        """The features and the group as trees take them, and which of these columns are codes."""
        columns = [column if column.dtype.kind == "f" else _rank_levels(column) for column in self.table.values()]
        inputs = np.column_stack([*columns, self.at.audited]).astype(np.float64, copy=False)
        return inputs, np.append(code_columns(self.table), False)

    def _trees(self, features: Features) -> Floats:
        """Return W − T of each row, T boosted trees without some features that were fitted on the other folds."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        left_out = tuple(sorted({*self.ignored, *features}))
        if left_out in self._tree_residuals:
            return self._tree_residuals[left_out]
        inputs, is_code = (np.delete(part, left_out, axis=-1) for part in self._inputs)
        categories = is_code if is_code.any() else None

        def predict(number: int) -> tuple[Booleans, Floats]:
            rows = self.fold == number
            train = evenly(np.flatnonzero(~rows), USE_TREE_ROWS)
            trees = HistGradientBoostingRegressor(
                **USE_TREES, early_stopping=False, categorical_features=categories, random_state=self.seed
            )
            return rows, trees.fit(inputs[train], self.score[train]).predict(inputs[rows])

        residuals = self.score.copy()
        for rows, predicted in in_threads(predict, range(FOLDS), len(inputs)):
            residuals[rows] -= predicted
        self._tree_residuals[left_out] = residuals
        return residuals


def _standardise(values: Floats) -> Floats:
    """Return a number with mean 0 and variance 1; missing values are 0."""
    present = values[~np.isnan(values)]
    spread = float(present.std()) if present.size else 0.0
    if spread <= 0.0:
        return np.zeros_like(values)
    return np.where(np.isnan(values), 0.0, (values - present.mean()) / spread)


def _rank_levels(codes: Integers) -> Integers:
    """Return codes by frequency, the rarest merged because trees have few bins."""
    rank = np.argsort(np.argsort(-np.bincount(codes), kind="stable"), kind="stable")
    return np.asarray(np.minimum(rank, MOST_TREE_LEVELS)[codes])
