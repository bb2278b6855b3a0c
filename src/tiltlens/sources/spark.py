"""Spark data frames: each partition becomes sums where it lies, and only those are collected."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

import polars as pl

from tiltlens.errors import TiltlensError
from tiltlens.paper.checks import Floats
from tiltlens.sources.batches import S, Step, clean_batch, regrouped
from tiltlens.sources.columns import empty_table
from tiltlens.sources.messages import checked_names, wrap_errors

SparkFrame: TypeAlias = Any  # Spark need not be installed, nor pyarrow
ArrowBatch: TypeAlias = Any
MERGERS = 4  # workers that add up the sums of all partitions
SCHEMA = "sums binary"


@dataclass(frozen=True, slots=True, eq=False)
class SparkBatches:
    """A Spark data frame; tiltlens must be installed where Spark runs Python."""

    frame: SparkFrame

    def names(self) -> list[str]:
        """See `Batches`."""
        return checked_names(list(self.frame.columns))

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """See `Batches`."""
        quoted = ["`" + name.replace("`", "``") + "`" for name in columns]
        hint = "is tiltlens installed on the workers, and PYSPARK_PYTHON set to its Python?"
        with wrap_errors("Spark cannot run the audit", hint):
            parts = self.frame.select(*quoted).mapInArrow(_Partition(step), SCHEMA)
            rows = parts.repartition(MERGERS).mapInArrow(_merged, SCHEMA).collect()
        total: S | TiltlensError | None = _sum(_unpacked(row[0]) for row in rows)
        if total is None:
            raise empty_table()
        if isinstance(total, TiltlensError):
            raise total
        return total


@dataclass(frozen=True, slots=True, eq=False)
class _Partition(Generic[S]):
    """A worker's task: reduce a partition to one row of pickled sums, or none if it is empty."""

    step: Step[S]

    def __call__(self, batches: Iterator[ArrowBatch]) -> Iterator[ArrowBatch]:
        frames = regrouped(pl.DataFrame(batch) for batch in batches)
        try:
            part: S | TiltlensError | None = _sum(self.step(clean_batch(frame)) for frame in frames)
        except TiltlensError as error:  # the user's mistake: a failed task would be tried again, four times
            part = error
        yield from _packed(part)


def with_numbers(
    frame: SparkFrame, columns: Sequence[str], names: Sequence[str], step: Callable[[pl.DataFrame], Floats]
) -> SparkFrame:
    """Return a data frame with more columns: the numbers that `step` makes of some columns, (n,) or (n, K).

    They are made where the rows lie, when Spark is asked for them, so that an error in the data is raised then.
    """
    from pyspark.sql.types import DoubleType, StructField, StructType

    fields = [StructField(name, DoubleType()) for name in names]
    return frame.mapInArrow(_MoreColumns(tuple(columns), step), StructType([*frame.schema.fields, *fields]))


@dataclass(frozen=True, slots=True, eq=False)
class _MoreColumns:
    """A worker's task: return the batches of a partition with more columns of numbers."""

    columns: tuple[str, ...]
    step: Callable[[pl.DataFrame], Floats]

    def __call__(self, batches: Iterator[ArrowBatch]) -> Iterator[ArrowBatch]:
        import pyarrow as pa

        for batch in batches:
            values = self.step(pl.DataFrame(batch.select(self.columns)))
            made = [pa.array(column) for column in values.reshape(batch.num_rows, -1).T]
            names = [*batch.schema.names, *("" for _ in made)]  # Spark goes by the places of columns
            yield pa.RecordBatch.from_arrays([*batch.columns, *made], names)


def _merged(batches: Iterator[ArrowBatch]) -> Iterator[ArrowBatch]:
    """Yield the sum of many sums: with thousands of partitions they are too much for the driver."""
    yield from _packed(_sum(_unpacked(packed.as_py()) for batch in batches for packed in batch.column(0)))


def _sum(parts: Iterable[S | TiltlensError]) -> S | TiltlensError | None:
    """Return the sum, None of nothing, and the first mistake where there is one."""
    total: S | None = None
    for part in parts:
        if isinstance(part, TiltlensError):
            return part
        total = part if total is None else total + part
    return total


def _packed(part: object) -> Iterator[ArrowBatch]:
    import pyarrow as pa

    if part is not None:
        content = zlib.compress(pickle.dumps(part), 1)
        yield pa.RecordBatch.from_arrays([pa.array([content], pa.binary())], ["sums"])


def _unpacked(content: bytes) -> Any:
    return pickle.loads(zlib.decompress(content))
