"""Columns of features minus their regression on the columns of all other features, within each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.estimators.ridges import FoldRidges
from tiltlens.limits import FOLDS, START_PENALTY
from tiltlens.paper.checks import Floats


@dataclass(frozen=True, eq=False)
class Partialling:
    """Regressions among the columns Φ of the features; each row has those of its group in the other folds.

    `ridges` are the rows of each group with its Gram matrices.
    """

    basis: Floats
    fold: Integers
    ridges: Sequence[tuple[Booleans, FoldRidges]]

    def columns(self, removed: Integers) -> Floats:
        """Return some columns of Φ minus their regression on all others, (n, removed)."""
        residuals = np.empty((len(self.basis), removed.size))
        for _, rows, _, mean, inverse in self._inverse_covariances:
            weights = inverse[:, removed] @ np.linalg.inv(inverse[np.ix_(removed, removed)])
            residuals[rows] = (self.basis[rows] - mean) @ weights
        return residuals

    def functions(self, values: Floats, removed: Integers, weights: Floats) -> Floats:
        """Return functions of the removed features minus their regression on the columns of the others, (n,).

        `values` are those of the function that was learnt without each fold, (folds, n).
        """
        residuals = np.empty(len(self.basis))
        for number, rows, train, mean, inverse in self._inverse_covariances:
            value, own = values[number], weights[train] / weights[train].sum()
            centred = value - own @ value[train]
            cross = (own * centred[train]) @ (self.basis[train] - mean)
            cross[removed] = 0.0
            slopes = inverse @ cross
            slopes -= inverse[:, removed] @ np.linalg.solve(inverse[np.ix_(removed, removed)], slopes[removed])
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
                inverse = np.asarray(cho_solve(cho_factor(penalised, lower=True), np.eye(len(mean))))
                rows = self.fold == number
                moments.append((number, group & rows, group & ~rows, mean, inverse))
        return moments
