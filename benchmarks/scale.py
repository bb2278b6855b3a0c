"""An audit of 1,000,000 rows × 20 features with all intervals, against one logistic fit on plain one-hot columns."""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter

import numpy as np
import polars as pl
from scipy.special import expit

import tiltlens as tl
from tiltlens.models.design import encoded_rows, encoding
from tiltlens.models.features import design_columns, encode_features

CHUNK = 50_000
MOST_FITS = 8
MOST_FITS_WITH_TOTALS = 20
MOST_MEMORY = 6 * 2**30


def made_table(rows: int, seed: int = 0) -> pl.DataFrame:
    """Return 12 numeric and 8 categorical features, a group that some of them reveal, and a score that uses some."""
    rng = np.random.default_rng(seed)
    audited = rng.random(rows) < 0.4
    numeric = rng.normal(size=(rows, 12)) + 0.3 * audited[:, None] * (np.arange(12) < 4)
    levels = [4, 5, 6, 8, 10, 12, 20, 50]
    codes = [rng.integers(0, k, rows) for k in levels]
    codes[0] = np.where(audited & (rng.random(rows) < 0.2), 0, codes[0])
    score = expit(0.6 * numeric[:, 0] - 0.3 * numeric[:, 5] + 0.4 * (codes[0] == 0) + 0.2 * (codes[3] > 3) - 0.5)
    columns = {f"x{j}": numeric[:, j] for j in range(12)}
    columns |= {f"c{j}": pl.Series(code).cast(pl.String) for j, code in enumerate(codes)}
    return pl.DataFrame({"group": np.where(audited, "a", "b"), "score": score, **columns})


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
    table = made_table(parser.parse_args().rows)
    times, stages = {}, Stages()
    for totals in (False, True):
        listener = None if totals else stages
        start = time.perf_counter()
        options = {"scores": "score", "total_shares": totals, "progress": listener}
        c = tl.audit(table, group="group", reference="b", **options)["a"]
        times[totals] = time.perf_counter() - start
        gap = table.filter(group="a")["score"].mean() - table.filter(group="b")["score"].mean()
        assert abs(c.gap.value - gap) < 1e-9
        assert c.gap.low < c.gap.value < c.gap.high
        assert c.proxies["feature"][0] == "x0", c.proxies["feature"][0]
        assert c.proxies["verdict"][0] == "proxy evidence"
        assert (c.proxies["total_share"].null_count() == len(c.proxies)) == (not totals)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    fit, columns = logistic_seconds(table)
    plain, dummies = one_hot_seconds(table)
    print(f"audit, {len(table):,} rows x 20 features: {times[False]:.1f} s, {times[False] / plain:.1f} logistic fits")
    print(f"  where the time goes: {stages}")
    print(f"  with total shares: {times[True]:.1f} s, {times[True] / plain:.1f} fits")
    print(f"  one fit on {dummies} plain one-hot columns: {plain:.1f} s")
    print(
        f"  one fit on the membership model's {columns} columns: {fit:.1f} s, {times[False] / fit:.1f} of them an audit"
    )
    print(f"  peak memory before the fits: {memory / 2**30:.2f} GiB")
    assert memory < MOST_MEMORY
    assert times[False] <= MOST_FITS * plain
    assert times[True] <= MOST_FITS_WITH_TOTALS * plain


if __name__ == "__main__":
    main()
