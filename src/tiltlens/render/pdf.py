"""Pages as PDF, printed by a Chromium that is on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from tiltlens.errors import DataError, MissingExtraError
from tiltlens.results.codec import write_bytes

COMMANDS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "msedge", "brave-browser"),
)
APPLICATIONS = (  # where other systems install one
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
WIDTH = 695  # pixels of an A4 page between its margins
FLAGS = (
    *("--headless", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND"),
    *(
        f"--window-size={WIDTH},1000",
        "--no-pdf-header-footer",
        "--virtual-time-budget=20000",
    ),  # time enough to draw all figures
)
SECONDS = 180
BY_HAND = "write audit.html, open it in a browser and print it to PDF."


def write_pdf(html: str, path: Path) -> None:
    """Print a page to a PDF file, whole or not at all."""
    browser = find_browser()
    with TemporaryDirectory(prefix="tiltlens-") as folder:
        page, printed = Path(folder, "page.html"), Path(folder, "page.pdf")
        page.write_text(html, encoding="utf-8")
        own = [f"--user-data-dir={Path(folder, 'profile')}", f"--print-to-pdf={printed}", f"{page.as_uri()}#paper"]
        _run([browser, *FLAGS, *_sandbox(), *own], printed)
        write_bytes(path, printed.read_bytes())


def check_pdf() -> None:
    """Raise where no PDF could be printed: better before an audit than after it."""
    find_browser()


def find_browser() -> str:
    """Return the first Chromium that is installed."""
    for browser in _installed():
        return browser
    raise MissingExtraError(
        "A PDF report needs Chromium, Chrome or Edge, and none was found.", f"Install one, or {BY_HAND}"
    )


def _installed() -> Iterator[str]:
    yield from filter(None, map(which, COMMANDS))
    yield from (path for path in APPLICATIONS if Path(path).is_file())


def _sandbox() -> list[str]:
    """Return the option without which Chromium does not start as root."""
    is_root = sys.platform != "win32" and os.geteuid() == 0
    return ["--no-sandbox"] if is_root else []


def _run(command: list[str], printed: Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        problem = f"it ended with code {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = "it took too long" if isinstance(error, subprocess.TimeoutExpired) else str(error.strerror)
    if not printed.is_file() or not printed.stat().st_size:
        raise DataError(f"{command[0]} did not print the report: {problem}.", f"Or {BY_HAND}")
