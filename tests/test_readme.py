"""The numbers that the README shows are those the demo prints."""

import io
import re
import shlex
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console
from tests.command import invoked

from tiltlens._demo import paper_experiment, print_demo
from tiltlens.datasets import load_compas

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_readme_shows_what_the_demo_prints():
    console = Console(file=io.StringIO(), width=100)
    demo = paper_experiment()
    print_demo(demo, console)
    printed = [line.rstrip() for line in console.file.getvalue().splitlines()]
    shown = README.split("$ make demo\n")[1].split("```")[0].splitlines()
    assert len(shown) > 15
    assert [line for line in shown if line not in (*printed, "...")] == []


def test_the_command_of_the_readme_runs(tmp_path):
    load_compas().select("race", pl.col("is_recid").alias("score")).write_parquet(tmp_path / "data.parquet")
    line = re.search(r"^tiltlens (audit .*\\\n.*)$", README, re.MULTILINE)[1]
    done = invoked(*shlex.split(line.replace("\\\n", "")), cwd=tmp_path)
    assert done.returncode == 1, done.stderr  # the gate fires
    assert (tmp_path / "audit.html").exists()
    assert "adverse_impact_ratio<0.8" in done.stderr


@pytest.mark.parametrize("word", ["total share", "total_share", "tl.stream", "too little data", "tiltmeter"])
def test_retired_words_are_gone(word):
    assert word not in README
