"""What users copy: the hooks and the workflow name commands that there are."""

import re
import shlex
import tomllib
from pathlib import Path

import click
import yaml

from tiltlens._cli import main

ROOT = Path(__file__).parent.parent.parent


def parsed(line):
    """Return the parsed command of a line such as `tiltlens run audit.yaml`."""
    name, command, *arguments = shlex.split(line)
    assert name == "tiltlens"
    found = main.get_command(click.Context(main), command)
    return found.make_context(command, arguments)


def test_hooks_call_commands_for_audit_files():
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {hook["id"]: parsed(f"{hook['entry']} audit.yaml").params["check"] for hook in hooks} == {
        "tiltlens-check": True,
        "tiltlens-run": False,
    }
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {re.split("[<>=]", one)[0].lower() for one in (*extras["yaml"], *extras["report"])}
    assert set(hooks[1]["additional_dependencies"]) == needed  # a report is a documented output
    for hook in hooks:
        names = ("audit.yaml", "checks/audit_2024.toml", "data.yaml", "audit.json")
        assert [bool(re.search(hook["files"], name)) for name in names] == [True, True, False, False]


def test_the_workflow_runs_a_command():
    workflow = yaml.safe_load((ROOT / "docs" / "examples" / "audit-workflow.yml").read_text())
    lines = [step["run"] for step in workflow["jobs"]["audit"]["steps"] if "run" in step]
    commands = [line for line in lines if line.startswith("tiltlens")]
    assert [parsed(line).params["files"] for line in commands] == [("audit.yaml",)]
