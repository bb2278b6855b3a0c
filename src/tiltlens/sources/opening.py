"""Any data as batches: files, lazy frames, relations and Spark frames as they are, tables in memory as clean frames."""

from __future__ import annotations

import os
from collections.abc import Sequence

import polars as pl

from tiltlens.inputs import remember
from tiltlens.sources.batches import ROW, Batches, FrameBatches, checked_columns
from tiltlens.sources.columns import column_names, read_table
from tiltlens.sources.databases import DuckBatches, database_url, query_batches
from tiltlens.sources.file_formats import format_of
from tiltlens.sources.files import FileBatches, files_of, inputs_of
from tiltlens.sources.read_options import Source
from tiltlens.sources.spark import SparkBatches
from tiltlens.threads import check_threads


def batches_of(data: object) -> Batches | None:
    """Return the data as batches where it is read piece by piece; None where its rows are in memory."""
    check_threads()
    if isinstance(data, (str, os.PathLike, list, tuple, Source)):
        return _batches_of_source(Source.of(data))
    if isinstance(data, pl.LazyFrame):
        return FrameBatches(data)
    kind = type(data)  # Spark and DuckDB need not be installed
    if kind.__module__.startswith("pyspark.sql.") and hasattr(data, "mapInArrow"):
        return SparkBatches(data)
    return DuckBatches(data) if kind.__name__ == "DuckDBPyRelation" else None


def _batches_of_source(source: Source) -> Batches | None:
    """Return the rows of a database or of files; None where a list names neither."""
    url = database_url(source.path)
    remember(*inputs_of(source))
    if url is not None:
        return query_batches(url, source.options)
    files = files_of(source.path)
    if files is None:
        return None
    file_format = format_of(files[0])
    source.options.check_for(f"{file_format.name} files", file_format.options)
    return FileBatches(files, source.options)


def reading_notes(batches: Batches, columns: Sequence[str]) -> tuple[str, ...]:
    """Return what users may not expect of how these columns were read from files."""
    return batches.notes(columns) if isinstance(batches, FileBatches) else ()


def frame_of(data: object, columns: Sequence[str]) -> pl.DataFrame:
    """Return some columns of a table in memory; a Polars frame as it is, for its batches are cleaned one by one."""
    return data if isinstance(data, pl.DataFrame) else read_table(data, columns)


def collected(data: object, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return some columns (default: all) of any data as one clean frame in memory."""
    batches = batches_of(data)
    return read_table(data, columns) if batches is None else collected_rows(batches, columns)


def collected_rows(batches: Batches, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return some columns (default: all) of batches as one clean frame in memory."""
    wanted = checked_columns(batches, batches.names() if columns is None else columns)
    return pl.concat(batches.fold(wanted, lambda batch: [batch])).drop(ROW, strict=False)


def names_of(data: object, batches: Batches | None) -> list[str]:
    """Return the names of any data's columns."""
    return column_names(data) if batches is None else batches.names()
