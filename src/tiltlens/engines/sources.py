"""Any data as batches: files, lazy frames, relations and Spark frames as they are, tables in memory as clean frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tiltlens.engines.batches import ROW, Batches, FrameBatches, checked_columns
from tiltlens.engines.duckdb import DuckBatches, is_duckdb
from tiltlens.engines.files import FileBatches, files_of, is_csv
from tiltlens.engines.messages import listed, shown
from tiltlens.engines.spark import SparkBatches, is_spark
from tiltlens.engines.tables import column_names, read_table
from tiltlens.errors import DataError


def batches_of(data: Any, na_values: Any = None) -> Batches | None:
    """Return the data as batches where it is read piece by piece; None where its rows are in memory.

    `na_values` are texts that stand for missing values in CSV files, beside the usual ones.
    """
    files = files_of(data)
    texts = _checked_texts(na_values, files)
    if files is not None:
        return FileBatches(files, texts)
    if is_spark(data):
        return SparkBatches(data)
    if isinstance(data, pl.LazyFrame):
        return FrameBatches(data)
    return DuckBatches(data) if is_duckdb(data) else None


def _checked_texts(na_values: Any, files: Sequence[Path] | None) -> tuple[str, ...]:
    texts = () if na_values is None else (na_values,) if isinstance(na_values, str) else tuple(na_values)
    strangers = [text for text in texts if not isinstance(text, str)]
    if strangers:
        raise DataError(f"`na_values` must be texts, got {shown(strangers[0])}.", "as they stand in the file: '-9'.")
    if texts and not (files and is_csv(files)):
        raise DataError(
            f"`na_values` must be left out for data that is no CSV file, got {listed(texts)}.",
            "only CSV files have texts for missing values: replace them in the data.",
        )
    return texts


def reading_notes(batches: Batches, columns: Sequence[str]) -> tuple[str, ...]:
    """Return what the reader of an audit should know of how these columns were read: of CSV files, that hold texts."""
    return batches.notes(columns) if isinstance(batches, FileBatches) else ()


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


def collected(data: Any, columns: Sequence[str] | None = None, na_values: Any = None) -> pl.DataFrame:
    """Return some columns (default: all) of any data as one clean frame in memory."""
    batches = batches_of(data, na_values)
    if batches is None:
        return read_table(data, columns)
    wanted = checked_columns(batches, batches.names() if columns is None else columns)
    return pl.concat(batches.fold(wanted, _framed).frames).drop(ROW, strict=False)


def names_of(data: Any) -> list[str]:
    """Return the names of any data's columns."""
    batches = batches_of(data)
    return column_names(data) if batches is None else batches.names()
