"""`tiltlens audit`, run as a user runs it: files in, text, JSON and exit codes out."""

import json
import re
import sys

import polars as pl
import pytest
from tests.command import invoked, tiltlens
from tests.wording import code_of

from tiltlens._learners.candidates import outcome_scores
from tiltlens.datasets import COMPAS_FEATURES, load_compas

FEATURES = ",".join(COMPAS_FEATURES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """COMPAS as a user may hold it: labels, an outcome and a column of scores, as CSV and Parquet."""
    path = tmp_path_factory.mktemp("audit")
    data = load_compas()
    scores = outcome_scores(data, COMPAS_FEATURES, "is_recid")
    table = data.select("race", *COMPAS_FEATURES, "is_recid").with_columns(score=pl.Series(scores))
    table.write_csv(path / "compas.csv")
    table.write_parquet(path / "compas.parquet")
    return path


def audit(folder, *arguments, data="compas.parquet", features=FEATURES, run=invoked):
    common = ("--group", "race", "--features", features, "--favourable", "low")
    return run("audit", data, *common, *arguments, cwd=folder)


def test_audit_prints_groups_estimates_and_verdicts(folder):
    result = audit(folder, "--scores", "score", "--reference", "Caucasian", run=tiltlens)
    assert result.returncode == 0, result.stderr
    for part in (
        "5,278 rows were used",
        "African-American (3,175, audited)",
        "impact ratio",
        "PriorCounts",
        "potential proxy",
    ):
        assert part in result.stdout
    for word in ("unfair", "compliant", "\x1b"):
        assert word not in result.stdout
    assert result.stderr == ""


def test_plug_in_audit_of_an_outcome_gives_the_papers_numbers(folder):
    plug_in = ("--outcome", "is_recid", "--reference", "Caucasian", "--folds", "0", "--json", "-")
    result = audit(folder, *plug_in)
    c = json.loads(result.stdout)["comparisons"]["African-American"]
    assert c["correction"]["descent_rate"] == {"value": pytest.approx(-0.62449, abs=5e-6), "low": None, "high": None}
    assert c["outputs"]["means"]["audited"] == pytest.approx(0.54342, abs=5e-6)


def test_amounts_are_audited_in_units(folder):
    asked = ("--scores", "days", "--exclude", "score", "--folds", "0", "--json", "-")
    frame = pl.read_parquet(folder / "compas.parquet").with_columns(days=100.0 * pl.col("score"))
    frame.write_parquet(folder / "days.parquet")
    result = audit(folder, *asked, "--score-type", "amount", data="days.parquet")
    found = json.loads(result.stdout)
    mean = dict(frame.group_by("race").agg(pl.col("days").mean()).rows())
    c = found["comparisons"]["Caucasian"]
    assert (found["score_type"], found["settings"]["materiality"]) == ("amount", 0.02)
    assert c["gap"]["value"] == pytest.approx(mean["Caucasian"] - mean["African-American"], rel=1e-9)
    gated = audit(
        folder, *asked, "--score-type", "amount", "--fail-if", "adverse_impact_ratio<0.8", data="days.parquet"
    )
    assert (gated.returncode, "impact_ratio, the" in gated.stderr) == (2, True)
    mistaken = audit(folder, *asked, data="days.parquet")
    assert (mistaken.returncode, "look like percentages" in mistaken.stderr) == (2, True)


def test_csv_and_parquet_give_the_same_gap(folder):
    gaps = []
    for data in ("compas.csv", "compas.parquet"):
        result = audit(
            folder, "--scores", "score", "--reference", "Caucasian", "--folds", "0", "--json", "-", data=data
        )
        gaps.append(json.loads(result.stdout)["comparisons"]["African-American"]["gap"]["value"])
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--json", "nowhere/a.json"), "cannot be written because the folder 'nowhere' does not exist."),
        (("--report", "nowhere/a.html"), "cannot be written because the folder 'nowhere' does not exist."),
        (("--report", "."), "must have a name"),
        (("--report", "/proc/a.html"), "cannot be written"),
        (("--report", "a.txt"), "HTML or PDF file"),
        (("--report", "-"), "--report must name a file, got '-'"),
        (("--tables", "-"), "--tables must name a file or folder, got '-'"),
        (("--tables", ""), "--tables must name a file or folder, got ''"),
        (("--json", ""), "--json must name a file, got ''"),
    ],
)
def test_a_file_that_cannot_be_written_is_found_out_before_the_audit(folder, options, message, monkeypatch):
    monkeypatch.setattr("tiltlens._commands.audit.audit_files", lambda *_, **__: pytest.fail("the audit ran"))
    result = audit(folder, "--scores", "score", *options)
    assert result.returncode == 2
    assert message in result.stderr


@pytest.mark.parametrize("package", ["altair", "vl_convert", "jinja2"])
def test_a_report_without_its_packages_is_found_out_before_the_audit(folder, package, monkeypatch):
    monkeypatch.setattr("tiltlens._commands.audit.audit_files", lambda *_, **__: pytest.fail("the audit ran"))
    monkeypatch.setitem(sys.modules, package, None)
    result = audit(folder, "--scores", "score", "--report", "a.html")
    assert result.returncode == 2
    assert "pip install altair" in result.stderr
    assert not (folder / "a.html").exists()


@pytest.mark.parametrize(
    ("condition", "code", "features"),
    [
        ("impact_ratio<0.82", 1, ""),
        ("impact_ratio.high<0.82", 0, ""),
        ("gap>0.2", 0, ""),
        ("gap.low>=0.09", 1, ""),
        ("potential_proxies>2", 1, FEATURES),
    ],
)
def test_gates_decide_the_exit_code(folder, condition, code, features):
    asked = ("--scores", "score", "--reference", "Caucasian", "--fail-if", condition)
    result = audit(folder, *asked, features=features)
    assert result.returncode == code
    assert ("Gate failed: " in result.stderr) == (code == 1)


@pytest.mark.parametrize(
    ("condition", "code", "features"),
    [
        ("adverse_impact_ratio<0.8", 1, ""),
        ("adverse_impact_ratio.high<0.5", 0, ""),
        ("adverse_impact_ratio>1", 0, ""),
        ("undecided>9", 0, FEATURES),
        ("not_judged>=0", 1, FEATURES),
    ],
)
def test_gates_on_decisions_and_counts_of_verdicts(folder, condition, code, features):
    cut = ("--scores", "score", "--reference", "Caucasian", "--threshold", "0.5")
    result = audit(folder, *cut, "--fail-if", condition, features=features)
    assert result.returncode == code, result.stderr
    assert ("Gate failed: " in result.stderr) == (code == 1)


def test_the_adverse_impact_ratio_of_scores_is_a_mistake_that_leaves_nothing(folder, tmp_path):
    target = tmp_path / "out.json"
    asked = ("--fail-if", "adverse_impact_ratio<0.8", "--json", str(target))
    result = audit(folder, "--scores", "score", "--reference", "Caucasian", "--folds", "0", *asked)
    assert (result.returncode, result.stdout) == (2, "")
    assert "needs decisions" in result.stderr
    assert "--threshold" in result.stderr
    assert not target.exists()


def test_excluded_columns_and_rows_of_the_sample_are_taken(folder):
    common = ("--group", "race", "--scores", "score", "--reference", "Caucasian", "--favourable", "low")
    excluded = ("--exclude", "is_recid", "--exclude", "Sex", "--sample-rows", "1000", "--json", "-")
    result = invoked("audit", "compas.parquet", *common, *excluded, cwd=folder)
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    c = summary["comparisons"]["African-American"]
    assert {row["feature"] for row in c["contributions"]} == set(COMPAS_FEATURES) - {"Sex"}
    assert summary["settings"]["sample_rows"] == 1000
    assert "sampled" in [code_of(note) for note in c["checks"]["notes"]]
    assert c["gap"]["value"] == pytest.approx(0.54342 - 0.43825, abs=1e-5)


def test_a_gate_on_something_undefined_fires(folder):
    plug_in = ("--scores", "score", "--reference", "Caucasian", "--folds", "0")
    result = audit(folder, *plug_in, "--fail-if", "gap.low<0")
    assert result.returncode == 1
    assert "cannot pass" in result.stderr


@pytest.fixture(scope="module")
def with_small_groups(tmp_path_factory):
    """Two groups of sixty beside two of which nothing can be said."""
    path = tmp_path_factory.mktemp("small")
    names = ["north"] * 60 + ["south"] * 60 + ["isle"] * 3 + ["reef"] * 2
    table = {"group": names, "city": (["x", "y", "z"] * 42)[:125], "score": ([0.2, 0.4, 0.6, 0.5] * 32)[:125]}
    pl.DataFrame(table).write_parquet(path / "small.parquet")
    return path


@pytest.mark.parametrize(
    ("conditions", "code", "said"),
    [
        (["gap>0.9"], 0, ["Gate: gap>0.9: not evaluated for isle, reef, too small to be compared."]),
        (["too_small>0"], 1, ["Gate failed: too_small>0: too_small is 2 (isle, reef)."]),
        (["too_small>2"], 0, []),
        (["too_small>=1", "gap<0.9"], 1, ["too_small is 2", "gap<0.9: gap of", "gap<0.9: not evaluated for isle"]),
        ([], 0, []),
    ],
)
def test_groups_too_small_to_compare_do_not_pass_a_gate_in_silence(with_small_groups, conditions, code, said):
    arguments = [part for condition in conditions for part in ("--fail-if", condition)]
    common = ("--group", "group", "--scores", "score", "--folds", "0", *arguments)
    result = invoked("audit", "small.parquet", *common, cwd=with_small_groups)
    assert result.returncode == code, result.stderr
    assert all(sentence in result.stderr for sentence in said)
    assert result.stderr.count("\n") == len(said)


def test_no_group_too_small_is_no_reason_to_fail(folder):
    plug_in = ("--scores", "score", "--reference", "Caucasian", "--folds", "0")
    result = audit(folder, *plug_in, "--fail-if", "too_small>0", "--fail-if", "gap>0.9")
    assert (result.returncode, result.stderr) == (0, "")
    fired = audit(folder, *plug_in, "--fail-if", "too_small<1")
    assert (fired.returncode, fired.stderr) == (1, "Gate failed: too_small<1: too_small is 0.\n")


def test_given_conditions_on_the_outcome(folder):
    result = audit(folder, "--scores", "score", "--where", "is_recid=1", "--folds", "0", "--json", "-")
    summary = json.loads(result.stdout)
    assert summary["rows"]["used"] == load_compas()["is_recid"].sum()
    assert summary["rows"]["not_given_is_recid"] == 5278 - summary["rows"]["used"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scores", "scor"), "not found (--scores). Did you mean 'score'?"),
        (("--outcome", "is_recidd"), "Did you mean 'is_recid'?"),
        (("--outcome", "Age"), "--outcome must have exactly two values, got 3"),
        ((), "Nothing to audit. Add --scores COLUMN"),
        (("--scores", "score", "--model", "m.onnx"), "--scores score and --model m.onnx cannot be combined"),
        (("--scores", "score", "--trusted", "a.B"), "--trusted needs --model"),
        (("--model", "m.onnx"), "File not found: 'm.onnx'"),
        (("--scores", "score", "--reference", "Martian"), "--reference"),
        (("--scores", "score", "--fail-if", "fairness<1"), "is not a gate: write QUANTITY<NUMBER"),
        (("--scores", "score", "--fail-if", "gap<much"), "a number, got 'much'"),
        (("--scores", "score", "--fail-if", "too_small.low>0"), "too_small is a count"),
        (("--scores", "score", "--where", "is_recid"), "--where takes COLUMN=VALUE"),
        (("--scores", "score", "--where", "is_recid=7"), "No row has '7' in column 'is_recid' (--where)"),
        (("--scores", "score", "--folds", "2"), "--folds must be 5 or None (on the command line 0), got 2"),
        (
            ("--scores", "score", "--confidence", "95"),
            "--confidence must be between 0 and 1, got 95. Did you mean 0.95",
        ),
    ],
)
def test_mistakes_are_one_clear_line_and_exit_with_2(folder, arguments, message):
    result = audit(folder, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_no_file_is_suggested_that_shares_the_ending_alone(tmp_path):
    """D13: "nofile.csv" was taken for "f.csv"."""
    for name in ("f.csv", "people.csv"):
        (tmp_path / name).write_text("race,score\na,0.5\n")
    for wanted, suggested in (("nofile.csv", ""), ("poeple.csv", "Did you mean 'people.csv'?")):
        result = invoked("audit", wanted, "--group", "race", "--scores", "score", cwd=tmp_path)
        assert result.returncode == 2
        assert suggested in result.stderr
        assert "f.csv'?" not in result.stderr


def test_files_that_are_not_what_they_seem(folder, tmp_path):
    (tmp_path / "broken.csv").write_text("race,score\na,0.5\nb,0.5,extra\n")
    (tmp_path / "fake.parquet").write_text("not parquet")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "notes.txt").write_text("race")
    for name in ("broken.csv", "fake.parquet", "empty.csv", "notes.txt", "nowhere.csv"):
        result = invoked("audit", name, "--group", "race", "--scores", "score", cwd=tmp_path)
        assert result.returncode == 2, name
        assert "Traceback" not in result.stderr
        assert name in result.stderr


def test_a_failed_audit_leaves_no_json(folder, tmp_path):
    target = tmp_path / "out.json"
    result = audit(folder, "--scores", "scor", "--json", str(target))
    assert result.returncode == 2
    assert not target.exists()


def test_gates_that_cannot_be_judged_do_not_pass(folder):
    plug_in = ("--scores", "score", "--reference", "Caucasian", "--folds", "0")
    assert audit(folder, *plug_in, "--fail-if", "potential_proxies>0").returncode == 1
    assert "got 'nan'" in audit(folder, *plug_in, "--fail-if", "gap<nan").stderr


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path):
    names = ["\x1b[31mred"] * 60 + ["plain"] * 60
    table = pl.DataFrame({"group": names, "city": ["<b>x</b>", "y"] * 60, "score": [0.2, 0.4, 0.6] * 40})
    table.write_parquet(tmp_path / "odd.parquet")
    result = invoked("audit", "odd.parquet", "--group", "group", "--scores", "score", "--folds", "0", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert "[31mred" in result.stdout


def test_na_names_texts_that_stand_for_missing_values_in_a_csv(worded, folder, tmp_path):
    table = pl.read_csv(folder / "compas.csv").with_columns(
        waited=pl.when(pl.int_range(pl.len()) % 50 == 0).then(pl.lit("unknown")).otherwise(pl.int_range(pl.len()) % 97)
    )
    table.write_csv(tmp_path / "data.csv")
    options = ("--group", "race", "--scores", "score", "--features", "Age,waited", "--folds", "0")
    said = invoked("audit", "data.csv", *options, cwd=tmp_path)
    worded(re.findall(r"Column waited [^;]*;", " ".join(said.stdout.split())))
    named = invoked("audit", "data.csv", *options, "--na-values", "unknown", cwd=tmp_path)
    assert named.returncode == 0
    assert "read as text" not in named.stdout
    refused = invoked("audit", "compas.parquet", *options[:4], "--na-values", "unknown", cwd=folder)
    assert refused.returncode == 2
    worded(refused.stderr)


@pytest.mark.parametrize("words", [("approved", "denied"), ("1", "2")])
def test_an_outcome_with_names_wants_to_know_the_favourable_one(folder, words):
    column = pl.when(pl.col("is_recid") == 0).then(pl.lit(words[0])).otherwise(pl.lit(words[1]))
    table = pl.read_parquet(folder / "compas.parquet").with_columns(decision=column)
    table.write_parquet(folder / "words.parquet")
    options = ("audit", "words.parquet", "--group", "race", "--reference", "Caucasian", "--features", FEATURES)
    options += ("--outcome", "decision", "--folds", "0", "--json", "-")
    refused = invoked(*options, cwd=folder)
    assert refused.returncode == 2
    assert f"The outcomes are '{words[0]}', '{words[1]}'" in refused.stderr
    found = json.loads(invoked(*options, "--favourable", words[0], cwd=folder).stdout)
    assert found["favourable"] == f"decision = {words[0]}"
    rate = found["comparisons"]["African-American"]["outputs"]["rates"]["audited"]["value"]
    assert rate == pytest.approx(1 - 0.54342, abs=5e-6)


def test_decisions_in_words_are_audited_by_the_favourable_one(folder):
    word = pl.when(pl.col("score") < 0.5).then(pl.lit("approved")).otherwise(pl.lit("denied"))
    pl.read_parquet(folder / "compas.parquet").with_columns(decision=word).write_csv(folder / "decided.csv")
    options = ("audit", "decided.csv", "--group", "race", "--features", FEATURES, "--scores", "decision")
    refused = invoked(*options, cwd=folder)
    assert refused.returncode == 2
    assert "--favourable 'approved'" in refused.stderr
    found = json.loads(invoked(*options, "--favourable", "approved", "--folds", "0", "--json", "-", cwd=folder).stdout)
    assert (found["favourable"], found["score_type"]) == ("approved", "decision")


def test_an_outcome_that_is_missing_is_set_aside(folder):
    rows = pl.read_parquet(folder / "compas.parquet").with_row_index()
    gap = pl.when(pl.col("index") >= 40).then("is_recid")
    rows.with_columns(is_recid=gap).drop("index").write_parquet(folder / "gaps.parquet")
    result = audit(folder, "--outcome", "is_recid", "--folds", "0", "--json", "-", data="gaps.parquet")
    assert json.loads(result.stdout)["rows"]["missing_score"] == 40


def test_messages_name_what_a_column_holds_and_the_options_that_help(worded, folder):
    rows = ["g,s,when,note", *(f"{'ab'[row % 2]},0.{row % 9 + 1},2024-01-{row % 28 + 1:02d},n/k" for row in range(60))]
    (folder / "kinds.csv").write_text("\n".join(rows))
    lines = []
    for options in (
        ("--sample-weight", "note"),
        ("--sample-weight", "when"),
        ("--categorical", "note"),
        ("--known-groups", "g"),
    ):
        result = invoked("audit", "kinds.csv", "--group", "g", "--scores", "s", "--features", "", *options, cwd=folder)
        assert result.returncode == 2
        lines.append(result.stderr.strip())
    worded(lines)
