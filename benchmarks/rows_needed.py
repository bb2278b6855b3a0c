"""How steady is "about N rows needed", and do audits of N rows settle the question?

Run `python -m benchmarks.rows_needed --repetitions 60 --later 20`. The score uses `driver`, which is independent of the
group: its contribution is 0, and audits of few rows are inconclusive. Printed are the least, median and largest N that
such audits state, and how often audits of N/2, N and 2N rows (N the median) find no material contribution.

It exits with 1 unless nine in ten of the stated N are within a factor of two of their median, and the number of rows
that settles it in four of five audits is within a factor of two of N: N/2 rows settle it in nine of ten at most, 2N
rows in seven at least.
"""

from __future__ import annotations

import argparse
import re
import sys

import numpy as np

import tiltlens as tl
from tiltlens._estimators.verdicts import Verdict

WORLDS = {300: 0.25, 2_000: 0.5}  # rows, and how strongly the score uses the driver


def judged(rows: int, strength: float, seed: int) -> tuple[str, str]:
    """Return the verdict on the neutral driver, and its reason."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.4
    proxy = random.standard_normal(rows) + 0.6 * audited
    driver, noise = random.standard_normal((2, rows))
    score = 1 / (1 + np.exp(0.2 - 0.5 * proxy - strength * driver))
    table = {"group": np.where(audited, "a", "b"), "score": score, "proxy": proxy, "driver": driver, "noise": noise}
    found = tl.audit(table, "group", reference="b", scores="score")["a"].contributions_full
    row = found.filter(feature="driver").row(0, named=True)
    return row["verdict"], row["reason"]


def stated(rows: int, strength: float, repetitions: int) -> list[int]:
    """Return the N of audits that are inconclusive and state one."""
    found = [judged(rows, strength, seed) for seed in range(repetitions)]
    texts = [re.search(r"about ([\d,]+) rows needed", why) for verdict, why in found if verdict == Verdict.INCONCLUSIVE]
    return sorted(int(one[1].replace(",", "")) for one in texts if one)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--later", type=int, default=20, help="audits of N/2, N and 2N rows each")
    asked = parser.parse_args()
    missed = 0
    for rows, strength in WORLDS.items():
        numbers = stated(rows, strength, asked.repetitions)
        middle = int(np.median(numbers))
        near = np.mean([middle / 2 <= one <= 2 * middle for one in numbers])
        print(
            f"{rows:,} rows | {len(numbers)} of {asked.repetitions} state N: {numbers[0]:,} to {numbers[-1]:,}", end=""
        )
        print(f", median {middle:,}, {near:.0%} within a factor of two", flush=True)
        shares = []
        for part in (0.5, 1.0, 2.0):
            later = [
                judged(round(part * middle), strength, 10_000 + seed)[0] == Verdict.NO_MATERIAL_CONTRIBUTION
                for seed in range(asked.later)
            ]
            shares.append(float(np.mean(later)))
            print(f"    {round(part * middle):,} rows: {sum(later)} of {asked.later} settled", flush=True)
        missed += near < 0.9 or shares[0] > 0.9 or shares[2] < 0.7
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
