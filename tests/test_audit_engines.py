"""The same table gives the same audit, to the ninth digit, whoever held it and however it was cut."""

import re
from functools import cache

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.people import (
    ENGINES,
    FEATURES,
    SOURCES,
    SPARK,
    WAYS,
    along,
    assert_same_numbers,
    audited,
    in_arrays,
    in_pandas,
    people,
)

import tiltlens as tl
from tiltlens.errors import TiltlensError


@cache
def expected(way):
    return audited(people(), **WAYS[way]).to_dict()


@pytest.mark.parametrize(
    ("held", "way"),
    [
        *along(["pandas", SPARK], "plug-in"),
        ("csv files", "amounts"),
        ("parquet file", "known membership"),
        ("duckdb", "fitted membership, weights"),
    ],
    indirect=["held"],
)
def test_engines_give_the_same_audit(held, way):
    """Of all sources `tests/rows/test_sources.py` compares the rows and sums, of which every audit is made."""
    found = audited(held(people()), **WAYS[way]).to_dict()
    assert_same_numbers(found, expected(way))
    assert found["provenance"]["data_sha256"] == expected(way)["provenance"]["data_sha256"]


@cache
def plug_in():
    return audited(people(), folds=None)["A"]


@cache
def plug_in_of_decisions():
    return audited(people(), threshold=0.5, folds=None)["A"]


@pytest.mark.parametrize("engine", ["pandas", "duckdb"])
def test_engines_give_the_same_profiles_and_distributions(engine):
    plain = plug_in()
    found = audited(ENGINES[engine](people()), folds=None)["A"]
    for feature in FEATURES:
        assert_same_numbers(found.correction.profile(feature).to_dicts(), plain.correction.profile(feature).to_dicts())
        assert_same_numbers(
            found.correction.distribution(feature).to_dicts(), plain.correction.distribution(feature).to_dicts()
        )


def in_words(*words):
    """Return people whose decisions are words; the first is for high scores, and others are rare and late."""
    high, low, *others = words
    frame = people().with_row_index()
    word = pl.when(pl.col("score") >= 0.5).then(pl.lit(high)).otherwise(pl.lit(low))
    for place, other in enumerate(others):
        word = pl.when(pl.col("index") == frame.height - 1 - place).then(pl.lit(other)).otherwise(word)
    return frame.with_columns(decision=word.alias("decision")).sort("decision").drop("index")


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("held", ["pandas", "csv files", SPARK], indirect=True)
def test_decisions_in_words_are_those_in_numbers_though_a_batch_holds_one_word(held):
    found = audited(held(in_words("approved", "denied")), scores="decision", favourable="approved", folds=None)
    assert (found.favourable, found.score_type) == ("approved", "decision")
    assert_same_numbers(found["A"].to_dict(), plug_in_of_decisions().to_dict())


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("held", SOURCES, indirect=True)
@pytest.mark.parametrize(
    ("words", "favourable", "message"),
    [
        (("approved", "denied"), "high", "got 'high'.\nHint: the outcomes are 'approved', 'denied'; which"),
        (("approved", "denied"), "Approved", "got 'Approved'.\nHint: the outcomes are 'approved', 'denied'; which"),
        (("approved", "denied", "asked again"), "approved", "in two words, got 'approved', 'asked again', 'denied'."),
    ],
)
def test_decisions_in_words_must_be_two_and_name_the_favourable_one(held, words, favourable, message):
    with pytest.raises(TiltlensError, match=re.escape(message)):
        audited(held(in_words(*words)), scores="decision", favourable=favourable)


def test_the_comparison_of_summaries_sees_a_difference_anywhere():
    changed = audited(people(), **WAYS["plug-in"]).to_dict()
    changed["comparisons"]["A"]["contributions"][2]["share"] += 1e-6
    with pytest.raises(AssertionError, match=r"comparisons\.A\.contributions\[2\]\.share"):
        assert_same_numbers(changed, expected("plug-in"))


def test_the_users_table_is_left_as_it_was():
    frame, columns = in_pandas(people()), in_arrays(people())
    before, arrays = frame.copy(deep=True), {name: values.copy() for name, values in columns.items()}
    for data in (frame, columns):
        audited(data, folds=None, sample_weight="weight")
    pd.testing.assert_frame_equal(frame, before)
    for name, values in columns.items():
        np.testing.assert_array_equal(values, arrays[name])


def test_rows_that_are_drawn_by_chance_each_time_are_refused():
    people_drawn = "FROM range(3000) t(i) WHERE random() < 0.5"
    drawn = duckdb.sql(f"SELECT chr(65 + i::INT % 2) AS sex, i % 97 / 97 AS score {people_drawn}")
    message = r"must have the same rows each time it is read, got [\d,]+ and then [\d,]+ of '[AB]'\.\nHint: write"
    with pytest.raises(TiltlensError, match=message):
        tl.audit(drawn, "sex", scores="score", features=[], folds=None, sample_rows=1_000)
