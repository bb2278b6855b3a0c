"""c_A of every set A of features from one Gram matrix per fold: ridge regressions of the group and of the score.

Each column of a basis belongs to the one to three features that define it. The regressions of a set use only columns
that belong to its features; e and m are fitted on disjoint pairs of folds, both disjoint from the fold they are used
on. All means are functions of the folds' Gram matrices, so another set does not require another pass over rows. See
docs/methods.md, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri, dtrtri

from tiltlens._estimators.influence import Booleans, Integers
from tiltlens._limits import FOLDS, START_PENALTY
from tiltlens.paper.checks import Floats

# One penalty for all columns, chosen by held-out loss, is large where most columns are noise, and then shrinks the few
# that matter. A coefficient in which both regressions are shrunk is biased to first order: cross-fitting forgives the
# variance of a regression, not its bias. A separate penalty for each block barely shrinks clear effects and
# removes the others (automatic relevance determination, MacKay 1992). A quarter of it is used, because a regression
# that is one of two in a product should be undersmoothed (Newey 1994).
LEAST_PENALTY = 0.1  # rows: the regression stays defined
MOST_PENALTY = 1e6  # variances of a column: it is as good as left out
ALONE_ROUNDS = 10  # steps of the fixed point of one block
TOGETHER_ROUNDS = 3  # joint steps of all blocks: later changes are negligible
UNDERSMOOTHED = 0.25  # of the penalty with the largest evidence: cross-fitting forgives variance, not bias


def block_penalties(
    covariance: Floats, cross: Floats, variance: float, blocks: Sequence[Integers], rows: float
) -> Floats:
    """Return the ridge penalty of each column, which is added to its variance.

    Inputs are the columns' `covariance`, those with the target (`cross`), its `variance`, and the effective `rows`.

    Each block gets the smaller of its penalty alone and its penalty among all blocks. So a block that others make
    redundant, such as a copy, can still replace them in other sets, and one that matters only jointly is kept.
    """
    alone = np.empty(len(cross))
    for size in {columns.size for columns in blocks}:  # blocks of one size are solved together
        same = np.array([columns for columns in blocks if columns.size == size])
        among = covariance[same[:, :, None], same[:, None, :]]
        alone[same] = _alone(among, cross[same], variance, rows)[:, None]
    together = np.minimum(alone, START_PENALTY / rows)
    for _ in range(TOGETHER_ROUNDS):
        together = np.minimum(alone, _updated(covariance, cross, variance, blocks, rows, together))
    return UNDERSMOOTHED * together


def _alone(covariance: Floats, cross: Floats, variance: float, rows: float) -> Floats:
    """Return the penalty that maximises the evidence of each block alone: σ²·γ/(rows·|β|²), γ its degrees of freedom.

    Inputs are the blocks' covariances, (blocks, p, p), and those with the target, (blocks, p).
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
    factor = cholesky(covariance + np.diag(penalties), lower=True)
    slopes = cho_solve((factor, True), cross)
    # γ of a column: the trace of (C + Λ)⁻¹C, column by column.
    freedom = 1.0 - penalties * (dtrtri(factor, lower=True)[0] ** 2).sum(axis=0)
    left = variance - slopes @ (2.0 * cross - covariance @ slopes)
    block_of = np.empty(len(cross), dtype=np.int64)
    for number, columns in enumerate(blocks):
        block_of[columns] = number
    of_blocks, size = (np.bincount(block_of, part).astype(np.float64) for part in (freedom, slopes**2))
    return np.asarray(_fixed_point(left, of_blocks, freedom.sum(), size, rows)[block_of])


def _fixed_point(left: Floats, freedom: Floats, all_freedom: Floats, size: Floats, rows: float) -> Floats:
    # λ = σ²γ/(n|β|²), σ² being the residual sum of squares over n minus all degrees of freedom.
    noise = np.maximum(left, 0.0) * rows / np.maximum(rows - all_freedom, 1.0)
    # Slopes that are pure noise have their largest evidence at an infinite penalty.
    least_size = np.maximum(rows * size, noise * freedom / MOST_PENALTY)
    most = np.full_like(least_size, MOST_PENALTY)
    return np.maximum(np.divide(noise * freedom, least_size, out=most, where=least_size > 0.0), LEAST_PENALTY / rows)


PARTS = tuple(combinations(range(FOLDS), 2))  # a regression is fitted on a pair of folds
# For each fold the three ways to make two pairs of the other four, as indices of PARTS.
PAIRINGS = tuple(
    tuple((PARTS.index((rest[0], rest[k])), PARTS.index(tuple(x for x in rest[1:] if x != rest[k]))) for k in (1, 2, 3))
    for rest in (tuple(other for other in range(FOLDS) if other != fold) for fold in range(FOLDS))
)
# Weight of each part's model, by fold: six models have not seen a fold, two halves in three pairings.
UNSEEN = np.array([[number not in part for part in PARTS] for number in range(FOLDS)]) / len(PAIRINGS[0]) / 2


@dataclass(frozen=True, slots=True, eq=False)
class SetMeans:
    """Means over all rows for some sets: r̄, D and E[(W − m)²], (3 pairings, sets)."""

    product: Floats
    residual: Floats
    left: Floats

    @property
    def value(self) -> Floats:
        """c_A of each set: the folds' and pairings' sums, divided once."""
        return _ratio(self.product.mean(axis=0), self.residual.mean(axis=0))

    @property
    def between(self) -> Floats:
        """Deviations of the pairings' c_A from the value, (3, sets)."""
        return _ratio(self.product, self.residual) - self.value


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 1e-9)


Apply = Callable[..., Iterable[Any]]


class _Moments(NamedTuple):
    """Moments of the rows of a part: of the columns Φ, and of both targets (S̄, W)."""

    covariance: Floats
    cross: Floats  # covariances of Φ with the targets
    mean: Floats
    level: Floats  # means of the targets
    variance: Floats  # of the targets


@dataclass(frozen=True, eq=False)
class FoldRidges:
    """The regressions on the columns of a basis."""

    grams: Floats  # Σ ω·zzᵀ over the rows of each fold, z = (1, Φ, S̄, W), Σ ω = 1 over all: (folds, p + 3, p + 3)
    owners: Integers  # the indices of the one to three features that each column belongs to, (p, 3)
    blocks: Integers  # the number of the block of columns, with one penalty, that each belongs to
    effective: float  # effective number of rows
    apply: Apply = map  # a function to each part, in threads perhaps

    @property
    def columns(self) -> int:
        """p, the number of columns."""
        return len(self.owners)

    def members(self, features: Sequence[int]) -> Booleans:
        """Return which columns belong to a set of features."""
        inside = np.zeros(int(self.owners.max(initial=-1)) + 1, dtype=np.bool_)
        inside[[feature for feature in features if feature < inside.size]] = True
        return np.asarray(inside[self.owners].all(axis=1))

    @cached_property
    def moments(self) -> list[_Moments]:
        moments = []
        p = self.columns
        for part in PARTS:
            gram = self.grams[list(part)].sum(axis=0)
            # Centred by the part’s own means: the intercept has no penalty.
            gram = gram / gram[0, 0]
            mean, level = gram[0, 1 : p + 1], gram[0, p + 1 :]
            covariance = gram[1 : p + 1, 1 : p + 1] - np.outer(mean, mean)
            cross = gram[1 : p + 1, p + 1 :] - np.outer(mean, level)
            moments.append(_Moments(covariance, cross, mean, level, np.diag(gram)[p + 1 :] - level**2))
        return moments

    @cached_property
    def targets(self) -> tuple[_Target, _Target]:
        """The regressions of S̄ and of W."""
        return _Target(self, 0), _Target(self, 1)

    def _vectors(self, slopes: Callable[[int, int], Floats], targets: Sequence[int] = (0, 1)) -> list[Floats]:
        """Return the residual vectors of each part, (2, p + 3, sets), from its slopes for e and for m, (sets, p)."""
        return [
            np.array([_residual_vectors(slopes(part, target), self.moments[part], target) for target in targets])
            for part in range(len(PARTS))
        ]

    def single_sets(self, sets: Sequence[Sequence[int]]) -> list[Floats]:
        """Return the residual vectors of small sets, each solved by itself: (parts) × (2, p + 3, sets)."""
        masks = [np.flatnonzero(self.members(features)) for features in sets]

        def solved(part: int, target: int) -> Floats:
            moments, penalties = self.moments[part], self.targets[target].penalties[part]
            slopes = np.zeros((len(masks), self.columns))
            for size in {columns.size for columns in masks} - {0}:  # sets of one size are solved together
                indices = [index for index, columns in enumerate(masks) if columns.size == size]
                used = np.array([masks[index] for index in indices])
                blocks = moments.covariance[used[:, :, None], used[:, None, :]]
                blocks = blocks + penalties[used][:, :, None] * np.eye(size)
                solution = np.linalg.solve(blocks, moments.cross[used, target][:, :, None])
                slopes[np.array(indices)[:, None], used] = solution[..., 0]
            return slopes

        return self._vectors(solved)

    def left_out(self, sets: Sequence[Sequence[int]], targets: Sequence[int] = (0, 1)) -> list[Floats]:
        """Return the residual vectors of all features but those of each set, of S̄, of W or of both.

        With K = (C + penalty)⁻¹ and slopes β, leaving out the columns B leaves β − K_{·B} K_BB⁻¹ β_B.
        """
        gone = [np.flatnonzero(np.isin(self.owners, list(features)).any(axis=1)) for features in sets]

        def downdated(part: int, target: int) -> Floats:
            inverse = self.targets[target].inverses[part]
            whole = inverse @ self.moments[part].cross[:, target]
            kept = np.tile(whole, (len(gone), 1))
            # Downdated by blocks of the inverse: nothing is fitted again for a feature that is left out.
            for index, out in enumerate(gone):
                kept[index] -= inverse[:, out] @ np.linalg.solve(inverse[np.ix_(out, out)], whole[out])
                kept[index, out] = 0.0
            return kept

        return self._vectors(downdated, targets)

    def leading_sets(self, order: Sequence[int]) -> list[Floats]:
        """Return the residual vectors of ∅, {1st}, {1st, 2nd}, … along an order of the features.

        With the columns sorted by when they enter, each set's Cholesky factor is a leading block of the whole one.
        """
        rank = np.empty(len(order), dtype=np.intp)
        rank[list(order)] = np.arange(len(order))
        enters = rank[self.owners].max(axis=1)
        by_entry = np.argsort(enters, kind="stable")
        sizes = np.searchsorted(enters[by_entry], np.arange(-1, len(order)), side="right")

        def leading(part: int, target: int) -> Floats:
            moments, penalties = self.moments[part], self.targets[target].penalties[part]
            # One factorisation for a whole order: a Shapley value of many features needs hundreds of sets.
            covariance = moments.covariance[np.ix_(by_entry, by_entry)] + np.diag(penalties[by_entry])
            solve = partial(solve_triangular, np.linalg.cholesky(covariance), lower=True)
            # With A = LLᵀ and h = L⁻¹b, a leading block's solution is L⁻ᵀ times the first entries of h.
            h = solve(moments.cross[by_entry, target])
            slopes = np.empty((len(sizes), self.columns))
            slopes[:, by_entry] = solve(np.where(np.arange(h.size)[:, None] < sizes, h[:, None], 0.0), trans="T").T
            return slopes

        return self._vectors(leading)

    def means(self, vectors: Sequence[Floats]) -> SetMeans:
        """Return the means of r, q and (W − m)² of sets over all rows, for each pairing."""
        count = vectors[0].shape[2]
        product, residual, left = (np.zeros((3, count)) for _ in range(3))
        for fold, pairings in enumerate(PAIRINGS):
            gram = self.grams[fold]
            for number, (a, b) in enumerate(pairings):
                ea, ma = vectors[a]
                moved = gram @ vectors[b]
                # (17): e from one half of a pairing and m from the other, in both roles; eᵀGm = mᵀGe.
                product[number] += 0.5 * ((ea * moved[1]).sum(axis=0) + (ma * moved[0]).sum(axis=0))
                residual[number] += (ea * moved[0]).sum(axis=0)
                left[number] += (ma * moved[1]).sum(axis=0)
        return SetMeans(product, residual, left)

    @cached_property
    def _whole(self) -> Floats:
        """The residual vectors of all features, (2, parts, p + 3)."""
        return np.array([vectors[:, :, 0] for vectors in self.left_out([[]])]).transpose(1, 0, 2)

    def part_residuals(self, z: Floats) -> Floats:
        """Return S̄ − e and W − m of rows z by all features, from the models of every part, (2, parts, n)."""
        return np.asarray(self._whole @ z.T)

    def group_residuals(self, z: Floats, fold: Integers, vectors: Sequence[Floats]) -> Floats:
        """Return S̄ − e of rows z for each set, (n, sets), averaged over the models that have not seen the fold."""
        every = np.array([part[0] for part in vectors])
        residuals = np.empty((len(z), every.shape[2]))
        for number, unseen in enumerate(UNSEEN):
            own = fold == number
            residuals[own] = z[own] @ np.tensordot(unseen, every, axes=1)
        return residuals

    def row_values(self, z: Floats, fold: Integers, vectors: Sequence[Floats]) -> tuple[Floats, Floats, Floats]:
        """Return r, q and (W − m)² of rows z = (1, Φ, S̄, W) for each set, (n, sets), averaged over pairings."""
        shape = (len(z), vectors[0].shape[2])
        product, residual, left = np.empty(shape), np.empty(shape), np.empty(shape)
        for number, pairings in enumerate(PAIRINGS):
            here = np.flatnonzero(fold == number)
            if not here.size:
                continue
            own, parts = z[here], {part for pair in pairings for part in pair}
            e, m = ({part: own @ vectors[part][target] for part in parts} for target in (0, 1))
            product[here] = np.mean([0.5 * (e[a] * m[b] + e[b] * m[a]) for a, b in pairings], axis=0)
            residual[here] = np.mean([e[a] * e[b] for a, b in pairings], axis=0)
            left[here] = np.mean([m[a] * m[b] for a, b in pairings], axis=0)
        return product, residual, left


@dataclass(frozen=True, eq=False)
class _Target:
    """The ridge regressions of S̄ (0) or W (1) in each part."""

    ridges: FoldRidges
    number: int

    @cached_property
    def penalties(self) -> list[Floats]:
        """The ridge penalties of every column."""
        ridges, target = self.ridges, self.number
        rows = len(PARTS[0]) / FOLDS * ridges.effective  # effective ones of a part
        blocks = [np.flatnonzero(ridges.blocks == block) for block in range(int(ridges.blocks.max(initial=-1)) + 1)]

        def choose(moments: _Moments) -> Floats:
            variance = float(moments.variance[target])
            return block_penalties(moments.covariance, moments.cross[:, target], variance, blocks, rows)

        return list(ridges.apply(choose, ridges.moments))

    @cached_property
    def inverses(self) -> list[Floats]:
        """(C + penalty)⁻¹."""

        def invert(part: tuple[_Moments, Floats]) -> Floats:
            moments, penalty = part
            return inverse(moments.covariance + np.diag(penalty))

        return list(self.ridges.apply(invert, list(zip(self.ridges.moments, self.penalties, strict=True))))


def inverse(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix."""
    lower = dpotri(cholesky(matrix, lower=True), lower=True)[0]
    return np.asarray(lower + np.tril(lower, -1).T)


def _residual_vectors(slopes: Floats, moments: _Moments, target: int) -> Floats:
    """Return for each line of slopes v with z·v = S̄ − e(x) (target 0) or W − m(x) (target 1), z = (1, Φ, S̄, W)."""
    vectors = np.zeros((slopes.shape[1] + 3, len(slopes)))
    vectors[0], vectors[1:-2] = slopes @ moments.mean - moments.level[target], -slopes.T
    vectors[target - 2] = 1.0
    return vectors
