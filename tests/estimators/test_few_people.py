"""Intervals of few people: rates by Wilson, differences by Newcombe, means by Student's t; bands that know of it."""

import numpy as np
import pytest
from scipy.special import ndtr, stdtrit
from scipy.stats import binom, binomtest

from tiltlens._estimators.estimate import Estimate, difference, quantile
from tiltlens._estimators.feature_gap import cell_coefficient, cell_sums_of, feature_gap, rare_part
from tiltlens._estimators.influence import Rows, satterthwaite
from tiltlens._estimators.outputs import Scores, gap, gap_law, group_rates, impact_ratio
from tiltlens._estimators.verdicts import bands


def decided(size, counted, others=1500, among_others=150):
    """Return rows and decisions: so many of the audited, and of the others, have decision 1."""
    decision = np.concatenate([np.arange(size) < counted, np.arange(others) < among_others]).astype(float)
    rows = Rows.of(np.arange(size + others) < size)
    return rows, Scores.of(rows, decision)


@pytest.mark.parametrize(("size", "rate"), [(30, 0.1), (30, 0.65), (50, 0.5), (20, 0.3), (60, 0.05)])
def test_a_rate_and_a_gap_of_few_people_cover_the_truth(size, rate):
    """Wald's interval of the rate held the truth in 81 to 95 %, that of the gap in 91 to 94 %."""
    counted = np.arange(size + 1)
    chance, of_rate, of_gap = binom.pmf(counted, size, rate), [], []
    for k in counted:
        rows, outcome = decided(size, k)
        found, moved = group_rates(rows, outcome)[0].estimate(), gap_law(rows, outcome).estimate()
        of_rate.append(found.low <= rate <= found.high)
        of_gap.append(moved.low <= rate - 0.1 <= moved.high)  # of 1,500 the rate is known to a point
    assert chance @ of_rate >= 0.93
    assert chance @ of_gap >= 0.92


def test_a_gap_of_decisions_is_newcombe_s():
    rows, outcome = decided(30, 3)
    one, other = (binomtest(k, n).proportion_ci(0.95, "wilson") for k, n in ((3, 30), (150, 1500)))
    found = gap_law(rows, outcome).estimate()
    assert found.low == pytest.approx(-np.hypot(0.1 - one.low, other.high - 0.1), rel=1e-9)
    assert found.high == pytest.approx(np.hypot(one.high - 0.1, 0.1 - other.low), rel=1e-9)


def test_two_estimates_that_err_together_differ_by_less():
    one, other = Estimate(0.5, 0.4, 0.6), Estimate(0.3, 0.2, 0.4)
    reaches = [difference(one, other, rho).high - 0.2 for rho in (-1.0, 0.0, 1.0)]
    assert reaches == pytest.approx([0.2, 0.1 * np.sqrt(2), 0.0], abs=1e-8)
    assert difference(one, Estimate(0.3)) == Estimate(0.5 - 0.3)


@pytest.mark.parametrize("is_decisions", [False, True])
def test_heavy_weights_cover_the_gap(is_decisions):
    """Two hundred draws of log-normal weights, sd 1.5: the normal quantile held in 87 to 91 %."""
    random, held = np.random.default_rng(0), 0
    for _ in range(400):
        weights = np.exp(1.5 * random.standard_normal(300))
        rows = Rows.of(np.arange(300) < 150, weights)
        tilt = np.log(weights) / 1.5 + random.standard_normal(300)
        score = (random.random(300) < 0.5).astype(float) if is_decisions else 1 / (1 + np.exp(-tilt))
        found = gap_law(rows, Scores.of(rows, score)).estimate()
        held += found.low <= 0.0 <= found.high
    assert held / 400 >= 0.92


def test_degrees_of_freedom_are_those_of_normal_rows_and_few_where_few_rows_count():
    random = np.random.default_rng(0)
    normal = random.standard_normal(4000)
    assert satterthwaite(normal, normal @ normal) == pytest.approx(4000, rel=0.1)
    columns = np.column_stack([normal, np.where(np.arange(4000) == 7, 100.0, 0.01), np.zeros(4000)])
    found = satterthwaite(columns, (columns**2).sum(axis=0))
    assert found[1:].tolist() == [4.0, pytest.approx(2e300)]
    assert satterthwaite(normal, 2.0, between=1.0, pairings=3) <= 8.0  # half of the variance has two degrees


def test_a_band_has_students_quantile_and_no_rounding():
    wide, known, rounding = bands([0.1, 0.1, 1e-15], np.array([0.01, 0.01, 1e-15]), 2.7, np.array([4.0, 1e9, 4.0]))
    assert known.reach == pytest.approx(0.027, rel=1e-6)
    assert wide.reach == pytest.approx(0.01 * quantile(2 * ndtr(2.7) - 1, 4.0), rel=1e-6)
    assert tuple(rounding) == (0.0,) * 5


def with_flag(size, counted, share, others=1500):
    """Return rows, a score that is 0.5 higher where a flag is set, and the flag's codes."""
    flag = np.concatenate([np.arange(size) < counted, np.arange(others) < round(share * others)]).astype(int)
    rows = Rows.of(np.arange(size + others) < size)
    return rows, 0.2 + 0.5 * flag, flag


@pytest.mark.parametrize(
    ("size", "counted", "share", "is_rare"),
    [
        (30, 0, 0.1, True),  # three expected, none seen
        (30, 4, 0.1, True),
        (30, 5, 0.1, False),  # five seen: their rows show the error
        (60, 0, 0.1, False),  # six expected
        (500, 0, 0.5, False),  # nobody audited has what half of the others have: that is a finding
        (30, 9, 0.0, False),
        (1000, 2, 0.003, False),  # three expected, but they cannot move the gap by half a point
    ],
)
def test_a_value_is_rare_where_neither_group_leads_to_expect_five(size, counted, share, is_rare):
    rows, score, flag = with_flag(size, counted, share)
    assert (rare_part(cell_sums_of(rows, score, flag)) > 0.005) == is_rare
    swapped = Rows.of(~rows.audited)
    assert (rare_part(cell_sums_of(swapped, score, flag)) > 0.005) == is_rare


def test_bands_of_a_rare_value_cover_the_truth_or_are_not_told():
    """A flag of one in ten, 30 or 60 audited: without t and the rule, 0 was outside in 4.4 and 5.4 % of draws."""
    for size in (30, 60):
        chance, held = binom.pmf(np.arange(size + 1), size, 0.1), []
        for counted in range(size + 1):
            rows, score, flag = with_flag(size, counted, 0.1)
            sums = cell_sums_of(rows, score, flag)
            found = feature_gap(rows, Scores.of(rows, score), cell_coefficient(rows, score, flag, sums)).gap
            degrees = satterthwaite(found.influence, found.variance)
            (band,) = bands([found.value], np.array([found.se]), 2.7, np.array([degrees]))
            held.append(rare_part(sums) > 0.005 or band.low <= 0.0 <= band.high)
        assert chance @ held > 0.98


def clustered(kind, random, count, size=20):
    """Return rows of so many clusters with effects of their own, and scores that do not differ between groups."""
    cluster = np.repeat(np.arange(count), size)
    is_audited = {
        "both groups in each": np.arange(cluster.size) % 2 == 0,
        "five of one group": cluster < 5,
    }[kind]
    effect, moved = random.standard_normal((2, count))
    latent = 0.5 * (effect[cluster] + moved[cluster] * is_audited) + random.standard_normal(cluster.size)
    rows = Rows.of(is_audited, None, cluster)
    return rows, Scores.of(rows, 1 / (1 + np.exp(-latent))), Scores.of(rows, (latent > 0.0) * 1.0)


@pytest.mark.parametrize(
    ("kind", "count", "most"), [("both groups in each", 10, 0.015), ("five of one group", 40, 0.03)]
)
def test_few_clusters_cover_the_gap_at_every_level(kind, count, most):
    """Student's factor of 95% was 8% short at 99%; C = 40 clusters, 5 of one group, covered 90% at 95%."""
    random, levels, covered = np.random.default_rng(0), (0.9, 0.95, 0.99), []
    for _ in range(1000):
        rows, *scored = clustered(kind, random, count)
        laws = [law for scores in scored for law in (gap_law(rows, scores), gap(rows, scores).normal())]
        laws += [impact_ratio(rows, scores) for scores in scored]
        truths = [0.0] * 4 + [1.0] * 2
        covered.append(
            [
                [e.low <= t <= e.high for t, e in zip(truths, (law.estimate(q) for law in laws), strict=True)]
                for q in levels
            ]
        )
    share = np.mean(covered, axis=0)
    assert (share >= np.array(levels)[:, None] - 0.015).all()
    assert (share <= np.array(levels)[:, None] + most).all()


def test_student_s_quantile_of_clusters_is_that_of_the_level():
    rows, scores, _ = clustered("both groups in each", np.random.default_rng(1), 10)
    estimates = [gap(rows, scores).normal().estimate(level) for level in (0.9, 0.99)]
    widths = [estimate.high - estimate.low for estimate in estimates]
    assert widths[1] / widths[0] == pytest.approx(stdtrit(9, 0.995) / stdtrit(9, 0.95))
