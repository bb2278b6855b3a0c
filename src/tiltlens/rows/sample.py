"""One bounded sample of rows, which depends on what they hold alone: not on their order, on batches or on engines.

A row is drawn by its hash, the smallest first, within its group. Of the groups the rarest are kept whole first: each
has as many rows as there is room for when all are given the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tiltlens.rows.roles import GROUP, HASH
from tiltlens.sources.hashing import Hashes

ALL_HASHES = np.uint64(2**64 - 1)


class HashThreshold:
    """The largest hash of each group that may still be drawn: it only spares later batches work.

    Threads that fold one table share it. A worker elsewhere starts with what it was sent.
    """

    def __init__(self) -> None:
        self.of_group: dict[str, np.uint64] = {}

    def lower(self, group: str, largest: np.uint64) -> None:
        """Take note that no hash above this one can be drawn."""
        self.of_group[group] = min(self.of_group.get(group, ALL_HASHES), largest)

    def limits(self, groups: tuple[str, ...]) -> Hashes:
        """Return the largest hash of each of some groups."""
        return np.array([self.of_group.get(group, ALL_HASHES) for group in groups], dtype=np.uint64)


def group_quota(counts: Mapping[str, int], size: int) -> int:
    """Return the largest c with Σ_g min(n_g, c) ≤ `size`: how many rows of each group there is room for."""
    room, left = size, len(counts)
    for count in sorted(counts.values()):
        if count * left > room:
            return room // left
        room, left = room - count, left - 1
    return max(counts.values(), default=size)


@dataclass(frozen=True, slots=True, eq=False)
class RowSample:
    """Some rows, added with `+`: those of the smallest hashes of each group.

    Attributes
    ----------
    parts
        The rows as they came, batch by batch.
    counts
        How many rows each group has, drawn or not.
    size
        How many rows are kept at most.
    """

    parts: tuple[pl.DataFrame, ...]
    counts: dict[str, int]
    size: int
    threshold: HashThreshold = field(default_factory=HashThreshold)

    @property
    def is_complete(self) -> bool:
        """Whether no row was left out."""
        return sum(self.counts.values()) <= self.size

    @property
    def frame(self) -> pl.DataFrame:
        """The rows."""
        return self._drawn().parts[0]

    def __add__(self, other: RowSample) -> RowSample:
        counts = dict(self.counts)
        for group, count in other.counts.items():
            counts[group] = counts.get(group, 0) + count
        both = RowSample(self.parts + other.parts, counts, self.size, self.threshold)
        held = sum(part.height for part in both.parts)
        return both if held <= 1.5 * self.size else both._drawn()

    def _drawn(self) -> RowSample:
        """Return the sample in one part, no larger than it may be."""
        frame = self.parts[0] if len(self.parts) == 1 else pl.concat(self.parts)
        if frame.height <= self.size:
            return RowSample((frame,), self.counts, self.size, self.threshold)
        quota = group_quota(self.counts, self.size)
        hashes, keep = frame[HASH].to_numpy(), np.ones(frame.height, dtype=np.bool_)
        for group, count in self.counts.items():
            if count > quota:
                mine = np.flatnonzero((frame[GROUP] == group).to_numpy())
                own = np.sort(hashes[mine])
                last = own[: min(quota, own.size)]
                if quota < own.size and own[quota] == last[-1] and last[0] != last[-1]:
                    last = last[last < last[-1]]  # a cluster is drawn whole or not at all
                keep[mine] = False
                keep[mine[hashes[mine] <= last[-1]][:quota]] = True  # of a cluster larger than that, as many as may be
                self.threshold.lower(group, last[-1])
        return RowSample((frame.filter(pl.Series(keep)),), self.counts, self.size, self.threshold)
