"""Take the README's pictures of the COMPAS report, in Debian's chromium.

Run as `python scripts/make_screenshots.py [FOLDER]`; the default is docs/img.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tiltlens._demo import paper_experiment
from tiltlens._render.page import write_report

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
DRAWN = "[...document.querySelectorAll('.drawing')].every(one => one.dataset.drawn === 'done')"


def taken(tab: Page, folder: Path) -> None:
    """Write the first screen, the features, and the dial for statisticians."""
    tab.screenshot(path=folder / "report-words.png")
    tab.click("button.feature >> nth=0")
    scroll = "table => window.scrollTo(0, table.getBoundingClientRect().top + scrollY - 110)"
    tab.locator("table.contributions").evaluate(scroll)
    tab.screenshot(path=folder / "report-features.png")
    tab.click("#expert-0 > .folder")
    tab.locator(".dial").screenshot(path=folder / "report-dial.png")


def main() -> None:
    """Make the report and take its pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "img")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        report = Path(place) / "report.html"
        write_report(paper_experiment().cross_fitted, report)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 1060})
        tab.goto(report.as_uri())
        tab.wait_for_function(DRAWN)
        taken(tab, folder)
        browser.close()


if __name__ == "__main__":
    main()
