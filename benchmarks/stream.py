"""Audits of 10^6 to 10^8 rows in Parquet files, with given score and membership: time, memory, and how time grows.

With `--fitted` the membership model is fitted on a sample, and measured on every row; the truth is known.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit, logit

import tiltlens as tl

CHUNK = 1_000_000
MOST_MEMORY = 2 * 2**30
MOST_EXPONENT = 1.05
ARGUMENTS: dict[str, Any] = {
    "group": "group",
    "reference": "b",
    "scores": "score",
    "propensity": "chance",
    "features": ["region", "job", "amount", "years"],
}
RUN = """
import json, resource, sys, time
import tiltlens as tl
start, worked = time.perf_counter(), time.process_time()
found = tl.audit(sys.argv[1], **json.loads(sys.argv[2]))
seconds, work = time.perf_counter() - start, time.process_time() - worked
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "work": work, "memory": memory, "summary": found.to_dict()}))
"""


def made_chunk(rows: int, seed: int) -> pl.DataFrame:
    """Return people whose group shows in region and amount, whose score follows both, and whose ℓ is known."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.4
    region = np.where(audited & (random.random(rows) < 0.2), 0, random.integers(0, 6, rows))
    amount = np.round(random.normal(50 - 4 * audited, 10, rows), 0)
    years = random.integers(0, 40, rows)
    job = random.integers(0, 8, rows)
    ell = np.where(region == 0, math.log((0.2 + 0.8 / 6) * 6), math.log(0.8)) - 4 * (amount - 48) / 100
    score = expit(0.04 * (amount - 48) - 0.3 * (region == 0) + 0.02 * (years - 20) + 0.1 * (job == 3))
    return pl.DataFrame(
        {
            "group": pl.Series(np.where(audited, "a", "b")),
            "region": region.astype(np.int8),
            "job": pl.Series(job).cast(pl.String),
            "amount": amount.astype(np.float32),
            "years": years.astype(np.int16),
            "score": score,
            "chance": expit(logit(0.4) + ell),
        }
    )


def write_files(folder: Path, rows: int) -> str:
    """Write the rows as files of a million, and return the pattern that names them."""
    folder.mkdir()
    for part, start in enumerate(range(0, rows, CHUNK)):
        made_chunk(min(CHUNK, rows - start), part).write_parquet(folder / f"part-{part:04}.parquet")
    return str(folder / "*.parquet")


def run(pattern: str, is_fitted: bool) -> dict[str, Any]:
    """Return seconds, peak memory and numbers of an audit in a process of its own."""
    arguments = ARGUMENTS | ({"propensity": None} if is_fitted else {})
    command = [sys.executable, "-c", RUN, pattern, json.dumps(arguments)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def check(pattern: str, found: dict[str, Any], against_memory: bool) -> None:
    """Assert the answer: the gap by plain means, and every estimate as in memory where the rows fit there."""
    c = found["summary"]["comparisons"]["a"]
    means = dict(pl.scan_parquet(pattern).group_by("group").agg(pl.col("score").mean()).collect().iter_rows())
    assert abs(c["gap"]["value"] - (means["a"] - means["b"])) < 1e-9
    assert c["gap"]["low"] < c["gap"]["value"] < c["gap"]["high"]
    assert c["contributions"][0]["feature"] == "amount"
    assert c["checks"]["balance"]["is_adequate"]
    if against_memory:
        plain = tl.audit(pl.read_parquet(pattern), **ARGUMENTS).to_dict()["comparisons"]["a"]
        for name in ("gap", "impact_ratio", "input_divergence", "descent_rate", "adjusted_gap", "output_divergence"):
            one, other = ((summary if name in summary else summary["correction"])[name] for summary in (c, plain))
            for end in ("value", "low", "high"):
                assert abs(one[end] - other[end]) <= 1e-9 * max(1.0, abs(other[end])), (name, end)
        for mine, theirs in zip(c["contributions"], plain["contributions"], strict=True):
            for name, value in theirs.items():
                if isinstance(value, float):
                    assert abs(mine[name] - value) < 1e-9, (theirs["feature"], name)


def check_fitted(pattern: str, found: dict[str, Any], rows: int) -> None:
    """Assert that a fitted model is less than an interval away from the true membership, and from a fit in memory."""
    c = found["summary"]["comparisons"]["a"]
    others = {"the true membership": tl.audit(pattern, **ARGUMENTS)["a"]}
    if rows <= 10**6:
        others["memory"] = tl.audit(pl.read_parquet(pattern), **ARGUMENTS | {"propensity": None})["a"]
    for other, comparison in others.items():
        for name in ("input_divergence", "descent_rate"):
            exact, fitted = getattr(comparison.correction, name), c["correction"][name]
            distance, reach = abs(fitted["value"] - exact.value), fitted["high"] - fitted["low"]
            print(f"  {name}: {distance / reach:.2f} of its interval away from that of {other}")
            assert distance < reach, name
    assert any("was fitted on a sample" in note for note in c["checks"]["notes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6, 10**7, 10**8])
    parser.add_argument("--fitted", action="store_true")
    options = parser.parse_args()
    sizes, times = sorted(options.rows), []
    with tempfile.TemporaryDirectory() as folder:
        for rows in sizes:
            start = time.perf_counter()
            pattern = write_files(Path(folder) / str(rows), rows)
            written = time.perf_counter() - start
            found = run(pattern, options.fitted)
            check(pattern, found, against_memory=rows <= 10**6 and not options.fitted)
            times.append((found["seconds"], found["work"]))
            print(
                f"{rows:>13,} rows: {found['seconds']:8.1f} s, {found['work']:8.1f} s of all cores, peak memory "
                f" {found['memory'] / 2**30:.2f} GiB  (written in {written:.0f} s)",
                flush=True,
            )
            assert found["memory"] < MOST_MEMORY
            if options.fitted:
                check_fitted(pattern, found, rows)
            for file in Path(folder, str(rows)).iterdir():
                file.unlink()
    if len(sizes) > 1:
        wall, work = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(f"time by the clock grows with rows to the power {wall:.3f}, that of all cores {work:.3f}")
        assert max(wall, work) <= MOST_EXPONENT


if __name__ == "__main__":
    main()
