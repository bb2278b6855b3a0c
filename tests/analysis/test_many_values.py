"""A feature with too many values for the rows: what it carries is told, what no model can know of it is not."""

import numpy as np
import polars as pl
import pytest

import tiltlens as tl
from tiltlens._notes import Note


@pytest.fixture(scope="module")
def places():
    random = np.random.default_rng(5)
    place = random.integers(0, 300, 4_000)
    chance = random.beta(0.7, 0.7, 300)[place]
    frame = pl.DataFrame(
        {
            "group": np.where(random.random(4_000) < chance, "a", "b"),
            "place": [f"p{number}" for number in place],
            "noise": random.normal(size=4_000),
            "score": 0.5 - 0.4 * (chance - 0.5),
        }
    )
    return tl.audit(frame, "group", reference="b", scores="score")["a"]


def test_the_whole_gap_goes_through_the_feature(places):
    row = places.contributions_full.row(by_predicate=pl.col("feature") == "place", named=True)
    assert row["alone_low"] <= places.gap.value <= row["alone_high"]
    assert row["verdict"] == "potential proxy"


def test_what_no_model_can_know_is_not_determined(places):
    row = places.contributions_full.row(by_predicate=pl.col("feature") == "place", named=True)
    assert (row["beyond_others"], row["share"]) == (None, None)
    assert places.contributions_full["shapley"].is_null().all()
    names = {"adjusted_gap": "the adjusted gap", "descent_rate": "descent_rate", "input_divergence": "input_divergence"}
    for name, text in names.items():
        assert places.estimate(name) is None
        assert Note("too many values", quantity=text, features="place") in places.checks.notes


def test_another_feature_is_judged_all_the_same(places):
    row = places.contributions_full.row(by_predicate=pl.col("feature") == "noise", named=True)
    assert row["verdict"] == "no material contribution"
