"""Which part of the steepest correction a feature can carry alone, from its cell sums.

Restricting f to functions of X_j, the best rate is −sqrt(Var0(E0[g|X_j])), so share(j) = Var0(E0[g|X_j]) / Var0(g).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltmeter.theory.checks import Floats
from tiltmeter.theory.correction import CorrectionFunction


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """Sums of z = (ℓ, W_1, …, W_{K−1}) over the audited rows in each cell, added with `+`.

    Attributes
    ----------
    pivot
        What was subtracted from z before summing: any point near the mean.
    weight
        Sum of row weights in each cell.
    sums
        Σ w·(z − pivot) in each cell, one row a cell.
    """

    pivot: Floats
    weight: Floats
    sums: Floats

    def __add__(self, other: CellSums) -> CellSums:
        moved = other.sums + np.outer(other.weight, other.pivot - self.pivot)
        return CellSums(self.pivot, self.weight + other.weight, self.sums + moved)

    @property
    def means(self) -> Floats:
        """E0[z|cell] − pivot, one row a cell; 0 in empty cells."""
        safe = np.where(self.weight > 0, self.weight, 1.0)
        means: Floats = self.sums / safe[:, None]
        return means

    @property
    def between(self) -> Floats:
        """Covariance of E0[z|cell] under P0: the part of Cov0(z) between the cells."""
        share = self.weight / self.weight.sum()
        centred = self.means - share @ self.means
        covariance: Floats = (centred * share[:, None]).T @ centred
        return covariance


def share(cells: CellSums, correction: CorrectionFunction) -> float:
    """Return Var0(E0[f~|X_j]), which is the share of Var0(g); 0 where there is nothing to correct."""
    slope = np.array([correction.on_log_odds, *correction.on_scores])
    return float(np.clip(slope @ cells.between @ slope, 0.0, 1.0))
