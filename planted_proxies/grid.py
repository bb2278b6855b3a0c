"""Features whose joint distribution is known, and the sums over it that say what each of them carries.

A truth is a sum over a grid so fine that more points change no digit that is read. Nothing but numpy is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Random = np.random.Generator
Columns = dict[str, NDArray[Any]]
Customers = NDArray[np.intp]
Score = Callable[[Mapping[str, Any], Any], Any]  # of features and group (1 for the audited)

SMOOTH = 61  # points of an axis along which scores are smooth
REACH = 6.5  # standard deviations that a grid covers


def expit(x: Any) -> Any:
    """Return 1/(1 + exp(−x))."""
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(x)))


def density(x: Floats) -> Floats:
    """Return the standard normal density, up to a constant: chances on a grid are made to add up to 1."""
    return np.asarray(np.exp(-0.5 * x**2))


@dataclass(frozen=True)
class Block:
    """Features that depend on each other, and on no other given the group; `audited` and `reference` are joint."""

    names: tuple[str, ...]
    points: tuple[Floats, ...]
    audited: Floats
    reference: Floats
    draw: Callable[[NDArray[np.bool_], Customers, Random], Columns]
    is_text: bool = False


def normal(name: str, shift: float = 0.0, points: int = SMOOTH, shared: float = 0.0) -> Block:
    """Return a feature that is N(shift, 1) among the audited and N(0, 1) in the reference.

    `shared` is the part of its variance that the rows of a customer have in common.
    """
    step = (2 * REACH + abs(shift)) / points
    x = min(shift, 0.0) - REACH + step * (np.arange(points) + 0.5)
    heights = [density(x - mean) for mean in (shift, 0.0)]
    p0, p1 = (one / one.sum() for one in heights)

    def draw(s: NDArray[np.bool_], customer: Customers, rng: Random) -> Columns:
        own = rng.standard_normal(len(s))
        if shared:
            own = math.sqrt(1 - shared) * own + math.sqrt(shared) * rng.standard_normal(len(s))[customer]
        return {name: own + shift * s}

    return Block((name,), (x,), p0, p1, draw)


def in_cells(block: Block, shift: float) -> Block:
    """Return a normal feature with the chances of cells around its points, for scores with steps between these."""
    (x,) = block.points
    edges = np.concatenate([[-np.inf], 0.5 * (x[1:] + x[:-1]), [np.inf]])
    p0, p1 = (np.diff([0.5 * math.erfc((mean - e) / math.sqrt(2.0)) for e in edges]) for mean in (shift, 0.0))
    return replace(block, audited=p0, reference=p1)


def correlated(left: Block, right: Block, shift: float, correlation: float) -> Block:
    """Return two normal features, of which the second has a part in common with the first and a shift of its own."""
    (x,), (y,) = left.points, right.points
    spread = math.sqrt(1 - correlation**2)
    joint = []
    for first, mean in ((left.audited, shift), (left.reference, 0.0)):
        second = density((y - correlation * x[:, None] - mean) / spread)
        joint.append(first[:, None] * second / second.sum(axis=1, keepdims=True))

    def draw(s: NDArray[np.bool_], customer: Customers, rng: Random) -> Columns:
        found = left.draw(s, customer, rng)
        own = spread * rng.standard_normal(len(s)) + shift * s
        return found | {right.names[0]: correlation * found[left.names[0]] + own}

    return Block((*left.names, *right.names), (x, y), joint[0], joint[1], draw)


def levels(name: str, audited: Any, reference: Any) -> Block:
    """Return a feature whose values are texts, from the chances of each in either group."""
    p0, p1 = (np.asarray(p, dtype=np.float64) / np.sum(p) for p in (audited, reference))

    def draw(s: NDArray[np.bool_], _: Customers, rng: Random) -> Columns:
        size = len(p0)
        return {name: np.where(s, rng.choice(size, len(s), p=p0), rng.choice(size, len(s), p=p1))}

    return Block((name,), (np.arange(len(p0), dtype=np.float64),), p0, p1, draw, is_text=True)


def exclusive_or(left: str, right: str, audited: float, reference: float) -> Block:
    """Return two signs that agree with a chance that depends on the group, each alone a fair coin."""
    joint = [np.array([[p, 1 - p], [1 - p, p]]) / 2 for p in (audited, reference)]

    def draw(s: NDArray[np.bool_], _: Customers, rng: Random) -> Columns:
        one = rng.choice([-1, 1], len(s))
        agree = rng.random(len(s)) < np.where(s, audited, reference)
        return {left: one, right: one * np.where(agree, 1, -1)}

    signs = np.array([-1.0, 1.0])
    return Block((left, right), (signs, signs), joint[0], joint[1], draw)


def noise(j: int, s: NDArray[np.bool_], rng: Random) -> NDArray[Any]:
    """Return a normal, a skewed, a binary or a four-level column that has nothing to do with anything."""
    makers = (
        lambda: rng.standard_normal(len(s)),
        lambda: rng.exponential(size=len(s)),
        lambda: rng.integers(0, 2, len(s)),
        lambda: np.array(["a", "b", "c", "d"])[rng.integers(0, 4, len(s))],
    )
    return makers[j % 4]()


@dataclass(frozen=True)
class Joint:
    """Joint probabilities of both groups on the grid, one axis a feature, and the scores of both there."""

    p0: Floats
    p1: Floats
    w0: Floats
    w1: Floats

    @classmethod
    def of_blocks(cls, blocks: Sequence[Block], score: Score) -> Self:
        """Return the grid of independent blocks, and a score on it."""
        p0 = reduce(np.multiply.outer, [block.audited for block in blocks])
        p1 = reduce(np.multiply.outer, [block.reference for block in blocks])
        at = values_on_grid(blocks)
        return cls(p0, p1, *(np.broadcast_to(score(at, s), p0.shape) for s in (1.0, 0.0)))

    @property
    def means(self) -> tuple[float, float]:
        """Return the mean score of the audited and of the reference."""
        return float((self.p0 * self.w0).sum()), float((self.p1 * self.w1).sum())

    @property
    def uses(self) -> list[float]:
        """Return 2·sd of the score along each axis, within the group and all other values: how far it is used."""
        found = []
        for axis in range(self.p0.ndim):
            within = 0.0
            for p, w in ((self.p0, self.w0), (self.p1, self.w1)):
                total, first = (one.sum(axis=axis) for one in (p, p * w))
                within += float((p * w**2).sum() - (first**2 / np.maximum(total, np.finfo(float).tiny)).sum())
            found.append(2.0 * math.sqrt(max(0.5 * within, 0.0)))
        return found

    def coefficient(self, kept: tuple[int, ...]) -> float:
        """Return c_A = E[(S̄ − e)(W − m)]/E[(S̄ − e)²], the means of A's values being known."""
        gone = tuple(axis for axis in range(self.p0.ndim) if axis not in kept)
        in0, in1, first0, first1 = (
            0.5 * part.sum(axis=gone) for part in (self.p0, self.p1, self.p0 * self.w0, self.p1 * self.w1)
        )
        e = in0 / np.maximum(in0 + in1, np.finfo(float).tiny)
        return float((first0 - e * (first0 + first1)).sum() / (in0 * (1.0 - e)).sum())


def values_on_grid(blocks: Sequence[Block]) -> dict[str, NDArray[Any]]:
    """Return each feature's values along its axis."""
    names = [name for block in blocks for name in block.names]
    points = [axis for block in blocks for axis in block.points]
    return dict(zip(names, np.meshgrid(*points, indexing="ij", sparse=True), strict=True))


def soft_coefficient(weight: Floats, chance: Floats, score: Floats, kept: tuple[int, ...]) -> float:
    """Return c_A where groups are known by chances: E[(b − e)(W − m)]/E[b(1 − b) + (b − e)²], weighted.

    `weight` adds up to 1 over the grid, `chance` is b with the groups' sizes made equal, and `kept` are A's axes.
    """
    rest = tuple(axis for axis in range(weight.ndim) if axis not in kept)
    total = np.maximum(weight.sum(axis=rest, keepdims=True), np.finfo(float).tiny)
    e, m = ((weight * one).sum(axis=rest, keepdims=True) / total for one in (chance, score))
    residual = chance * (1 - chance) + (chance - e) ** 2
    return float((weight * (chance - e) * (score - m)).sum() / (weight * residual).sum())
