"""Ours and the peers on the same rows in the same run: a table, and JSON for those who plot it.

Run `python -m benchmarks.peers --sizes 10000 100000 1000000 [--json FILE]`. Each row asserts its answer before it
reports a time; a peer that is not installed is a row that says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tiltmeter as tm
from benchmarks.stream import ARGUMENTS, made_chunk
from benchmarks.timing import best_of
from tiltmeter.engines.arrays import moments_by_group

SIZES = (10_000, 100_000, 1_000_000)
LARGEST_BOOTSTRAP = 100_000  # rows: a replicate of fairlearn takes a second at 300,000
REPLICATES = 20
EXPLAINED_ROWS = 2_000
TIMES_FASTER = 100

Rows = dict[str, Any]


def rows_of(size: int) -> Rows:
    """Return a frame with given membership, and its columns as arrays."""
    parts = [made_chunk(min(1_000_000, size - start), seed) for seed, start in enumerate(range(0, size, 1_000_000))]
    frame = parts[0].vstack(parts[1]) if len(parts) == 2 else parts[0]
    for part in parts[2:]:
        frame = frame.vstack(part)
    frame = frame.rechunk()
    chance = frame["chance"].to_numpy()
    return {
        "frame": frame,
        "group": (frame["group"] == "a").to_numpy(),
        "score": frame["score"].to_numpy(),
        "selected": frame["score"].to_numpy() > 0.5,
        "log_odds": np.log(chance) - np.log1p(-chance),
    }


def read(rows: Rows) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """Read the columns once: the least that anything can cost."""
    return lambda: rows["log_odds"].sum() + rows["score"].sum() + rows["group"].sum(), lambda _: True


def moments(rows: Rows) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """Everything the correction function needs."""
    expected = rows["score"][rows["group"]].mean()

    def is_right(found: Any) -> bool:
        return abs(found[1].output[1] - expected) < 1e-9

    return lambda: moments_by_group(rows["log_odds"], rows["score"], rows["group"], 2), is_right


def whole_audit(rows: Rows) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    """The audit with all intervals and four features, from given score and membership columns."""
    expected = rows["score"][rows["group"]].mean() - rows["score"][~rows["group"]].mean()

    def is_right(found: Any) -> bool:
        return abs(found["a"].gap.value - expected) < 1e-9 and found["a"].gap.low < expected < found["a"].gap.high

    return lambda: tm.audit(rows["frame"], **ARGUMENTS), is_right


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


CONTENDERS: dict[str, tuple[str, Callable[[Rows], Any], int]] = {
    "read the columns": ("tiltmeter", read, 10**9),
    "moments": ("tiltmeter", moments, 10**9),
    "audit, 4 features, all intervals": ("tiltmeter", whole_audit, 10**9),
    "fairlearn selection rate by group": ("fairlearn", selection_rates, 10**9),
    f"fairlearn, {REPLICATES} bootstrap replicates": (
        "fairlearn",
        lambda rows: selection_rates(rows, REPLICATES),
        LARGEST_BOOTSTRAP,
    ),
    f"shap difference, {EXPLAINED_ROWS:,} rows": ("shap", shap_difference, 10**9),
}


def timed(package: str, make: Callable[[Rows], Any], rows: Rows) -> float | str:
    """Return seconds, or why there are none."""
    if importlib.util.find_spec(package) is None:
        return "not installed"
    run, is_right = make(rows)
    assert is_right(run())
    return best_of(3 if len(rows["score"]) <= 1_000_000 else 1, run)


def exponent(times: dict[int, float | str]) -> float | None:
    """Return the slope of log time over log rows, from 100,000 rows on."""
    points = [(math.log(size), math.log(t)) for size, t in times.items() if isinstance(t, float) and size >= 100_000]
    return float(np.polyfit(*zip(*points, strict=True), 1)[0]) if len(points) > 1 else None


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--json", help="file to write the numbers to")
    options = parser.parse_args(arguments)
    found: dict[str, dict[int, float | str]] = {name: {} for name in CONTENDERS}
    for size in options.sizes:
        rows = rows_of(size)
        for name, (package, make, largest) in CONTENDERS.items():
            found[name][size] = timed(package, make, rows) if size <= largest else "left out: too slow"
    print("| seconds | " + " | ".join(f"{size:,} rows" for size in options.sizes) + " | growth |")
    print("|---" * (len(options.sizes) + 2) + "|")
    for name, times in found.items():
        growth = exponent(times)
        cells = [f"{t:.4f}" if isinstance(t, float) else t for t in times.values()]
        print(f"| {name} | " + " | ".join(cells) + f" | {'–' if growth is None else f'{growth:.2f}'} |")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2))
    largest = max(options.sizes)
    ours, theirs = found["moments"][largest], found["fairlearn selection rate by group"][largest]
    if isinstance(ours, float) and isinstance(theirs, float):
        print(f"\nmoments against fairlearn's selection rate at {largest:,} rows: {theirs / ours:.0f} times faster")
        assert largest < 1_000_000 or theirs >= TIMES_FASTER * ours


if __name__ == "__main__":
    main()
