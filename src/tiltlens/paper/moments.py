"""The mergeable sums of one group: all that the correction function needs of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tiltlens.errors import DataError, DistributionError
from tiltlens.limits import MOMENTS_CHUNK
from tiltlens.paper.checks import Floats, check_array, check_channel, check_same_length

FAR = 100.0  # squared distance of pivot and mean, in variances, beyond which digits are lost


@dataclass(frozen=True, slots=True, eq=False)
class GroupMoments:
    """First and second moments of z = (ℓ, W_1, …, W_{K−1}) over the rows of one group.

    Two of them are added with `+`; the sum is what one pass over all the rows would have given. The mean is
    kept as an unevaluated sum `pivot + offset`, so that merging loses no digits where the spread is tiny
    next to the mean.

    Attributes
    ----------
    rows
        Number of rows.
    weight
        Sum of the row weights (the number of rows where there are none).
    pivot, offset
        Two parts of the weighted mean of z.
    scatter
        Σ w (z − mean)(z − mean)ᵀ.

    Examples
    --------
    >>> parts = GroupMoments.from_rows([0.5], [0.7]) + GroupMoments.from_rows([1.0, -0.2], [0.8, 0.4])
    >>> parts.rows, parts.mean.round(3).tolist()
    (3, [0.433, 0.633])
    """

    rows: int
    weight: float
    pivot: Floats
    offset: Floats
    scatter: Floats

    @classmethod
    def empty(cls, outcomes: int = 2) -> GroupMoments:
        """Return the moments of no rows, the neutral element of `+`."""
        return cls(0, 0.0, np.zeros(outcomes), np.zeros(outcomes), np.zeros((outcomes, outcomes)))

    @classmethod
    def from_rows(cls, log_odds: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> GroupMoments:
        """Return the moments of rows.

        Parameters
        ----------
        log_odds
            ℓ(x), the log-odds of being in the audited group, up to a constant.
        scores
            W(1|x) as (n,), or the probabilities of K outcomes as (n, K).
        weights
            Row weights, not negative.
        """
        ratio = check_array("log_odds", log_odds)
        W = check_channel("scores", scores)[:, 1:]
        check_same_length(log_odds=ratio, scores=W)
        w = None if weights is None else check_row_weights(weights, len(ratio))
        moments = cls.empty(outcomes=1 + W.shape[1])
        for start in range(0, len(ratio), MOMENTS_CHUNK):
            rows = slice(start, start + MOMENTS_CHUNK)
            z = np.vstack([ratio[rows], W[rows].T])
            moments = moments + cls.from_columns(z, None if w is None else w[rows])
        return moments

    @classmethod
    def from_columns(cls, z: Floats, weights: Floats | None = None, rows: int | None = None) -> GroupMoments:
        """Return the moments of one chunk of checked columns, z of shape (K, n), centred before squaring.

        `rows` is the number of rows to count where rows of other groups are in the chunk with weight 0.
        """
        total = float(z.shape[1]) if weights is None else float(weights.sum())
        counted = z.shape[1] if rows is None else rows
        if total == 0:
            return cls(counted, 0.0, np.zeros(len(z)), np.zeros(len(z)), np.zeros((len(z), len(z))))
        pivot = (z.sum(axis=1) if weights is None else z @ weights) / total
        centred = z - pivot[:, None]
        weighted = centred if weights is None else centred * weights
        return cls.from_sums(counted, total, pivot, weighted.sum(axis=1), weighted @ centred.T)

    @classmethod
    def from_sums(cls, rows: int, weight: float, pivot: Floats, first: Floats, second: Floats) -> GroupMoments:
        """Return the moments from Σ w·c and Σ w·c·cᵀ of c = z − pivot, for a pivot near the mean."""
        # The pivot is near the mean, so that little is taken from the sums of squares.
        offset = first / weight
        return cls(rows, weight, pivot, offset, second - weight * np.outer(offset, offset))

    def __add__(self, other: GroupMoments) -> GroupMoments:
        if self.outcomes != other.outcomes:
            raise DataError(
                f"moments to add must have the same number of outcomes, got {self.outcomes} and {other.outcomes}.",
                "build both from scores of the same model.",
            )
        rows, weight = self.rows + other.rows, self.weight + other.weight
        if other.weight == 0 or self.weight == 0:
            full = self if other.weight == 0 else other
            return GroupMoments(rows, weight, full.pivot, full.offset, full.scatter)
        # M + M’ + nn’/(n + n’)·(μ − μ’)(μ − μ’)ᵀ (docs/methods, section 4).
        share = other.weight / weight
        # Pivots first: the difference of two large means is exact where they are close.
        difference = (other.pivot - self.pivot) + (other.offset - self.offset)
        pivot, offset = _two_sum(self.pivot, self.offset + difference * share)
        between = np.outer(difference, difference) * (self.weight * share)
        return GroupMoments(rows, weight, pivot, offset, self.scatter + other.scatter + between)

    @property
    def outcomes(self) -> int:
        """K, the number of outcomes of the model."""
        return len(self.pivot)

    @property
    def mean(self) -> Floats:
        """Mean of (ℓ, W_1, …, W_{K−1})."""
        self._check_not_empty()
        mean: Floats = self.pivot + self.offset
        return mean

    @property
    def covariance(self) -> Floats:
        """Covariance of (ℓ, W_1, …, W_{K−1}), dividing by the sum of weights."""
        self._check_not_empty()
        covariance: Floats = self.scatter / self.weight
        return covariance

    @property
    def mean_log_odds(self) -> float:
        """Mean of ℓ."""
        return float(self.mean[0])

    @property
    def output(self) -> Floats:
        """The group's output distribution (Y(0), …, Y(K−1)): the mean score of each outcome."""
        # Means of probabilities leave [0, 1] by rounding only.
        rest = np.clip(self.mean[1:], 0.0, 1.0)
        return np.concatenate([[max(0.0, 1.0 - float(rest.sum()))], rest])

    @property
    def well_centred(self) -> bool:
        """Whether the pivot was near enough to the mean that the scatter kept its digits."""
        spread = np.diag(self.scatter)
        return bool((self.weight * self.offset**2 <= FAR * spread).all())

    def _check_not_empty(self) -> None:
        if self.weight <= 0:
            raise DataError(
                f"a group must have rows with positive weight, got {self.rows} row(s) of total weight 0.",
                "check the group's name and the row weights.",
            )


def check_row_weights(weights: ArrayLike, rows: int) -> Floats:
    """Return row weights as a float array: finite, not negative, one for each row."""
    w = check_array("weights", weights)
    if len(w) != rows:
        raise DistributionError(
            f"`weights` must have one entry for each row, got {len(w)} for {rows} rows.", "one weight a row."
        )
    if (w < 0).any():
        index = int(np.argmin(w))
        raise DistributionError(
            f"`weights` must not be negative, got {w[index]} in row {index}.",
            "drop rows with a weight of 0 instead.",
        )
    return w


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return a + b as the rounded sum and the exact rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
