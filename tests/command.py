"""The command line, run as a user runs it."""

import contextlib
import subprocess
import sys
from typing import NamedTuple

from click.testing import CliRunner

from tiltlens._cli import main

MAIN = "from tiltlens._cli import main; main()"


class Done(NamedTuple):
    """What a command did."""

    returncode: int
    stdout: str
    stderr: str


def tiltlens(*arguments, cwd=None, env=None):
    """Return what `tiltlens` with these arguments did, in a process of its own."""
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, check=False)


def invoked(*arguments, cwd):
    """Return what the same did in this process: where many conditions are tried, each start would take a second."""
    with contextlib.chdir(cwd):
        found = CliRunner().invoke(main, list(map(str, arguments)))
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return Done(found.exit_code, found.stdout, found.stderr)
