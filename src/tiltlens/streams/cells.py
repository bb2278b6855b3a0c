"""Sums of powers by cell: rows are sorted by cell, so that each cell is a stretch of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiltlens.engines.arrays import chunks
from tiltlens.estimators.estimate import Integers
from tiltlens.estimators.summed import Exponents, PowerSums
from tiltlens.paper.checks import Floats

CHUNK = 1 << 14  # rows whose powers stay near while they are summed


class Made(NamedTuple):
    """How powers next to each other are made: of lower ones next to each other, multiplied by a variable.

    `place` and `lower` are the first of each.
    """

    place: int
    lower: int
    variable: int
    powers: int = 1

    def is_followed_by(self, other: Made) -> bool:
        """Return whether another can be made together with this: of powers that were made before."""
        is_next = other[:3] == (self.place + self.powers, self.lower + self.powers, self.variable)
        return is_next and other.lower < self.place


def recipe(exponents: Sequence[Exponents]) -> list[Made]:
    """Return how all powers but x^0 are made, lower ones first; those that only serve others come after the rest."""
    places = {e: place for place, e in enumerate(exponents)}
    waiting, found = list(exponents), []
    for e in waiting:  # grows on the way
        if sum(e):
            last = max(place for place, power in enumerate(e) if power)
            lower = tuple(power - (place == last) for place, power in enumerate(e))
            if lower not in places:
                places[lower] = len(waiting)
                waiting.append(lower)
            found.append((sum(e), Made(places[e], places[lower], last)))
    steps: list[Made] = []
    for _, made in sorted(found):
        if steps and steps[-1].is_followed_by(made):
            steps[-1] = steps[-1]._replace(powers=steps[-1].powers + 1)
        else:
            steps.append(made)
    return steps


def power_sums(
    variables: Floats,
    weights: Floats | None,
    audited: NDArray[np.bool_],
    splits: Sequence[tuple[Integers, int]],
    exponents: Sequence[Exponents],
) -> tuple[tuple[PowerSums, PowerSums], ...]:
    """Return the sums of both groups by the cells of each split, a code per row and how many cells there are.

    Parameters
    ----------
    variables
        x, one line each.
    weights
        None where all are 1.
    exponents
        Of the powers that are summed; the first of them is x^0.
    """
    steps = recipe(exponents)
    space = np.empty((1 + sum(step.powers for step in steps), min(len(audited), CHUNK)))
    found = []
    for codes, cells in splits:
        # audited rows first, then the reference; numpy sorts keys of 16 bits by counting
        small = np.dtype(np.uint16 if cells <= 1 << 15 else np.int64)
        keys = codes.astype(small) + (~audited).astype(small) * small.type(cells)
        order = np.argsort(keys, kind="stable")
        filled, starts_of = _filled(keys[order])
        counts = np.zeros(2 * cells, dtype=np.int64)
        counts[filled] = np.diff(starts_of)
        totals = np.zeros((1 if weights is None else 2, 2 * cells, len(exponents)))
        for rows, at, starts in _stretches(filled, starts_of):
            picked = order[rows]
            columns = np.take(variables, picked, axis=1)
            for power, total in enumerate(totals, start=1):
                factor = 1.0 if weights is None else weights[picked] ** power
                made = _powers(columns, factor, steps, space[:, : len(picked)])
                total[at] += np.add.reduceat(made[: len(exponents)], starts, axis=1).T
        found.append((_half(counts, totals, slice(0, cells)), _half(counts, totals, slice(cells, None))))
    return tuple(found)


def _half(counts: Integers, totals: Floats, part: slice) -> PowerSums:
    first = totals[0, part]
    return PowerSums(counts[part], first, first if len(totals) == 1 else totals[1, part])


def _filled(keys: Integers) -> tuple[Integers, Integers]:
    """Return the cells of sorted rows, and where each starts, and the last of them ends."""
    changes = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    starts = np.concatenate([[0], changes]) if len(keys) else changes
    return keys[starts].astype(np.intp), np.append(starts, len(keys))


def _stretches(filled: Integers, starts: Integers) -> Iterator[tuple[slice, Integers, Integers]]:
    """Yield chunks of sorted rows, the cells in each, and where in the chunk each cell starts."""
    for part in chunks(int(starts[-1]), CHUNK):
        first = np.searchsorted(starts, part.start, side="right") - 1
        inside = slice(first, np.searchsorted(starts[:-1], part.stop, side="left"))
        yield part, filled[inside], np.maximum(starts[inside] - part.start, 0)


def _powers(columns: Floats, factor: Floats | float, steps: Sequence[Made], space: Floats) -> Floats:
    """Return each power times a factor, one line each, worked out in `space`."""
    space[0] = factor
    for place, lower, variable, powers in steps:
        np.multiply(space[lower : lower + powers], columns[variable], out=space[place : place + powers])
    return space
