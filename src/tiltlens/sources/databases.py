"""Databases: a query on a URL, read by the database's own driver.

DuckDB files are read by DuckDB, SQLite files by Python's driver through Polars, PostgreSQL by its Arrow driver.
Nothing is written: files and transactions are opened for reading only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl

from tiltlens.errors import DataError, MissingExtraError, TiltlensError
from tiltlens.sources.batches import Batches, FrameBatches
from tiltlens.sources.duckdb import DuckBatches
from tiltlens.sources.messages import first_line
from tiltlens.sources.read_options import ReadOptions
from tiltlens.sources.text_columns import DATES, read_texts

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
READ_ONLY = "options=-c%20default_transaction_read_only%3Don"  # of PostgreSQL's URLs
SECRET = re.compile(r"://[^\s/@]*@|password=\S+", re.IGNORECASE)


def database_url(data: Any) -> str | None:
    """Return the URL that data is; None where it is something else."""
    one = data[0] if isinstance(data, (list, tuple)) and len(data) == 1 else data
    return one if isinstance(one, str) and URL.match(one) else None


def query_batches(url: str, options: ReadOptions) -> Batches:
    """Return the rows of a query on a database."""
    found = URL.match(url)
    scheme, rest = (found[1].lower(), found[2]) if found is not None else ("", "")
    if scheme not in READERS:
        raise DataError(
            f"`data` must be files, or a URL that begins with {', '.join(f'{one}://' for one in READERS)}, got "
            f"{scheme}://.",
            "fetch the rows first, as a file.",
        )
    if options.query is None:
        raise DataError(
            "`query` of tl.read (--query) must select the rows of a database, got none.",
            "for example 'SELECT * FROM loans'.",
        )
    options.check_for("a database", ["query"])
    with _named_errors():
        return READERS[scheme](rest, url, options.query)


@contextmanager
def _named_errors() -> Generator[None]:
    """Raise what a driver raises as an error of ours, without what the URL keeps secret."""
    try:
        yield
    except TiltlensError:
        raise
    except Exception as error:  # drivers have errors of their own
        told = SECRET.sub("…", first_line(error))
        raise DataError(
            f"`query` must be readable, got {type(error).__name__}: {told}", "run it on its own first."
        ) from None


def _file(rest: str) -> Path:
    """Return the file of a URL such as sqlite:///people.db, or sqlite:////data/people.db."""
    path = Path(rest.removeprefix("/"))
    if not path.is_file():
        raise DataError(f"the URL must name an existing file, got {str(path)!r}.", "three slashes, then the path.")
    return path


def _duckdb(rest: str, url: str, query: str) -> Batches:
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError("duckdb:// must be read by DuckDB, which is not installed.", extra="sql") from None
    connection = duckdb.connect(str(_file(rest)), read_only=True, config={"autoinstall_known_extensions": False})
    relation = connection.sql(query)
    if relation is None:
        raise DataError("`query` must give rows, got a statement without any.", "for example 'SELECT * FROM loans'.")
    return DuckBatches(relation)


def _sqlite(rest: str, url: str, query: str) -> Batches:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(f"{_file(rest).resolve().as_uri()}?mode=ro", uri=True)) as connection:
        return _in_memory(pl.read_database(query, connection, infer_schema_length=None))


def _postgresql(rest: str, url: str, query: str) -> Batches:
    if find_spec("adbc_driver_postgresql") is None:
        raise MissingExtraError("postgresql:// must be read by its Arrow driver, which is not installed.", extra="sql")
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
