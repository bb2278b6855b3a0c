"""What is streamed, and what is read into memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from tiltmeter.engines.batches import Batches, DuckBatches, FileBatches, FrameBatches, files_of
from tiltmeter.engines.spark import SparkBatches, is_spark
from tiltmeter.engines.tables import read_file
from tiltmeter.errors import DataError

STREAMED_ROWS = 5_000_000  # from here on, what can be streamed is


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Data that is to be streamed however many rows it has."""

    batches: Batches


def stream(data: Any) -> Stream:
    """Return the data, marked to be streamed: an audit then holds a batch of rows at a time, never all of them.

    `data` is anything that `tm.audit` takes but pandas frames and dicts, whose rows are in memory already. Spark data
    frames are streamed in any case, and files, lazy frames and DuckDB relations from five million rows on.
    """
    found = _batches(data)
    if found is None and isinstance(data, pl.DataFrame):
        found = FrameBatches(data)
    if found is None:
        raise DataError(
            f"`data` must be files, a Polars frame, a DuckDB relation or a Spark frame, got {type(data).__name__}.",
            "pass it to `tm.audit` as it is: its rows are in memory.",
        )
    return Stream(found)


def stream_of(data: Any, membership: Any) -> Batches | None:
    """Return the data as batches where it is to be streamed: on request, on Spark, or with many rows.

    Many rows are read into memory all the same where a membership model is to be fitted.
    """
    if isinstance(data, Stream):
        return data.batches
    found = _batches(data)
    if found is None or isinstance(found, SparkBatches):
        return found
    is_long = isinstance(membership, str) and found.count() >= STREAMED_ROWS
    return found if is_long else None


def _batches(data: Any) -> Batches | None:
    files = files_of(data)
    if files is not None:
        return FileBatches(files)
    if is_spark(data):
        return SparkBatches(data)
    if isinstance(data, pl.LazyFrame):
        return FrameBatches(data)
    return DuckBatches(data) if type(data).__name__ == "DuckDBPyRelation" else None


def read_into_memory(data: Any) -> Any:
    """Return files as a frame, and other data as it is."""
    files = files_of(data)
    if files is None:
        return data
    return read_file(files[0]) if len(files) == 1 else FileBatches(files).frame()
