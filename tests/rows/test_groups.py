"""Everyone is in a group, unknown, or in a group too small to compare; nobody is dropped silently."""

from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tiltlens._estimators.error_rates import UNKNOWN, WITH, WITHOUT
from tiltlens._notes import Note
from tiltlens._rows.groups import (
    JOINT,
    NO_GROUP,
    alike_notes,
    compared_groups,
    factorize_groups,
    group_columns,
    group_key,
    natural_order,
    outcome_codes,
)
from tiltlens._sources.tables import column_of_values, read_table
from tiltlens.errors import DataError


class Groups(NamedTuple):
    name: str
    codes: Any
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    unknown: int
    reference: str
    audited: tuple[str, ...]
    too_small: Mapping[str, int]


def groups_of(table, group, reference=None, audited=None):
    """Return the groups of a table's rows and who is compared, as an audit finds them."""
    names = group_columns(group, table.columns)
    parts = [table[name] for name in names] or [column_of_values("group", group, table.height)]
    name = JOINT.join(names) or "group"
    codes, labels = factorize_groups(name, parts)
    counts = np.bincount(codes[codes != NO_GROUP], minlength=len(labels)).tolist()
    found = compared_groups(name, dict(zip(labels, counts, strict=True)), table.height, reference, audited)
    return Groups(name, codes, labels, tuple(counts), int((codes == NO_GROUP).sum()), *found)


def table_of(**counts):
    return pl.DataFrame({"g": [label for label, count in counts.items() for _ in range(count)]})


def test_codes_labels_and_counts_account_for_every_row():
    table = pl.DataFrame({"g": ["b", None, "a", "b"] * 10 + ["c"] * 3})
    groups = groups_of(table, "g")
    assert groups.labels == ("a", "b", "c")
    assert groups.counts == (10, 20, 3)
    assert groups.unknown == 10
    assert groups.codes[:4].tolist() == [1, -1, 0, 1]
    assert groups.codes.dtype == np.int64
    assert groups.reference == "b"
    assert groups.audited == ("a",)
    assert groups.too_small == {"c": 3}
    assert sum(groups.counts) + groups.unknown == table.height
    assert (groups.codes == groups.labels.index("a")).sum() == 10


def test_the_default_reference_is_the_largest_group_and_of_equals_the_first_in_the_alphabet():
    assert groups_of(table_of(b=30, a=20, c=30), "g").reference == "b"


def test_audited_may_be_one_value_or_several():
    table = table_of(a=20, b=20, c=30)
    assert groups_of(table, "g").audited == ("a", "b")
    assert groups_of(table, "g", audited="b").audited == ("b",)
    assert groups_of(table, "g", audited=["b", "a", "b"]).audited == ("b", "a")
    assert groups_of(table, "g", audited=("b", "a")).audited == ("b", "a")
    assert groups_of(table, "g", reference="a", audited=np.array(["c"])).audited == ("c",)


@pytest.mark.parametrize(
    ("values", "labels", "reference"),
    [
        ([1.0, 2.0], ("1", "2"), 1.0),
        ([1, 2], ("1", "2"), 1),
        ([1.5, 10.0], ("1.5", "10"), 10),
        ([True, False], ("False", "True"), True),
        ([date(2020, 1, 1), date(2021, 1, 1)], ("2020-01-01", "2021-01-01"), date(2020, 1, 1)),
        (["<b>x</b>", "😀"], ("<b>x</b>", "😀"), "😀"),
        (["", "a"], ("", "a"), ""),
        (["group 10", "group 2"], ("group 2", "group 10"), "group 2"),
    ],
)
def test_values_of_every_kind_become_text_keys(values, labels, reference):
    groups = groups_of(pl.DataFrame({"g": values * 10}), "g", reference=reference)
    assert groups.labels == labels
    assert groups.reference == group_key(reference)


def test_categoricals_keep_their_declared_order_and_lose_levels_that_nobody_has():
    order = pl.Enum(["young", "unused", "old"])
    groups = groups_of(pl.DataFrame({"g": pl.Series(["old", "young"] * 10, dtype=order)}), "g")
    assert groups.labels == ("young", "old")
    assert groups.codes[:2].tolist() == [1, 0]


def test_a_float_column_with_gaps_names_the_same_groups_as_integers():
    floats = read_table(pd.DataFrame({"g": [1.0, 2.0, np.nan] * 10}))
    integers = pl.DataFrame({"g": [1, 2, None] * 10})
    assert groups_of(floats, "g").labels == groups_of(integers, "g").labels
    np.testing.assert_array_equal(groups_of(floats, "g").codes, groups_of(integers, "g").codes)


def test_several_columns_are_their_intersections_and_a_missing_part_is_unknown():
    table = pl.DataFrame({"race": ["A", "A", "B", None] * 10, "sex": ["f", "m", "f", "f"] * 10})
    groups = groups_of(table, ["race", "sex"], reference=("A", "m"), audited="B & f")
    assert groups.name == "race & sex"
    assert groups.labels == ("A & f", "A & m", "B & f")
    assert groups.unknown == 10
    assert groups.reference == "A & m"
    assert groups.audited == ("B & f",)
    assert groups_of(table, ["race", "sex"], reference="A & m", audited=("B", "f")).audited == ("B & f",)
    np.testing.assert_array_equal(groups.codes[:4], [0, 1, 2, -1])


def test_intersections_of_many_levels_stay_small(refused):
    numbers = np.arange(3000)
    table = pl.DataFrame({"a": numbers, "b": numbers, "c": numbers % 2})
    with refused(DataError, "10"):
        groups_of(table, ["a", "b", "c"])


def test_intersections_that_would_be_confused_are_an_error(refused):
    table = pl.DataFrame({"x": ["a & b", "a"] * 10, "y": ["c", "b & c"] * 10})
    with refused(DataError, "same name"):
        groups_of(table, ["x", "y"])


@pytest.mark.parametrize("kind", [list, np.array, pl.Series, pd.Series, tuple])
def test_an_array_as_long_as_the_data_is_a_group(kind):
    groups = groups_of(pl.DataFrame({"x": range(30)}), kind(["a", "b", "b"] * 10))
    assert groups.counts == (10, 20)
    assert groups.name == "group"


def test_an_array_of_another_length_is_an_error(refused):
    with refused(DataError, "`group`", "30"):
        groups_of(pl.DataFrame({"x": range(30)}), np.array(["a", "b"]))


def test_a_list_of_text_names_columns_unless_it_is_long_and_names_none(refused):
    assert group_columns("g", ["g"]) == ["g"]
    assert group_columns(["g", "h"], ["g", "h"]) == ["g", "h"]
    assert group_columns(["a"] * 20, ["g"]) == []
    assert group_columns(np.array(["g"]), ["g"]) == []
    with refused(DataError, "'rcae'", "'race'"):
        group_columns("rcae", ["race", "sex"])
    with refused(DataError, "'sexx'"):
        group_columns(["race", "sexx"], ["race", "sex"])


def test_an_unknown_reference_is_an_error_that_lists_the_values(refused):
    with refused(DataError, "'B'", "'b'"):
        groups_of(table_of(a=20, b=20), "g", reference="B")


def test_an_unknown_audited_group_is_an_error_that_lists_the_values(refused):
    with refused(DataError, "'zz'"):
        groups_of(table_of(a=20, b=20), "g", audited=["a", "zz"], reference="b")


def test_one_group_only_is_an_error(refused):
    with refused(DataError, "`group`", "'g'"):
        groups_of(table_of(a=20), "g")


def test_a_group_of_missing_values_only_is_an_error(refused):
    table = pl.DataFrame({"g": pl.Series([None] * 20, dtype=pl.String)})
    with refused(DataError, "20"):
        groups_of(table, "g")


def test_a_group_of_three_people_is_not_compared_and_named_explicitly_is_an_error(refused):
    table = table_of(a=20, b=20, c=3)
    assert groups_of(table, "g").audited == ("b",)
    for argument in ("audited", "reference"):
        with refused(DataError, "'c'", f"`{argument}`"):
            groups_of(table, "g", **{argument: "c"})


def test_no_two_groups_large_enough_is_an_error_that_gives_the_sizes(refused):
    with refused(DataError, "'a'", "'b'"):
        groups_of(table_of(a=20, b=3), "g")


def test_the_reference_cannot_be_audited(refused):
    with refused(DataError, "`audited`", "`reference`"):
        groups_of(table_of(a=20, b=30), "g", audited="b")


def test_no_audited_group_is_an_error(refused):
    with refused(DataError, "`audited`"):
        groups_of(table_of(a=20, b=30), "g", audited=[])


def test_a_value_of_ten_thousand_characters_is_a_key_and_shown_short():
    long = "x" * 10_000
    assert long in groups_of(pl.DataFrame({"g": [long, "a"] * 10}), "g").labels
    with pytest.raises(DataError) as error:
        groups_of(pl.DataFrame({"g": [long, "a"] * 10}), "g", reference="b")
    assert len(str(error.value)) < 400


def test_natural_order_takes_any_text():
    texts = ["10", "9" * 10_000, "", "²", "a10", "a9", "A1", "٣"]
    assert sorted(texts, key=natural_order).index("a9") < sorted(texts, key=natural_order).index("a10")


def test_groups_that_differ_by_spaces_or_case_are_noted():
    assert alike_notes(["A", "B", "a ", "C", "c c", "CC"]) == [
        Note("similar group names", groups="'A', 'a '"),
        Note("similar group names", groups="'CC', 'c c'"),
    ]
    assert alike_notes(["A", "B"]) == []


@pytest.mark.parametrize("values", [[0, None], ["no", None], [False, None], [0.0, None]])
def test_a_missing_outcome_is_unknown_though_nobody_in_the_batch_has_it(values):
    codes, meanings = outcome_codes(pl.Series(values), {"0": WITHOUT, "false": WITHOUT, "yes": WITH})
    assert codes.tolist() == [WITHOUT, UNKNOWN]
    assert WITH not in meanings.values()
