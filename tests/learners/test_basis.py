"""The basis of the sets' regressions: columns belong to the features they are made of, and planted gaps are found."""

from __future__ import annotations

import numpy as np
import pytest

from tiltlens._estimators.influence import Rows
from tiltlens._estimators.ridges import FoldRidges
from tiltlens._estimators.sets import RidgeSets, covariance, shapley_gaps
from tiltlens._learners.linear_models import basis_grams, basis_of, pooled_features
from tiltlens._learners.propensity import row_folds


def mixed(seed=0, size=2_000):
    """Return a table of every kind of feature, a group and a score."""
    rng = np.random.default_rng(seed)
    audited = (rng.random(size) < 0.4).astype(float)
    table = {
        "amount": rng.normal(size=size) + 0.5 * audited,
        "coin": rng.integers(0, 2, size),
        "few": rng.integers(0, 4, size).astype(float),
        "gaps": np.where(rng.random(size) < 0.2, np.nan, rng.normal(size=size)),
        "place": rng.integers(0, 6, size),
        "skewed": np.exp(rng.normal(size=size)),
    }
    return table, audited, np.clip(0.5 + 0.1 * table["amount"] + 0.05 * table["coin"], 0, 1)


def omega_of(audited):
    rows = Rows.of(audited == 1)
    return 0.5 * (rows.audited_share + rows.reference_share)


@pytest.mark.parametrize("name", list(mixed()[0]))
def test_a_column_changes_with_the_features_it_belongs_to_and_with_no_other(name):
    table, audited, score = mixed()
    basis = basis_of(table, audited, score, omega_of(audited), 0)
    place = list(table).index(name)
    moved = {**table, name: np.random.default_rng(1).permutation(table[name])}
    one, other = (basis.rows(each, slice(None), audited, score)[:, 1:-2] for each in (table, moved))
    np.testing.assert_array_equal((one != other).any(axis=0), (basis.owners == place).any(axis=1))


def test_rows_hold_one_the_columns_the_group_and_the_score():
    table, audited, score = mixed()
    basis = basis_of(table, audited, score, omega_of(audited), 0)
    z = basis.rows(table, slice(None), audited, score)
    np.testing.assert_array_equal(z[:, 0], 1.0)
    np.testing.assert_array_equal(z[:, -2], audited)
    np.testing.assert_array_equal(z[:, -1], score)
    np.testing.assert_allclose(z[:, 1:-2].mean(axis=0), 0.0, atol=1e-9)
    spread, is_spline = z[:, 1:-2].std(axis=0), basis.encoder.kinds == "spline"
    np.testing.assert_allclose(spread[~is_spline], 1.0, atol=1e-9)
    for number in np.unique(basis.blocks[is_spline]):  # columns of a spline that rest on few rows have less
        np.testing.assert_allclose((spread[is_spline & (basis.blocks == number)] ** 2).mean(), 1.0, atol=1e-9)


def test_grams_are_sums_over_the_rows_of_each_fold(monkeypatch):
    from tiltlens._learners import linear_models as module

    table, audited, score = mixed()
    omega, fold = omega_of(audited), row_folds(Rows.of(audited == 1))
    basis = basis_of(table, audited, score, omega, 0)
    z = basis.rows(table, slice(None), audited, score)
    monkeypatch.setattr(module, "MODEL_CHUNK", 300)
    for index in (np.arange(2_000), np.arange(0, 2_000, 3)):
        found = basis_grams(basis, table, audited, score, omega, fold, index)
        assert found[:, 0, 0].sum() == pytest.approx(1.0)
        for number in range(5):
            own = index[fold[index] == number]
            expected = (z[own] * omega[own][:, None]).T @ z[own] / omega[index].sum()
            np.testing.assert_allclose(found[number], expected, atol=1e-12)


def test_features_whose_people_have_values_without_columns_are_named():
    rng = np.random.default_rng(0)
    audited, score = (rng.random(3_000) < 0.4).astype(float), rng.random(3_000)
    table = {"few": rng.integers(0, 20, 3_000), "many": rng.integers(0, 1_000, 3_000)}
    omega = omega_of(audited)
    assert pooled_features(table, basis_of(table, audited, score, omega, 0), omega) == ["many"]


NAMES = ("copy", "ignored", "left", "neutral", "noise", "proxy", "right")
OF_PAIR, OF_PROXY = 0.3 * 0.5, 0.06 * 0.8


def planted(seed, direct, size=4_000):
    """Return features independent given the group: a pair that agrees more often in one, a proxy and its copy, …"""
    rng = np.random.default_rng(seed)
    audited = rng.random(size) < 0.4
    left = rng.integers(0, 2, size)
    agree = rng.random(size) < np.where(audited, 0.8, 0.3)
    proxy, neutral = rng.normal(size=size) + 0.8 * audited, rng.normal(size=size)
    table = {
        "copy": proxy.copy(),
        "ignored": rng.normal(size=size) - 0.8 * audited,
        "left": left,
        "neutral": neutral,
        "noise": rng.normal(size=size),
        "proxy": proxy,
        "right": np.where(agree, left, 1 - left),
    }
    score = 0.3 + 0.3 * agree + 0.06 * proxy + 0.04 * neutral + 0.02 * rng.normal(size=size) + direct * audited
    return audited, table, score


def planted_sets(seed, direct):
    audited, table, score = planted(seed, direct)
    rows, fold, s = Rows.of(audited), row_folds(Rows.of(audited)), audited.astype(float)
    omega = omega_of(s)
    basis = basis_of(table, s, score, omega, 0)
    grams = basis_grams(basis, table, s, score, omega, fold, np.arange(score.size))
    ridges = FoldRidges(grams, basis.owners, basis.blocks, 1.0 / float(omega @ omega))
    return RidgeSets(ridges, len(table), basis.rows(table, slice(None), s, score), fold, rows)


def joint_values(sets):
    weights = np.vstack([-np.ones((1, sets.features)), np.eye(sets.features)])
    found = sets.left_out().combine(weights)
    return found.values, np.sqrt(np.diag(covariance(found.influence, found.between)))


@pytest.mark.parametrize("direct", [0.0, -0.05])
def test_planted_gaps_go_through_the_features_they_were_planted_in(direct):
    truth = {"left": OF_PAIR, "right": OF_PAIR}
    alone = {"proxy": OF_PROXY, "copy": OF_PROXY}
    hits, gaps = [], []
    for seed in range(12):
        sets = planted_sets(seed, direct)
        values, se = joint_values(sets)
        hits.append(
            [abs(v - truth.get(name, 0.0)) < 1.96 * e + 5e-4 for name, v, e in zip(NAMES, values, se, strict=True)]
        )
        assert values[[NAMES.index(name) for name in ("left", "right")]].min() > 0.12
        nothing = [NAMES.index(name) for name in ("copy", "ignored", "noise", "proxy")]
        assert np.abs(values[nothing]).max() < 0.001
        found = sets.sets([[], *([j] for j in range(7)), list(range(7))])
        gaps.append(found.values[0] - found.values[1:8] - [alone.get(name, 0.0) for name in NAMES])
        assert found.values[8] == pytest.approx(direct, abs=0.01)
    assert np.mean(hits) > 0.85
    assert np.abs(np.mean(gaps, axis=0)).max() < 0.004


def test_shapley_values_of_planted_gaps_halve_the_pair_s_and_the_copies():
    found = shapley_gaps(planted_sets(0, -0.05), 0)
    expected = {"left": OF_PAIR / 2, "right": OF_PAIR / 2, "proxy": OF_PROXY / 2, "copy": OF_PROXY / 2}
    for name, value, se in zip(NAMES, found.values, found.se, strict=True):
        assert value == pytest.approx(expected.get(name, 0.0), abs=3 * se + 0.002), name
