"""Laws of the sums: exact where raw sums lose their digits, and the same however the rows come."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.worlds import random_world

import tiltlens as tl
from tiltlens._sources.arrays import chunked_moments

HARD = 1e6  # values at 1e6 ± 1e-2


def hard_rows(seed, n=500):
    rng = np.random.default_rng(seed)
    log_odds = HARD + 1e-2 * rng.normal(size=n)
    scores = np.clip(0.5 + 1e-8 * rng.normal(size=n), 0, 1)
    return log_odds, scores


def exact_covariance(x, y, w):
    """The weighted covariance in rational arithmetic: no rounding at all."""
    x, y, w = ([Fraction(float(v)) for v in column] for column in (x, y, w))
    total = sum(w)
    mx, my = (sum(a * b for a, b in zip(w, z, strict=True)) / total for z in (x, y))
    return float(sum(c * (a - mx) * (b - my) for a, b, c in zip(x, y, w, strict=True)) / total)


def assert_same(a, b, rel=1e-12):
    assert a.rows == b.rows
    assert a.weight == pytest.approx(b.weight, rel=rel)
    np.testing.assert_allclose(a.mean, b.mean, rtol=rel)
    scale = np.sqrt(np.outer(np.diag(b.covariance), np.diag(b.covariance)))
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=rel, atol=rel * scale.max() if scale.max() else 0)


@pytest.mark.parametrize("seed", range(5))
def test_moments_keep_nine_digits_at_a_million_against_rational_arithmetic(seed):
    log_odds, scores = hard_rows(seed, n=300)
    weights = np.random.default_rng(seed).integers(1, 4, 300).astype(float)
    for w in (np.ones(300), weights):
        parts = [slice(i, i + 7) for i in range(0, 300, 7)]
        merged = sum((tl.GroupMoments.from_rows(log_odds[p], scores[p], w[p]) for p in parts), tl.GroupMoments.empty())
        for moments in (tl.GroupMoments.from_rows(log_odds, scores, w), merged):
            for i, x in enumerate((log_odds, scores)):
                for j, y in enumerate((log_odds, scores)):
                    assert moments.covariance[i, j] == pytest.approx(exact_covariance(x, y, w), rel=1e-9, abs=1e-22)


@given(st.integers(0, 10**6), st.integers(1, 60), st.booleans())
def test_moments_do_not_depend_on_order_or_split(seed, cuts, weighted):
    rng = np.random.default_rng(seed)
    log_odds, scores = hard_rows(seed)
    w = rng.exponential(size=500) if weighted else None
    whole = tl.GroupMoments.from_rows(log_odds, scores, w)
    order = rng.permutation(500)
    edges = [0, *sorted(rng.choice(np.arange(1, 500), cuts, replace=False)), 500]
    parts = [order[a:b] for a, b in pairwise(edges)]
    merged = tl.GroupMoments.empty()
    for part in parts:
        merged = merged + tl.GroupMoments.from_rows(log_odds[part], scores[part], None if w is None else w[part])
    np.testing.assert_allclose(np.diag(merged.covariance), np.diag(whole.covariance), rtol=1e-12)
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-15)
    assert_same(merged, whole)


@given(st.integers(0, 10**6))
def test_moments_of_sorted_halves_merge_without_loss(seed):
    """The hardest split: the halves' means are a standard deviation apart."""
    log_odds, scores = hard_rows(seed)
    order = np.argsort(log_odds)
    halves = [tl.GroupMoments.from_rows(log_odds[h], scores[h]) for h in (order[:250], order[250:])]
    whole = tl.GroupMoments.from_rows(log_odds, scores)
    np.testing.assert_allclose(np.diag((halves[0] + halves[1]).covariance), np.diag(whole.covariance), rtol=1e-12)
    assert_same(halves[0] + halves[1], halves[1] + halves[0])


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 5]))
def test_integer_weights_equal_repeated_rows(seed, outcomes):
    rng = np.random.default_rng(seed)
    log_odds, scores = rng.normal(size=40), rng.dirichlet(np.ones(outcomes), 40)
    counts = rng.integers(0, 4, 40)
    weighted = tl.GroupMoments.from_rows(log_odds, scores, counts)
    repeated = tl.GroupMoments.from_rows(np.repeat(log_odds, counts), np.repeat(scores, counts, axis=0))
    np.testing.assert_allclose(weighted.mean, repeated.mean, atol=1e-13)
    np.testing.assert_allclose(weighted.covariance, repeated.covariance, atol=1e-13)
    np.testing.assert_allclose(weighted.output, repeated.output, atol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outcomes", [2, 3])
@pytest.mark.parametrize("kind", [bool, np.int8, np.int64])
def test_one_pass_over_arrays_equals_each_group_alone(weighted, outcomes, kind):
    rng = np.random.default_rng(0)
    n = 300_001  # several chunks, the last one short
    log_odds, scores = rng.normal(size=n), rng.dirichlet(np.ones(outcomes), n)
    score = scores[:, 1] if outcomes == 2 else scores
    group = (rng.random(n) < 0.3).astype(kind)
    w = rng.exponential(size=n) if weighted else None
    columns = [log_odds, *(scores[:, 1:].T)]
    for code, moments in enumerate(chunked_moments(columns, group, 2, w)):
        mine = group == code
        alone = tl.GroupMoments.from_rows(log_odds[mine], score[mine], None if w is None else w[mine])
        assert_same(moments, alone)


def test_one_pass_over_arrays_keeps_digits_where_groups_lie_far_apart():
    rng = np.random.default_rng(1)
    group = np.arange(1000) % 2
    log_odds = np.where(group == 1, 1e6, -1e6) + 1e-2 * rng.normal(size=1000)
    scores = rng.random(1000)
    for code, moments in enumerate(chunked_moments([log_odds, scores], group, 2, None)):
        mine = group == code
        exact = exact_covariance(log_odds[mine], log_odds[mine], np.ones(500))
        assert moments.covariance[0, 0] == pytest.approx(exact, rel=1e-9)


def test_rows_of_no_group_are_left_out():
    log_odds, scores, group = np.arange(6.0), np.full(6, 0.5), np.array([0, 0, 1, 1, -1, 2])
    first, second = chunked_moments([log_odds, scores], group, 2, None)
    assert (first.rows, second.rows) == (2, 2)
    assert (first.mean_log_odds, second.mean_log_odds) == (0.5, 2.5)


def test_world_is_made_of_the_same_moments():
    world = random_world(4)
    moments = tl.GroupMoments.from_rows(np.log(world.p0 / world.p1), world.channel, world.p0)
    np.testing.assert_allclose(moments.output, world.y0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, np.nan], [0.5, 0.5]), "`log_odds` must be finite, got nan at position 1"),
        (([1.0, np.inf], [0.5, 0.5]), "`log_odds` must be finite, got inf"),
        (([1.0, 2.0], [0.5, 1.5]), r"`scores` must lie in \[0, 1\], got 1.5 at position 1"),
        (([1.0, 2.0], [0.5]), "`scores` must be as long as `log_odds`"),
        (([1.0, 2.0], [[0.5, 0.4], [0.5, 0.5]]), "each row of `scores` must sum to 1"),
        (([1.0, 2.0], [[1.0], [1.0]]), "`scores` must have at least two outcomes, got K = 1"),
        (([1.0, 2.0], [0.5, 0.5], [1.0, -1.0]), "`weights` must not be negative, got -1.0 in row 1"),
        (([1.0, 2.0], [0.5, 0.5], [1.0]), "`weights` must have one entry for each row"),
        (([], []), "`log_odds` must not be empty"),
        ((["a"], [0.5]), "`log_odds` must be an array of numbers"),
    ],
)
def test_bad_rows_are_named(arguments, message):
    with pytest.raises(tl.TiltlensError, match=message):
        tl.GroupMoments.from_rows(*arguments)


def test_no_rows_have_no_mean(refused):
    with refused(tl.TiltlensError, "a group"):
        _ = tl.GroupMoments.empty().mean
    with refused(tl.TiltlensError, "the same number"):
        tl.GroupMoments.empty(2) + tl.GroupMoments.empty(3)


def test_flags_are_groups_0_and_1():
    rng = np.random.default_rng(2)
    flags = rng.random(50) < 0.5
    moments = chunked_moments([rng.normal(size=50), rng.random(50)], flags, 3, None)
    assert [group.rows for group in moments] == [(~flags).sum(), flags.sum(), 0]


def test_a_far_row_of_another_group_costs_no_digits():
    rng = np.random.default_rng(3)
    log_odds, scores, group = rng.normal(size=1000), rng.random(1000), np.zeros(1000, int)
    log_odds[::64], group[::64] = 1e16, 1
    mine = group == 0
    exact = np.cov(log_odds[mine], scores[mine], ddof=0)
    np.testing.assert_allclose(
        chunked_moments([log_odds, scores], group, 2, None)[0].covariance, exact, rtol=1e-9, atol=1e-12
    )
