"""One hash of a row: the same tomorrow, in any engine, order of columns and cut of batches; another for other rows."""

from datetime import date, datetime

import numpy as np
import polars as pl
import pytest
from tests.people import SOURCES, classed

from tiltlens._sources import arrays
from tiltlens._sources.arrays import factorize, mixed_hashes, row_hashes
from tiltlens._sources.engines import collected

KINDS = {
    "whole": pl.Series([3, 1, None, -2], dtype=pl.Int64),
    "whole floats": pl.Series([3.0, 1.0, None, -2.0]),
    "fractions": pl.Series([0.5, -0.25, None, 1e-3]),
    "huge": pl.Series([1e300, -1e300, None, float("inf")]),
    "keys": pl.Series([10**15, 10**15 + 1, None, -(10**15)], dtype=pl.Int64),
    "booleans": pl.Series([True, False, None, True]),
    "texts": pl.Series(["b", "", None, "Süd 😀"]),
    "levels": pl.Series(["b", "a", None, "c"], dtype=pl.Enum(["c", "b", "a"])),
    "dates": pl.Series([date(2020, 1, 31), date(1969, 12, 31), None, date(1970, 1, 1)]),
    "times": pl.Series([datetime(2020, 1, 31, 12, 30), datetime(1969, 12, 31), None, datetime(1970, 1, 1)]),
}
# Written down once: folds, samples and fingerprints of published audits depend on them.
PINNED = {
    "whole": ["0873fcc1ee88d4f5", "59b09545f1ff9a53", "272584e9053847f6", "c6d54c371466a8f5"],
    "whole floats": ["0873fcc1ee88d4f5", "59b09545f1ff9a53", "272584e9053847f6", "c6d54c371466a8f5"],
    "fractions": ["5a127bccf5857fb0", "170e32b86451b2dc", "272584e9053847f6", "7c6fad23f7e6f8bd"],
    "huge": ["f8666bd7cb8412cc", "bb091d026a7f744b", "272584e9053847f6", "f8666bd7cb8412cc"],
    "keys": ["d89487522b196852", "791604d2d7c57c4b", "272584e9053847f6", "c56a793e367f46b8"],
    "booleans": ["59b09545f1ff9a53", "0000000000000000", "272584e9053847f6", "59b09545f1ff9a53"],
    "texts": ["04f888efd55cbac8", "bc59cffeb1300a35", "272584e9053847f6", "b8e676ee00ae1a02"],
    "levels": ["04f888efd55cbac8", "da38ab981c076219", "272584e9053847f6", "52165f90e2f04153"],
    "dates": ["e73da70bab73ec4e", "7a222a849c124e8d", "272584e9053847f6", "0000000000000000"],
    "times": ["5eb8546201ab5f58", "7a222a849c124e8d", "272584e9053847f6", "0000000000000000"],
    "all of them": ["cb2c8135e5c09818", "9ffd9898b4561942", "863e6142f358e9ba", "ca0627c2f79b2639"],
}


def hashed(**columns):
    return row_hashes({name: pl.Series(values) for name, values in columns.items()})


def of_frame(frame):
    return row_hashes({name: frame[name] for name in frame.columns})


@pytest.mark.parametrize("name", list(KINDS))
def test_hashes_of_every_kind_are_those_that_were_written_down(name):
    assert [f"{one:016x}" for one in row_hashes({"x": KINDS[name]}).tolist()] == PINNED[name]


def test_the_hash_of_a_row_of_many_kinds_is_the_one_that_was_written_down():
    assert [f"{one:016x}" for one in of_frame(pl.DataFrame(KINDS)).tolist()] == PINNED["all of them"]


@pytest.mark.parametrize("held", SOURCES, indirect=True)
def test_every_engine_gives_the_same_hashes_in_any_order_of_columns(held):
    found = collected(held(classed()))
    turned = of_frame(found.select(reversed(found.columns)))
    assert np.array_equal(np.sort(of_frame(found)), np.sort(of_frame(classed())))
    assert np.array_equal(turned, of_frame(found))


@pytest.mark.parametrize("kind", [pl.Int8, pl.Int64, pl.UInt16, pl.Float32, pl.Float64])
def test_numbers_of_any_width_have_the_same_hashes(kind):
    numbers = pl.Series([0, 1, 2, 100, None], dtype=pl.Int32)
    assert np.array_equal(hashed(x=numbers.cast(kind)), hashed(x=numbers))
    assert len(np.unique(hashed(x=numbers))) == 5


def test_booleans_are_0_and_1_and_levels_are_texts():
    assert np.array_equal(hashed(x=[True, False, None]), hashed(x=[1.0, 0.0, None]))
    assert np.array_equal(row_hashes({"x": KINDS["levels"]}), row_hashes({"x": KINDS["levels"].cast(pl.String)}))
    assert np.array_equal(hashed(x=[date(2020, 1, 31)]), hashed(x=[datetime(2020, 1, 31)]))


def test_arrays_have_the_hashes_of_columns():
    numbers = np.array([0.5, -2.0, 3.25])
    assert np.array_equal(row_hashes({"x": numbers}), hashed(x=numbers))


def test_numbers_that_differ_by_rounding_have_the_same_hash_and_others_have_not():
    found = hashed(x=[0.1 + 0.2, 0.3, -1e-12, 0.0, -0.0, 0.3 + 1e-8])
    assert found[0] == found[1]
    assert found[2] == found[3] == found[4]
    assert len(np.unique(found)) == 3


def test_missing_is_neither_empty_nor_zero_nor_false():
    for known in ("", 0, 0.0, False):
        one, other = hashed(x=[known, None])
        assert one != other


def test_a_text_is_not_its_number_and_ends_where_it_ends():
    assert hashed(x=["1"])[0] != hashed(x=[1])[0]
    texts = ["", "\0", "\0\0", "a", "a\0", "\0a", "ab", "ba", "a" * 100, "a" * 101]
    assert len(np.unique(hashed(x=texts))) == len(texts)


def test_a_value_counts_in_its_own_column():
    one, other = hashed(x=[1, 2], y=[2, 1])
    assert one != other
    assert hashed(x=[1])[0] != hashed(y=[1])[0]
    one, other = hashed(x=["a", "b"], y=["b", "a"])
    assert one != other


@pytest.mark.parametrize("unit", [1.0, 0.5, 10.0])
@pytest.mark.parametrize("is_coded", [False, True])
def test_rows_that_differ_by_the_signs_of_pairs_have_other_hashes(unit, is_coded):
    numbers = unit * np.arange(-300, 300)
    columns = {"x": pl.Series(np.repeat(numbers, 600)), "y": pl.Series(np.tile(numbers, 600))}
    coded = {name: factorize(column) for name, column in columns.items()} if is_coded else {}
    assert len(np.unique(row_hashes(columns, coded))) == 360_000


def test_bits_of_hashes_are_even():
    found = hashed(x=np.arange(20_000), y=["same"] * 20_000)
    bits = np.unpackbits(found.view(np.uint8)).reshape(20_000, 64).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 0.02  # five and a half standard errors


def test_the_cut_of_a_table_is_no_matter(monkeypatch):
    frame = classed()
    expected = of_frame(frame)
    assert np.array_equal(np.concatenate([of_frame(part) for part in frame.iter_slices(37)]), expected)
    monkeypatch.setattr(arrays, "CACHE_CHUNK", 64)
    assert np.array_equal(of_frame(frame), expected)


@pytest.mark.parametrize("name", list(KINDS))
def test_a_column_known_by_its_values_has_the_hashes_of_its_rows(name):
    column = KINDS[name].alias("x")
    found = factorize(column)
    if found is not None:
        assert found.values.gather(found.codes).equals(column)
    assert np.array_equal(row_hashes({"x": column}, {"x": found}), row_hashes({"x": column}))


def test_a_table_without_rows_has_no_hashes():
    assert of_frame(classed().clear()).size == 0


def test_copies_of_a_row_are_told_apart_by_numbers():
    copies = np.repeat(hashed(x=[1, 2]), 1_000)
    numbers = np.tile(np.arange(1_000), 2)
    found = mixed_hashes(copies, numbers)
    assert len(np.unique(found)) == 2_000
    assert np.array_equal(mixed_hashes(copies[::-1].copy(), numbers[::-1].copy()), found[::-1])
