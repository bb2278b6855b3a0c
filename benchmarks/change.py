"""How often do the paired intervals of `tl.compare` hold the truth, and how much narrower are they than unpaired ones?

Run `python -m benchmarks.change --repetitions 200 --rows 2000 --seed 1000`. Two models whose scores agree to .9 on the
same rows; only `area` counts for less in the new one, so that the gap and the points through `area` change by 3 points,
and nothing else does. Quantities outside 92 to 98 % by more than two Monte Carlo errors, or less than three times
narrower than unpaired, are marked with MISS.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator

import numpy as np
import polars as pl

import tiltlens as tl
from benchmarks.coverage import share

TRUTHS = {
    "gap_change": 0.03,
    "adjusted_gap_change": 0.0,
    "audited_rate_change": 0.05,
    "alone(area)": 0.03,
    "alone(x)": 0.0,
    "beyond_others(area)": 0.03,
    "beyond_others(x)": 0.0,
}
NARROWER = 3.0  # times, at least, for quantities that move with the scores


def two_models(seed: int, rows: int) -> pl.DataFrame:
    """Return people whose scores are linear in two features that are independent within each group."""
    rng = np.random.default_rng(seed)
    audited = rng.random(rows) < 0.4
    x = rng.random(rows) < np.where(audited, 0.6, 0.3)
    area = rng.random(rows) < np.where(audited, 0.5, 0.2)
    u, v = rng.uniform(-1, 1, (2, rows))
    old = 0.5 + 0.2 * x - 0.15 * area + 0.15 * u
    new = 0.5 + 0.2 * x - 0.05 * area + 0.15 * (0.9 * u + math.sqrt(1 - 0.9**2) * v)
    return pl.DataFrame(
        {"group": np.where(audited, "a", "b"), "x": x, "area": np.where(area, "in", "out"), "old": old, "new": new}
    )


def intervals(change: tl.Change) -> dict[str, tuple[float, float]]:
    """Return the ends of every interval whose truth is known."""
    c = change["a"]
    found = {name: c.changes[name.removesuffix("_change")] for name in TRUTHS if name.endswith("_change")}
    ends = {name: (one.low, one.high) for name, one in found.items()}
    for row in c.features.iter_rows(named=True):
        for name in ("alone", "beyond_others"):
            ends[f"{name}({row['feature']})"] = (row[f"{name}_change_low"], row[f"{name}_change_high"])
    return ends


def draws(repetitions: int, rows: int, seed: int) -> Iterator[tuple[dict[str, tuple[float, float]], ...]]:
    """Yield the paired and the unpaired intervals of each draw."""
    for k in range(repetitions):
        table = two_models(seed + k, rows)
        question = {"group": "group", "reference": "b", "features": ["x", "area"]}
        old, new = (tl.audit(table, scores=score, **question) for score in ("old", "new"))
        yield tuple(intervals(tl.compare(old, new, paired=way)) for way in (None, False))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("repetitions", 200), ("rows", 2_000), ("seed", 1_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args(arguments)
    table = two_models(0, 100_000)
    print(f"correlation of the scores {np.corrcoef(table['old'], table['new'])[0, 1]:.3f}, {asked.rows:,} rows")
    found = list(draws(asked.repetitions, asked.rows, asked.seed))
    missed = 0
    for name, truth in TRUTHS.items():
        hits = sum(low - 1e-12 <= truth <= high + 1e-12 for low, high in (one[name] for one, _ in found))
        coverage, error = share(hits, len(found))
        widths = [sum(high - low for low, high in (one[way][name] for one in found)) for way in (0, 1)]
        is_band = "(" in name  # of all features at once: one alone holds more often
        is_off = coverage + 2 * error < 0.92 or (not is_band and coverage - 2 * error > 0.98)
        narrower = widths[1] / widths[0]
        is_off |= name == "gap_change" and narrower < NARROWER
        missed += is_off
        mark, held = "MISS" if is_off else "    ", f"{100 * coverage:5.1f} % ± {100 * error:.1f}"
        print(f"{mark}  {name:22} {held}, {narrower:.1f} × narrower")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
