"""DuckDB relations: each pass runs the query once, and reads its result as Arrow batches."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl

from tiltlens.errors import DataError, TiltlensError
from tiltlens.limits import BATCH_ROWS
from tiltlens.sources.batches import QUERY, S, Step, folded
from tiltlens.sources.messages import first_line
from tiltlens.sources.tables import column_names, declared_orders


def is_duckdb(data: Any) -> bool:
    """Return whether the data is a DuckDB relation, without importing DuckDB."""
    return type(data).__name__ == "DuckDBPyRelation"


@dataclass(frozen=True, slots=True, eq=False)
class DuckBatches:
    """A DuckDB relation, run once for each pass."""

    relation: Any

    def names(self) -> list[str]:
        """As of `Batches`."""
        return column_names(self.relation)

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """As of `Batches`."""
        selected = self._selected(columns)
        with _wrapped_errors():
            texts = _too_large(selected)
        return folded(_frames(selected, texts), step)

    def frames(self, columns: Sequence[str], texts: Collection[str] = ()) -> Generator[pl.DataFrame]:
        """As of `OrderedBatches`."""
        return _frames(self._selected(columns), {})

    def _selected(self, columns: Sequence[str]) -> Any:
        return self.relation.project(", ".join(_quoted(name) for name in columns))


def _frames(selected: Any, texts: dict[str, Any]) -> Generator[pl.DataFrame]:
    kinds: Any = {**declared_orders(selected), **texts}
    read = "to_arrow_reader" if hasattr(type(selected), "to_arrow_reader") else "fetch_arrow_reader"
    with _wrapped_errors():
        reader = getattr(selected, read)(BATCH_ROWS)
        try:
            for batch in reader:
                yield pl.DataFrame(batch).cast(kinds)
        finally:
            reader.close()


@contextmanager
def _wrapped_errors() -> Iterator[None]:
    """Raise what the user's query raises as a mistake in the data."""
    try:
        yield
    except TiltlensError:
        raise
    except Exception as error:  # the user's query runs here, and anything may go wrong
        raise DataError(f"`data` must be readable, got {type(error).__name__}: {first_line(error)}", QUERY) from error


def _too_large(relation: Any) -> dict[str, Any]:
    """Return the columns of whole numbers of which one is too large for 64 bits, as texts in every batch."""
    unsure = [name for name, kind in zip(relation.columns, relation.types, strict=True) if str(kind) == "UBIGINT"]
    if not unsure:
        return {}
    largest = relation.aggregate(", ".join(f"max({_quoted(name)})" for name in unsure)).fetchall()[0]
    return {name: pl.String for name, most in zip(unsure, largest, strict=True) if most is not None and most >= 2**63}


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
