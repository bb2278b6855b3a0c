"""Spark data frames: each partition becomes sums where it lies, and only those are collected."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import polars as pl

from tiltmeter.engines.batches import S, Step, clean_batch, regrouped
from tiltmeter.engines.tables import checked_names, first_line
from tiltmeter.errors import DataError, TiltmeterError

SCHEMA = "sums binary"


def is_spark(data: Any) -> bool:
    """Return whether the data is a Spark data frame, classic or Connect, without importing Spark."""
    return type(data).__module__.startswith("pyspark.sql.") and hasattr(data, "mapInArrow")


@dataclass(frozen=True, slots=True, eq=False)
class SparkBatches:
    """A Spark data frame; tiltmeter must be installed where Spark runs Python."""

    frame: Any

    def names(self) -> list[str]:
        """As of `Batches`."""
        return checked_names(list(self.frame.columns))

    def count(self) -> int:
        """As of `Batches`."""
        return int(self.frame.count())

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """As of `Batches`."""
        quoted = ["`" + name.replace("`", "``") + "`" for name in columns]
        try:
            rows = self.frame.select(*quoted).mapInArrow(_Partition(step), SCHEMA).collect()
        except TiltmeterError:
            raise
        except Exception as error:  # anything that a cluster may raise
            raise DataError(
                f"Spark must be able to run the audit, got {type(error).__name__}: {first_line(error)}",
                "is tiltmeter installed on the workers, and PYSPARK_PYTHON set to its Python?",
            ) from error
        parts = [pickle.loads(zlib.decompress(bytes(row[0]))) for row in rows]
        for part in parts:
            if isinstance(part, TiltmeterError):
                raise part
        if not parts:
            raise DataError("`data` must have rows, got an empty table.", "look at what was filtered out before.")
        total: S = reduce(add, parts)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class _Partition:
    """What a worker does with a partition: one row of pickled sums, none where it is empty."""

    step: Any

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        found: Any = None
        try:
            for frame in regrouped(pl.DataFrame(batch) for batch in batches):
                part = self.step(clean_batch(frame))
                found = part if found is None else found + part
        except TiltmeterError as error:  # the user's mistake: a failed task would be tried again, four times
            found = error
        if found is not None:
            packed = zlib.compress(pickle.dumps(found), 1)
            yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], ["sums"])
