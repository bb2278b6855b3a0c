"""Shapley values of gap(A) = gap − c_A: contributions of the features that add up.

Few features use every set. More use random orders and their reverses, whose spread adds to the error. With very many
features, influences are computed along some of the orders only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tiltlens.estimators.estimate import student_factor
from tiltlens.estimators.influence import Integers
from tiltlens.estimators.sets import CellSets, RidgeSets, SetCoefficients, covariance, degrees_of_freedom
from tiltlens.paper.checks import Floats

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
        return ShapleyGaps(contributions.values, _se(contributions), 0, contributions)
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
    return ShapleyGaps(halves.mean(axis=0), np.sqrt(_se(_mean(with_influence)) ** 2 + spread), 2 * len(orders), None)


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
    return SetCoefficients(
        np.mean([part.values for part in parts], axis=0),
        np.mean([part.influence for part in parts], axis=0),
        np.mean([part.between for part in parts], axis=0),
    )


def _se(coefficients: SetCoefficients) -> Floats:
    """Return the standard errors, inflated by (29) if few rows dominate the variance."""
    errors = covariance(coefficients.influence, coefficients.between)
    degrees = degrees_of_freedom(coefficients.influence, coefficients.between, errors)
    return np.sqrt(np.maximum(np.diag(errors), 0.0) * degrees / (degrees - 2.0))
