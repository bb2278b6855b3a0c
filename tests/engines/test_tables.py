"""Every engine gives the same clean frame, and every mistake its own message."""

import copy
import re
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

from tiltlens.engines.tables import (
    check_columns,
    column_names,
    column_of_values,
    native_columns,
    nearest_name,
    read_file,
    read_table,
    shown,
    text_of,
)
from tiltlens.errors import DataError

CLEAN = pl.DataFrame(
    {
        "flag": [True, None, False, True],
        "count": [3, 1, None, -2],
        "amount": [0.5, None, float("inf"), 2.0],
        "city": ["Zürich", None, "<b>Bern</b>", "😀"],
        "day": [date(2020, 1, 31), None, date(1969, 12, 31), date(2021, 2, 3)],
        "moment": [datetime(2020, 1, 31, 12, 30), None, datetime(1969, 12, 31), datetime(2021, 2, 3)],
    },
    schema_overrides={"moment": pl.Datetime("us")},
)


def to_pandas(frame):
    dtypes = {pl.Int64: "Int64", pl.Boolean: "boolean", pl.Float64: "float64", pl.String: "str"}
    return pd.DataFrame(
        {
            column.name: pd.Series(
                column.to_list(),
                dtype=dtypes.get(column.dtype, "datetime64[us]" if column.dtype == pl.Datetime else object),
            )
            for column in frame
        }
    )


def to_numpy(frame):
    return {column.name: _numpy_column(column) for column in frame}


def _numpy_column(column):
    if column.dtype in (pl.Int64, pl.Boolean):
        return np.ma.array(column.fill_null(0 if column.dtype == pl.Int64 else False).to_numpy(), mask=column.is_null())
    if column.dtype == pl.String:
        return np.array(column.to_list(), dtype=object)
    return column.to_numpy()


ENGINES = {
    "pandas": to_pandas,
    "polars": lambda frame: frame,
    "polars lazy": lambda frame: frame.lazy(),
    "pyarrow": lambda frame: frame.to_arrow(),
    "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow()),
    "dict of numpy": to_numpy,
}


@pytest.fixture(params=list(ENGINES))
def engine(request):
    return ENGINES[request.param]


def test_every_engine_gives_the_identical_clean_frame(engine):
    assert_frame_equal(read_table(engine(CLEAN)), CLEAN, check_exact=True)


def test_only_the_needed_columns_are_read_in_the_order_asked_for(engine):
    table = read_table(engine(CLEAN), ["city", "count", "city"])
    assert_frame_equal(table, CLEAN.select("city", "count"))


def test_column_names_are_those_of_the_table(engine):
    assert column_names(engine(CLEAN)) == CLEAN.columns


def test_nan_is_missing_everywhere_and_infinity_is_kept(engine):
    frame = pl.DataFrame({"x": [1.0, float("nan"), float("-inf")]})
    assert read_table(engine(frame))["x"].to_list() == [1.0, None, float("-inf")]


def test_an_unknown_column_gets_the_nearest_name_and_the_list(engine):
    with pytest.raises(DataError, match=r"has no 'Cuont'\.\nHint: did you mean 'count'\? the columns are 'flag', 'cou"):
        read_table(engine(CLEAN), ["Cuont"])


def test_an_empty_table_is_an_error(engine):
    with pytest.raises(DataError, match=r"`data` must have rows, got an empty table\.\nHint: "):
        read_table(engine(CLEAN.clear()))


def test_columns_that_differ_only_by_case_are_an_error_where_one_is_needed(engine):
    if engine is ENGINES["duckdb"]:  # it joins tables by name, ignoring case, so the twins are made in SQL
        data = duckdb.sql('select 1 as "Age", 2 as "age", 3 as x')
    else:
        data = engine(pl.DataFrame({"Age": [1], "age": [2], "x": [3]}))
    with pytest.raises(DataError, match=r"must differ in more than letter case, got 'Age', 'age'\.\nHint: rename"):
        read_table(data)
    assert read_table(data, ["x"])["x"].to_list() == [3]


def test_reading_never_modifies_the_users_data(engine):
    data = engine(CLEAN)
    before = copy.deepcopy(data) if isinstance(data, (dict, pd.DataFrame)) else data
    read_table(data)
    if isinstance(data, pd.DataFrame):
        pd.testing.assert_frame_equal(data, before)
    elif isinstance(data, dict):
        for name, array in data.items():
            np.testing.assert_array_equal(array, before[name])
    assert_frame_equal(read_table(data), CLEAN)


def test_native_columns_are_of_the_kind_the_user_gave(engine):
    data = engine(CLEAN)
    kind = pl.DataFrame if isinstance(data, (pl.LazyFrame, duckdb.DuckDBPyRelation)) else type(data)
    chosen = native_columns(data, CLEAN, ["city", "amount"])
    assert isinstance(chosen, kind)
    assert column_names(chosen) == ["city", "amount"]


def test_a_name_of_ten_thousand_characters_is_read_and_shown_short(engine):
    long = "n" * 10_000
    data = engine(pl.DataFrame({long: [1, 2]}))
    assert read_table(data).columns == [long]
    with pytest.raises(DataError) as error:
        read_table(data, ["m" * 10_000])
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("width", ["int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"])
def test_every_width_of_integer_becomes_int64(width):
    array = np.array([1, 2], dtype=width)
    for data in ({"x": array}, pd.DataFrame({"x": array}), pa.table({"x": array}), pl.DataFrame({"x": array})):
        assert_series_equal(read_table(data)["x"], pl.Series("x", [1, 2]))


def test_integers_beyond_int64_stay_exact_as_text():
    large = [2**64 - 1, 5]
    for data in ({"x": np.array(large, dtype="uint64")}, pl.DataFrame({"x": pl.Series(large, dtype=pl.UInt64)})):
        assert read_table(data)["x"].to_list() == ["18446744073709551615", "5"]
    assert read_table({"x": [2**80, None]})["x"].to_list() == [str(2**80), None]


@pytest.mark.parametrize("width", ["float16", "float32", "float64", ">f8"])
def test_every_width_of_float_becomes_float64(width):
    assert_series_equal(read_table({"x": np.array([0.5, np.nan], dtype=width)})["x"], pl.Series("x", [0.5, None]))


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
        assert_series_equal(read_table(data)["x"], pl.Series("x", [1.25, None]))


def test_categories_without_an_order_become_text():
    frames = [
        pl.DataFrame({"x": pl.Series(["b", None, "a"], dtype=pl.Categorical)}),
        pd.DataFrame({"x": pd.Categorical(["b", None, "a"])}),
        pa.table({"x": pa.array(["b", None, "a"]).dictionary_encode()}),
    ]
    for data in frames:
        assert_series_equal(read_table(data)["x"], pl.Series("x", ["b", None, "a"]))


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
        assert_series_equal(read_table(data)["x"], column)


def test_pandas_categories_of_numbers_and_intervals_become_text():
    data = pd.DataFrame({"x": pd.Categorical([1.0, 2.5, 1.0]), "y": pd.cut([1, 5, 5], [0, 4, 10])})
    table = read_table(data)
    assert table["x"].to_list() == ["1", "2.5", "1"]
    assert table["y"].to_list() == ["(0, 4]", "(4, 10]", "(4, 10]"]
    assert table["y"].dtype == pl.Enum(["(0, 4]", "(4, 10]"])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_everything_pandas_calls_missing_is_missing_in_objects(missing):
    for known, kind in ((["a", "b"], pl.String), ([True, False], pl.Boolean), ([date(2020, 1, 1)] * 2, pl.Date)):
        objects = pd.Series([*known, missing], dtype=object)
        for data in (pd.DataFrame({"x": objects}), {"x": objects.to_numpy()}, {"x": [*known, missing]}):
            assert_series_equal(read_table(data)["x"], pl.Series("x", [*known, None], dtype=kind))


def test_pandas_columns_of_every_backend_agree():
    expected = pl.Series("x", [1, None, 3])
    for dtype in ("Int8", "Int64", "UInt64", "int64[pyarrow]", object):
        assert_series_equal(read_table(pd.DataFrame({"x": pd.Series([1, None, 3], dtype=dtype)}))["x"], expected)
    for dtype in ("str", "string", "string[python]", "string[pyarrow]", object):
        data = pd.DataFrame({"x": pd.Series(["a", None], dtype=dtype)})
        assert_series_equal(read_table(data)["x"], pl.Series("x", ["a", None]))
    for dtype in ("boolean", "bool[pyarrow]", object):
        data = pd.DataFrame({"x": pd.Series([True, None], dtype=dtype)})
        assert_series_equal(read_table(data)["x"], pl.Series("x", [True, None]))
    for dtype in ("Float32", "Float64", "double[pyarrow]", "float32"):
        data = pd.DataFrame({"x": pd.Series([0.5, None], dtype=dtype)})
        assert_series_equal(read_table(data)["x"], pl.Series("x", [0.5, None]))


def test_pandas_needs_no_pyarrow():
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import pandas as pd\n"
        "from tiltlens.engines.tables import read_table\n"
        "data = pd.DataFrame({'s': ['a', None], 'c': pd.Categorical(['a', 'b']), 'i': [1, 2], 'f': [0.5, None],\n"
        "                     'd': pd.to_datetime(['2020-01-01', None])})\n"
        "print(read_table(data).rows())"
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
        assert_series_equal(read_table(data)["x"], expected)


def test_durations_become_days():
    length = timedelta(days=1, hours=12)
    for data in (pd.DataFrame({"x": [length, None]}), pl.DataFrame({"x": [length, None]}), {"x": [length, None]}):
        assert_series_equal(read_table(data)["x"], pl.Series("x", [1.5, None]))


def test_a_column_of_nothing_is_text_that_is_missing():
    for data in (
        {"x": [None, None]},
        pl.DataFrame({"x": [None, None]}),
        pd.DataFrame({"x": pd.Series([None, None], dtype=object)}),
    ):
        assert_series_equal(read_table(data)["x"], pl.Series("x", [None, None], dtype=pl.String))


@pytest.mark.parametrize("values", [[1, "a"], ["a", 1.5], [True, 1], [date(2020, 1, 1), "2020"]])
def test_mixed_kinds_are_an_error_that_names_the_column_and_the_kinds(values):
    for data in (pd.DataFrame({"x": pd.Series(values, dtype=object)}), {"x": values}):
        with pytest.raises(
            DataError, match=r"column 'x' must hold values of one kind, got \w+ and \w+\.\nHint: convert"
        ):
            read_table(data)


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
def test_lists_structs_and_other_objects_are_an_error_that_names_the_column(data):
    with pytest.raises(
        DataError, match=r"column 'x' must (hold numbers, text, booleans or dates|have one dim).*\nHint: "
    ):
        read_table(data)


def test_intervals_are_an_error_and_not_a_panic():
    months = pa.array([(1, 2, 3)], type=pa.month_day_nano_interval())
    for data in (duckdb.sql("select interval 3 days as x"), pa.table({"x": months})):
        with pytest.raises(DataError, match=r"column 'x' must hold numbers, .* got an interval of months and days"):
            read_table(data)


def test_a_kind_that_is_not_needed_does_no_harm():
    data = pl.DataFrame({"x": [1], "nested": [[1]]})
    assert read_table(data, ["x"]).columns == ["x"]


def test_integers_and_floats_among_objects_are_floats():
    assert_series_equal(read_table({"x": [1, 2.5, None]})["x"], pl.Series("x", [1.0, 2.5, None]))


def test_duplicate_column_names_are_an_error():
    frames = [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pa.table([[1], [2]], names=["a", "a"]),
        duckdb.sql("select 1 as a, 2 as a"),
    ]
    for data in frames:
        with pytest.raises(DataError, match=r"column names must be distinct, got 'a' 2 times\.\nHint: rename"):
            read_table(data)


@pytest.mark.parametrize("data", [pd.DataFrame([[1, 2]]), {0: [1], 1: [2]}])
def test_names_that_are_no_text_are_an_error(data):
    with pytest.raises(DataError, match=r"column names must be text, got 0 \(int\)\.\nHint: rename"):
        read_table(data)


@pytest.mark.parametrize("data", [pd.DataFrame(), {}, pl.DataFrame()])
def test_a_table_without_columns_is_an_error(data):
    with pytest.raises(DataError, match=r"`data` must have columns, got a table without any"):
        read_table(data)


@pytest.mark.parametrize("data", [[1, 2], np.zeros((2, 2)), 5, None, pl.Series([1]), pd.DataFrame])
def test_what_is_no_table_is_an_error_that_lists_what_is(data):
    with pytest.raises(
        DataError, match=r"`data` must be a pandas or Polars frame, a pyarrow Table, .*\nHint: name the"
    ):
        read_table(data)


def test_a_path_is_no_table_and_the_hint_says_to_read_it():
    with pytest.raises(DataError, match=r"got str\.\nHint: read the file first"):
        read_table("people.csv")


def test_an_object_with_columns_that_is_no_table_is_an_error():
    class Cursor:
        columns = ("a",)

    with pytest.raises(DataError, match=r"`data` must be a pandas or Polars frame.*got Cursor"):
        read_table(Cursor())


def test_a_ragged_dict_is_an_error_that_names_both_columns():
    with pytest.raises(DataError, match=r"equally long, got 2 values in 'a' and 3 in 'b'\.\nHint: "):
        read_table({"a": [1, 2], "b": [1, 2, 3]})


@pytest.mark.parametrize("value", [1, "abc", {"k": 1}, {1, 2}, np.array(5)])
def test_a_dict_of_single_values_is_an_error(value):
    with pytest.raises(DataError, match=r"column 'a' must hold one value per row, got .*\nHint: repeat"):
        read_table({"a": value})


def test_a_dict_of_matrices_is_an_error():
    with pytest.raises(DataError, match=r"column 'a' must have one dimension, got shape \(2, 2\)"):
        read_table({"a": np.zeros((2, 2))})


def test_a_dict_takes_series_of_any_library():
    data = {"a": pl.Series([1, None]), "b": pd.Series([1, None], dtype="Int64"), "c": pa.chunked_array([[1, None]])}
    assert read_table(data).rows() == [(1, 1, 1), (None, None, None)]


def test_a_lazy_frame_that_fails_is_an_error_in_our_words():
    missing = pl.scan_csv("/nowhere/people.csv")
    with pytest.raises(DataError, match=r"`data` must be a lazy frame that can be collected, got .*\nHint: collect"):
        read_table(missing)
    failing = pl.LazyFrame({"x": ["a"]}).with_columns(pl.col("x").cast(pl.Int64))
    with pytest.raises(DataError, match=r"`data` must be readable, got InvalidOperationError: .*\nHint: run the query"):
        read_table(failing)


def test_an_array_beside_the_table_must_be_as_long():
    assert column_of_values("group", ["a", None], 2).to_list() == ["a", None]
    with pytest.raises(DataError, match=r"`group` must have one value per row, got 2 values for 3 rows\.\nHint: pass"):
        column_of_values("group", ["a", "b"], 3)


def test_check_columns_names_the_argument_and_lists_only_the_first_names():
    names = [f"c{number}" for number in range(30)]
    with pytest.raises(
        DataError, match=r"`group` must name columns, got 'C7x'\.\nHint: did you mean 'c7'\?.*and 10 more"
    ):
        check_columns("group", ["C7x"], names)
    with pytest.raises(DataError, match=r"got 'zzzzz'\.\nHint: the columns are"):
        check_columns("group", ["zzzzz"], names)


def test_the_nearest_name_ignores_case():
    assert nearest_name("PRIOR_COUNTS", ["age", "prior_counts"]) == "prior_counts"


def test_values_are_shown_on_one_line():
    assert shown("a\nb") == "'a\\nb'"
    assert len(shown("x" * 1000)) <= 60


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (np.float64(2), "2"),
        (np.bool_(True), "True"),
        (7, "7"),
        (date(2020, 1, 1), "2020-01-01"),
        (datetime(2020, 1, 1), "2020-01-01"),
        (datetime(2020, 1, 1, 5), "2020-01-01 05:00:00"),
        ("x", "x"),
    ],
)
def test_values_are_written_as_people_write_them(value, text):
    assert text_of(value) == text


@pytest.fixture
def file_of(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_csv_file_gives_kinds_dates_and_missing_values(file_of):
    path = file_of("a.csv", 'x,s,d,"q, r"\n1,NA,2020-01-01,a\n2.5,null,NA,""\nNaN,"a ""b""",2021-02-03,N/A\n')
    table = read_table(read_file(path))
    assert table.schema == {"x": pl.Float64, "s": pl.String, "d": pl.Date, "q, r": pl.String}
    assert table.rows()[0] == (1.0, None, date(2020, 1, 1), "a")
    assert table["x"].to_list() == [1.0, 2.5, None]
    assert table["s"].to_list() == [None, "null", 'a "b"']
    assert table["q, r"].to_list() == ["a", None, "N/A"]


def test_csv_kinds_come_from_all_rows(file_of):
    path = file_of("a.csv", "x,y\n" + "1,2\n" * 3000 + "word,2.5\n")
    assert read_table(read_file(str(path))).schema == {"x": pl.String, "y": pl.Float64}


def test_a_csv_file_may_begin_with_a_byte_order_mark_and_end_lines_as_windows_does(file_of):
    assert read_file(file_of("A.CSV", b"\xef\xbb\xbfx,y\r\n1,2\r\n")).rows() == [(1, 2)]


def test_a_parquet_file_is_read_lazily(tmp_path):
    CLEAN.write_parquet(tmp_path / "a.parquet")
    frame = read_file(tmp_path / "a.parquet")
    assert isinstance(frame, pl.LazyFrame)
    assert_frame_equal(read_table(frame), CLEAN)


@pytest.mark.parametrize(("row", "fields"), [("3,4,5", 3), ("3", 1)])
def test_a_broken_csv_row_is_an_error_that_names_the_line(file_of, row, fields):
    path = file_of("a.csv", f'x,y\n1,"two\nlines"\n{row}\n5,6\n')
    with pytest.raises(
        DataError, match=rf"every row of 'a.csv' must have 2 fields, got {fields} in line 4\.\nHint: look"
    ):
        read_file(path)


def test_a_csv_file_whose_last_column_has_gaps_is_not_broken(file_of):
    assert read_file(file_of("a.csv", "x,y\n1,\n2,3\n")).rows() == [(1, None), (2, 3)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", r"'a.csv' must hold a table, got an empty file\.\nHint: "),
        ("a.parquet", b"", r"'a.parquet' must hold a table, got an empty file"),
        ("a.csv", "x,y\n", r"'a.csv' must have rows, got a header only"),
        ("a.csv", "\n\n", r"must have columns"),
        ("a.csv", "x,x\n1,2\n", r"column names must be distinct, got 'x' 2 times"),
        ("a.csv", "x;y\n1;2\n", r"fields of 'a.csv' must be separated by commas, got the header 'x;y'"),
        ("a.csv", b"PAR1....PAR1", r"'a.csv' must be a CSV file, got a Parquet file\.\nHint: rename"),
        ("a.csv", b"PK\x03\x04....", r"'a.csv' must be a CSV file, got a ZIP or Excel file"),
        ("a.csv", b"\x1f\x8b\x08\x00...", r"'a.csv' must be a CSV file, got a gzip file"),
        ("a.csv", b"x,y\n\x00\x01,2\n", r"'a.csv' must be a CSV file, got something else"),
        ("a.csv", "x,y\n1,é\n".encode("latin-1"), r"'a.csv' must be a CSV file in UTF-8, got: .*\nHint: look"),
        ("a.csv", 'x,y\n1,"open\n2,3\n', r"'a.csv' must be a CSV file in UTF-8, got: .*\nHint: look for an unclosed"),
        ("a.parquet", "x,y\n1,2\n", r"'a.parquet' must be a Parquet file, got what looks like text\.\nHint: rename"),
        ("a.parquet", b"PAR1 cut short", r"'a.parquet' must be a complete Parquet file, got: .*\nHint: write"),
        ("a.xlsx", b"PK\x03\x04", r"'a.xlsx' must end in .csv or .parquet, got '.xlsx'\.\nHint: convert"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_an_error(file_of, name, content, message):
    with pytest.raises(DataError, match=message):
        read_file(file_of(name, content))


def test_a_missing_file_is_an_error_with_the_nearest_name(file_of):
    path = file_of("people.csv", "x\n1\n")
    with pytest.raises(
        DataError, match=r"/poeple.csv' must be an existing file, .*\nHint: did you mean 'people.csv'\?"
    ):
        read_file(path.with_name("poeple.csv"))
    with pytest.raises(DataError, match=r"'/nowhere/b.csv' must be an existing file, .*\nHint: .* in /nowhere"):
        read_file("/nowhere/b.csv")


def test_a_folder_is_not_a_file_and_is_named_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for given in (".", "..", "data", str(tmp_path)):
        with pytest.raises(DataError, match=rf"^'{re.escape(given)}' must be a file, got a folder\.\nHint: name one"):
            read_file(given)
