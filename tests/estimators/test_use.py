"""Projections of residuals onto the columns of a feature."""

import numpy as np
import pytest

from tiltlens._estimators.influence import Rows
from tiltlens._estimators.use import (
    Projection,
    Use,
    judge_projections,
    project_residuals,
    strongest_projection,
    widen_use,
)

ROWS = 800


def draw(seed):
    """Return rows, another feature, and a feature with mean 0 given it."""
    rng = np.random.default_rng(seed)
    return Rows.of(rng.random(ROWS) < 0.3), rng.standard_normal(ROWS), rng.standard_normal(ROWS)


def columns_of(x):
    return np.column_stack([x, x**2 - 1.0, x**3 - 3.0 * x])


def test_an_unused_feature_has_no_use_whatever_the_other_features_leave():
    projections = []
    for seed in range(300):
        at, other, own = draw(seed)
        projections.append(project_residuals(at, np.sign(other) * np.abs(other) ** 1.5, columns_of(own)))
    values = np.array([projection.value for projection in projections])
    assert abs(values.mean()) < 3 * values.std() / np.sqrt(300)
    assert np.mean([projection.low(0.05) > 0.0 for projection in projections]) < 0.09


def test_the_bounds_of_a_line_cover_its_square():
    truth, misses = 0.3**2, np.zeros(2)
    for seed in range(300):
        at, other, own = draw(seed)
        projection = project_residuals(at, 0.3 * own + other, columns_of(own))
        misses += projection.low(0.05) > truth, projection.high(0.05) < truth
    assert (misses < 0.09 * 300).all()
    assert misses.sum() > 0


def test_rows_of_a_cluster_err_together():
    at, other, own = draw(1)
    single = project_residuals(at, other, own[:, None])
    twice = Rows.of(np.tile(at.audited, 2), None, np.tile(np.arange(ROWS), 2))
    doubled = project_residuals(twice, np.tile(other, 2), np.tile(own, 2)[:, None])
    assert (doubled.square, doubled.noise) == pytest.approx((single.square, single.noise))


def test_copies_and_columns_of_few_rows_are_left_out():
    at, other, _ = draw(2)
    assert project_residuals(at, other, 1e-3 * other[:, None]) == Projection()
    assert project_residuals(at, other, 30.0 * (np.arange(ROWS) < 3)[:, None]) == Projection(is_blind=True)


def test_wide_columns_count_where_they_can_be_resolved_or_exceed_twice_the_threshold():
    m = 0.01
    limit = 0.25 * m**2
    lines = Projection(0.0, 0.01 * limit, 2.0)
    fine = Projection(0.5 * limit, 0.01 * limit, 10.0)
    coarse, coarser = (Projection(square * limit, 0.2 * limit, 10.0) for square in (2.0, 4.0))
    assert fine.expected_high(0.05) < limit < coarse.expected_high(0.05)

    def high(*others):
        return judge_projections(lines, others, Projection(), 1.0, 0.95, m).high

    assert high(fine) == pytest.approx(2 * np.sqrt(fine.high(0.05)))
    assert coarse.high(0.05) < 4 * limit < coarser.high(0.05)
    assert high(coarse) == 2 * np.sqrt(lines.high(0.05)) <= m
    assert high(coarser) == pytest.approx(2 * np.sqrt(coarser.high(0.05)))


def test_a_learnt_column_widens_an_immaterial_use_and_shows_none():
    m, use = 0.01, Use(0.004, 0.003, 0.005)
    limit = 0.25 * m**2
    clear, noisy = (
        Projection(square * limit, noise * limit, wald=square / noise, least_noise=noise * limit)
        for square, noise in ((2.0, 0.01), (0.5, 0.1))
    )
    wide = widen_use(use, clear, 0.0, 0.95, m)
    assert (wide.low, wide.high) == pytest.approx((use.low, 2 * np.sqrt(clear.high(0.05))))
    assert wide.value == pytest.approx(2 * np.sqrt(clear.value))
    assert limit < noisy.high(0.05) < 4 * limit
    assert widen_use(use, clear, 9.0 * limit, 0.95, m).high == pytest.approx(3 * m)
    assert widen_use(use, noisy, 1.0, 0.95, m) == widen_use(use, Projection(), 1.0, 0.95, m) == use


def test_all_that_is_left_may_be_use_of_a_feature_that_is_used():
    at, other, own = draw(3)
    residuals = 0.3 * own + other
    projection = project_residuals(at, residuals, own[:, None])
    use = judge_projections(projection, (), Projection(), 1.5, 0.95, 0.01)
    assert 0.0 < use.low < 0.6 < use.high == pytest.approx(2 * np.sqrt(1.5))


def test_the_use_of_a_used_feature_is_that_along_the_whole_of_its_columns():
    at, other, own = draw(3)
    residuals = 0.3 * own + 0.2 * (own**2 - 1.0) + 0.1 * other
    line, whole = (project_residuals(at, residuals, columns) for columns in (own[:, None], columns_of(own)))
    use = judge_projections(line, (), whole, 1.0, 0.95, 0.01)
    assert 2 * np.sqrt(line.value) < use.value == pytest.approx(2 * np.sqrt(0.3**2 + 2 * 0.2**2), rel=0.15)


def test_use_by_few_people_shows_in_the_strongest_of_many_columns():
    hits = np.zeros(3)
    for seed in range(100):
        at, other, own = draw(seed)
        parts = np.random.default_rng(seed).random((ROWS, 40)) < 0.3
        columns = own[:, None] * parts
        used = other + 0.32 * columns[:, 0]
        hits += (
            strongest_projection(at, other, columns).low(0.05) > 0.0,
            strongest_projection(at, used, columns).low(0.01) > 0.0,
            project_residuals(at, used, columns).low(0.01) > 0.0,
        )
    unused, strongest, together = hits
    assert unused <= 11  # 5% and chance
    assert strongest > together + 15
