"""`tiltlens rule`, run as a user runs it."""

import json

import polars as pl
import pytest
from tests.command import invoked, tiltlens
from tests.rules.hiring import HAND, NEVER


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rule")
    data = HAND.with_columns(score=pl.int_range(0, HAND.height) * 37 % 101)
    data.write_csv(path / "people.csv")
    data.write_parquet(path / "people.parquet")
    hostile = data.with_columns(pl.col("sex").replace("F", "[red]\x1b[31mF"))
    hostile.write_parquet(path / "hostile.parquet")
    return path


def rule(folder, *arguments, data="people.parquet", name="four-fifths", run=invoked):
    return run("rule", data, "--rule", name, "--group", "sex", "--group", "race", *arguments, cwd=folder)


def test_the_tables_are_printed_with_their_source_and_what_they_do_not_decide(folder):
    result = rule(folder, "--selected", "selected", run=tiltlens)
    assert (result.returncode, result.stderr) == (0, "")
    for part in ("29 CFR 1607.4(D)", "1978", "By sex & race", "below the threshold of 0.80", "do not decide whether"):
        assert part in " ".join(result.stdout.split())
    assert "unknown group (excluded): 0." in result.stdout
    assert not [word for word in (*NEVER, "\x1b") if word in result.stdout.lower()]


def test_status_and_tests_are_printed_beside_the_citation(folder):
    text = " ".join(rule(folder, "--selected", "selected", "--strata", "score").stdout.split())
    for part in (
        "Status of the rule As of 5 July 2026, the EEOC plans to rescind it",
        "RIN 3046-AB43",
        "Fisher's",
        "CMH",
        "odds",
        "flips,",
    ):
        assert part in text
    assert "strata were left" in text
    text = " ".join(rule(folder, "--selected", "selected", name="nyc-local-law-144").stdout.split())
    assert "2 December 2025, in force" in text
    assert "CMH" not in text


def test_csv_and_parquet_give_the_same_json_and_nothing_else(folder):
    found = []
    for data in ("people.csv", "people.parquet"):
        arguments = ("--scores", "score", "--ratio-threshold", "0.8", "--provenance", "window=2024", "--json", "-")
        result = rule(folder, *arguments, data=data, name="nyc-local-law-144")
        assert (result.returncode, result.stderr) == (0, "")
        found.append(json.loads(result.stdout))
    assert found[0]["tables"] == found[1]["tables"]
    assert found[0]["provenance"]["stated"] == {"window": "2024"}
    assert (found[0]["rate"], found[0]["smallest_share"], found[0]["threshold"]) == ("scoring", 0.02, 0.8)


def test_a_file_of_json_leaves_the_text_on_the_terminal(folder, tmp_path):
    target = tmp_path / "tables.json"
    result = rule(folder, "--selected", "selected", "--json", str(target))
    assert "By sex" in result.stdout
    assert [table["name"] for table in json.loads(target.read_text())["tables"]] == ["sex", "race", "sex & race"]
    assert [file.name for file in tmp_path.iterdir()] == ["tables.json"]


@pytest.mark.parametrize(
    ("arguments", "name", "message"),
    [
        (("--selected", "selected"), "gdpr", "four-fifths', 'nyc-local-law-144'"),
        ((), "four-fifths", "--selected"),
        (("--scores", "score"), "four-fifths", "--selected"),
        (("--selected", "score"), "four-fifths", "--selected must be 0 or 1, got 37 in row 1"),
        (("--selected", "selectd"), "four-fifths", "Did you mean 'selected'?"),
        (
            ("--selected", "selected", "--ratio-threshold", "80"),
            "four-fifths",
            "must be a number above 0 and at most 1",
        ),
        (("--selected", "selected", "--provenance", "x"), "four-fifths", "--provenance takes NAME=TEXT"),
    ],
)
def test_mistakes_are_one_clear_line_exit_with_2_and_leave_no_file(folder, tmp_path, arguments, name, message):
    target = tmp_path / "tables.json"
    result = rule(folder, *arguments, "--json", str(target), name=name)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert not target.exists()


def test_names_from_data_are_neither_markup_nor_control_characters(folder):
    result = rule(folder, "--selected", "selected", data="hostile.parquet")
    assert "\x1b" not in result.stdout
    assert "[red]" in result.stdout
