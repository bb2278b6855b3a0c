"""Boosted trees of two splits each, fitted once to a fixed sample: scores with steps, as many models have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from planted_proxies.grid import Floats, expit

ROWS, ROUNDS, RATE, SEED = 4_000, 60, 0.25, 22


class _Tree(NamedTuple):
    """A split of the first feature at `first`, of the second at `second`, and what each of the four leaves adds."""

    features: tuple[str, str]
    first: float
    second: float
    leaves: Floats

    def leaf(self, at: Mapping[str, Any]) -> Any:
        """Return the number of the leaf."""
        one, other = (at[name] for name in self.features)
        return 2 * (one > self.first).astype(np.intp) + (other > self.second)


class Boosted(NamedTuple):
    """The trees, of the features that they were given: others cannot move the score."""

    start: float
    trees: tuple[_Tree, ...]

    def __call__(self, at: Mapping[str, Any], _: Any) -> Any:
        """Return scores between 0 and 1."""
        return expit(self.start + sum(tree.leaves[tree.leaf(at)] for tree in self.trees))


def boosted(names: Sequence[str], shift: float, edges: Floats) -> Boosted:
    """Return trees that learnt a smooth chance of these features, of people half of whom are shifted.

    They split at `edges` only, between the points of a grid, so that sums over it are exact.
    """
    rng = np.random.default_rng(SEED)
    table = {name: rng.standard_normal(ROWS) + shift * (np.arange(ROWS) % 2) for name in names}
    linear = sum(0.6 * table[name] for name in names) - 0.3 + 0.3 * table[names[0]] * table[names[-1]]
    label = (rng.random(ROWS) < expit(linear)).astype(np.float64)
    found, trees = np.zeros(ROWS), []
    pairs = [(one, other) for one in names for other in names]
    for number in range(ROUNDS):
        left = label - expit(found)
        both = (number % len(pairs), -1 - number % len(pairs))
        candidates = [_fitted(table, pairs[k], left, edges, rng) for k in both]
        tree = max(candidates, key=lambda one: float(np.bincount(one.leaf(table), minlength=4) @ one.leaves**2))
        found = found + tree.leaves[tree.leaf(table)]
        trees.append(tree)
    return Boosted(0.0, tuple(trees))


def _fitted(
    table: Mapping[str, Floats], features: Sequence[str], left: Floats, edges: Floats, rng: np.random.Generator
) -> _Tree:
    """Return a tree with splits near two values of the table, each leaf a Newton step for the logistic loss."""
    first, second = (float(edges[np.abs(edges - rng.choice(table[name])).argmin()]) for name in features)
    tree = _Tree((features[0], features[1]), first, second, np.zeros(4))
    sums, counts = (np.bincount(tree.leaf(table), one, 4) for one in (left, np.full(left.size, 0.25)))
    return tree._replace(leaves=RATE * sums / (counts + 1.0))
