"""The correction function from moments: K outcomes, column expressions, degenerate groups."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from tests.worlds import random_world, worlds

import tiltlens as tl


@given(worlds(outcomes=(3, 4)))
def test_more_outcomes_from_moments_equal_the_general_form(world):
    ratio = np.log(world.p0 / world.p1)
    audited, reference = (tl.GroupMoments.from_rows(ratio, world.channel, p) for p in (world.p0, world.p1))
    f = tl.correction_function(audited, reference, 0.7, 1.9)
    exact = world.correction((0, 0.7, 0, 1.9))
    assert f(ratio, world.channel) == pytest.approx(exact.values, abs=1e-9)
    assert f.descent_rate == pytest.approx(exact.descent_rate)
    assert len(f.on_scores) == world.channel.shape[1] - 1
    with pytest.raises(tl.TiltlensError, match="`a1`"):
        _ = f.a1
    assert set(f.to_dict()) >= {"descent_rate", "intercept", "on_log_odds", "on_score_1", "on_score_2"}


def binary(seed=0, n=200):
    rng = np.random.default_rng(seed)
    log_odds, scores = rng.normal(size=n), rng.random(n)
    group = rng.random(n) < 0.5
    return log_odds, scores, group


def test_the_correction_function_is_callable_on_column_expressions():
    log_odds, scores, group = binary()
    f = tl.correction_function(*(tl.GroupMoments.from_rows(log_odds[g], scores[g]) for g in (group, ~group)))
    frame = pl.DataFrame({"log_odds": log_odds, "score": scores})
    column = frame.select(f(pl.col("log_odds"), pl.col("score"))).to_series().to_numpy()
    np.testing.assert_allclose(column, f(log_odds, scores))
    assert f(log_odds, scores)[group].mean() == pytest.approx(0, abs=1e-12)
    assert f(log_odds, scores)[group].var() == pytest.approx(1)


def test_rounding_noise_is_not_a_disparity():
    """A constant score, and equal means that differ in the last digit, leave nothing to correct."""
    constant = np.full(1001, 0.1)
    audited = tl.GroupMoments.from_rows(np.full(1001, 0.3), constant)
    reference = tl.GroupMoments.from_rows(np.full(777, 0.3), constant[:777])
    f = tl.correction_function(audited, reference)
    assert f.nothing_to_correct
    assert (f.rho_m, f.a1, f.a2, f.n_l, f.n_m) == (0, 0, pytest.approx(0, abs=1e-12), 0, 0)
    assert f.f_m(constant) == pytest.approx(np.zeros(1001))


def test_an_outcome_absent_from_the_reference_group_is_named():
    log_odds, scores, group = binary()
    audited = tl.GroupMoments.from_rows(log_odds[group], scores[group])
    reference = tl.GroupMoments.from_rows(log_odds[~group], np.zeros((~group).sum()))
    with pytest.raises(tl.TiltlensError, match="infinite: outcome 1"):
        tl.correction_function(audited, reference)
    inputs_only = tl.correction_function(audited, reference, output_weight=0)
    assert inputs_only.n_m == 0
    with pytest.raises(tl.TiltlensError, match="infinite: outcome 1"):
        _ = inputs_only.b1


def test_bad_arguments_are_named(refused):
    two, three = tl.GroupMoments.empty(2), tl.GroupMoments.empty(3)
    with refused(tl.TiltlensError, "`reference`", "`audited`"):
        tl.correction_function(two, three)
    with refused(tl.TiltlensError, "`input_weight`", "100"):
        tl.correction_function(two, two, input_weight=-1)
    with refused(tl.TiltlensError, "a group"):
        tl.correction_function(two, two)


def test_the_repr_is_one_line():
    log_odds, scores, group = binary()
    f = tl.correction_function(*(tl.GroupMoments.from_rows(log_odds[g], scores[g]) for g in (group, ~group)))
    assert repr(f).startswith("CorrectionFunction(")
    assert "\n" not in repr(f)
    assert repr(random_world(0, atoms=4)) == "World(4 atoms, 2 outcomes)"
