"""Freeze what named audits say, and compare two such freezes: no number may change unnoticed.

Run as `python scripts/frozen.py write DIR [--only NAME …]`, which writes DIR/NAME.json, and then as
`python scripts/frozen.py compare DIR OTHER [--only NAME …] [--tolerance 1e-9] [--ignore KEY …] [--tenth]
[--no-text]`, which prints where they differ, and exits with 1 where they do.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import tiltlens as tl
from tiltlens.datasets import COMPAS_FEATURES, load_compas

FEATURES = ["income", "age", "children", "city", "owner", "since", "seen", "grade", "branch", "person"]
NUMBERS = ["age", "children"]
CLASSES = ["none", "some", "all"]
LENDING = ["region", "job", "amount", "years"]


def logistic(values: Any) -> Any:
    """Return 1/(1 + e^−x)."""
    return 1.0 / (1.0 + np.exp(-np.asarray(values, dtype=np.float64)))


def softmax(values: Any) -> Any:
    """Return probabilities that are proportional to e^x in each row."""
    raised = np.exp(values - values.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


@cache
def compas() -> pl.DataFrame:
    """Return the COMPAS records with the paper's scores: a logistic regression of re-arrest on the five codes."""
    data = load_compas()
    codes = data.select(f"{name}_code" for name in COMPAS_FEATURES).to_numpy().astype(np.float64)
    design, target = np.column_stack([np.ones(data.height), codes]), data["is_recid"].to_numpy().astype(np.float64)
    beta = np.zeros(design.shape[1])
    for _ in range(30):
        mean = logistic(design @ beta)
        beta += np.linalg.solve((design.T * (mean * (1 - mean))) @ design, design.T @ (target - mean))
    return data.with_columns(score=pl.Series(logistic(design @ beta)))


@cache
def people(rows: int = 800, seed: int = 1) -> pl.DataFrame:
    """Return two groups with every kind of feature, a score, weights, and P(A|x) as it is."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.45
    income, known = random.normal(50 - 6 * audited, 10, rows), random.random(rows) > 0.06
    owner = random.random(rows) < 0.5 - 0.15 * audited
    children, age = random.poisson(1.2, rows).clip(0, 4), random.normal(44, 11, rows)
    city = np.where(random.random(rows) < 0.25 * audited, 0, (random.random(rows) ** 2 * 26).astype(int))
    grade, days = random.integers(0, 4, rows), random.integers(0, 900, rows)
    chance = log_odds_of(np.where(known, income, 47), owner, city)
    score = logistic(0.05 * (income - 48) * known + 0.6 * owner - 0.5 * (city == 0) + 0.15 * (children - 1))
    return pl.DataFrame(
        {
            "group": np.where(audited, "A", "B"),
            "income": pl.Series(np.where(known, income, np.nan)).fill_nan(None),
            "age": age,
            "children": children,
            "city": [f"city {number:02}" for number in city],
            "owner": [None if random.random() < 0.04 else bool(one) for one in owner],
            "since": [date(2020, 1, 1) + timedelta(days=int(day)) for day in days],
            "seen": [datetime(2021, 3, 1) + timedelta(minutes=int(day) * 37) for day in random.permutation(days)],
            "grade": pl.Series([("low", "mid", "high", "top")[one] for one in grade]).cast(GRADES),
            "branch": ["main"] * rows,
            "person": [f"person {number:05}" for number in random.permutation(rows)],
            "score": np.clip(score + random.normal(0, 0.03, rows), 0.01, 0.99),
            "weight": random.integers(1, 4, rows).astype(np.float64),
            "uneven": np.exp(random.normal(0, 0.8, rows)),
            "chance": logistic(chance),
            "sex": random.choice(["f", "m"], rows),
            "repaid": random.integers(0, 2, rows),
        }
    )


GRADES = pl.Enum(["low", "mid", "high", "top"])


def log_odds_of(income: Any, owner: Any, city: Any) -> Any:
    """Return the log-odds of group A from what differs between the groups of `people`."""
    first = math.sqrt(1 / 26)  # P(city 0) of the reference, as the square of a uniform number has it
    by_city = np.where(city == 0, math.log((0.25 + 0.75 * first) / first), math.log(0.75))
    by_owner = np.where(owner, math.log(0.35 / 0.5), math.log(0.65 / 0.5))
    return math.log(0.45 / 0.55) - 0.06 * (income - 47) + by_city + by_owner


@cache
def lending(rows: int = 2_000, seed: int = 2) -> pl.DataFrame:
    """Return three groups with four features, a score, three classes and P(a|x) against b."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.4
    region = np.where(audited & (random.random(rows) < 0.2), 0, random.integers(0, 6, rows))
    amount = random.normal(50 - 4 * audited, 10, rows)
    years, job = random.integers(0, 40, rows), random.integers(0, 8, rows)
    score = logistic(0.04 * (amount - 48) - 0.3 * (region == 0) + 0.02 * (years - 20) + 0.1 * (job == 3))
    ratio = np.where(region == 0, math.log((0.2 + 0.8 / 6) * 6), math.log(0.8)) - 4 * (amount - 48) / 100
    classes = softmax(np.column_stack([0.3 - score, score**2, 2 * score]))
    return pl.DataFrame(
        {
            "group": np.where(audited, "a", np.where(random.random(rows) < 0.3, "c", "b")),
            "region": region.astype(np.int8),
            "job": pl.Series(job).cast(pl.String),
            "amount": pl.Series(np.where(random.random(rows) < 0.03, np.nan, amount)).fill_nan(None),
            "years": years,
            "score": score,
            "decision": (random.random(rows) < score).astype(np.int64),
            "chance": logistic(math.log(0.4 / 0.6) + ratio),
            "weight": random.integers(1, 4, rows).astype(np.float64),
            "good": random.random(rows) < 0.6,
            **{name: classes[:, number] for number, name in enumerate(CLASSES)},
        }
    )


def pair_of_lending(rows: int = 2_000) -> pl.DataFrame:
    """Return groups a and b alone."""
    return lending(rows).filter(pl.col("group") != "c")


def tiny() -> pl.DataFrame:
    """Return groups of hundreds, of 40, of 14, of 6, and of 1."""
    place = pl.int_range(pl.len())
    small = pl.when(place < 40).then(pl.lit("forty")).when(place < 54).then(pl.lit("fourteen"))
    small = small.when(place < 60).then(pl.lit("six")).when(place < 61).then(pl.lit("one"))
    return lending(600, 5).with_columns(group=small.otherwise(pl.lit("most")))


def gappy() -> pl.DataFrame:
    """Return lending with missing scores, missing groups and weights of 0."""
    place = pl.int_range(pl.len())
    return pair_of_lending().with_columns(
        score=pl.when(place % 11 == 3).then(None).otherwise("score"),
        group=pl.when(place % 13 == 5).then(None).otherwise("group"),
        weight=pl.when(place % 17 == 7).then(0.0).otherwise("weight"),
    )


@cache
def folder() -> TemporaryDirectory[str]:
    """Return a folder for files, which goes when the script ends."""
    return TemporaryDirectory()


def in_parquet(frame: pl.DataFrame, name: str) -> str:
    """Return the path of the frame as a Parquet file."""
    path = Path(folder().name) / f"{name}.parquet"
    frame.write_parquet(path)
    return str(path)


def in_csv(frame: pl.DataFrame) -> str:
    """Return the path of the frame as a CSV file."""
    path = Path(folder().name) / "people.csv"
    frame.write_csv(path)
    return str(path)


def in_two_files(frame: pl.DataFrame) -> list[str]:
    """Return the paths of two Parquet files, a third and two thirds of the rows."""
    cut = frame.height // 3
    return [in_parquet(frame.head(cut), "first"), in_parquet(frame.slice(cut), "second")]


def in_arrays(frame: pl.DataFrame) -> dict[str, Any]:
    """Return the columns as numpy arrays; of objects where values are missing or are texts."""
    return {column.name: _array(column) for column in frame}


def _array(column: pl.Series) -> Any:
    if column.dtype.is_numeric() or column.dtype == pl.Datetime:
        return column.to_numpy()
    return np.array(column.to_list(), dtype=object)


def in_pandas(frame: pl.DataFrame) -> Any:
    """Return a pandas frame with numpy's types, and ordered categories."""
    import pandas as pd

    found = pd.DataFrame(in_arrays(frame))
    if "grade" in found:
        found["grade"] = pd.Categorical(found["grade"], list(GRADES.categories), ordered=True)
    return found


def in_duckdb(frame: pl.DataFrame) -> Any:
    """Return a DuckDB relation."""
    import duckdb

    return duckdb.from_arrow(frame.to_arrow())


def in_spark(frame: pl.DataFrame, partitions: int) -> Any:
    """Return a Spark frame, which knows no ordered categories."""
    texts = frame.with_columns(pl.col(pl.Enum).cast(pl.String))
    return spark().createDataFrame(texts.to_arrow()).coalesce(1).repartition(partitions)


@cache
def spark() -> Any:
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


def of_compas(data: Any = None, **options: Any) -> tl.Audit:
    """Return an audit of the COMPAS records."""
    plain: dict[str, Any] = {"reference": "Caucasian", "favourable": "low", "features": list(COMPAS_FEATURES)}
    plain |= {} if "model" in options else {"scores": "score"}
    return tl.audit(compas() if data is None else data, "race", **plain | options)


def of_kinds(data: Any, **options: Any) -> tl.Audit:
    """Return an audit of every kind of feature."""
    return tl.audit(data, "group", **{"reference": "B", "scores": "score", "features": FEATURES} | options)


def of_lending(data: Any = None, **options: Any) -> tl.Audit:
    """Return an audit of the groups a and b."""
    plain: dict[str, Any] = {"reference": "b", "audited": "a", "features": LENDING}
    plain |= {} if "model" in options else {"scores": "score"}
    return tl.audit(pair_of_lending() if data is None else data, "group", **plain | options)


def with_copy() -> tl.Audit:
    """Return an audit with a feature that is the group under another name."""
    copied = pl.when(group="A").then(pl.lit("red")).otherwise(pl.lit("blue"))
    return of_kinds(people().with_columns(copy=copied), features=["income", "city", "copy"])


def with_a_model(columns: Sequence[str] = ("age", "children")) -> tl.Audit:
    """Return an audit of a fitted scikit-learn model."""
    from sklearn.linear_model import LogisticRegression

    frame = in_pandas(people())
    model = LogisticRegression().fit(frame[list(columns)], frame["score"] > 0.5)
    return tl.audit(frame, "group", reference="B", model=model, features=list(columns))


def function_of(inputs: Any) -> Any:
    """Return scores of a frame of features."""
    age, children = (np.asarray(inputs[name], dtype=np.float64) for name in NUMBERS)
    return logistic(0.04 * (age - 44) + 0.3 * (children - 1))


def with_an_estimator(**options: Any) -> tl.Audit:
    """Return an audit whose membership model is the user's own."""
    from sklearn.linear_model import LogisticRegression

    frame = pair_of_lending().with_columns(pl.col("amount").fill_null(48.0)).to_pandas()
    features = ["region", "amount", "years"]
    return of_lending(frame, features=features, membership=LogisticRegression(), **options)


def with_arrays() -> tl.Audit:
    """Return an audit with groups, scores and weights beside the table."""
    frame = pair_of_lending()
    group, scores, weights = (frame[name].to_numpy() for name in ("group", "score", "weight"))
    return tl.audit(frame.select(LENDING), group, reference="b", scores=scores, weights=weights)


def with_class_arrays() -> tl.Audit:
    """Return an audit of three classes in an array."""
    frame = pair_of_lending()
    return of_lending(frame, scores=frame.select(CLASSES).to_numpy(), favourable=2, folds=None)


def out_of_reach() -> tl.Audit:
    """Return an audit whose audited group has scores of 0 alone."""
    frame = pair_of_lending().with_columns(score=pl.when(group="a").then(0.0).otherwise("score"))
    return of_lending(frame, membership="chance")


def apart() -> tl.Audit:
    """Return an audit of groups that share no values."""
    frame = pair_of_lending().with_columns(amount=pl.col("years") + pl.when(group="a").then(1000).otherwise(0))
    return of_lending(frame, features=["amount"])


OTHER_SETTINGS = {"confidence": 0.8, "materiality": 0.02, "seed": 7, "folds": 3}
THREE = {"scores": CLASSES, "favourable": "some"}

AUDITS: dict[str, Callable[[], tl.Audit]] = {
    "compas_plug_in": lambda: of_compas(folds=None),
    "compas_cross_fitted": lambda: of_compas(folds=5),
    "compas_numbers": lambda: of_compas(features=["age_years", "priors_count", "days_in_jail", "Sex"]),
    "kinds_pandas": lambda: of_kinds(in_pandas(people())),
    "kinds_polars": lambda: of_kinds(people()),
    "kinds_polars_plug_in": lambda: of_kinds(people(), folds=None),
    "kinds_lazy": lambda: of_kinds(people().lazy()),
    "kinds_pyarrow": lambda: of_kinds(people().to_arrow()),
    "kinds_dict": lambda: of_kinds(in_arrays(people())),
    "kinds_parquet": lambda: of_kinds(in_parquet(people(), "people")),
    "kinds_csv": lambda: of_kinds(in_csv(people())),
    "kinds_two_parquets": lambda: of_kinds(in_two_files(people()), weights="weight"),
    "kinds_duckdb": lambda: of_kinds(in_duckdb(people())),
    "kinds_spark_fitted": lambda: of_kinds(in_spark(people(), 1)),
    "kinds_spark_known": lambda: of_kinds(in_spark(people(), 3), membership="chance", weights="weight"),
    "spark_classes_plug_in": lambda: of_lending(
        in_spark(pair_of_lending(), 3), **THREE, membership="chance", weights="weight", folds=None
    ),
    "spark_decisions": lambda: of_lending(in_spark(pair_of_lending(), 2), membership="chance", scores="decision"),
    "kinds_known": lambda: of_kinds(people(), membership="chance", weights="weight"),
    "kinds_few_rows": lambda: of_kinds(people(300, 9)),
    "kinds_default_features": lambda: tl.audit(people(500, 4), "group", scores="score"),
    "copy_of_the_group": with_copy,
    "weights_fitted": lambda: of_lending(weights="weight"),
    "weights_known": lambda: of_lending(weights="weight", membership="chance"),
    "weights_plug_in": lambda: of_lending(weights="weight", folds=None),
    "weights_uneven": lambda: of_kinds(people(1200, 3), features=["income", "owner", "grade"], weights="uneven"),
    "classes_fitted": lambda: of_lending(**THREE),
    "classes_known": lambda: of_lending(**THREE, membership="chance", weights="weight"),
    "classes_array_plug_in": with_class_arrays,
    "decisions": lambda: of_lending(scores="decision"),
    "threshold": lambda: of_lending(threshold=0.5),
    "given": lambda: of_lending(given={"good": True}),
    "intersections": lambda: tl.audit(
        people(1500, 6), ["group", "sex"], scores="score", features=["income", "city", "owner", "children"]
    ),
    "several_groups": lambda: of_lending(lending(), audited=None),
    "one_of_several_groups": lambda: of_lending(lending(), audited="c", reference="a"),
    "several_groups_plug_in": lambda: of_lending(lending(), audited=["a", "c"], folds=None),
    "membership_column": lambda: of_lending(membership="chance"),
    "membership_column_plug_in": lambda: of_lending(membership="chance", folds=None),
    "membership_array": lambda: of_lending(membership=pair_of_lending()["chance"].to_numpy()),
    "membership_estimator": with_an_estimator,
    "membership_estimator_plug_in": lambda: with_an_estimator(folds=None),
    "model_fitted": with_a_model,
    "model_function": lambda: tl.audit(people(), "group", reference="B", model=function_of, features=NUMBERS),
    "favourable_low": lambda: of_lending(favourable="low"),
    "arrays_beside": with_arrays,
    "input_weight_0": lambda: of_lending(input_weight=0.0, output_weight=2.0),
    "output_weight_0": lambda: of_lending(output_weight=0.0),
    "other_settings": lambda: of_lending(**OTHER_SETTINGS),
    "constant_score": lambda: of_lending(scores=np.full(pair_of_lending().height, 0.3)),
    "missing_scores_and_groups": lambda: of_lending(gappy(), audited=None, weights="weight"),
    "tiny_groups": lambda: of_lending(tiny(), reference=None, audited=None),
    "tiny_groups_known": lambda: of_lending(tiny(), reference="most", audited="fourteen", membership="chance"),
    "out_of_reach": out_of_reach,
    "error_apart": apart,
    "error_no_such_column": lambda: of_lending(features=["regoin"]),
    "error_membership_of_several": lambda: of_lending(lending(), audited=None, membership="chance"),
    "large_pandas_fitted": lambda: of_lending(in_pandas(lending(60_000, 8))),
    "large_membership_column": lambda: of_lending(lending(60_000, 8), membership="chance"),
    "large_parquet_fitted": lambda: of_lending(in_parquet(lending(60_000, 8), "large"), seed=1),
    "huge_spark_fitted": lambda: of_lending(in_spark(lending(520_000, 8), 4)),  # too many to be brought together
    "huge_membership_column": lambda: of_lending(lending(5_000_000, 8), membership="chance"),  # summed in batches
}

CHANGING = {"created", "versions", "data_sha256"}  # of the provenance, from run to run
PATH = [(1, 1, 1, 1), (1, 0, 0, 2), (2, 1, 0, 1)]
QUANTILES = [0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0]


def frozen(audit: tl.Audit) -> dict[str, Any]:
    """Return all that an audit says, but when and by what it was made."""
    summary = audit.to_dict()
    kept = {name: value for name, value in summary["provenance"].items() if name not in CHANGING}
    told_before = {name: comparison["proxies"] for name, comparison in summary["comparisons"].items()}
    details = {name: details_of(found, told_before[name]) for name, found in audit.comparisons.items()}
    return {"summary": summary | {"provenance": kept}, "details": details}


def details_of(comparison: tl.Comparison, told_before: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a comparison says beside its summary, which has told of the proxies before."""
    proxies = comparison.proxies
    features, rows = proxies["feature"].to_list(), proxies.to_dicts()
    kinds = {name: str(kind) for name, kind in proxies.schema.items()}
    return {
        "proxies": {"kinds": kinds, "rows": "as in the summary" if rows == told_before else rows},
        "profile": {name: told(lambda name=name: comparison.profile(name).to_dicts()) for name in features},
        "distribution": {name: told(lambda name=name: by_value(comparison.distribution(name))) for name in features},
        "path": told(lambda: [point_of(point) for point in comparison.path(PATH)]),
        "project": told(lambda: projection_of(comparison.project())),
        "prototypes": told(lambda: comparison.prototypes(suppress=False)),
        "shares_along_dial": told(lambda: by_feature(comparison.shares_along_dial())),
    }


def told(ask: Callable[[], Any]) -> Any:
    """Return the answer, or the library's error in its place."""
    try:
        return ask()
    except tl.TiltlensError as error:
        return {"error": str(error)}


def by_value(frame: pl.DataFrame) -> dict[str, Any]:
    """Return the columns of each value of a feature, as lists."""
    return {name: part.to_dict(as_series=False) for name, part in parts_of(frame, "value").items()}


def by_feature(frame: pl.DataFrame) -> dict[str, Any]:
    """Return the rows of each feature."""
    return {name: part.to_dicts() for name, part in parts_of(frame, "feature").items()}


def parts_of(frame: pl.DataFrame, key: str) -> dict[str, pl.DataFrame]:
    """Return the rows that share a key, by that key, in their order."""
    parts = frame.partition_by(key, as_dict=True, include_key=False, maintain_order=True)
    return {str(name): part for (name,), part in parts.items()}


def point_of(point: Any) -> dict[str, Any]:
    """Return a point of a path with its q in short."""
    names = ("output", "objective", "terms", "weights", "divergence", "multipliers", "optimality_gap", "unique")
    return {"q": in_short(point.q)} | {name: getattr(point, name) for name in names}


def projection_of(found: Any) -> dict[str, Any]:
    """Return the least change with its q in short."""
    return {"q": in_short(found.q), "cost": found.cost, "multipliers": found.multipliers}


def in_short(q: Any) -> dict[str, Any]:
    """Return length, sums and quantiles of weights on rows, scaled to mean 1; one sum depends on their order."""
    scaled = np.asarray(q) * len(q)
    by_place = float(np.dot(scaled, np.linspace(-1.0, 1.0, len(q)))) / len(q)
    squares = float(np.dot(scaled, scaled)) / len(q)
    quantiles = np.quantile(scaled, QUANTILES)
    return {"length": len(q), "sum": float(np.sum(q)), "squares": squares, "by_place": by_place, "quantiles": quantiles}


def plain(value: Any) -> Any:
    """Return what JSON can hold, every digit kept."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def outcome_of(run: Callable[[], tl.Audit]) -> dict[str, Any]:
    """Return what an audit says, its error, or how the library broke."""
    try:
        return frozen(run())
    except tl.TiltlensError as error:
        return {"error": str(error)}
    except Exception as error:  # the others are to be written all the same
        return {"crash": f"{type(error).__name__}: {error}"}


def chosen(names: Iterable[str], only: Sequence[str]) -> list[str]:
    """Return the names that some pattern fits, all where there is no pattern."""
    return [name for name in names if not only or any(fnmatch(name, pattern) for pattern in only)]


def write(target: Path, only: Sequence[str]) -> int:
    """Write the audits to a folder, and return 1 where one broke."""
    names = chosen(AUDITS, only)
    target.mkdir(parents=True, exist_ok=True)
    print(f"{len(names)} audits by {tl.__file__}")
    start, is_broken = time.perf_counter(), not names
    for name in names:
        begun = time.perf_counter()
        found = plain(outcome_of(AUDITS[name]))
        (target / f"{name}.json").write_text(json.dumps(found, indent=0, ensure_ascii=False), encoding="utf-8")
        is_broken |= "crash" in found
        word = found.get("crash") or found.get("error", "").partition("\n")[0]
        print(f"{name:32} {time.perf_counter() - begun:6.2f} s  {word}".rstrip(), flush=True)
    print(f"{time.perf_counter() - start:.1f} s in all")
    return int(is_broken)


SHOWN = 20  # differences a file
NAMING = ("feature", "name", "value")  # keys that name the records of a list
POINTS = ("value", "share")  # what stands between "low" and "high"
MISSING = object()


class Rules(NamedTuple):
    """What counts as a difference."""

    tolerance: float
    ignored: frozenset[str]
    is_tenth: bool
    has_text: bool


def differences(one: Any, other: Any, rules: Rules, place: str = "", slack: float = 0.0) -> Iterator[str]:
    """Yield a line for each place where two trees differ; numbers may do so by `slack`, and by the tolerance."""
    if isinstance(one, dict) and isinstance(other, dict):
        yield from _of_dicts(one, other, rules, place)
    elif isinstance(one, list) and isinstance(other, list):
        yield from _of_lists(one, other, rules, place, slack)
    elif not _is_same(one, other, rules, slack):
        yield f"{place}: {_short(one)} | {_short(other)}{_apart(one, other)}"


def _of_dicts(one: dict[str, Any], other: dict[str, Any], rules: Rules, place: str) -> Iterator[str]:
    slacks = _slacks(one) if rules.is_tenth else {}
    for key in dict.fromkeys([*one, *other]):
        if key not in rules.ignored:
            parts = one.get(key, MISSING), other.get(key, MISSING)
            yield from differences(*parts, rules, f"{place}.{key}".lstrip("."), slacks.get(key, 0.0))


def _of_lists(one: list[Any], other: list[Any], rules: Rules, place: str, slack: float) -> Iterator[str]:
    if not rules.has_text and all(isinstance(part, str) for part in (*one, *other)):
        return
    named, named_other = _named(one), _named(other)
    if named and named_other:
        if rules.has_text and named.keys() == named_other.keys() and [*named] != [*named_other]:
            yield f"{place}: order {_short([*named])} | {_short([*named_other])}"
        for name in dict.fromkeys([*named, *named_other]):
            parts = named.get(name, MISSING), named_other.get(name, MISSING)
            yield from differences(*parts, rules, f"{place}[{name}]", slack)
        return
    if len(one) != len(other):
        yield f"{place}: {len(one)} entries {_short(one)} | {len(other)} entries {_short(other)}"
    for number, parts in enumerate(zip(one, other, strict=False)):
        yield from differences(*parts, rules, f"{place}[{number}]", slack)


def _named(records: list[Any]) -> dict[str, Any]:
    """Return records by the name that each has for itself, none where there is no such name."""
    if not records or not all(isinstance(record, dict) for record in records):
        return {}
    for key in NAMING:
        found = {record[key]: record for record in records if isinstance(record.get(key), str)}
        if len(found) == len(records):
            return found
    return {}


def _slacks(record: Mapping[str, Any]) -> dict[str, float]:
    """Return a tenth of the interval's width for every number of a record that has an interval, and for its ends."""
    found: dict[str, float] = {}
    for key in record:
        for low, high in ((f"{key}_low", f"{key}_high"), ("low", "high")):
            if low in record and high in record and (low != "low" or key in POINTS):
                found |= dict.fromkeys((key, low, high), 0.1 * _width(record[key], record[low], record[high]))
    return found


def _width(value: Any, low: Any, high: Any) -> float:
    """Return the width of an interval; of a half-open one, twice the half there is."""
    if not all(_is_number(number) for number in (value, low, high)):
        ends = [end for end in (low, high) if _is_number(end)]
        return 2.0 * abs(value - ends[0]) if ends and _is_number(value) else 0.0
    return float(high - low)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(one: Any, other: Any, rules: Rules, slack: float) -> bool:
    if _is_number(one) and _is_number(other):
        if one == other or (math.isnan(one) and math.isnan(other)):
            return True
        return abs(one - other) <= rules.tolerance * (1.0 + max(abs(one), abs(other))) + slack < math.inf
    if isinstance(one, str) and isinstance(other, str):
        return not rules.has_text or one == other
    return type(one) is type(other) and one == other


def _short(value: Any) -> str:
    if value is MISSING:
        return "(missing)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}…"


def _apart(one: Any, other: Any) -> str:
    """Return how far apart two numbers are, in words."""
    return f"  ({other - one:+.2g})" if _is_number(one) and _is_number(other) else ""


def compare(one: Path, other: Path, rules: Rules, only: Sequence[str]) -> int:
    """Print where two folders differ, and return 1 where they do."""
    names = chosen(sorted({path.stem for folder in (one, other) for path in folder.glob("*.json")}), only)
    differing = 0
    for name in names:
        lines = list(_of_files(one / f"{name}.json", other / f"{name}.json", rules))
        differing += bool(lines)
        for line in lines[:SHOWN]:
            print(f"{name}: {line}")
        if len(lines) > SHOWN:
            print(f"{name}: … {len(lines)} differences in all")
    print(f"{len(names)} files, {differing} with differences" if names else "no files to compare")
    return int(differing > 0 or not names)


def _of_files(one: Path, other: Path, rules: Rules) -> Iterator[str]:
    gone = [str(path) for path in (one, other) if not path.is_file()]
    if gone:
        yield f"there is no {' nor '.join(gone)}"
        return
    trees = (json.loads(path.read_text(encoding="utf-8")) for path in (one, other))
    yield from differences(*trees, rules)


def arguments() -> argparse.Namespace:
    """Return what was asked on the command line."""
    parser = argparse.ArgumentParser(description="Freeze what named audits say, and compare two such freezes.")
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="run the audits and write DIR/NAME.json")
    writing.add_argument("folder", type=Path, metavar="DIR")
    comparing = commands.add_parser("compare", help="print where two folders differ; exit with 1 where they do")
    comparing.add_argument("folder", type=Path, metavar="DIR")
    comparing.add_argument("other", type=Path, metavar="OTHER")
    comparing.add_argument("--tolerance", type=float, default=1e-9, help="absolute and relative")
    comparing.add_argument("--ignore", nargs="+", default=[], metavar="KEY", help="also KEY_low and KEY_high")
    comparing.add_argument("--tenth", action="store_true", help="estimates may differ by a tenth of their interval")
    comparing.add_argument("--no-text", action="store_true", help="do not compare texts")
    for command in (writing, comparing):
        command.add_argument("--only", nargs="+", default=[], metavar="NAME", help="or patterns such as 'kinds_*'")
    return parser.parse_args()


def main() -> int:
    """Run the command, and return its exit code."""
    given = arguments()
    if given.command == "write":
        return write(given.folder, given.only)
    ignored = frozenset(f"{key}{end}" for key in given.ignore for end in ("", "_low", "_high"))
    rules = Rules(given.tolerance, ignored, given.tenth, not given.no_text)
    return compare(given.folder, given.other, rules, given.only)


if __name__ == "__main__":
    sys.exit(main())
