"""Every engine gives the same clean frame, and every mistake its own message."""

import copy
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal, assert_series_equal
from tests.people import CLEAN, ENGINES

from tiltlens._rows.predictions import native_columns
from tiltlens._sources.engines import collected
from tiltlens._sources.tables import column_names, column_of_values
from tiltlens.errors import DataError


@pytest.fixture(params=list(ENGINES))
def engine(request):
    return ENGINES[request.param]


def test_every_engine_gives_the_identical_clean_frame(engine):
    assert_frame_equal(collected(engine(CLEAN)), CLEAN, check_exact=True)


def test_only_the_needed_columns_are_read_in_the_order_asked_for(engine):
    table = collected(engine(CLEAN), ["city", "count", "city"])
    assert_frame_equal(table, CLEAN.select("city", "count"))


def test_column_names_are_those_of_the_table(engine):
    assert column_names(engine(CLEAN)) == CLEAN.columns


def test_nan_is_missing_everywhere_and_infinity_is_kept(engine):
    frame = pl.DataFrame({"x": [1.0, float("nan"), float("-inf")]})
    assert collected(engine(frame))["x"].to_list() == [1.0, None, float("-inf")]


def test_an_unknown_column_gets_the_nearest_name_and_the_list(refused, engine):
    with refused(DataError, "'Cuont'", "'count'"):
        collected(engine(CLEAN), ["Cuont"])


def test_an_empty_table_is_an_error(refused, engine):
    with refused(DataError, "`data`"):
        collected(engine(CLEAN.clear()))


def test_columns_that_differ_only_by_case_are_an_error_where_one_is_needed(refused, engine):
    if engine is ENGINES["duckdb"]:  # it joins tables by name, ignoring case, so the twins are made in SQL
        data = duckdb.sql('select 1 as "Age", 2 as "age", 3 as x')
    else:
        data = engine(pl.DataFrame({"Age": [1], "age": [2], "x": [3]}))
    with refused(DataError, "'Age'", "'age'"):
        collected(data)
    assert collected(data, ["x"])["x"].to_list() == [3]


def test_reading_never_modifies_the_users_data(engine):
    data = engine(CLEAN)
    before = copy.deepcopy(data) if isinstance(data, (dict, pd.DataFrame)) else data
    collected(data)
    if isinstance(data, pd.DataFrame):
        pd.testing.assert_frame_equal(data, before)
    elif isinstance(data, dict):
        for name, array in data.items():
            np.testing.assert_array_equal(array, before[name])
    assert_frame_equal(collected(data), CLEAN)


def test_native_columns_are_of_the_kind_the_user_gave(engine):
    data = engine(CLEAN)
    kind = pl.DataFrame if isinstance(data, (pl.LazyFrame, duckdb.DuckDBPyRelation)) else type(data)
    chosen = native_columns(data, CLEAN, ["city", "amount"])
    assert isinstance(chosen, kind)
    assert column_names(chosen) == ["city", "amount"]


def test_a_name_of_ten_thousand_characters_is_read_and_shown_short(engine):
    long = "n" * 10_000
    data = engine(pl.DataFrame({long: [1, 2]}))
    assert collected(data).columns == [long]
    with pytest.raises(DataError) as error:
        collected(data, ["m" * 10_000])
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("width", ["int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"])
def test_every_width_of_integer_becomes_int64(width):
    array = np.array([1, 2], dtype=width)
    for data in ({"x": array}, pd.DataFrame({"x": array}), pa.table({"x": array}), pl.DataFrame({"x": array})):
        assert_series_equal(collected(data)["x"], pl.Series("x", [1, 2]))


def test_integers_beyond_int64_stay_exact_as_text():
    large = [2**64 - 1, 5]
    for data in ({"x": np.array(large, dtype="uint64")}, pl.DataFrame({"x": pl.Series(large, dtype=pl.UInt64)})):
        assert collected(data)["x"].to_list() == ["18446744073709551615", "5"]
    assert collected({"x": [2**80, None]})["x"].to_list() == [str(2**80), None]


@pytest.mark.parametrize("width", ["float16", "float32", "float64", ">f8"])
def test_every_width_of_float_becomes_float64(width):
    assert_series_equal(collected({"x": np.array([0.5, np.nan], dtype=width)})["x"], pl.Series("x", [0.5, None]))


def test_decimals_become_floats_in_every_engine_that_has_them():
    values = [Decimal("1.25"), None]
    frames = [
        pl.DataFrame({"x": values}),
        pl.DataFrame({"x": values}).to_arrow(),
        duckdb.from_arrow(pl.DataFrame({"x": values}).to_arrow()),
        pd.DataFrame({"x": pd.Series(values, dtype=object)}),
        {"x": values},
    ]
    for data in frames:
        assert_series_equal(collected(data)["x"], pl.Series("x", [1.25, None]))


def test_categories_without_an_order_become_text():
    frames = [
        pl.DataFrame({"x": pl.Series(["b", None, "a"], dtype=pl.Categorical)}),
        pd.DataFrame({"x": pd.Categorical(["b", None, "a"])}),
        pa.table({"x": pa.array(["b", None, "a"]).dictionary_encode()}),
    ]
    for data in frames:
        assert_series_equal(collected(data)["x"], pl.Series("x", ["b", None, "a"]))


def test_a_declared_order_is_kept_as_an_enum():
    order = pl.Enum(["low", "high"])
    column = pl.Series("x", ["high", None, "low"], dtype=order)
    ordered = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["low", "high"]), ordered=True)
    rows = "(values (1, 'high'), (2, null), (3, 'low')) t(i, x) order by i"
    duckdb.sql(f"create or replace temp table levels as select x::enum('low', 'high') as x from {rows}")
    frames = [
        column.to_frame(),
        column.to_frame().lazy(),
        column.to_frame().to_arrow(),
        pa.table({"x": ordered}),
        pd.DataFrame({"x": pd.Categorical(["high", None, "low"], ["low", "high"], ordered=True)}),
        duckdb.sql("select * from levels"),
    ]
    for data in frames:
        assert_series_equal(collected(data)["x"], column)


def test_pandas_categories_of_numbers_and_intervals_become_text():
    data = pd.DataFrame({"x": pd.Categorical([1.0, 2.5, 1.0]), "y": pd.cut([1, 5, 5], [0, 4, 10])})
    table = collected(data)
    assert table["x"].to_list() == ["1", "2.5", "1"]
    assert table["y"].to_list() == ["(0, 4]", "(4, 10]", "(4, 10]"]
    assert table["y"].dtype == pl.Enum(["(0, 4]", "(4, 10]"])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_everything_pandas_calls_missing_is_missing_in_objects(missing):
    for known, kind in ((["a", "b"], pl.String), ([True, False], pl.Boolean), ([date(2020, 1, 1)] * 2, pl.Date)):
        objects = pd.Series([*known, missing], dtype=object)
        for data in (pd.DataFrame({"x": objects}), {"x": objects.to_numpy()}, {"x": [*known, missing]}):
            assert_series_equal(collected(data)["x"], pl.Series("x", [*known, None], dtype=kind))


def test_pandas_columns_of_every_backend_agree():
    expected = pl.Series("x", [1, None, 3])
    for dtype in ("Int8", "Int64", "UInt64", "int64[pyarrow]", object):
        assert_series_equal(collected(pd.DataFrame({"x": pd.Series([1, None, 3], dtype=dtype)}))["x"], expected)
    for dtype in ("str", "string", "string[python]", "string[pyarrow]", object):
        data = pd.DataFrame({"x": pd.Series(["a", None], dtype=dtype)})
        assert_series_equal(collected(data)["x"], pl.Series("x", ["a", None]))
    for dtype in ("boolean", "bool[pyarrow]", object):
        data = pd.DataFrame({"x": pd.Series([True, None], dtype=dtype)})
        assert_series_equal(collected(data)["x"], pl.Series("x", [True, None]))
    for dtype in ("Float32", "Float64", "double[pyarrow]", "float32"):
        data = pd.DataFrame({"x": pd.Series([0.5, None], dtype=dtype)})
        assert_series_equal(collected(data)["x"], pl.Series("x", [0.5, None]))


def test_pandas_needs_no_pyarrow():
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import pandas as pd\n"
        "from tiltlens._sources.engines import collected\n"
        "data = pd.DataFrame({'s': ['a', None], 'c': pd.Categorical(['a', 'b']), 'i': [1, 2], 'f': [0.5, None],\n"
        "                     'd': pd.to_datetime(['2020-01-01', None])})\n"
        "print(collected(data).rows())"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        "[('a', 'a', 1, 0.5, datetime.datetime(2020, 1, 1, 0, 0)), (None, 'b', 2, None, None)]"
    )


def test_time_zones_become_utc_and_units_microseconds():
    moment = datetime(2020, 1, 1, 8, tzinfo=UTC)
    expected = pl.Series("x", [datetime(2020, 1, 1, 8), None], dtype=pl.Datetime("us"))
    stamps = pd.Series([moment, None]).dt.tz_convert("Europe/Paris")
    ten_in_cairo = datetime(2020, 1, 1, 10, tzinfo=timezone(timedelta(hours=2)))
    frames = [
        pd.DataFrame({"x": stamps}),
        pl.DataFrame(
            {"x": pl.Series([moment, None]).dt.convert_time_zone("Europe/Paris").cast(pl.Datetime("ns", "UTC"))}
        ),
        {"x": np.array(["2020-01-01T08", "NaT"], dtype="datetime64[h]")},
        {"x": [datetime(2020, 1, 1, 8), None]},
        {"x": [ten_in_cairo, None]},
    ]
    for data in frames:
        assert_series_equal(collected(data)["x"], expected)


def test_durations_become_days():
    length = timedelta(days=1, hours=12)
    for data in (pd.DataFrame({"x": [length, None]}), pl.DataFrame({"x": [length, None]}), {"x": [length, None]}):
        assert_series_equal(collected(data)["x"], pl.Series("x", [1.5, None]))


def test_a_column_of_nothing_is_text_that_is_missing():
    for data in (
        {"x": [None, None]},
        pl.DataFrame({"x": [None, None]}),
        pd.DataFrame({"x": pd.Series([None, None], dtype=object)}),
    ):
        assert_series_equal(collected(data)["x"], pl.Series("x", [None, None], dtype=pl.String))


@pytest.mark.parametrize("values", [[1, "a"], ["a", 1.5], [True, 1], [date(2020, 1, 1), "2020"]])
def test_mixed_kinds_are_an_error_that_names_the_column_and_the_kinds(refused, values):
    for data in (pd.DataFrame({"x": pd.Series(values, dtype=object)}), {"x": values}):
        with refused(DataError, "'x'"):
            collected(data)


@pytest.mark.parametrize(
    "data",
    [
        pl.DataFrame({"x": [[1], [2]]}),
        pl.DataFrame({"x": [{"a": 1}]}),
        pl.DataFrame({"x": [b"a"]}),
        pd.DataFrame({"x": [{"a": 1}]}),
        pd.DataFrame({"x": [[1], [2]]}),
        pa.table({"x": [[1], [2]]}),
        {"x": [[1], [2, 3]]},
        {"x": np.array([1 + 2j])},
        {"x": [object()]},
    ],
)
def test_lists_structs_and_other_objects_are_an_error_that_names_the_column(refused, data):
    with refused(DataError, "'x'"):
        collected(data)


def test_intervals_are_an_error_and_not_a_panic(refused):
    months = pa.array([(1, 2, 3)], type=pa.month_day_nano_interval())
    for data in (duckdb.sql("select interval 3 days as x"), pa.table({"x": months})):
        with refused(DataError, "'x'"):
            collected(data)


def test_a_kind_that_is_not_needed_does_no_harm():
    data = pl.DataFrame({"x": [1], "nested": [[1]]})
    assert collected(data, ["x"]).columns == ["x"]


def test_integers_and_floats_among_objects_are_floats():
    assert_series_equal(collected({"x": [1, 2.5, None]})["x"], pl.Series("x", [1.0, 2.5, None]))


def test_duplicate_column_names_are_an_error(refused):
    frames = [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pa.table([[1], [2]], names=["a", "a"]),
        duckdb.sql("select 1 as a, 2 as a"),
    ]
    for data in frames:
        with refused(DataError, "'a'"):
            collected(data)


@pytest.mark.parametrize("data", [pd.DataFrame([[1, 2]]), {0: [1], 1: [2]}])
def test_names_that_are_no_text_are_an_error(refused, data):
    with refused(DataError, "Column names"):
        collected(data)


@pytest.mark.parametrize("data", [pd.DataFrame(), {}, pl.DataFrame()])
def test_a_table_without_columns_is_an_error(refused, data):
    with refused(DataError, "`data`"):
        collected(data)


@pytest.mark.parametrize("data", [[1, 2], np.zeros((2, 2)), 5, None, pl.Series([1]), pd.DataFrame])
def test_what_is_no_table_is_an_error_that_lists_what_is(refused, data):
    with refused(DataError, "`data`"):
        collected(data)


def test_a_path_in_bytes_is_no_table_and_the_hint_says_to_read_it(refused):
    with refused(DataError, "got bytes"):
        collected(b"people.csv")


def test_an_object_with_columns_that_is_no_table_is_an_error(refused):
    class Cursor:
        columns = ("a",)

    with refused(DataError, "`data`"):
        collected(Cursor())


def test_a_ragged_dict_is_an_error_that_names_both_columns(refused):
    with refused(DataError, "'a'", "'b'"):
        collected({"a": [1, 2], "b": [1, 2, 3]})


@pytest.mark.parametrize("value", [1, "abc", {"k": 1}, {1, 2}, np.array(5)])
def test_a_dict_of_single_values_is_an_error(refused, value):
    with refused(DataError, "'a'"):
        collected({"a": value})


def test_a_dict_of_matrices_is_an_error(refused):
    with refused(DataError, "'a'"):
        collected({"a": np.zeros((2, 2))})


def test_a_dict_takes_series_of_any_library():
    data = {"a": pl.Series([1, None]), "b": pd.Series([1, None], dtype="Int64"), "c": pa.chunked_array([[1, None]])}
    assert collected(data).rows() == [(1, 1, 1), (None, None, None)]


def test_a_lazy_frame_that_fails_is_an_error_in_our_words(refused):
    missing = pl.scan_csv("/nowhere/people.csv")
    with refused(DataError, "lazy frame"):
        collected(missing)
    failing = pl.LazyFrame({"x": ["a"]}).with_columns(pl.col("x").cast(pl.Int64))
    with refused(DataError, "`data`"):
        collected(failing)


def test_an_array_beside_the_table_must_be_as_long(refused):
    assert column_of_values("group", ["a", None], 2).to_list() == ["a", None]
    with refused(DataError, "`group`"):
        column_of_values("group", ["a", "b"], 3)
