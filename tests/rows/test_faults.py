"""What can go wrong while a table is read, and what is said then."""

import os
import re
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from tests.command import MAIN, invoked
from tests.people import FEATURES, assert_same_numbers, classed, in_files

import tiltlens as tl
from tiltlens.errors import TiltlensError

PEOPLE = {"group": "group", "reference": "B", "scores": "score", "features": FEATURES, "propensity": "chance"}


def audit(data, **changed):
    return tl.audit(data, **PEOPLE | changed)


@pytest.fixture(scope="module")
def expected():
    return audit(classed())


@pytest.fixture
def parts(tmp_path):
    return in_files(classed(), tmp_path, "parquet"), tmp_path


@pytest.mark.parametrize("damage", ["the footer", "the data", "all but the start"])
def test_a_corrupt_part_is_named(refused, parts, damage):
    pattern, folder = parts
    content = bytearray((folder / "part-1.parquet").read_bytes())
    if damage == "all but the start":
        del content[len(content) // 2 :]
    else:
        cut = slice(-8, None) if damage == "the footer" else slice(4, len(content) // 2)
        content[cut] = np.random.default_rng(0).bytes(len(content[cut]))
    (folder / "part-1.parquet").write_bytes(content)
    with refused(TiltlensError, "part-1.parquet'"):
        audit(pattern)


def test_a_part_without_a_column_is_named(refused, parts):
    pattern, folder = parts
    pl.read_parquet(folder / "part-2.parquet").drop("city").write_parquet(folder / "part-2.parquet")
    with refused(TiltlensError, "'city'"):
        audit(pattern)


def test_a_part_with_another_kind_of_column_is_named(refused, parts):
    pattern, folder = parts
    pl.read_parquet(folder / "part-2.parquet").cast({"income": pl.String}).write_parquet(folder / "part-2.parquet")
    with refused(TiltlensError, "'income'"):
        audit(pattern)


def test_a_part_that_vanishes_between_two_passes_is_named(refused, parts):
    pattern, folder = parts
    told = []

    def progress(name, _):
        told.append(name)
        if name == "summing all rows":
            (folder / "part-1.parquet").unlink(missing_ok=True)

    pl.concat([classed()] * 4).write_parquet(folder / "part-0.parquet")
    with refused(TiltlensError, "part-1.parquet' cannot be"):
        audit(pattern, sample_rows=1_000, progress=progress)
    assert "summing all rows" in told


def test_a_part_without_a_usable_row_is_no_matter(parts, expected):
    pattern, folder = parts
    extra = pl.read_parquet(folder / "part-0.parquet").with_columns(score=pl.lit(float("nan")))
    extra.write_parquet(folder / "part-3.parquet")
    extra.clear().write_parquet(folder / "part-4.parquet")
    found = audit(pattern)
    assert found.rows["missing_score"] == extra.height
    assert_same_numbers(found["A"].to_dict(), expected["A"].to_dict())


def test_rows_of_unknown_group_are_counted(small_batches):
    frame = classed().with_columns(group=pl.when(pl.int_range(pl.len()) % 7 > 0).then("group"))
    found, plain = audit(frame), audit(frame.filter(pl.col("group").is_not_null()))
    assert found.rows["missing_group"] == 58
    assert_same_numbers(found["A"].to_dict(), plain["A"].to_dict())


def changed(**columns):
    return lambda frame: frame.with_columns(**columns)


RICH = pl.col("income") > 60
MANY = classed().filter(RICH).height
BAD = {
    "infinite feature": (
        {"data": changed(income=pl.when(RICH).then(np.inf).otherwise("income"))},
        f"Column 'income' has infinite values in {MANY} rows.",
    ),
    "membership of 1": (
        {"data": changed(chance=pl.when(RICH).then(1.0).otherwise("chance"))},
        f"between 0 and 1. Rows outside: {MANY}.",
    ),
    "missing membership": (
        {"data": changed(chance=pl.when(RICH).then("chance"))},
        f"between 0 and 1. Rows outside: {400 - MANY}.",
    ),
    "scores beyond 1": (
        {"data": changed(score=pl.when(pl.int_range(pl.len()) == 301).then(1.5).otherwise("score"))},
        "`scores` must give scores between 0 and 1, got 1.5 in row 301.",
    ),
    "an infinite score": (
        {"data": changed(score=pl.when(pl.int_range(pl.len()) == 301).then(np.inf).otherwise("score"))},
        "`scores` must give finite scores, got inf in row 301.",
    ),
    "negative weights": (
        {
            "data": changed(weight=pl.when(pl.int_range(pl.len()) == 301).then(-1).otherwise("weight")),
            "sample_weight": "weight",
        },
        "`sample_weight` must be finite and not negative, got -1 in row 301.",
    ),
    "weights of other worlds": (
        {"data": changed(weight=10.0 ** (pl.int_range(pl.len()) % 11)), "sample_weight": "weight"},
        "`sample_weight` must not differ by more than a factor of 1e+09, got 1 and 1e+10",
    ),
    "classes that do not sum to 1": (
        {
            "data": changed(none=pl.when(pl.int_range(pl.len()) == 301).then(0.9).otherwise("none")),
            "scores": ["none", "some", "all"],
            "favourable": "all",
        },
        "in row 301.",
    ),
    "no scores": ({"scores": None}, "Exactly one of `scores` and `model` is required, got neither"),
    "unknown column": ({"features": ["incomes"]}, "Column 'incomes' not found"),
    "unknown value": ({"where": {"city": "West"}}, "No row has 'West' in column 'city' (`where`)"),
    "unknown group": ({"reference": "C"}, "Group 'C' not found (`reference`)"),
    "several groups": (
        {"group": "city", "reference": "East"},
        "`propensity` gives values for one audited group",
    ),
    "no rows": ({"data": lambda frame: frame.clear()}, "`data` has no rows"),
    "no scores known": (
        {"data": changed(score=pl.lit(None, pl.Float64))},
        "`scores` is missing in all rows.",
    ),
    "columns that differ by case": (
        {"data": changed(City=pl.lit(1))},
        "letter case only: 'city', 'City'",
    ),
    "separated groups": (
        {"data": changed(chance=pl.when(group="A").then(0.9).otherwise(0.1))},
        "separate the two groups completely",
    ),
}
HOLDERS = {"in memory": lambda frame, _: frame, "lazy": lambda frame, _: frame.lazy(), "files": in_files}


@pytest.mark.parametrize("name", list(BAD))
@pytest.mark.parametrize("holder", list(HOLDERS))
def test_a_mistake_is_named_with_its_row_whoever_holds_it(name, holder, small_batches, tmp_path):
    options, message = BAD[name]
    frame = options.get("data", lambda frame: frame)(classed())
    data = in_files(frame, tmp_path, "parquet") if holder == "files" else HOLDERS[holder](frame, tmp_path)
    with pytest.raises(TiltlensError) as caught:
        audit(data, **{key: value for key, value in options.items() if key != "data"})
    assert message in str(caught.value)
    assert "\nHint: " in str(caught.value)


@pytest.mark.parametrize("argument", ["propensity", "sample_weight", "group", "scores"])
@pytest.mark.parametrize("holder", ["lazy", "files"])
def test_arrays_beside_what_is_read_in_batches_are_refused(argument, holder, tmp_path):
    data = in_files(classed(), tmp_path, "parquet") if holder == "files" else classed().lazy()
    told = rf"`{argument}` must be the name of a column of data that is read in batches, got .*\nHint: put "
    with pytest.raises(TiltlensError, match=told):
        audit(data, **{argument: np.full(400, 0.5)})


def test_a_query_that_fails_late_is_told_in_our_words(refused, small_batches):
    late = (
        classed()
        .lazy()
        .with_columns(
            pl.when(pl.int_range(pl.len()) == 399)
            .then(pl.lit("x"))
            .otherwise(pl.lit("1"))
            .cast(pl.Int64)
            .alias("income")
        )
    )
    with refused(TiltlensError, "`data`"):
        audit(late)


OPTIONS = ["--group", "group", "--reference", "B", "--scores", "score", "--propensity", "chance"]
OPTIONS += ["--features", ",".join(FEATURES)]


def test_the_command_line_takes_patterns_many_files_and_folders(parts, tmp_path):
    pattern, folder = parts
    for files in ([pattern], sorted(map(str, folder.glob("*.parquet"))), [str(folder)]):
        done = invoked("audit", *files, *OPTIONS, "--folds", "0", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "All 400 rows" in done.stdout


STARTED = """
import sys
from tiltlens import _cli as cli

found = cli.Commands.get_command
cli.Commands.get_command = lambda *args: print("started", file=sys.stderr, flush=True) or found(*args)
"""
BY_TENS = "from tiltlens._sources import tables; tables.BATCH_ROWS = 10"


@pytest.mark.parametrize(
    ("seconds", "script"),
    [(0.0, STARTED), (2.0, BY_TENS + STARTED)],
    ids=["at once", "amid many batches"],
)
def test_ctrl_c_ends_cleanly_and_leaves_nothing(tmp_path, seconds, script):
    pattern = in_files(pl.concat([classed()] * 100), tmp_path, "parquet")
    out = tmp_path / "audit.json"
    command = [sys.executable, "-c", script + "cli.main()", "audit", pattern, *OPTIONS, "--json", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline().strip() == "started"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert re.fullmatch(r"\n?Error: interrupted; [^\n]*\n", stderr)  # click ends the line of ^C
    assert not out.exists()


def with_small_files(limit=2_000):
    """Let this process write files of so many bytes at most, as a full disk would."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_a_full_disk_is_one_clear_line_and_leaves_nothing(parts, option):
    pattern, folder = parts
    out = folder / "result"
    out.mkdir()
    asked = ["--group", "group", "--scores", "score", "--features", ""]
    command = [sys.executable, "-c", MAIN, "audit", pattern, *asked, option, str(out / "audit.html")]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=with_small_files, env=environment)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert "File too large" in done.stderr
    assert list(out.iterdir()) == []
