"""A column by its distinct values is the column again, whatever it holds."""

import numpy as np
import polars as pl
import pytest

from tiltlens._limits import MOST_COUNTED
from tiltlens._sources import arrays as module
from tiltlens._sources.arrays import factorize, factorize_texts, text_codes


@pytest.mark.parametrize("count", [1, 8, 300, 20_000])
def test_codes_of_texts_are_their_places(count):
    random = np.random.default_rng(3)
    known = pl.Series([f"text {place}" for place in range(count)])
    at = random.integers(0, count + 2, 60_000)
    column = pl.concat([known, pl.Series(["unheard of", None])]).gather(at)
    assert np.array_equal(text_codes(column, known, first=5, other=-1), np.where(at < count, 5 + at, -1))
    found, codes = factorize_texts(column, first=1, missing=0)
    again = pl.concat([pl.Series([None], dtype=pl.String), found]).gather(codes)
    assert again.equals(column)
    assert found.n_unique() == len(found)


def test_texts_that_are_first_seen_late_have_codes_too(monkeypatch):
    monkeypatch.setattr(module, "FIRST_ROWS", 10)
    column = pl.Series(["a"] * 20 + ["late", None, "later"])
    found, codes = factorize_texts(column, first=1, missing=0)
    assert pl.concat([pl.Series([None], dtype=pl.String), found]).gather(codes).equals(column)


@pytest.mark.parametrize("last", [MOST_COUNTED - 2, MOST_COUNTED - 1, MOST_COUNTED, 10**9])
def test_whole_numbers_are_known_by_their_values_where_these_are_close(last):
    column = pl.Series("x", [0, 3, last, None])
    found = factorize(column)
    assert (found is None) == (last >= MOST_COUNTED)
    if found is not None:
        assert found.values.gather(found.codes).equals(column)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([0.5, 1.0]),
        pl.Series([0.0, 1e-17]),
        pl.Series([0.0, float("inf")]),
        pl.Series([1e300, 0.0]),
        pl.Series([-(2**63), -(2**63) + 1], dtype=pl.Int64),
        pl.Series([str(place) for place in range(MOST_COUNTED + 1)]),
    ],
)
def test_fractions_keys_and_too_many_texts_are_not(column):
    assert factorize(column) is None


def test_a_column_of_nothing_has_one_value():
    for dtype in (pl.Int64, pl.Float64, pl.String, pl.Boolean, pl.Date):
        column = pl.Series("x", [None, None], dtype=dtype)
        found = factorize(column)
        assert found is not None
        assert found.values.gather(found.codes).equals(column)
