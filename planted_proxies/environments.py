"""An environment for each tool, since what they require may conflict; one that cannot be made says why."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ADDRESS = re.compile(r"\b[a-z+]+://\S+")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "PYTHONWARNINGS": "ignore"}


class Environment(NamedTuple):
    """An interpreter with what it finds on its path, or why there is none."""

    python: str | None
    variables: dict[str, str]
    reason: str = ""


def environment(requires: tuple[str, ...], folder: Path) -> Environment:
    """Return an environment with what a tool requires, made where it is not there yet; tiltlens is taken from here."""
    if requires[0] == "tiltlens":
        is_here = importlib.util.find_spec("tiltlens") is not None
        path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH", "")]))
        found = Environment(sys.executable, {**os.environ, **ONE_THREAD, "PYTHONPATH": path})
        return found if is_here else Environment(None, {}, "not installed here: pip install . in its repository")
    home = folder / re.sub(r"[^\w.-]+", "_", "_".join(requires))
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    reason = "" if (home / "installed").exists() else _install(requires, home, python)
    if reason:
        return Environment(None, {}, reason)
    return Environment(str(python), {**os.environ, **ONE_THREAD, "PYTHONPATH": str(_linked(folder))})


def _install(requires: tuple[str, ...], home: Path, python: Path) -> str:
    """Return an empty text where pip installs everything, and its reason otherwise."""
    venv.create(home, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requires]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return reason_of(done.stderr) or f"pip failed with code {done.returncode}"
    (home / "installed").touch()
    return ""


def reason_of(message: str) -> str:
    """Return pip's last error in one line, without addresses."""
    errors = [line.removeprefix("ERROR:").strip() for line in message.splitlines() if line.startswith("ERROR:")]
    return ADDRESS.sub("…", errors[-1]) if errors else ""


def _linked(folder: Path) -> Path:
    """Return a folder that holds this package and nothing else, for the path of other environments."""
    place = folder.resolve() / "path"
    place.mkdir(parents=True, exist_ok=True)
    link = place / HERE.name
    if not link.exists():
        link.symlink_to(HERE, target_is_directory=True)
    return place
