"""Error rates by group: scikit-learn's numbers, DeLong's errors, repeated rows, clusters."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri
from scipy.stats import binom, binomtest, norm
from sklearn.metrics import confusion_matrix, roc_auc_score

from tiltlens._estimators.error_rates import (
    UNKNOWN,
    area_pair,
    calibration_cells,
    calibration_in_the_large,
    false_negative_rate,
    false_positive_rate,
)
from tiltlens._estimators.estimate import Proportion
from tiltlens._estimators.feature_gap import cell_sums_of
from tiltlens._estimators.influence import Rows

MAKERS = {
    "fpr": lambda rows, w, y: false_positive_rate(rows, w, y, cell_sums_of(rows, w, y, 3)),
    "fnr": lambda rows, w, y: false_negative_rate(rows, w, y, cell_sums_of(rows, w, y, 3)),
    "calibration": lambda rows, w, y: calibration_in_the_large(rows, w, y, cell_sums_of(rows, w, y, 3)),
    "auc": area_pair,
}


def people(size=600, seed=0, digits=2):
    """Return who is audited, scores with ties, outcomes of which some are not known, and whole weights."""
    random = np.random.default_rng(seed)
    audited = random.random(size) < 0.4
    score = np.round(random.beta(2 + audited, 3), digits)
    outcome = (random.random(size) < 0.8 * score + 0.1 * audited).astype(int)
    return audited, score, np.where(random.random(size) < 0.05, UNKNOWN, outcome), random.integers(1, 4, size)


def numbers(pair):
    found = [one.estimate() for one in (pair.audited, pair.reference, pair.difference)]
    return [(one.value, one.high - one.low) for one in found]


@pytest.mark.parametrize("is_weighted", [False, True])
def test_rates_of_decisions_are_those_of_a_confusion_matrix(is_weighted):
    audited, score, outcome, weight = people()
    decision, w = (score >= 0.5).astype(float), weight if is_weighted else np.ones(len(weight))
    rows = Rows.of(audited, w)
    found = {name: make(rows, decision, outcome) for name, make in MAKERS.items()}
    expected = {}
    for group, who in (("audited", audited), ("reference", ~audited)):
        mine = who & (outcome != UNKNOWN)
        (tn, fp), (fn, tp) = confusion_matrix(outcome[mine], decision[mine], sample_weight=w[mine])
        expected[group] = fp / (fp + tn), fn / (fn + tp), (fn - fp) / (tn + fp + fn + tp)
        for name, value in zip(MAKERS, expected[group], strict=False):
            assert getattr(found[name], group).value == pytest.approx(value, abs=1e-12)
    for place, name in enumerate(("fpr", "fnr", "calibration")):
        difference = expected["audited"][place] - expected["reference"][place]
        assert found[name].difference.estimate().value == pytest.approx(difference, abs=1e-12)


@pytest.mark.parametrize("digits", [1, 2, 9])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_area_under_the_curve_is_that_of_scikit_learn(digits, is_weighted):
    audited, score, outcome, weight = people(digits=digits)
    w = weight if is_weighted else np.ones(len(weight))
    found = area_pair(Rows.of(audited, w), score, outcome)
    for one, who in ((found.audited, audited), (found.reference, ~audited)):
        mine = who & (outcome != UNKNOWN)
        assert one.value == pytest.approx(roc_auc_score(outcome[mine], score[mine], sample_weight=w[mine]), abs=1e-12)


def test_the_error_of_the_area_is_delong_s():
    audited, score, outcome, _ = people()
    found = area_pair(Rows.of(audited), score, outcome)
    variance = 0.0
    for who in (audited, ~audited):
        x, y = score[who & (outcome == 1)], score[who & (outcome == 0)]
        pairs = (x[:, None] > y) + 0.5 * (x[:, None] == y)
        variance += pairs.mean(axis=1).var() / len(x) + pairs.mean(axis=0).var() / len(y)
    assert found.influence.se == pytest.approx(np.sqrt(variance), rel=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_whole_weights_have_the_values_of_repeated_rows_and_clusters_of_copies_their_errors(name):
    audited, score, outcome, weight = people()
    index = np.repeat(np.arange(len(weight)), weight)
    weighted = MAKERS[name](Rows.of(audited, weight), score, outcome)
    repeated = MAKERS[name](Rows.of(audited[index], None, index), score[index], outcome[index])
    for (value, width), (one, other) in zip(numbers(weighted), numbers(repeated), strict=True):
        assert value == pytest.approx(one, abs=1e-12)
        assert width == pytest.approx(other, rel=0.02)  # Student's t of so many clusters, or people


@pytest.mark.parametrize("name", MAKERS)
def test_clusters_of_one_row_are_none_and_swapping_the_groups_flips_the_difference(name):
    audited, score, outcome, weight = people()
    plain = MAKERS[name](Rows.of(audited, weight), score, outcome)
    alone = MAKERS[name](Rows.of(audited, weight, np.arange(len(weight))), score, outcome)
    assert numbers(alone) == numbers(plain)
    swapped = MAKERS[name](Rows.of(~audited, weight), score, outcome)
    one, other = swapped.difference.estimate(), plain.difference.estimate()
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low), abs=1e-14)


def test_rates_that_rows_show_no_spread_of_have_binomial_bounds():
    audited = np.arange(100) < 50
    outcome = np.arange(100) % 2
    for name, make in MAKERS.items():
        found = make(Rows.of(audited), outcome.astype(float), outcome)
        assert found.audited.value == (1.0 if name == "auc" else 0.0)
        size = 50 if name == "calibration" else 25
        is_rate = name in ("fpr", "fnr")
        bound = binomtest(0, size).proportion_ci(0.95, "wilson" if is_rate else "exact").high
        low, high = found.audited.estimate().low, found.audited.estimate().high
        assert (1 - low if name == "auc" else high) == pytest.approx(bound, rel=0.05 if name == "calibration" else 1e-9)


def test_cells_have_the_rates_of_their_people():
    audited, score, outcome, weight = people()
    rows, known = Rows.of(audited, weight), outcome != UNKNOWN
    for who in (audited, ~audited):
        tenth = np.where(who & known, (score * 10).astype(int), -1)
        for number, cell in enumerate(calibration_cells(rows, score, outcome, tenth)):
            mine = tenth == number
            assert cell.people == mine.sum()
            if cell.people:
                assert cell.mean_score == pytest.approx(np.average(score[mine], weights=weight[mine]))
                assert cell.observed.value == pytest.approx(np.average(outcome[mine] == 1, weights=weight[mine]))
                assert cell.observed.size <= mine.sum() * (1 + 1e-9)


def test_unweighted_cells_have_the_wilson_interval_of_their_people():
    audited, score, outcome, _ = people()
    tenth = np.where(audited & (outcome != UNKNOWN), (score * 4).astype(int), -1)
    for number, cell in enumerate(calibration_cells(Rows.of(audited), score, outcome, tenth)):
        if cell.people:
            have = int(((tenth == number) & (outcome == 1)).sum())
            expected = binomtest(have, cell.people).proportion_ci(0.95, "wilson")
            found = cell.observed.estimate(0.95)
            assert_allclose([found.low, found.high], [expected.low, expected.high], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("each", "shift"), [(10, 1.2), (10, 2.0), (50, 2.2)])
def test_intervals_of_a_large_area_cover_it_with_few_people(each, shift):
    draw, truth, covered = np.random.default_rng(0), norm.cdf(shift / np.sqrt(2)), 0
    outcome = np.tile(np.repeat([0, 1], each), 2)
    for _ in range(400):
        score = draw.normal(shift * outcome)
        found = area_pair(Rows.of(np.arange(4 * each) < 2 * each), score, outcome).audited.estimate()
        covered += found.low <= truth <= found.high
    assert covered >= binom.ppf(0.01, 400, 0.95)


def test_cells_cover_the_rate_of_an_outcome_that_clusters_share():
    draw, rate, covered, cells = np.random.default_rng(0), 0.1, 0, 0
    cluster = np.repeat(np.arange(60), 10)
    rows, audited = Rows.of(cluster < 30, clusters=cluster), cluster < 30
    for _ in range(100):
        outcome, quarter = (draw.random(60) < rate).astype(int)[cluster], draw.integers(0, 4, 60)[cluster]
        for cell in calibration_cells(rows, outcome * 0.5, outcome, np.where(audited, quarter, -1)):
            found = cell.observed.estimate(0.95)
            covered, cells = covered + (found.low <= rate <= found.high), cells + 1
    assert covered >= binom.ppf(0.001, cells, 0.93)


def test_wilson_covers_a_small_rate():
    have = np.arange(40)
    ends = [Proportion(k / 40, 40).estimate(0.95) for k in have]
    covered = [one.low <= 0.06 <= one.high for one in ends]
    assert binom.pmf(have, 40, 0.06) @ np.array(covered) > 0.93


@pytest.mark.parametrize("name", MAKERS)
def test_intervals_of_differences_cover_the_truth(name):
    truth = numbers(MAKERS[name](*_drawn(2_000_000, 99)))[2][0]
    found = [MAKERS[name](*_drawn(800, seed)).difference.estimate(0.95) for seed in range(400)]
    assert 0.92 < np.mean([one.low <= truth <= one.high for one in found]) < 0.98


def _drawn(size, seed):
    audited, score, outcome, _ = people(size, seed)
    return Rows.of(audited), score, outcome


@pytest.mark.parametrize(("area", "few"), [(0.7, 10), (0.9, 25)])
def test_areas_of_few_people_with_the_outcome_are_covered(area, few):
    rng, covered = np.random.default_rng(5), 0
    y = np.repeat([1, 0, 1, 0], [few, 200, 60, 60])
    audited = np.arange(y.size) < few + 200
    for _ in range(300):
        score = rng.normal(size=y.size) + y * math.sqrt(2.0) * ndtri(area)
        estimate = area_pair(Rows.of(audited), score, y).audited.estimate()
        covered += estimate.low <= area <= estimate.high
    assert covered >= binom.ppf(0.001, 300, 0.94)  # with normal quantiles 91 to 93%


def test_an_area_of_decisions_has_the_error_that_equal_decisions_hide():
    rng, covered = np.random.default_rng(6), 0
    y = np.repeat([1, 0, 1, 0], [10, 300, 60, 60])
    audited = np.arange(y.size) < 310
    for _ in range(300):
        decision = (rng.random(y.size) < np.where(y == 1, 0.9, 0.1)) * 1.0
        estimate = area_pair(Rows.of(audited), decision, y).audited.estimate()
        covered += estimate.low <= 0.9 <= estimate.high
    assert covered >= binom.ppf(0.001, 300, 0.95)  # 62% if ten equal decisions count as certain
