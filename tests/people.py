"""People whose two groups differ in known ways, every way to hold their table, and how two audits are compared."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import cache

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, logit, softmax

import tiltlens as tl

FEATURES = ["income", "city", "owner", "since"]
WAYS = {
    "plug-in": {"folds": None},
    "known membership": {"propensity": "chance"},
    "fitted membership": {},
    "fitted membership, weights": {"sample_weight": "weight"},
    "amounts": {"score_type": "amount", "propensity": "chance", "sample_weight": "weight"},
}

CLEAN = pl.DataFrame(
    {
        "flag": [True, None, False, True],
        "count": [3, 1, None, -2],
        "amount": [0.5, None, float("inf"), 2.0],
        "city": ["Zürich", None, "<b>Bern</b>", "😀"],
        "day": [date(2020, 1, 31), None, date(1969, 12, 31), date(2021, 2, 3)],
        "moment": [datetime(2020, 1, 31, 12, 30), None, datetime(1969, 12, 31), datetime(2021, 2, 3)],
    },
    schema_overrides={"moment": pl.Datetime("us")},
)


@cache
def people(rows=400, seed=3):
    """Return numbers with gaps, texts, booleans and dates that differ between two groups, with a score of them."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.45
    income = random.normal(50 - 6 * audited, 10, rows)
    city = np.where(
        random.random(rows) < 0.3 + 0.25 * audited, "North", np.where(random.random(rows) < 0.5, "Süd", "East")
    )
    owner = random.random(rows) < 0.5 - 0.15 * audited
    days = random.integers(0, 700, rows) + 30 * audited
    score = expit(0.05 * (income - 48) + 0.5 * owner - 0.4 * (city == "North") + 0.3 * random.normal(size=rows))
    return pl.DataFrame(
        {
            "group": np.where(audited, "A", "B"),
            "income": pl.Series(np.where(random.random(rows) < 0.05, np.nan, income)).fill_nan(None),
            "city": city,
            "owner": owner,
            "since": [date(2020, 1, 1) + timedelta(days=int(day)) for day in days],
            "score": score,
            "weight": random.integers(1, 4, rows),
            "chance": expit(0.7 * (city == "North") - 0.06 * (income - 47) - 0.5 * owner - 0.3),
        }
    )


@cache
def classed(rows=400):
    """Return people with probabilities of three classes beside their score, and weights that differ much."""
    frame = people(rows)
    score = frame["score"].to_numpy()
    classes = softmax(np.column_stack([0.3 - score, score**2, 2 * score]), axis=1)
    uneven = np.exp(np.random.default_rng(7).normal(0, 2, rows))  # no batch has the largest weight of another
    columns = (pl.Series(name, classes[:, y]) for y, name in enumerate(("none", "some", "all")))
    return frame.with_columns(*columns, uneven=pl.Series(uneven))


@cache
def lending(rows=4_000, seed=0):
    """Return people of three groups whose group shows in region and amount, in a way that is known."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.4
    region = np.where(audited & (random.random(rows) < 0.2), 0, random.integers(0, 6, rows))
    amount = random.normal(50 - 4 * audited, 10, rows)
    years, job = random.integers(0, 40, rows), random.integers(0, 8, rows)
    score = expit(0.04 * (amount - 48) - 0.3 * (region == 0) + 0.02 * (years - 20) + 0.1 * (job == 3))
    ell = np.where(region == 0, np.log((0.2 + 0.8 / 6) * 6), np.log(0.8)) - 4 * (amount - 48) / 100
    group = np.where(audited, "a", np.where(random.random(rows) < 0.05, "c", "b"))
    return pl.DataFrame(
        {
            "group": group,
            "region": region.astype(np.int8),
            "job": np.char.add("job ", job.astype(str)),
            "amount": np.where(random.random(rows) < 0.03, np.nan, amount),
            "years": years,
            "score": score,
            "chance": expit(logit(0.4) + ell),
            "weight": random.integers(1, 4, rows).astype(float),
            "none": 0.6 * (1 - score),
            "some": 0.4 * (1 - score),
            "all": score,
        }
    )


def audited(data, **options):
    """Return the audit of people."""
    return tl.audit(data, **{"group": "group", "reference": "B", "scores": "score", "features": FEATURES} | options)


def assert_same_numbers(found, expected, within=1e-9, place="audit"):
    """Assert that two summaries are equal, their numbers up to `within`, naming the first place that is not."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for key in expected.keys() - {"provenance"}:  # when it was made
            assert_same_numbers(found[key], expected[key], within, f"{place}.{key}")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), place
        for at, pair in enumerate(zip(found, expected, strict=True)):
            assert_same_numbers(*pair, within, f"{place}[{at}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=within, abs=within), place
    else:
        assert found == expected, place


def in_files(frame, folder, ending, parts=3):
    """Return the pattern of files that hold the rows of a frame."""
    for part in range(parts):
        start, stop = (place * frame.height // parts for place in (part, part + 1))
        path = folder / f"part-{part}.{ending}"
        rows = frame.slice(start, stop - start)
        rows.write_parquet(path) if ending == "parquet" else rows.write_csv(path)
    return str(folder / f"*.{ending}")


def in_pandas(frame):
    """Return a frame as pandas holds one, with missing values where it has them."""
    dtypes = {pl.Int64: "Int64", pl.Boolean: "boolean", pl.Float64: "float64", pl.String: "str"}
    return pd.DataFrame(
        {
            column.name: pd.Series(
                column.to_list(),
                dtype=dtypes.get(column.dtype, "datetime64[us]" if column.dtype == pl.Datetime else object),
            )
            for column in frame
        }
    )


def in_arrays(frame):
    """Return a frame as a dict of numpy arrays."""
    return {column.name: _array(column) for column in frame}


def _array(column):
    if column.dtype in (pl.Int64, pl.Boolean):
        return np.ma.array(column.fill_null(0 if column.dtype == pl.Int64 else False).to_numpy(), mask=column.is_null())
    if column.dtype == pl.String:
        return np.array(column.to_list(), dtype=object)
    return column.to_numpy()


ENGINES = {
    "pandas": in_pandas,
    "polars": lambda frame: frame,
    "polars lazy": lambda frame: frame.lazy(),
    "pyarrow": lambda frame: frame.to_arrow(),
    "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow()),
    "dict of numpy": in_arrays,
}
FILES = {
    "parquet file": ("parquet", 1),
    "parquet files": ("parquet", 3),
    "csv file": ("csv", 1),
    "csv files": ("csv", 3),
}
SPARK = pytest.param("spark", marks=[pytest.mark.java, pytest.mark.filterwarnings("ignore")])  # it warns of much
SOURCES = [*ENGINES, *FILES, SPARK]  # of the fixture `held`
IN_PROCESS = ["pandas", "duckdb", "csv files"]
ONE_OF_EACH_KIND = [*IN_PROCESS, SPARK]


def along(sources, *values):
    """Return parameters of two or more arguments, the first of which is a source: marks of a source stay with it."""
    return [
        pytest.param(*source.values, *values, marks=source.marks) if source is SPARK else (source, *values)
        for source in sources
    ]


def note_codes(comparison):
    """Return the codes of a comparison's notes."""
    return {note.code for note in comparison.checks.notes}
