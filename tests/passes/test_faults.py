"""What can go wrong with a stream, and what is said then."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from tests.streams.test_agreement import PEOPLE, classed, in_files, in_memory
from tests.test_audit_engines import assert_same_numbers

import tiltlens as tl
from tiltlens.engines import batches
from tiltlens.errors import TiltlensError


def streamed(data, **changed):
    return tl.audit(tl.stream(data), **PEOPLE | changed)


@pytest.fixture
def parts(tmp_path):
    return in_files(classed(), tmp_path, "parquet"), tmp_path


@pytest.mark.parametrize("damage", ["the footer", "the data"])
def test_a_corrupt_part_is_named(parts, damage):
    pattern, folder = parts
    content = bytearray((folder / "part-1.parquet").read_bytes())
    cut = slice(-8, None) if damage == "the footer" else slice(4, len(content) // 2)
    content[cut] = os.urandom(len(content[cut]))
    (folder / "part-1.parquet").write_bytes(content)
    with pytest.raises(TiltlensError, match=r"part-1\.parquet") as caught:
        streamed(pattern)
    assert "must be" in str(caught.value)


def test_a_part_without_a_column_is_named(parts):
    pattern, folder = parts
    pl.read_parquet(folder / "part-2.parquet").drop("city").write_parquet(folder / "part-2.parquet")
    with pytest.raises(TiltlensError, match=r"got no 'city' in .*part-2\.parquet"):
        streamed(pattern)


def test_a_part_with_another_kind_of_column_is_named(parts):
    pattern, folder = parts
    pl.read_parquet(folder / "part-2.parquet").cast({"income": pl.String}).write_parquet(folder / "part-2.parquet")
    with pytest.raises(TiltlensError, match=r"'income' as String, not Float64, in .*part-2\.parquet"):
        streamed(pattern)


def test_parts_may_differ_in_width_and_in_the_order_of_columns(parts):
    pattern, folder = parts
    part = pl.read_parquet(folder / "part-2.parquet").cast({"weight": pl.Int16, "city": pl.Categorical})
    part.select(reversed(part.columns)).write_parquet(folder / "part-2.parquet")
    assert_same_numbers(streamed(pattern, weights="weight").to_dict(), in_memory("weights"))


def test_columns_that_differ_by_case_are_refused():
    with pytest.raises(TiltlensError, match="column names must differ in more than letter case, got 'city', 'City'"):
        streamed(classed().with_columns(City=pl.lit(1)))


def test_a_part_without_a_usable_row_is_no_matter(parts):
    pattern, folder = parts
    extra = pl.read_parquet(folder / "part-0.parquet").with_columns(score=pl.lit(float("nan")))
    extra.write_parquet(folder / "part-3.parquet")
    extra.clear().write_parquet(folder / "part-4.parquet")
    found = streamed(pattern)
    assert found.rows["missing_score"] == extra.height
    assert_same_numbers(found["A"].to_dict(), in_memory("known")["comparisons"]["A"])


def test_rows_of_unknown_group_are_counted(monkeypatch):
    monkeypatch.setattr(batches, "BATCH_ROWS", 50)
    frame = classed().with_columns(group=pl.when(pl.int_range(pl.len()) % 7 > 0).then("group"))
    plain, found = tl.audit(frame, **PEOPLE), streamed(frame)
    assert found.rows["missing_group"] == 58
    assert_same_numbers(found.to_dict(), plain.to_dict())


BAD = {
    "infinite feature": (
        {"data": lambda f: f.with_columns(income=pl.when(pl.col("income") > 60).then(np.inf).otherwise("income"))},
        "column 'income' must be finite, got",
    ),
    "membership of 1": (
        {"data": lambda f: f.with_columns(chance=pl.when(pl.col("income") > 60).then(1.0).otherwise("chance"))},
        "`membership` must lie strictly between 0 and 1, got",
    ),
    "missing membership": (
        {"data": lambda f: f.with_columns(chance=pl.when(pl.col("income") > 60).then("chance"))},
        "`membership` must lie strictly between 0 and 1, got",
    ),
    "scores beyond 1": (
        {"data": lambda f: f.with_columns(score=2 * pl.col("score"))},
        "of a batch.",
    ),
    "negative weights": (
        {"data": lambda f: f.with_columns(weight=1 - pl.col("weight")), "weights": "weight"},
        "`weights` must be finite and not negative",
    ),
    "weights of other worlds": (
        {"data": lambda f: f.with_columns(weight=10.0 ** (pl.int_range(pl.len()) % 11)), "weights": "weight"},
        "`weights` must not differ by more than a factor of 1e+09, got 1 and 1e+10",
    ),
    "array of membership": (
        {"membership": np.full(400, 0.5)},
        "`membership` must be the name of a column of streamed data, got",
    ),
    "array of weights": ({"weights": np.ones(400)}, "`weights` must be the name of a column of streamed data"),
    "array of groups": ({"group": np.ones(400)}, "`group` must be the name of a column of streamed data"),
    "no scores": ({"scores": None}, "exactly one of `scores` and `model` must be given, got neither"),
    "unknown column": ({"features": ["incomes"]}, "`features` must name columns, got 'incomes'"),
    "unknown value": ({"given": {"city": "West"}}, "`given` must name a value of column 'city', got 'West'"),
    "unknown group": ({"reference": "C"}, "`reference` must be one of the values of the group, got 'C'"),
    "several groups": (
        {"group": "city", "reference": "East"},
        "`membership` must be None or an estimator for several audited groups",
    ),
    "no rows": ({"data": lambda f: f.clear()}, "`data` must have rows, got an empty table"),
    "no scores known": ({"data": lambda f: f.with_columns(score=pl.lit(None, pl.Float64))}, "must have rows left"),
    "separated groups": (
        {"data": lambda f: f.with_columns(chance=pl.when(group="A").then(0.9).otherwise(0.1))},
        "separate the two groups completely",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_a_mistake_is_named(name):
    changed, message = BAD[name]
    data = changed.get("data", lambda frame: frame)(classed())
    with pytest.raises(TiltlensError) as caught:
        streamed(data, **{key: value for key, value in changed.items() if key != "data"})
    assert message in str(caught.value)
    assert "Hint:" in str(caught.value)


def test_what_needs_rows_says_so_and_what_to_do(tmp_path):
    found = streamed(classed())["A"]
    for call in (lambda: found.path([(1, 1, 1, 1)]), found.project, lambda: found.distribution("city")):
        with pytest.raises(TiltlensError, match="must have rows in memory") as caught:
            call()
        assert "audit a sample of the rows" in str(caught.value)
    with pytest.raises(TiltlensError, match="`feature` must be one of the audit's features, got 'cities'"):
        found.profile("cities")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("nothing/*.parquet", "must match .csv or .parquet files, got none"),
        ("people.xlsx", "must be an existing file"),
        ([], "must be files"),
        ({"a": [1]}, "must be files"),
    ],
)
def test_sources_that_are_none_are_named(data, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TiltlensError) as caught:
        streamed(data)
    assert message in str(caught.value)


def test_files_of_two_kinds_are_refused(tmp_path):
    in_files(classed(), tmp_path, "parquet")
    in_files(classed(), tmp_path, "csv")
    with pytest.raises(TiltlensError, match=r"must be of one kind, got \.csv and \.parquet"):
        streamed(tmp_path)


def test_a_folder_stands_for_its_files_but_not_for_marks(tmp_path):
    in_files(classed(), tmp_path, "parquet")
    (tmp_path / "_SUCCESS.csv").write_text("")
    assert_same_numbers(streamed(tmp_path).to_dict(), in_memory("known"))


def test_a_csv_that_turns_out_otherwise_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "INFERRED_ROWS", 10)
    pattern = in_files(classed(), tmp_path, "csv")
    text = (tmp_path / "part-2.csv").read_text().splitlines()
    text[-1] = "A,much,North,true,2020-01-01,0.5,1,0.5,0.3,0.3,0.4,1.0"
    (tmp_path / "part-2.csv").write_text("\n".join(text))
    with pytest.raises(TiltlensError, match=r"part-2\.csv"):
        streamed(pattern)


COMMAND = "from tiltlens.cli import main; main()"
OPTIONS = ["--group", "group", "--reference", "B", "--scores", "score", "--membership", "chance"]


def test_the_command_line_takes_patterns_and_many_files(parts, tmp_path):
    pattern, folder = parts
    out = tmp_path / "audit.json"
    features = [f"--features={','.join(PEOPLE['features'])}"]
    for files in ([pattern], sorted(map(str, folder.glob("*.parquet"))), [str(folder)]):
        command = [sys.executable, "-c", COMMAND, "audit", *files, *OPTIONS, *features, "--json", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "400 rows read, 400 used" in done.stdout
        out.unlink()


INTERRUPTED = """
import sys
from tiltlens.engines import batches
from tiltlens.streams import sources
batches.BATCH_ROWS, sources.STREAMED_ROWS = 10, 10
from tiltlens.cli import main
print("started", file=sys.stderr, flush=True)
main()
"""


def test_ctrl_c_ends_cleanly_and_leaves_nothing(tmp_path):
    pattern = in_files(pl.concat([classed()] * 50), tmp_path, "parquet")
    out = tmp_path / "audit.json"
    command = [sys.executable, "-c", INTERRUPTED, "audit", pattern, *OPTIONS, "--json", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline().strip() == "started"
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert stderr.strip() == "Error: interrupted; nothing was written."
    assert not out.exists()
