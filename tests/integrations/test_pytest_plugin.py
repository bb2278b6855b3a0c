"""The plugin of pytest, in a run of its own: gates that fail say why, and whoever does not use it notices nothing."""

import tomllib
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest

import tiltlens
from tiltlens._gates import assert_gate
from tiltlens._integrations import pytest_plugin

pytest_plugins = ["pytester"]
PROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"
PEOPLE = pl.DataFrame({"sex": ["women", "men"] * 60, "score": [0.2, 0.6] * 50 + [0.3, 0.5] * 10, "x": [1, 2, 3] * 40})

TESTS = """
import sys

def test_nothing_heavy_is_loaded_by_the_plugin():
    assert not {"numpy", "polars", "sklearn", "click", "tiltlens._pipeline"} & set(sys.modules)

def test_a_file_is_run_once(tiltlens_audit, assert_gate):
    audit = tiltlens_audit("checks/audit.toml")
    assert audit is tiltlens_audit("checks/../checks/audit.toml")
    assert_gate(audit, "gap>0", "too_small>0")
    audit.to_json("saved.json")
    assert tiltlens_audit("saved.json")["women"].gap == audit["women"].gap

def test_a_file_runs_its_gates(tiltlens_audit):
    tiltlens_audit("checks/audit_gated.toml")

def test_data_are_audited(tiltlens_audit, assert_gate):
    audit = tiltlens_audit("checks/people.csv", group="sex", scores="score", features=[], folds=None)
    assert_gate(audit, "gap<-0.05", "gap>0.9", "adjusted_gap>0.1")
"""


def test_gates_fail_with_a_sentence_and_others_are_left_alone(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    folder = pytester.mkdir("checks")
    PEOPLE.write_csv(folder / "people.csv")
    asked = 'data = "people.csv"\ngroup = "sex"\nscores = "score"\nfeatures = []\nfolds = 0\n'
    (folder / "audit.toml").write_text(asked)
    (folder / "audit_gated.toml").write_text(asked + 'gates = ["gap>0.5", "gap<-0.1"]')
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess("-p", pytest_plugin.__name__, "-p", "no:cacheprovider", "-W", "error")
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(
        [
            "*AssertionError: 1 gates fired (sex against men):",
            "*gap<-0.1: gap of women is −0.367",
            "*AssertionError: 2 gates fired (sex against men):",
            "*gap<-0.05: gap of women is −0.367",
            "*adjusted_gap>0.1: adjusted gap of women is not defined, so it cannot pass",
        ]
    )
    done.stdout.no_fnmatch_line("*gates.py*")  # the traceback ends in the test


def test_assert_gate_is_silent_where_nothing_fires(refused):
    audit = tiltlens.audit(PEOPLE, "sex", scores="score", folds=None, features=[])
    assert_gate(audit, "gap>0.5", "gap<-0.5")
    with refused(tiltlens.TiltlensError):
        assert_gate(audit, "gap is large")
    with pytest.raises(tiltlens.TiltlensError, match="No gate given"):
        assert_gate(audit)
    with pytest.raises(tiltlens.TiltlensError, match="The quantities are gap_change"):
        assert_gate(tiltlens.compare(audit, audit, paired=False), "gap>0.5")


def test_entry_points_lead_to_the_plugins():
    points = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]
    assert import_module(points["pytest11"]["tiltlens"]) is pytest_plugin
    module, _, name = points["mlflow.model_evaluator"]["tiltlens"].partition(":")
    assert f"class {name}(" in (PROJECT.parent / "src" / f"{module.replace('.', '/')}.py").read_text()
