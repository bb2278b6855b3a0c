"""c_A of sets of features, by joint values and by ridge regressions from one Gram matrix a fold."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltlens._estimators.feature_gap import cell_sums_of, feature_gap, joint_codes
from tiltlens._estimators.influence import Rows
from tiltlens._estimators.outputs import Scores, gap
from tiltlens._estimators.ridges import FOLDS, PAIRINGS, PARTS, FoldRidges
from tiltlens._estimators.sets import CellSets, RidgeSets, TargetErrors, covariance

seeds = st.integers(0, 10**6)


def half_weights(rows):
    return 0.5 * (rows.audited_share + rows.reference_share)


def least_squares(rows, score, cells):
    """Return the coefficient of the group beside a dummy for each joint value."""
    root = np.sqrt(half_weights(rows))
    design = np.column_stack([rows.audited, cells[:, None] == np.unique(cells)])
    return np.linalg.lstsq(design * root[:, None], score * root, rcond=None)[0][0]


def cell_sets(rows, score, columns, leaves_one_out=False, shown=slice(None)):
    key, levels = joint_codes(np.column_stack(columns))
    sums = cell_sums_of(rows, score, key, len(levels))
    at = Rows.of(rows.audited[shown], rows.weights[shown]).represent(rows)
    return CellSets(sums, levels, key[shown], score[shown], at, leaves_one_out)


def joint_values(sets):
    """Return joint(j) = c_{all but j} − c_all."""
    every = sets.left_out()
    return every.combine(np.vstack([-np.ones((1, sets.features)), np.eye(sets.features)]))


def alone(sets):
    """Return gap(j) = c_∅ − c_j."""
    found = sets.sets([[], *([j] for j in range(sets.features))]).values
    return found[0] - found[1:]


def exact_world(score, **features):
    """Return a world of rows that stand for probabilities: P(x_j|S) of each feature by itself, independent given S.

    A feature is the pair of its shares of 1 in the audited and in the reference group.
    """
    names = list(features)
    rows = list(product((1, 0), *((0, 1) for _ in names)))
    audited = np.array([row[0] == 1 for row in rows])
    columns = {name: np.array([row[1 + k] for row in rows]) for k, name in enumerate(names)}
    weights = np.ones(len(rows))
    for name, (mine, other) in features.items():
        share = np.where(audited, mine, other)
        weights *= np.where(columns[name] == 1, share, 1 - share)
    return Rows.of(audited, weights), score(audited, columns), columns


# By joint values.


def draw(seed, size=150):
    rng = np.random.default_rng(seed)
    audited = np.arange(size) < 0.4 * size
    base = rng.random(size) + 0.3 * audited
    columns = [np.clip((k * (0.6 * base + 0.4 * rng.random(size))).astype(int), 0, k - 1) for k in (3, 2, 2)]
    score = 0.1 + 0.1 * columns[0] + 0.2 * columns[1] * columns[2] - 0.04 * audited + 0.1 * rng.random(size)
    return audited, score, columns, rng.uniform(0.3, 2.0, size)


@given(seeds, st.booleans())
def test_c_of_every_set_is_the_group_s_coefficient_beside_dummies_of_joint_values(seed, is_weighted):
    audited, score, columns, weights = draw(seed)
    rows = Rows.of(audited, weights if is_weighted else None)
    wanted = [[], [0], [1], [2], [0, 1], [2, 0], [1, 2], [0, 1, 2]]
    found = cell_sets(rows, score, columns).sets(wanted)
    for chosen, value in zip(wanted, found.values, strict=True):
        cells = joint_codes(np.column_stack([columns[j] for j in chosen]))[0] if chosen else np.zeros(audited.size)
        assert value == pytest.approx(least_squares(rows, score, cells), abs=1e-12)


def test_left_out_and_along_are_the_same_sets():
    audited, score, columns, weights = draw(1)
    sets = cell_sets(Rows.of(audited, weights), score, columns, leaves_one_out=True)
    for found, wanted in (
        (sets.left_out(), [[0, 1, 2], [1, 2], [0, 2], [0, 1]]),
        (sets.along([2, 0, 1]), [[], [2], [2, 0], [2, 0, 1]]),
    ):
        expected = sets.sets(wanted)
        np.testing.assert_allclose(found.values, expected.values, atol=1e-14)
        np.testing.assert_allclose(found.influence, expected.influence, atol=1e-16)


@pytest.mark.parametrize("chosen", [[0], [0, 1], [0, 1, 2]])
def test_influence_of_a_set_is_the_derivative_by_the_row_weight(chosen):
    audited, score, columns, weights = draw(2)
    found = cell_sets(Rows.of(audited, weights), score, columns).sets([chosen]).influence[:, 0]
    for row in range(0, audited.size, 11):
        ends = []
        for sign in (1, -1):
            moved = weights.copy()
            moved[row] *= 1 + sign * 1e-5
            ends.append(cell_sets(Rows.of(audited, moved), score, columns).sets([chosen]).values[0])
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(found[row], rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("leaves_one_out", [False, True])
def test_swapping_the_groups_flips_the_sign_of_joint_values_and_nothing_else(leaves_one_out):
    audited, score, columns, weights = draw(3)
    one, other = (
        joint_values(cell_sets(Rows.of(mine, weights), score, columns, leaves_one_out)) for mine in (audited, ~audited)
    )
    np.testing.assert_allclose(other.values, -one.values, atol=1e-12)
    np.testing.assert_allclose(
        covariance(other.influence, other.between), covariance(one.influence, one.between), atol=1e-15
    )


def test_an_ignored_feature_that_reveals_the_group_carries_nothing_alone_and_with_others():
    for direct in (0.0, -0.05):
        rows, score, columns = exact_world(
            lambda mine, x, direct=direct: 0.3 + 0.4 * x["used"] + direct * mine, used=(0.7, 0.4), ignored=(0.9, 0.1)
        )
        sets = cell_sets(rows, score, list(columns.values()))
        assert alone(sets) == pytest.approx([0.4 * 0.3, 0.0], abs=1e-12)
        assert joint_values(sets).values == pytest.approx([0.4 * 0.3, 0.0], abs=1e-12)
        ignored = feature_gap(rows, Scores.of(rows, score), sets.coefficient([1]))
        assert ignored.reveals.estimate().value == pytest.approx(0.8, abs=1e-12)
        assert ignored.drives.estimate().value == pytest.approx(0.0, abs=1e-7)
        assert sets.coefficient([0, 1]).value == pytest.approx(direct, abs=1e-12)


def test_of_two_copies_each_carries_the_gap_alone_and_nothing_beside_the_other():
    rows, score, columns = exact_world(lambda _, x: 0.3 + 0.4 * x["used"], used=(0.7, 0.4), noise=(0.5, 0.5))
    sets = cell_sets(rows, score, [columns["used"], 1 - columns["used"], columns["noise"]])
    assert alone(sets) == pytest.approx([0.12, 0.12, 0.0], abs=1e-12)
    assert joint_values(sets).values == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)


def test_an_exclusive_or_carries_nothing_alone_and_the_whole_gap_together():
    rows, score, columns = exact_world(lambda _, x: 0.3 + 0.4 * x["agree"], left=(0.5, 0.5), agree=(0.8, 0.3))
    right = np.where(columns["agree"] == 1, columns["left"], 1 - columns["left"])
    sets = cell_sets(rows, score, [columns["left"], right])
    assert alone(sets) == pytest.approx([0.0, 0.0], abs=1e-12)
    assert joint_values(sets).values == pytest.approx([0.2, 0.2], abs=1e-12)
    assert gap(rows, Scores.of(rows, score)).value == pytest.approx(0.2)


def test_what_a_score_takes_from_one_group_is_c_of_all_features_and_of_no_smaller_set():
    rows, score, columns = exact_world(
        lambda mine, x: 0.3 + 0.2 * x["one"] + 0.2 * x["two"] - 0.05 * mine, one=(0.7, 0.4), two=(0.6, 0.3)
    )
    sets = cell_sets(rows, score, list(columns.values()))
    assert sets.coefficient([0, 1]).value == pytest.approx(-0.05, abs=1e-12)
    assert sets.coefficient([0]).value == pytest.approx(-0.05 + 0.06, abs=1e-12)
    assert joint_values(sets).values == pytest.approx([0.06, 0.06], abs=1e-12)


def test_a_joint_value_may_have_the_other_sign_than_the_gap():
    rows, score, columns = exact_world(
        lambda _, x: 0.3 + 0.4 * x["up"] - 0.2 * x["down"], up=(0.7, 0.4), down=(0.6, 0.4)
    )
    sets = cell_sets(rows, score, list(columns.values()))
    assert joint_values(sets).values == pytest.approx([0.12, -0.04], abs=1e-12)


def test_rows_that_are_shown_change_the_error_but_not_the_value():
    audited, score, columns, weights = draw(4, size=20_000)
    rows = Rows.of(audited, weights)
    whole = joint_values(cell_sets(rows, score, columns, leaves_one_out=True))
    part = joint_values(cell_sets(rows, score, columns, leaves_one_out=True, shown=slice(None, None, 4)))
    np.testing.assert_array_equal(part.values, whole.values)
    one, other = (np.sqrt(np.diag(covariance(x.influence, x.between))) for x in (part, whole))
    np.testing.assert_allclose(one, other, rtol=0.03)


def test_joint_codes_number_the_rows_that_occur():
    codes = np.array([[2, 0], [0, 1], [2, 0], [0, 0]])
    cell, levels = joint_codes(codes)
    np.testing.assert_array_equal(levels[cell], codes)
    assert sorted(set(cell.tolist())) == [0, 1, 2]


@pytest.mark.parametrize("most", [3, 40, 500_000])
def test_joint_codes_are_in_the_order_of_their_codes(most):
    codes = np.random.default_rng(0).integers(0, most, (2_000, 3))
    cell, levels = joint_codes(codes)
    expected, place = np.unique(codes, axis=0, return_inverse=True)
    np.testing.assert_array_equal(levels, expected)
    np.testing.assert_array_equal(cell, place.ravel())


# By ridge regressions.

OWNERS = np.array([[0, 0], [0, 0], [1, 1], [2, 2], [3, 3], [0, 1], [1, 2], [2, 3]])
FEATURES = 4


def regressed(seed, size=900, is_weighted=True):
    """Return features with products of some, their rows z = (1, Φ, S̄, W), folds and regressions."""
    rng = np.random.default_rng(seed)
    audited = rng.random(size) < 0.4
    x = rng.normal(size=(size, FEATURES)) + 0.4 * audited[:, None] * [1, 0, 0.5, 0]
    phi = np.column_stack(
        [x[:, 0], x[:, 0] ** 2, x[:, 1], x[:, 2], x[:, 3], *(x[:, a] * x[:, b] for a, b in OWNERS[5:])]
    )
    score = np.clip(0.5 + 0.1 * x[:, 0] - 0.05 * x[:, 1] * x[:, 2] + 0.05 * rng.normal(size=size), 0, 1)
    rows = Rows.of(audited, rng.uniform(0.3, 2.0, size) if is_weighted else None)
    fold = rng.permutation(np.arange(size) % FOLDS)
    z = np.column_stack([np.ones(size), phi, audited, score])
    return rows, z, fold, ridges_of(rows, z, fold)


def ridges_of(rows, z, fold):
    omega = half_weights(rows)
    grams = np.array([(z[fold == k] * omega[fold == k][:, None]).T @ z[fold == k] for k in range(FOLDS)])
    return FoldRidges(
        grams, OWNERS, np.unique(OWNERS, axis=0, return_inverse=True)[1].reshape(-1), 1.0 / float(omega @ omega)
    )


def residuals(rows, z, fold, part, columns, penalty, target):
    """Return what a ridge regression leaves at every row, fitted on the folds of a part, a row at a time."""
    train = np.isin(fold, PARTS[part])
    w = half_weights(rows)[train] / half_weights(rows)[train].sum()
    phi, y = z[:, 1:-2][:, columns], z[:, -2 + target]
    centre, middle = w @ phi[train], w @ y[train]
    centred = phi - centre
    gram = (centred[train] * w[:, None]).T @ centred[train] + np.diag(penalty[columns])
    slopes = np.linalg.solve(gram, (centred[train] * w[:, None]).T @ (y[train] - middle))
    return y - middle - centred @ slopes


SETS = [[], [0], [1, 2], [0, 1, 2, 3], [3, 2]]


def columns_of(chosen):
    return [k for k, (a, b) in enumerate(OWNERS) if a in chosen and b in chosen]


def test_a_product_belongs_to_a_set_that_has_both_of_its_features():
    _, _, _, ridges = regressed(0)
    for chosen in SETS:
        np.testing.assert_array_equal(np.flatnonzero(ridges.members(chosen)), columns_of(chosen))


@pytest.mark.parametrize("is_weighted", [False, True])
def test_residual_vectors_are_those_of_regressions_on_the_rows_of_a_part(is_weighted):
    rows, z, fold, ridges = regressed(1, is_weighted=is_weighted)
    vectors = ridges.single_sets(SETS)
    for part in range(len(PARTS)):
        for place, chosen in enumerate(SETS):
            for target, penalty in enumerate(of.penalties[part] for of in ridges.targets):
                expected = residuals(rows, z, fold, part, columns_of(chosen), penalty, target)
                np.testing.assert_allclose(z @ vectors[part][target, :, place], expected, atol=1e-10)


def test_leaving_columns_out_equals_solving_without_them():
    _, _, _, ridges = regressed(3)
    gone = [[], [0], [2], [1, 3], [0, 1, 2, 3]]
    kept = [[j for j in range(FEATURES) if j not in one] for one in gone]
    for found, expected in zip(ridges.left_out(gone), ridges.single_sets(kept), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
def test_leading_sets_are_the_same_sets_solved_by_themselves(order):
    _, _, _, ridges = regressed(4)
    expected = ridges.single_sets([order[:size] for size in range(FEATURES + 1)])
    for found, one in zip(ridges.leading_sets(order), expected, strict=True):
        np.testing.assert_allclose(found, one, atol=1e-10)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_means_from_grams_are_the_weighted_means_over_all_rows(is_weighted):
    rows, z, fold, ridges = regressed(5, is_weighted=is_weighted)
    vectors = ridges.single_sets(SETS)
    means, values = ridges.means(vectors), ridges.row_values(z, fold, vectors)
    omega = half_weights(rows)
    for mean, value in zip((means.product, means.residual, means.left), values, strict=True):
        np.testing.assert_allclose(mean.mean(axis=0), omega @ value, atol=1e-14)
    np.testing.assert_allclose(means.value, (omega @ values[0]) / (omega @ values[1]), atol=1e-12)


def test_c_is_that_of_a_cross_fit_written_out_row_by_row():
    rows, z, fold, ridges = regressed(6)
    omega, chosen = half_weights(rows), [0, 2]
    left = [
        [
            residuals(rows, z, fold, part, columns_of(chosen), ridges.targets[target].penalties[part], target)
            for target in (0, 1)
        ]
        for part in range(len(PARTS))
    ]
    by_pairing = np.zeros((3, 2))
    for number in range(3):
        for held in range(FOLDS):
            own = fold == held
            a, b = PAIRINGS[held][number]
            product = 0.5 * (left[a][0] * left[b][1] + left[b][0] * left[a][1])
            by_pairing[number] += [omega[own] @ one[own] for one in (product, left[a][0] * left[b][0])]
    means = ridges.means(ridges.single_sets([chosen]))
    assert means.value[0] == pytest.approx(by_pairing[:, 0].sum() / by_pairing[:, 1].sum(), abs=1e-12)
    np.testing.assert_allclose(means.between[:, 0], by_pairing[:, 0] / by_pairing[:, 1] - means.value[0], atol=1e-12)


def test_both_regressions_are_fitted_on_rows_of_their_own():
    for fold, pairings in enumerate(PAIRINGS):
        assert len(set(pairings)) == 3
        for a, b in pairings:
            assert sorted((*PARTS[a], *PARTS[b], fold)) == list(range(FOLDS))


@pytest.mark.parametrize("same", [True, False])
def test_the_pairings_mean_has_15_fourths_of_the_variance_seen_between_them(same):
    """Folds have errors of their own; a regression of two folds errs by their mean, and a fold sees two of them."""
    rng = np.random.default_rng(0)
    e = rng.standard_normal((20_000, FOLDS, 3))  # in three coefficients
    m = e if same else rng.standard_normal((20_000, FOLDS, 3))

    def of(errors, part):
        return errors[:, PARTS[part]].mean(axis=1)

    remainders = [
        np.mean([(of(e, a) * of(m, b) + of(e, b) * of(m, a)).sum(axis=1) / 2 for a, b in pairs], axis=0)
        for pairs in zip(*PAIRINGS, strict=True)
    ]
    between = np.array(remainders) - np.mean(remainders, axis=0)
    seen = np.mean([covariance(np.zeros((1, 1)), one[:, None])[0, 0] for one in between.T])
    assert seen == pytest.approx(np.mean(remainders, axis=0).var(), rel=0.05)


def test_a_regression_does_not_know_the_rows_it_is_used_on():
    rows, z, fold, ridges = regressed(7)
    moved = z.copy()
    own = fold == 0
    moved[own, -1] = np.random.default_rng(0).random(own.sum())
    other = ridges_of(rows, moved, fold)
    one, two = ridges.single_sets(SETS), other.single_sets(SETS)
    for a, b in PAIRINGS[0]:
        np.testing.assert_array_equal(one[a], two[a])
        np.testing.assert_array_equal(one[b], two[b])


def ridge_sets(seed, **options):
    rows, z, fold, ridges = regressed(seed, **options)
    return RidgeSets(ridges, FEATURES, z, fold, rows)


def test_sets_by_ridges_are_the_same_however_they_are_asked_for():
    sets = ridge_sets(8)
    for found, wanted in (
        (sets.left_out(), [[0, 1, 2, 3], [1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]),
        (sets.along([2, 0, 3, 1]), [[], [2], [2, 0], [2, 0, 3], [2, 0, 3, 1]]),
    ):
        expected = sets.sets(wanted)
        np.testing.assert_allclose(found.values, expected.values, atol=1e-10)
        np.testing.assert_allclose(found.influence, expected.influence, atol=1e-10)
        np.testing.assert_allclose(found.between, expected.between, atol=1e-10)
    single, between = sets.coefficients([[1], [3]])
    expected = sets.sets([[1], [3]])
    assert [one.value for one in single] == pytest.approx(expected.values, abs=1e-12)
    np.testing.assert_allclose(between, expected.between, atol=1e-12)
    for k, one in enumerate(single):
        np.testing.assert_allclose(one.estimate(sets.at).influence, expected.influence[:, k], atol=1e-14)


def test_many_sets_are_looked_at_in_blocks():
    sets = ridge_sets(9)
    every = [[j for j in range(FEATURES) if mask >> j & 1] for mask in range(16)] * 3
    found = sets.sets(every)
    assert found.influence.shape == (900, 48)
    np.testing.assert_allclose(found.values[:16], found.values[32:], atol=1e-12)


def test_errors_of_an_estimated_target_enter_c_by_ridges():
    rows, z, fold, ridges = regressed(12)
    plain = RidgeSets(ridges, FEATURES, z, fold, rows)
    rng = np.random.default_rng(0)
    corrections, parameters = rng.normal(size=len(z)), rng.normal(size=(len(z), 1)) / len(z)
    mean = float(rows.balanced_weights @ corrections)
    spread = plain.means(SETS)[1]
    # ∂W/∂t = W: c_A moves by c_A·dt.
    target = TargetErrors(corrections, mean, z[:, -1:], parameters)
    found, before = replace(plain, target=target).sets(SETS), plain.sets(SETS)
    np.testing.assert_allclose(found.values, before.values + mean / spread, atol=1e-12)
    shifted = TargetErrors(corrections, mean, z[:, -1:], 0 * parameters)
    moved = found.influence - replace(plain, target=shifted).sets(SETS).influence
    np.testing.assert_allclose(moved, parameters * before.values, atol=np.abs(parameters).max() * 0.02)


def test_fewer_rows_keep_the_size_of_each_group_s_part_in_an_error():
    rng = np.random.default_rng(1)
    errors = TargetErrors(rng.normal(size=900), 0.0, rng.normal(size=(900, 2)), rng.normal(size=(900, 2)))
    audited, index = rng.random(900) < 0.3, np.arange(0, 900, 7)
    few = errors.take(index, audited)
    for own in (audited, ~audited):
        kept, whole = few.parameters[own[index]], errors.parameters[own]
        np.testing.assert_allclose((kept**2).sum(axis=0), (whole**2).sum(axis=0))
    twos = Rows.of(audited[index], None, np.arange(index.size) // 2)
    assert errors.take(index, audited, twos).parameters.shape == (65, 2)


def test_without_features_c_by_ridges_is_the_gap():
    rows, z, _, _ = regressed(10)
    found = ridge_sets(10).sets([[]])
    whole = gap(rows, Scores.of(rows, z[:, -1]))
    assert found.values[0] == pytest.approx(whole.value, abs=0.1 * whole.se)
    error = np.sqrt(covariance(found.influence, found.between)[0, 0])
    assert error == pytest.approx(whole.se, rel=0.02)


def test_swapping_the_groups_flips_the_sign_of_c_by_ridges():
    rows, z, fold, ridges = regressed(11)
    turned = z.copy()
    turned[:, -2] = 1 - z[:, -2]
    swapped = Rows.of(~rows.audited, rows.weights)
    one = RidgeSets(ridges, FEATURES, z, fold, rows).sets(SETS)
    other = RidgeSets(ridges_of(swapped, turned, fold), FEATURES, turned, fold, swapped).sets(SETS)
    np.testing.assert_allclose(other.values, -one.values, atol=1e-10)
    np.testing.assert_allclose(other.influence, -one.influence, atol=1e-10)


def test_joint_values_by_ridges_hold_the_truth():
    """x0 and the product of x1 and x2 set the score; x0 and x2 go with the group; x3 is noise."""
    truth, hits, found = np.array([0.04, 0.0, 0.0, 0.0]), np.zeros(FEATURES), []
    for seed in range(100):  # E[x1·x2|S] = 0 in both groups: the product moves nobody's mean
        rows, z, fold, ridges = regressed(seed, size=1_500, is_weighted=False)
        joint = joint_values(RidgeSets(ridges, FEATURES, z, fold, rows))
        se = np.sqrt(np.diag(covariance(joint.influence, joint.between)))
        found.append(joint.values)
        hits += np.abs(joint.values - truth) < 1.96 * se
    error = np.std(found, axis=0) / np.sqrt(100)
    assert (np.abs(np.mean(found, axis=0) - truth) < 3 * error + 1e-4).all()
    assert (hits >= 90).all()
