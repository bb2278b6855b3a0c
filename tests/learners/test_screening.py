"""Which of many features are looked at closely, and regressions on one numeric feature."""

from __future__ import annotations

import numpy as np
import pytest

from tiltlens._learners.candidates import surviving_columns
from tiltlens._learners.linear_models import by_strength
from tiltlens._learners.regressions import SmoothPart, spline_means


def many(size=1_000, count=30):
    rng = np.random.default_rng(0)
    table = {f"x{j:02}": rng.normal(size=size) for j in range(count - 1)} | {"place": rng.integers(0, 5, size)}
    table["x03"][::10] = np.nan
    return table, rng


def test_few_features_are_not_ranked():
    table, _ = many()
    assert by_strength(table, (), np.ones(1_000), np.arange(1_000), 30) == list(table)


def test_the_strongest_go_with_one_of_the_targets_bent_levelled_or_missing():
    table, rng = many()
    first = np.cos(2 * table["x07"]) + 0.5 * rng.normal(size=1_000)
    second = (table["place"] == 2) + np.isnan(table["x03"]) + 0.3 * rng.normal(size=1_000)
    found = by_strength(table, (first, second), np.ones(1_000), np.arange(1_000), 3)
    assert set(found[:3]) == {"x07", "place", "x03"}


def test_the_strongest_do_not_depend_on_the_order_of_the_columns():
    table, rng = many()
    target = table["x01"] + rng.normal(size=1_000)
    turned = dict(reversed(table.items()))
    one, other = (by_strength(each, (target,), np.ones(1_000), np.arange(1_000), 5) for each in (table, turned))
    assert one == other
    assert one[0] == "x01"


def test_columns_survive_with_the_features_that_go_with_the_labels():
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(2_000, 60))
    owners = np.repeat(np.arange(20), 3)[:, None].repeat(2, axis=1)
    owners[-3:] = [[0, 1], [0, 4], [4, 5]]  # products survive with both of their features
    labels = rng.random(2_000) < 1 / (1 + np.exp(-0.5 * matrix[:, 1] - 0.5 * matrix[:, 13]))
    found = surviving_columns(lambda own: matrix[:, own], owners, labels, np.ones(2_000))
    assert found[:3].all()
    assert found[12:15].all()
    assert found[[58, 57, 59]].tolist() == [True, False, False]
    assert found.sum() < 15


def test_spline_means_learn_a_smooth_function_from_the_rows_they_are_given():
    rng = np.random.default_rng(2)
    x = rng.normal(size=3_000)
    x[:100] = np.nan
    truth = np.column_stack([np.where(np.isnan(x), 0.7, np.sin(x)), np.where(np.isnan(x), 0.0, x**2)])
    noisy = truth + 0.1 * rng.normal(size=truth.shape)
    trains = [np.arange(0, 3_000, 2), np.arange(1, 3_000, 2)]
    every, weights = np.arange(3_000), np.ones(3_000)
    first, second = spline_means(x, [SmoothPart.of(noisy, train, every) for train in trains], weights, 0)
    for found in (first, second):
        assert np.sqrt(np.mean((found - truth) ** 2, axis=0)) == pytest.approx([0.0, 0.0], abs=0.06)
    moved = noisy.copy()
    moved[1::2] = 0.0
    few = SmoothPart.of(moved, trains[0], every[::7])
    np.testing.assert_allclose(spline_means(x, [few], weights, 0)[0], first[::7], rtol=1e-12)
