"""Moments of 10 million rows against reading the same columns once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from benchmarks.timing import Row, best_of, printed
from tiltlens._sources.arrays import chunked_moments, chunks
from tiltlens._threads import in_threads, threads
from tiltlens.paper.correction import GroupMoments

ROWS = 10_000_000
MOST_READS = 6


def moments_by_group(log_odds: Any, scores: Any, group: Any) -> list[GroupMoments]:
    """Return the moments of two groups, with one slice of the rows for each thread, as audits fold their batches."""
    rows = len(group)

    def part(own: slice) -> list[GroupMoments]:
        return chunked_moments([log_odds[own], scores[own]], group[own], 2, None)

    parts = in_threads(part, list(chunks(rows, -(-rows // threads()))), rows)
    return [reduce(add, same_group) for same_group in zip(*parts, strict=True)]


def measured() -> Iterator[Row]:
    """Yield how many reads of its columns the moments take."""
    rng = np.random.default_rng(0)
    log_odds, scores, group = rng.normal(size=ROWS), rng.random(ROWS), rng.random(ROWS) < 0.4
    for code, moments in enumerate(moments_by_group(log_odds, scores, group)):
        mine = group == code
        expected = np.cov(log_odds[mine], scores[mine], ddof=0)
        np.testing.assert_allclose(moments.covariance, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(moments.mean, [log_odds[mine].mean(), scores[mine].mean()], atol=1e-12)
    read = best_of(9, lambda: (log_odds.sum(), scores.sum(), group.sum()))
    ours = best_of(9, lambda: moments_by_group(log_odds, scores, group))
    detail = f"{ours * 1e3:.0f} ms; reading the columns {read * 1e3:.1f} ms"
    yield Row(f"moments, {ROWS:,} rows", ours / read, "reads", most=MOST_READS, detail=detail)


if __name__ == "__main__":
    sys.exit(printed(measured()) > 0)
