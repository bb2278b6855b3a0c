"""What a CSV cannot say of itself: which texts are missing values, which columns were meant to be numbers."""

from datetime import date, datetime

import polars as pl
import pytest
from tests.people import audited, in_files, people

import tiltlens as tl
from tiltlens._notes import Note
from tiltlens._sources import engines as sources
from tiltlens._sources import text_columns
from tiltlens._sources.csv_files import MISSING_TEXTS
from tiltlens._sources.engines import batches_of, collected_rows, reading_notes
from tiltlens._sources.text_columns import read
from tiltlens.errors import DataError


def written(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def collected(data, **options):
    return sources.collected(read(data, **options) if options else data)


def notes(data, *columns, **options):
    batches = batches_of(read(data, **options))
    batches.names()
    return reading_notes(batches, columns)


@pytest.mark.parametrize("text", MISSING_TEXTS)
def test_a_text_that_stands_for_a_missing_value_leaves_numbers_numbers(tmp_path, text):
    written(tmp_path / "a.csv", "x,y", "1,a", f"{text},b", f'"{text}",c')
    written(tmp_path / "b.csv", "x,y", "2.5,a", f"{text},{text}")
    table = collected(tmp_path)
    assert table["x"].to_list() == [1.0, None, None, 2.5, None]
    assert table["y"].to_list() == ["a", "b", "c", "a", None]
    assert collected(tmp_path / "a.csv")["x"].dtype == pl.Int64


def test_texts_stand_for_missing_values_in_csv_alone():
    frame = pl.DataFrame({"x": ["?", "-", "NA", "a"]})
    assert collected(frame).rows() == frame.rows()


def test_na_values_are_missing_beside_the_usual_texts(tmp_path):
    path = written(tmp_path / "a.csv", "x", "1", "-9", "unknown", "?")
    assert collected(path, na_values=["-9", "unknown"])["x"].to_list() == [1, None, None, None]
    assert collected(path, na_values="unknown")["x"].to_list() == [1, -9, None, None]


@pytest.mark.parametrize(
    ("options", "ending"),
    [
        ({"na_values": "-9"}, "parquet"),
        ({"encoding": "latin-1"}, "parquet"),
        ({"decimal": ","}, "parquet"),
        ({"sheet": "2024"}, "csv"),
        ({"query": "SELECT 1"}, "csv"),
    ],
)
def test_options_that_say_nothing_of_the_data_are_refused(refused, tmp_path, options, ending):
    data = read(in_files(people(400), tmp_path, ending, 1), **options)
    with refused(DataError, *(f"`{name}`" for name in options)):
        audited(data)


def test_na_values_must_be_texts(refused, tmp_path):
    with refused(DataError, "`na_values`"):
        collected(written(tmp_path / "a.csv", "x", "1"), na_values=[-9])


def test_a_column_that_one_value_makes_text_is_noted_with_the_value(worded, tmp_path):
    path = written(tmp_path / "a.csv", "x,y,z", *(f"{row},{row},word" for row in range(30)), "12a,1,word", "?,2,word")
    (note,) = notes(path, "x", "y", "z")
    assert (note.code, note.values["column"], note.values["known"], note.values["first"]) == (
        "odd values",
        "x",
        31,
        "'12a'",
    )
    worded(note)
    assert notes(path, "y", "z") == ()
    assert notes(path, "x", na_values=["12a"]) == ()


def test_a_column_that_another_file_makes_text_is_noted(tmp_path):
    written(tmp_path / "a.csv", "x,y", *("1,2" for _ in range(40)))
    written(tmp_path / "b.csv", "x,y", "none,2", "3,4", "nil,5")
    (note,) = notes(tmp_path, "x", "y")
    assert (note.code, note.values["column"], note.values["known"], note.values["first"]) == (
        "odd values",
        "x",
        43,
        "'none'",
    )


def test_a_column_of_texts_of_which_some_are_numbers_is_not_noted(tmp_path):
    path = written(tmp_path / "a.csv", "x,y", *(f"{row % 10 if row % 10 < 8 else 'word'},1" for row in range(100)))
    assert notes(path, "x", "y") == ()


FORMS = ["1", "2.5", "+4", " 5", "9999999999999999999", "true", "2020-01-01", "31/01/2020", "2020-01-01T10:00:00"]
FORMS += ["word", "NA", "007", "1e5", "1,5"]


@pytest.mark.parametrize("first", FORMS)
def test_kinds_by_the_first_rows_are_those_by_all_rows(tmp_path, monkeypatch, first):
    for last in FORMS:
        path = written(tmp_path / "a.csv", "x;y", f"{first};1", f"{first};1", f"{last};2", f"{first};3")
        found = []
        for rows in (1, 1_000):
            monkeypatch.setattr(text_columns, "FIRST_LOOK_ROWS", rows)
            try:
                table = collected(path)
                found.append((table.schema, table.rows()))
            except DataError as error:
                found.append(str(error))
        assert found[0] == found[1], last


def test_digits_that_begin_with_a_zero_are_codes(tmp_path):
    path = written(tmp_path / "a.csv", "code,x,y", "01,0,0.5", "10,10,00.25", "2,20,1")
    assert collected(path).to_dict(as_series=False) == {
        "code": ["01", "10", "2"],
        "x": [0, 10, 20],
        "y": [0.5, 0.25, 1.0],
    }
    assert notes(path, "code", "x", "y") == (Note("leading zeros", column="code"),)


def test_numbers_after_spaces_are_numbers(tmp_path):
    path = written(tmp_path / "a.csv", "x,y", "1, 5", "2,6", "3,+7.5")
    assert collected(path)["y"].to_list() == [5.0, 6.0, 7.5]


def test_the_audit_says_what_became_text(tmp_path):
    table = people(400).with_columns(
        pl.col("income").cast(pl.String).replace(people(400)["income"].cast(pl.String)[7], "50k")
    )
    table.write_csv(tmp_path / "a.csv")
    audit = audited(tmp_path / "a.csv", propensity="chance")
    note = audit["A"].checks.notes[0]
    assert (note.code, note.values["column"], note.values["first"]) == ("odd values", "income", "'50k'")
    named = audited(read(tmp_path / "a.csv", na_values="50k"), propensity="chance")
    assert named["A"].contributions_full["verdict"][0] == "potential proxy"


def test_an_index_that_pandas_saved_is_left_out_and_said_to_be(tmp_path):
    frame = people(400).drop("weight", "chance")
    pl.concat([pl.DataFrame({"": range(400)}), frame], how="horizontal").write_csv(tmp_path / "a.csv")
    audit = tl.audit(str(tmp_path / "a.csv"), "group", scores="score", reference="B", folds=None)
    assert sorted(audit["A"].contributions_full["feature"]) == ["city", "income", "owner", "since"]
    assert Note("saved index", column="column_1") in audit["A"].checks.notes


def test_indices_saved_in_several_files_are_left_out(tmp_path):
    written(tmp_path / "a.csv", ",x", "0,1", "1,2")
    written(tmp_path / "b.csv", ",x", "2,3", "3,4")
    written(tmp_path / "c.csv", ",x", "0,5", "1,6")
    assert collected(tmp_path).rows() == [(1,), (2,), (3,), (4,), (5,), (6,)]


def test_a_mark_at_the_end_of_every_line_makes_no_column(tmp_path):
    path = written(tmp_path / "a.csv", "x,y,", "1,2,", "3,4,")
    assert collected(path).to_dict(as_series=False) == {"x": [1, 3], "y": [2, 4]}
    written(tmp_path / "b.csv", "x,y,", "5,6,word")
    assert collected(tmp_path)["column_3"].to_list() == [None, None, "word"]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", b"x,y\r1,2\r3,4\r", {}, r"lines of 'a.csv' must end in a line feed, .*\nHint: save it again"),
        ("a.csv", b"x,S\xfcd\n1,2\n", {"encoding": "utf-8"}, r"'a.csv' is not UTF-8: line 1 contains b'x,S\\xfcd'\.\n"),
        (
            "a.csv",
            b"x,y\n1,S\xfcd\n",
            {},
            r"'a.csv' is not UTF-8: line 2 contains .*\nHint: pass its encoding, for example encoding='cp1252' .*'1,S",
        ),
    ],
)
def test_texts_of_another_make_are_named(tmp_path, name, content, options, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        collected(tmp_path / name, **options)


def test_other_columns_without_a_name_get_one(tmp_path):
    path = written(tmp_path / "a.csv", ",x,", "5,1,a", "3,2,b")
    assert collected(path).to_dict(as_series=False) == {"column_1": [5, 3], "x": [1, 2], "column_3": ["a", "b"]}
    assert notes(path, "column_1", "x", "column_3") == ()


def test_dates_of_two_forms_are_text_with_a_warning(tmp_path):
    path = written(tmp_path / "a.csv", "x,d", "1,2020-01-31", "2,31/01/2020", "3,2020-02-01")
    assert collected(path)["d"].to_list() == ["2020-01-31", "31/01/2020", "2020-02-01"]
    (note,) = notes(path, "d")
    assert (note.code, note.values["column"], note.values["kind"]) == ("several forms", "d", "dates")


def test_dates_with_a_late_word_are_text_with_a_warning_that_names_it(worded, tmp_path):
    path = written(tmp_path / "a.csv", "x,d", *(f"1,2020-01-{day:02d}" for day in range(1, 31)), "1,soon")
    assert collected(path)["d"].dtype == pl.String
    (note,) = notes(path, "d")
    assert (note.code, note.values["column"], note.values["known"], note.values["first"]) == (
        "odd values",
        "d",
        31,
        "'soon'",
    )
    worded(note)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2020-01-31", date(2020, 1, 31)),
        ("2020/01/31", date(2020, 1, 31)),
        ("2020-01-31T10:00:00.5", datetime(2020, 1, 31, 10, 0, 0, 500_000)),
        ("2020-01-31 10:00", datetime(2020, 1, 31, 10)),
        ("2020-01-31T10:00:00Z", datetime(2020, 1, 31, 10)),
        ("2020-01-31T10:00:00+01:00", datetime(2020, 1, 31, 9)),
        ("01/31/2020", "01/31/2020"),
        ("10-11-12", "10-11-12"),
        ("31/01/20", "31/01/20"),
        ("10:00:00", "10:00:00"),
    ],
)
def test_dates_are_recognised_by_their_form(tmp_path, text, value):
    path = written(tmp_path / "a.csv", "x,d", f"1,{text}", f"2,{text}", "3,NA")
    assert collected(path)["d"].to_list() == [value, value, None]
    assert notes(path, "d") == ()


@pytest.mark.parametrize("text", ["31/01/2020", "31-01-2020", "31.01.2020"])
def test_dates_with_the_day_first_are_read_with_a_warning(tmp_path, text):
    path = written(tmp_path / "a.csv", "x,d", f"1,{text}")
    assert collected(path)["d"].to_list() == [date(2020, 1, 31)]
    assert notes(path, "d") == (Note("day first", column="d"),)


@pytest.mark.parametrize("text", ["9" * 19, "9" * 45])
def test_integers_too_large_for_64_bits_keep_every_digit(tmp_path, text):
    path = written(tmp_path / "a.csv", "x,y", "1,2", f"{text},3")
    assert collected(path)["x"].to_list() == ["1", text]


def test_a_tsv_file_may_have_commas_in_its_fields(tmp_path):
    path = written(tmp_path / "a.tsv", "x, y\tz", "1, 2\t3")
    assert collected(path).to_dict(as_series=False) == {"x, y": ["1, 2"], "z": [3]}
    assert collected(written(tmp_path / "b.tsv", "x,y", "1,2")).rows() == [(1, 2)]


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_one_pass_over_all_rows_decides_the_types(tmp_path, monkeypatch, ending):
    rows = 30_000
    days = pl.date_range(date(1900, 1, 1), date(2000, 1, 1), eager=True)
    numbers = pl.int_range(rows, eager=True)
    frame = pl.DataFrame(
        {
            "code": numbers.cast(pl.String).str.zfill(6),
            "late word": numbers.cast(pl.String).set(numbers == rows - 1, "none"),
            "day": days.head(rows),
            "comma": numbers.cast(pl.String) + ",5",
            "number": numbers / 7,
        }
    )
    frame.write_csv(tmp_path / f"a.{ending}", compression="gzip" if ending == "csv.gz" else "uncompressed")
    rows_read = []
    scan_csv, head = pl.scan_csv, pl.LazyFrame.head

    def counting_scan(*arguments, **options):
        def count(batch):
            rows_read.append(batch.height)
            return batch

        return scan_csv(*arguments, **options).map_batches(count, streamable=True)

    def uncounted_head(frame, count):  # Polars pushes the look at the first rows down to the file; the count stops it
        start = len(rows_read)
        looked = head(frame, count).collect()
        del rows_read[start:]
        return looked.lazy()

    monkeypatch.setattr(pl, "scan_csv", counting_scan)
    monkeypatch.setattr(pl.LazyFrame, "head", uncounted_head)
    batches = batches_of(tmp_path / f"a.{ending}")
    assert len(reading_notes(batches, batches.names())) == 3
    assert sum(rows_read) == rows
    assert collected_rows(batches).schema == {
        "code": pl.String,
        "late word": pl.String,
        "day": pl.Date,
        "comma": pl.String,
        "number": pl.Float64,
    }
    assert sum(rows_read) == 2 * rows
