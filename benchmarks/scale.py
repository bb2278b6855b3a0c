"""Audits of 1,000,000 rows × 20 features with all intervals, against one logistic fit on plain one-hot columns."""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

import tiltlens as tl
from benchmarks.tables import mixed_features
from benchmarks.timing import Row, printed
from tiltlens._estimators.verdicts import Verdict
from tiltlens._learners.design import encoded_rows, encoding
from tiltlens._rows.features import design_columns, encode_features

ROWS = 1_000_000
CHUNK = 50_000
MOST_FITS = 5
MOST_MEMORY = 6  # GiB
TABLES = {
    "20 features": mixed_features,
    "10 numbers and 10 categories of 8 levels": partial(mixed_features, numbers=10, levels=[8] * 10),
}


def logistic_seconds(table: pl.DataFrame) -> tuple[float, int]:
    """Return the time of one logistic fit of the group on the membership model's encoded matrix, and its columns."""
    from sklearn.linear_model import LogisticRegression

    columns = design_columns(encode_features(table, [name for name in table.columns if name[0] in "xc"]))
    encoder = encoding(columns, encoded_rows(len(table), 0))
    matrix = np.empty((len(table), len(encoder.kinds)))
    for start in range(0, len(table), CHUNK):
        chunk = slice(start, min(start + CHUNK, len(table)))
        matrix[chunk] = encoder.matrix(columns, chunk)
    target = (table["group"] == "a").to_numpy()
    begin = time.perf_counter()
    LogisticRegression(max_iter=1000).fit(matrix, target)
    return time.perf_counter() - begin, matrix.shape[1]


def one_hot_seconds(table: pl.DataFrame) -> tuple[float, int]:
    """Return the time of one logistic fit of the group on numbers and one-hot levels alone, and its columns."""
    from sklearn.linear_model import LogisticRegression

    numeric, levels = ([name for name in table.columns if name[0] == kind] for kind in "xc")
    matrix = np.hstack([table.select(numeric).to_numpy(), table.select(levels).to_dummies().to_numpy()])
    target = (table["group"] == "a").to_numpy()
    begin = time.perf_counter()
    LogisticRegression(max_iter=1000).fit(matrix, target)
    return time.perf_counter() - begin, matrix.shape[1]


class Stages:
    """Hears how far an audit has come, and adds up the seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.name, self.since = "", time.perf_counter()

    def __call__(self, name: str, part: float) -> None:
        """Add the time since the last call to the stage that was named then."""
        now = time.perf_counter()
        self.seconds[self.name] += now - self.since
        self.name, self.since = "the rest" if name == "a" else name.removeprefix("a: "), now

    def __str__(self) -> str:
        return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.most_common() if seconds >= 0.1)


def measured(rows: int = ROWS) -> Iterator[Row]:
    """Yield each audit's time in logistic fits and the memory; x0 must carry the gap."""
    tl.audit(mixed_features(2_000), group="group", reference="b", scores="score")  # libraries load outside the clock
    for features, table in TABLES.items():
        yield from of_table(table(rows), f"audit, {rows:,} rows x {features}")


def of_table(table: pl.DataFrame, what: str) -> Iterator[Row]:
    """Yield the same of one table."""
    stages = Stages()
    start = time.perf_counter()
    c = tl.audit(table, group="group", reference="b", scores="score", progress=stages)["a"]
    seconds = time.perf_counter() - start
    gap = table.filter(group="a")["score"].mean() - table.filter(group="b")["score"].mean()
    assert abs(c.gap.value - gap) < 1e-9
    assert c.gap.low < c.gap.value < c.gap.high
    assert c.contributions_full["feature"][0] == "x0", c.contributions_full["feature"][0]
    assert c.contributions_full["verdict"][0] == Verdict.POTENTIAL_PROXY, c.contributions_full["verdict"][0]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    plain, dummies = one_hot_seconds(table)
    detail = f"{seconds:.1f} s; one fit on {dummies} plain one-hot columns {plain:.1f} s; {stages}"
    yield Row(what, seconds / plain, "logistic fits", most=MOST_FITS, detail=detail)
    yield Row(f"{what}, peak memory of the process so far", memory / 2**30, "GiB", most=MOST_MEMORY)
    fit, columns = logistic_seconds(table)
    detail = f"one fit on the membership model's {columns} columns {fit:.1f} s"
    yield Row(what, seconds / fit, "fits on the membership model's columns", detail=detail)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    return 1 if printed(measured(parser.parse_args().rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
