"""An audit of 1,000,000 rows × 20 features with all intervals, against one logistic fit on plain one-hot columns."""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter

import numpy as np
import polars as pl

import tiltlens as tl
from benchmarks.tables import mixed_features
from tiltlens.models.design import encoded_rows, encoding
from tiltlens.models.features import design_columns, encode_features

CHUNK = 50_000
MOST_FITS = 4
MOST_MEMORY = 6 * 2**30


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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    table, stages = mixed_features(parser.parse_args().rows), Stages()
    start = time.perf_counter()
    c = tl.audit(table, group="group", reference="b", scores="score", progress=stages)["a"]
    seconds = time.perf_counter() - start
    gap = table.filter(group="a")["score"].mean() - table.filter(group="b")["score"].mean()
    assert abs(c.gap.value - gap) < 1e-9
    assert c.gap.low < c.gap.value < c.gap.high
    assert c.proxies["feature"][0] == "x0", c.proxies["feature"][0]
    assert c.proxies["verdict"][0] == "proxy evidence"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    fit, columns = logistic_seconds(table)
    plain, dummies = one_hot_seconds(table)
    print(f"audit, {len(table):,} rows x 20 features: {seconds:.1f} s, {seconds / plain:.1f} logistic fits")
    print(f"  where the time goes: {stages}")
    print(f"  one fit on {dummies} plain one-hot columns: {plain:.1f} s")
    print(f"  one fit on the membership model's {columns} columns: {fit:.1f} s, {seconds / fit:.1f} of them an audit")
    print(f"  peak memory before the fits: {memory / 2**30:.2f} GiB")
    assert memory < MOST_MEMORY
    assert seconds <= MOST_FITS * plain


if __name__ == "__main__":
    main()
