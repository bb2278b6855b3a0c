"""Sums of the second pass are sums over rows, by group and by value, however these are cut."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tiltlens._rows.compared_rows import sum_rows
from tiltlens._rows.sampled_rows import SampledRows, SampleFacts

GROUPS, VALUES, SHIFT = ("a", "b", "c"), {"x": 4, "y": 7}, 0.5


def rows_of(seed=0, size=500, is_weighted=True, classes=None):
    random = np.random.default_rng(seed)
    scores = random.random(size) if classes is None else random.dirichlet(np.ones(classes), size)
    return SampledRows(
        groups=GROUPS,
        group=random.integers(0, len(GROUPS), size),
        weights=random.random(size) if is_weighted else np.ones(size),
        scores=scores,
        score=scores if classes is None else scores[:, 1],
        columns={
            "log_odds": random.normal(size=size),
            "y_true": random.integers(0, 3, size),
            "period": random.integers(0, 3, size),
        },
        labels={"period": ("2023", "2024")},
        value_codes={name: random.integers(0, count, size) for name, count in VALUES.items()},
        facts=SampleFacts(is_weighted=is_weighted),
    )


summed = partial(sum_rows, sizes=VALUES, shift=SHIFT)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("classes", [None, 3])
def test_sums_are_those_of_the_rows_of_each_group_and_value(is_weighted, classes):
    rows = rows_of(is_weighted=is_weighted, classes=classes)
    found = summed(rows)
    w = rows.weights
    for group in range(len(GROUPS)):
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
        codes = {**rows.value_codes, "y_true": rows.y_true, "period": rows.period}
        for name, count in {**VALUES, "y_true": 3, "period": 3}.items():
            cells = (found.cells | found.by_column)[name]
            for value in range(count):
                here = mine & (codes[name] == value)
                expected = [here.sum(), w[here].sum(), (w[here] ** 2).sum()]
                expected += [(w * rows.score**power)[here].sum() for power in (1, 2)]
                parts = (cells.people, cells.weight, cells.square, cells.first, cells.second)
                assert_allclose([part[group, value] for part in parts], expected, rtol=1e-12)


def test_sums_of_parts_are_the_sums_of_all_in_any_order():
    rows = rows_of()
    whole = summed(rows)
    cuts = [np.arange(0, 1), np.arange(1, 260), np.arange(260, 500)]
    one, two, three = (summed(rows.take(cut)) for cut in cuts)
    for found in (one + two + three, three + (two + one)):
        assert_allclose(found.square, whole.square, rtol=1e-12)
        assert_allclose(found.exponential, whole.exponential, rtol=1e-12)
        for mine, theirs in zip(found.moments, whole.moments, strict=True):
            assert mine.rows == theirs.rows
            assert_allclose(mine.mean, theirs.mean, rtol=1e-12)
            assert_allclose(mine.covariance, theirs.covariance, rtol=1e-9)
        for name in VALUES:
            assert_allclose(found.cells[name].first, whole.cells[name].first, rtol=1e-12)
        for name in ("y_true", "period"):
            assert_allclose(found.by_column[name].first, whole.by_column[name].first, rtol=1e-12)


def test_no_given_membership_has_no_exponential():
    none = replace(rows_of(), columns={})
    assert summed(none).exponential.size == 0
    assert all(moments.mean_log_odds == 0 for moments in summed(none).moments)
