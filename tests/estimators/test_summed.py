"""Formulas give the same numbers whether rows are arrays or sums of powers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from tiltlens.estimators import crossfit, outputs
from tiltlens.estimators.dial import CORNERS, share_form
from tiltlens.estimators.influence import Rows
from tiltlens.estimators.feature_gap import carrier, cells
from tiltlens.estimators.summed import Partition, Polynomial, PowerSums, SummedRows, SummedScores

EXPONENTS = tuple((i, j, e) for i in range(5) for j in range(5) for e in range(3) if i + j <= 4)
seeds = st.integers(0, 10**6)


def world(seed):
    """Return rows, ℓ, W and codes in memory, and the same as sums."""
    random = np.random.default_rng(seed)
    size = int(random.integers(20, 200))
    audited = np.arange(size) % 3 > 0
    weights = random.exponential(1, size) + 0.1
    ell, score = random.normal(0.3 * audited, 1), expit(random.normal(0.5 * audited, 1))
    codes = random.integers(0, 4, size)
    rows, sums = Rows.of(audited, weights), []
    top = float(ell.max())
    powers = [(ell - 0.1) ** i * (score - 0.5) ** j * np.exp(e * (ell - top)) for i, j, e in EXPONENTS]
    for who in (audited, ~audited):
        first, second = (
            np.column_stack([np.bincount(codes[who], (weights**p * x)[who], 4) for x in powers]) for p in (1, 2)
        )
        sums.append(PowerSums(np.bincount(codes[who], minlength=4), first, second))
    partition = Partition(*sums, np.arange(4))
    log_odds, w = Polynomial.variable(0, 3, 0.1), Polynomial.variable(1, 3, 0.5)
    summed = SummedRows(EXPONENTS, partition.whole, (Polynomial.variable(2, 3), log_odds, top))
    return (rows, ell, score, score[:, None], codes), (summed, log_odds, w, SummedScores((w,)), partition)


def same(found, expected):
    for confidence in (0.5, 0.95):
        for end in ("value", "low", "high"):
            one, two = (getattr(each.estimate(confidence), end) for each in (found, expected))
            assert one == pytest.approx(two, rel=1e-9, abs=1e-9)


@given(seeds)
def test_estimates_of_the_output_are_those_of_rows(seed):
    for formula in (outputs.gap, outputs.impact_ratio, outputs.standardised_difference):
        expected, found = (formula(rows, score) for rows, _, score, _, _ in world(seed))
        same(*(x.normal() if hasattr(x, "normal") else x for x in (found, expected)))
    for formula in (outputs.output_divergence, outputs.output_descent):
        expected, found = (formula(rows, scores) for rows, _, _, scores, _ in world(seed))
        same(found, expected)
    expected, found = (outputs.equal_outputs_limit(rows, scores) for rows, _, _, scores, _ in world(seed))
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)


@given(seeds)
def test_carriers_are_those_of_rows(seed):
    expected, found = (carrier(rows, score, codes) for rows, _, score, _, codes in world(seed))
    for name in ("gap", "reveals", "drives", "alignment"):
        same(getattr(found, name), getattr(expected, name))
    one, two = (cells(rows, score, codes) for rows, _, score, _, codes in world(seed))
    np.testing.assert_allclose(two.means, one.means, atol=1e-12)


@given(seeds)
def test_shares_divergence_and_unexplained_are_those_of_rows(seed):
    forms, others = [], []
    for rows, ell, score, scores, codes in world(seed):
        pair = crossfit.known_pairing(rows, ell)
        gradients = [crossfit.gradient(rows, scores, pair, *corner) for corner in CORNERS]
        parts = [crossfit.explained_variance(rows, g, codes) for g in gradients]
        forms.append(share_form(parts, [crossfit.gradient_variance(rows, [g]) for g in gradients]))
        expected = rows.constant(rows.mean0(score))
        others.append((crossfit.input_divergence(rows, [pair]), crossfit.unexplained(rows, score, expected, [pair])))
    for name in ("numerator", "denominator", "covariance"):
        np.testing.assert_allclose(getattr(forms[1], name), getattr(forms[0], name), rtol=1e-9, atol=1e-12)
    for expected, found in zip(*others, strict=True):
        same(found.normal(), expected.normal())


def test_cells_may_be_joined_and_sums_added():
    _, (_, _, _, _, partition) = world(3)
    joined = partition.joined(np.array([1, 0, 0, 1]))
    np.testing.assert_allclose(joined.audited.first[0], partition.audited.first[1:3].sum(axis=0))
    assert joined.place.tolist() == [1, 0, 0, 1]
    twice = partition.audited + partition.audited
    np.testing.assert_allclose(twice.second, 2 * partition.audited.second)


def test_functions_of_two_features_meet_in_their_joint_cells():
    (rows, _, score, _, codes), (summed, _, w, _, partition) = world(3)
    places = [np.array([0, 1, 1, 0]), np.array([0, 0, 1, 2])]
    tables = [np.array([2.0, -1.0]), np.array([0.5, 3.0, 1.0])]
    expected, found = score, w
    for place, table in zip(places, tables, strict=True):
        expected = expected * table[place[codes]]
        found = found * summed.lifted(table, partition.joined(place))
    assert summed.mean0(found) == pytest.approx(rows.mean0(expected))
    by = summed.sums0(partition.joined(places[0]), found)
    np.testing.assert_allclose(by, rows.sums0(places[0][codes], expected))


def test_functions_of_features_without_joint_cells_have_no_product():
    _, (summed, _, _, _, partition) = world(3)
    _, (_, _, _, _, other) = world(3)
    with pytest.raises(NotImplementedError, match="joint cells"):
        summed.lifted(np.arange(4.0), partition) * summed.lifted(np.arange(4.0), other)
