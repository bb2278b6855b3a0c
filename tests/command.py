"""The command line, run as a user runs it."""

import subprocess
import sys

MAIN = "from tiltlens.cli import main; main()"


def tiltlens(*arguments, cwd=None, env=None):
    """Return what `tiltlens` with these arguments did."""
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, check=False)
