"""Any data as batches: files, lazy frames, relations and Spark frames as they are, tables in memory as clean frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tiltlens.engines.batches import ROW, Batches, FrameBatches, checked_columns
from tiltlens.engines.duckdb import DuckBatches, is_duckdb
from tiltlens.engines.files import FileBatches, files_of
from tiltlens.engines.spark import SparkBatches, is_spark
from tiltlens.engines.tables import column_names, read_table


def batches_of(data: Any) -> Batches | None:
    """Return the data as batches where it is read piece by piece; None where its rows are in memory."""
    files = files_of(data)
    if files is not None:
        return FileBatches(files)
    if is_spark(data):
        return SparkBatches(data)
    if isinstance(data, pl.LazyFrame):
        return FrameBatches(data)
    return DuckBatches(data) if is_duckdb(data) else None


def frame_of(data: Any, columns: Sequence[str]) -> pl.DataFrame:
    """Return some columns of a table in memory; a Polars frame as it is, for its batches are cleaned one by one."""
    return data if isinstance(data, pl.DataFrame) else read_table(data, columns)


@dataclass(frozen=True, slots=True, eq=False)
class _Frames:
    """Frames, added with `+`."""

    frames: tuple[pl.DataFrame, ...]

    def __add__(self, other: _Frames) -> _Frames:
        return _Frames(self.frames + other.frames)


def _framed(frame: pl.DataFrame) -> _Frames:
    return _Frames((frame,))


def collected(data: Any, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return some columns (default: all) of any data as one clean frame in memory."""
    batches = batches_of(data)
    if batches is None:
        return read_table(data, columns)
    wanted = checked_columns(batches, batches.names() if columns is None else columns)
    return pl.concat(batches.fold(wanted, _framed).frames).drop(ROW, strict=False)


def names_of(data: Any) -> list[str]:
    """Return the names of any data's columns."""
    batches = batches_of(data)
    return column_names(data) if batches is None else batches.names()
