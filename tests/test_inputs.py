"""No output replaces an input or another output: every kind of output over every kind of input."""

import os
import shutil
import sqlite3
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import polars as pl
import pytest
from tests.command import invoked

import tiltlens as tl

ASKED = ("--group", "group", "--scores", "score", "--features", "")
FITTED = (*ASKED[:4], "--outcome", "paid")
ENDINGS = {"report": ".html", "tables": ".xlsx", "out": ".csv"}  # that options want
COMMANDS = {  # what is read, and which options write
    ("audit", "people.csv", *ASKED, "--fail-if", "gap>0.9"): ("people.csv", "json report junit tables"),
    ("audit", "people.csv", *ASKED[:2], "--model", "model.onnx"): ("people.csv model.onnx", "json report tables"),
    ("audit", "folder", *ASKED): ("folder/people.csv", "json report tables"),
    ("audit", "folder/**/p*.csv", *ASKED): ("folder/people.csv", "json"),
    ("audit", "sqlite:///people.db", "--query", "SELECT * FROM people", *ASKED): ("people.db", "json report tables"),
    ("compare", "old.json", "new.json", "--fail-if", "gap_change>0.9"): ("old.json new.json", "json report junit"),
    ("compare", "people.csv", *ASKED, "--scores", "other"): ("people.csv", "json report"),
    ("rule", "people.csv", "--rule", "four-fifths", "--group", "group", "--selected", "paid"): ("people.csv", "json"),
    ("alternatives", "people.csv", *FITTED): ("people.csv", "json report"),
    ("repair", "people.csv", *FITTED, "--use-group", "--held-out", "later.csv", "--apply", "next.csv"): (
        "people.csv later.csv next.csv",
        "out save json report",
    ),
    ("repair", "repair.json", *FITTED, "--held-out", "later.csv", "--apply", "next.csv"): (
        "repair.json later.csv next.csv",
        "out save json report",
    ),
}  # fmt: skip
CASES = [
    (line, name, option)
    for line, (names, options) in COMMANDS.items()
    for name in names.split()
    for option in options.split()
]
RUN = """
data: people.csv
group: group
scores: score
features: ""
gates: ["gap>0.9"]
outputs: {%s: %s}
"""


@cache
def inputs():
    """Return a folder with one input of each kind."""
    folder = Path(mkdtemp())
    random = np.random.default_rng(0)
    for name in ("people", "later", "next"):
        score = random.random(200)
        table = pl.DataFrame(
            {
                "group": ["A", "B"] * 100,
                "score": score,
                "other": random.random(200),
                "paid": (random.random(200) < score).astype(int),
            }
        )
        table.write_csv(folder / f"{name}.csv")
    (folder / "folder").mkdir()
    shutil.copy(folder / "people.csv", folder / "folder")
    (folder / "model.onnx").write_bytes(b"a model")
    with sqlite3.connect(folder / "people.db") as database:
        database.execute("CREATE TABLE people AS SELECT 'A' AS 'group', 0.5 AS score")
    database.close()
    for name, data in (("old", "people"), ("new", "later")):
        tl.audit(folder / f"{data}.csv", "group", reference="B", scores="score", features=[]).to_json(
            folder / f"{name}.json"
        )
    tl.audit(folder / "people.csv", "group", reference="B", scores="score", features=[]).repair(use_group=True).to_json(
        folder / "repair.json"
    )
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tiltlens.errors.READ", {})  # as in a new process
    shutil.copytree(inputs(), tmp_path / "work")
    return tmp_path / "work"


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def ways_to(folder, name, ending):
    """Return names of a file: its own, by a detour, through a link to its folder, a soft and a hard link."""
    outside = folder.parent
    if name.endswith(ending):
        (outside / "door").symlink_to(folder)
        yield from (name, f"../{folder.name}/{name}", str(outside / "door" / name))
    for kind, link in (("soft", os.symlink), ("hard", os.link)):
        link(folder / name, outside / f"{kind}{ending}")
        yield str(outside / f"{kind}{ending}")


@pytest.mark.parametrize(("line", "name", "option"), CASES, ids=lambda one: one if isinstance(one, str) else one[0])
def test_no_command_writes_over_what_it_reads(line, name, option, folder):
    before = contents(folder)
    others = () if "--apply" not in line or option == "out" else ("--out", "repaired.csv")
    for path in ways_to(folder, name, ENDINGS.get(option, "")):
        done = invoked(*line, f"--{option}", path, *others, cwd=folder)
        assert done.returncode == 2, done
        assert f"--{option} cannot be written to {path!r}" in done.stderr
        assert contents(folder) == before


@pytest.mark.parametrize("name", ["people.csv", "audit.yaml"])
@pytest.mark.parametrize("option", ["json", "report", "junit", "tables"])
def test_no_audit_file_writes_over_what_it_reads(name, option, folder):
    ending = ENDINGS.get(option, "")
    asked = folder / "audit.yaml"
    asked.touch()
    for way in list(ways_to(folder, name, ending)):
        asked.write_text(RUN % (option, way))
        before = contents(folder)
        done = invoked("run", "audit.yaml", cwd=folder)
        assert done.returncode == 2, done
        assert f"`outputs.{option}` in 'audit.yaml'" in done.stderr
        assert contents(folder) == before


@pytest.mark.parametrize(
    "outputs",
    [
        ("--json", "a.html", "--report", "./a.html"),
        ("--json", "a.xml", "--junit", "A.xml"),
        ("--json", "caf\u00e9", "--junit", "cafe\u0301"),
        ("--tables", "tables", "--json", "tables/rates.md"),
        ("--tables", "a.md", "--junit", "a.md"),
    ],
)
def test_no_output_replaces_another(outputs, folder):
    before = contents(folder)
    (folder / "tables").mkdir()
    done = invoked("audit", "people.csv", *ASKED, "--fail-if", "gap>0.9", *outputs, cwd=folder)
    assert done.returncode == 2, done
    assert "is written there" in done.stderr
    assert contents(folder) == before


def test_nothing_is_written_where_the_next_run_would_read_it(folder):
    for data, outputs in (
        ("folder", ("--tables", "folder")),
        ("folder", ("--json", "folder/deep/new.jsonl")),
        ("folder/*.csv", ("--json", "folder/new.csv")),
        ("./folder/**", ("--json", "folder/new.csv")),
    ):
        (folder / "folder" / "deep").mkdir(exist_ok=True)
        done = invoked("audit", data, *ASKED, *outputs, cwd=folder)
        assert "part of the input" in done.stderr, (data, outputs)
    for data, name in (("folder/*.csv", "folder/deep/new.csv"), ("folder", "folder/new.json")):
        assert invoked("audit", data, *ASKED, "--json", name, cwd=folder).returncode == 0, name
        (folder / name).unlink()


def test_pipes_and_the_screen_may_be_written_twice(folder):
    done = invoked(
        "audit", "people.csv", *ASKED, "--fail-if", "gap>0.9", "--json", "/dev/null", "--junit", "/dev/null", cwd=folder
    )
    assert done.returncode == 0, done


def results(folder):
    """Return everything in Python that writes a file, with the ending that it wants."""
    options = {"reference": "B", "scores": "score", "outcome": "paid"}
    audit = tl.audit(folder / "people.csv", "group", features=[], **options)
    saved = [tl.read_audit(folder / f"{name}.json") for name in ("old", "new")]
    tilt, change = tl.read_repair(folder / "repair.json"), tl.compare(*saved, paired=False)
    evaluation = tilt.evaluate(folder / "later.csv", "score", "group")
    found = tl.alternatives(folder / "people.csv", "group", features=["other"], **options)["A"]
    tables = tl.rule_tables(folder / "people.csv", "four-fifths", "group", selected="paid")
    for one in (audit, change, evaluation, found, tables):
        yield one.to_json, ""
        if one is not tables:
            yield one.report, ".html"
    yield audit.to_tables, ".xlsx"
    yield tilt.to_json, ""
    yield lambda path: tilt.apply(folder / "next.csv", "score", "group", path), ".csv"


def test_no_result_writes_over_what_was_read(refused, folder):
    writers = list(results(folder))
    before = contents(folder)
    for place, name in enumerate(("people.csv", "later.csv", "old.json", "new.json", "repair.json")):
        for write, ending in writers:
            kind = type(getattr(write, "__self__", None)).__name__
            if (kind, name) in (("Audit", "old.json"), ("Audit", "new.json"), ("ScoreTilt", "repair.json")):
                continue  # a newer result of the same kind may replace it
            path = folder.parent / f"{place}{kind}{write.__name__}{ending}"
            (os.symlink if place % 2 else os.link)(folder / name, path)
            with refused(tl.TiltlensError, "cannot be written"):
                write(path)
    assert contents(folder) == before


def test_apply_replaces_its_own_table_but_not_its_input(refused, folder, monkeypatch):
    monkeypatch.chdir(folder)
    tilt = tl.read_repair("repair.json")
    for _ in range(2):
        tilt.apply("next.csv", "score", "group", "repaired.csv")
        audit = tl.audit("repaired.csv", "group", scores="other", features=[])
    with refused(tl.TiltlensError, "'repaired.csv'"):
        tilt.apply("repaired.csv", "score", "group", "repaired.csv")
    with refused(tl.TiltlensError, "'repaired.csv'"):
        audit.to_json("repaired.csv")
    audit.to_json("audit.json")
    tl.read_audit("audit.json")
    audit.to_json("audit.json")  # of the same kind


def test_a_file_is_read_once(refused, folder, monkeypatch):
    monkeypatch.chdir(folder)
    os.link("people.csv", "again.csv")
    for files in (["people.csv", "people.csv"], ["people.csv", "../work/again.csv"], ["folder", "folder/people.csv"]):
        with refused(tl.TiltlensError, "are the same"):
            tl.audit(files, "group", scores="score", features=[])
