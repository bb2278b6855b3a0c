"""Ours and the peers on the same rows in the same run: a table, and JSON for those who plot it.

Run `python -m benchmarks.peers --sizes 10000 100000 1000000 10000000 [--json FILE]`. Each row asserts its answer
before it reports a time; a peer that is not installed is a row that says so. A read is the time of reading the columns
that a task uses once: sums of numbers, the largest of whole numbers, a comparison of texts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import tiltlens as tl
from benchmarks.moments import moments_by_group
from benchmarks.stream import ARGUMENTS, made_chunk
from benchmarks.timing import Row, printed
from tiltlens._analysis.evidence import Settings

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
LARGEST_BOOTSTRAP = 100_000  # rows: a replicate of fairlearn takes a second at 300,000
LARGEST_ROWS = 1_000_000  # up to which everything is timed more than once
REPLICATES = 20
EXPLAINED_ROWS = 2_000
TIMES_FASTER = 100
MOST_READS, MOST_AUDIT_READS, MOST_AUDIT = 6, 60, 2.0  # the last in seconds
LIMITED_FROM = 10_000_000  # rows, from which there are limits

Rows = dict[str, Any]


def rows_of(size: int) -> Rows:
    """Return a frame with given membership, and its columns as arrays."""
    parts = [made_chunk(min(1_000_000, size - start), seed) for seed, start in enumerate(range(0, size, 1_000_000))]
    frame = pl.concat(parts, rechunk=True)
    chance = frame["chance"].to_numpy()
    return {
        "frame": frame,
        "group": (frame["group"] == "a").to_numpy(),
        "score": frame["score"].to_numpy(),
        "selected": frame["score"].to_numpy() > 0.5,
        "log_odds": np.log(chance) - np.log1p(-chance),
    }


def read(rows: Rows) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """Read log-odds, score and group once: the least that moments can cost."""
    return lambda: rows["log_odds"].sum() + rows["score"].sum() + rows["group"].sum(), lambda _: True


def read_all(rows: Rows) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """Read score, membership, group and the four features once, as the user's frame holds them."""
    frame = rows["frame"]
    used = [ARGUMENTS["group"], ARGUMENTS["scores"], ARGUMENTS["propensity"], *ARGUMENTS["features"]]

    def once(column: pl.Series) -> Any:
        if column.dtype == pl.String:
            return (column == "a").sum()
        numbers = column.to_numpy()
        return numbers.sum() if column.dtype.is_float() else numbers.max()

    return lambda: [once(frame[name]) for name in used], lambda found: len(found) == len(used)


def moments(rows: Rows) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """Everything the correction function needs."""
    expected = rows["score"][rows["group"]].mean()

    def is_right(found: Any) -> bool:
        return abs(found[1].output[1] - expected) < 1e-9

    return lambda: moments_by_group(rows["log_odds"], rows["score"], rows["group"]), is_right


def whole_audit(rows: Rows) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """The audit with all intervals and four features, from given score and membership."""
    expected = rows["score"][rows["group"]].mean() - rows["score"][~rows["group"]].mean()

    def is_right(found: Any) -> bool:
        return abs(found["a"].gap.value - expected) < 1e-9 and found["a"].gap.low < expected < found["a"].gap.high

    return lambda: tl.audit(rows["frame"], **ARGUMENTS), is_right


def drawn_audit(rows: Rows) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """The same with the bins that figures and the report are made of, which it makes when they are asked for."""
    # Bins are of the sample, of which a group has at most half.
    audit, people = whole_audit(rows)[0], min(int(rows["group"].sum()), Settings().sample_rows // 2)

    def is_right(bins: dict[str, Any]) -> bool:
        return sum(value.n for value in bins.profiles["region"].values) == people

    return lambda: audit()["a"].bins(), is_right


def selection_rates(rows: Rows, replicates: int = 0) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """Fairlearn: one selection rate by group, without intervals or with a bootstrap."""
    from fairlearn.metrics import MetricFrame, selection_rate

    group, selected = rows["frame"]["group"].to_numpy(), rows["selected"].astype(int)
    options = {"n_boot": replicates, "ci_quantiles": [0.025, 0.975], "random_state": 0} if replicates else {}
    expected = selected[rows["group"]].mean()

    def run() -> Any:
        frame = MetricFrame(
            metrics=selection_rate, y_true=selected, y_pred=selected, sensitive_features=group, **options
        )
        return frame.by_group

    return run, lambda found: abs(found["a"] - expected) < 1e-9


def shap_difference(rows: Rows) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """Shap: difference of the mean attributions of a model of the score, on a sample; it has no interval."""
    import shap
    from sklearn.ensemble import HistGradientBoostingRegressor

    table = rows["frame"].select("region", "amount", "years").to_numpy().astype(float)
    model = HistGradientBoostingRegressor(max_iter=50, random_state=0).fit(table[:50_000], rows["score"][:50_000])
    sample, group = table[:EXPLAINED_ROWS], rows["group"][:EXPLAINED_ROWS]
    expected = model.predict(sample)
    explainer = shap.TreeExplainer(model)

    def is_right(values: Any) -> bool:
        gap = expected[group].mean() - expected[~group].mean()
        return abs(values[group].sum(axis=1).mean() - values[~group].sum(axis=1).mean() - gap) < 1e-6

    return lambda: explainer.shap_values(sample), is_right


READ, READ_ALL, MOMENTS = "read 3 columns", "read 7 columns", "moments"
AUDIT, PEER = "audit, 4 features, all intervals", "fairlearn selection rate by group"
DRAWN = "the same and the bins of its figures"
CONTENDERS: dict[str, tuple[str, Callable[[Rows], Any], int]] = {
    READ: ("tiltlens", read, 10**9),
    MOMENTS: ("tiltlens", moments, 10**9),
    READ_ALL: ("tiltlens", read_all, 10**9),
    AUDIT: ("tiltlens", whole_audit, 10**9),
    DRAWN: ("tiltlens", drawn_audit, 10**9),
    PEER: ("fairlearn", selection_rates, 10**9),
    f"fairlearn, {REPLICATES} bootstrap replicates": (
        "fairlearn",
        lambda rows: selection_rates(rows, REPLICATES),
        LARGEST_BOOTSTRAP,
    ),
    f"shap difference, {EXPLAINED_ROWS:,} rows": ("shap", shap_difference, 10**9),
}
QUICK = (READ, READ_ALL, MOMENTS, AUDIT, DRAWN)  # the best of several runs, however many rows


class Time(NamedTuple):
    """Seconds by the clock, and of all cores: the second is less disturbed by other work on the machine."""

    seconds: float
    work: float


def timed(name: str, package: str, make: Callable[[Rows], Any], rows: Rows) -> Time | str:
    """Return the shortest time, or why there is none; every run's answer is checked."""
    if importlib.util.find_spec(package) is None:
        return "not installed"
    run, is_right = make(rows)
    times = []
    for _ in range(4 if name in QUICK or len(rows["score"]) <= LARGEST_ROWS else 1):
        start, worked = time.perf_counter(), time.process_time()
        found = run()
        times.append(Time(time.perf_counter() - start, time.process_time() - worked))
        assert is_right(found)
    return Time(*(min(column) for column in zip(*times, strict=True)))


def exponent(times: dict[int, Time | str]) -> float | None:
    """Return the slope of log time over log rows, from 100,000 rows on."""
    known = {size: t.seconds for size, t in times.items() if isinstance(t, Time) and size >= 100_000}
    points = [(math.log(size), math.log(seconds)) for size, seconds in known.items()]
    return float(np.polyfit(*zip(*points, strict=True), 1)[0]) if len(points) > 1 else None


def table(found: dict[str, dict[int, Time | str]], sizes: Sequence[int]) -> str:
    """Return seconds by the clock and, in brackets, of all cores."""
    lines = ["| seconds (of all cores) | " + " | ".join(f"{size:,} rows" for size in sizes) + " | growth |"]
    lines.append("|---" * (len(sizes) + 2) + "|")
    for name, times in found.items():
        growth = exponent(times)
        cells = [f"{t.seconds:.4f} ({t.work:.4f})" if isinstance(t, Time) else t for t in times.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {'–' if growth is None else f'{growth:.2f}'} |")
    return "\n".join(lines)


def limits(times: dict[str, Time | str], size: int) -> Iterator[Row]:
    """Yield what the table says of the limits, by the clock."""

    def ratio(one: str, other: str) -> float:
        mine, theirs = times[one], times[other]
        return mine.seconds / theirs.seconds if isinstance(mine, Time) and isinstance(theirs, Time) else math.nan

    if size < LIMITED_FROM:
        return
    at = f"{size:,} rows"
    yield Row(f"moments, {at}", ratio(MOMENTS, READ), "reads of their 3 columns", most=MOST_READS)
    audit = times[AUDIT]
    yield Row(f"audit, {at}, 4 features", audit.seconds if isinstance(audit, Time) else math.nan, "s", most=MOST_AUDIT)
    yield Row(f"audit, {at}, 4 features", ratio(AUDIT, READ_ALL), "reads of its 7 columns", most=MOST_AUDIT_READS)
    yield Row(f"audit, {at}, 4 features", ratio(AUDIT, READ), "reads of the 3 columns of the moments")
    peer = "times faster than fairlearn's selection rate"
    yield Row(f"moments, {at}", ratio(PEER, MOMENTS), peer, least=TIMES_FASTER)
    yield Row(f"audit, {at}, 4 features", ratio(PEER, AUDIT), peer)


def measured(sizes: Sequence[int] = SIZES, json_file: str | None = "bench.json") -> Iterator[Row]:
    """Print the table, write it as JSON, and yield what it says of the limits."""
    found: dict[str, dict[int, Time | str]] = {name: {} for name in CONTENDERS}
    for size in sizes:
        rows = rows_of(size)
        for name, (package, make, largest) in CONTENDERS.items():
            found[name][size] = timed(name, package, make, rows) if size <= largest else "left out: too slow"
    print(table(found, sizes) + "\n")
    if json_file:
        plain = {
            name: {n: t._asdict() if isinstance(t, Time) else t for n, t in by.items()} for name, by in found.items()
        }
        Path(json_file).write_text(json.dumps(plain, indent=2))
    yield from limits({name: times[max(sizes)] for name, times in found.items()}, max(sizes))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--json", help="file to write the numbers to")
    options = parser.parse_args(arguments)
    return 1 if printed(measured(options.sizes, options.json)) else 0


if __name__ == "__main__":
    sys.exit(main())
