"""The same table gives the same audit, to the ninth digit, whichever engine held it."""

from datetime import date, timedelta
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from tests.engines.test_tables import ENGINES

import tiltlens as tl

FEATURES = ["income", "city", "owner", "since"]
WAYS = {
    "plug-in": {"folds": None},
    "known membership": {"membership": "chance"},
    "fitted membership": {"folds": 5},
}


@cache
def people(rows=400, seed=3):
    """Return numbers with gaps, texts, booleans and dates that differ between two groups, with a score of them."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.45
    income = random.normal(50 - 6 * audited, 10, rows)
    city = np.where(
        random.random(rows) < 0.3 + 0.25 * audited, "North", np.where(random.random(rows) < 0.5, "Süd", "East")
    )
    owner = random.random(rows) < 0.5 - 0.15 * audited
    days = random.integers(0, 700, rows) + 30 * audited
    score = expit(0.05 * (income - 48) + 0.5 * owner - 0.4 * (city == "North") + 0.3 * random.normal(size=rows))
    return pl.DataFrame(
        {
            "group": np.where(audited, "A", "B"),
            "income": pl.Series(np.where(random.random(rows) < 0.05, np.nan, income)).fill_nan(None),
            "city": city,
            "owner": owner,
            "since": [date(2020, 1, 1) + timedelta(days=int(day)) for day in days],
            "score": score,
            "weight": random.integers(1, 4, rows),
            "chance": expit(0.7 * (city == "North") - 0.06 * (income - 47) - 0.5 * owner - 0.3),
        }
    )


def audited(data, **options):
    return tl.audit(data, **{"group": "group", "reference": "B", "scores": "score", "features": FEATURES} | options)


def assert_same_numbers(found, expected, within=1e-9, place="audit"):
    """Assert that two summaries are equal, their numbers up to `within`, naming the first place that is not."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for key in expected.keys() - {"provenance"}:  # when it was made, and from which order of rows
            assert_same_numbers(found[key], expected[key], within, f"{place}.{key}")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), place
        for at, pair in enumerate(zip(found, expected, strict=True)):
            assert_same_numbers(*pair, within, f"{place}[{at}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=within, abs=within), place
    else:
        assert found == expected, place


@cache
def expected(way):
    return audited(people(), **WAYS[way]).to_dict()


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "polars"])
@pytest.mark.parametrize("way", list(WAYS))
def test_every_engine_gives_the_same_audit(engine, way):
    found = audited(ENGINES[engine](people()), **WAYS[way]).to_dict()
    assert_same_numbers(found, expected(way))
    assert found["provenance"]["data_sha256"] == expected(way)["provenance"]["data_sha256"]


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_engine_gives_the_same_profiles_and_distributions(engine):
    plain = audited(people(), folds=None)["A"]
    found = audited(ENGINES[engine](people()), folds=None)["A"]
    for feature in FEATURES:
        assert_same_numbers(found.profile(feature).to_dicts(), plain.profile(feature).to_dicts())
        assert_same_numbers(found.distribution(feature).to_dicts(), plain.distribution(feature).to_dicts())


def test_the_comparison_of_summaries_sees_a_difference_anywhere():
    changed = audited(people(), **WAYS["plug-in"]).to_dict()
    changed["comparisons"]["A"]["proxies"][2]["share"] += 1e-6
    with pytest.raises(AssertionError, match=r"comparisons\.A\.proxies\[2\]\.share"):
        assert_same_numbers(changed, expected("plug-in"))


def test_the_users_table_is_left_as_it_was():
    frame, columns = ENGINES["pandas"](people()), ENGINES["dict of numpy"](people())
    before, arrays = frame.copy(deep=True), {name: values.copy() for name, values in columns.items()}
    for data in (frame, columns):
        audited(data, folds=None, weights="weight")
    pd.testing.assert_frame_equal(frame, before)
    for name, values in columns.items():
        np.testing.assert_array_equal(values, arrays[name])
