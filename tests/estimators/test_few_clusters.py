"""Errors of few clusters, of clusters of very different sizes, and of estimates that only some clusters enter."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import tiltlens as tl
from tiltlens._analysis.periods import ONE_CLUSTER
from tiltlens._estimators.error_rates import WITHOUT, calibration_cells, mean_pair
from tiltlens._estimators.estimate import student_factor
from tiltlens._estimators.influence import Rows, overall_mean
from tiltlens._estimators.outputs import Scores, equal_gaps_test, gap, gap_law
from tiltlens._estimators.prices import CostRows, actual_to_expected, group_gap


def drawn(seed, clusters, sizes, pure=False, effect=0.7):
    """Return cluster, group and score of rows; the mean score is 0, but clusters differ, and groups within them."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(clusters), sizes(rng, clusters))
    audited = code % 2 == 0 if pure else rng.random(code.size) < 0.5
    effects = rng.normal(0.0, effect, (clusters, 2))[code, audited.astype(int)]
    return code, audited, effects + rng.normal(size=code.size), rng


def equal(rows):
    return lambda rng, clusters: np.full(clusters, rows)


def unequal(rng, clusters):
    return np.exp(rng.uniform(0.0, np.log(500.0), clusters)).astype(int) + 1


def count_covered(draws, nominal=0.95):
    """Assert that intervals cover 0 as often as they should, up to chance."""
    covered = sum(estimate.low <= 0.0 <= estimate.high for estimate in draws)
    assert covered >= binom.ppf(0.001, len(draws), nominal)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_of_a_gap_is_that_of_the_jackknife_over_clusters(weighted):
    code, audited, score, rng = drawn(1, 14, unequal, pure=True)
    weights = rng.exponential(size=code.size) if weighted else None
    found = gap(Rows.of(audited, weights, code), Scores.of(Rows.of(audited, weights), score, False))
    w = np.ones(code.size) if weights is None else weights

    def mean(group, left_out=-1):
        keep = (audited == group) & (code != left_out)
        return np.average(score[keep], weights=w[keep])

    variance = 0.0
    for group in (True, False):
        own = np.unique(code[audited == group])
        left = np.array([mean(group, cluster) for cluster in own]) - mean(group)
        variance += (own.size - 1) / own.size * float(left @ left)
    assert found.law_se == pytest.approx(np.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize(("clusters", "pure"), [(10, True), (60, True)])
def test_gaps_of_clusters_of_1_to_500_rows_are_covered(clusters, pure):
    draws = []
    for seed in range(300):
        code, audited, score, _ = drawn(seed, clusters, unequal, pure)
        rows = Rows.of(audited, None, code)
        draws.append(gap_law(rows, Scores.of(rows, score, False)).estimate())
    count_covered(draws, 0.92)  # the square root of n/(n − 1) alone: 79 and 90%


def gaps_of_periods(seed, clusters, periods, pure):
    """Return the gap of each period, all 0, where each cluster is in one period."""
    code, audited, score, _ = drawn(seed, clusters * periods, equal(40), pure)
    rows, pairs = Rows.of(audited, None, code), []
    for chosen in (code // clusters == period for period in range(periods)):
        means = np.array([score[chosen & (audited == group)].mean() for group in (True, False)])
        pairs.append(mean_pair(rows, score, chosen, means, (0.0, 0.0), -np.inf, np.inf))
    return pairs


@pytest.mark.parametrize(("clusters", "pure"), [(2, False), (3, False), (4, True)])
def test_a_period_has_the_errors_of_its_own_clusters(clusters, pure):
    every = [pair for seed in range(60) for pair in gaps_of_periods(seed, clusters, 5, pure)]
    count_covered([pair.difference.estimate() for pair in every])
    count_covered([pair.audited.estimate() for pair in every], 0.93)


@pytest.mark.parametrize(("clusters", "pure"), [(4, False), (12, False), (12, True)])
def test_the_test_of_equal_gaps_has_its_size_where_each_cluster_is_in_one_period(clusters, pure):
    tests = [equal_gaps_test([pair.influence for pair in gaps_of_periods(s, clusters, 6, pure)]) for s in range(200)]
    assert sum(test.p_value < 0.05 for test in tests) <= binom.ppf(0.999, len(tests), 0.05)


def test_the_test_of_equal_gaps_is_not_too_careful_where_each_cluster_is_in_one_period():
    tests = [equal_gaps_test([pair.influence for pair in gaps_of_periods(s, 12, 6, False)]) for s in range(200)]
    # With the degrees of freedom of one period alone it never rejects.
    assert sum(test.p_value < 0.2 for test in tests) >= binom.ppf(0.001, len(tests), 0.1)


def test_one_cluster_shows_no_error():
    rng = np.random.default_rng(0)
    rows = 800
    branch = np.repeat(np.arange(8), 100)
    table = pl.DataFrame({"group": np.where(rng.random(rows) < 0.5, "A", "B"), "score": rng.random(rows)})
    table = table.with_columns(branch=branch, month=pl.Series(np.where(branch < 2, branch, 2).astype(str)))
    table = table.with_columns(outcome=((rng.random(rows) < 0.5) & (branch != 3)).astype(int))
    options = {"scores": "score", "features": [], "clusters": "branch", "outcome": "outcome", "reference": "B"}
    c = tl.audit(table, "group", periods="month", **options)["A"]
    assert c.periods.frame["reason"].to_list() == [ONE_CLUSTER, ONE_CLUSTER, ""]
    assert c.periods.frame["gap_low"].is_null().to_list() == [True, True, False]
    alone = table.with_columns(outcome=(pl.col("outcome") * (pl.col("branch") == 5)))
    c = tl.audit(alone, "group", **options)["A"]
    assert c.error_rates.fnr is None
    assert "one cluster" in c.error_rates.reasons["fnr"]


def test_a_decile_of_one_cluster_is_one_person():
    code, outcome = np.repeat(np.arange(20), 30), np.tile([0, 0, 1], 200)
    rows = Rows.of(code % 2 == 0, None, code)
    cells = calibration_cells(rows, np.full(600, 0.3), outcome, np.where(code == 4, 0, -1))
    assert cells[0].observed.size == pytest.approx(1.0)
    cells = calibration_cells(rows, np.full(600, 0.3), outcome, np.where(code < 8, np.where(rows.audited, 0, 1), -1))
    assert cells[0].observed.degrees == 3.0


def test_prices_have_the_degrees_of_the_group_with_fewer_clusters():
    code, _, score, rng = drawn(0, 104, equal(10))
    audited = code < 4
    rows = CostRows(score, score + 9.0 + rng.normal(size=code.size), np.ones(code.size), audited, clusters=code)
    assert group_gap(rows, score).degrees == 3.0
    assert rows.mean(score).degrees == 3.0
    assert actual_to_expected(rows, code == 7) is None
    draws = []
    for seed in range(300):
        code, _, score, _ = drawn(seed, 104, equal(10))
        rows = CostRows(score, score, np.ones(code.size), code < 4, clusters=code)
        draws.append(group_gap(rows, score).normal().estimate())
    count_covered(draws)  # with the degrees of freedom of 104 clusters: 83%


def test_weights_of_zero_are_no_clusters():
    code, _, score, _ = drawn(0, 30, equal(10))
    counted = (code < 5) * 1.0
    mean = overall_mean(counted, score, code)
    assert mean.degrees == 4.0
    own = overall_mean(np.ones(50), score[:50], code[:50])
    assert mean.se == pytest.approx(own.se)
    assert own.se / own.law_se == pytest.approx(float(student_factor(4.0)))


def test_false_positive_rates_of_few_clusters_are_covered():
    draws = []
    for seed in range(300):
        code, audited, score, _ = drawn(seed, 40, equal(30))
        outcome = (code % 10 > 0).astype(int)  # all people without the outcome are of four clusters
        chosen = outcome == WITHOUT
        means = np.array([score[chosen & (audited == group)].mean() for group in (True, False)])
        rows = Rows.of(audited, None, code)
        draws.append(mean_pair(rows, score, chosen, means, (0.0, 0.0), -np.inf, np.inf).difference.estimate())
    count_covered(draws)
