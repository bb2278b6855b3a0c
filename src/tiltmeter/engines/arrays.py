"""Arrays in memory → sums: chunks that fit the cache, one thread a core, no copy of the user's data."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltmeter.errors import DataError
from tiltmeter.theory.moments import CHUNK, GroupMoments
from tiltmeter.theory.shares import CellSums

PIVOT_STRIDE = 64  # every 64th row of a chunk is enough to know about where it lies


def moments_by_group(
    log_odds: NDArray[Any],
    scores: NDArray[Any],
    group: NDArray[Any],
    groups: int,
    weights: NDArray[Any] | None = None,
) -> list[GroupMoments]:
    """Return the moments of each group, in one pass over the rows.

    Parameters
    ----------
    log_odds, scores, weights
        As in `GroupMoments.from_rows`.
    group
        Integer (or boolean) code of each row's group, 0 … groups − 1; rows with another code belong to none.
    groups
        Number of groups.
    """
    rows = len(group)
    for name, column in (("log_odds", log_odds), ("scores", scores), ("weights", weights)):
        if column is not None and len(column) != rows:
            raise DataError(
                f"`{name}` must have one entry for each row, got {len(column)} for {rows} rows.",
                "pass columns of the same table.",
            )
    if rows == 0:
        raise DataError("the data must have rows, got 0.", "check the filter that made them.")
    buffers = threading.local()  # one a thread, used for chunk after chunk: fresh pages cost more than the sums

    def chunk(start: int) -> list[GroupMoments]:
        columns = [log_odds, *(scores[:, 1:].T if scores.ndim == 2 else [scores])]
        if not hasattr(buffers, "space"):
            buffers.space = np.empty((2 * len(columns) + 1, min(rows, CHUNK)))
        picked = slice(start, min(start + CHUNK, rows))
        return _chunk(
            [column[picked] for column in columns],
            group[picked],
            groups,
            None if weights is None else weights[picked],
            buffers.space[:, : picked.stop - start],
        )

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = pool.map(chunk, range(0, rows, CHUNK))
        moments = [reduce(add, same_group) for same_group in zip(*parts, strict=True)]
    for one in moments:
        _check_finite(one, weights is not None)
    return moments


def _chunk(
    columns: list[NDArray[Any]], group: NDArray[Any], groups: int, weights: NDArray[Any] | None, space: NDArray[Any]
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
        member = group == group.dtype.type(code)  # a comparison without a cast
        np.copyto(weighted[0], member)  # casting while multiplying is twice as slow
        if weights is not None:
            weighted[0] *= weights
        np.multiply(centred, weighted[0], out=weighted[1:])
        count = int(np.count_nonzero(member))
        total = float(count) if weights is None else float(weighted[0].sum())
        if total == 0:
            moments.append(replace(GroupMoments.empty(len(columns)), rows=count))
            continue
        sums = weighted @ centred.T
        one = GroupMoments.from_sums(count, total, pivot, sums[0], sums[1:])
        if not one.well_centred:
            own = GroupMoments.from_columns(centred, weighted[0], rows=count)
            one = replace(own, pivot=pivot, offset=own.pivot + own.offset)
        moments.append(one)
    return moments


def _check_finite(moments: GroupMoments, weighted: bool) -> None:
    """Raise if a sum is not finite: cheaper than looking at every value, and as sure."""
    if not (np.isfinite(moments.pivot).all() and np.isfinite(moments.scatter).all()):
        columns = "`log_odds`, `scores` and `weights`" if weighted else "`log_odds` and `scores`"
        raise DataError(f"{columns} must be finite, got missing or infinite values.", "count them with numpy.isfinite.")


def cell_sums(
    log_odds: NDArray[Any],
    scores: NDArray[Any],
    codes: NDArray[Any],
    cells: int,
    weights: NDArray[Any] | None = None,
    pivot: NDArray[Any] | None = None,
) -> CellSums:
    """Return the sums of (ℓ, W_1, …) in each cell; `codes` are integers from 0 to cells − 1."""
    columns = [log_odds, *(scores[:, 1:].T if scores.ndim == 2 else [scores])]
    level = np.array([column.mean(dtype=np.float64) for column in columns]) if pivot is None else pivot
    w = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=np.float64)
    sums = [np.bincount(codes, w * (column - at), cells) for column, at in zip(columns, level, strict=True)]
    return CellSums(level, np.bincount(codes, w, cells).astype(np.float64), np.column_stack(sums))
