"""Ridge penalties by empirical Bayes, one for each block of columns.

One penalty for all columns, chosen by held-out loss, is large where most columns are noise, and then shrinks the few
that matter. A coefficient in which both regressions are shrunk is biased to first order: cross-fitting forgives the
variance of a regression, not its bias. A penalty of its own for each feature leaves what is clearly seen as it is, and
takes out what is not (automatic relevance determination, MacKay 1992). A fourth of it is used: a regression that is one
of two in a product should be undersmoothed (Newey 1994). See docs/methods.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tiltlens.estimators.influence import Integers
from tiltlens.limits import START_PENALTY
from tiltlens.paper.checks import Floats

LEAST_PENALTY = 0.1  # rows: the regression stays defined
MOST_PENALTY = 1e6  # variances of a column: it is as good as left out
ALONE_ROUNDS = 10  # steps of the fixed point of one block
TOGETHER_ROUNDS = 3  # of all blocks: what moves later is below what is seen
UNDERSMOOTHED = 0.25  # of the penalty with the largest evidence: cross-fitting forgives variance, not bias


def block_penalties(
    covariance: Floats, cross: Floats, variance: float, blocks: Sequence[Integers], rows: float
) -> Floats:
    """Return what a ridge regression adds to the variance of each column.

    It is given by the columns' `covariance`, theirs with the target (`cross`), the target's `variance` and the `rows`.

    A block that the others make superfluous, such as a copy, keeps the penalty it has alone: it must be able to stand
    in for a feature that is left out. One that matters beside others only has the penalty it has there.
    """
    alone = np.empty(len(cross))
    for size in {columns.size for columns in blocks}:  # blocks of one size are worked out together
        same = np.array([columns for columns in blocks if columns.size == size])
        among = covariance[same[:, :, None], same[:, None, :]]
        alone[same] = _alone(among, cross[same], variance, rows)[:, None]
    together = np.minimum(alone, START_PENALTY / rows)
    for _ in range(TOGETHER_ROUNDS):
        together = np.minimum(alone, _updated(covariance, cross, variance, blocks, rows, together))
    return UNDERSMOOTHED * together


def _alone(covariance: Floats, cross: Floats, variance: float, rows: float) -> Floats:
    """Return the penalty of the largest evidence of each block: σ²·γ/(rows·|β|²), γ its degrees of freedom.

    It is given by the blocks' covariances, (blocks, p, p), and those with the target, (blocks, p).
    """
    values, vectors = np.linalg.eigh(covariance)
    values, turned = np.maximum(values, 0.0), np.einsum("kij,ki->kj", vectors, cross)
    penalty = np.full(len(cross), START_PENALTY / rows)
    for _ in range(ALONE_ROUNDS):
        slopes = turned / (values + penalty[:, None])
        freedom = (values / (values + penalty[:, None])).sum(axis=1)
        # In the axes of the block’s covariance a ridge regression shrinks each slope by itself.
        left = variance - (slopes * (2.0 * turned - values * slopes)).sum(axis=1)
        penalty = _fixed_point(left, freedom, freedom, (slopes**2).sum(axis=1), rows)
    return penalty


def _updated(
    covariance: Floats, cross: Floats, variance: float, blocks: Sequence[Integers], rows: float, penalties: Floats
) -> Floats:
    """Return the penalties after one step of MacKay's fixed point, all blocks being regressed on together."""
    inverse = cho_solve(cho_factor(covariance + np.diag(penalties), lower=True), np.eye(len(cross)))
    slopes = inverse @ cross
    # γ of a column: the trace of (C + Λ)⁻¹C, column by column.
    freedom = 1.0 - penalties * np.diag(inverse)
    left = variance - slopes @ (2.0 * cross - covariance @ slopes)
    block_of = np.empty(len(cross), dtype=np.int64)
    for number, columns in enumerate(blocks):
        block_of[columns] = number
    of_blocks, size = (np.bincount(block_of, part).astype(np.float64) for part in (freedom, slopes**2))
    return np.asarray(_fixed_point(left, of_blocks, freedom.sum(), size, rows)[block_of])


def _fixed_point(left: Floats, freedom: Floats, all_freedom: Floats, size: Floats, rows: float) -> Floats:
    # λ = σ²γ/(n|β|²), with σ² from what is left over n less all degrees of freedom.
    noise = np.maximum(left, 0.0) * rows / np.maximum(rows - all_freedom, 1.0)
    # Slopes that are all noise have their largest evidence at an endless penalty.
    least_size = np.maximum(rows * size, noise * freedom / MOST_PENALTY)
    most = np.full_like(least_size, MOST_PENALTY)
    return np.maximum(np.divide(noise * freedom, least_size, out=most, where=least_size > 0.0), LEAST_PENALTY / rows)
