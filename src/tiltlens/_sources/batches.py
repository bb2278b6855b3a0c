"""Tables that can be folded: each batch is reduced to sums, and the sums are added.

One folding function serves all engines, so all give the same numbers. A batch is a frame of clean columns with row
numbers; the result of a step must support `+`. No rows are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Protocol, Self, TypeVar

import polars as pl

from tiltlens._limits import BATCH_ROWS
from tiltlens._sources.columns import QUERY, clean_column, column_names, depends_on_values, empty_table
from tiltlens._threads import map_in_order
from tiltlens.errors import check_case, check_columns, wrap_errors

ROW = "\0row"  # the column of row numbers; table columns cannot contain NUL


class Summable(Protocol):
    """The results of batches: sums that can be added."""

    def __add__(self, other: Self, /) -> Self:
        """Return the sum over both."""
        ...


S = TypeVar("S", bound=Summable)
Step = Callable[[pl.DataFrame], S]


class Batches(Protocol):
    """A table that can be folded."""

    def names(self) -> list[str]:
        """Return the names of its columns."""
        ...

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """Return Σ step(batch) over the batches of some columns; they include `ROW` if rows have an order."""
        ...


class OrderedBatches(Batches, Protocol):
    """A table whose rows have an order and can be read in it without cleaning."""

    def frames(self, columns: Sequence[str], texts: Collection[str] = ()) -> Generator[pl.DataFrame]:
        """Yield the uncleaned rows of some columns; in CSV files, those in `texts` are read as written."""
        ...


def in_batches(frames: Generator[pl.DataFrame], step: Step[S]) -> Generator[S]:
    """Yield step(batch) over frames in order, joined to larger batches first; there is one thread per core.

    Generators are closed explicitly, because an interruption during garbage collection would be printed and ignored.
    """
    with (
        closing(frames),
        closing(_numbered(regrouped(frames))) as batches,
        closing(map_in_order(step, batches)) as parts,
    ):
        yield from parts


def folded(frames: Generator[pl.DataFrame], step: Step[S]) -> S:
    """Return Σ step(batch) over frames, added in the order of the batches."""
    with closing(in_batches(frames, lambda batch: step(clean_batch(batch)))) as parts:
        for first in parts:
            return reduce(add, parts, first)
    raise empty_table()


def regrouped(frames: Iterable[pl.DataFrame]) -> Generator[pl.DataFrame]:
    """Yield frames joined to batches of at least `BATCH_ROWS` rows, except for the last."""
    waiting: list[pl.DataFrame] = []
    rows = 0
    for frame in frames:
        if frame.height:
            waiting.append(frame)
            rows += frame.height
        if rows >= BATCH_ROWS:
            yield pl.concat(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pl.concat(waiting)


def _numbered(frames: Generator[pl.DataFrame]) -> Generator[pl.DataFrame]:
    """Yield the frames with a column of row numbers."""
    start = 0
    with closing(frames):
        for frame in frames:
            numbers = pl.int_range(start, start + frame.height, dtype=pl.Int64, eager=True)
            yield frame.with_columns(numbers.alias(ROW))
            start += frame.height


def clean_batch(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a batch with clean columns."""
    return frame.with_columns(clean_column(column) for column in frame.get_columns())


@dataclass(frozen=True, slots=True, eq=False)
class FrameBatches:
    """A Polars frame, eager or lazy; a lazy one is run once per pass by the streaming engine."""

    frame: pl.DataFrame | pl.LazyFrame

    def names(self) -> list[str]:
        """See `Batches`."""
        return column_names(self.frame)

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """See `Batches`."""
        selected = self.frame.select(columns)
        if isinstance(selected, pl.DataFrame):
            parts_differ = [column for column in selected if depends_on_values(column.dtype)]
            selected = selected.with_columns(clean_column(column) for column in parts_differ)
            return folded(_slices(selected), step)
        kinds = pl.Schema(dict.fromkeys(too_large(selected, "`data`", QUERY), pl.String))
        return folded(read_in_batches(selected.cast(kinds), "`data`", QUERY), step)

    def frames(self, columns: Sequence[str], texts: Collection[str] = ()) -> Generator[pl.DataFrame]:
        """See `OrderedBatches`."""
        selected = self.frame.select(columns)
        return _slices(selected) if isinstance(selected, pl.DataFrame) else read_in_batches(selected, "`data`", QUERY)


def _slices(frame: pl.DataFrame) -> Generator[pl.DataFrame]:
    """Yield an even number of equal slices, so that two threads finish together."""
    pairs = max(-(-frame.height // (4 * BATCH_ROWS)), 1)
    rows = frame.height if frame.height <= BATCH_ROWS else -(-frame.height // (2 * pairs))
    yield from frame.iter_slices(max(rows, 1))


def read_in_batches(frame: pl.LazyFrame, name: str, hint: str = "write it again.") -> Generator[pl.DataFrame]:
    """Yield the rows of a lazy frame; an error message names the data that were read."""
    batches = frame.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True, lazy=True, engine="streaming")
    try:
        with wrap_errors(f"{name} cannot be read to its end", hint, kinds=(pl.exceptions.PolarsError, OSError)):
            yield from batches
    finally:
        stop = getattr(batches, "stop", None)  # otherwise the engine would continue to the last row
        if stop is not None:
            stop()


def too_large(frame: pl.LazyFrame, name: str, hint: str = "write it again.") -> list[str]:
    """Return the columns of whole numbers of which one is too large for 64 bits: in every batch they are texts."""
    unsure = [column for column, kind in frame.collect_schema().items() if depends_on_values(kind)]
    if not unsure:
        return []
    lost = [
        pl.col(uint_column).cast(pl.Int64, strict=False).null_count() > pl.col(uint_column).null_count()
        for uint_column in unsure
    ]
    overflow = pl.concat(read_in_batches(frame.select(lost), name, hint))
    return [uint_column for uint_column in unsure if overflow[uint_column].item()]


def checked_columns(batches: Batches, wanted: Sequence[str]) -> list[str]:
    """Return the distinct wanted columns; raise if one is missing, or differs from another by letter case only."""
    names = batches.names()
    check_columns("data", wanted, names)
    check_case(wanted, names)
    return list(dict.fromkeys(wanted))
