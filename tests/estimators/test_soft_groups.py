"""Groups that are known by probabilities: identities of a finite population, limits by linear programming."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import binom

from tiltlens._estimators.group_means import ChanceRows, calibration, frechet_limits, signs, slope_on_chance
from tiltlens._estimators.influence import Rows
from tiltlens._estimators.outputs import Scores, gap


def population(seed, chances=5, values=4):
    """Return P(b, S̄, W) with b = P(S̄ = 1|b), as a row for each of b, S̄ and W: masses, b, S̄, W."""
    rng = np.random.default_rng(seed)
    b, w = np.sort(rng.uniform(0.05, 0.95, chances)), np.sort(rng.random(values))
    mass = rng.dirichlet(np.ones(chances))
    inner = rng.dirichlet(np.ones(values), (chances, 2))
    k, s, v = (one.ravel() for one in np.meshgrid(np.arange(chances), [0, 1], np.arange(values), indexing="ij"))
    return mass[k] * np.where(s == 1, b[k], 1 - b[k]) * inner[k, s, v], b[k], s.astype(float), w[v]


def mean(mass, x):
    return float(mass @ x) / float(mass.sum())


def covariance(mass, x, y):
    return mean(mass, x * y) - mean(mass, x) * mean(mass, y)


def within(mass, by, x, y):
    """Return E[Cov(x, y|by)]."""
    parts = [(mass[by == one].sum(), covariance(mass[by == one], x[by == one], y[by == one])) for one in np.unique(by)]
    return sum(weight * part for weight, part in parts) / mass.sum()


def true_gap(mass, s, w):
    return mean(mass * s, w) - mean(mass * (1 - s), w)


def copies(mass, b, w):
    """Return every row twice, audited with the weight b and of the reference with 1 − b."""
    audited = np.repeat([True, False], len(b))
    rows = Rows.of(audited, np.concatenate([mass * b, mass * (1 - b)]), np.tile(np.arange(len(b)), 2))
    return rows, np.tile(w, 2)


@pytest.mark.parametrize("seed", range(5))
def test_weighted_gap_of_soft_groups_is_a_covariance_with_the_chance(seed):
    mass, b, _, w = population(seed)
    rows, score = copies(mass, b, w)
    found = gap(rows, Scores.of(rows, score)).value
    eb = mean(mass, b)
    assert found == pytest.approx(covariance(mass, b, w) / (eb * (1 - eb)), abs=1e-12)
    omega = mass * (b / (2 * eb) + (1 - b) / (2 * (1 - eb)))
    tilde = mass * b / (2 * eb * omega)
    assert found == pytest.approx(4 * covariance(omega, tilde, w), abs=1e-12)
    logit = np.log(tilde / (1 - tilde))
    assert logit == pytest.approx(np.log(b / (1 - b)) - np.log(eb / (1 - eb)), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_weighted_and_linear_estimates_miss_the_gap_by_covariances_within_chance_and_group(seed):
    mass, b, s, w = population(seed)
    rows, score = copies(mass, b, w)
    weighted = gap(rows, Scores.of(rows, score)).value
    linear = slope_on_chance(ChanceRows(b, mass, w), w).value
    gap_, es = true_gap(mass, s, w), mean(mass, s)
    assert weighted == pytest.approx(gap_ - within(mass, b, s, w) / (es * (1 - es)), abs=1e-12)
    assert linear == pytest.approx(gap_ + within(mass, s, b, w) / covariance(mass, b, b), abs=1e-12)
    found = signs(ChanceRows(b, mass, w), s, 0.95)
    assert found.above_weighted.value == pytest.approx(gap_ - weighted, abs=1e-12)
    assert found.below_linear.value == pytest.approx(linear - gap_, abs=1e-12)
    assert calibration(ChanceRows(b, mass, w), s, 0.95).slope.value == pytest.approx(1.0, abs=1e-12)


def program(mass, b, w, sign):
    """Return the largest sign·gap over all P(S̄ = 1|b, W) that average to b at each b: a linear program."""
    eb = mean(mass, b)
    levels = np.unique(b)
    equal = np.array([np.where(b == one, mass, 0.0) for one in levels])
    found = linprog(-sign * mass * w, A_eq=equal, b_eq=equal @ b, bounds=(0, 1))
    product = float(mass @ (w * found.x)) / mass.sum()
    return product / eb - (mean(mass, w) - product) / (1 - eb)


@pytest.mark.parametrize("seed", range(4))
def test_frechet_limits_are_those_of_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    b, w = rng.choice([0.15, 0.4, 0.8], 600), np.round(rng.random(600), 2 if seed % 2 else 0)
    mass = rng.uniform(0.5, 2.0, 600)
    found = frechet_limits(ChanceRows(b, mass, w))
    assert [one.value for one in found] == pytest.approx([program(mass, b, w, sign) for sign in (-1, 1)], abs=1e-9)


def test_frechet_limits_of_decisions_are_frechets():
    rng = np.random.default_rng(5)
    b = rng.choice([0.2, 0.7], 1000)
    w = (rng.random(1000) < 0.3 + 0.4 * b).astype(float)
    most = sum((b == one).mean() * min(one, w[b == one].mean()) for one in (0.2, 0.7))
    least = sum((b == one).mean() * max(0.0, one + w[b == one].mean() - 1) for one in (0.2, 0.7))
    ends = [t / b.mean() - (w.mean() - t) / (1 - b.mean()) for t in (least, most)]
    assert [one.value for one in frechet_limits(ChanceRows(b, np.ones(1000), w))] == pytest.approx(ends, abs=1e-12)


@pytest.mark.parametrize("clusters", [None, 100])
def test_limits_cover_the_largest_gap_that_probabilities_allow(clusters):
    rng, covered = np.random.default_rng(3), 0
    cluster = None if clusters is None else np.arange(1_000) % clusters
    for _ in range(200):
        b = expit(1.2 * (rng.normal(size=1_000) if clusters is None else rng.normal(size=clusters)[cluster]))
        decision = (rng.random(1_000) < b).astype(float)  # of everyone who is audited, and of no one else
        limits = frechet_limits(ChanceRows(b, np.ones(1_000), decision, cluster), folds=5)
        covered += limits[1].estimate().high >= 1.0
    assert covered >= binom.ppf(0.001, 200, 0.95)


def test_errors_are_those_of_the_bootstrap():
    rng = np.random.default_rng(8)
    b = rng.beta(1, 2, 1500)
    s = (rng.random(1500) < b).astype(float)
    w = np.clip(0.4 - 0.2 * s + 0.1 * b + 0.1 * rng.standard_normal(1500), 0, 1)

    def every(at):
        rows = ChanceRows(b[at], np.ones(at.size), w[at])
        sides, limits = signs(rows, s[at], 0.95), frechet_limits(rows)
        estimates = [slope_on_chance(rows, w[at]).normal().estimate(), sides.above_weighted, sides.below_linear]
        return [*estimates, *(one.estimate() for one in limits)]

    drawn = np.array([[one.value for one in every(rng.integers(0, 1500, 1500))] for _ in range(300)])
    for one, spread in zip(every(np.arange(1500)), drawn.std(axis=0), strict=True):
        assert (one.high - one.low) / 2 / 1.96 == pytest.approx(spread, rel=0.15)


def test_nothing_is_told_where_everybody_has_the_same_chance():
    rows = ChanceRows(np.full(50, 0.3), np.ones(50), np.linspace(0, 1, 50))
    assert slope_on_chance(rows, rows.score) is None
    assert signs(rows, np.tile([0.0, 1.0], 25), 0.95) is None
    assert calibration(rows, np.tile([0.0, 1.0], 25), 0.95) is None
