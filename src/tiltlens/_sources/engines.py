"""Databases, Spark and any other data as batches: `batches_of`, `collected`.

DuckDB reads its own files, Python's driver reads SQLite files through Polars, and an Arrow driver reads PostgreSQL.
Files and transactions are opened read-only. Each pass over a DuckDB relation runs its query once and reads the result
as Arrow batches.
"""

from __future__ import annotations

import os
import pickle
import re
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from tiltlens._limits import BATCH_ROWS
from tiltlens._notes import Note
from tiltlens._sources.files import FileBatches, files_of, format_of, inputs_of
from tiltlens._sources.tables import (
    QUERY,
    ROW,
    Batches,
    FrameBatches,
    S,
    Step,
    checked_columns,
    clean_batch,
    column_names,
    declared_orders,
    empty_table,
    folded,
    read_table,
    regrouped,
)
from tiltlens._sources.text_columns import DATES, ReadOptions, Source, read_texts
from tiltlens._threads import check_threads
from tiltlens.errors import (
    DataError,
    MissingExtraError,
    TiltlensError,
    checked_names,
    import_extra,
    remember,
    wrap_errors,
)
from tiltlens.paper.checks import Floats

DuckRelation: TypeAlias = Any  # DuckDB need not be installed
URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
READ_ONLY = "options=-c%20default_transaction_read_only%3Don"  # of PostgreSQL's URLs
EXAMPLE = "for example 'SELECT * FROM loans'."


def _query_batches(url: re.Match[str], options: ReadOptions) -> Batches:
    """Return the rows of a database query."""
    scheme, rest = url[1].lower(), url[2]
    if scheme not in READERS:
        raise DataError(
            f"Databases of {scheme}:// cannot be read. Supported: {', '.join(f'{name}://' for name in READERS)}.",
            "save the rows as a file first.",
        )
    if options.query is None:
        raise DataError("A database needs a query that selects the rows (`query` of tl.read, --query).", EXAMPLE)
    options.check_for("a database", ["query"])
    problem = "The database cannot run `query` (--query)"
    with wrap_errors(problem, "run the query on its own first.", hide_cause=True):  # the URL may hold a password
        return READERS[scheme](rest, url[0], options.query)


def _file(rest: str) -> Path:
    """Return the file of a URL such as sqlite:///people.db, or sqlite:////data/people.db."""
    path = Path(rest.removeprefix("/"))
    if not path.is_file():
        raise DataError(f"The database file {str(path)!r} does not exist.", "write three slashes, then the path.")
    return path


def _duckdb(rest: str, url: str, query: str) -> Batches:
    duckdb = import_extra("duckdb", "Reading duckdb://", extra="sql")
    connection = duckdb.connect(str(_file(rest)), read_only=True, config={"autoinstall_known_extensions": False})
    relation = connection.sql(query)
    if relation is None:
        raise DataError("`query` (--query) is a statement that returns no rows.", EXAMPLE)
    return DuckBatches(relation)


def _sqlite(rest: str, url: str, query: str) -> Batches:
    import sqlite3

    with closing(sqlite3.connect(f"{_file(rest).resolve().as_uri()}?mode=ro", uri=True)) as connection:
        return _in_memory(pl.read_database(query, connection, infer_schema_length=None))


def _postgresql(rest: str, url: str, query: str) -> Batches:
    if find_spec("adbc_driver_postgresql") is None:
        raise MissingExtraError("Reading postgresql:// requires its Arrow driver, which is not installed.", extra="sql")
    if "options=" not in url:
        url += f"{'&' if '?' in url else '?'}{READ_ONLY}"
    return _in_memory(_with_decimals(pl.read_database_uri(query, url, engine="adbc")))


def _with_decimals(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with PostgreSQL's `numeric` columns, which the driver returns as text, as numbers."""
    decimals = [
        column.ext.storage().cast(pl.Float64)
        for column in frame
        if '"type_name": "numeric"' in (getattr(column.dtype, "ext_metadata", str)() or "")
    ]
    return frame.with_columns(decimals)


def _in_memory(frame: pl.DataFrame) -> Batches:
    scan = frame.lazy()
    return FrameBatches(read_texts([scan], forms=DATES).cast(scan).collect())


READERS: dict[str, Callable[[str, str, str], Batches]] = {
    "duckdb": _duckdb,
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "postgres": _postgresql,
}


@dataclass(frozen=True, slots=True, eq=False)
class DuckBatches:
    """A DuckDB relation, whose query is run once per pass."""

    relation: DuckRelation

    def names(self) -> list[str]:
        """See `Batches`."""
        return column_names(self.relation)

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """See `Batches`."""
        selected = self._selected(columns)
        with wrap_errors("`data` cannot be read", QUERY):
            texts = _too_large(selected)
        return folded(_frames(selected, texts), step)

    def frames(self, columns: Sequence[str], texts: Collection[str] = ()) -> Generator[pl.DataFrame]:
        """See `OrderedBatches`."""
        return _frames(self._selected(columns), ())

    def _selected(self, columns: Sequence[str]) -> DuckRelation:
        return self.relation.project(", ".join(_quoted(name) for name in columns))


def _frames(selected: DuckRelation, texts: Sequence[str]) -> Generator[pl.DataFrame]:
    kinds = pl.Schema({**declared_orders(selected), **pl.Schema(dict.fromkeys(texts, pl.String))})
    read = "to_arrow_reader" if hasattr(type(selected), "to_arrow_reader") else "fetch_arrow_reader"
    with wrap_errors("`data` cannot be read", QUERY):
        reader = getattr(selected, read)(BATCH_ROWS)
        try:
            for batch in reader:
                yield pl.DataFrame(batch).cast(kinds)
        finally:
            reader.close()


def _too_large(relation: DuckRelation) -> list[str]:
    """Return the columns of whole numbers of which one is too large for 64 bits: in every batch they are texts."""
    unsure = [name for name, kind in zip(relation.columns, relation.types, strict=True) if str(kind) == "UBIGINT"]
    if not unsure:
        return []
    largest = relation.aggregate(", ".join(f"max({_quoted(name)})" for name in unsure)).fetchall()[0]
    return [name for name, most in zip(unsure, largest, strict=True) if most is not None and most >= 2**63]


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


SparkFrame: TypeAlias = Any  # Spark need not be installed, nor pyarrow
ArrowBatch: TypeAlias = Any
MERGERS = 4  # workers that add the sums of all partitions
SCHEMA = "sums binary"


@dataclass(frozen=True, slots=True, eq=False)
class SparkBatches:
    """A Spark data frame; tiltlens must be installed on the workers."""

    frame: SparkFrame

    def names(self) -> list[str]:
        """See `Batches`."""
        return checked_names(list(self.frame.columns))

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """See `Batches`."""
        names = ["`" + name.replace("`", "``") + "`" for name in columns]
        hint = "is tiltlens installed on the workers, and PYSPARK_PYTHON set to its Python?"
        with wrap_errors("Spark cannot run the audit", hint):
            parts = self.frame.select(*names).mapInArrow(partial(_sum_partition, step), SCHEMA)
            rows = parts.repartition(MERGERS).mapInArrow(_merged, SCHEMA).collect()
        total: S | TiltlensError | None = _sum(_unpacked(row[0]) for row in rows)
        if total is None:
            raise empty_table()
        if isinstance(total, TiltlensError):
            raise total
        return total


def _sum_partition(step: Step[S], batches: Iterator[ArrowBatch]) -> Iterator[ArrowBatch]:
    """Yield the pickled sum over a partition, on a worker, unless it is empty."""
    frames = regrouped(pl.DataFrame(batch) for batch in batches)
    try:
        part: S | TiltlensError | None = _sum(step(clean_batch(frame)) for frame in frames)
    except TiltlensError as error:  # the user's mistake: Spark would retry a failed task four times
        part = error
    yield from _packed(part)


def with_numbers(
    frame: SparkFrame, columns: Sequence[str], names: Sequence[str], step: Callable[[pl.DataFrame], Floats]
) -> SparkFrame:
    """Return a data frame with additional columns: the numbers that `step` computes from some columns, (n,) or (n, K).

    The workers compute them when Spark evaluates the frame, so an error in the data is raised only then.
    """
    from pyspark.sql.types import DoubleType, StructField, StructType

    fields = [StructField(name, DoubleType()) for name in names]
    return frame.mapInArrow(partial(_add_numbers, columns, step), StructType([*frame.schema.fields, *fields]))


def _add_numbers(
    columns: Sequence[str], step: Callable[[pl.DataFrame], Floats], batches: Iterator[ArrowBatch]
) -> Iterator[ArrowBatch]:
    """Yield the batches of a partition with additional columns, on a worker."""
    import pyarrow as pa

    for batch in batches:
        values = step(pl.DataFrame(batch.select(columns)))
        made = [pa.array(column) for column in values.reshape(batch.num_rows, -1).T]
        names = [*batch.schema.names, *("" for _ in made)]  # Spark uses the positions of columns, not their names
        yield pa.RecordBatch.from_arrays([*batch.columns, *made], names)


def _merged(batches: Iterator[ArrowBatch]) -> Iterator[ArrowBatch]:
    """Yield the sum of many sums, since those of thousands of partitions are too much for the driver."""
    yield from _packed(_sum(_unpacked(packed.as_py()) for batch in batches for packed in batch.column(0)))


def _sum(parts: Iterable[S | TiltlensError]) -> S | TiltlensError | None:
    """Return the sum, None if there are no parts, or the first error among them."""
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


def batches_of(data: object) -> Batches | None:
    """Return data that are read in pieces as batches; None if their rows are in memory."""
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
    """Return the rows of a database or of files as batches; None if the source is neither."""
    path = source.path
    only = path[0] if isinstance(path, (list, tuple)) and len(path) == 1 else path
    url = URL.match(only) if isinstance(only, str) else None
    remember(*inputs_of(source))
    if url is not None:
        return _query_batches(url, source.options)
    files = files_of(path)
    if files is None:
        return None
    file_format = format_of(files[0])
    source.options.check_for(f"{file_format.name} files", file_format.options)
    return FileBatches(files, source.options)


def reading_notes(batches: Batches, columns: Sequence[str]) -> tuple[Note, ...]:
    """Return notes on unexpected ways in which these columns were read from files."""
    return batches.notes(columns) if isinstance(batches, FileBatches) else ()


def frame_of(data: object, columns: Sequence[str]) -> pl.DataFrame:
    """Return some columns of a table in memory; a Polars frame stays as it is, as its batches are cleaned later."""
    return data if isinstance(data, pl.DataFrame) else read_table(data, columns)


def collected(data: object, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return some columns (default: all) of any data as one clean frame in memory."""
    batches = batches_of(data)
    return read_table(data, columns) if batches is None else collected_rows(batches, columns)


def collected_rows(batches: Batches, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return some columns (default: all) of batches as one clean frame in memory."""
    names = batches.names()
    wanted = checked_columns(names, names if columns is None else columns)
    return pl.concat(batches.fold(wanted, lambda batch: [batch])).drop(ROW, strict=False)


def names_of(data: object, batches: Batches | None) -> list[str]:
    """Return the names of any data's columns."""
    return column_names(data) if batches is None else batches.names()
