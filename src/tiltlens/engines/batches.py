"""Tables that can be folded: batch after batch becomes sums, and the sums are added.

One folding function serves every engine, so every engine gives the same numbers. A batch is a frame of clean columns,
and what a step makes of it must have `+`. Nothing else of the rows is kept.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import polars as pl

from tiltlens.engines.tables import (
    MISSING_TEXTS,
    check_case,
    check_columns,
    check_file,
    clean_column,
    column_names,
    declared_orders,
    depends_on_values,
    first_line,
    shown,
)
from tiltlens.errors import DataError
from tiltlens.threads import made_in_order

BATCH = 1 << 18  # rows of a batch, about
INFERRED_ROWS = 10_000  # of the first CSV file, from which kinds are inferred
ENDINGS = (".parquet", ".csv")

S = TypeVar("S")
Step = Callable[[pl.DataFrame], S]


class Batches(Protocol):
    """A table that can be folded."""

    def names(self) -> list[str]:
        """Return the names of its columns."""
        ...

    def count(self) -> int:
        """Return how many rows it has."""
        ...

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """Return Σ step(batch) over the batches of some columns."""
        ...

    @property
    def is_at_hand(self) -> bool:
        """Whether the rows are in memory, where they can be looked at again at any time."""
        ...


def folded(frames: Generator[pl.DataFrame], step: Step[S]) -> S:
    """Return Σ step(batch) over frames, small ones joined to batches first.

    One thread a core makes the sums; they are added in the order of the batches. Generators are closed by name: an
    interruption while one is thrown away would be shown, and ignored.
    """
    total: Any = None
    with (
        closing(frames),
        closing(regrouped(frames)) as batches,
        closing(made_in_order(lambda batch: step(clean_batch(batch)), batches)) as parts,
    ):
        for found in parts:
            total = found if total is None else total + found
    if total is None:
        raise DataError("`data` must have rows, got an empty table.", "look at what was filtered out before.")
    return total  # type: ignore[no-any-return]


def regrouped(frames: Iterable[pl.DataFrame]) -> Generator[pl.DataFrame]:
    """Yield frames of about `BATCH` rows."""
    waiting: list[pl.DataFrame] = []
    rows = 0
    for frame in frames:
        if frame.height:
            waiting.append(frame)
            rows += frame.height
        if rows >= BATCH:
            yield pl.concat(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pl.concat(waiting)


def clean_batch(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a batch with clean columns."""
    return pl.DataFrame([clean_column(column) for column in frame.get_columns()])


@dataclass(frozen=True, slots=True, eq=False)
class FrameBatches:
    """A Polars frame, eager or lazy; what is lazy is run once for each pass, by the streaming engine.

    `rows` are those of a batch of an eager frame, where they are not `BATCH`.
    """

    frame: pl.DataFrame | pl.LazyFrame
    rows: int | None = None

    @property
    def is_at_hand(self) -> bool:
        """As of `Batches`."""
        return isinstance(self.frame, pl.DataFrame)

    def names(self) -> list[str]:
        """As of `Batches`."""
        return column_names(self.frame)

    def count(self) -> int:
        """As of `Batches`."""
        return int(self.frame.lazy().select(pl.len()).collect(engine="streaming").item())

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """As of `Batches`."""
        selected = self.frame.select(columns)
        if isinstance(selected, pl.DataFrame):
            parts_differ = [column for column in selected if depends_on_values(column.dtype)]
            selected = selected.with_columns(clean_column(column) for column in parts_differ)
            return folded(_slices(selected, BATCH if self.rows is None else self.rows), step)
        return folded(read_in_batches(selected, "`data`"), step)


def _slices(frame: pl.DataFrame, rows: int) -> Generator[pl.DataFrame]:
    yield from frame.iter_slices(rows)


def even_batch(rows: int) -> int:
    """Return the size of an even number of equal batches, larger than others: all rows are in memory anyhow."""
    pairs = max(-(-rows // (4 * BATCH)), 1)
    return max(-(-rows // (2 * pairs)), 1)


def read_in_batches(frame: pl.LazyFrame, name: str) -> Generator[pl.DataFrame]:
    """Yield the rows of a lazy frame; an error of its engine names what was read."""
    batches = frame.collect_batches(chunk_size=BATCH, maintain_order=True, lazy=True, engine="streaming")
    try:
        yield from batches
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{name} must be readable to its end, got {type(error).__name__}: {first_line(error)}", "write it again."
        ) from error
    finally:
        stop = getattr(batches, "stop", None)  # else the engine would go on to the last row
        if stop is not None:
            stop()


@dataclass(frozen=True, slots=True, eq=False)
class FileBatches:
    """Parquet or CSV files of the same columns, read one after another."""

    files: tuple[Path, ...]
    is_at_hand: ClassVar[bool] = False

    def names(self) -> list[str]:
        """As of `Batches`."""
        return column_names(self._scan(self.files[0]))

    def count(self) -> int:
        """As of `Batches`; 0 where a file cannot be counted, which reading it will explain."""
        try:
            return sum(FrameBatches(self._scan(file)).count() for file in self.files)
        except (pl.exceptions.PolarsError, OSError):
            return 0

    def frame(self) -> pl.LazyFrame:
        """Return all files as one lazy frame."""
        names = self.names()
        self._check_schemas(names)
        return pl.concat([self._scan(file).select(names) for file in self.files], how="vertical_relaxed")

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """As of `Batches`."""
        kinds = self._check_schemas(columns)

        def frames() -> Generator[pl.DataFrame]:
            for file in self.files:
                with closing(read_in_batches(self._scan(file).select(columns), repr(str(file)))) as batches:
                    yield from (clean_batch(batch).cast(kinds) for batch in batches)  # type: ignore[arg-type]

        return folded(frames(), step)

    def _scan(self, file: Path) -> pl.LazyFrame:
        check_file(file)
        if file.suffix.lower() == ".parquet":
            return pl.scan_parquet(file)
        options: dict[str, Any] = {"null_values": MISSING_TEXTS, "try_parse_dates": True}
        first = pl.scan_csv(self.files[0], infer_schema_length=INFERRED_ROWS, **options)
        if file == self.files[0]:
            return first
        return pl.scan_csv(file, schema_overrides=_schema(first, self.files[0]), **options)

    def _check_schemas(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return the clean kinds of the columns, which every file must have."""
        kinds: dict[str, Any] = {}
        for file in self.files:
            schema = _schema(self._scan(file), file)
            missing = [name for name in columns if name not in schema]
            if missing:
                raise DataError(
                    f"every file must have the columns of {str(self.files[0])!r}, got no {shown(missing[0])} in "
                    f"{str(file)!r}.",
                    "write it again, or leave it out.",
                )
            for name in columns:
                kind = clean_column(pl.Series(name, [], dtype=schema[name])).dtype
                if kinds.setdefault(name, kind) != kind:
                    raise DataError(
                        f"every file must have columns of the same kinds as {str(self.files[0])!r}, got "
                        f"{shown(name)} as {kind}, not {kinds[name]}, in {str(file)!r}.",
                        "write it again with that kind.",
                    )
        return kinds


def _schema(frame: pl.LazyFrame, file: Path) -> pl.Schema:
    try:
        return frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{str(file)!r} must be a complete {file.suffix[1:].title()} file, got: {first_line(error)}",
            "write it again.",
        ) from None


@dataclass(frozen=True, slots=True, eq=False)
class DuckBatches:
    """A DuckDB relation, run once for each pass."""

    relation: Any
    is_at_hand: ClassVar[bool] = False

    def names(self) -> list[str]:
        """As of `Batches`."""
        return column_names(self.relation)

    def count(self) -> int:
        """As of `Batches`."""
        return int(self.relation.aggregate("count(*)").fetchall()[0][0])

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """As of `Batches`."""
        selected = self.relation.project(", ".join(_quoted(name) for name in columns))
        orders = declared_orders(selected)

        def frames() -> Generator[pl.DataFrame]:
            read = "to_arrow_reader" if hasattr(type(selected), "to_arrow_reader") else "fetch_arrow_reader"
            reader = getattr(selected, read)(BATCH)
            try:
                for batch in reader:
                    frame = pl.DataFrame(batch)
                    yield frame.cast({name: kind for name, kind in orders.items() if name in frame.columns})
            finally:
                reader.close()

        return folded(frames(), step)


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def files_of(data: Any) -> tuple[Path, ...] | None:
    """Return the files that a path, a pattern, a folder or a list of these names; None where it is none of them."""
    entries = list(data) if isinstance(data, (list, tuple)) and data else [data]
    if not all(isinstance(entry, (str, os.PathLike)) for entry in entries):
        return None
    found = [file for entry in entries for file in _files(os.fspath(entry))]
    endings = {file.suffix.lower() for file in found}
    if len(endings) > 1:
        raise DataError(
            f"the files must be of one kind, got {' and '.join(sorted(endings))}.", "name the Parquet or the CSV files."
        )
    return tuple(found)


def _files(entry: str) -> list[Path]:
    path = Path(entry)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix.lower() in ENDINGS and _is_data(file, path))
    elif glob.has_magic(entry) and not path.exists():
        found = sorted(Path(file) for file in glob.iglob(entry, recursive=True) if Path(file).is_file())  # noqa: PTH207
    else:
        return [path]
    if not found:
        raise DataError(
            f"{shown(entry)} must match .csv or .parquet files, got none.", f"it was looked for in {Path.cwd()}."
        )
    return found


def _is_data(file: Path, folder: Path) -> bool:
    """Return whether a file is no mark that an engine left behind."""
    return not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def checked_columns(batches: Batches, wanted: Sequence[str]) -> list[str]:
    """Return the wanted columns, which must be there, and not differ from others in letter case alone."""
    names = batches.names()
    check_columns("data", wanted, names)
    check_case(wanted, names)
    return list(dict.fromkeys(wanted))
