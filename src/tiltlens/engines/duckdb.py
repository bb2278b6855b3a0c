"""DuckDB relations: each pass runs the query once, and reads its result as Arrow batches."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tiltlens.engines.batches import S, Step, folded
from tiltlens.engines.messages import first_line
from tiltlens.engines.tables import column_names, declared_orders
from tiltlens.errors import DataError, TiltlensError
from tiltlens.limits import BATCH_ROWS


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
        selected = self.relation.project(", ".join(_quoted(name) for name in columns))
        orders = declared_orders(selected)

        def frames() -> Generator[pl.DataFrame]:
            texts = _too_large(selected)
            read = "to_arrow_reader" if hasattr(type(selected), "to_arrow_reader") else "fetch_arrow_reader"
            reader = getattr(selected, read)(BATCH_ROWS)
            try:
                for batch in reader:
                    yield pl.DataFrame(batch).cast({**orders, **texts})  # type: ignore[dict-item]
            finally:
                reader.close()

        try:
            return folded(frames(), step)
        except TiltlensError:
            raise
        except Exception as error:  # the user's query runs here, and anything may go wrong
            raise DataError(
                f"`data` must be readable, got {type(error).__name__}: {first_line(error)}",
                "run the query behind `data` on its own first.",
            ) from error


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
