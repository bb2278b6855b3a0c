"""The command line, run as a user runs it."""

import json
import os
import subprocess
import sys

import click
import pytest
from tests.command import invoked, tiltlens

from tiltlens._cli import _with_options, main
from tiltlens.errors import TiltlensError


def test_demo_prints_question_numbers_table_and_caveats():
    result = tiltlens("demo")
    assert result.returncode == 0
    assert result.stderr == ""
    for part in ("54.3%", "43.8%", "0.0222", "0.62449", "Misdemeanor", "PriorCounts", "not a finding"):
        assert part in result.stdout
    for word in ("fair ", "unfair", "compliant", "minority", "majority", "\x1b"):
        assert word not in result.stdout


def test_demo_json_to_standard_output_is_all_there_is(tmp_path):
    result = invoked("demo", "--json", "-", cwd=tmp_path)
    summary = json.loads(result.stdout)
    c = summary["comparisons"]["African-American"]
    assert c["outputs"]["means"].keys() == {"audited", "reference"}
    assert c["correction"]["output_divergence"].keys() == {"value", "low", "high"}
    assert c["correction"]["numbers"].keys() >= {"rho_m", "a1", "a2", "b1", "n_l", "n_m", "descent_rate"}
    assert c["contributions"][0]["feature"] == "PriorCounts"
    assert c["correction"]["prototypes"].keys() == {"max", "min", "near_zero"}
    for prototype in c["correction"]["prototypes"].values():
        assert prototype.keys() >= {"values", "count"}
    assert result.stderr == ""


def test_demo_json_to_a_file_leaves_the_text_on_the_terminal(tmp_path):
    result = invoked("demo", "--json", "out.json", cwd=tmp_path)
    assert "PriorCounts" in result.stdout
    assert json.loads((tmp_path / "out.json").read_text())["rows"]["used"] == 5278
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_a_file_that_cannot_be_written_is_one_clear_error_and_nothing_is_lost(tmp_path):
    result = invoked("demo", "--json", tmp_path / "nowhere" / "out.json", cwd=tmp_path)
    assert result.returncode == 2
    assert "cannot be written because the folder" in result.stderr
    assert "nowhere" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("demo", "--nonsense"), ("dance",)])
def test_unknown_arguments_exit_with_2_and_no_traceback(arguments):
    result = tiltlens(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "options",
    [("--report", "a.html", "--report", "a.pdf"), ("--folds", "0", "--folds=5"), ("--favorable", "low") * 2],
)
def test_an_option_of_one_value_that_is_given_twice_is_refused(options, tmp_path):
    result = invoked("audit", "people.csv", "--group", "sex", "--scores", "score", *options, cwd=tmp_path)
    assert result.returncode == 2
    assert "was given 2 times. Give it once." in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("python", "line"),
    [
        ("pass folds=None (--folds 0).", "Pass --folds 0."),
        ("leave it out with `exclude` (--exclude).", "Leave it out with --exclude."),
        ("use tl.read(path, decimal=',') (--decimal ',').", "Use --decimal ','."),
        ("pass `encoding` to tl.read (--encoding).", "Pass --encoding."),
        ('pass score_type="amount" (--score-type amount).', "Pass --score-type amount."),
        ("pass threshold=0.5, or `exempt`.", "Pass --threshold 0.5, or --exempt."),
    ],
)
def test_a_message_names_an_option_once(python, line):
    ctx = click.Context(main)
    ctx.invoked_subcommand = "audit"
    assert _with_options(TiltlensError("Wrong.", python), ctx) == f"Wrong. {line}"


def test_version_and_help():
    assert tiltlens("--version").stdout.startswith("tiltlens, version ")
    assert "gaps between groups" in tiltlens("--help").stdout


def test_help_waits_for_nothing_heavy():
    heavy = "{'numpy', 'polars', 'rich', 'scipy', 'sklearn'} & set(sys.modules)"
    code = f"import sys; from tiltlens._cli import main; main(['--help'], standalone_mode=False); assert not {heavy}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_an_audit_of_scores_alone_waits_for_no_library_that_it_does_not_use():
    code = (
        "import sys, tiltlens as tl; tl.audit({'g': ['a', 'b'] * 50, 's': [0.2, 0.4, 0.6, 0.9] * 25}, 'g', scores='s');"
        "assert not {'sklearn', 'scipy.stats', 'scipy.optimize', 'scipy.interpolate', 'pandas'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_an_old_terminal_gets_question_marks_instead_of_a_traceback(tmp_path):
    rows = [f"{('Süd', 'Ost')[row % 2]},{row % 2}" for row in range(60)]
    (tmp_path / "people.csv").write_text("\n".join(["town,score", *rows]), encoding="utf-8")
    environment = {"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"]}
    environment |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    result = tiltlens("audit", "people.csv", "--group", "town", "--scores", "score", cwd=tmp_path, env=environment)
    assert result.returncode == 0
    assert "S?d" in result.stdout


@pytest.mark.parametrize("moment", ["make_context", "invoke"])
def test_an_interruption_says_so_from_the_first_moment_on(worded, moment, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(click.Command, moment, interrupted)
    result = invoked("demo", cwd=tmp_path)
    assert result.returncode == 130
    worded(result.stderr.strip())


def test_every_option_says_what_it_is_and_no_command_is_cut_short():
    for command in main.commands.values():
        assert "..." not in command.get_short_help_str(60)
        for option in command.params:
            assert isinstance(option, click.Argument) or option.help, (command.name, option.name)
