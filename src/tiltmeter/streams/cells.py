"""Sums of powers by cell: rows are sorted by cell, so that each cell is a stretch of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiltmeter.theory.checks import Floats
from tiltmeter.theory.summed import Exponents, PowerSums
from tiltmeter.theory.uncertainty import Integers

CHUNK = 1 << 13  # rows whose powers stay in the cache while they are summed


def chunks(rows: int) -> Iterator[slice]:
    """Yield slices of at most `CHUNK` rows."""
    return (slice(start, start + CHUNK) for start in range(0, rows, CHUNK))


class Made(NamedTuple):
    """How a power is made: its place, that of a lower one, and the variable by which that one is multiplied."""

    place: int
    lower: int
    variable: int


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
    return [made for _, made in sorted(found)]


def power_sums(
    variables: Sequence[Floats],
    weights: Floats | None,
    audited: NDArray[np.bool_],
    splits: Sequence[tuple[Integers, int]],
    exponents: Sequence[Exponents],
) -> tuple[tuple[PowerSums, PowerSums], ...]:
    """Return the sums of both groups by the cells of each split, a code per row and how many cells there are.

    Parameters
    ----------
    variables
        x, one array each.
    weights
        None where all are 1.
    exponents
        Of the powers that are summed; the first of them is x^0.
    """
    steps = recipe(exponents)
    space = np.empty((1 + len(steps), min(len(audited), CHUNK)))
    found = []
    for codes, cells in splits:
        # audited rows first, then the reference; numpy sorts keys of 16 bits by counting
        keys = (codes + cells * ~audited).astype(np.uint16 if cells <= 1 << 15 else np.int64)
        counts = np.bincount(keys, minlength=2 * cells)
        order = np.argsort(keys, kind="stable")
        totals = np.zeros((1 if weights is None else 2, 2 * cells, len(exponents)))
        for rows, at, starts in _stretches(counts):
            picked = order[rows]
            columns = [np.take(x, picked) for x in variables]
            for power, total in enumerate(totals, start=1):
                factor = 1.0 if weights is None else weights[picked] ** power
                made = _powers(columns, factor, steps, space[:, : len(picked)])
                total[at] += np.add.reduceat(made[: len(exponents)], starts, axis=1).T
        found.append((_half(counts, totals, slice(0, cells)), _half(counts, totals, slice(cells, None))))
    return tuple(found)


def _half(counts: Integers, totals: Floats, part: slice) -> PowerSums:
    first = totals[0, part]
    return PowerSums(counts[part], first, first if len(totals) == 1 else totals[1, part])


def _stretches(counts: Integers) -> Iterator[tuple[slice, Integers, Integers]]:
    """Yield chunks of sorted rows, the cells in each, and where in the chunk each cell starts."""
    filled = np.flatnonzero(counts)
    ends = np.cumsum(counts[filled])
    starts = ends - counts[filled]
    for part in chunks(int(counts.sum())):
        inside = slice(np.searchsorted(ends, part.start, side="right"), np.searchsorted(starts, part.stop, side="left"))
        yield part, filled[inside], np.maximum(starts[inside] - part.start, 0)


def _powers(columns: Sequence[Floats], factor: Floats | float, steps: Sequence[Made], space: Floats) -> Floats:
    """Return each power times a factor, one line each, worked out in `space`."""
    space[0] = factor
    for place, lower, variable in steps:
        np.multiply(space[lower], columns[variable], out=space[place])
    return space
