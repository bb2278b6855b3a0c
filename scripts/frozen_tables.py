"""Make the tables that `frozen.py` audits, in memory, in files and on other engines."""

from __future__ import annotations

import math
import os
import sqlite3
import sys
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from tiltlens.datasets import COMPAS_FEATURES, load_compas

CLASSES = ["none", "some", "all"]
GRADES = pl.Enum(["low", "mid", "high", "top"])


def squash(values: Any) -> Any:
    """Return 1/(1 + e^−x)."""
    return 1.0 / (1.0 + np.exp(-np.asarray(values, dtype=np.float64)))


def normalize_exponentials(values: Any) -> Any:
    """Return probabilities that are proportional to e^x in each row."""
    raised = np.exp(values - values.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


@cache
def make_compas() -> pl.DataFrame:
    """Return the COMPAS records with the paper's scores: a logistic regression of re-arrest on the five codes."""
    data = load_compas()
    codes = data.select(f"{name}_code" for name in COMPAS_FEATURES).to_numpy().astype(np.float64)
    design, target = np.column_stack([np.ones(data.height), codes]), data["is_recid"].to_numpy().astype(np.float64)
    beta = np.zeros(design.shape[1])
    for _ in range(30):
        mean = squash(design @ beta)
        beta += np.linalg.solve((design.T * (mean * (1 - mean))) @ design, design.T @ (target - mean))
    return data.with_columns(score=pl.Series(squash(design @ beta)))


@cache
def make_people(rows: int = 800, seed: int = 1) -> pl.DataFrame:
    """Return two groups with every kind of feature, a score, weights, and the true P(A|x)."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.45
    income, is_income_present = random.normal(50 - 6 * audited, 10, rows), random.random(rows) > 0.06
    owner = random.random(rows) < 0.5 - 0.15 * audited
    children, age = random.poisson(1.2, rows).clip(0, 4), random.normal(44, 11, rows)
    city = np.where(random.random(rows) < 0.25 * audited, 0, (random.random(rows) ** 2 * 26).astype(int))
    grade, days = random.integers(0, 4, rows), random.integers(0, 900, rows)
    log_odds = compute_log_odds(np.where(is_income_present, income, 47), owner, city)
    score = squash(0.05 * (income - 48) * is_income_present + 0.6 * owner - 0.5 * (city == 0) + 0.15 * (children - 1))
    return pl.DataFrame(
        {
            "group": np.where(audited, "A", "B"),
            "income": pl.Series(np.where(is_income_present, income, np.nan)).fill_nan(None),
            "age": age,
            "children": children,
            "city": [f"city {number:02}" for number in city],
            "owner": [None if random.random() < 0.04 else bool(value) for value in owner],
            "since": [date(2020, 1, 1) + timedelta(days=int(day)) for day in days],
            "seen": [datetime(2021, 3, 1) + timedelta(minutes=int(day) * 37) for day in random.permutation(days)],
            "grade": GRADES.categories.gather(grade).cast(GRADES),
            "branch": ["main"] * rows,
            "person": [f"person {number:05}" for number in random.permutation(rows)],
            "score": np.clip(score + random.normal(0, 0.03, rows), 0.01, 0.99),
            "weight": random.integers(1, 4, rows).astype(np.float64),
            "uneven": np.exp(random.normal(0, 0.8, rows)),
            "chance": squash(log_odds),
            "sex": random.choice(["f", "m"], rows),
            "repaid": random.integers(0, 2, rows),
        }
    )


def compute_log_odds(income: Any, owner: Any, city: Any) -> Any:
    """Return the log-odds of group A, given the features that differ between the groups of `make_people`."""
    first = math.sqrt(1 / 26)  # P(city 0) in the reference group: the square of a uniform number is below 1/26
    by_city = np.where(city == 0, math.log((0.25 + 0.75 * first) / first), math.log(0.75))
    by_owner = np.where(owner, math.log(0.35 / 0.5), math.log(0.65 / 0.5))
    return math.log(0.45 / 0.55) - 0.06 * (income - 47) + by_city + by_owner


@cache
def make_lending(rows: int = 2_000, seed: int = 2) -> pl.DataFrame:
    """Return three groups with four features, a score, three classes and P(a|x) against b."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.4
    region = np.where(audited & (random.random(rows) < 0.2), 0, random.integers(0, 6, rows))
    amount = random.normal(50 - 4 * audited, 10, rows)
    years, job = random.integers(0, 40, rows), random.integers(0, 8, rows)
    score = squash(0.04 * (amount - 48) - 0.3 * (region == 0) + 0.02 * (years - 20) + 0.1 * (job == 3))
    ratio = np.where(region == 0, math.log((0.2 + 0.8 / 6) * 6), math.log(0.8)) - 4 * (amount - 48) / 100
    classes = normalize_exponentials(np.column_stack([0.3 - score, score**2, 2 * score]))
    return pl.DataFrame(
        {
            "group": np.where(audited, "a", np.where(random.random(rows) < 0.3, "c", "b")),
            "region": region.astype(np.int8),
            "job": pl.Series(job).cast(pl.String),
            "amount": pl.Series(np.where(random.random(rows) < 0.03, np.nan, amount)).fill_nan(None),
            "years": years,
            "score": score,
            "decision": (random.random(rows) < score).astype(np.int64),
            "chance": squash(math.log(0.4 / 0.6) + ratio),
            "weight": random.integers(1, 4, rows).astype(np.float64),
            "good": random.random(rows) < 0.6,
            **{name: classes[:, number] for number, name in enumerate(CLASSES)},
        }
    )


def make_lending_pair(rows: int = 2_000) -> pl.DataFrame:
    """Return groups a and b alone."""
    return make_lending(rows).filter(pl.col("group") != "c")


def make_tiny_groups() -> pl.DataFrame:
    """Return groups of hundreds, of 40, of 14, of 6, and of 1."""
    index = pl.int_range(pl.len())
    small = pl.when(index < 40).then(pl.lit("forty")).when(index < 54).then(pl.lit("fourteen"))
    small = small.when(index < 60).then(pl.lit("six")).when(index < 61).then(pl.lit("one"))
    return make_lending(600, 5).with_columns(group=small.otherwise(pl.lit("most")))


def make_lending_with_missing_values() -> pl.DataFrame:
    """Return lending with missing scores, missing groups and weights of 0."""
    index = pl.int_range(pl.len())
    return make_lending_pair().with_columns(
        score=pl.when(index % 11 == 3).then(None).otherwise("score"),
        group=pl.when(index % 13 == 5).then(None).otherwise("group"),
        weight=pl.when(index % 17 == 7).then(0.0).otherwise("weight"),
    )


@cache
def make_loans(rows: int = 1_200, seed: int = 11) -> pl.DataFrame:
    """Return loans of customers over six months, with outcomes, premiums and group probabilities.

    The score uses income and region. It does not use `club`, which follows income.
    """
    random = np.random.default_rng(seed)
    customer = random.integers(0, rows // 2, rows)
    log_odds = random.normal(-0.2, 2.0, rows // 2)  # of being a woman, given the name
    is_woman = (random.random(rows // 2) < squash(log_odds))[customer]
    income = random.normal(52 - 7 * is_woman, 9, rows)
    region = np.where(is_woman & (random.random(rows) < 0.3), 0, random.integers(0, 3, rows))
    score, old_score = score_loans(income, region), score_loans(income, region, 0.5)
    group = pl.Series(np.where(is_woman, "women", "men"))
    return pl.DataFrame(
        {
            "group": group,
            "group_or_missing": group.set(pl.Series(random.random(rows) > 0.4), None),
            "p_women": squash(log_odds)[customer],
            "p_men": squash(-log_odds)[customer],
            "income": income.round(2),
            "club": (income / 4 + random.normal(0, 0.8, rows)).round(1),
            "region": pl.Series(region).replace_strict({0: "north", 1: "south", 2: "west"}, return_dtype=pl.String),
            **{f"region_{name}": (region == code).astype(int) for code, name in enumerate(("n", "s", "w"))},
            "branch": 100 * region + random.integers(0, 3, rows),
            "score": score,
            "old_score": old_score,
            "decision": (random.random(rows) < score).astype(int),
            "answer": np.where(score > 0.5, "approved", "denied"),
            "repaid": (random.random(rows) < squash(1.4 * np.log(score / (1 - score)) + 0.3)).astype(int),
            "premium": (400 + 6 * (income - 50) + 40 * (region == 0) + random.normal(0, 30, rows)).round(2),
            "customer": customer,
            "month": pl.Series(random.integers(1, 7, rows)).map_elements(lambda m: f"2024-{m:02}", pl.String),
            "weight": random.integers(1, 4, rows).astype(np.float64),
            "product": random.choice(["car", "home"], rows),
        }
    )


def score_loans(income: Any, region: Any, penalty: float = 0.2) -> Any:
    """Return the score of loans; `penalty` is by how much region 0 (north) lowers the log-odds."""
    return squash(0.06 * (income - 48) - penalty * (region == 0))


@cache
def open_folder() -> TemporaryDirectory[str]:
    """Return a folder for files, which is deleted when the script ends."""
    return TemporaryDirectory()


def name_file(name: str) -> Path:
    """Return the path of a file in the temporary folder."""
    return Path(open_folder().name) / name


def write_parquet(frame: pl.DataFrame, name: str) -> str:
    """Return the path of the frame as a Parquet file."""
    frame.write_parquet(path := name_file(f"{name}.parquet"))
    return str(path)


def write_two_parquets(frame: pl.DataFrame) -> list[str]:
    """Return the paths of two Parquet files, a third and two thirds of the rows."""
    cut = frame.height // 3
    return [write_parquet(frame.head(cut), "first"), write_parquet(frame.slice(cut), "second")]


def write_csv(frame: pl.DataFrame, name: str = "people") -> str:
    """Return the path of the frame as a CSV file."""
    frame.write_csv(path := name_file(f"{name}.csv"))
    return str(path)


def write_foreign_csv(frame: pl.DataFrame) -> str:
    """Return the path of a CSV file with semicolons, decimal commas, code page 1252 and a word for missing values."""
    path = name_file("foreign.csv")
    texts = frame.with_columns(pl.col("region").replace("north", "Zürich"))
    index = pl.int_range(pl.len())
    texts = texts.with_columns(club=pl.when(index % 19 == 2).then(None).otherwise("club"))
    text = texts.write_csv(separator=";", decimal_comma=True, null_value="unbekannt")
    path.write_bytes(text.encode("cp1252"))
    return str(path)


def write_json_lines(frame: pl.DataFrame) -> str:
    """Return the path of the frame as JSON lines."""
    frame.write_ndjson(path := name_file("loans.jsonl"))
    return str(path)


def write_excel(frame: pl.DataFrame) -> str:
    """Return the path of an Excel file whose second sheet is the frame."""
    from xlsxwriter import Workbook

    path = str(name_file("loans.xlsx"))
    with Workbook(path) as book:
        pl.DataFrame({"note": ["The loans are on the next sheet."]}).write_excel(book, "notes")
        frame.write_excel(book, "loans")
    return path


def write_sqlite(frame: pl.DataFrame) -> str:
    """Return the URL of a SQLite database with the frame as its table `loans`."""
    path = name_file("loans.db")
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as database:
        columns = ", ".join(f'"{name}"' for name in frame.columns)
        database.execute(f"CREATE TABLE loans ({columns})")
        database.executemany(f"INSERT INTO loans VALUES ({', '.join('?' * frame.width)})", frame.rows())
    return f"sqlite:///{path}"


def convert_to_arrays(frame: pl.DataFrame) -> dict[str, Any]:
    """Return the columns as numpy arrays; as objects if values are missing or are texts."""
    return {column.name: _convert_column(column) for column in frame}


def _convert_column(column: pl.Series) -> Any:
    if column.dtype.is_numeric() or column.dtype == pl.Datetime:
        return column.to_numpy()
    return np.array(column.to_list(), dtype=object)


def convert_to_pandas(frame: pl.DataFrame) -> Any:
    """Return a pandas frame with numpy's types, and ordered categories."""
    import pandas as pd

    table = pd.DataFrame(convert_to_arrays(frame))
    if "grade" in table:
        table["grade"] = pd.Categorical(table["grade"], list(GRADES.categories), ordered=True)
    return table


def convert_to_duckdb(frame: pl.DataFrame) -> Any:
    """Return a DuckDB relation."""
    import duckdb

    return duckdb.from_arrow(frame.to_arrow())


def convert_to_spark(frame: pl.DataFrame, partitions: int) -> Any:
    """Return a Spark frame, with texts for ordered categories."""
    texts = frame.with_columns(pl.col(pl.Enum).cast(pl.String))
    return start_spark().createDataFrame(texts.to_arrow()).coalesce(1).repartition(partitions)


@cache
def start_spark() -> Any:
    """Return a Spark session on one core."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    settings |= {"spark.sql.shuffle.partitions": "4", "spark.sql.session.timeZone": "UTC"}
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
