"""The same table in any format of files, or in a database, gives the same numbers as in memory; doubts are told."""

import gzip
import os
import shutil
import sqlite3
import subprocess
import tempfile
from datetime import date
from pathlib import Path

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.command import invoked
from tests.people import assert_same_numbers, audited, people

import tiltlens as tl
from tiltlens._notes import Note
from tiltlens._sources import engines as sources
from tiltlens._sources import files
from tiltlens._sources.csv_files import read_csv_text
from tiltlens._sources.engines import batches_of, reading_notes
from tiltlens._sources.text_columns import read
from tiltlens.errors import DataError, MissingExtraError

GERMAN = {"separator": ";", "decimal_comma": True}


def written(path, content, encoding="utf-8"):
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def collected(data, **options):
    return sources.collected(read(data, **options) if options else data)


def notes(data, **options):
    batches = batches_of(read(data, **options))
    return reading_notes(batches, batches.names())


def in_sqlite(frame, path):
    database = sqlite3.connect(path)
    names = ", ".join(f'"{name}"' for name in frame.columns)
    database.execute(f"CREATE TABLE people ({names})")
    texts = frame.with_columns(pl.col("since").cast(pl.String))
    database.executemany(f"INSERT INTO people VALUES ({', '.join('?' * frame.width)})", texts.rows())
    database.commit()
    database.close()
    return f"sqlite:///{path}"


def in_duckdb(frame, path):
    with duckdb.connect(str(path)) as database:
        database.from_arrow(frame.to_arrow()).create("people")
    return f"duckdb:///{path}"


SELECT = {"query": "SELECT * FROM people"}
AS_WORDS = pl.col("owner").replace_strict({True: "yes", False: "no"}, return_dtype=pl.String)
HELD = {
    "csv.gz": lambda frame, path: written(path / "a.csv.gz", gzip.compress(frame.write_csv().encode())),
    "tsv": lambda frame, path: written(path / "a.tsv", frame.write_csv(separator="\t")),
    "semicolons, decimal commas": lambda frame, path: written(path / "a.csv", frame.write_csv(**GERMAN)),
    "latin-1": lambda frame, path: written(path / "a.csv", frame.write_csv(), "latin-1"),
    "utf-16, semicolons, zipped": lambda frame, path: written(
        path / "a.csv.gz", gzip.compress(frame.write_csv(**GERMAN).encode("utf-16"))
    ),
    "arrow": lambda frame, path: frame.write_ipc(path / "a.arrow") or path / "a.arrow",
    "feather by pandas": lambda frame, path: frame.to_pandas().to_feather(path / "a.feather") or path,
    "json lines": lambda frame, path: frame.write_ndjson(path / "a.jsonl") or path / "a.jsonl",
    "json lines, zipped": lambda frame, path: written(
        path / "a.jsonl.gz", gzip.compress(frame.write_ndjson().encode())
    ),
    "excel": lambda frame, path: frame.write_excel(path / "a.xlsx") and path / "a.xlsx",
    "sqlite": lambda frame, path: in_sqlite(frame, path / "a.db"),
    "duckdb": lambda frame, path: in_duckdb(frame, path / "a.db"),
}

OPTIONS = {
    "semicolons, decimal commas": {"decimal": ","},
    "latin-1": {"encoding": "latin-1"},
    "utf-16, semicolons, zipped": {"decimal": ","},
    "sqlite": SELECT,
    "duckdb": SELECT,
}


@pytest.fixture(scope="module")
def in_memory():
    return audited(people(), folds=None).to_dict()


@pytest.mark.parametrize("way", HELD)
def test_every_format_gives_the_audit_of_the_table_in_memory(tmp_path, in_memory, way):
    frame = people().with_columns(AS_WORDS) if way == "sqlite" else people()  # which has no booleans
    data = HELD[way](frame, tmp_path)
    found = audited(read(data, **OPTIONS[way]) if way in OPTIONS else data, folds=None).to_dict()
    if way == "sqlite":
        expected = audited(frame, folds=None).to_dict()
        assert_same_numbers(found, expected)
        return
    told = found["comparisons"]["A"]["checks"]["notes"]
    assert len([note for note in told if note not in in_memory["comparisons"]["A"]["checks"]["notes"]]) == (
        {"latin-1": 1, "utf-16, semicolons, zipped": 1}.get(way, 0)
    ), told
    found["comparisons"]["A"]["checks"]["notes"] = in_memory["comparisons"]["A"]["checks"]["notes"]
    assert_same_numbers(found, in_memory)
    assert found["provenance"]["data_sha256"] == in_memory["provenance"]["data_sha256"]


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_a_gzip_file_that_is_cut_short_or_damaged_is_refused(tmp_path, encoding):
    zipped = gzip.compress(people().write_csv().encode(encoding))
    for content in (zipped[: len(zipped) // 2], zipped[:-8] + bytes(8)):
        path = written(tmp_path / "a.csv.gz", content)
        for options in [{"encoding": "latin-1"}] if encoding == "cp1252" else [{}, {"encoding": "latin-1"}]:
            with pytest.raises(DataError, match=r"'a\.csv\.gz'.* gzip"):
                collected(path, **options)


def test_letters_of_a_group_survive_their_encoding(tmp_path):
    frame = people().select("city", "income", "score")
    for encoding in ("cp1252", "latin-1", "utf-16", "utf-8-sig", "utf-32"):
        path = written(tmp_path / "a.csv", frame.write_csv(), encoding)
        options = {} if encoding.startswith("utf") else {"encoding": encoding}
        assert collected(path, **options)["city"].to_list() == frame["city"].to_list()
    assert set(tl.audit(path, "city", reference="Süd", scores="score", features=[])) == {"East", "North"}


def test_an_encoding_other_than_utf_8_is_named_in_the_notes(tmp_path):
    path = written(tmp_path / "a.csv", "g,x\nA,1\nSüd,2\n", "latin-1")
    assert notes(path, encoding="cp1250") == (Note("encoding", file="a.csv", encoding="cp1250", reason=""),)
    assert collected(path, encoding="cp437")["g"].to_list() == ["A", "Sⁿd"]
    path = written(tmp_path / "a.csv", "g,x\nA,1\nSüd,2\n", "utf-16")
    (note,) = notes(path)
    assert (note.code, note.values["encoding"], note.values["reason"] > "") == ("encoding", "utf-16", True)
    assert notes(written(tmp_path / "a.csv", "g,x\nSüd,2\n")) == ()


def test_text_in_an_encoding_without_a_mark_is_read_where_it_is_named(refused, tmp_path):
    path = written(tmp_path / "a.csv", "g,x\nСевер,1\nЮг,2\n", "cp1251")
    with refused(DataError, "'a.csv'"):
        collected(path)
    assert collected(path, encoding="windows-1251")["g"].to_list() == ["Север", "Юг"]
    path = written(tmp_path / "a.csv", "g,x\nSüd,1\n", "utf-16-le")
    with refused(DataError):
        collected(path)
    assert collected(path, encoding="utf-16-le").rows() == [("Süd", 1)]


def test_the_first_line_that_is_not_utf_8_is_named(refused, tmp_path):
    path = written(tmp_path / "a.csv", b"g,x\nA,1\n" + "Süd,2\n".encode() + "Süd,3\n".encode("latin-1"))
    with refused(DataError, "'a.csv'", "'Süd,3'"):
        collected(path)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("ascii", r"'a.csv' must be written in ascii, got: 'ascii' codec .*\nHint: name"),
        ("utf-8", r"'a.csv' is not UTF-8: line 3 contains b'S\\xfcd,2'"),
        ("utf-16", r"'a.csv' must be written in utf-16, got: "),
        ("hex", r"`encoding` must be the name of an encoding, got 'hex'\.\nHint: for example 'cp1252'"),
        ("latin-99", r"`encoding` must be the name of an encoding, got 'latin-99'\."),
        (7, r"`encoding` must be the name of an encoding, got 7\."),
    ],
)
def test_an_encoding_that_is_not_the_files_is_refused(tmp_path, encoding, message):
    path = written(tmp_path / "a.csv", "g,x\nA,1\nSüd,2\n", "latin-1")
    with pytest.raises(DataError, match=message):
        collected(path, encoding=encoding)


def test_a_copy_in_utf_8_goes_with_the_text(tmp_path):
    text = read_csv_text(written(tmp_path / "a.csv", "g,x\nSüd,2\n", "utf-16"))
    copy = text.source
    assert copy.is_file()
    assert copy.parent.stat().st_mode & 0o077 == 0
    del text
    assert not copy.exists()


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_fields_may_be_separated_by_other_marks(tmp_path, separator):
    path = written(tmp_path / "a.csv", f"x{separator}y, z\n1{separator}a,b\n2{separator}c\n".replace("|", separator))
    assert collected(path).to_dict(as_series=False) == {"x": [1, 2], "y, z": ["a,b", "c"]}


def test_a_header_that_two_marks_could_separate_is_refused(refused, tmp_path):
    path = written(tmp_path / "a.csv", "a,b;c\n1,2;3\n4,5;6\n")
    with refused(DataError, "by one kind"):
        collected(path)


def test_a_line_that_names_the_separator_is_no_header(refused, tmp_path):
    with refused(DataError, "'a.csv'", "'sep='"):
        collected(written(tmp_path / "a.csv", "sep=;\nx;y\n1;2\n"))


@pytest.mark.parametrize(("row", "fields"), [("3;4;5", 3), ("3", 1)])
def test_a_ragged_row_between_semicolons_is_refused_with_its_line(refused, tmp_path, row, fields):
    path = written(tmp_path / "a.csv", f"x;y\n1,5;2\n{row}\n")
    with refused(DataError, "'a.csv'", f"got {fields} in line 3"):
        collected(path)


def test_decimal_commas_are_numbers_where_the_option_says_so(tmp_path):
    path = written(tmp_path / "a.csv", "x;y;z\n1,5;7;a,b\n-2;8;1,5\n,25;9;c\n1,5e2;;d\n")
    assert collected(path, decimal=",").to_dict(as_series=False) == {
        "x": [1.5, -2.0, 0.25, 150.0],
        "y": [7, 8, 9, None],
        "z": ["a,b", "1,5", "c", "d"],
    }
    assert notes(path, decimal=",") == ()
    quoted = written(tmp_path / "a.csv", 'x,y\n"1,5",1\n"2,25",2\n')
    assert collected(quoted, decimal=",")["x"].to_list() == [1.5, 2.25]


def test_numbers_with_decimal_commas_are_text_with_a_warning_that_names_the_option(refused, worded, tmp_path):
    path = written(tmp_path / "a.csv", "x;y\n1,5;7\n-2;8\n,25;9\n1,5e2;\n")
    assert collected(path)["x"].to_list() == ["1,5", "-2", ",25", "1,5e2"]
    (note,) = notes(path)
    assert (note.code, note.values["column"], note.values["known"], note.values["first"]) == (
        "odd values",
        "x",
        4,
        "'1,5'",
    )
    worded(note)
    with refused(DataError, "`decimal`", "--decimal"):
        collected(path, decimal=";")


@pytest.mark.parametrize(
    ("values", "decimal", "hint"),
    [
        (["1,5", "2.5", "3"], ".", "if the comma is the decimal mark, pass decimal=','"),
        (["1,5", "2.5", "3"], ",", "if the point is the decimal mark, pass decimal='.'"),
        (["1.234", "12.500"], ",", "if the point is the decimal mark, pass decimal='.'"),
        (["1,234", "12,500"], ".", "if the comma is the decimal mark, pass decimal=','"),
        (["1.234,56", "12,5"], ",", "write numbers without units and thousands separators"),
        (["1,234.56", "12.5"], ".", "write numbers without units and thousands separators"),
        (["1.234.567", "2.345.678"], ".", "write numbers without units and thousands separators"),
        (["1'234", "2"], ".", "write numbers without units and thousands separators"),
    ],
)
def test_numbers_that_could_be_others_are_text_with_a_warning(tmp_path, values, decimal, hint):
    path = written(tmp_path / "a.csv", "x;y\n" + "".join(f"{value};1\n" for value in values))
    assert collected(path, decimal=decimal)["x"].to_list() == values
    (note,) = notes(path, decimal=decimal)
    assert (note.code, note.values["column"]) == ("odd values", "x")
    assert hint in note


def test_decimal_commas_with_a_word_among_them_are_text_with_a_warning(tmp_path):
    path = written(tmp_path / "a.csv", "x;y\n" + "".join(f"{row},5;1\n" for row in range(30)) + "none;1\n")
    (note,) = notes(path, decimal=",")
    assert (note.code, note.values["column"], note.values["known"], note.values["first"]) == (
        "odd values",
        "x",
        31,
        "'none'",
    )
    assert collected(path, na_values="none", decimal=",")["x"].sum() == sum(row + 0.5 for row in range(30))


@pytest.mark.parametrize("value", ["{},5%", "€ {}", "{} $", "{}.5 %"])
def test_numbers_with_a_unit_are_text_with_a_warning(worded, tmp_path, value):
    path = written(tmp_path / "a.csv", "x;y\n" + "".join(f"{value.format(row)};1\n" for row in range(30)))
    assert collected(path).schema == {"x": pl.String, "y": pl.Int64}
    (note,) = notes(path)
    assert (note.code, note.values["known"], note.values["first"]) == ("odd values", 30, repr(value.format(0)))
    worded(note)


def test_the_decimal_mark_is_that_of_all_files(tmp_path):
    written(tmp_path / "a.csv", "x;y\n1,5;1\n")
    written(tmp_path / "b.csv", "x,y\n2.5,1\n")
    assert collected(tmp_path, decimal=",")["x"].to_list() == ["1,5", "2.5"]
    written(tmp_path / "b.csv", "x,y\n2,1\n")
    assert collected(tmp_path, decimal=",")["x"].to_list() == [1.5, 2.0]


def test_json_lines_have_kinds_by_all_rows_and_dates(tmp_path):
    rows = ['{"x": 1, "d": "2020-01-31", "t": "2020-01-31T10:00:00"}'] * 2000 + ['{"x": 2.5, "z": "Süd", "d": null}']
    table = collected(written(tmp_path / "a.jsonl", "\n".join(rows) + "\n"))
    assert table.schema == {"x": pl.Float64, "d": pl.Date, "t": pl.Datetime("us"), "z": pl.String}
    assert table.row(-1) == (2.5, None, None, "Süd")


def test_numbers_in_quotation_marks_of_json_are_text_and_told(tmp_path):
    path = written(
        tmp_path / "a.jsonl", '{"x": "007", "y": 1}\n' + '{"x": "8", "y": 2}\n' * 30 + '{"x": "9", "y": "-"}\n'
    )
    assert collected(path).schema == {"x": pl.String, "y": pl.String}
    first, second = notes(path)
    assert first == Note("quoted numbers", column="x")
    assert (second.code, second.values["known"], second.values["first"]) == ("odd values", 32, "'-'")


def workbook(path, sheets):
    import xlsxwriter

    with xlsxwriter.Workbook(path) as book:
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for place, row in enumerate(rows):
                for column, value in enumerate(row):
                    write = sheet.write_string if isinstance(value, str) else sheet.write
                    write(place, column, value)
    return path


def test_a_workbook_of_two_sheets_needs_the_name_of_one(refused, tmp_path):
    path = workbook(tmp_path / "a.xlsx", {"2023": [["x"], [1]], "2024": [["x", "y"], [2, "Süd"]]})
    with refused(DataError, "'a.xlsx'", "--sheet"):
        collected(path)
    with refused(DataError, "'a.xlsx'", "'2025'"):
        collected(path, sheet="2025")
    assert collected(path, sheet="2024").rows() == [(2, "Süd")]


def test_cells_of_text_that_are_dates_are_dates(tmp_path):
    path = workbook(tmp_path / "a.xlsx", {"a": [["x", "day"], [1, "2020-01-31"], [2, "2021-12-01"], [3, None]]})
    assert collected(path)["day"].to_list() == [date(2020, 1, 31), date(2021, 12, 1), None]


def test_cells_without_a_value_are_told(tmp_path):
    import openpyxl

    book = openpyxl.Workbook()
    rows = [["x", "word", "sum", "y"], [1.5, "a", "=A2+1", 1], ["#N/A", "b", "=A3+1", 2], [2.5, "#DIV/0!", "=A4+1", 3]]
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert collected(tmp_path / "a.xlsx").select("x", "word", "sum").rows() == [
        (1.5, "a", None),
        (None, "b", None),
        (2.5, None, None),
    ]
    first, second, third = notes(tmp_path / "a.xlsx")
    assert (first, second) == (Note("error cells", column="x"), Note("error cells", column="word"))
    assert third == Note("empty column", column="sum")


def test_cells_of_text_among_numbers_are_numbers_with_a_warning(tmp_path):
    path = workbook(
        tmp_path / "a.xlsx", {"a": [["x", "y", "zip"], [1.5, 1, "0801"], ["2.5", "1,5", "8001"], [3, 2, "3"]]}
    )
    table = collected(path)
    assert table["x"].to_list() == [1.5, 2.5, 3.0]
    assert table["y"].to_list() == ["1", "1,5", "2"]
    assert table["zip"].to_list() == ["0801", "8001", "3"]
    first, second, third = notes(path)
    assert (first, third) == (Note("numbers in text cells", columns="x"), Note("leading zeros", column="zip"))
    assert (second.code, second.values["known"], second.values["first"]) == ("odd values", 3, "'1,5'")
    assert collected(path, decimal=",")["y"].to_list() == [1.0, 1.5, 2.0]


def test_columns_of_a_sheet_that_are_named_twice_are_refused_and_empty_ones_left_out(refused, tmp_path):
    with refused(DataError, "'x'"):
        collected(workbook(tmp_path / "a.xlsx", {"a": [["x", "x"], [1, 2]]}))
    path = workbook(tmp_path / "a.xlsx", {"a": [["x", None, 2024, "y"], [1, None, 3, None], [2, None, 4, None]]})
    assert collected(path).to_dict(as_series=False) == {"x": [1, 2], "2024": [3, 4], "y": [None, None]}


def test_an_empty_sheet_is_refused(refused, tmp_path):
    with refused(DataError, "'a.xlsx'"):
        collected(workbook(tmp_path / "a.xlsx", {"a": [["x", "y"]]}))


def test_excel_without_its_package_names_what_to_install(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with refused(MissingExtraError, "'.[excel]'"):
        collected(workbook(tmp_path / "a.xlsx", {"a": [["x"], [1]]}))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("sqlite:///{}/a.db", {}, r"needs a query .*--query"),
        ("sqlite:///{}/b.db", SELECT, r"b\.db' does not exist"),
        ("sqlite:///{}/a.db", {"query": "SELECT * FROM nobody"}, r"cannot run `query`.*no such table"),
        ("sqlite:///{}/a.db", {"query": "DELETE FROM people"}, r"cannot run `query`"),
        ("sqlite:///{}/a.db", SELECT | {"sheet": "a"}, r"`sheet` does not apply to a database, got 'a'"),
        ("mysql://me:secret@host/a", SELECT, r"Databases of mysql:// cannot be read"),
    ],
)
def test_a_database_that_cannot_be_read_is_refused(tmp_path, data, options, message):
    in_sqlite(people(), tmp_path / "a.db")
    with pytest.raises(DataError, match=message) as raised:
        collected(data.format(tmp_path), **options)
    assert "secret" not in str(raised.value)
    assert sqlite3.connect(tmp_path / "a.db").execute("SELECT count(*) FROM people").fetchone() == (400,)


def test_a_query_may_choose_and_name(tmp_path):
    url = in_sqlite(people(), tmp_path / "a.db")
    found = collected(
        url, query="SELECT upper(city) AS place, since FROM people WHERE weight = 1 ORDER BY since LIMIT 2"
    )
    expected = people().filter(weight=1).sort("since").head(2)
    assert found["since"].to_list() == expected["since"].to_list()
    assert isinstance(found["since"][0], date)


def test_arrow_keeps_kinds_and_levels(tmp_path):
    frame = pl.DataFrame({"x": ["low", "high"], "d": [date(2020, 1, 1), None]})
    frame = frame.with_columns(pl.col("x").cast(pl.Enum(["low", "high"])))
    frame.write_ipc(tmp_path / "a.arrow")
    assert_frame_equal(collected(tmp_path), frame)


def test_the_command_line_reads_them_too(tmp_path):
    path = written(tmp_path / "a.csv", people().write_csv(**GERMAN), "cp1252")
    options = ["--group", "group", "--scores", "score", "--features", "city", "--folds", "0"]
    german = ["--encoding", "cp1252", "--decimal", ","]
    assert "read as cp1252" in invoked("audit", path, *german, *options, cwd=tmp_path).stdout
    assert "--decimal ','" in invoked("audit", path, *german[:2], *options, cwd=tmp_path).stderr
    url = in_sqlite(people(), tmp_path / "a.db")
    found = invoked("audit", url, "--query", "SELECT * FROM people", *options, cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")


@pytest.fixture(scope="module")
def postgres():
    """A PostgreSQL server of its own, which refuses to run as root; other users cannot see pytest's folders."""
    user = {"user": "nobody"} if os.geteuid() == 0 else {}
    programs = Path(shutil.which("initdb")).resolve().parent

    def server(program, *options):
        command = [programs / program, "-D", f"{folder}/data", *options]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **user)

    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        if user:
            shutil.chown(folder, **user)
        server("initdb", "-U", "people", "--auth=trust", "-E", "UTF8", "--locale=C")
        settings = f"-F -k {folder} -c listen_addresses=''"
        server("pg_ctl", "start", "-w", "-l", f"{folder}/log", "-o", settings)
        yield f"postgresql://people:secret@/postgres?host={folder}"
        server("pg_ctl", "stop", "-m", "fast")


@pytest.mark.slow
@pytest.mark.postgres
def test_postgresql_gives_the_audit_of_the_table_in_memory(postgres, in_memory):
    people().write_database("people", postgres, engine="adbc")
    found = audited(read(postgres, **SELECT), folds=None).to_dict()
    assert_same_numbers(found, in_memory)
    query = 'SELECT income::numeric(20, 12) AS income, "group" FROM people'
    assert collected(postgres, query=query)["income"].to_list() == pytest.approx(
        people()["income"].to_list(), nan_ok=True
    )
    for refused in ("DROP TABLE people", "DELETE FROM people", "SELECT * FROM nobody"):
        with pytest.raises(DataError, match=r"cannot run `query`") as raised:
            collected(postgres, query=refused)
        assert "secret" not in str(raised.value)
    assert collected(postgres, query="SELECT count(*) AS n FROM people")["n"].to_list() == [400]
