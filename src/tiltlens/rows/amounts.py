"""Amounts: the unit that they are worked with in, and the decile that each lies in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TypeVar

import numpy as np

from tiltlens.paper.checks import Floats
from tiltlens.paper.moments import GroupMoments
from tiltlens.rows.levels import quantile_edges
from tiltlens.sources.arrays import below

AMOUNT_BINS = 10  # of the pooled amounts, equally full: the channel of what is said of distributions
AMOUNT_ROUNDING = 4 * 2.0**-52  # of an amount: four steps of the last digit that a float has
CENTRED = 1024.0  # scales from 0, within which the mean of amounts needs no centre: squares keep ten digits
Number = TypeVar("Number", float, Floats)


@dataclass(frozen=True, slots=True)
class Unit:
    """W = centre + scale·w: an output W, and the number w, of size 1, that estimators see.

    `scale` is a power of two, so that nothing is rounded; probabilities are seen as they are. `edges` are the pooled
    deciles of amounts, and None of probabilities: bin k is (e_k, e_{k+1}].
    """

    centre: float = 0.0
    scale: float = 1.0
    edges: tuple[float, ...] | None = None

    @property
    def is_amount(self) -> bool:
        """Whether outputs are amounts."""
        return self.edges is not None

    def seen(self, amounts: Floats) -> Floats:
        """Return w of W."""
        return (amounts - self.centre) / self.scale

    def difference(self, seen: float) -> float:
        """Return a difference of W of one of w."""
        return self.scale * seen

    def level(self, seen: Number) -> Number:
        """Return W of w."""
        return self.centre + self.scale * seen

    def is_rounding(self, mean: float, spread: float) -> bool:
        """Whether a spread of w around this mean is no more than the rounding of the amounts."""
        return self.scale * spread <= AMOUNT_ROUNDING * abs(self.level(mean))

    def channel(self, amounts: Floats) -> Floats:
        """Return the pooled decile as a channel: (n, K) of 0 and 1, or (n,) where there are two bins at most."""
        bin_of = below(np.array(self.edges or ()), amounts)
        bins = len(self.edges or ()) + 1
        if bins <= 2:
            return bin_of.astype(np.float64)
        return np.asarray(bin_of[:, None] == np.arange(bins), dtype=np.float64)


PROBABILITY = Unit()


def unit_of(groups: Iterable[GroupMoments], amounts: Floats, weights: Floats | None) -> Unit:
    """Return the unit of the amounts of some groups, from their moments; deciles are those of a sample's rows.

    The scale is the power of two nearest to the standard deviation. The centre is 0 unless the mean is so far away
    that squares would lose digits.
    """
    pooled = reduce(add, groups)
    mean, spread = float(pooled.mean[0]), math.sqrt(max(float(pooled.covariance[0, 0]), 0.0))
    size = abs(mean) if PROBABILITY.is_rounding(mean, spread) else spread
    scale = 2.0 ** round(math.log2(size)) if size > 0.0 else 1.0
    step = CENTRED * scale
    varies = bool(amounts.min() < amounts.max())
    edges = quantile_edges(amounts, weights, AMOUNT_BINS) if varies else np.zeros(0)
    return Unit(step * round(mean / step), scale, tuple(edges.tolist()))
