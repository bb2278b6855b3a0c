"""The record of wording holds what tests compare, and nothing else."""

import ast
from pathlib import Path

from tests import wording


def test_every_recorded_text_is_of_a_test_that_compares_it():
    recorded = {name.rpartition(" ")[0].partition("[")[0] for name in wording.recorded()}
    assert recorded
    assert recorded - comparing() == set()


def comparing():
    """Return the names of the tests that use one of the fixtures."""
    return {
        f"tests/{path.relative_to(Path(__file__).parent).as_posix()}::{test.name}"
        for path in Path(__file__).parent.rglob("test_*.py")
        for test in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(test, ast.FunctionDef) and {"refused", "worded"} & {each.arg for each in test.args.args}
    }
