"""Shapley values of the gap, against brute force over permutations, exact identities and the jackknife."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tiltlens.estimators.influence import Rows
from tiltlens.estimators.feature_gap import cells, feature_gap
from tiltlens.estimators.outputs import gap
from tiltlens.estimators.shapley import joint_codes, explained_gap, is_supported, joint_cells, shapley_gaps

LEVELS = (3, 2, 4)


def draw(seed, size=600, noise=0.1):
    """Return three dependent features, a group that shifts them, and a score with an interaction."""
    rng = np.random.default_rng(seed)
    audited = rng.random(size) < 0.4
    base = rng.random(size) + 0.3 * audited
    codes = [np.clip((levels * (0.6 * base + 0.4 * rng.random(size))).astype(int), 0, levels - 1) for levels in LEVELS]
    score = 0.1 + 0.1 * codes[0] + 0.2 * codes[1] * (codes[2] > 1) + noise * rng.random(size)
    return audited, score, codes


def subset_gap(audited, score, codes, chosen, weights):
    """Return E0[W] − E1[E0[W|X_A]], a row at a time; E1[W|cell] where nobody audited is in the cell."""
    own, others = weights * audited, weights * ~audited
    if not chosen:
        return 0.0
    moved = np.zeros(len(score))
    keys = np.array([hash(tuple(codes[j][i] for j in chosen)) for i in range(len(score))])
    for key in np.unique(keys):
        inside = keys == key
        w = own * inside if (own * inside).sum() > 0 else others * inside
        moved[inside] = w @ score / w.sum()
    return own @ score / own.sum() - others @ moved / others.sum()


def brute_force(audited, score, codes, weights):
    """Return each feature's mean contribution over all orders."""
    orders = list(permutations(range(len(codes))))
    found = np.zeros(len(codes))
    for order in orders:
        for place, j in enumerate(order):
            before = subset_gap(audited, score, codes, order[:place], weights)
            found[j] += subset_gap(audited, score, codes, order[: place + 1], weights) - before
    return found / len(orders)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_shapley_values_against_all_permutations(seed, is_weighted):
    audited, score, codes = draw(seed, 120)
    weights = np.random.default_rng(seed).uniform(0.5, 3.0, 120) if is_weighted else np.ones(120)
    values = [v.value for v in shapley_gaps(joint_cells(Rows.of(audited, weights), score, codes))]
    np.testing.assert_allclose(values, brute_force(audited, score, codes, weights), atol=1e-12)


def test_shapley_values_add_up_to_what_all_features_explain():
    audited, score, codes = draw(3)
    joint = joint_cells(Rows.of(audited), score, codes)
    assert sum(v.value for v in shapley_gaps(joint)) == pytest.approx(explained_gap(joint).value, abs=1e-12)
    assert explained_gap(joint).value == pytest.approx(
        subset_gap(audited, score, codes, (0, 1, 2), np.ones(len(score))), abs=1e-12
    )


def test_shapley_values_of_a_function_of_the_features_add_up_to_the_gap():
    audited, score, codes = draw(4, noise=0.0)
    audited[codes[0] == 0] = False  # cells of the reference group without audited rows do not break it
    rows = Rows.of(audited)
    joint = joint_cells(rows, score, codes)
    assert joint.unsupported > 0
    assert sum(v.value for v in shapley_gaps(joint)) == pytest.approx(gap(rows, score).value, abs=1e-12)


def test_the_shapley_value_of_a_single_feature_is_its_gap():
    audited, score, codes = draw(5)
    rows = Rows.of(audited)
    (found,) = shapley_gaps(joint_cells(rows, score, codes[:1]))
    expected = feature_gap(rows, score, cells(rows, score, codes[0])).normal()
    assert found.value == pytest.approx(expected.value, abs=1e-12)
    assert found.se == pytest.approx(expected.se, rel=0.02)


def test_a_feature_that_changes_nothing_gets_nothing():
    audited, score, codes = draw(6)
    noughts = np.zeros(len(score), dtype=int)
    *rest, nothing = shapley_gaps(joint_cells(Rows.of(audited), score, [*codes, noughts]))
    assert (nothing.value, nothing.se) == pytest.approx((0.0, 0.0), abs=1e-8)
    without = shapley_gaps(joint_cells(Rows.of(audited), score, codes))
    assert [v.value for v in rest] == pytest.approx([v.value for v in without], abs=1e-12)


def test_integer_weights_equal_repeated_rows():
    audited, score, codes = draw(7)
    times = np.random.default_rng(7).integers(1, 4, len(score))
    weighted = shapley_gaps(joint_cells(Rows.of(audited, times), score, codes))
    again = np.repeat(np.arange(len(score)), times)
    repeated = shapley_gaps(joint_cells(Rows.of(audited[again]), score[again], [c[again] for c in codes]))
    assert [v.value for v in weighted] == pytest.approx([v.value for v in repeated], abs=1e-12)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_standard_errors_against_the_jackknife(is_weighted):
    audited, score, codes = draw(8, 500)
    codes = [codes[0], codes[1], (codes[2] > 1).astype(int)]  # no cell of one audited row, whose loss is a jump
    weights = np.random.default_rng(8).uniform(0.5, 2.0, 500) if is_weighted else np.ones(500)

    def values(keep):
        rows = Rows.of(audited[keep], weights[keep])
        return [v.value for v in shapley_gaps(joint_cells(rows, score[keep], [c[keep] for c in codes]))]

    left_out = np.array([values(np.arange(500) != i) for i in range(500)])
    jackknife = np.sqrt(((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    found = [v.se for v in shapley_gaps(joint_cells(Rows.of(audited, weights), score, codes))]
    np.testing.assert_allclose(found, jackknife, rtol=0.05)


def test_intervals_hold_the_truth_over_draws():
    truth = np.array([v.value for v in shapley_gaps(joint_cells(*_rows(draw(0, 1_000_000))))])
    hits = []
    for seed in range(1, 201):
        found = [v.estimate(0.95) for v in shapley_gaps(joint_cells(*_rows(draw(seed, 1000))))]
        hits.append([e.low <= t <= e.high for e, t in zip(found, truth, strict=True)])
    coverage = np.mean(hits, axis=0)
    assert (coverage >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)).all()


def _rows(drawn):
    audited, score, codes = drawn
    return Rows.of(audited), score, codes


def test_too_many_cells_or_features_are_not_supported():
    audited, score, codes = draw(9, 100)
    assert is_supported(joint_cells(Rows.of(audited), score, codes[:2]), 100)
    assert not is_supported(joint_cells(Rows.of(audited), score, [np.arange(100)]), int(audited.sum()))
    assert not is_supported(joint_cells(Rows.of(audited), score, codes[:1] * 11), int(audited.sum()))


def test_compact_numbers_the_rows_that_occur():
    codes = np.array([[2, 0], [0, 1], [2, 0], [0, 0]])
    cell, levels = joint_codes(codes)
    np.testing.assert_array_equal(levels[cell], codes)
    assert sorted(set(cell.tolist())) == [0, 1, 2]


@pytest.mark.parametrize("most", [3, 40, 500_000])
def test_compact_cells_are_in_the_order_of_their_codes(most):
    codes = np.random.default_rng(0).integers(0, most, (2_000, 3))
    cell, levels = joint_codes(codes)
    expected, place = np.unique(codes, axis=0, return_inverse=True)
    np.testing.assert_array_equal(levels, expected)
    np.testing.assert_array_equal(cell, place.ravel())
