"""How often do the intervals of `tl.audit`, with its default settings, hold the truth? Known worlds, drawn anew.

Run `python -m benchmarks.coverage --repetitions 40 --jobs 2 --seed 1000 --json coverage.json`, with `--truth NAME …`
for some of the worlds of `benchmarks.truths` and `--n ROWS …` for other sizes. It prints a line for each world and
quantity when that world is done, marks what misses its target by more than chance, and then exits with 1.

gap(j) and joint(j) have one band for all of them at once: "all bands" is the share of audits in which every one holds,
and should be 95 %; the band of one alone may hold more often. Where rows come in clusters, the coverage of an audit
that ignores them stands beside.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from threadpoolctl import threadpool_limits

import tiltlens as tl
from benchmarks.truths import ALL, EACH, WORLDS, World
from tiltlens._estimators.verdicts import EVIDENCE, Verdict

Found = dict[str, Any]
Line = dict[str, Any]

CONFIDENCE = 0.95
LEAST = 0.92  # coverage that a nominal 95 % interval must have
SURE = 0.01  # chance below which a count is a miss
BANDED = ("alone(", "beyond_others(")
ROUNDING = 1e-9


def one_core() -> None:
    """Give this process one thread: Polars counts its threads at its first use, which is still to come."""
    os.environ["POLARS_MAX_THREADS"] = "1"
    threadpool_limits(1)


def audited(task: tuple[str, int, int]) -> Found:
    """Return the intervals, verdicts and seconds of one audit, or what went wrong."""
    name, rows, seed = task
    table, options = WORLDS[name].draw(seed, rows)
    start = time.perf_counter()
    try:
        c = tl.audit(table, **options)["a"]
        seconds = time.perf_counter() - start
        clusters = options.pop("clusters", None)
        ignored = {} if clusters is None else {"ignored": _numbers(tl.audit(table.drop(clusters), **options)["a"])}
    except Exception as error:  # the other audits are still worth counting
        return {"seed": seed, "error": f"{type(error).__name__}: {error}"}
    verdicts = dict(c.contributions_full.select("feature", "verdict").rows())
    is_adequate = c.checks.balance is not None and c.checks.balance.is_adequate
    found = {"seed": seed, "numbers": _numbers(c), "verdicts": verdicts, "adequate": is_adequate, "seconds": seconds}
    return found | ignored


def _numbers(c: tl.Comparison) -> dict[str, list[float | None]]:
    """Return every value with its interval, by name."""
    numbers: dict[str, list[float | None]] = {}
    for quantity in ALL:
        found = c.estimate(quantity)
        numbers[quantity] = [None] * 3 if found is None else _ends(found)
    for who in ("audited", "reference"):
        numbers[f"{who}_rate"] = _ends(getattr(c.rates, who))
    for row in c.contributions_full.to_dicts():
        for quantity in EACH:
            ends = (row[quantity], row[f"{quantity}_low"], row[f"{quantity}_high"])
            numbers[f"{quantity}({row['feature']})"] = list(ends)
    return numbers


def _ends(found: tl.Estimate) -> list[float | None]:
    """Return a value and its interval; one with a single end holds everything beyond."""
    if (found.low is None) == (found.high is None):
        return [found.value, found.low, found.high]
    return [found.value, -math.inf if found.low is None else found.low, math.inf if found.high is None else found.high]


def is_known(ends: list[float | None]) -> bool:
    """Whether there is an interval."""
    return len(ends) == 3 and all(end is not None for end in ends)


def holds(ends: list[Any], truth: float) -> bool:
    """Whether an interval holds the truth."""
    return bool(ends[1] - ROUNDING <= truth <= ends[2] + ROUNDING)


def share(count: int, of: int) -> tuple[float, float]:
    """Return a share and its Monte Carlo error, which is not 0 where all or none are counted (Agresti and Coull)."""
    middle = (count + 2) / (of + 4)
    return count / max(of, 1), sqrt(middle * (1 - middle) / (of + 4))


def is_low(coverage: float, draws: int) -> bool:
    """Whether so few of so many draws hold the truth that an interval of the least coverage would not (at 1 %)."""
    return draws > 0 and float(binom.cdf(round(coverage * draws), draws, LEAST)) < SURE


def is_high(rate: float, draws: int) -> bool:
    """Whether so many of so many draws err that one in twenty would not (at 1 %)."""
    return draws > 0 and float(binom.sf(round(rate * draws) - 1, draws, 1 - CONFIDENCE)) < SURE


def lines(world: World, found: list[Found]) -> Iterator[Line]:
    """Yield what the audits of a world say of every quantity that is known, and of the verdicts."""
    truths, audits = world.truths(), [one for one in found if "error" not in one]
    yield from _all_bands(truths, audits)
    for quantity, truth in _pooled(world, truths):
        names = [name for name in truths if _kind(world, name) == quantity]
        given = _given(audits, "numbers", names)
        hits = sum(holds(ends, truth) for ends in given)
        ignored = _given(audits, "ignored", names)
        coverage, error = share(hits, len(given))
        error *= sqrt(max(1.0, len(given) / max(len(audits), 1)))  # noise features of one audit err together
        values = np.array(given, dtype=np.float64).reshape(-1, 3)
        yield {
            "quantity": quantity,
            "truth": truth,
            "bias": float(np.mean(values[:, 0] - truth)) if given else None,
            "spread": float(np.std(values[:, 0])) if given else None,
            "width": _mean_width(values[:, 2] - values[:, 1]) if given else None,
            "coverage": coverage,
            "error": error,
            "given": len(given),
            "of": len(audits) * len(names),
            "ignoring_clusters": sum(holds(ends, truth) for ends in ignored) / len(ignored) if ignored else None,
            "miss": is_low(coverage, min(len(given), len(audits))),
        }
    yield from _verdict_lines(world, truths, audits)


def _given(audits: list[Found], kind: str, names: list[str]) -> list[list[Any]]:
    """Return the intervals of some quantities, in all audits, that have one; `kind` is "numbers" or "ignored"."""
    return [ends for one in audits for name in names if is_known(ends := one.get(kind, {}).get(name, []))]


def _mean_width(widths: NDArray[np.float64]) -> float:
    """Return the mean width of the intervals with two ends."""
    finite = widths[np.isfinite(widths)]
    return float(finite.mean()) if finite.size else math.inf


def _kind(world: World, name: str) -> str:
    """Return the name under which a quantity is counted: all noise features are one."""
    quantity, _, feature = name.rstrip(")").partition("(")
    return f"{quantity}(noise)" if feature in world.noises else name


def _pooled(world: World, truths: dict[str, float]) -> list[tuple[str, float]]:
    return list({_kind(world, name): truth for name, truth in truths.items()}.items())


def _all_bands(truths: dict[str, float], audits: list[Found]) -> Iterator[Line]:
    """Yield the share of audits in which every band of gap(j) and joint(j) that is given holds its truth."""
    banded = [name for name in truths if name.startswith(BANDED)]
    if not banded:
        return
    hits = 0
    for one in audits:
        given = {name: ends for name in banded if is_known(ends := one["numbers"].get(name, []))}
        hits += all(holds(ends, truths[name]) for name, ends in given.items())
    coverage, error = share(hits, len(audits))
    yield {
        "quantity": "all bands",
        "coverage": coverage,
        "error": error,
        "given": len(audits),
        "of": len(audits),
        "miss": is_low(coverage, len(audits)),
    }


def _verdict_lines(world: World, truths: dict[str, float], audits: list[Found]) -> Iterator[Line]:
    """Yield how often evidence is false, how often a feature is cleared that should not be, and what noise is called.

    Evidence is false where the truth it speaks of is no more than the materiality; a feature is cleared wrongly where
    its gap or its joint value is more than that.
    """
    if not any(found["verdicts"] for found in audits):
        return
    counts = world.materiality()

    def size(quantity: str, feature: str) -> float:
        return abs(truths[f"{quantity}({feature})"])

    def is_false(feature: str, verdict: str) -> bool:
        quantity = "alone" if verdict == Verdict.POTENTIAL_PROXY else "beyond_others"
        return verdict in EVIDENCE and size(quantity, feature) <= counts

    def is_overlooked(feature: str, verdict: str) -> bool:
        return (
            verdict == Verdict.NO_MATERIAL_CONTRIBUTION
            and max(size("alone", feature), size("beyond_others", feature)) > counts
        )

    for quantity, is_wrong in (("false evidence", is_false), ("wrongly cleared", is_overlooked)):
        count = sum(any(is_wrong(*one) for one in found["verdicts"].items()) for found in audits)
        rate, error = share(count, len(audits))
        yield _rate(quantity, rate, error, len(audits)) | {"miss": is_high(rate, len(audits))}
    carrying = [name for name in world.features if name not in (*world.idle, *world.exempt)]
    for kind, names in (("noise", world.noises), ("idle", list(world.idle)), *((name, [name]) for name in carrying)):
        said = Counter(found["verdicts"].get(name, "left out") for found in audits for name in names)
        if not said:
            continue
        rate, error = share(said[Verdict.NO_MATERIAL_CONTRIBUTION], said.total())
        line = _rate(f"{kind}: no material contribution", rate, error, said.total())
        yield line | {"verdicts": dict(said.most_common()), "miss": False}
    inadequate = sum(not found["adequate"] for found in audits)
    yield _rate("membership model called inadequate", *share(inadequate, len(audits)), len(audits)) | {"miss": False}


def _rate(quantity: str, rate: float, error: float, of: int) -> Line:
    return {"quantity": quantity, "rate": rate, "error": error, "of": of}


def told(world: str, rows: int, line: Line) -> str:
    """Return a line as it is printed."""
    start = f"{world}, n = {rows:,} | {line['quantity']}"
    mark = " | MISS" if line["miss"] else ""
    if "rate" in line:
        said = ", ".join(f"{verdict} {count}" for verdict, count in line.get("verdicts", {}).items())
        words = f" ({said})" if said else ""
        return f"{start} | {100 * line['rate']:.1f} % ± {100 * line['error']:.1f} of {line['of']}{words}{mark}"
    numbers = ""
    if line.get("bias") is not None:
        numbers = (
            f" | truth {line['truth']:+.4f}, bias {line['bias']:+.5f}, sd {line['spread']:.5f}, "
            f"width {line['width']:.5f}"
        )
    if not line["given"]:
        return f"{start} | never given, of {line['of']}"
    given = "" if line["given"] == line["of"] else f", given in {line['given']}"
    held = f"{100 * line['coverage']:.1f} % ± {100 * line['error']:.1f}"
    ignored = line.get("ignoring_clusters")
    beside = "" if ignored is None else f" | ignoring clusters {100 * ignored:.1f} %"
    return f"{start}{numbers} | holds {held} of {line['of']}{given}{beside}{mark}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", nargs="+", choices=WORLDS, default=list(WORLDS), metavar="NAME", help=str([*WORLDS]))
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--n", type=int, nargs="+", help="rows; each world has a number of its own")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1_000, help="the first of them")
    parser.add_argument("--json", type=Path, help="file to write the numbers to, after each world")
    options = parser.parse_args(arguments)
    results, missed = [], []
    # forked before this process has used Polars, whose threads a fork would lose
    with multiprocessing.get_context("fork").Pool(options.jobs, one_core) as pool:
        for name in options.truth:
            for rows in options.n or [WORLDS[name].rows]:
                start = time.perf_counter()
                seeds = range(options.seed, options.seed + options.repetitions)
                found = list(pool.imap(audited, [(name, rows, seed) for seed in seeds]))
                table = list(lines(WORLDS[name], found))
                for line in table:
                    print(told(name, rows, line))
                failed = Counter(one["error"] for one in found if "error" in one)
                seconds = [one["seconds"] for one in found if "error" not in one]
                print(f"{name}, n = {rows:,} | {len(found)} audits in {time.perf_counter() - start:.0f} s, ", end="")
                print(f"median {np.median(seconds):.1f} s" if seconds else "none done")
                for error, count in failed.items():
                    print(f"{name}, n = {rows:,} | {count} FAILED: {error}")
                sys.stdout.flush()
                missed += [f"{name}, n = {rows:,}: {line['quantity']}" for line in table if line["miss"]]
                missed += [f"{name}, n = {rows:,}: {failed.total()} audits failed"] * bool(failed)
                results.append({"world": name, "n": rows, "lines": table, "failed": dict(failed), "audits": found})
                if options.json:
                    options.json.write_text(json.dumps(results, indent=1))
    print("\n".join(["Beyond chance outside the target:", *missed]) if missed else "All within the target.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
