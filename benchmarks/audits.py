"""What a user waits for: the import, an audit of a table like Adult, and one of 200 features."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import polars as pl

import tiltlens as tl
from benchmarks.tables import like_adult, many_features
from benchmarks.timing import Row, best_of, printed

MOST_IMPORT, MOST_HELP, MOST_ADULT, MOST_WIDE = 0.6, 0.4, 15.0, 15.0  # seconds


def imported() -> Iterator[Row]:
    """Yield the times of the import in a process of its own, less that of starting Python, of the first use, of help.

    Beside them the import of what every audit needs.
    """

    def run(code: str, *arguments: str) -> float:
        command = [sys.executable, "-c", code, *arguments]
        return best_of(5, lambda: subprocess.run(command, check=True, capture_output=True))

    start = run("pass")
    yield Row("import tiltlens", run("import tiltlens") - start, "s", most=MOST_IMPORT)
    yield Row("import tiltlens and name tiltlens.audit", run("import tiltlens; tiltlens.audit") - start, "s")
    yield Row("import polars, sklearn", run("import polars, sklearn") - start, "s")
    yield Row("tiltlens --help", run("from tiltlens._cli import main; main()", "--help"), "s", most=MOST_HELP)


def audited(table: pl.DataFrame, **options: Any) -> tuple[float, tl.Comparison]:
    """Return the seconds of an audit, and its only comparison; the gap must be the difference of means."""
    start = time.perf_counter()
    found = tl.audit(table, scores="score", **options)
    seconds = time.perf_counter() - start
    (c,) = found.comparisons.values()
    means = dict(table.group_by(options["group"]).agg(pl.col("score").mean()).iter_rows())
    assert abs(c.gap.value - (means[c.audited] - means[c.reference])) < 1e-9
    return seconds, c


def measured() -> Iterator[Row]:
    """Yield the times; marriage must carry most of the gap of the first table, x0 that of the second."""
    yield from imported()
    table = like_adult()
    seconds, c = audited(table, group="sex", reference="Male")
    assert set(c.contributions_full["feature"][:2]) == {"marital-status", "relationship"}, c.contributions_full[
        "feature"
    ][:2]
    yield Row(f"audit like Adult, {len(table):,} rows x 10 features", seconds, "s", most=MOST_ADULT)
    table = many_features().drop("chance")
    seconds, c = audited(table, group="group", reference="b")
    assert c.contributions_full["feature"][0] == "x0", c.contributions_full["feature"][0]
    yield Row(f"audit, {len(table):,} rows x 200 features", seconds, "s", most=MOST_WIDE)


if __name__ == "__main__":
    sys.exit(printed(measured()) > 0)
