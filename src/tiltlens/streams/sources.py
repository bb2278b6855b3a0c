"""What is streamed, and what is read into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tiltlens.engines.batches import (
    Batches,
    DuckBatches,
    FileBatches,
    FrameBatches,
    checked_columns,
    even_batch,
    files_of,
)
from tiltlens.engines.spark import SparkBatches, is_spark
from tiltlens.engines.tables import read_file, read_table
from tiltlens.errors import DataError

STREAMED_ROWS = 5_000_000  # from here on, what can be streamed is
COLLECTED_ROWS = 500_000  # up to which the rows of a stream are brought together where a model is to be fitted


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Data that is to be streamed however many rows it has."""

    batches: Batches


def stream(data: Any) -> Stream:
    """Return the data, marked to be streamed: an audit then holds a batch of rows at a time, never all of them.

    `data` is anything that `tl.audit` takes but pandas frames and dicts, whose rows are in memory already. Spark data
    frames are streamed in any case, and files, lazy frames and DuckDB relations from five million rows on.
    """
    found = _batches(data)
    if found is None and isinstance(data, pl.DataFrame):
        found = FrameBatches(data)
    if found is None:
        raise DataError(
            f"`data` must be files, a Polars frame, a DuckDB relation or a Spark frame, got {type(data).__name__}.",
            "pass it to `tl.audit` as it is: its rows are in memory.",
        )
    return Stream(found)


def stream_of(data: Any) -> Batches | None:
    """Return the data as batches where it is to be streamed: on request, on Spark, or with many rows."""
    if isinstance(data, Stream):
        return data.batches
    found = _batches(data)
    if found is None or isinstance(found, SparkBatches):
        return found
    return found if is_long(found.count()) else None


def is_long(rows: int) -> bool:
    """Return whether so many rows are summed, batch by batch, rather than looked at together."""
    return rows >= STREAMED_ROWS


def rows_in_memory(data: Any) -> int:
    """Return how many rows a table has that is in memory; 0 where it is not, or not known to be."""
    if isinstance(data, Mapping):
        return len(next(iter(data.values()), ()))
    if hasattr(data, "num_rows"):  # pyarrow
        return int(data.num_rows)
    return len(data) if isinstance(data, pl.DataFrame) or hasattr(data, "iloc") else 0


def in_even_batches(data: Any, columns: Sequence[str]) -> FrameBatches:
    """Return a table in memory as batches; a Polars frame as it is, for its batches are cleaned one by one."""
    table = data if isinstance(data, pl.DataFrame) else read_table(data, columns)
    return FrameBatches(table, even_batch(table.height))


@dataclass(frozen=True, slots=True, eq=False)
class _Frames:
    """Frames, added with `+`."""

    frames: tuple[pl.DataFrame, ...]

    def __add__(self, other: _Frames) -> _Frames:
        return _Frames(self.frames + other.frames)


def _framed(frame: pl.DataFrame) -> _Frames:
    return _Frames((frame,))


def are_few(batches: Batches) -> bool:
    """Return whether a stream has so few rows that they may be brought together."""
    return batches.count() <= COLLECTED_ROWS


def collected(batches: Batches, columns: Sequence[str]) -> pl.DataFrame:
    """Return all rows of a stream as one frame."""
    return pl.concat(batches.fold(checked_columns(batches, columns), _framed).frames)


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
