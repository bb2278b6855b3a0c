"""Regressions of the score on all features: fitted on rows of their own, and what they leave between people alike."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit

from tiltlens._analysis.adjusted_gap import adjusted_gap
from tiltlens._analysis.evidence import Question, Settings
from tiltlens._estimators.influence import Rows
from tiltlens._estimators.outputs import Scores
from tiltlens._learners.candidates import CANDIDATES
from tiltlens._learners.propensity import (
    area_under_curve,
    choose_membership,
    fold_pairings,
    given_membership,
    row_folds,
)
from tiltlens._learners.regressions import Expectations, Regressor, cell_means, expectations, joint_values
from tiltlens._rows.wording import PROBABILITY

LINEAR = tuple(candidate for candidate in CANDIDATES if candidate.name == "linear")
SETTINGS = Settings()


def levelled(seed, size=3_000):
    """Return two groups whose two features have few values, one of them with an own place in each group."""
    rng = np.random.default_rng(seed)
    audited = rng.random(size) < 0.4
    one = np.clip(np.round(1.5 * rng.normal(size=size) + 0.9 * audited), -3, 3)
    two = rng.integers(0, 3, size)
    return audited, {"one": one, "two": two}, expit(0.5 * one + 0.4 * two * (one > 0) - 0.3)


def left(rows, outcome, membership, expected):
    """Return what an audit says is unexplained."""
    evidence = SimpleNamespace(
        sample=rows,
        population=rows,
        rows=SimpleNamespace(probabilities=None, unit=PROBABILITY, features=()),
        nuisances=SimpleNamespace(sets=SimpleNamespace(pooled=()), propensity=membership, expectations=expected),
        score=Scores.of(rows, np.clip(outcome, 0, 1)),
        score_is_of_features=False,
        question=Question(audited="a", reference="b"),
    )
    return adjusted_gap(evidence, SETTINGS)


@pytest.mark.parametrize("direct", [0.0, -0.05])
def test_what_is_left_tells_whether_the_score_knows_the_group(direct):
    audited, table, score = levelled(5)
    rows = Rows.of(audited)
    outcome = 0.1 + 0.8 * score + direct * audited
    membership = choose_membership(rows, table, offered=LINEAR)
    expected = expectations(rows, table, {"two": table["two"]}, outcome, membership, 5, 0)
    found, notes = left(rows, outcome, membership, expected)
    assert found.estimate.low - 1e-3 <= direct <= found.estimate.high + 1e-3
    assert (found.estimate.high < -0.04) is (direct < 0)
    assert ("not accounted for" in [note.code for note in notes]) is (direct < 0)


def lessons(errors, basis, fold):
    """Return for each pairing the errors of its two models at each row: means of what each of their folds taught."""
    own, every = np.arange(fold.size), errors @ basis.T
    return [
        np.array([(every[list(a)].mean(axis=0), every[list(b)].mean(axis=0)) for a, b in pairs])[fold, :, own].T
        for pairs in fold_pairings(5, True)
    ]


MONTE_CARLO = 2 * (0.92 * 0.08 / 300) ** 0.5  # two standard errors of a coverage over 300 draws


@pytest.mark.parametrize(
    ("noise", "direct"),
    [(0.0, 0.0), (0.0, 0.03), (0.05, 0.03)],
)
def test_what_is_left_covers_whether_or_not_the_features_determine_the_score(noise, direct):
    """Without noise, the errors of the two regressions meet in a product as large as the influence function."""
    hits = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        audited = np.arange(1_000) % 2 == 0
        x = rng.standard_normal(1_000) + 0.5 * audited
        basis = np.cos(np.outer(x, np.arange(1, 5)) + np.arange(4))
        rows, fold = Rows.of(audited), row_folds(Rows.of(audited), 5, seed)
        e, m = expit(0.5 * x - 0.125), 0.2 + 0.6 * expit(x)
        outcome = m + direct * audited + noise * rng.uniform(-1, 1, 1_000)
        ells = [0.5 * x - 0.125 + error for error in lessons(0.2 * rng.standard_normal((5, 4)), basis, fold)]
        membership = SimpleNamespace(halves=[np.array(both) for both in ells])
        wrong = lessons(0.03 * rng.standard_normal((5, 4)), basis, fold)
        expected = Expectations(fold, tuple(m + direct * e + error for error in wrong))
        found, _ = left(rows, outcome, membership, expected)
        hits += found.estimate.low <= direct <= found.estimate.high
    assert 0.92 - MONTE_CARLO <= hits / 300 <= 0.99


def test_a_regression_has_not_seen_the_rows_it_is_used_on():
    audited, table, score = levelled(1, size=300)
    rows, values = Rows.of(audited), {"two": table["two"]}
    membership = choose_membership(rows, table, offered=LINEAR)
    own = membership.fold == 2
    one, other = (
        expectations(rows, table, values, target, membership, 5, 0)
        for target in (score, np.where(own, 1 - score, score))
    )
    assert len(one.pairs) == 3
    for before, after in zip(one.pairs, other.pairs, strict=True):
        np.testing.assert_array_equal(before[:, own], after[:, own])
        assert (before[:, ~own] != after[:, ~own]).any(axis=0).all()  # one of the two halves has seen fold 2


def test_trees_have_not_seen_the_rows_they_are_used_on():
    x = np.random.default_rng(0).normal(size=200)
    rows = Rows.of(np.arange(200) % 2 == 0)
    known = given_membership(rows, 0.3 * x, area_under_curve(rows, x))
    one = expectations(rows, {"x": x}, {}, expit(x), known, 5, 0)
    own = one.fold == 2
    other = expectations(rows, {"x": x}, {}, np.where(own, 0.0, expit(x)), known, 5, 0)
    np.testing.assert_array_equal(one.mean[own], other.mean[own])
    assert (one.mean[~own] != other.mean[~own]).all()


def test_each_half_of_a_pairing_learns_from_its_own_rows():
    audited, table, score = levelled(2, size=400)
    rows = Rows.of(audited)
    membership = choose_membership(rows, table, offered=LINEAR)
    values = {"two": table["two"]}
    found = expectations(rows, table, values, score, membership, 5, 0)
    omega = 0.5 * (rows.audited_share + rows.reference_share)
    regressor = Regressor.of(table, values, score, 400 * omega, 0)
    for pairs, half in zip(found.pairs, membership.plan, strict=True):
        for side in (0, 1):
            for fold in range(5):
                own = np.flatnonzero(membership.fold == fold)
                train = np.flatnonzero(np.isin(membership.fold, membership.parts[half[fold, side]].folds))
                np.testing.assert_allclose(pairs[side, own], regressor.fitted(score, train, own), atol=1e-12)


def test_beside_a_given_membership_each_fold_is_regressed_on_all_others():
    audited, table, score = levelled(3, size=400)
    rows = Rows.of(audited)
    log_odds = logit(0.4 + 0.01 * table["one"])
    known = given_membership(rows, log_odds, area_under_curve(rows, log_odds))
    found = expectations(rows, table, {"two": table["two"]}, score, known, 5, 0)
    (pair,) = found.pairs
    np.testing.assert_array_equal(pair[0], pair[1])
    np.testing.assert_array_equal(found.mean, pair[0])
    assert np.corrcoef(pair[0], score)[0, 1] > 0.99


def test_joint_values_that_are_few_have_their_means():
    _, table, score = levelled(4, size=4_000)
    cells = joint_values(table)
    assert len(np.unique(cells)) == len(np.unique(np.column_stack(list(table.values())), axis=0))
    regressor = Regressor.of(table, {"two": table["two"]}, score, np.ones(4_000), 0)
    found = regressor.fitted(score, np.arange(0, 4_000, 2), np.arange(1, 4_000, 2))
    np.testing.assert_allclose(found, score[1::2], atol=0.02)  # a function of the joint values, shrunk
    assert joint_values({"x": np.random.default_rng(0).normal(size=4_000)}) is None


def test_means_of_cells_are_shrunk_by_their_noise():
    rng = np.random.default_rng(0)
    cells = np.repeat(np.arange(50), 8)
    every, ones = np.arange(400), np.ones(400)
    level = rng.normal(size=50)
    for noise, share in ((0.01, 1.0), (2.8, 0.5)):  # of cells of 8 rows, half is noise
        left_over = level[cells] + noise * rng.normal(size=400)
        plain = np.array([left_over[cells == cell].mean() for cell in range(50)])
        found = cell_means(cells, every, left_over, ones)(np.arange(0, 400, 8))
        ratio = found / plain
        assert ratio == pytest.approx(np.full(50, ratio[0]))
        assert ratio[0] == pytest.approx(share, abs=0.15)
    nothing = cell_means(cells, every, rng.normal(size=400), ones)(every)
    assert np.abs(nothing).max() < 0.5


def test_a_feature_of_many_values_has_the_means_of_what_is_left_at_each():
    rng = np.random.default_rng(0)
    place = rng.integers(0, 300, 6_000)
    level = rng.uniform(0.2, 0.8, 300)
    regressor = Regressor.of({"place": place}, {"place": place}, level[place], np.ones(6_000), 0)
    found = regressor.fitted(level[place], np.arange(0, 6_000, 2), np.arange(1, 6_000, 2))
    assert np.std(found - level[place][1::2]) < 0.25 * level.std()
