"""The gap shared out among features so that the parts add up: Shapley values of gap(A) = gap − c_A.

Few features take every set; many take orders of the features, half of them the other half reversed, and the spread
between orders is a further error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiltlens.estimators.influence import Integers
from tiltlens.estimators.sets import CellSets, RidgeSets, SetCoefficients, covariance
from tiltlens.limits import EXACT_SHAPLEY_FEATURES, FEWEST_ORDERS, MANY_SHARING, ORDERS, SHAPLEY_ROWS
from tiltlens.paper.checks import Floats

Apply = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]  # `map`, and what does the same


@dataclass(frozen=True, slots=True, eq=False)
class ShapleyGaps:
    """Each feature's Shapley value and its standard error; `orders` is 0 where every set was looked at."""

    values: Floats
    se: Floats
    orders: int


def shapley_gaps(sets: CellSets | RidgeSets, seed: int, apply: Apply = map) -> ShapleyGaps:
    """Return φ_j = Σ_A |A|!(d−|A|−1)!/d!·(c_A − c_{A∪j}): they add up to gap − c_all.

    `apply` maps a function over orders of the features, in threads perhaps.
    """
    if sets.features <= EXACT_SHAPLEY_FEATURES:
        every = sets.sets([[j for j in range(sets.features) if mask >> j & 1] for mask in range(2**sets.features)])
        found = every.combined(subset_weights(sets.features))
        return ShapleyGaps(found.values, _se(found), 0)
    return _sampled(sets.thinned(SHAPLEY_ROWS) if isinstance(sets, RidgeSets) else sets, seed, apply)


def subset_weights(count: int) -> Floats:
    """Return the weights of c_A in each Shapley value, (2^d, d); bit j of a set's number is feature j."""
    weights = np.zeros((2**count, count))
    for mask in range(2**count):
        size = mask.bit_count()
        for j in range(count):
            if mask >> j & 1:
                weights[mask, j] = -math.factorial(size - 1) * math.factorial(count - size)
            else:
                weights[mask, j] = math.factorial(size) * math.factorial(count - size - 1)
    return weights / math.factorial(count)


def _sampled(sets: CellSets | RidgeSets, seed: int, apply: Apply) -> ShapleyGaps:
    generator = np.random.default_rng(seed)
    count = ORDERS if sets.features <= MANY_SHARING else FEWEST_ORDERS
    orders = [generator.permutation(sets.features) for _ in range(count // 2)]
    halves = list(apply(lambda order: _mean([_contributions(sets, one) for one in (order, order[::-1])]), orders))
    found = _mean(halves)
    spread = np.var([half.values for half in halves], axis=0, ddof=1) / len(halves)
    return ShapleyGaps(found.values, np.sqrt(_se(found) ** 2 + spread), count)


def _contributions(sets: CellSets | RidgeSets, order: Integers) -> SetCoefficients:
    """Return c_A − c_{A∪j} of each feature along an order, A being those before it."""
    along = sets.along(order.tolist())
    weights = np.zeros((len(order) + 1, len(order)))
    weights[np.arange(len(order)), order] = 1.0
    weights[np.arange(1, len(order) + 1), order] = -1.0
    return along.combined(weights)


def _mean(parts: list[SetCoefficients]) -> SetCoefficients:
    return SetCoefficients(
        np.mean([part.values for part in parts], axis=0),
        np.mean([part.influence for part in parts], axis=0),
        np.mean([part.between for part in parts], axis=0),
    )


def _se(found: SetCoefficients) -> Floats:
    return np.sqrt(np.maximum(np.diag(covariance(found.influence, found.between)), 0.0))
