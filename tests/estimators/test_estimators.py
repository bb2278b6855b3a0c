"""Intervals and influence functions, against brute force, exact identities and known truths."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from tiltlens._estimators.crossfit import (
    explained_variance,
    given_pairing,
    gradient,
    gradient_variance,
    input_divergence,
    known_pairing,
    learned_variance,
    pairing,
)
from tiltlens._estimators.estimate import Estimate, Normal, Ratio, Square, SquareRoot
from tiltlens._estimators.influence import InfluenceEstimate, Rows, average_estimates, combine, tail_factor
from tiltlens._estimators.outputs import (
    Scores,
    check_scores,
    equal_outputs_test,
    gap,
    group_rate,
    impact_ratio,
    output_descent,
    output_divergence,
    standardised_difference,
)
from tiltlens.errors import DataError, DistributionError, SupportError, WeightsError


def sample(seed=0, size=400, outcomes=1):
    """Return a draw of everything the estimators take: two Gaussian groups, a logistic score, codes."""
    rng = np.random.default_rng(seed)
    audited = rng.random(size) < 0.4
    x = rng.normal(size=(size, 2)) + np.where(audited[:, None], [0.8, 0.3], 0.0)
    ell = 0.8 * x[:, 0] + 0.3 * x[:, 1] - 0.365
    if outcomes == 1:
        scores = expit(x[:, :1] - 0.3)
    else:
        raw = np.exp(x @ rng.normal(size=(2, outcomes)))
        scores = raw / raw.sum(axis=1, keepdims=True)
    return {
        "audited": audited,
        "scores": scores,
        "ell": ell,
        "ell_a": ell + 0.2 * rng.normal(size=size),
        "ell_b": ell + 0.2 * rng.normal(size=size),
        "fold": rng.integers(0, 5, size),
        "codes": np.clip(np.round(2 * x[:, 0]).astype(int) + 4, 0, 8),
        "weights": rng.uniform(0.5, 2.0, size),
    }


def known_gradient(rows, d, input_weight=1.0, output_weight=1.0):
    return gradient(rows, Scores.of(rows, d["scores"]), known_pairing(rows, d["ell"]), input_weight, output_weight)


def known_variance(rows, d, input_weight=1.0, output_weight=1.0):
    return gradient_variance(rows, [known_gradient(rows, d, input_weight, output_weight)])


def share_of(rows, g, codes):
    return explained_variance(rows, g, codes).over(gradient_variance(rows, [g]))


def first(rows, d):
    return Scores.of(rows, d["scores"][:, 0])


FUNCTIONALS = {
    "gap": lambda rows, d: gap(rows, first(rows, d)),
    "audited rate": lambda rows, d: group_rate(rows, first(rows, d), True),
    "reference rate": lambda rows, d: group_rate(rows, first(rows, d), False),
    "known variance": known_variance,
    "known divergence": lambda rows, d: input_divergence(rows, [known_pairing(rows, d["ell"])]),
}
WITH_SMALL_SAMPLE_TERMS = {
    "variance": lambda rows, d: gradient_variance(rows, [crossfitted(rows, d)]),
    "explained": lambda rows, d: explained_variance(rows, crossfitted(rows, d), d["codes"]),
    "learned": lambda rows, d: learned_variance(rows, crossfitted(rows, d), d["scores"][:, 0], 1.1 * d["scores"][:, 0]),
    "divergence": lambda rows, d: input_divergence(rows, [crossfitted(rows, d).pairing]),
}


def crossfitted(rows, d, input_weight=1.0, output_weight=1.0):
    pair = pairing(rows, d["ell_a"], d["ell_b"], d["fold"])
    return gradient(rows, Scores.of(rows, d["scores"]), pair, input_weight, output_weight)


def slope(functional, d, row, step=1e-5):
    """Return ∂value/∂weight of one row, by central differences."""
    values = []
    for sign in (1, -1):
        weights = np.ones(d["audited"].size)
        weights[row] += sign * step
        values.append(functional(Rows.of(d["audited"], weights), d).value)
    return (values[0] - values[1]) / (2 * step)


@pytest.mark.parametrize("name", FUNCTIONALS)
def test_influence_is_the_derivative_by_the_row_weight(name):
    d = sample()
    influence = FUNCTIONALS[name](Rows.of(d["audited"]), d).influence
    for row in range(0, 400, 37):
        assert slope(FUNCTIONALS[name], d, row) == pytest.approx(influence[row], rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("outcomes", [2, 3])
def test_influence_of_the_variance_is_the_derivative_for_several_outcomes(outcomes):
    d = sample(outcomes=outcomes)
    influence = known_variance(Rows.of(d["audited"]), d).influence
    for row in range(0, 400, 61):
        assert slope(known_variance, d, row) == pytest.approx(influence[row], rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("name", WITH_SMALL_SAMPLE_TERMS)
def test_influence_is_the_derivative_up_to_small_sample_terms(name):
    d = sample(size=3000)
    functional = WITH_SMALL_SAMPLE_TERMS[name]
    influence = functional(Rows.of(d["audited"]), d).influence
    rows = np.arange(0, 3000, 67)
    slopes = np.array([slope(functional, d, row) for row in rows])
    assert np.corrcoef(slopes, influence[rows])[0, 1] > 0.98
    assert np.std(slopes - influence[rows]) < 0.2 * np.std(slopes)


@pytest.mark.parametrize("name", FUNCTIONALS)
def test_integer_weights_equal_repeated_rows(name):
    d = sample(seed=1)
    weights = np.random.default_rng(2).integers(1, 4, d["audited"].size)
    repeated = {key: np.repeat(column, weights, axis=0) for key, column in d.items()}
    weighted = FUNCTIONALS[name](Rows.of(d["audited"], weights), d)
    assert weighted.value == pytest.approx(FUNCTIONALS[name](Rows.of(repeated["audited"]), repeated).value, abs=1e-12)


@pytest.mark.parametrize("name", [*FUNCTIONALS, *WITH_SMALL_SAMPLE_TERMS])
def test_scale_of_weights_and_row_order_are_no_matter(name):
    functional = (FUNCTIONALS | WITH_SMALL_SAMPLE_TERMS)[name]
    d = sample(seed=3)
    order = np.random.default_rng(4).permutation(d["audited"].size)
    shuffled = {key: column[order] for key, column in d.items()}
    plain = functional(Rows.of(d["audited"], d["weights"]), d)
    other = functional(Rows.of(shuffled["audited"], 7 * shuffled["weights"]), shuffled)
    assert other.value == pytest.approx(plain.value, abs=1e-11)
    assert other.se == pytest.approx(plain.se, abs=1e-11)


@pytest.mark.parametrize("output_weight", [0.0, 0.7])
def test_two_columns_equal_one(output_weight):
    d = sample()
    rows = Rows.of(d["audited"], d["weights"])
    both = {**d, "scores": np.hstack([d["scores"], 1 - d["scores"]])}
    one, two = (known_variance(rows, e, 1.0, output_weight) for e in (d, both))
    assert two.value == pytest.approx(one.value, abs=1e-12)
    assert two.se == pytest.approx(one.se, abs=1e-12)


def share_by_pairs(x, codes):
    """Return an unbiased Var(E[x|code]) from products of different rows, over Var(x)."""
    x, n, total = x - x.mean(), x.size, 0.0
    for code in np.unique(codes):
        own = x[codes == code]
        if own.size > 1:
            total += (own.sum() ** 2 - (own**2).sum()) / (own.size - 1)
    return (total + x.var(ddof=1)) / n / x.var()


def test_share_at_input_weight_0_is_the_share_of_the_score():
    d = sample()
    rows, mine = Rows.of(d["audited"]), d["audited"]
    expected = share_by_pairs(d["scores"][mine, 0], d["codes"][mine])
    found = share_of(rows, known_gradient(rows, d, 0.0, 1.0), d["codes"])
    assert found.estimate().value == pytest.approx(expected, rel=1e-9)
    noisy = {**d, "ell": np.random.default_rng(0).normal(size=400)}
    found = share_of(rows, known_gradient(rows, noisy, 0.0, 3.0), d["codes"])
    assert found.estimate().value == pytest.approx(expected, rel=1e-9)


def test_share_at_output_weight_0_is_the_share_of_the_log_ratio():
    d = sample()
    rows, mine = Rows.of(d["audited"]), d["audited"]
    expected = share_by_pairs(d["ell"][mine], d["codes"][mine])
    found = share_of(rows, known_gradient(rows, d, 2.0, 0.0), d["codes"])
    assert found.estimate().value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_explained_variance_against_brute_force(weighted):
    d = sample(size=300)
    weights = d["weights"] if weighted else np.ones(300)
    rows = Rows.of(d["audited"], weights)
    g = crossfitted(rows, d)
    g = replace(g, input_weight=0.0)  # the sum alone, without its correction
    total = 0.0
    size = weights[d["audited"]].sum()
    for fold in range(5):
        members = np.flatnonzero(d["audited"] & (d["fold"] == fold))
        w = weights[members]
        spare = w.sum() ** 2 - (w**2).sum()
        covariance = (w * g.a[members] * g.b[members]).sum() * w.sum() / spare
        total += covariance * (w**2).sum() / w.sum() / size
        for code in np.unique(d["codes"][members]):
            cell = members[d["codes"][members] == code]
            v = weights[cell]
            pairs = np.outer(v * g.a[cell], v * g.b[cell])
            spare = v.sum() ** 2 - (v**2).sum()
            if cell.size > 1:
                total += v.sum() * (pairs.sum() - np.trace(pairs)) / spare / size
    assert explained_variance(rows, g, d["codes"]).value == pytest.approx(total, rel=1e-10)


def test_clipping_leaves_a_constant_in_the_log_ratio_without_effect():
    d = sample(size=2000)
    rows = Rows.of(d["audited"])
    shifted = {**d, "ell_a": d["ell_a"] + 0.3, "ell_b": d["ell_b"] - 0.2}
    plain, moved = (gradient_variance(rows, [crossfitted(rows, e)]).value for e in (d, shifted))
    assert moved == pytest.approx(plain, rel=1e-9)


def test_double_cross_fit_removes_the_noise_of_both_models():
    rng = np.random.default_rng(0)
    errors, plug_in, hits = [], [], 0
    for _ in range(40):
        size = 2000
        audited = rng.random(size) < 0.4
        x = rng.normal(size=size) + audited
        ell = x - 0.5
        a, b = ell + 0.4 * rng.normal(size=size), ell + 0.4 * rng.normal(size=size)
        rows = Rows.of(audited)
        scores = Scores.of(rows, expit(x))
        pair = pairing(rows, a, b, rng.integers(0, 5, size))
        found = gradient_variance(rows, [gradient(rows, scores, pair, 1.0, 0.0)])
        errors.append((found.value - 1.0) / found.se)
        hits += abs(errors[-1]) < 1.96
        plug_in.append(np.var(a[audited]) - 1.0)
    assert np.mean(plug_in) > 0.12
    assert abs(np.mean(errors)) < 0.5
    assert hits >= 35


def test_known_membership_covers_without_a_correction():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        audited = rng.random(500) < 0.4
        x = rng.normal(size=500) + audited
        rows = Rows.of(audited)
        pair = known_pairing(rows, x - 0.5)
        low_high = [
            gradient_variance(rows, [gradient(rows, Scores.of(rows, expit(x)), pair, 1.0, 0.0)]).normal().estimate(),
            input_divergence(rows, [pair]).normal().estimate(),
        ]
        hits += np.array([e.low <= t <= e.high for e, t in zip(low_high, (1.0, 0.5), strict=True)])
    assert (hits >= 180).all()


def test_what_is_learned_of_everything_is_everything_and_of_nothing_is_nothing():
    d = sample(size=1000)
    rows = Rows.of(d["audited"])
    g = crossfitted(rows, d)
    variance = gradient_variance(rows, [g])
    everything = learned_variance(rows, g, g.a, g.b).over(variance).estimate()
    nothing = learned_variance(rows, g, 0 * g.a, 0 * g.b).over(variance).estimate()
    assert everything.value == pytest.approx(1.0, abs=2e-2)
    assert nothing.value == pytest.approx(0.0)


@given(st.floats(0.1, 2.0), st.floats(-0.5, 2.0), st.floats(0.01, 0.3), st.floats(0.01, 0.3), st.floats(-0.9, 0.9))
@settings(max_examples=60, deadline=None)
def test_fieller_against_a_grid(psi, theta, se_psi, se_theta, correlation):
    ratio = Ratio(theta, psi, se_theta**2, correlation * se_theta * se_psi, se_psi**2)
    found = ratio.estimate(0.95)
    if not ratio.is_determined():
        assert (found.low, found.high) == (0.0, 1.0)
        return
    grid = np.linspace(0, 1, 2001)
    variance = se_theta**2 - 2 * grid * ratio.covariance + grid**2 * se_psi**2
    inside = grid[np.abs(theta - grid * psi) <= 1.959964 * np.sqrt(np.maximum(variance, 0))]
    if inside.size:
        assert found.low == pytest.approx(inside.min(), abs=2e-3)
        assert found.high == pytest.approx(inside.max(), abs=2e-3)


def test_intervals_widen_with_confidence_and_hold_their_value():
    measured = [Normal(0.2, 0.1, 0.0, 1.0), SquareRoot(0.04, 0.03, -1), Square(0.3, 0.1, True)]
    measured += [Square(0.3, 0.1, False), Ratio(0.5, 1.0, 0.01, 0.0, 0.01)]
    for one in measured:
        narrow, wide = one.estimate(0.8), one.estimate(0.99)
        assert wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high
    assert Estimate(0.1, 0.0, 0.2).to_dict() == {"value": 0.1, "low": 0.0, "high": 0.2}


def test_output_quantities_against_their_definitions():
    d = sample()
    rows, outcome = Rows.of(d["audited"]), d["scores"][:, 0]
    scores = Scores.of(rows, outcome)
    p, p1 = outcome[d["audited"]].mean(), outcome[~d["audited"]].mean()
    assert impact_ratio(rows, scores).estimate().value == pytest.approx(p / p1)
    spread = math.sqrt((outcome[d["audited"]].var() + outcome[~d["audited"]].var()) / 2)
    assert standardised_difference(rows, scores).value == pytest.approx((p - p1) / spread)
    kl = p * math.log(p / p1) + (1 - p) * math.log((1 - p) / (1 - p1))
    assert output_divergence(rows, scores).estimate().value == pytest.approx(kl)
    k = logit(p) - logit(p1)
    assert output_descent(rows, scores).value == pytest.approx(k * outcome[d["audited"]].std())
    squared = known_variance(rows, d, 0.0, 1.0)
    assert output_descent(rows, scores).value ** 2 == pytest.approx(squared.value)


def test_output_intervals_cover():
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(2, 200_000))
    p, p1 = expit(draws[0] + 0.3).mean(), expit(0.5 * draws[1]).mean()
    truths = [p / p1, p * np.log(p / p1) + (1 - p) * np.log((1 - p) / (1 - p1))]
    hits = np.zeros(2)
    for _ in range(150):
        audited = rng.random(400) < 0.3
        z = rng.normal(size=400)
        rows = Rows.of(audited)
        scores = Scores.of(rows, expit(np.where(audited, z + 0.3, 0.5 * z)))
        found = [impact_ratio(rows, scores).estimate(), output_divergence(rows, scores).estimate()]
        hits += [e.low <= t <= e.high for e, t in zip(found, truths, strict=True)]
    assert (hits >= 135).all()


def test_studentised_permutation_keeps_its_size_with_unequal_spreads():
    rng = np.random.default_rng(4)
    rejected = 0
    for _ in range(100):
        audited = np.arange(120) < 20
        outcome = 0.5 + np.where(audited, 0.15, 0.02) * rng.uniform(-1, 1, 120)
        rows = Rows.of(audited)
        rejected += equal_outputs_test(rows, Scores.of(rows, outcome), 199).p_value <= 0.05
    assert rejected <= 12


def test_permutation_test_is_invariant_to_row_order_and_near_its_limit():
    d = sample(outcomes=3)
    order = np.random.default_rng(5).permutation(400)
    rows, shuffled = Rows.of(d["audited"]), Rows.of(d["audited"][order])
    one = equal_outputs_test(rows, Scores.of(rows, d["scores"]))
    other = equal_outputs_test(shuffled, Scores.of(shuffled, d["scores"][order]))
    limit = equal_outputs_test(rows, Scores.of(rows, d["scores"]), permutations=0)
    assert one.p_value == other.p_value
    assert one.statistic == pytest.approx(limit.statistic)
    assert limit.permutations == 0
    assert abs(one.p_value - limit.p_value) < 0.05


def test_average_adds_twice_the_variance_between_its_parts():
    d = sample()
    rows = Rows.of(d["audited"])
    one, other = gap(rows, first(rows, d)), gap(rows, Scores.of(rows, 0.9 * d["scores"]))
    both = average_estimates([one, other])
    between = (one.value - other.value) ** 2 / 4
    assert both.value == pytest.approx((one.value + other.value) / 2)
    assert both.variance == pytest.approx((one.variance + other.variance) / 2 + 2 * between)
    assert average_estimates([one]) is one


def test_three_pairings_of_four_parts_have_twice_the_variance_seen_between_them():
    """The remainder of a pairing (12|34) is E0[δδ'] of the halves' errors, each the mean of two parts' errors."""
    errors = np.random.default_rng(0).standard_normal((20_000, 4, 3))  # of four models, in three coefficients
    halves = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    remainders = [(errors[:, a].mean(axis=1) * errors[:, b].mean(axis=1)).sum(axis=1) for a, b in halves]
    true = np.mean(remainders, axis=0).var()
    seen = np.var(remainders, axis=0).mean()
    assert 2 * seen == pytest.approx(true, rel=0.05)


@pytest.mark.parametrize("tail", [3.0, 1.5])
def test_heavy_tails_widen_the_interval_of_a_fitted_model_towards_its_coverage(tail):
    """Few rows that hold most of the variance are often missing from the sample: the standard error is too small."""
    hits = np.zeros(2)
    for seed in range(400):
        rng = np.random.default_rng(seed)
        audited = np.arange(120) % 2 == 0
        x = np.where(audited, np.exp(rng.standard_normal(120) * 2 / tail), 0.0)
        truth = math.exp(2 / tail**2)
        rows = Rows.of(audited)
        found = InfluenceEstimate.of(rows, rows.mean0(x) - rows.mean1(x), x, -x)  # an amount, not a probability
        wide = average_estimates([found, found, found])
        hits += [abs(found.value - truth) < 1.96 * found.se, abs(found.value - truth) < 1.96 * wide.se]
        assert wide.variance == pytest.approx(found.variance)
        assert wide.se > found.se
    assert hits[0] < hits[1] < 0.97 * 400


def test_pairings_that_differ_much_widen_their_interval_since_they_are_few():
    """Three draws tell their variance badly: mean ± 1.96·sd of three misses far more often than one in twenty."""
    rng, rows = np.random.default_rng(0), Rows.of(np.arange(40) % 2 == 0)
    plain, wide = 0, 0
    for _ in range(2_000):
        values = rng.standard_normal(3) * np.sqrt(3 / 4)  # so that twice the variance between is that of the mean: 1
        level = rng.standard_normal()
        parts = [InfluenceEstimate.of(rows, value, rows.constant(0.0), rows.constant(0.0)) for value in values]
        found = average_estimates(parts)
        plain += abs(level) < 1.96 * np.sqrt(found.variance)
        wide += abs(level) < 1.96 * found.se
    assert plain / 2_000 < 0.84
    assert 0.86 < wide / 2_000 < 0.96


def test_without_tails_an_interval_is_hardly_widened():
    d = sample()
    rows = Rows.of(d["audited"])
    one = gap(rows, first(rows, d))
    assert 1.0 < tail_factor(average_estimates([one, one])) < 1.01
    assert tail_factor(one) == 1.0


def test_constant_score_and_equal_groups_have_defined_answers():
    audited = np.arange(40) % 2 == 0
    rows = Rows.of(audited)
    flat, codes = Scores.of(rows, np.full(40, 0.3)), np.arange(40) // 2 % 4
    pair = pairing(rows, np.zeros(40), np.zeros(40), np.arange(40) // 8)
    g = gradient(rows, flat, pair)
    variance = gradient_variance(rows, [g])
    assert variance.value == pytest.approx(0.0, abs=1e-12)
    assert variance.square_root(-1).estimate().value == pytest.approx(0.0, abs=1e-6)
    share = share_of(rows, g, codes).estimate()
    assert (share.low, share.high) == (0.0, 1.0)
    assert output_divergence(rows, flat).estimate().value == pytest.approx(0.0, abs=1e-12)
    assert output_descent(rows, flat).estimate().value == 0.0
    assert standardised_difference(rows, flat).normal() == Normal(0.0, 0.0)
    assert impact_ratio(rows, flat).estimate().value == pytest.approx(1.0)
    assert equal_outputs_test(rows, flat).p_value == 1.0


def test_a_descent_rate_of_several_equal_outcomes_has_no_interval():
    audited = np.arange(40) % 2 == 0
    outcome = np.eye(3)[np.arange(40) // 2 % 3]
    outcome[audited] = outcome[~audited]
    with pytest.raises(SupportError, match="has no interval"):
        output_descent(Rows.of(audited), Scores.of(Rows.of(audited), outcome))


def test_zero_weights_for_both_terms_give_nothing_to_correct():
    d = sample()
    rows = Rows.of(d["audited"])
    g = crossfitted(rows, d, 0.0, 0.0)
    variance = gradient_variance(rows, [g])
    assert (variance.value, variance.se) == (0.0, 0.0)
    assert not share_of(rows, g, d["codes"]).is_determined()


def test_outcomes_that_one_group_lacks(refused):
    audited = np.arange(20) < 10
    rows = Rows.of(audited)
    nobody = Scores.of(rows, np.where(audited, 0.0, 0.5))
    everybody = Scores.of(rows, np.where(audited, 0.5, 0.0))
    found = impact_ratio(rows, nobody).estimate()
    assert (found.value, found.low) == (0.0, 0.0)
    assert 0.0 < found.high < 1.0
    with refused(SupportError, "reference group's favourable"):
        impact_ratio(rows, everybody)
    with pytest.raises(SupportError, match="lacks an outcome"):
        output_divergence(rows, everybody)
    with refused(SupportError, "constant"):
        standardised_difference(rows, nobody)


@pytest.mark.parametrize("outcomes", [1, 3])
def test_scores_of_one_outcome_have_the_moments_of_its_column(outcomes):
    d = sample(outcomes=outcomes)
    rows = Rows.of(d["audited"], d["weights"])
    scores = Scores.of(rows, d["scores"])
    columns = d["scores"] if outcomes > 1 else np.hstack([1.0 - d["scores"], d["scores"]])
    for y, column in enumerate(columns.T):
        found, expected = scores.outcome(y), Scores.of(rows, column)
        for name in ("values", "mean0", "mean1", "covariance0", "covariance1"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-13)
    every = scores.all_outcomes()
    np.testing.assert_allclose(every.values.sum(axis=1), 1.0, atol=1e-13)
    np.testing.assert_allclose(every.mean0.sum(), 1.0, atol=1e-13)


def test_a_combination_of_estimators_has_their_influence_combined():
    d = sample()
    rows = Rows.of(d["audited"], d["weights"])
    one, other = (group_rate(rows, first(rows, d), is_audited) for is_audited in (True, False))
    both = combine(one.value - other.value, [(1.0, one), (-1.0, other)])
    np.testing.assert_allclose(both.influence, gap(rows, first(rows, d)).influence, atol=1e-18)
    assert one.covariance(other) == pytest.approx(0.0, abs=1e-18)


STOOD_FOR = {
    "gap": lambda rows, scores: gap(rows, scores).se,
    "audited rate": lambda rows, scores: group_rate(rows, scores, True).se,
    "impact ratio": lambda rows, scores: impact_ratio(rows, scores).normal.se,
    "standardised difference": lambda rows, scores: standardised_difference(rows, scores).se,
    "output divergence": lambda rows, scores: output_divergence(rows, scores).se,
    "output descent": lambda rows, scores: output_descent(rows, scores).se,
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", STOOD_FOR)
def test_a_sample_that_stands_for_all_rows_has_their_standard_error(name, weighted):
    d = sample(seed=6, size=60_000)
    weights = d["weights"] if weighted else np.ones(60_000)
    rows = Rows.of(d["audited"], weights)
    every = Scores.of(rows, d["scores"])
    rare = np.flatnonzero(d["audited"])[:9_000]  # groups are sampled at different rates
    drawn = np.concatenate([rare, np.flatnonzero(~d["audited"])[:6_000]])
    part = Rows.of(d["audited"][drawn], weights[drawn])
    scores = replace(every, values=every.values[drawn])
    found = STOOD_FOR[name](part.represent(rows), scores)
    assert found == pytest.approx(STOOD_FOR[name](rows, every), rel=0.03)
    assert STOOD_FOR[name](part, scores) > 1.4 * found


def test_rows_that_stand_for_themselves_change_nothing():
    d = sample()
    rows = Rows.of(d["audited"], d["weights"])
    same = rows.represent(rows)
    for name, functional in FUNCTIONALS.items():
        assert functional(same, d).se == pytest.approx(functional(rows, d).se, rel=1e-12), name


def test_mistakes_are_named(refused):
    audited = np.array([True, True, False, False])
    with pytest.raises(DataError, match="boolean"):
        Rows.of(np.array([1, 1, 0, 0]))
    with refused(DataError, "two rows"):
        Rows.of(np.array([True, True, True]))
    with pytest.raises(WeightsError, match="not negative"):
        Rows.of(audited, [1.0, 1.0, 1.0, -1.0])
    with pytest.raises(WeightsError, match="zeros only"):
        Rows.of(audited, [0.0, 0.0, 1.0, 1.0])
    with pytest.raises(WeightsError, match="one per row"):
        Rows.of(audited, [1.0])
    rows = Rows.of(audited)
    with pytest.raises(DistributionError, match="probabilities"):
        check_scores([0.1, 0.2, 0.3, 1.2], rows)
    with pytest.raises(DataError, match="4 rows"):
        check_scores([0.1, 0.2], rows)
    with pytest.raises(DataError, match="strictly between"):
        known_pairing(rows, [0.0, np.inf, 0.0, 0.0])
    with pytest.raises(DataError, match="confidence"):
        Normal(0.0, 1.0).estimate(1.0)


def test_an_estimate_is_its_value_beside_numbers():
    found = Estimate(0.7512, 0.70, 0.80)
    assert f"{found:.3f} {found:+.1%}" == "0.751 +75.1%"
    assert (float(found), round(found, 2), round(found), abs(Estimate(-0.5))) == (0.7512, 0.75, 1, 0.5)
    assert found < 0.8 <= Estimate(0.8)
    assert 0.8 > found >= 0.7512
    assert np.float64(0.8) > found
    assert found < np.float32(0.8)
    assert np.asarray([found], dtype=float).tolist() == [0.7512]
    assert f"{found}" == str(found) == "0.7512 (CI 0.7000 to 0.8000)"
    assert repr(found) == "Estimate(value=0.7512, low=0.7, high=0.8)"


def test_estimates_are_equal_with_their_intervals_and_equal_numbers_by_their_value():
    found = Estimate(0.5, 0.4, 0.6)
    assert found == Estimate(0.5, 0.4, 0.6) != Estimate(0.5, 0.3, 0.6)
    assert found == 0.5 == found != 0.4
    assert hash(found) == hash(0.5)
    assert found != "0.5"
    assert found is not None


def test_an_estimate_that_is_not_a_number_is_below_and_above_nothing():
    found = Estimate(math.nan)
    assert not found < 0.8
    assert not found >= 0.8
    assert f"{found:.3f}" == "nan"


@pytest.mark.parametrize("other", [Estimate(0.4), "0.8", None])
def test_an_estimate_has_no_order_but_against_numbers(other):
    with pytest.raises(TypeError, match="not supported"):
        Estimate(0.5) < other  # noqa: B015


def test_the_error_of_a_given_log_ratio_enters_squared():
    """x ~ N(0.7, 1) against N(0, 1): ℓ = 0.7x − 0.245 has the variance 0.49; the given slope is wrong by a tenth."""
    rng = np.random.default_rng(12)
    audited = np.repeat([True, False], 400_000)
    x = rng.standard_normal(audited.size) + 0.7 * audited
    rows = Rows.of(audited)
    scores = Scores.of(rows, expit(x))
    wrong = 0.77 * x - 0.245

    def variance(pair):
        return gradient_variance(rows, [gradient(rows, scores, pair, 1.0, 0.0)])

    taken_as_known, corrected = (variance(make(rows, wrong)) for make in (known_pairing, given_pairing))
    assert taken_as_known.value == pytest.approx(0.5929, abs=0.005)
    assert corrected.value == pytest.approx(0.49, abs=0.012)
    assert corrected.se > 2 * taken_as_known.se
