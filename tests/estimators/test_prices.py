"""Published worlds of prices with exact values: true nuisances give the published numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit

from tiltlens._estimators.estimate import student_factor
from tiltlens._estimators.feature_gap import cell_sums_of
from tiltlens._estimators.influence import Rows
from tiltlens._estimators.prices import (
    CostRows,
    PricedRows,
    actual_to_expected,
    free_price_gap,
    group_gap,
    local_target,
    mean_vulnerability,
    nearest_mixture,
    proxy_discrimination,
    unfairness,
    vulnerability,
)
from tiltlens._estimators.sets import CellSets


def world(chance, propensity, costs, price=None):
    """Return atoms of a law of features as rows, one for each group, whose cost is its mean."""
    weights = np.concatenate([chance * propensity, chance * (1 - propensity)])
    audited = np.repeat([True, False], len(chance))
    both = np.tile(costs, 2)
    e = np.tile(propensity, 2)
    unaware = e * both[0] + (1 - e) * both[1]
    cost = np.where(audited, both[0], both[1])
    return PricedRows(
        unaware if price is None else np.tile(price, 2),
        cost,
        weights,
        audited,
        np.array([both, both]),
        np.array([e, e]),
        both,
        np.zeros(weights.size, dtype=np.intp),
    )


def example_3(points=400):
    """X ~ U(0, 1), P(D = 1 | X) = X, μ = ½ + X + D."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    x = (nodes + 1) / 2
    return world(weights / 2, x, np.array([1.5 + x, 0.5 + x])), x


def scenario_1(points=300):
    """X1 ~ N(1, 9), X2 on 1..4, P(D = 1 | x) = .05 + .1·X2 + .4·1[X1 > 1], E[Y] = 100 + 4·X1 + 15·D."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    z = np.concatenate([4.0 * (nodes - 1), 4.0 * (nodes + 1)])  # both sides of the step; ±8 standard deviations
    density = np.tile(4.0 * weights, 2) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    x1, x2 = np.repeat(1 + 3 * z, 4), np.tile(np.arange(1, 5), z.size)
    e = 0.05 + 0.1 * x2 + 0.4 * (x1 > 1)
    return world(np.repeat(density, 4) / 4, e, np.array([115 + 4 * x1, 100 + 4 * x1]))


def health():
    """The health insurance of Lindholm, Richman, Tsanakas & Wüthrich (ASTIN Bulletin 2022)."""
    age = np.arange(15, 81)
    chance = np.exp(-(((age / 100 - 0.45) / 0.2) ** 2) / 2)
    chance /= chance.sum()
    ages, smoker = np.repeat(age, 2), np.tile([0, 1], age.size)
    woman = np.where(smoker == 1, 0.8, (0.45 - 0.8 * 0.3) / 0.7)
    atoms = np.repeat(chance, 2) * np.where(smoker == 1, 0.3, 0.7)

    def cost(is_woman):
        birth = np.exp(-40 + 38.5 * (is_woman & (ages >= 20) & (ages <= 40)))
        cancer = np.exp(-2 + 0.004 * ages + 0.1 * smoker + 0.2 * is_woman)
        other = np.exp(-2 + 0.01 * ages)
        return 0.5 * birth + 0.9 * cancer + 0.1 * other

    return world(atoms, woman, np.array([cost(True), cost(False)]))


def test_example_3_against_theory():
    rows, x = example_3()
    found = proxy_discrimination(rows)
    assert found.estimate().value == pytest.approx(0.25, abs=1e-6)
    assert found.local == pytest.approx(np.tile(x - 0.5, 2), abs=1e-6)


def test_scenario_1_against_theory():
    rows = scenario_1()
    assert group_gap(rows, rows.price).value == pytest.approx(10.8097, abs=5e-5)
    assert free_price_gap(rows).value == pytest.approx(7.6597, abs=5e-5)
    assert mean_vulnerability(rows).value == pytest.approx(3.0, abs=1e-6)
    assert np.abs(vulnerability(rows)).max() == pytest.approx(5.25)
    assert unfairness(rows, rows.price).estimate().value == pytest.approx(0.136980, abs=1e-6)
    assert proxy_discrimination(rows).estimate().value == pytest.approx(0.055390, abs=1e-6)


def test_the_health_world_against_its_published_script():
    rows = health()
    assert rows.mean(rows.price).value == pytest.approx(0.205732, abs=1e-6)
    assert rows.mean(rows.free_price).value == pytest.approx(0.205373, abs=1e-6)
    assert group_gap(rows, rows.price).value == pytest.approx(0.022752, abs=1e-6)
    assert free_price_gap(rows).value == pytest.approx(0.007196, abs=1e-6)
    assert unfairness(rows, rows.price).estimate().value == pytest.approx(0.121417, abs=1e-6)
    found = proxy_discrimination(rows)
    assert found.estimate().value == pytest.approx(0.399722, abs=1e-6)
    assert found.mixture == pytest.approx([0.459287, 0.540713], abs=1e-6)  # women, men
    assert mean_vulnerability(rows).value == pytest.approx(0.015257, abs=1e-6)


def test_a_fixed_mixture_has_no_proxy_discrimination():
    rows = scenario_1(200)
    mixed = world(
        rows.weights[: rows.weights.size // 2] / rows.propensity[0, : rows.weights.size // 2],
        rows.propensity[0, : rows.weights.size // 2],
        rows.costs[0, :, : rows.weights.size // 2],
        price=3 + 0.3 * rows.costs[0, 0, : rows.weights.size // 2] + 0.5 * rows.costs[0, 1, : rows.weights.size // 2],
    )
    found = proxy_discrimination(mixed)
    assert found.crossed.value == pytest.approx(0, abs=1e-9)
    assert found.distance(found.mixture).value == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_mixture_against_a_grid(seed):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(2, 2))
    quadratic, linear = half @ half.T, rng.normal(size=2)
    grid = np.array([(a, b) for a in np.linspace(0, 1, 401) for b in np.linspace(0, 1, 401) if a + b <= 1 + 1e-12])
    values = np.einsum("ka,ab,kb->k", grid, quadratic, grid) - 2 * grid @ linear
    v = nearest_mixture(quadratic, linear)
    assert (v >= 0).all()
    assert v.sum() <= 1 + 1e-12
    assert v @ quadratic @ v - 2 * linear @ v <= values.min() + 1e-12


def noisy(seed, rows=1_000):
    """Return rows of example 3 with a cost that varies, and two fits that err independently by noise of their own."""
    rng = np.random.default_rng(seed)
    x = rng.random(rows)
    audited = rng.random(rows) < x
    expected = np.array([1.5 + x, 0.5 + x])
    cost = np.where(audited, *expected) + rng.normal(0, 0.5, rows)
    waves = np.cos(np.outer(np.arange(1, 5), np.pi * x))
    fits = expected + np.einsum("fdk,kn->fdn", rng.normal(0, 0.1, (2, 2, 4)), waves)
    e = np.clip(x, 0.02, 0.98)
    return PricedRows(0.5 + 2 * x, cost, np.ones(rows), audited, fits, np.array([e, e]), fits[0], np.arange(rows) % 5)


def test_pd_lies_between_the_distance_at_its_own_mixture_and_at_that_of_other_rows():
    every = [proxy_discrimination(noisy(seed)) for seed in range(150)]
    inside = [distance.distance(distance.mixture).value / distance.variance.value for distance in every]
    crossed = [distance.crossed.value / distance.variance.value for distance in every]
    error = np.std(inside) / np.sqrt(len(every))
    assert np.mean(inside) < 0.25 + 3 * error
    assert np.mean(crossed) > 0.25 - 3 * error
    assert np.mean(inside) < np.mean(crossed)
    estimates = [distance.estimate() for distance in every]
    assert np.mean([e.low <= 0.25 <= e.high for e in estimates]) > 0.9
    assert np.mean([e.value for e in estimates]) == pytest.approx(0.25, abs=4 * error)


CELLS = np.array([(a, b) for a in range(3) for b in range(2)])  # of two features
SETS = [[], [0], [1], [0, 1]]
COPIES = 100  # of each atom, so that the errors of v are small


def finite_law(seed, is_nearly_mixed):
    """Return the atoms (cell, audited, cost) of a law with their probabilities, and a price of each cell."""
    rng = np.random.default_rng(seed)
    atoms = [(cell, audited, cost) for cell in range(6) for audited in (True, False) for cost in (0.0, 1.0, 3.0)]
    cell, audited, cost = (np.tile(column, COPIES) for column in zip(*atoms, strict=True))
    chance = np.tile(rng.dirichlet(np.full(len(atoms), 3.0)), COPIES) / COPIES
    costs = expected(chance, cell, audited, cost)
    weights = np.array([0.35, 0.25]) if is_nearly_mixed else np.array([0.8, 0.6])
    return chance, cell, audited, cost, weights @ costs + rng.normal(0, 0.05, 6)


def expected(chance, cell, audited, cost):
    """Return the mean cost of each group and cell."""
    return np.array(
        [
            np.bincount(cell[own], (chance * cost)[own], 6) / np.bincount(cell[own], chance[own], 6)
            for own in (audited, ~audited)
        ]
    )


def enumerated(chance, cell, audited, cost, price):
    """Return c_A of Λ for each set by enumeration: v by the grid of faces, then Robinson's coefficient of Λ."""
    costs, mass = expected(chance, cell, audited, cost), np.bincount(cell, chance, 6) / chance.sum()
    centred = [x - mass @ x for x in (*costs, price)]
    products = np.array([[mass @ (a * b) for b in centred] for a in centred])
    local = price - nearest_mixture(products[:2, :2], products[:2, 2]) @ costs
    omega = sum(0.5 * chance * own / chance[own].sum() for own in (audited, ~audited))
    values = []
    for members in SETS:
        code = np.unique(CELLS[:, members], axis=0, return_inverse=True)[1].reshape(-1)[cell] if members else 0 * cell
        mean = lambda x, code=code: (np.bincount(code, omega * x) / np.bincount(code, omega))[code]  # noqa: E731
        apart, score = audited - mean(audited * 1.0), local[cell] - mean(local[cell])
        values.append(omega @ (apart * score) / (omega @ apart**2))
    return np.array(values)


@pytest.mark.parametrize("is_inside", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_contributions_to_the_local_score_against_enumeration_and_finite_differences(seed, is_inside):
    chance, cell, audited, cost, price = finite_law(seed, is_inside)
    costs = expected(chance, cell, audited, cost)[:, cell]
    mass = np.array([np.bincount(cell[own], chance[own], 6) for own in (audited, ~audited)])
    halves = mass / mass.sum(axis=1, keepdims=True)
    e, balanced = (np.tile((x[0] / x.sum(axis=0))[cell], (2, 1)) for x in (mass, halves))
    fold = np.zeros(cell.size, dtype=np.intp)
    rows = PricedRows(price[cell], cost, chance, audited, np.array([costs, costs]), e, costs, fold)
    distance = proxy_discrimination(rows)
    assert len(distance.directions) == (2 if is_inside else 1)
    target, errors = local_target(rows, distance, balanced)
    at = Rows.of(audited, chance)
    sets = CellSets(cell_sums_of(at, target, cell), CELLS, cell, target, at, leaves_one_out=False, target=errors)
    every = sets.sets(SETS)
    law = (cell, audited, cost, price)
    assert every.values == pytest.approx(enumerated(chance, *law), abs=1e-12)
    for atom in range(cell.size // COPIES):
        # (1 − t)P + t·δ at both sides of t = 0.
        sides = [enumerated((1 - t) * chance + t * (np.arange(cell.size) == atom), *law) for t in (1e-6, -1e-6)]
        slope = (sides[0] - sides[1]) / 2e-6
        assert every.influence[atom] / chance[atom] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_intervals_of_few_clusters_have_students_quantile_of_their_level():
    cluster, random = np.repeat(np.arange(6), 20), np.random.default_rng(0)
    price = np.exp(random.normal(0, 0.3, 120))
    rows = CostRows(price, price * random.gamma(1, 1, 120), np.ones(120), random.random(120) < 0.4, clusters=cluster)
    log_ratio = actual_to_expected(rows, np.ones(120, dtype=bool))
    for law in (log_ratio.exponential().normal, unfairness(rows, price)):
        assert law.degrees == 5
    reach = stdtrit(5, 0.995) * log_ratio.se / student_factor(5.0)
    assert log_ratio.exponential().estimate(0.99).high == pytest.approx(np.exp(log_ratio.value + reach), rel=1e-12)
