"""Sums over arrays in memory, in chunks that fit the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from tiltlens.limits import MOMENTS_CHUNK
from tiltlens.paper.moments import GroupMoments

MOST_COUNTED_EDGES = 64  # that are counted one by one, faster than any search
COUNTED_ROWS = 1 << 14  # for which edges are counted at a time
Column = NDArray[np.number | np.bool_]
PIVOT_STRIDE = 64  # every 64th row of a chunk is enough to know about where it lies


def _chunk(
    columns: Sequence[Column], group: Column, groups: int, weights: Column | None, space: NDArray[np.float64]
) -> list[GroupMoments]:
    """Return the moments of each group in one chunk, worked out in `space`.

    A group is picked by row weights of 0 and 1, not by compressing the columns: the arithmetic is cheaper than
    the unpredictable branches. All groups share a pivot, the mean of a few rows; a group far from it is centred
    on its own.
    """
    centred, weighted = space[: len(columns)], space[len(columns) :]
    pivot = np.array([column[::PIVOT_STRIDE].mean(dtype=np.float64) for column in columns])
    for target, column, level in zip(centred, columns, pivot, strict=True):
        np.subtract(column, level, out=target)
    moments = []
    for code in range(groups):
        member = group == code
        np.copyto(weighted[0], member)  # casting while multiplying is twice as slow
        if weights is not None:
            weighted[0] *= weights
        np.multiply(centred, weighted[0], out=weighted[1:])
        count = int(np.count_nonzero(member))
        total = float(count) if weights is None else float(weighted[0].sum())
        if total == 0:
            moments.append(replace(GroupMoments.empty(len(columns)), rows=count))
            continue
        sums = np.dot(weighted, centred.T)
        part = GroupMoments.from_sums(count, total, pivot, sums[0], sums[1:])
        if not part.well_centred:
            part = GroupMoments.from_columns(np.stack(columns).astype(np.float64), weighted[0], rows=count)
        moments.append(part)
    return moments


def chunked_moments(
    columns: Sequence[Column], group: Column, groups: int, weights: Column | None
) -> list[GroupMoments]:
    """Return the moments of some columns in each group, chunk by chunk.

    Parameters
    ----------
    columns
        Numbers of each row, such as its log-odds and its scores.
    group
        Code of each row's group, 0 … groups − 1, or whether it is in group 1. Rows with another code count nowhere.
    groups
        Number of groups.
    weights
        Weight of each row; None where all are 1.
    """
    rows = len(group)
    if group.dtype == np.bool_:
        group = group.view(np.uint8)  # comparing flags with a number would cast them, ten times as slow
    space = np.empty((2 * len(columns) + 1, min(rows, MOMENTS_CHUNK)))
    parts = []
    for part in chunks(rows, MOMENTS_CHUNK):
        w, size = None if weights is None else weights[part], min(part.stop, rows) - part.start
        parts.append(_chunk([column[part] for column in columns], group[part], groups, w, space[:, :size]))
    return [reduce(add, same_group) for same_group in zip(*parts, strict=True)]


def chunks(rows: int, most: int) -> Iterator[slice]:
    """Yield slices of at most so many rows: few enough for the cache, enough to be worth the call of a function."""
    return (slice(start, start + most) for start in range(0, rows, most))


def below(edges: NDArray[np.float64], values: NDArray[np.float64], or_equal: bool = False) -> NDArray[np.intp]:
    """Return how many edges lie below each value: a few are counted one by one, faster than any search."""
    if len(edges) > MOST_COUNTED_EDGES:
        return np.searchsorted(edges, values, side="right" if or_equal else "left")
    counts = np.empty(len(values), dtype=np.intp)
    for part in chunks(len(values), COUNTED_ROWS):
        count = np.zeros(len(values[part]), dtype=np.uint8)
        for edge in edges:
            count += values[part] >= edge if or_equal else values[part] > edge
        counts[part] = count
    return counts
