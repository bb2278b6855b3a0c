"""Planted truths, told apart: a fast version of `benchmarks/planted.py`, where fifty seeds are drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from benchmarks.planted import exclusive_or, many_features
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from tiltlens.estimators.estimate import Ratio
from tiltlens.estimators.verdicts import JOINT, NOTHING, PROXY
from tiltlens.results.proxies import Total

SIZE = 5_000
SEEDS = (0, 1, 2)


def logistic():
    """Return a right membership model for the many features, without the time that choosing takes."""
    encoder = make_column_transformer(
        (OneHotEncoder(), ["noise, 50 levels", "noise 3"]), remainder=StandardScaler(), sparse_threshold=0
    )
    return make_pipeline(encoder, LogisticRegression())


@cache
def many(seed):
    found = many_features(SIZE, 4, seed).comparison(seed, logistic())
    return found, {row["feature"]: row for row in found.proxies.to_dicts()}


@cache
def pair(seed, by_group=0.0):
    model = None if seed == 0 else make_pipeline(PolynomialFeatures(2), StandardScaler(), LogisticRegression())
    found = exclusive_or(SIZE, seed, by_group).comparison(seed, model)
    return found, {row["feature"]: row for row in found.proxies.to_dicts()}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_proxy_that_the_model_uses_is_evidence(seed):
    row = many(seed)[1]["proxy"]
    assert row["verdict"] == PROXY
    assert row["gap_low"] > 0.005
    assert row["direction"] == "more proxy → higher score, and more common among audited"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["ignored", "neutral"])
def test_a_feature_that_does_one_of_the_two_only_is_none(seed, name):
    row = many(seed)[1][name]
    assert row["verdict"] not in (PROXY, JOINT)
    reveals, drives = row["share_inputs_low"] > 0.1, row["share_outputs_low"] > 0.1
    assert (reveals, drives) == (name == "ignored", name == "neutral")


def test_most_often_there_is_enough_data_to_say_so():
    verdicts = [many(seed)[1][name]["verdict"] for seed in SEEDS for name in ("ignored", "neutral")]
    assert verdicts.count(NOTHING) > len(verdicts) / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pair_that_hides_the_group_is_joint_evidence_and_names_the_partner(seed):
    rows = pair(seed)[1]
    for one, other in (("left", "right"), ("right", "left")):
        assert rows[one]["verdict"] == JOINT
        assert rows[one]["partner"] == other
        assert rows[one]["share_high"] < 0.05
        assert rows[one]["total_share_low"] > 0.1
    assert rows["third"]["verdict"] == PROXY
    assert rows["idle"]["verdict"] == NOTHING
    assert rows["idle"]["partner"] is None


@pytest.mark.parametrize("seed", SEEDS)
def test_two_copies_name_each_other(seed):
    rows = many(seed)[1]
    for one, other in (("copy", "other copy"), ("other copy", "copy")):
        assert rows[one]["verdict"] == PROXY
        assert rows[one]["redundant_with"] == other
        assert rows[one]["total_share_high"] < 0.03
    assert [name for name, row in rows.items() if row["redundant_with"]] == [name for name in rows if "copy" in name]


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_is_no_evidence(seed):
    noise = {name: row for name, row in many(seed)[1].items() if name.startswith("noise")}
    assert len(noise) == 4
    assert {row["verdict"] for row in noise.values()} <= {NOTHING}
    assert all(row["partner"] is None for row in noise.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_score_that_uses_the_group_leaves_something_unexplained(seed):
    assert pair(seed, 0.2)[0].unexplained.low > 0.03
    without = pair(seed)[0].unexplained
    assert abs(without.value) < 0.002


def test_the_planted_features_are_what_they_are_said_to_be():
    draw = exclusive_or(200_000, 0)
    left, right = (draw.table[name].to_numpy() for name in ("left", "right"))
    means = [np.mean(x[draw.audited]) - np.mean(x[~draw.audited]) for x in (left, right)]
    assert means == pytest.approx([0.0, 0.0], abs=0.02)
    assert np.mean((left * right)[draw.audited]) == pytest.approx(0.4, abs=0.01)


def test_what_no_regression_learns_widens_a_total_upwards():
    added = Ratio(0.0, 1.0, 1e-8, 0.0, 1e-8)
    left = Ratio(0.5, 1.0, 1e-6, 0.0, 1e-6, is_complement=True)
    nothing = Ratio(1.0, 1.0, 1e-8, 0.0, 1e-8, is_complement=True)
    assert Total(added, left, nothing).estimate() == added.estimate()
    widened = Total(added, left, left).estimate()
    assert (widened.value, widened.low) == (added.estimate().value, added.estimate().low)
    assert widened.high == left.estimate().high > 0.5


def test_the_only_feature_carries_all_and_a_constant_nothing():
    draw = exclusive_or(1000, 0)
    table = draw.table.select("third", constant=pl.lit(3))
    found = replace(draw, table=table).comparison(0, LogisticRegression())
    rows = {row["feature"]: row for row in found.proxies.to_dicts()}
    assert (rows["third"]["total_share"], rows["constant"]["total_share"]) == (1.0, 0.0)
    assert rows["constant"]["verdict"] == NOTHING
