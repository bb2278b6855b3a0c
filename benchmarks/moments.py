"""Moments of 10 million rows against reading the same columns once."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Row, best_of, printed
from tiltlens.sources.arrays import moments_by_group

ROWS = 10_000_000
MOST_READS = 6


def measured() -> Iterator[Row]:
    """Yield how many reads of its columns the moments take."""
    rng = np.random.default_rng(0)
    log_odds, scores, group = rng.normal(size=ROWS), rng.random(ROWS), rng.random(ROWS) < 0.4
    for code, moments in enumerate(moments_by_group(log_odds, scores, group, 2)):
        mine = group == code
        expected = np.cov(log_odds[mine], scores[mine], ddof=0)
        np.testing.assert_allclose(moments.covariance, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(moments.mean, [log_odds[mine].mean(), scores[mine].mean()], atol=1e-12)
    read = best_of(9, lambda: (log_odds.sum(), scores.sum(), group.sum()))
    ours = best_of(9, lambda: moments_by_group(log_odds, scores, group, 2))
    detail = f"{ours * 1e3:.0f} ms; reading the columns {read * 1e3:.1f} ms"
    yield Row(f"moments, {ROWS:,} rows", ours / read, "reads", most=MOST_READS, detail=detail)


if __name__ == "__main__":
    sys.exit(printed(measured()) > 0)
