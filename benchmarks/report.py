"""The report of 1,000,000 rows × 20 features, and of 200 features: size, time to write, time to first paint."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import polars as pl

import tiltlens as tl
from benchmarks.tables import many_features, mixed_features

LARGEST = 3_000_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
DRAWN = "[...document.querySelectorAll('.drawing')].every(one => one.dataset.drawn === 'done')"


def painted(path: Path) -> tuple[float, float]:
    """Return the seconds to first paint and to the last picture, in a browser that holds nothing yet."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        begin = time.perf_counter()
        tab.goto(path.as_uri())
        tab.wait_for_function(DRAWN, timeout=120_000)
        drawn = time.perf_counter() - begin
        first = tab.evaluate(PAINTED)
        browser.close()
    return first / 1000, drawn


def measure(name: str, table: pl.DataFrame, folder: Path) -> dict[str, float | str]:
    """Return size and times of the report of a table's audit; the page must hold the audit's own numbers."""
    membership = "chance" if "chance" in table.columns else None
    audit = tl.audit(table, group="group", reference="b", scores="score", propensity=membership)
    path = folder / "audit.html"
    begin = time.perf_counter()
    audit.report(path)
    written = time.perf_counter() - begin
    page = path.read_text(encoding="utf-8")
    assert f'data-value="{audit["a"].gap.value}"' in page
    assert path.stat().st_size < LARGEST
    first, drawn = painted(path)
    return {"report": name, "MB": path.stat().st_size / 1e6, "write_s": written, "paint_s": first, "drawn_s": drawn}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", help="file to write the numbers to")
    options = parser.parse_args()
    tables = {f"{options.rows:,} rows x 20 features": lambda: mixed_features(options.rows)}
    tables |= {"20,000 rows x 200 features": many_features}
    with tempfile.TemporaryDirectory() as folder:
        found = [measure(name, make(), Path(folder)) for name, make in tables.items()]
    for one in found:
        print(
            f"report, {one['report']}: {one['MB']:.2f} MB, written in {one['write_s']:.1f} s, "
            f"first paint after {one['paint_s']:.2f} s, all pictures after {one['drawn_s']:.1f} s"
        )
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
