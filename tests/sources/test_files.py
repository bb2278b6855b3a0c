"""Parquet and CSV files: found, checked, and read as one table whatever their number."""

import gzip
import re
from datetime import date

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.people import CLEAN, in_files

from tiltlens._sources.engines import collected
from tiltlens._sources.files import files_of
from tiltlens.errors import DataError


@pytest.fixture
def file_of(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_csv_file_gives_kinds_dates_and_missing_values(file_of):
    path = file_of("a.csv", 'x,s,d,"q, r"\n1,NA,2020-01-01,a\n2.5,nil,NA,""\nNaN,"a ""b""",2021-02-03,z\n')
    table = collected(path)
    assert table.schema == {"x": pl.Float64, "s": pl.String, "d": pl.Date, "q, r": pl.String}
    assert table.rows()[0] == (1.0, None, date(2020, 1, 1), "a")
    assert table["x"].to_list() == [1.0, 2.5, None]
    assert table["s"].to_list() == [None, "nil", 'a "b"']
    assert table["q, r"].to_list() == ["a", None, "z"]


def test_csv_kinds_come_from_all_rows(file_of):
    path = file_of("a.csv", "x,y\n" + "1,2\n" * 3000 + "word,2.5\n")
    assert collected(str(path)).schema == {"x": pl.String, "y": pl.Float64}


def test_a_csv_file_may_begin_with_a_byte_order_mark_and_end_lines_as_windows_does(file_of):
    assert collected(file_of("A.CSV", b"\xef\xbb\xbfx,y\r\n1,2\r\n")).rows() == [(1, 2)]


def test_a_parquet_file_gives_the_frame_it_was_written_from(tmp_path):
    CLEAN.write_parquet(tmp_path / "a.parquet")
    assert_frame_equal(collected(tmp_path / "a.parquet"), CLEAN)


@pytest.mark.parametrize(("row", "fields"), [("3,4,5", 3), ("3", 1)])
def test_a_broken_csv_row_is_an_error_that_names_the_line(refused, file_of, row, fields):
    path = file_of("a.csv", f'x,y\n1,"two\nlines"\n{row}\n5,6\n')
    with refused(DataError, "'a.csv'", f"got {fields} in line 4"):
        collected(path)


def test_a_csv_file_whose_last_column_has_gaps_is_not_broken(file_of):
    assert collected(file_of("a.csv", "x,y\n1,\n2,3\n")).rows() == [(1, None), (2, 3)]


ZIPPED = gzip.compress(b"x,y\n1,2\n" * 99, mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", r"'a.csv' must hold a table, got an empty file\.\nHint: "),
        ("a.parquet", b"", r"'a.parquet' must hold a table, got an empty file"),
        ("a.csv", "x,y\n", r"'a.csv' must have rows, got a header only"),
        ("a.csv", "\n\n", r"has no columns"),
        ("a.csv", "x,x\n1,2\n", r"2 columns have the name 'x'"),
        ("a.csv", b"PAR1....PAR1", r"'a.csv' must be a CSV file, got a Parquet file\.\nHint: correct the ending"),
        ("a.csv", b"PK\x03\x04....", r"'a.csv' must be a CSV file, got an Excel file"),
        ("a.csv", b"\x1f\x8b\x08\x00...", r"'a.csv' must be a CSV file, got a gzip file"),
        ("a.csv", b"x,y\n\x00\x01,2\n", r"'a.csv' must be a CSV file, got something else"),
        ("a.csv", 'x,y\n1,"open\n2,3\n', r"'a.csv' must be a CSV file, got: .*\nHint: look for an unclosed"),
        (
            "a.csv",
            'x,"y\n' + "a" * 200_000,
            r"'a.csv' must be a CSV file, got: field larger .*\nHint: look for an unclosed",
        ),
        ("a.parquet", "x,y\n1,2\n", r"'a.parquet' must be a Parquet file, got what looks like text\.\nHint: correct"),
        ("a.parquet", b"PAR1 cut short", r"/a.parquet' is not a complete Parquet file.*\nHint: write"),
        ("a.xls", b"\xd0\xcf\x11\xe0", r"'a.xls' must end in .csv, .*\.xlsx or .xlsm, got '.xls'\.\nHint: convert"),
        ("a.xlsx", b"PK\x03\x04 cut short", r"'a.xlsx' is not a complete Excel file.*\nHint: save"),
        ("a.xlsx", b"x,y\n1,2\n", r"'a.xlsx' must be an Excel file, got what looks like text\."),
        ("a.arrow", b"ARROW1 cut short", r"/a.arrow' is not a complete Arrow file.*\nHint: write"),
        ("a.feather", b"FEA1....", r"'a.feather' must be an Arrow file, got an old Feather file\."),
        ("a.csv.gz", b"x,y\n1,2\n", r"'a.csv.gz' must be a gzip file, got what looks like text\."),
        ("a.csv.gz", ZIPPED[:30], r"'a.csv.gz' must be a complete gzip file, got: .*\nHint: write"),
        ("a.csv.gz", gzip.compress(b"PAR1....PAR1", mtime=0), r"'a.csv.gz' must be a CSV file, got a Parquet file"),
        ("a.jsonl", '[{"x": 1}]\n', r"'a.jsonl' must have one JSON object per line.*\nHint: write"),
        ("a.jsonl", '{"x": 1}\n{"x": \n', r"'a.jsonl' must have one JSON object per line"),
        ("a.jsonl", '{"x": true}\n{"x": 1}\n', r"'a.jsonl' must have .* values of one kind for each name"),
        ("a.jsonl", b'{"x": "\xe9"}\n', r"'a.jsonl' must have one JSON object per line"),
        ("a.jsonl", '{"x": [1]}\n', r"Column 'x' must"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_an_error(file_of, name, content, message):
    with pytest.raises(DataError, match=message):
        collected(file_of(name, content))


def test_a_missing_file_is_an_error_with_the_nearest_name(refused, file_of):
    path = file_of("people.csv", "x\n1\n")
    with refused(DataError, "'people.csv'"):
        collected(path.with_name("poeple.csv"))
    with refused(DataError, "'/nowhere/b.csv'"):
        collected("/nowhere/b.csv")


def test_a_folder_stands_for_its_files_but_not_for_marks(tmp_path):
    in_files(CLEAN, tmp_path, "parquet", 2)
    (tmp_path / "deep").mkdir()
    CLEAN.write_parquet(tmp_path / "deep" / "last.parquet")
    (tmp_path / "_SUCCESS.csv").write_text("")
    (tmp_path / ".part.parquet").write_text("")
    found = collected(tmp_path)
    assert found.height == 2 * CLEAN.height
    assert_frame_equal(found.unique(), CLEAN, check_row_order=False)


def test_a_folder_without_files_is_named_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for given in (".", "data", str(tmp_path), "nothing/*.parquet", "data/*.csv"):
        message = rf"^'{re.escape(given)}' must match files that end in .csv, .*, got none\.\nHint: it was looked for"
        with pytest.raises(DataError, match=message):
            collected(given)


def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "people.csv").write_text("group,score\na,0.5\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="got an empty name"):
        files_of("")


def test_files_of_two_kinds_are_refused(refused, tmp_path):
    in_files(CLEAN, tmp_path, "parquet", 2)
    in_files(CLEAN, tmp_path, "csv", 2)
    with refused(DataError):
        collected(tmp_path)


TEXTS = ["1", "2.5", "9999999999999999999", "true", "2020-01-01", "2020-01-01T10:00:00", "word", "", "NA", "007", "1e5"]


@pytest.mark.parametrize("first", TEXTS)
def test_the_same_rows_in_one_csv_file_and_in_two_have_the_same_kinds(file_of, first):
    for second in TEXTS:
        one = file_of("one.csv", f"x,y\n{first},1\n{second},2\n")
        two = [file_of(f"part-{part}.csv", f"x,y\n{text},{part}\n") for part, text in ((1, first), (2, second))]
        assert_frame_equal(collected(two), collected(one), check_exact=True)


def test_numbers_with_one_word_among_them_are_text_in_any_file(file_of):
    first = file_of("a.csv", "x,y\n" + "1,2\n" * 50)
    last = file_of("b.csv", "x,y\n" + "1,2\n" * 50 + "none,2.5\n")
    found = collected([first, last])
    assert found.schema == {"x": pl.String, "y": pl.Float64}
    assert found["x"].to_list() == ["1"] * 100 + ["none"]
    assert_frame_equal(collected([last, first]).sort("x", "y"), found.sort("x", "y"))


@pytest.mark.parametrize(("row", "fields"), [("3,4,5", 3), ("3", 1)])
@pytest.mark.parametrize("columns", [["x"], ["y"], ["x", "y"]])
def test_a_ragged_row_is_refused_with_file_and_line_whichever_columns_are_read(refused, file_of, row, fields, columns):
    good = file_of("a.csv", "x,y\n1,2\n")
    bad = file_of("b.csv", f"x,y\n1,2\n{row}\n5,6\n")
    for files in ([bad], [good, bad], [bad, good]):
        with refused(DataError, "'b.csv'", f"got {fields} in line 3"):
            collected(files, columns)


def test_a_column_that_is_missing_from_one_file_is_named_with_both(refused, file_of):
    files = [file_of("a.csv", "x,y\n1,2\n"), file_of("b.csv", "x,z\n1,2\n")]
    with refused(DataError, "'y'"):
        collected(files)


def test_columns_of_another_kind_in_a_parquet_file_are_named(refused, tmp_path):
    in_files(CLEAN, tmp_path, "parquet", 2)
    CLEAN.cast({"count": pl.String}).write_parquet(tmp_path / "part-1.parquet")
    with refused(DataError, "'count'"):
        collected(tmp_path)


def test_parquet_files_may_differ_in_width_and_in_the_order_of_columns(tmp_path):
    pattern = in_files(CLEAN, tmp_path, "parquet", 2)
    part = pl.read_parquet(tmp_path / "part-1.parquet").cast({"count": pl.Int16, "city": pl.Categorical})
    part.select(reversed(part.columns)).write_parquet(tmp_path / "part-1.parquet")
    assert_frame_equal(collected(pattern), CLEAN)
