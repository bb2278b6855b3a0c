"""Quadratic forms of group means: unbiased with two people per group; main effects and interaction add up."""

from itertools import permutations, product

import numpy as np
import pytest

from tiltlens._estimators.group_means import (
    GroupMeans,
    dispersion,
    effect_forms,
    equal_means_p_value,
    form_moments,
    shrink_means,
    total_form,
)


def sums_of(groups, weights=None):
    rows = []
    for index, values in enumerate(groups):
        x = np.asarray(values, dtype=float)
        w = np.ones_like(x) if weights is None else np.asarray(weights[index], dtype=float)
        rows.append([x.size, w.sum(), (w**2).sum(), w @ x, w**2 @ x, (w * x) @ (w * x)])
    return np.array(rows)


def theta_of(groups, share):
    means = GroupMeans.of(sums_of(groups))
    return float(form_moments(total_form(share), share, means).value)


def test_theta_equals_the_mean_over_pairs_of_people():
    groups = [[0, 1, 1], [1, 0], [0, 0, 1, 0.5]]
    share = np.array([0.3, 0.3, 0.4])
    pairs = [np.mean([a * b for a, b in permutations(values, 2)]) for values in groups]
    means = np.array([np.mean(values) for values in groups])
    cross = sum(share[g] * share[h] * means[g] * means[h] for g, h in permutations(range(3), 2))
    expected = share @ pairs - cross - share**2 @ pairs
    assert theta_of(groups, share) == pytest.approx(expected, abs=1e-12)


def test_theta_is_unbiased_with_two_people_per_group():
    rates, share = np.array([0.2, 0.5, 0.9]), np.array([0.5, 0.25, 0.25])
    mean = 0.0
    for decisions in product([0, 1], repeat=6):
        groups = np.array(decisions).reshape(3, 2)
        chance = np.prod(np.where(groups == 1, rates[:, None], 1 - rates[:, None]))
        mean += chance * theta_of(groups, share)
    assert mean == pytest.approx(share @ (rates - share @ rates) ** 2, abs=1e-12)


def test_variance_of_theta_equals_that_of_normal_means():
    """(47), by simulation of normal people whose groups have one variance."""
    rng = np.random.default_rng(3)
    people, mu = np.array([2, 3, 5, 8, 40]), np.array([0.0, 0.5, 1.0, 0.3, 0.2])
    share = people / people.sum()
    mean = rng.normal(mu, 1 / np.sqrt(people), (60_000, 5))
    variance = rng.chisquare(people - 1, (60_000, 5)) / (people - 1) / people
    moments = form_moments(total_form(share), share, GroupMeans(people.astype(float), mean, variance))
    theta = share @ (mu - share @ mu) ** 2
    form, v = total_form(share), 1 / people
    matrix = np.diag(form.diagonal) + form.columns * form.signs @ form.columns.T
    exact = 4 * v @ (matrix @ mu) ** 2 + 2 * np.sum(matrix**2 * np.outer(v, v))
    exact += 2 * form.main_diagonal**2 @ (v**2 / (people - 1))
    assert moments.value.mean() == pytest.approx(theta, abs=4 * moments.value.std() / 245)
    assert moments.value.var() == pytest.approx(exact, rel=0.03)


def test_main_effects_and_interaction_add_up_to_theta():
    rng = np.random.default_rng(0)
    codes = np.array([(a, b) for a in range(3) for b in range(4)])[:-1]  # an intersection without people
    people = rng.integers(2, 30, len(codes))
    means = GroupMeans.of(sums_of([rng.random(size) for size in people]))
    share = people / people.sum()
    forms = effect_forms(share, codes)
    total, *parts = (form_moments(form, share, means).value for form in (total_form(share), *forms))
    assert sum(parts) == pytest.approx(total, abs=1e-12)
    additive = codes[:, 0] * 0.1 - codes[:, 1] * 0.2
    certain = GroupMeans(people.astype(float), additive, np.zeros(len(codes)))
    assert form_moments(forms[1], share, certain).value == pytest.approx(0.0, abs=1e-12)


def test_means_of_weighted_people_do_not_depend_on_where_0_is():
    x, w = np.array([0.1, 0.7, 0.4]), np.array([1.0, 3.0, 2.0])
    equal, weighted, moved = (GroupMeans.of(sums_of([y], v)) for y, v in ((x, None), (x, [w]), (x + 5, [w])))
    assert equal.variance[0] == pytest.approx(x.var(ddof=1) / 3)
    assert weighted.mean[0] == pytest.approx(w @ x / 6)
    assert moved.variance == pytest.approx(weighted.variance)


def test_an_interval_of_theta_holds_it_in_most_of_200_data_sets():
    rng = np.random.default_rng(5)
    people, rates = np.full(40, 5), np.clip(0.35 + 0.1 * rng.standard_normal(40), 0.02, 0.98)
    share = people / people.sum()
    theta, held = share @ (rates - share @ rates) ** 2, 0
    for _ in range(200):
        chosen = rng.binomial(people, rates)
        means = GroupMeans.of(np.column_stack([people, people, people, chosen, chosen, chosen]).astype(float))
        low, high = dispersion(total_form(share), share, means).ends(0.95)
        held += low <= theta <= high
    assert 182 <= held <= 199


@pytest.mark.parametrize("is_decisions", [True, False])
def test_p_values_are_small_where_groups_differ_and_large_where_they_do_not(is_decisions):
    people = np.full(30, 8)
    share = people / people.sum()

    def p_value(chosen):
        means = GroupMeans.of(np.column_stack([people, people, people, chosen, chosen, chosen]).astype(float))
        return equal_means_p_value(share, means, is_decisions, seed=0)

    assert p_value(np.tile([1, 7], 15)) < 0.002
    assert p_value(np.full(30, 4)) > 0.9
    assert p_value(np.zeros(30)) == 1.0


def test_shrunken_means_of_equal_groups_are_zero_and_of_certain_ones_their_own():
    share = np.array([0.5, 0.5])
    means = GroupMeans(np.array([50.0, 50.0]), np.array([0.2, 0.6]), np.array([0.004, 0.004]))
    (no_value, no_reach), (value, reach) = (shrink_means(share, means, theta, theta, 0.95) for theta in (0.0, 1e6))
    assert no_value.tolist() == [0.0, 0.0]
    assert no_reach.tolist() == [0.0, 0.0]
    assert value == pytest.approx([-0.2, 0.2], abs=1e-6)
    assert reach == pytest.approx(1.96 * np.sqrt(0.004), rel=1e-3)
