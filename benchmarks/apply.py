"""A repair of 1.4 million rows beside the prediction of a scikit-learn pipeline on the same rows."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy.special import expit, logit
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tiltlens as tl
from benchmarks.timing import Row, best_of, printed

ROWS, AUDITED = 1_400_000, 20_000
COPIES = 8  # of the file: more rows than one batch has for each thread
MOST_PREDICTIONS = 5
MOST_MEMORY = 1.5  # times: it must not grow with the rows
SCRIPT = """
import glob, resource, sys, time
import tiltlens as tl
tilt = tl.read_repair("repair.json")
start = time.perf_counter()
tilt.apply(sorted(glob.glob("rows*.parquet"))[: int(sys.argv[1])], "score", out="repaired.parquet")
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""
NUMBERS, TEXTS = ["age", "hours", "income", "debt"], ["school", "job", "region", "family"]
LEVELS = [16, 25, 9, 6]  # as many as of census tables


def people(rows: int, seed: int) -> pd.DataFrame:
    """Return people of two groups that differ in every column, and an outcome that goes by all of them."""
    rng = np.random.default_rng(seed)
    audited = rng.random(rows) < 0.4
    table = {name: rng.normal(40 + 3 * at - 2 * audited, 10) for at, name in enumerate(NUMBERS)}
    effect = sum(0.02 * (table[name] - 40) for name in NUMBERS)
    for name, levels in zip(TEXTS, LEVELS, strict=True):
        code = (rng.integers(0, levels, rows) + (rng.random(rows) < 0.3 * audited)) % levels
        table[name] = np.char.add(f"{name} ", code.astype(str))
        effect = effect + 0.3 * (code % 3 - 1)
    outcome = rng.random(rows) < expit(effect - 0.5)
    return pd.DataFrame({**table, "group": np.where(audited, "a", "b"), "outcome": outcome})


def fitted(features: list[str]) -> tuple[Any, tl.ScoreTilt, pd.DataFrame]:
    """Return a model of some features, the repair of its scores, and many new rows with their scores."""
    texts = [name for name in features if name in TEXTS]
    encoder = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), texts))
    table, rows = people(AUDITED, seed=0), people(ROWS, seed=1)
    model = make_pipeline(encoder, LogisticRegression()).fit(table[features], table["outcome"])
    for one in (table, rows):
        one["score"] = model.predict_proba(one[features])[:, 1]
    c = tl.audit(table, group="group", reference="b", scores="score", features=features, folds=None)["a"]
    return model, c.repair(), rows


def measured() -> Iterator[Row]:
    """Yield how many predictions a repair takes, of a pandas frame and of a file, and the memory of many files."""
    for what, features in {"numbers and texts": NUMBERS + TEXTS, "numbers": NUMBERS}.items():
        model, tilt, rows = fitted(features)
        found = tilt.apply(rows, "score")
        _check(tilt, rows, found)
        predicted = best_of(3, lambda: model.predict_proba(rows[features]))  # noqa: B023
        ours = best_of(3, lambda: tilt.apply(rows, "score"))  # noqa: B023
        name = f"repair of {ROWS:,} rows, {what}"
        detail = f"{ours:.2f} s; prediction {predicted:.2f} s"
        yield Row(f"{name}, pandas", ours / predicted, "predictions", most=MOST_PREDICTIONS, detail=detail)
        if features == NUMBERS:
            return
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "rows.parquet")
            pl.from_pandas(rows).write_parquet(source)
            tilt.to_json(Path(folder, "repair.json"))
            ours, once = _of_files(folder, 1, found)
            detail = f"{ours:.2f} s, read and written"
            yield Row(f"{name}, Parquet file", ours / predicted, "predictions", most=MOST_PREDICTIONS, detail=detail)
            _, often = _of_files(folder, COPIES, found)
        detail = f"{once:.2f} GiB of one file, {often:.2f} GiB of {COPIES}, in a process of its own"
        yield Row("peak memory, many files over one", often / once, "times", most=MOST_MEMORY, detail=detail)


def _of_files(folder: str, copies: int, expected: np.ndarray) -> tuple[float, float]:
    """Return the seconds and the peak memory in GiB of a process that repairs some copies of a file."""
    for number in range(1, copies):
        shutil.copy(Path(folder, "rows.parquet"), Path(folder, f"rows{number}.parquet"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(copies)], cwd=folder, capture_output=True, text=True, check=True
    )
    found = pl.read_parquet(Path(folder, "repaired.parquet"), columns=["score_repaired"]).to_series().to_numpy()
    np.testing.assert_allclose(found, np.tile(expected, copies), rtol=0, atol=1e-9)
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def _check(tilt: tl.ScoreTilt, rows: pd.DataFrame, found: np.ndarray) -> None:
    """Assert that the gap is closed up to chance, and that a few scores are those of the formula."""
    mine = (rows["group"] == "a").to_numpy()
    before = rows["score"].to_numpy()
    gaps = [scores[mine].mean() - scores[~mine].mean() for scores in (before, found)]
    assert abs(gaps[0]) > 0.03, gaps
    assert abs(gaps[1]) < 4 * before.std() * np.sqrt(2 / (0.4 * AUDITED)), gaps
    some = pl.from_pandas(rows.head(1000))
    m, constraint = tilt.models[0].model, tilt.constraints[0]
    chance = expit(m.columns(m.checked_table(some)) @ m.slopes + m.intercept)
    a = chance / constraint.shares[0] - (1 - chance) / constraint.shares[1]
    np.testing.assert_allclose(found[:1000], expit(logit(before[:1000]) - constraint.multiplier * a), rtol=0, atol=1e-9)


if __name__ == "__main__":
    sys.exit(printed(measured()) > 0)
