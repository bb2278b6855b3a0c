"""Sums over the cells of a feature, from which its plug-in share of the correction follows.

Restricting f to functions of X_j, the best rate is −sqrt(Var0(E0[g|X_j])), so share(j) = Var0(E0[g|X_j]) / Var0(g).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltlens.paper.checks import Floats


@dataclass(frozen=True, slots=True, eq=False)
class AuditedSums:
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

    def __add__(self, other: AuditedSums) -> AuditedSums:
        moved = other.sums + np.outer(other.weight, other.pivot - self.pivot)
        return AuditedSums(self.pivot, self.weight + other.weight, self.sums + moved)

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
