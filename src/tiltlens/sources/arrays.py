"""Arrays in memory → sums: chunks that fit the cache, one thread a core, no copy of the user's data."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.limits import COUNTED_ROWS, MOMENTS_CHUNK, MOST_COUNTED_EDGES, PIVOT_STRIDE
from tiltlens.paper.moments import GroupMoments
from tiltlens.threads import cores


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
    log_odds, scores, group = (np.asarray(column) for column in (log_odds, scores, group))
    rows = len(group)
    if scores.ndim == 2 and scores.shape[1] < 2:
        raise DataError(f"`scores` must be (n,) or have two columns or more, got {scores.shape}.", "pass W(1|x).")
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
        columns = _columns(log_odds, scores)
        if not hasattr(buffers, "space"):
            buffers.space = np.empty((2 * len(columns) + 1, min(rows, MOMENTS_CHUNK)))
        picked = slice(start, min(start + MOMENTS_CHUNK, rows))
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is found in the sums
            return _chunk(
                [column[picked] for column in columns],
                group[picked],
                groups,
                None if weights is None else weights[picked],
                buffers.space[:, : picked.stop - start],
            )

    with ThreadPoolExecutor(cores()) as pool:
        parts = pool.map(chunk, range(0, rows, MOMENTS_CHUNK))
        moments = [reduce(add, same_group) for same_group in zip(*parts, strict=True)]
    for group_moments in moments:
        _check_sums(group_moments, weights is not None)
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
        member = _members(group, code)
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


def _columns(log_odds: NDArray[Any], scores: NDArray[Any]) -> list[NDArray[Any]]:
    return [log_odds, *(scores[:, 1:].T if scores.ndim == 2 else [scores])]


def _members(group: NDArray[Any], code: int) -> NDArray[np.bool_]:
    """Return which rows have the code, compared in the codes' own type: a cast would cost more than the rest."""
    if group.dtype == np.bool_:
        return group if code == 1 else ~group if code == 0 else np.zeros(len(group), dtype=np.bool_)
    if group.dtype.kind in "iu" and not np.iinfo(group.dtype).min <= code <= np.iinfo(group.dtype).max:
        return np.zeros(len(group), dtype=np.bool_)
    is_member: NDArray[np.bool_] = group == group.dtype.type(code)
    return is_member


def chunked_moments(
    columns: list[NDArray[Any]], group: NDArray[Any], groups: int, weights: NDArray[Any] | None
) -> list[GroupMoments]:
    """Return the moments of columns in each group, chunk by chunk, by one thread."""
    rows = len(group)
    space = np.empty((2 * len(columns) + 1, min(rows, MOMENTS_CHUNK)))
    parts = []
    for part in chunks(rows, MOMENTS_CHUNK):
        w, size = None if weights is None else weights[part], min(part.stop, rows) - part.start
        parts.append(_chunk([column[part] for column in columns], group[part], groups, w, space[:, :size]))
    return [reduce(add, same_group) for same_group in zip(*parts, strict=True)]


def _check_sums(moments: GroupMoments, weighted: bool) -> None:
    """Raise if a sum is impossible: cheaper than looking at every value, and as sure for what is not finite."""
    if not (np.isfinite(moments.pivot).all() and np.isfinite(moments.scatter).all()):
        columns = "`log_odds`, `scores` and `weights`" if weighted else "`log_odds` and `scores`"
        raise DataError(f"{columns} must be finite, got missing or infinite values.", "count them with numpy.isfinite.")
    outside = moments.weight > 0 and (np.abs(moments.mean[1:] - 0.5) > 0.5 + 1e-9).any()
    if moments.weight < 0 or outside:
        raise DataError(
            "`scores` must lie in [0, 1] and `weights` must not be negative, got sums that cannot be.",
            "pass probabilities, and weights of 0 or more.",
        )


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
