"""Types of text columns: the counts of all rows decide them, whatever the first rows and files are."""

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltlens._sources.text_columns import (
    BOOLEAN,
    DATES,
    INTEGER,
    NUMBER,
    TEXT,
    TextColumns,
    TextCounts,
    count_texts,
    decide_type,
    sum_counts,
)

VALUES = ["1", "-2", "007", "2.5", "1,5", " 5 ", "9" * 20, "true", "2020-01-31", "31/01/2020", "12 %", "word", None]


def counts(known, forms, **others):
    return TextCounts(rows=known, filled=known, forms=Counter(forms), int64s=forms.get(INTEGER, 0), **others)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (TextCounts(rows=3), TEXT),
        (counts(3, {BOOLEAN: 3}), BOOLEAN),
        (counts(3, {INTEGER: 3, NUMBER: 3}), INTEGER),
        (counts(3, {INTEGER: 3, NUMBER: 3}, codes=1), TEXT),
        (TextCounts(rows=3, filled=3, forms=Counter({INTEGER: 3, NUMBER: 3}), int64s=2), TEXT),
        (counts(3, {INTEGER: 2, NUMBER: 3}, codes=1), NUMBER),
        (counts(3, {NUMBER: 2}), TEXT),
        (counts(3, {"%d/%m/%Y": 3}), "%d/%m/%Y"),
        (counts(3, {"%d/%m/%Y": 2, "%Y-%m-%d": 1}), TEXT),
    ],
)
def test_the_type_is_the_first_form_that_all_values_have(column, expected):
    assert decide_type(column) == expected


def test_sources_with_numbers_of_their_own_have_dates_only():
    assert decide_type(counts(3, {INTEGER: 3, NUMBER: 3}), DATES) == TEXT
    assert decide_type(counts(3, {"%Y-%m-%d": 3}), DATES) == "%Y-%m-%d"


texts = st.lists(st.sampled_from(VALUES), min_size=1, max_size=12)


def lazy(values):
    return pl.DataFrame({"x": values}, schema={"x": pl.String}).lazy()


@given(texts, texts)
def test_counts_of_two_files_decide_as_those_of_one_file(first, last):
    apart = sum_counts([count_texts(lazy(first)), count_texts(lazy(last))])["x"]
    together = count_texts(lazy(first + last))["x"]
    assert decide_type(apart) == decide_type(together)
    assert (apart.rows, apart.filled) == (together.rows, together.filled)


@given(texts, st.sampled_from([".", ","]))
def test_no_known_value_is_lost_by_the_cast(values, decimal):
    columns = TextColumns(count_texts(lazy(values), decimal), decimal)
    cast = columns.cast(lazy(values)).collect()["x"]
    assert cast.is_null().to_list() == [value is None for value in values]
    if columns.type_of("x") == TEXT:
        assert cast.to_list() == values


def test_columns_that_are_not_text_are_counted_but_not_cast():
    frame = pl.DataFrame({"x": ["1", "2"], "y": [1.5, None]})
    columns = TextColumns(count_texts(frame.lazy()))
    assert (columns.counts["y"].rows, columns.counts["y"].filled) == (2, 1)
    assert columns.cast(frame.lazy()).collect().rows() == [(1, 1.5), (2, None)]
    assert columns.warnings(["x", "y"], "") == []
