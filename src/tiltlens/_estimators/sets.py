"""Sets of features: contributions beyond others, and Shapley values of gap(A) = gap − c_A, which add up.

c_A of many sets of features with row-wise influences, from which joint(j) and Shapley values are computed.

If the features have few joint values for the number of rows, e and m are means by joint value; otherwise they are
ridge regressions on a basis (`_estimators.ridges`).

Shapley values of gap(A) = gap − c_A: contributions of the features that add up.

Few features use every set. More use random orders and their reverses, whose spread adds to the error. With very many
features, influences are computed along some of the orders only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tiltlens._estimators.estimate import Normal, student_factor
from tiltlens._estimators.feature_gap import (
    CellSums,
    Coefficient,
    Hidden,
    cell_coefficient,
    cell_sums_of,
    joint_codes,
)
from tiltlens._estimators.influence import Booleans, Integers, Rows, satterthwaite
from tiltlens._estimators.ridges import FoldRidges, SetMeans
from tiltlens._limits import OF_PAIRINGS
from tiltlens.paper.checks import Floats

SET_BLOCK = 32  # sets whose influences are computed together


class SetCoefficients(NamedTuple):
    """c_A of some sets: values, row-wise influences (n, sets), and deviations between pairings (pairings, sets)."""

    values: Floats
    influence: Floats
    between: Floats

    def select(self, index: Sequence[int]) -> SetCoefficients:
        """Return some of them."""
        return SetCoefficients(*(part[..., list(index)] for part in self))

    def combine(self, weights: Floats) -> SetCoefficients:
        """Return linear combinations of them, `weights` being (sets, combinations)."""
        return SetCoefficients(*(part @ weights for part in self))


@dataclass(frozen=True, slots=True, eq=False)
class TargetErrors:
    """The errors that a target which is itself estimated, W = W(x; μ̂, t̂), adds to c_A.

    Attributes
    ----------
    corrections, mean
        The term that makes r of each row insensitive to errors of μ̂, the same for every A; and its mean over all rows.
    slopes
        ∂W/∂t of each row, (n, k).
    parameters
        The influence of each row, or cluster, on t̂, (m, k).
    """

    corrections: Floats
    mean: float
    slopes: Floats
    parameters: Floats

    def take(self, index: Integers, audited: Booleans, at: Rows | None = None) -> TargetErrors:
        """Return the errors for fewer rows that represent all of them, `at`, by cluster if these have clusters."""
        parameters = np.zeros((index.size, self.parameters.shape[1]))
        for own in (audited, ~audited):
            # (36): Σ of squares of each group stays.
            kept = self.parameters[index] * own[index, None]
            size = np.sqrt((kept**2).sum(axis=0))
            whole = np.sqrt((self.parameters[own] ** 2).sum(axis=0))
            parameters += kept * np.divide(whole, size, out=np.zeros_like(size), where=size > 0.0)
        parameters = at.sum_by_cluster(parameters) if at is not None and parameters.size else parameters
        return replace(self, corrections=self.corrections[index], slopes=self.slopes[index], parameters=parameters)

    def add_errors(self, every: SetCoefficients, slopes: Floats) -> SetCoefficients:
        """Return c_A with the error of t̂, `slopes` being c_A of ∂W/∂t, (k, sets)."""
        return every._replace(influence=every.influence + self.parameters @ slopes) if len(slopes) else every


def covariance(influence: Floats, between: Floats) -> Floats:
    """Return the covariance of estimates from row-wise influences and the deviations between pairings.

    Pairings share their rows but not their models. Each pair of folds serves three evaluation folds, so the mean over
    pairings has 15/4 times the variance observed between them (docs/methods.md, section 6).
    """
    # (27) with the exact 15/4 of `PAIRINGS`; `influence.covariance` has the 2 of group membership.
    pairings = max(len(between), 1)
    return np.asarray(influence.T @ influence + OF_PAIRINGS / pairings * (between.T @ between))


def degrees_of_freedom(influence: Floats, between: Floats, errors: Floats) -> Floats:
    """Return Satterthwaite's degrees of freedom of each number's variance, the diagonal of `errors` (29)."""
    seen = OF_PAIRINGS / max(len(between), 1) * (between**2).sum(axis=0)
    return satterthwaite(influence, np.diag(errors), seen, len(between))


@dataclass(frozen=True, slots=True, eq=False)
class CellSets:
    """Sets of discrete features by their joint values."""

    sums: CellSums  # over all rows, by joint value of all features
    levels: Integers  # the features' codes in each joint value, (values, features)
    # The joint value and the score of the rows whose influence is wanted, and these rows
    codes: Integers
    outcome: Floats
    at: Rows
    leaves_one_out: bool = True
    pooled: tuple[str, ...] = ()
    target: TargetErrors | None = None

    @property
    def features(self) -> int:
        """The number of features."""
        return int(self.levels.shape[1])

    def coefficient(self, features: Sequence[int]) -> Coefficient:
        """Return c_A of one set."""
        cell: Integers = np.zeros(len(self.levels), dtype=np.intp)
        if len(features):
            cell = joint_codes(self.levels[:, list(features)])[0]
        own = cell[self.codes]
        c = cell_coefficient(self.at, self.outcome, own, self.sums.merge(cell), self.leaves_one_out)
        if self.target is None:
            return c
        product, mean = c.product + self.target.corrections, c.mean_product + self.target.mean
        return replace(c, product=product, mean_product=mean)

    def coefficients(self, sets: Sequence[Sequence[int]]) -> tuple[list[Coefficient], Floats]:
        """Return the `Coefficient` of each set, and deviations of 0, as cells do not use pairings."""
        return [self.coefficient(features) for features in sets], np.zeros((1, len(sets)))

    def sets(self, sets: Sequence[Sequence[int]]) -> SetCoefficients:
        """Return c_A of some sets."""
        coefficients, between = self.coefficients(sets)
        influence = np.column_stack([c.estimate(self.at).influence for c in coefficients])
        every = SetCoefficients(np.array([c.value for c in coefficients]), influence, between)
        return every if self.target is None else self.target.add_errors(every, self._slopes(sets, self.target.slopes))

    def _slopes(self, sets: Sequence[Sequence[int]], columns: Floats) -> Floats:
        """Return c_A with each of some columns in place of W, (k, sets)."""
        size = len(self.levels)
        others = [
            replace(self, outcome=column, sums=cell_sums_of(self.at, column, self.codes, size), target=None)
            for column in columns.T
        ]
        return np.array([other.values(sets) for other in others]).reshape(-1, len(sets))

    def values(self, sets: Sequence[Sequence[int]]) -> Floats:
        """Return the values of the same."""
        return np.array([self.coefficient(features).value for features in sets])

    def left_out(self) -> SetCoefficients:
        """Return c of all features, then of all but each one."""
        every = range(self.features)
        return self.sets([list(every), *([other for other in every if other != feature] for feature in every)])

    def means(self, sets: Sequence[Sequence[int]]) -> tuple[Floats, Floats, Floats]:
        """Return r̄, D and E[(W − m)²] of some sets."""
        every = [self.coefficient(features) for features in sets]
        product, residual, left = np.array([(c.mean_product, c.mean_residual, c.mean_left) for c in every]).T
        return product, residual, left

    def along(self, order: Sequence[int], has_influence: bool = True) -> SetCoefficients:
        """Return c of ∅, {1st}, {1st, 2nd}, … along an order of the features; always with the influence of rows."""
        return self.sets([order[:size] for size in range(len(order) + 1)])


@dataclass(frozen=True, slots=True, eq=False)
class RidgeSets:
    """Sets of any features by ridge regressions on a basis.

    `z`, `fold` and `at` are (1, Φ, S̄, W), the folds and the `Rows` of the rows with influences. `pooled` names the
    features with more values than the basis has columns for; `hidden` are the parts of c_all that cells hide.
    """

    ridges: FoldRidges
    features: int
    z: Floats
    fold: Integers
    at: Rows
    pooled: tuple[str, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    target: TargetErrors | None = None

    def thin(self, rows: int) -> RidgeSets:
        """Return the same with the influences of fewer rows, which represent all of them."""
        # Clusters must stay whole, and rows without a population cannot represent more than themselves.
        if len(self.z) <= rows or not self.at.is_sample or self.at.clusters is not None:
            return self
        index = np.concatenate(
            [evenly(np.flatnonzero(group), rows // 2) for group in (self.at.audited, ~self.at.audited)]
        )
        at = self.at.take(index).represent(self.at)
        target = None if self.target is None else self.target.take(index, self.at.audited)
        return replace(self, z=self.z[index], fold=self.fold[index], at=at, target=target)

    def coefficients(self, sets: Sequence[Sequence[int]]) -> tuple[list[Coefficient], Floats]:
        """Return the `Coefficient` of each set, and the deviations of its pairings, (3, sets)."""
        vectors = self.ridges.single_sets(sets)
        means = self._means(vectors)
        product, residual, left = self._row_values(vectors)
        of_all = [part.mean(axis=0) for part in (means.product, means.residual, means.left)]
        coefficients = [
            Coefficient(product[:, k], residual[:, k], left[:, k], *(float(part[k]) for part in of_all))
            for k in range(len(sets))
        ]
        return coefficients, means.between

    def sets(self, sets: Sequence[Sequence[int]]) -> SetCoefficients:
        """Return c_A of some sets."""
        return self._in_blocks(self.ridges.single_sets, sets)

    def values(self, sets: Sequence[Sequence[int]]) -> Floats:
        """Return the values of the same."""
        return self._means(self.ridges.single_sets(sets)).value

    def left_out(self) -> SetCoefficients:
        """Return c of all features, then of all but each one."""
        return self._in_blocks(self.ridges.left_out, [[], *([feature] for feature in range(self.features))])

    def means(self, sets: Sequence[Sequence[int]]) -> tuple[Floats, Floats, Floats]:
        """Return r̄, D and E[(W − m)²] of some sets, by whichever way needs fewer columns."""
        gone = [[feature for feature in range(self.features) if feature not in kept] for kept in sets]
        # The cost is that of the columns to be solved for, or to be taken out of the inverse.
        is_most = sum(map(len, gone)) < sum(map(len, sets))
        means = self._means(self.ridges.left_out(gone) if is_most else self.ridges.single_sets(sets))
        return means.product.mean(axis=0), means.residual.mean(axis=0), means.left.mean(axis=0)

    def along(self, order: Sequence[int], has_influence: bool = True) -> SetCoefficients:
        """Return c of ∅, {1st}, {1st, 2nd}, … along an order of the features; influences are optional."""
        return self._estimate(self.ridges.leading_sets(order), has_influence)

    def _in_blocks(
        self, solve: Callable[[Sequence[Sequence[int]]], list[Floats]], sets: Sequence[Sequence[int]]
    ) -> SetCoefficients:
        parts = [self._estimate(solve(sets[k : k + SET_BLOCK])) for k in range(0, len(sets), SET_BLOCK)]
        return SetCoefficients(*(np.concatenate(same, axis=-1) for same in zip(*parts, strict=True)))

    def _estimate(self, vectors: list[Floats], has_influence: bool = True) -> SetCoefficients:
        means = self._means(vectors)
        if not has_influence:
            return SetCoefficients(means.value, np.zeros((0, means.value.size)), means.between)
        product, residual, _ = self._row_values(vectors)
        values, spread = means.value, means.residual.mean(axis=0)
        # Sets that determine the group have D = 0, so c is not defined: their influences are 0.
        is_defined = spread > 1e-9
        half = np.divide(0.5 * (product - values * residual), spread, out=np.zeros_like(product), where=is_defined)
        every = SetCoefficients(values, self.at.influences(half), means.between)
        if self.target is None:
            return every
        apart = self.ridges.group_residuals(self.z, self.fold, vectors)
        slopes = (self.target.slopes.T * self.at.balanced_weights) @ apart
        return self.target.add_errors(every, np.divide(slopes, spread, out=np.zeros_like(slopes), where=is_defined))

    def _means(self, vectors: list[Floats]) -> SetMeans:
        means = self.ridges.means(vectors)
        return means if self.target is None else replace(means, product=means.product + self.target.mean)

    def _row_values(self, vectors: list[Floats]) -> tuple[Floats, Floats, Floats]:
        product, residual, left = self.ridges.row_values(self.z, self.fold, vectors)
        return product if self.target is None else product + self.target.corrections[:, None], residual, left


def evenly(index: Integers, count: int) -> Integers:
    """Return `count` evenly spaced elements of `index`, or all if there are fewer."""
    return index[np.linspace(0, index.size, min(count, index.size), endpoint=False).astype(np.intp)]


EXACT_SHAPLEY_FEATURES = 8  # features: 2^8 sets
ORDERS = 24  # of the features if there are more, half of them reverses
MANY_SHARING = 40  # features, beyond which influences are computed along fewer orders
FEWEST_ORDERS = 8  # of those
SHAPLEY_ROWS = 4_000  # with influences in every order: a standard error is then accurate to two per cent
Apply = Callable[[Callable[[Integers], SetCoefficients], Sequence[Integers]], Iterable[SetCoefficients]]


@dataclass(frozen=True, slots=True, eq=False)
class ShapleyGaps:
    """Each feature's Shapley value and its standard error; `orders` is 0 if every set was used.

    Only then is there `every`, the values with row-wise influences.
    """

    values: Floats
    se: Floats
    orders: int
    every: SetCoefficients | None
    degrees: float  # of freedom of clusters

    @property
    def laws(self) -> list[Normal]:
        """The law of each value."""
        errors = (self.se / student_factor(self.degrees)).tolist()
        return [Normal(value, se, degrees=self.degrees) for value, se in zip(self.values.tolist(), errors, strict=True)]


def shapley_gaps(
    sets: CellSets | RidgeSets,
    seed: int,
    apply: Apply = map,
    start: Sequence[int] = (),
    without: Sequence[int] = (),
) -> ShapleyGaps:
    """Return φ_j = Σ_A |A|!(d−|A|−1)!/d!·(c_A − c_{A∪j}): they add up to gap − c_all.

    With a `start` set E, every A contains E, d is the number of other features, and their values add up to c_E − c_all.
    Features in `without` are left out of every A and get no value; the sum then ends at c of the rest. `apply` maps a
    function over orders of the features, possibly in threads.
    """
    others = [j for j in range(sets.features) if j not in start and j not in without]
    count = len(others)
    if count <= EXACT_SHAPLEY_FEATURES:
        every = sets.sets([[*start, *(j for k, j in enumerate(others) if mask >> k & 1)] for mask in range(2**count)])
        contributions = every.combine(subset_weights(count))
        return ShapleyGaps(contributions.values, _se(contributions), 0, contributions, sets.at.degrees)
    return _sampled(sets.thin(SHAPLEY_ROWS) if isinstance(sets, RidgeSets) else sets, seed, apply, start, without)


def subset_weights(count: int) -> Floats:
    """Return the weights of c_A in each Shapley value, (2^d, d); bit j of a set's number is feature j."""
    weights = np.zeros((2**count, count))
    for mask in range(2**count):
        size = mask.bit_count()
        for j in range(count):
            if mask >> j & 1:
                # c_A is part of two sorts of terms: of j in A as c_{B∪j}, of other features as c_B.
                weights[mask, j] = -math.factorial(size - 1) * math.factorial(count - size)
            else:
                weights[mask, j] = math.factorial(size) * math.factorial(count - size - 1)
    return weights / math.factorial(count)


def _sampled(
    sets: CellSets | RidgeSets, seed: int, apply: Apply, start: Sequence[int], without: Sequence[int]
) -> ShapleyGaps:
    generator = np.random.default_rng(seed)
    others = np.setdiff1d(np.arange(sets.features), [*start, *without])
    # With its reverse, an order gives each feature a late place for an early one.
    orders = [generator.permutation(others.size) for _ in range(ORDERS // 2)]
    looked = len(orders) if others.size <= MANY_SHARING else FEWEST_ORDERS // 2

    def halve(order: Integers, has_influence: bool) -> SetCoefficients:
        both = (order, order[::-1])
        return _mean([_contributions(sets, others, way, start, without, has_influence) for way in both])

    with_influence = list(apply(partial(halve, has_influence=True), orders[:looked]))
    rest = apply(partial(halve, has_influence=False), orders[looked:])
    halves = np.array([half.values for half in (*with_influence, *rest)])
    # (18): the variance between 12 pairs of orders is itself known with 11 degrees of freedom only.
    spread = float(student_factor(len(halves) - 1)) ** 2 * halves.var(axis=0, ddof=1) / len(halves)
    se = np.sqrt(_se(_mean(with_influence)) ** 2 + spread)
    return ShapleyGaps(halves.mean(axis=0), se, 2 * len(orders), None, sets.at.degrees)


def _contributions(
    sets: CellSets | RidgeSets,
    others: Integers,
    order: Integers,
    start: Sequence[int],
    without: Sequence[int],
    has_influence: bool,
) -> SetCoefficients:
    """Return c_A − c_{A∪j} of each of the others along an order of them, A being those before it and the start."""
    along = sets.along([*start, *others[order].tolist(), *without], has_influence)
    weights = np.zeros((len(start) + len(order) + len(without) + 1, len(order)))
    steps = len(start) + np.arange(len(order))
    # Along an order the values are successive differences, so that they add up whatever the c_A.
    weights[steps, order] = 1.0
    weights[steps + 1, order] = -1.0
    return along.combine(weights)


def _mean(parts: list[SetCoefficients]) -> SetCoefficients:
    return SetCoefficients(*(np.mean(same, axis=0) for same in zip(*parts, strict=True)))


def _se(coefficients: SetCoefficients) -> Floats:
    """Return the standard errors, inflated by (29) if few rows dominate the variance."""
    errors = covariance(coefficients.influence, coefficients.between)
    degrees = degrees_of_freedom(coefficients.influence, coefficients.between, errors)
    return np.sqrt(np.maximum(np.diag(errors), 0.0) * degrees / (degrees - 2.0))
