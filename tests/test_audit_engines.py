"""The same table gives the same audit, to the ninth digit, whoever held it and however it was cut."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from tests.people import ENGINES, FEATURES, SOURCES, WAYS, assert_same_numbers, audited, in_arrays, in_pandas, people


@cache
def expected(way):
    return audited(people(), **WAYS[way]).to_dict()


@pytest.mark.parametrize("held", SOURCES, indirect=True)
@pytest.mark.parametrize("way", list(WAYS))
def test_every_engine_gives_the_same_audit(held, way):
    found = audited(held(people()), **WAYS[way]).to_dict()
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
    frame, columns = in_pandas(people()), in_arrays(people())
    before, arrays = frame.copy(deep=True), {name: values.copy() for name, values in columns.items()}
    for data in (frame, columns):
        audited(data, folds=None, weights="weight")
    pd.testing.assert_frame_equal(frame, before)
    for name, values in columns.items():
        np.testing.assert_array_equal(values, arrays[name])
