"""Sums of the second pass are sums over rows, by group and by value, however these are cut."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tiltlens.rows.sums import SumRows, group_sums

GROUPS, VALUES, SHIFT = 3, {"x": 4, "y": 7}, 0.5


def rows_of(seed=0, size=500, is_weighted=True, classes=None):
    random = np.random.default_rng(seed)
    scores = random.random(size) if classes is None else random.dirichlet(np.ones(classes), size)
    return SumRows(
        group=random.integers(0, GROUPS, size),
        weights=random.random(size) if is_weighted else None,
        log_odds=random.normal(size=size),
        scores=scores,
        outcome=scores if classes is None else scores[:, 1],
        codes={name: random.integers(0, count, size) for name, count in VALUES.items()},
    )


def part_of(rows, index):
    return SumRows(
        rows.group[index],
        None if rows.weights is None else rows.weights[index],
        rows.log_odds[index],
        rows.scores[index],
        rows.outcome[index],
        {name: codes[index] for name, codes in rows.codes.items()},
    )


summed = partial(group_sums, groups=GROUPS, sizes=VALUES, shift=SHIFT)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("classes", [None, 3])
def test_sums_are_those_of_the_rows_of_each_group_and_value(is_weighted, classes):
    rows = rows_of(is_weighted=is_weighted, classes=classes)
    found = summed(rows)
    w = np.ones(500) if rows.weights is None else rows.weights
    for group in range(GROUPS):
        mine = rows.group == group
        moments = found.moments[group]
        columns = np.column_stack([rows.log_odds, rows.scores if classes is None else rows.scores[:, 1:]])[mine]
        assert moments.rows == mine.sum()
        assert moments.weight == pytest.approx(w[mine].sum())
        assert_allclose(moments.mean, np.average(columns, axis=0, weights=w[mine]), rtol=1e-12)
        assert_allclose(moments.covariance, np.cov(columns.T, aweights=w[mine], ddof=0), rtol=1e-9)
        assert found.square[group] == pytest.approx((w[mine] ** 2).sum())
        tilt = w[mine] * np.exp(rows.log_odds[mine] - SHIFT)
        assert_allclose(found.exponential[group], [tilt.sum(), *(tilt @ columns)], rtol=1e-12)
        for name, count in VALUES.items():
            cells = found.cells[name]
            for value in range(count):
                here = mine & (rows.codes[name] == value)
                expected = [here.sum(), w[here].sum(), (w[here] ** 2).sum()]
                expected += [(w * rows.outcome**power)[here].sum() for power in (1, 2)]
                parts = (cells.people, cells.weight, cells.square, cells.first, cells.second)
                assert_allclose([part[group, value] for part in parts], expected, rtol=1e-12)


def test_sums_of_parts_are_the_sums_of_all_in_any_order():
    rows = rows_of()
    whole = summed(rows)
    cuts = [slice(0, 1), slice(1, 260), slice(260, 500)]
    one, two, three = (summed(part_of(rows, cut)) for cut in cuts)
    for found in (one + two + three, three + (two + one)):
        assert_allclose(found.square, whole.square, rtol=1e-12)
        assert_allclose(found.exponential, whole.exponential, rtol=1e-12)
        for mine, theirs in zip(found.moments, whole.moments, strict=True):
            assert mine.rows == theirs.rows
            assert_allclose(mine.mean, theirs.mean, rtol=1e-12)
            assert_allclose(mine.covariance, theirs.covariance, rtol=1e-9)
        for name in VALUES:
            assert_allclose(found.cells[name].first, whole.cells[name].first, rtol=1e-12)


def test_no_given_membership_has_no_exponential():
    rows = rows_of()
    none = SumRows(rows.group, rows.weights, None, rows.scores, rows.outcome, rows.codes)
    assert summed(none).exponential.size == 0
    assert all(moments.mean_log_odds == 0 for moments in summed(none).moments)
