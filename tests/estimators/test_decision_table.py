"""What practice asks of two groups' counts: against scipy, statsmodels, published numbers and every other table."""

import math
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, fisher_exact
from scipy.stats.contingency import odds_ratio as scipy_odds_ratio
from statsmodels.stats.contingency_tables import StratifiedTable
from statsmodels.stats.proportion import confint_proportions_2indep, proportions_ztest

from tiltlens._estimators.verdicts import (
    Count,
    fisher_p_value,
    odds_ratio,
    ratio_flips,
    stratified,
    two_sided,
    z_flips,
    z_score,
)

Z = 1.959963984540054
TABLES = [(60, 200, 100, 200), (1, 10, 12, 20), (3, 40, 9, 30), (45_000, 120_000, 52_000, 130_000), (7, 7_000, 31, 900)]
# Admissions to Berkeley by department, 1973 (Bickel, Hammel & O'Connell 1975): women, then men, admitted of all.
BERKELEY = [
    (Count(108, 89), Count(825, 512)),
    (Count(25, 17), Count(560, 353)),
    (Count(593, 202), Count(325, 120)),
    (Count(375, 131), Count(417, 138)),
    (Count(393, 94), Count(191, 53)),
    (Count(341, 24), Count(373, 22)),
]


@st.composite
def pairs(draw, least=10, most=60):
    """Return two groups of whom the second has the higher rate, and somebody counted."""
    first, second = (draw(st.integers(least, most)) for _ in range(2))
    one, other = Count(first, draw(st.integers(0, first))), Count(second, draw(st.integers(1, second)))
    return (one, other) if one.rate <= other.rate else (other, one)


def as_tables(strata):
    return [np.array([[one.counted, one.size - one.counted] for one in pair]).T.astype(float) for pair in strata]


@pytest.mark.parametrize("table", TABLES)
def test_z_and_its_p_value_against_statsmodels(table):
    a, n, c, m = table
    z, p = proportions_ztest([a, c], [n, m])
    assert z_score(Count(n, a), Count(m, c)) == pytest.approx(z, rel=1e-12)
    assert two_sided(z) == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize("table", TABLES)
def test_fisher_against_scipy(table):
    a, n, c, m = table
    expected = fisher_exact([[a, n - a], [c, m - c]]).pvalue
    assert fisher_p_value(Count(n, a), Count(m, c)) == pytest.approx(expected, rel=1e-12)


def test_fisher_against_every_table_of_the_same_margins():
    n, a, m, c = 10, 1, 20, 12
    ways = {x: comb(n, x) * comb(m, a + c - x) for x in range(a + c + 1)}
    expected = sum(way for way in ways.values() if way <= ways[a]) / sum(ways.values())
    assert fisher_p_value(Count(n, a), Count(m, c)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("table", TABLES)
def test_the_odds_ratio_against_scipy_and_its_interval_against_statsmodels(table):
    a, n, c, m = table
    found = odds_ratio(Count(n, a), Count(m, c), 0.95)
    expected = scipy_odds_ratio([[a, n - a], [c, m - c]], kind="sample").statistic
    assert found.value == pytest.approx(expected, rel=1e-12)
    ends = confint_proportions_2indep(a, n, c, m, compare="or", method="score", correction=False)
    assert (found.low, found.high) == pytest.approx(ends, rel=1e-9)  # theirs is solved to as many digits


@given(pairs(), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_interval_leaves_out_1_where_z_does(pair, confidence):
    found, z = odds_ratio(*pair, confidence), z_score(*pair)
    if found is None:
        assert pair[0].rate == pair[1].rate == 1
    else:
        assert 0 <= found.low <= found.value <= found.high < math.inf
        assert (found.high < 1) == (two_sided(z) < 1 - confidence)


def test_cells_of_zero_need_no_correction():
    nobody, everybody = odds_ratio(Count(20, 0), Count(20, 10), 0.95), odds_ratio(Count(20, 10), Count(20, 20), 0.95)
    assert (nobody.value, nobody.low) == (everybody.value, everybody.low) == (0, 0)
    assert nobody.high == pytest.approx(everybody.high, rel=1e-12), "selected and not selected change places"
    assert odds_ratio(Count(20, 20), Count(30, 30), 0.95) is None
    assert z_score(Count(20, 20), Count(30, 30)) is None
    assert fisher_p_value(Count(20, 20), Count(30, 30)) == 1


@pytest.mark.parametrize("strata", [BERKELEY, BERKELEY[:1], [(Count(2, 1), Count(3, 1))] * 40 + BERKELEY[2:3]])
def test_cmh_and_the_common_odds_ratio_against_statsmodels(strata):
    found, theirs = stratified(strata, 0.95), StratifiedTable(as_tables(strata))
    test = theirs.test_null_odds(correction=False)
    assert found.z**2 == pytest.approx(test.statistic, rel=1e-12)
    assert two_sided(found.z) == pytest.approx(test.pvalue, rel=1e-12)
    assert found.odds_ratio.value == pytest.approx(theirs.oddsratio_pooled, rel=1e-12)
    ends = (found.odds_ratio.low, found.odds_ratio.high)
    assert ends == pytest.approx(theirs.oddsratio_pooled_confint(), rel=1e-12)


def test_berkeleys_departments_against_published_numbers():
    """As R's mantelhaen.test(UCBAdmissions, correct = FALSE) prints them; its odds are those of men over women."""
    found = stratified(BERKELEY, 0.95)
    assert found.z**2 == pytest.approx(1.5246, abs=5e-5)
    assert 1 / found.odds_ratio.value == pytest.approx(0.9046968, abs=5e-8)
    women, men = (Count(sum(p[i].size for p in BERKELEY), sum(p[i].counted for p in BERKELEY)) for i in (0, 1))
    assert z_score(women, men) < -9 < 0 < found.z, "within departments the difference points the other way"


def test_strata_of_one_group_or_one_outcome_add_nothing():
    idle = [
        (Count(9, 4), Count(0, 0)),
        (Count(0, 0), Count(1, 1)),
        (Count(5, 5), Count(8, 8)),
        (Count(5, 0), Count(8, 0)),
    ]
    found, expected = stratified(BERKELEY + idle, 0.95), stratified(BERKELEY, 0.95)
    assert (found.z, found.odds_ratio, found.used, found.idle) == (expected.z, expected.odds_ratio, 6, 4)
    nothing = stratified(idle, 0.95)
    assert (nothing.z, nothing.odds_ratio, nothing.used, nothing.idle) == (None, None, 0, 4)
    assert stratified([], 0.95).idle == 0


def test_common_odds_ratios_of_0_and_infinity_have_no_interval():
    strata = [(Count(10, 0), Count(10, 5)), (Count(12, 0), Count(9, 4))]
    found = stratified(strata, 0.95)
    assert (found.odds_ratio.value, found.odds_ratio.low, found.odds_ratio.high) == (0, None, None)
    assert stratified([pair[::-1] for pair in strata], 0.95).odds_ratio is None
    assert found.z < -Z, "the test needs no ratio"


def fewest_of_all(group, highest, is_found):
    """Return the fewest changes to any other table that turn the finding around."""
    was_found = is_found(group, highest)
    return min(
        abs(x - group.counted) + abs(y - highest.counted)
        for x, y in product(range(group.size + 1), range(highest.size + 1))
        if is_found(Count(group.size, x), Count(highest.size, y)) != was_found
    )


@given(pairs(most=24), st.sampled_from([0.5, 0.8, 0.9, 1.0]), st.sampled_from([0.8, 0.95]))
def test_no_fewer_changed_decisions_would_do(pair, threshold, confidence):
    critical = -{0.8: 1.2815515655446004, 0.95: Z}[confidence]
    by_ratio = fewest_of_all(*pair, lambda one, top: one.rate < (threshold - 1e-12) * top.rate)
    by_z = fewest_of_all(*pair, lambda one, top: (z_score(one, top) or 0) <= critical)
    assert (ratio_flips(*pair, threshold), z_flips(*pair, confidence)) == (by_ratio, by_z)


def test_flips_of_many_people_are_found_at_once():
    million = 1_000_000
    group, highest = Count(100 * million, 30 * million), Count(100 * million, 40 * million)
    assert ratio_flips(group, highest, 0.8) == 2 * million
    flips = z_flips(group, highest, 0.95)
    assert 9.9 * million < flips < 10 * million


def test_one_decision_more_is_the_whole_finding():
    """29 CFR 1607's Questions and Answers (44 FR 11996, 1979) look at so few people: 1 of 10 women, 3 of 20 men."""
    assert ratio_flips(Count(10, 1), Count(20, 3), 0.8) == 1


@pytest.mark.parametrize(("size", "top_size"), [(12, 30), (40, 40), (150, 60)])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("psi", [0.2, 0.6, 1.0])
def test_the_odds_ratios_interval_covers(size, top_size, rate, psi):
    """Every table by its chance, a simulation without noise; of those whose odds ratio is defined."""
    odds = psi * rate / (1 - rate)
    chances = np.outer(
        binom.pmf(range(size + 1), size, odds / (1 + odds)), binom.pmf(range(top_size + 1), top_size, rate)
    )
    covered = defined = 0.0
    for a, c in np.argwhere(chances > 1e-9):
        found = odds_ratio(Count(size, int(a)), Count(top_size, int(c)), 0.95)
        if found is not None:
            defined += chances[a, c]
            covered += chances[a, c] * (found.low <= psi <= found.high)
    assert 0.94 < covered / defined < 0.975


@pytest.mark.parametrize(("strata", "size"), [(4, 100), (150, 4)])
def test_the_common_odds_ratios_interval_covers(strata, size):
    """Few large strata or many small ones, whose rates differ: 95 % of 4,000 draws, give or take 1.4 (four s.e.)."""
    random, psi = np.random.default_rng(5), 0.6
    rates = np.linspace(0.2, 0.7, strata)
    odds = psi * rates / (1 - rates)
    counted = random.binomial(size, odds / (1 + odds), (4_000, strata)), random.binomial(size, rates, (4_000, strata))
    covered = 0
    for a, c in zip(*(part.tolist() for part in counted), strict=True):
        found = stratified([(Count(size, x), Count(size, y)) for x, y in zip(a, c, strict=True)], 0.95).odds_ratio
        covered += found.low <= psi <= found.high
    assert abs(covered / 4_000 - 0.95) < 0.014
