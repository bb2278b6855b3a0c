"""gap(A) = gap − c_A on the values of discrete features: exact identities, known worlds, influence functions, bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import expit

from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.feature_gap import (
    CellSums,
    cell_coefficient,
    cell_sums_of,
    feature_gap,
    hidden_share,
    mean_coefficient,
)
from tiltlens._estimators.influence import Rows
from tiltlens._estimators.outputs import Scores, gap

seeds = st.integers(0, 10**6)


def draw(seed, size=120, levels=4, audited=0.4):
    """Return a group, a score and a feature that go together, and weights."""
    rng = np.random.default_rng(seed)
    mine = np.arange(size) < audited * size
    codes = np.clip((levels * (0.7 * rng.random(size) + 0.3 * mine * rng.random(size))).astype(int), 0, levels - 1)
    score = np.clip(0.2 + 0.4 * codes / levels - 0.1 * mine + 0.2 * rng.random(size), 0.0, 1.0)
    return mine, score, codes, rng.uniform(0.2, 3.0, size)


def c_of(rows, score, codes, leaves_one_out=False):
    return cell_coefficient(rows, score, codes, cell_sums_of(rows, score, codes), leaves_one_out)


def through(rows, score, codes, leaves_one_out=False):
    return feature_gap(rows, Scores.of(rows, score), c_of(rows, score, codes, leaves_one_out))


def half_weights(rows):
    """Return ω: each group has half of the weight."""
    return 0.5 * (rows.audited_share + rows.reference_share)


def least_squares(rows, score, codes):
    """Return the coefficient of the group beside a dummy for each value, both groups with half of the weight."""
    root = np.sqrt(half_weights(rows))
    design = np.column_stack([rows.audited, codes[:, None] == np.unique(codes)])
    return np.linalg.lstsq(design * root[:, None], score * root, rcond=None)[0][0]


def by_value(rows, x, codes):
    """Return E[x | value] of each row."""
    omega, found = half_weights(rows), np.empty(len(x))
    for code in np.unique(codes):
        own = codes == code
        found[own] = np.average(x[own], weights=omega[own])
    return found


def covariance(rows, x, y):
    omega = half_weights(rows)
    return omega @ ((x - omega @ x) * (y - omega @ y))


@given(seeds, st.integers(1, 9), st.booleans())
def test_c_is_the_group_s_coefficient_beside_dummies_of_the_values(seed, levels, is_weighted):
    audited, score, codes, weights = draw(seed, levels=levels)
    rows = Rows.of(audited, weights if is_weighted else None)
    found = c_of(rows, score, codes).value
    assert found == pytest.approx(least_squares(rows, score, codes), abs=1e-12)
    whole = gap(rows, Scores.of(rows, score)).value
    assert through(rows, score, codes).gap.value + found == pytest.approx(whole, abs=1e-12)


def test_without_features_c_is_the_gap():
    audited, score, _, weights = draw(0)
    rows = Rows.of(audited, weights)
    found = c_of(rows, score, rows.single_cell)
    assert found.value == pytest.approx(gap(rows, Scores.of(rows, score)).value, abs=1e-12)
    assert found.estimate(rows).se == pytest.approx(gap(rows, Scores.of(rows, score)).se, rel=1e-12)


@given(seeds, st.integers(2, 9), st.booleans())
def test_gap_is_alignment_times_reveals_times_drives(seed, levels, is_weighted):
    audited, score, codes, weights = draw(seed, levels=levels)
    rows = Rows.of(audited, weights if is_weighted else None)
    found = through(rows, score, codes)
    e, m = by_value(rows, audited.astype(float), codes), by_value(rows, score, codes)
    f = m - c_of(rows, score, codes).value * e
    reveals, drives = (2 * np.sqrt(covariance(rows, x, x)) for x in (e, f))
    assume(min(reveals, drives) > 1e-3)
    assert found.gap.value == pytest.approx(4 * covariance(rows, e, f), abs=1e-12)
    assert found.reveals.estimate().value == pytest.approx(reveals, abs=1e-12)
    assert found.drives.estimate().value == pytest.approx(drives, abs=1e-12)
    assert found.alignment.value == pytest.approx(4 * covariance(rows, e, f) / (reveals * drives), abs=1e-10)
    product = found.alignment.value * found.reveals.estimate().value * found.drives.estimate().value
    assert found.gap.value == pytest.approx(product, abs=1e-12)
    assert abs(found.alignment.value) <= 1 + 1e-10
    assert 0.0 <= found.reveals.estimate().value <= 1.0


@given(seeds, st.booleans(), st.booleans())
def test_swapping_the_groups_flips_signs_and_nothing_else(seed, is_weighted, leaves_one_out):
    audited, score, codes, weights = draw(seed)
    weights = weights if is_weighted else None
    one = through(Rows.of(audited, weights), score, codes, leaves_one_out)
    other = through(Rows.of(~audited, weights), score, codes, leaves_one_out)
    assert other.gap.value == pytest.approx(-one.gap.value, abs=1e-12)
    assert other.gap.se == pytest.approx(one.gap.se, rel=1e-9)
    for name in ("reveals", "drives"):
        first, second = getattr(one, name), getattr(other, name)
        assert (second.square, second.se) == pytest.approx((first.square, first.se), rel=1e-9, abs=1e-12)
    assert other.alignment.value == pytest.approx(-one.alignment.value, abs=1e-9)
    assert other.alignment.se == pytest.approx(one.alignment.se, rel=1e-6)


@given(seeds, seeds)
def test_gap_and_c_are_linear_in_the_score(seed, other_seed):
    audited, score, codes, weights = draw(seed)
    other = np.random.default_rng(other_seed).random(score.size)
    rows = Rows.of(audited, weights)
    for quantity in (lambda w: c_of(rows, w, codes).value, lambda w: through(rows, w, codes).gap.value):
        assert quantity((score + other) / 2) == pytest.approx((quantity(score) + quantity(other)) / 2, abs=1e-12)
        assert quantity(1.0 - score) == pytest.approx(-quantity(score), abs=1e-12)


@pytest.mark.parametrize("leaves_one_out", [False, True])
def test_what_a_score_takes_from_one_group_is_c_of_all_features(leaves_one_out):
    audited, _, codes, weights = draw(1, size=600)
    score = 0.3 + 0.1 * codes - 0.05 * audited
    rows = Rows.of(audited, weights)
    found = c_of(rows, score, codes, leaves_one_out)
    assert found.value == pytest.approx(-0.05, abs=1e-12)
    assert found.estimate(rows).se == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("leaves_one_out", [False, True])
def test_a_feature_that_determines_the_score_carries_the_whole_gap(leaves_one_out):
    audited, _, codes, weights = draw(2, size=600)
    rows = Rows.of(audited, weights)
    found = through(rows, 0.2 + 0.1 * codes, codes, leaves_one_out)
    whole = gap(rows, Scores.of(rows, 0.2 + 0.1 * codes))
    assert found.gap.value == pytest.approx(whole.value, abs=1e-12)
    np.testing.assert_allclose(found.gap.influence, whole.influence, atol=1e-15)


def test_a_copy_of_the_group_reveals_it_completely():
    audited, score, _, weights = draw(3)
    rows = Rows.of(audited, weights)
    c = c_of(rows, score, audited.astype(int))
    assert c.is_separated
    assert through(rows, score, audited.astype(int)).reveals.estimate().value == pytest.approx(1.0, abs=1e-12)
    assert not c_of(rows, score, (audited & (np.arange(audited.size) > 3)).astype(int)).is_separated


def test_one_value_for_all_reveals_and_carries_nothing():
    audited, score, _, weights = draw(4)
    rows = Rows.of(audited, weights)
    found = through(rows, score, rows.single_cell)
    assert found.gap.value == pytest.approx(0.0, abs=1e-12)
    assert found.gap.se == pytest.approx(0.0, abs=1e-12)
    assert found.reveals.estimate().value == pytest.approx(0.0, abs=1e-7)
    assert found.alignment.estimate() == Estimate(0.0, -1.0, 1.0)


def test_a_constant_score_is_driven_by_nothing():
    audited, _, codes, weights = draw(5)
    found = through(Rows.of(audited, weights), np.full(audited.size, 0.3), codes, leaves_one_out=True)
    assert found.gap.value == pytest.approx(0.0, abs=1e-12)
    assert found.drives.estimate().value == pytest.approx(0.0, abs=1e-6)
    assert found.alignment.estimate() == Estimate(0.0, -1.0, 1.0)


def test_a_value_that_hardly_any_audited_person_has_carries_the_gap_it_sets():
    """Half of the men and 3 of 5,000 women served in the army, which alone sets the score."""
    audited = np.arange(10_000) < 5_000
    army = np.concatenate([np.arange(5_000) < 3, np.arange(5_000) < 2_500]).astype(int)
    noise = np.random.default_rng(0).uniform(-0.05, 0.05, 10_000)
    rows = Rows.of(audited)
    found = through(rows, 0.3 + 0.4 * army + noise, army, leaves_one_out=True)
    assert found.gap.normal().estimate().high < -0.19
    assert found.gap.value == pytest.approx(gap(rows, Scores.of(rows, 0.3 + 0.4 * army)).value, abs=2 * found.gap.se)


def test_a_feature_of_400_values_carries_its_gap():
    rng = np.random.default_rng(0)
    place, audited = rng.integers(0, 400, 20_000), np.zeros(20_000, dtype=bool)
    share = rng.random(400)
    audited[rng.random(20_000) < share[place]] = True
    rows = Rows.of(audited)
    score = np.clip(0.7 - 0.5 * share[place] + rng.uniform(-0.1, 0.1, 20_000), 0, 1)
    found = through(rows, score, place, leaves_one_out=True).gap.normal().estimate()
    assert found.low <= gap(rows, Scores.of(rows, score)).value <= found.high
    assert found.high < -0.1


# Influence functions: the derivative by a row's weight.

QUANTITIES = {
    "c": lambda rows, score, codes: c_of(rows, score, codes).estimate(rows),
    "gap(A)": lambda rows, score, codes: through(rows, score, codes).gap,
}
SQUARES = {
    "reveals²": lambda rows, score, codes: through(rows, score, codes).reveals,
    "drives²": lambda rows, score, codes: through(rows, score, codes).drives,
    "alignment": lambda rows, score, codes: through(rows, score, codes).alignment,
}


def value_of(found):
    return found.square if hasattr(found, "square") else found.value


def slopes(quantity, audited, score, codes, weights, step=1e-5):
    """Return ∂value/∂weight of every row times the weight, by central differences."""
    found = []
    for row in range(audited.size):
        ends = []
        for sign in (1, -1):
            moved = weights.copy()
            moved[row] *= 1 + sign * step
            ends.append(value_of(quantity(Rows.of(audited, moved), score, codes)))
        found.append((ends[0] - ends[1]) / (2 * step))
    return np.array(found)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("name", QUANTITIES)
def test_influence_is_the_derivative_by_the_row_weight(name, is_weighted):
    audited, score, codes, weights = draw(6)
    weights = weights if is_weighted else np.ones(audited.size)
    influence = QUANTITIES[name](Rows.of(audited, weights), score, codes).influence
    np.testing.assert_allclose(slopes(QUANTITIES[name], audited, score, codes, weights), influence, atol=1e-9)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("name", SQUARES)
def test_standard_errors_of_the_factors_are_those_of_the_derivatives(name, is_weighted):
    audited, score, codes, weights = draw(7, size=200)
    weights = weights if is_weighted else np.ones(audited.size)
    found = SQUARES[name](Rows.of(audited, weights), score, codes)
    expected = np.linalg.norm(slopes(SQUARES[name], audited, score, codes, weights))
    assert found.se == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", QUANTITIES)
def test_integer_weights_equal_repeated_rows(name):
    audited, score, codes, _ = draw(8)
    times = np.random.default_rng(8).integers(1, 4, audited.size)
    weighted = QUANTITIES[name](Rows.of(audited, times), score, codes)
    repeated = QUANTITIES[name](
        Rows.of(*(np.repeat(audited, times),)), np.repeat(score, times), np.repeat(codes, times)
    )
    assert weighted.value == pytest.approx(repeated.value, abs=1e-12)


# Leaving one out.


@pytest.mark.parametrize("levels", [3, 40])
def test_leaving_one_out_compares_each_row_with_the_others_of_its_value(levels):
    audited, score, codes, _ = draw(9, levels=levels)
    rows = Rows.of(audited)
    omega, product, residual = half_weights(rows), np.zeros(audited.size), np.zeros(audited.size)
    e, compared = by_value(rows, audited.astype(float), codes), 0.0
    for row in range(audited.size):
        others = (codes == codes[row]) & (np.arange(audited.size) != row)
        if others.any():
            away = [x[row] - np.average(x[others], weights=omega[others]) for x in (score, audited.astype(float))]
            product[row], residual[row] = ((audited[row] - e[row]) * one for one in away)
            compared += omega[row]
    found = c_of(rows, score, codes, leaves_one_out=True)
    np.testing.assert_allclose(found.product, product / compared, atol=1e-12)
    np.testing.assert_allclose(found.residual, residual / compared, atol=1e-12)
    assert (compared < 0.99) == (levels == 40)
    assert found.mean_residual == pytest.approx(omega @ residual / compared, abs=1e-12)
    assert found.value == pytest.approx((omega @ product) / (omega @ residual), abs=1e-12)


def test_leaving_one_out_finds_nothing_in_noise_of_many_values_and_a_rare_group():
    """A noise feature of 40 values, 5 % audited, a score that uses the group itself: nothing goes through it."""
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        audited = np.arange(2_000) < 100
        codes = rng.integers(0, 40, 2_000)
        score = np.clip(0.5 - 0.15 * audited + rng.uniform(-0.2, 0.2, 2_000), 0, 1)
        out, kept = (through(Rows.of(audited), score, codes, one_out) for one_out in (True, False))
        found.append([out.gap.value, out.reveals.square, kept.reveals.square])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(200)
    assert (np.abs(mean[:2]) < 3 * error[:2]).all()
    assert mean[2] > 0.05  # by the values' own means, noise seems to reveal the group


def test_leaving_one_out_is_unbiased_where_the_values_carry_a_gap_of_a_rare_group():
    """40 values that differ in share, score and in what the group loses there, 5 % audited; theory.md's hard case."""
    world = np.random.default_rng(5)
    shares = world.dirichlet(np.full(40, 3.0), 2)
    means, direct = world.uniform(0.3, 0.7, 40), world.uniform(-0.3, 0.1, 40)
    total = shares.sum(axis=0) / 2
    overlap = total * (shares[0] / (2 * total)) * (shares[1] / (2 * total))
    c = overlap @ direct / overlap.sum()
    truth = shares[0] @ (means + direct) - shares[1] @ means - c
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        audited = np.arange(2_000) < 100
        codes = np.where(audited, *(rng.choice(40, 2_000, p=share) for share in shares))
        score = np.clip(means[codes] + direct[codes] * audited + rng.uniform(-0.1, 0.1, 2_000), 0, 1)
        found.append(through(Rows.of(audited), score, codes, leaves_one_out=True).gap)
    values, se = (np.array([getattr(one, name) for one in found]) for name in ("value", "se"))
    assert abs(values.mean() - truth) < 3 * values.std() / np.sqrt(200)
    assert 0.9 <= np.mean(np.abs(values - truth) < 1.96 * se) <= 0.99


def test_rows_alone_in_their_value_do_not_make_noise_reveal_the_group_or_drive_the_score():
    rng = np.random.default_rng(0)
    audited = rng.random(2_000) < 0.5
    codes = np.where(np.arange(2_000) < 70, np.arange(2_000), 70 + rng.integers(0, 8, 2_000))  # 3.5 % are alone
    found = through(Rows.of(audited), rng.random(2_000), codes, leaves_one_out=True)
    assert found.reveals.estimate().low == 0.0
    assert found.drives.estimate().low == 0.0
    assert found.reveals.estimate().value < 0.05


def test_intervals_of_the_gap_hold_the_truth():
    shares = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
    means = np.array([0.2, 0.5, 0.3, 0.7])
    e = shares[0] / shares.sum(axis=0)
    within = (shares.sum(axis=0) / 2) @ (e * (1 - e))
    direct = -0.05
    truth = (shares[0] - shares[1]) @ means
    hits = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        audited = rng.random(1_000) < 0.3
        codes = np.where(audited, rng.choice(4, 1_000, p=shares[0]), rng.choice(4, 1_000, p=shares[1]))
        score = means[codes] + direct * audited + rng.uniform(-0.15, 0.15, 1_000)
        found = through(Rows.of(audited), np.clip(score, 0, 1), codes, leaves_one_out=True).gap.normal().estimate()
        hits += found.low <= truth <= found.high
    assert within > 0.1
    assert 0.92 <= hits / 300 <= 0.98


# Sums over all rows, and a sample that stands for them.


def test_sums_of_parts_and_of_joined_values_add_up():
    audited, score, codes, weights = draw(10)
    rows = Rows.of(audited, weights)
    order = np.arange(audited.size) % 2 == 0
    whole = cell_sums_of(rows, score, codes, 4)
    parts = [
        cell_sums_of(replace(rows, audited=audited[half], weights=weights[half]), score[half], codes[half], 4)
        for half in (order, ~order)
    ]
    joined = whole.merge(np.array([0, 1, 1, 0]))
    expected = cell_sums_of(rows, score, np.array([0, 1, 1, 0])[codes], 2)
    for name in ("people", "weight", "square", "first", "second"):
        np.testing.assert_allclose(getattr(parts[0] + parts[1], name), getattr(whole, name), rtol=1e-12)
        np.testing.assert_allclose(getattr(joined, name), getattr(expected, name), rtol=1e-12)
        np.testing.assert_array_equal(getattr(whole.of(1, 0), name), getattr(whole, name)[::-1])


@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_sample_that_stands_for_all_rows_has_their_values_and_standard_errors(is_weighted):
    audited, score, codes, weights = draw(11, size=60_000, levels=12, audited=0.3)
    rows = Rows.of(audited, weights if is_weighted else None)
    every = Scores.of(rows, score)
    sums = cell_sums_of(rows, score, codes)
    whole = feature_gap(rows, every, cell_coefficient(rows, score, codes, sums))
    drawn = np.concatenate([np.flatnonzero(audited)[:9_000], np.flatnonzero(~audited)[:8_000]])
    part = Rows.of(audited[drawn], rows.weights[drawn]).represent(rows)
    scores = replace(every, values=every.values[drawn])
    found = feature_gap(part, scores, cell_coefficient(part, score[drawn], codes[drawn], sums))
    assert found.gap.value == whole.gap.value
    assert found.gap.se == pytest.approx(whole.gap.se, rel=0.03)
    for name in ("reveals", "drives"):
        one, other = getattr(found, name), getattr(whole, name)
        assert one.square == other.square
        assert one.se == pytest.approx(other.se, rel=0.03)
    assert found.alignment.value == whole.alignment.value
    assert found.alignment.se == pytest.approx(whole.alignment.se, rel=0.03)


def one_group(*rows):
    return np.array(rows, dtype=float)


def unit_sums(audited, reference):
    """Return the sums of so many people of weight 1 in each value."""
    people = one_group(audited, reference)
    return CellSums(people, people, people, 0 * people, 0 * people)


def test_hidden_are_the_values_with_fewer_than_three_effective_rows():
    assert hidden_share(unit_sums([50, 50], [50, 50])) == 0.0
    assert hidden_share(unit_sums([1, 1, 97, 1], [0, 1, 97, 2])) == pytest.approx((1 + 2) / 200)
    assert hidden_share(unit_sums([1, 9], [10, 990])) == pytest.approx(0.5 * (1 / 10 + 10 / 1000))
    assert hidden_share(unit_sums([0, 10], [100, 900])) == pytest.approx(0.05)
    assert hidden_share(unit_sums([3, 7], [0, 1000])) == 0.0


def test_hidden_rows_are_counted_by_what_their_weights_are_worth():
    people = one_group([4, 96], [4, 96])
    heavy = CellSums(people, people, 2 * people, 0 * people, 0 * people)  # weights worth half of their number
    assert hidden_share(CellSums(people, people, people, 0 * people, 0 * people)) == 0.0
    assert hidden_share(heavy) == 0.0
    assert hidden_share(replace(heavy, square=3 * people)) == pytest.approx(0.04)


# e and m from any regressions.


@pytest.mark.parametrize("direct", [0.0, 0.05])
@pytest.mark.parametrize(("wrong_e", "wrong_m"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
def test_errors_of_the_two_regressions_enter_as_products(wrong_e, wrong_m, direct):
    """An error of e shrinks c by D/(D + E[δe²]), errors of both add E[δe·δm]; an error of m alone does nothing."""
    rng = np.random.default_rng(0)
    audited = rng.random(200_000) < 0.5
    x = rng.normal(size=200_000) + 0.5 * audited
    rows = Rows.of(audited)
    omega = half_weights(rows)
    e, error_e, error_m = expit(0.5 * x - 0.125), wrong_e * 0.1 * np.cos(x), wrong_m * 0.05 * np.cos(x)
    score = 0.5 + 0.1 * np.tanh(x) + direct * audited + rng.uniform(-0.1, 0.1, 200_000)
    m = 0.5 + 0.1 * np.tanh(x) + direct * e
    left, other = audited - e - error_e, score - m - error_m
    parts = left * other, left**2, other**2
    found = mean_coefficient(rows, *parts).estimate(rows)
    within = omega @ (e * (1 - e))
    expected = (direct * within + omega @ (error_e * error_m)) / (within + omega @ error_e**2)
    assert found.value == pytest.approx(expected, abs=3 * found.se)
    is_right = abs(found.value - direct) < 3 * found.se
    assert is_right == (wrong_e == 0.0 or (wrong_m == 0.0 and direct == 0.0))
