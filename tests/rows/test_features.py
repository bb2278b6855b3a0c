"""Columns become levels that people can read, numbers that models can use, and notes that hide nothing."""

from dataclasses import replace
from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.people import ENGINES

from tiltlens._estimators.influence import Rows
from tiltlens._notes import Note
from tiltlens._rows.features import (
    Feature,
    design_columns,
    encode_feature,
    encode_features,
    feature_of,
    flag_separating,
    joined_feature,
)
from tiltlens._rows.levels import MISSING, OTHER, exact_counts, feature_levels, value_levels
from tiltlens._rows.roles import GROUP, check_some, feature_names
from tiltlens._sources.tables import read_table
from tiltlens.errors import DataError

RNG = np.random.default_rng(0)


def encode(values, dtype=None, name="x", **options):
    return encode_feature(read_table({name: pl.Series(values, dtype=dtype)})[name], **options)


def counts_of(column, group, labels):
    """Return how often each value occurs in each group; rows of unknown group, −1, are left out."""
    known = group >= 0
    return exact_counts(column.filter(pl.Series(known)), group[known], pl.Series(GROUP, labels), None)


def encode_beside(table, group, labels="abc"):
    """Return the features of a table whose rows have groups."""
    labels = list(labels[: group.max() + 1])
    every = {name: counts_of(table[name], group, labels) for name in table.columns}
    return [feature_of(feature_levels(name, c, labels, False, False), table[name]) for name, c in every.items()]


def test_few_numbers_are_their_own_levels():
    feature = encode([3.0, 0.5, None, 3.0, -1.0])
    assert feature.kind == "numeric"
    assert feature.labels == ("-1", "0.5", "3", MISSING)
    assert feature.codes.tolist() == [2, 1, 3, 2, 0]
    np.testing.assert_array_equal(feature.values, [3.0, 0.5, np.nan, 3.0, -1.0])
    assert feature.notes == (Note("missing values"),)
    assert feature.is_ordered


def test_twenty_numbers_are_levels_and_twenty_one_are_binned():
    assert len(encode(list(range(20)) * 2).labels) == 20
    feature = encode(list(range(21)) * 2)
    assert len(feature.labels) == 10
    assert feature.is_binned
    assert feature.notes == ()


def test_whole_numbers_are_cut_into_bins_that_name_the_values_inside():
    feature = encode([*range(18, 68), None])
    assert feature.labels == (
        "≤ 22", "23 to 27", "28 to 32", "33 to 37", "38 to 42", "43 to 47", "48 to 52", "53 to 57", "58 to 62", "> 62",
        MISSING,
    )  # fmt: skip
    assert np.bincount(feature.codes).tolist() == [5] * 10 + [1]


def test_bins_of_counts_with_many_zeros_name_single_values():
    feature = encode([0] * 60 + [1] * 20 + list(range(2, 42)))
    assert feature.labels == ("0", "1", "2 to 5", "6 to 17", "18 to 29", "> 29")


def test_bins_of_other_numbers_have_short_exact_edges():
    values = RNG.normal(size=5000)
    feature = encode(values)
    low, high = (float(feature.labels[place].lstrip("≤> ")) for place in (0, -1))
    np.testing.assert_array_equal(feature.codes == 0, values <= low)
    np.testing.assert_array_equal(feature.codes == 9, values > high)
    assert max(len(str(edge)) for edge in (low, high)) <= 5
    share = np.bincount(feature.codes) / values.size
    assert share.min() > 0.08
    assert share.max() < 0.12


def test_numbers_heaped_at_the_largest_still_make_two_bins():
    feature = encode([1.0] * 2000 + list(np.linspace(0, 0.9, 30)))
    assert feature.labels == ("≤ 0.9", "> 0.9")
    assert np.bincount(feature.codes).tolist() == [30, 2000]


@given(
    st.lists(st.floats(-1e99, 1e99), min_size=25, max_size=60, unique=True),
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
)
def test_bins_keep_order_cover_everyone_and_are_all_filled(values, repeats):
    column = np.array(values + [values[i % len(values)] for i in repeats])
    feature = encode(column)
    order = np.argsort(column, kind="stable")
    assert (np.diff(feature.codes[order]) >= 0).all()
    assert np.bincount(feature.codes, minlength=len(feature.labels)).min() > 0
    assert len(set(feature.labels)) == len(feature.labels)


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 4)), min_size=40, max_size=80))
def test_integer_weights_choose_the_edges_of_repeated_rows(rows):
    values, weights = np.array(rows).T
    weighted = encode(values / 4, weights=weights.astype(float))
    repeated = encode(np.repeat(values, weights) / 4)
    assert weighted.labels == repeated.labels
    np.testing.assert_array_equal(np.repeat(weighted.codes, weights), repeated.codes)


def test_levels_do_not_depend_on_row_order():
    values = RNG.normal(size=300).round(2)
    texts = [f"t{number}" for number in RNG.integers(0, 80, 3000)]
    for column in (values, np.array(texts)):
        shuffle = RNG.permutation(len(column))
        assert encode(column).labels == encode(column[shuffle]).labels
        np.testing.assert_array_equal(encode(column).codes[shuffle], encode(column[shuffle]).codes)


def test_booleans_have_two_levels_and_missing():
    feature = encode([True, None, False])
    assert (feature.kind, feature.labels) == ("boolean", ("False", "True", MISSING))
    np.testing.assert_array_equal(feature.values, [1.0, np.nan, 0.0])


def test_dates_are_days_with_labels_that_are_dates():
    days = [date(2020, 1, 1) + timedelta(days=number) for number in range(100)]
    feature = encode([*days, None])
    assert feature.kind == "date"
    assert feature.values[0] == 18262.0
    assert feature.labels[0] == "≤ 2020-01-10"
    assert feature.labels[1] == "2020-01-11 to 2020-01-20"
    assert feature.labels[-2:] == ("> 2020-03-30", MISSING)
    assert encode(days[:2] * 3).labels == ("2020-01-01", "2020-01-02")


def test_times_are_cut_at_whole_days_where_these_differ():
    hours = [datetime(2020, 1, 1) + timedelta(hours=7 * number) for number in range(200)]
    feature = encode(hours)
    assert feature.kind == "date"
    assert all(" 0" not in label.replace(" to ", "") for label in feature.labels[1:-1])
    minutes = [datetime(2020, 1, 1) + timedelta(minutes=7 * number) for number in range(100)]
    assert encode(minutes).labels[0] == "≤ 2020-01-01 01:03:00"


def test_texts_are_levels_in_natural_order_with_missing_last():
    feature = encode(["item 10", None, "item 2", "item 2"])
    assert (feature.kind, feature.labels) == ("categorical", ("item 2", "item 10", MISSING))
    assert feature.codes.tolist() == [1, 2, 0, 0]
    assert feature.values is None
    assert not feature.is_ordered


def test_a_declared_order_is_kept_and_unused_levels_are_not():
    feature = encode(["high", "low", None], pl.Enum(["low", "unused", "high"]))
    assert feature.labels == ("low", "high", MISSING)
    assert feature.is_ordered


def test_many_levels_keep_the_fifty_most_frequent_and_the_rest_are_other():
    texts = [f"t{number}" for number in range(60) for _ in range(60 - number)] + [None]
    feature = encode(texts)
    assert feature.labels == (*(f"t{number}" for number in range(50)), OTHER, MISSING)
    assert (feature.codes == 50).sum() == sum(range(1, 11))
    assert feature.notes[0].code == "many values"
    assert feature.notes[0].values == {"values": "60 different values", "kept": 50, "other": OTHER}


def test_numbers_written_as_text_are_told(worded):
    many = encode([f"{number}.5" for number in range(60) for _ in range(9)])
    assert (many.notes[0].code, many.notes[0].values["kept"]) == ("many values", 50)
    worded(many.notes[0].values["values"])
    (note,) = encode([f"{number}.5" for number in range(600)]).notes
    assert note.code == "identifier"
    worded(note.values["why"])


def test_weights_say_which_levels_are_frequent():
    texts = [f"t{number}" for number in range(60)] * 2
    weights = np.ones(120)
    weights[59] = 5.0
    assert "t59" in encode(texts, weights=weights).labels
    assert "t59" not in encode(texts).labels


def test_literal_names_of_special_levels_join_them():
    feature = encode(["(missing)", None, "(other)", "a"])
    assert feature.labels == ("a", OTHER, MISSING)
    assert feature.codes.tolist() == [2, 2, 1, 0]


def test_hostile_names_are_kept_distinct_and_short():
    long = "x" * 10_000
    feature = encode([long + "a", long + "b", "", "  ", "<script>alert(1)</script>", "😀"] * 4)
    assert len(feature.labels) == 6
    assert len(set(feature.labels)) == 6
    assert max(map(len, feature.labels)) <= 85
    assert {"<script>alert(1)</script>", "😀", "(empty)", "(empty) #2"} < set(feature.labels)


@pytest.mark.parametrize(
    ("values", "label"), [([1.0] * 5, "1"), (["a"] * 5, "a"), ([True] * 5, "True"), ([None] * 5, MISSING)]
)
def test_constants_are_kept_and_flagged(values, label):
    feature = encode(values)
    assert (feature.kind, feature.labels, feature.notes) == ("constant", (label,), (Note("one value"),))
    assert not feature.in_membership


def test_one_value_and_missing_is_not_constant():
    assert encode([1.0, None, 1.0]).labels == ("1", MISSING)
    assert encode(["a", None]).kind == "categorical"


def test_infinite_values_are_an_error_that_names_the_column_and_counts_them(refused):
    with refused(DataError, "'x'"):
        encode([1.0, float("-inf"), float("inf")])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("x", [f"name {number}" for number in range(100)]),
        ("x", list(range(5, 105))),
        ("x", [*range(5, 105), None]),
        ("customer_id", (RNG.permutation(10**6)[:200] * 1000).tolist()),
        ("customerId", (RNG.permutation(10**6)[:200] * 1000).tolist()),
        ("x", RNG.permutation(10**9 // 1000)[:2000].astype(float).tolist()),
    ],
)
def test_columns_that_look_like_identifiers_are_flagged_and_not_used_for_membership(name, values):
    feature = encode(RNG.permutation(np.array(values, dtype=object)).tolist(), name=name)
    assert feature.kind == "identifier"
    assert "looks like an identifier" in feature.notes[0]
    assert not feature.in_membership
    assert feature.codes.max() < len(feature.labels)


@pytest.mark.parametrize(
    "values",
    [
        RNG.normal(size=2000).tolist(),
        (RNG.permutation(10**6)[:200] * 10).tolist(),
        [*range(100), 99],
        ["a", "b", "c"],
    ],
)
def test_numbers_that_differ_by_accident_are_no_identifiers(values):
    assert encode(values).kind in ("numeric", "categorical")


def test_the_group_itself_and_its_recodings_are_flagged():
    group = np.array([0, 1, 1, 2, -1] * 10)
    table = pl.DataFrame(
        {
            "copy": ["a", "b", "b", "c", "a"] * 10,
            "number": [7, 5, 5, 1, None] * 10,
            "coarse": [True, False, False, False, True] * 10,
            "free": [1, 2, 3, 4, 5] * 10,
        }
    )
    features = {feature.name: feature for feature in encode_beside(table, group)}
    for name in ("copy", "number"):
        assert features[name].is_group
        assert features[name].notes[0].code == "group copy"
        assert not features[name].in_membership
    assert not features["coarse"].is_group
    assert "follows from the group" in features["coarse"].notes[0]
    assert not features["free"].is_group
    assert features["free"].notes == ()


def test_listed_features_all_come_back_in_their_order():
    table = pl.DataFrame({"constant": [1] * 30, "id": range(30), "x": [1, 2, 3] * 10})
    assert [f.name for f in encode_features(table, ["x", "id", "constant"])] == ["x", "id", "constant"]


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_engine_gives_the_same_features(engine):
    table = pl.DataFrame(
        {
            "number": RNG.normal(size=200),
            "count": RNG.integers(0, 90, 200),
            "gaps": [None, 0.5, 1.5, 2.5] * 50,
            "text": [None, "b", "a", "c"] * 50,
            "flag": [True, False] * 100,
            "day": [date(2020, 1, 1) + timedelta(days=int(d)) for d in RNG.integers(0, 900, 200)],
        }
    )
    expected = encode_features(table, table.columns)
    for one, other in zip(encode_features(read_table(ENGINES[engine](table)), table.columns), expected, strict=True):
        assert (one.kind, one.labels, one.notes) == (other.kind, other.labels, other.notes)
        np.testing.assert_array_equal(one.codes, other.codes)
        if other.values is not None:
            np.testing.assert_array_equal(one.values, other.values)


def test_default_features_are_the_columns_not_used_otherwise():
    assert feature_names(None, ["a", "b", "c"], used=["b"]) == ["a", "c"]
    assert feature_names(["c", "b", "c"], ["a", "b", "c"], used=["b"]) == ["c", "b"]
    assert feature_names("c", ["a", "b", "c"]) == ["c"]
    assert feature_names(None, ["a", "b", "c"], used=["b"], exclude="c") == ["a"]
    assert feature_names(["a"], ["a", "b", "c"], exclude=["b", "c"]) == ["a"]


def test_unknown_features_are_errors_and_none_where_some_are_needed(refused):
    with refused(DataError, "'agee'", "'age'"):
        feature_names(["agee"], ["age", "sex"])
    for features, used in ((None, ["a"]), ([], [])):
        assert feature_names(features, ["a"], used) == []
    with refused(DataError, "`model`", "'a'"):
        check_some([], ["a"], "model")


def test_columns_that_are_excluded_must_be_there_and_not_listed(refused):
    with refused(DataError, "'agee'", "'age'"):
        feature_names(None, ["age", "sex"], exclude=["agee"])
    with refused(DataError, "`exclude`", "'age'"):
        feature_names(["age"], ["age", "sex"], exclude="age")


def test_levels_of_some_groups_are_those_of_their_people():
    column, group = pl.Series("x", ["u", "v", "w", None] * 5), np.array([0, 1, 2, 1] * 5)
    counts = counts_of(column, group, ["a", "b", "c"])
    assert feature_levels("x", counts, ["a", "b"], False, False).labels == ("u", "v", MISSING)
    assert feature_levels("x", counts, ["a", "c"], False, False).labels == ("u", "w")
    assert feature_levels("x", counts, ["a"], False, False).kind == "constant"


def every_value(column):
    """Return the levels by which sums over all rows are made, and those of the feature."""
    counts = counts_of(column, np.zeros(len(column), dtype=int), ["a"])
    levels = feature_levels(column.name, counts, ["a"], False, False)
    return value_levels(column.name, counts, ["a"], levels), levels


def test_sums_keep_every_value_of_a_category():
    texts = pl.Series("x", [f"t{number:02}" for number in range(60)] * 2 + [None])
    every, levels = every_value(texts)
    assert every.labels == (*(f"t{number:02}" for number in range(60)), MISSING)
    np.testing.assert_array_equal(every.codes(texts), [*range(60), *range(60), 60])
    assert OTHER in levels.labels


def test_sums_have_the_values_of_few_numbers_and_none_of_many():
    every, levels = every_value(pl.Series("few", [3.0, 1.0, None]))
    assert every is levels
    assert every_value(pl.Series("many", np.linspace(0, 1, 121)))[0] is None
    assert every_value(pl.Series("key", [f"t{number}" for number in range(40)]))[0] is None


@pytest.mark.parametrize(
    ("values", "is_apart"),
    [
        ([1.0, 2.0, 5.0, 6.0], True),
        ([1.0, 5.0, 5.0, 6.0], False),
        ([1.0, 6.0, 4.0, 5.0], True),
        ([1.0, np.nan, 5.0, 6.0], False),
    ],
)
def test_values_that_tell_the_groups_apart_completely_are_flagged(values, is_apart):
    audited = np.array([True, True, False, False])
    feature = Feature("x", "numeric", np.arange(4), tuple("abcd"), np.array(values))
    found = flag_separating(feature, audited)
    assert found.is_group is is_apart
    assert found.in_membership is not is_apart
    assert ("separates the groups" in [note.code for note in found.notes]) is is_apart


def test_distinct_numbers_of_both_groups_do_not_tell_them_apart():
    values = np.random.default_rng(0).normal(size=100)
    feature = Feature("x", "numeric", np.zeros(100, dtype=int), ("a",), values)
    assert flag_separating(feature, np.random.default_rng(1).random(100) < 0.5) is feature


def rows_of(*counts, folds=5):
    """Return codes and folds with `counts[level]` audited rows of each level in every fold."""
    codes = np.repeat(np.tile(np.arange(len(counts)), folds), np.tile(counts, folds))
    fold = np.repeat(np.arange(folds), sum(counts))
    return codes, np.ones(codes.size, dtype=bool), fold


def merge_rare(codes, labels, audited, fold, minimum=5, ordered=False):
    """Return the feature after rare levels were joined; two reference rows are added, since there must be some."""
    rows = Rows.of(np.append(audited, [False, False]))
    feature = Feature("x", "categorical", np.append(codes, [0, 0]), labels, is_ordered=ordered)
    joined = joined_feature(feature, rows, np.append(fold, [0, 0]), minimum)
    return replace(joined, codes=joined.codes[:-2])


def test_levels_with_enough_audited_rows_stay():
    codes, audited, fold = rows_of(5, 6)
    merged = merge_rare(codes, ("a", "b"), audited, fold)
    assert merged.labels == ("a", "b")
    assert merged.notes == ()
    np.testing.assert_array_equal(merged.codes, codes)


def test_rare_categories_join_other():
    codes, audited, fold = rows_of(9, 2, 8, 4)
    merged = merge_rare(codes, ("a", "b", "c", "d"), audited, fold)
    assert merged.labels == ("a", "c", OTHER)
    assert np.bincount(merged.codes).tolist() == [45, 40, 30]
    assert merged.notes == (Note("merged levels", levels="'b', 'd'", name=repr(OTHER), minimum=5),)


def test_one_rare_category_takes_the_next_rarest_with_it():
    codes, audited, fold = rows_of(9, 2, 8, 7)
    assert merge_rare(codes, ("a", "b", "c", MISSING), audited, fold).labels == ("a", "c", OTHER)


def test_other_that_is_there_takes_the_rare_levels_in():
    codes, audited, fold = rows_of(9, 2, 8)
    merged = merge_rare(codes, ("a", "b", OTHER), audited, fold)
    assert merged.labels == ("a", OTHER)


def test_rare_ordered_levels_join_their_smaller_neighbour():
    codes, audited, fold = rows_of(6, 9, 1, 7, 2)
    merged = merge_rare(codes, ("0", "1", "2", "3", "4"), audited, fold, ordered=True)
    assert merged.labels == ("0", "1", "2 or 3 or 4")
    assert merged.notes[0] == Note("merged levels", levels="'2', '3', '4'", name="'2 or 3 or 4'", minimum=5)
    codes, audited, fold = rows_of(1, 1, 1, 1, 1, 8)
    assert merge_rare(codes, tuple("012345"), audited, fold, ordered=True).labels == ("0 … 4", "5")


def test_rare_missing_values_of_ordered_levels_join_the_largest():
    codes, audited, fold = rows_of(6, 9, 1)
    assert merge_rare(codes, ("0", "1", MISSING), audited, fold, ordered=True).labels == ("0", f"1 or {MISSING}")
    codes, audited, fold = rows_of(2, 9, 8)
    assert merge_rare(codes, ("0", "1", MISSING), audited, fold, ordered=True).labels == ("0 or 1", MISSING)


def test_levels_that_no_audited_row_has_are_rare():
    codes = np.array([0] * 50 + [1] * 50 + [2] * 50)
    merged = merge_rare(codes, ("a", "b", "c"), codes < 2, np.arange(150) % 5)
    assert merged.labels == ("b", OTHER)
    assert merged.codes[-1] == 1


@given(
    st.lists(st.integers(0, 7), min_size=60, max_size=200),
    st.booleans(),
    st.integers(1, 6),
)
def test_merging_ends_with_enough_rows_everywhere_or_with_one_level(codes, ordered, minimum):
    codes, fold = np.array(codes), np.arange(len(codes)) % 3
    labels = ("a", "b", "c", "d", "e", "f", OTHER, MISSING)
    audited = np.arange(len(codes)) % 2 == 0
    merged = merge_rare(codes, labels, audited, fold, minimum, ordered)
    cells = np.array(
        [[np.sum(audited & (fold == f) & (merged.codes == k)) for k in range(len(merged.labels))] for f in range(3)]
    )
    enough = cells.min() >= minimum
    is_one = len(merged.labels) == 1
    assert enough or is_one
    assert merged.codes.max() < len(merged.labels)
    pairs = set(zip(codes.tolist(), merged.codes.tolist(), strict=True))
    assert len(pairs) == len(set(codes.tolist()))


def test_a_merged_feature_says_so_and_one_that_needs_nothing_is_the_same():
    codes, audited, fold = rows_of(9, 2, 8)
    feature = Feature("x", "categorical", codes, ("a", "b", "c"), None, ("first",))
    audited[:2] = False
    rows = Rows.of(audited)
    merged = joined_feature(feature, rows, fold)
    assert merged.labels == ("a", OTHER)
    assert merged.notes[0] == "first"
    assert "joined as" in merged.notes[1]
    assert joined_feature(merged, rows, fold) is merged


def test_a_membership_model_gets_numbers_and_codes_but_no_identifiers_constants_or_group():
    table = pl.DataFrame(
        {
            "number": [1.5, None, 2.5] * 10,
            "flag": [True, False, True] * 10,
            "text": ["b", "a", None] * 10,
            "day": [date(2020, 1, 1), date(2020, 1, 2), None] * 10,
            "constant": [1] * 30,
            "id": range(30),
            "copy": ["u", "u", "v"] * 10,
        }
    )
    columns = design_columns(encode_beside(table, np.array([0, 0, 1] * 10)))
    assert list(columns) == ["number", "flag", "text", "day"]
    assert {name: column.dtype.kind for name, column in columns.items()} == {
        "number": "f",
        "flag": "f",
        "text": "i",
        "day": "f",
    }
    np.testing.assert_array_equal(columns["number"][:3], [1.5, np.nan, 2.5])
    assert columns["text"][:3].tolist() == [1, 0, 2]


def test_nothing_but_constants_and_identifiers_is_an_error_that_says_why(refused):
    table = pl.DataFrame({"c": [1] * 30, "id": range(30), "copy": [0, 1] * 15})
    with refused(DataError, "'c'", "'id'"):
        design_columns(encode_beside(table, np.array([0, 1] * 15)))
