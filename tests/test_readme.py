"""The numbers that the README shows are those the demo prints."""

import re
import shlex
from pathlib import Path

import polars as pl
import pytest
from tests.command import invoked

from tiltlens.datasets import load_compas
from tiltlens.demo import paper_experiment

README = (Path(__file__).parent.parent / "README.md").read_text()


def banded(row, name):
    value, low, high = (100 * row[column] for column in (name, f"{name}_low", f"{name}_high"))
    return f"{value:+z.2f} [{low:+z.2f}, {high:+z.2f}]"


def test_the_readme_shows_what_the_demo_prints():
    summary = paper_experiment()["cross_fitted"]["comparisons"]["African-American"]
    shown = {}
    for line in README.splitlines():
        cells = [cell.strip() for cell in line.split("│")]
        if len(cells) == 5 and cells[1].startswith(("+", "-")):
            shown[cells[0]] = cells[1:]
    assert list(shown) == [row["feature"] for row in summary["proxies"]]
    for row in summary["proxies"]:
        *numbers, verdict = shown[row["feature"]]
        assert numbers == [banded(row, name) for name in ("gap", "joint", "gap_shapley")]
        assert verdict == row["verdict"]


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
