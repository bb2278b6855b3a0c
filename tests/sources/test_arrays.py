"""Sums over chunks are sums over rows."""

import numpy as np
import pytest

from tiltlens._sources import arrays
from tiltlens._sources.arrays import below, chunked_moments
from tiltlens.paper.correction import GroupMoments


@pytest.mark.parametrize("count", [1, 9, 200])
@pytest.mark.parametrize(("or_equal", "side"), [(False, "left"), (True, "right")])
def test_edges_below_are_those_of_a_search(count, or_equal, side):
    random = np.random.default_rng(2)
    edges = np.unique(random.integers(0, 500, count) / 4)
    numbers = random.integers(-10, 600, 40_000) / 4
    assert np.array_equal(below(edges, numbers, or_equal), np.searchsorted(edges, numbers, side=side))


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("chunk", [7, 10_000])
def test_moments_in_chunks_are_those_of_the_rows_of_each_group(is_weighted, chunk, monkeypatch):
    monkeypatch.setattr(arrays, "MOMENTS_CHUNK", chunk)
    random = np.random.default_rng(0)
    ell, score, w = random.normal(50, 1, 300), random.random(300), random.random(300)
    group = random.integers(0, 3, 300)
    weights = w if is_weighted else None
    for code, moments in enumerate(chunked_moments([ell, score], group, 3, weights)):
        mine = group == code
        expected = GroupMoments.from_rows(ell[mine], score[mine], weights=None if weights is None else w[mine])
        assert moments.rows == mine.sum()
        assert moments.weight == pytest.approx(expected.weight, rel=1e-12)
        np.testing.assert_allclose(moments.mean, expected.mean, rtol=1e-12)
        np.testing.assert_allclose(moments.covariance, expected.covariance, rtol=1e-9, atol=1e-14)
