"""Databases: DuckDB relations, and queries on a URL, read by the database's own driver.

DuckDB files are read by DuckDB, SQLite files by Python's driver through Polars, PostgreSQL by its Arrow driver.
Nothing is written: files and transactions are opened for reading only. Each pass over a DuckDB relation runs its query
once, and reads the result as Arrow batches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from tiltlens.errors import DataError, MissingExtraError, import_extra
from tiltlens.limits import BATCH_ROWS
from tiltlens.sources.batches import Batches, FrameBatches, S, Step, folded
from tiltlens.sources.columns import QUERY, column_names, declared_orders
from tiltlens.sources.messages import wrap_errors
from tiltlens.sources.read_options import ReadOptions
from tiltlens.sources.text_columns import DATES, read_texts

DuckRelation: TypeAlias = Any  # DuckDB need not be installed
URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
READ_ONLY = "options=-c%20default_transaction_read_only%3Don"  # of PostgreSQL's URLs
EXAMPLE = "for example 'SELECT * FROM loans'."


def database_url(data: object) -> str | None:
    """Return the URL that data is; None where it is something else."""
    url = data[0] if isinstance(data, (list, tuple)) and len(data) == 1 else data
    return url if isinstance(url, str) and URL.match(url) else None


def query_batches(url: str, options: ReadOptions) -> Batches:
    """Return the rows of a query on a database."""
    parts = URL.match(url)
    scheme, rest = (parts[1].lower(), parts[2]) if parts is not None else ("", "")
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
        return READERS[scheme](rest, url, options.query)


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
    from contextlib import closing

    with closing(sqlite3.connect(f"{_file(rest).resolve().as_uri()}?mode=ro", uri=True)) as connection:
        return _in_memory(pl.read_database(query, connection, infer_schema_length=None))


def _postgresql(rest: str, url: str, query: str) -> Batches:
    if find_spec("adbc_driver_postgresql") is None:
        raise MissingExtraError("Reading postgresql:// requires its Arrow driver, which is not installed.", extra="sql")
    if "options=" not in url:
        url += f"{'&' if '?' in url else '?'}{READ_ONLY}"
    return _in_memory(_with_decimals(pl.read_database_uri(query, url, engine="adbc")))


def _with_decimals(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with PostgreSQL's `numeric`, which the driver gives as texts of a type of its own, as numbers."""
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
    """A DuckDB relation, run once for each pass."""

    relation: DuckRelation

    def names(self) -> list[str]:
        """See `Batches`."""
        return column_names(self.relation)

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """See `Batches`."""
        selected = self._selected(columns)
        with _query_errors():
            texts = _too_large(selected)
        return folded(_frames(selected, texts), step)

    def frames(self, columns: Sequence[str], texts: Collection[str] = ()) -> Generator[pl.DataFrame]:
        """See `OrderedBatches`."""
        return _frames(self._selected(columns), ())

    def _selected(self, columns: Sequence[str]) -> DuckRelation:
        return self.relation.project(", ".join(_quoted(name) for name in columns))


def _query_errors() -> AbstractContextManager[None]:
    """Raise errors of the user's query as errors in the data."""
    return wrap_errors("`data` cannot be read", QUERY)


def _frames(selected: DuckRelation, texts: Sequence[str]) -> Generator[pl.DataFrame]:
    kinds = pl.Schema({**declared_orders(selected), **pl.Schema(dict.fromkeys(texts, pl.String))})
    read = "to_arrow_reader" if hasattr(type(selected), "to_arrow_reader") else "fetch_arrow_reader"
    with _query_errors():
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
