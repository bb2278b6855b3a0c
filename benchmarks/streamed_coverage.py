"""How often do the intervals of a streamed audit hold the truth, when its membership model is fitted on a sample?

Run `python -m benchmarks.streamed_coverage`. What matters is the error of models fitted on N rows beside an interval
made of n: √n/N. The samples are made small, so that 100,000 rows stand for ten million (4,000 rows of each group
instead of 40,000) and for a hundred million (1,250). It prints a Markdown table and fails where an interval misses
its target by more than chance.
"""

from __future__ import annotations

import argparse
import sys
from math import sqrt

import numpy as np
import polars as pl
from tiltlens.streams import sample, sources

import tiltlens as tl
from benchmarks.coverage import AUDITED, TRUTHS, Tally, Truth, answers
from tiltlens.estimators.estimate import Estimate

ROWS = 100_000
STANDS_FOR = {4_000: "10 million rows", 1_250: "100 million rows"}
LEAST = 0.90


def estimates(truth: Truth, seed: int) -> dict[str, Estimate]:
    """Return the streamed audit's estimates of one draw; shares only where features have no bins of their own."""
    random = np.random.default_rng(seed)
    audited = random.random(ROWS) < AUDITED
    x = np.where(audited[:, None], truth.draw(ROWS, True, random), truth.draw(ROWS, False, random))
    kind = pl.String if truth.is_discrete else pl.Float64
    columns = {f"x{j}": pl.Series(x[:, j]).cast(kind) for j in range(3)}
    frame = pl.DataFrame({"group": np.where(audited, "a", "b"), "score": truth.score(x), **columns})
    found = tl.audit(tl.stream(frame), group="group", reference="b", scores="score", total_shares=False)["a"]
    rate = found.descent_rate
    squares = [value**2 for value in (rate.value, rate.high, rate.low)]
    result = {"Var0(g)": Estimate(*squares), "input divergence": found.input_divergence}
    if truth.is_discrete:
        rows = found.proxies.rows_by_key("feature", named=True, unique=True)
        for j, name in enumerate(("dominant", "weak")):
            row = rows[f"x{j}"]
            result[f"share, {name}"] = Estimate(row["share"], row["share_low"], row["share_high"])
    return result


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--truths", nargs="+", default=["spread 0.7", "interaction", "discrete"])
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args(arguments)
    sources.COLLECTED_ROWS = 0
    print("| truth | stands for | quantity | true value | bias / mean width / coverage |\n|---|---|---|---|---|")
    missed = []
    for truth in (t for t in TRUTHS if t.name in options.truths):
        for fitted, name in STANDS_FOR.items():
            sample.FITTED_ROWS = fitted
            tallies: dict[str, Tally] = {}
            for seed in range(options.first_seed, options.first_seed + options.repetitions):
                for quantity, found in estimates(truth, seed).items():
                    tallies.setdefault(quantity, Tally()).add(found, answers(truth.name)[quantity])
            for quantity, tally in tallies.items():
                print(
                    f"| {truth.name} | {name} | {quantity} | {answers(truth.name)[quantity]:.4f} | {tally} |",
                    flush=True,
                )
                if tally.coverage < LEAST - 2 * sqrt(0.95 * 0.05 / options.repetitions):
                    missed.append(f"{truth.name}, {name}, {quantity}: {100 * tally.coverage:.0f} %")
    print("\n" + ("\n".join(["Outside the target:", *missed]) if missed else "All within the target."))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
