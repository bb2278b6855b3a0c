"""Application of a repair to tables in memory, files larger than memory, lazy queries and Spark."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from time import sleep
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tiltlens.errors import DataError, check_columns, first_line, names_in, shown
from tiltlens.inputs import TABLE, TABLES, check_outputs
from tiltlens.paper.checks import Floats
from tiltlens.repair.adjustment import Adjustment
from tiltlens.repair.coded_features import check_features
from tiltlens.repair.new_rows import (
    condition_notes,
    crossed_texts,
    meets,
    score_columns_of,
)
from tiltlens.repair.rows import NewRowSums
from tiltlens.results.codec import check_target, whole_file
from tiltlens.rows.roles import must_be_column
from tiltlens.rows.sums import row_name
from tiltlens.sources.batches import FrameBatches, OrderedBatches, clean_batch, in_batches
from tiltlens.sources.columns import ValuesLike, check_index, column_of_values, empty_table
from tiltlens.sources.engines import SparkBatches, batches_of, frame_of, names_of, with_numbers
from tiltlens.sources.files import inputs_of

LOOKED_ROWS = 10_000  # of a Spark table that are looked at before it is repaired: the rest is computed later

ADDED = "_repaired"  # after the name of a column of scores
SINKS = {".parquet": "sink_parquet", ".csv": "sink_csv"}


@dataclass(frozen=True, slots=True, eq=False)
class RowRepair:
    """The repair of a batch of rows: the adjustment, and the columns of scores and groups."""

    adjustment: Adjustment
    scores: tuple[str, ...]
    group: tuple[str, ...]  # several are crossed
    conditions: tuple[str, ...] = ()  # columns of the audit's conditions that the data has

    @property
    def columns(self) -> list[str]:
        """All columns that are needed."""
        return list(dict.fromkeys([*self.scores, *self.group, *self.adjustment.features, *self.conditions]))

    def sums(self, batch: pl.DataFrame) -> NewRowSums:
        """Return the sums that tell whether rows resemble the audited ones."""
        parts: list[NewRowSums] = []
        self(batch, parts)
        return sum(parts, NewRowSums())

    def __call__(self, batch: pl.DataFrame, sums: list[NewRowSums] | None = None) -> Floats:
        """Return the repaired scores of a batch, (n,) or (n, K), and append sums over its rows to `sums`."""
        adjustment = self.adjustment
        rows = adjustment.declared.applied(clean_batch(batch.select(self.columns)))
        name_row = row_name(batch)
        scores = adjustment.read_scores([rows[name] for name in self.scores], name_row)
        group = crossed_texts([rows[name] for name in self.group]) if self.group else None
        is_met = meets(rows.select(self.conditions), adjustment.given) if self.conditions else np.full(len(rows), True)
        if not is_met.all():
            rows, group = rows.filter(is_met), None if group is None else group[is_met]
        if sums is not None:
            sums.append(NewRowSums(batch.height, batch.height - rows.height))
        after = adjustment.unadjusted(scores)
        if rows.height:
            after[is_met] = adjustment.repair_batch(rows, scores[is_met], group, sums)
        return after


class _Rows(NamedTuple):
    """A table whose rows have an order, its own columns, and its repair."""

    table: OrderedBatches
    names: list[str]
    repair: RowRepair


def apply_repair(adjustment: Adjustment, data: object, scores: object, group: object, out: str | Path | None) -> Any:
    """Return the repaired scores: an array, for Spark a data frame, with `out` the path of the file written."""
    batches = batches_of(data)
    if isinstance(batches, SparkBatches):
        return _on_spark(batches, adjustment, scores, group, out)
    rows = _open(data, batches, adjustment, scores, group, out is not None)
    if out is not None:
        check_outputs([("`out`", out)], inputs_of(data))
        return _write(rows, Path(out))
    columns, sums = rows.repair.columns, list[NewRowSums]()
    step = partial(rows.repair, sums=sums)
    with closing(in_batches(rows.table.frames(columns, _texts(rows.repair, columns)), step)) as parts:
        repaired = list(parts)
    if not repaired:
        raise empty_table()
    _warn(rows.repair, sum(sums, NewRowSums()))
    return np.concatenate(repaired)


def _warn(repair: RowRepair, sums: NewRowSums) -> None:
    """Warn of rows that do not meet a condition, and of those that do not resemble the audited ones."""
    adjustment = repair.adjustment
    notes = condition_notes(adjustment.given, repair.conditions, sums.outside, sums.rows, adjustment.left_alone)
    for note in notes + adjustment.row_notes(sums):
        warnings.warn(note, UserWarning, stacklevel=4)


def _open(data: object, batches: Any, adjustment: Adjustment, scores: object, group: object, is_whole: bool) -> _Rows:
    """Return a table with its repair; of a table in memory the whole, or the columns needed."""
    names = names_of(data, batches)
    repair, arrays = _plan(adjustment, scores, group, names, has_arrays=batches is None)
    if batches is not None:
        return _Rows(batches, names, repair)
    wanted = names if is_whole else [name for name in repair.columns if name in names] or names[:1]
    frame = frame_of(data, wanted)
    if not frame.height:
        raise empty_table()
    columns = []
    for name, values in arrays.items():
        argument = name[1:].split()[0]
        check_index(argument, values, data)
        columns.append(column_of_values(argument, values, frame.height).alias(name))
    return _Rows(FrameBatches(frame.with_columns(columns)), names, repair)


def _plan(
    adjustment: Adjustment, scores: object, group: object, names: list[str], has_arrays: bool
) -> tuple[RowRepair, dict[str, ValuesLike]]:
    """Return the repair of a table with these columns, and the arrays beside it, by the column that they become."""
    texts = None if isinstance(group, str) else names_in(group)
    is_crossed = texts is not None and (not has_arrays or all(name in names for name in texts))
    groups = [] if group is None else texts if texts is not None and is_crossed else [group]
    columns: dict[str, list[str]] = {"scores": [], "group": []}
    arrays: dict[str, ValuesLike] = {}
    for argument, given in (("scores", score_columns_of(scores)), ("group", groups)):
        for values in given:
            if isinstance(values, str):
                check_columns(argument, [values], names)
            elif not has_arrays:
                raise must_be_column(argument, values)
            name = values if isinstance(values, str) else f"\0{argument} {len(arrays)}"
            arrays |= {} if isinstance(values, str) else {name: values}
            columns[argument].append(name)
    adjustment.check_score_columns(len(columns["scores"]))
    check_features(adjustment.features, names)
    conditions = tuple(name for name in adjustment.given if name in names)
    return RowRepair(adjustment, tuple(columns["scores"]), tuple(columns["group"]), conditions), arrays


def _texts(repair: RowRepair, columns: Sequence[str]) -> list[str]:
    """Return the columns that the repair reads as texts or not at all: a CSV file may hold "007" in them."""
    levels = repair.adjustment.text_features - {*repair.adjustment.declared.categorical}
    numbers = {*repair.scores, *repair.group, *repair.adjustment.features, *repair.conditions} - levels
    return [name for name in columns if name not in numbers]


def _added_columns(repair: RowRepair, names: Sequence[str]) -> list[str]:
    """Return the names of the repaired columns, which must be new; Spark ignores case."""
    added = [(name if name in names else name.strip("\0").replace(" 0", "")) + ADDED for name in repair.scores]
    taken = {name.casefold() for name in names}
    for name in added:
        if name.casefold() in taken:
            raise DataError(
                f"`data` already has a column {shown(name)}, the name of the adjusted scores.", "rename or drop it."
            )
    return added


def _on_spark(batches: SparkBatches, adjustment: Adjustment, scores: object, group: object, out: object) -> Any:
    if out is not None:
        raise DataError(
            "`out` is not supported for Spark data.", "write the returned data frame: .write.parquet(path)."
        )
    rows = _open(None, batches, adjustment.without_row_index(), scores, group, is_whole=True)
    few = SparkBatches(batches.frame.limit(LOOKED_ROWS))
    _warn(rows.repair, few.fold(rows.repair.columns, rows.repair.sums))
    return with_numbers(batches.frame, rows.repair.columns, _added_columns(rows.repair, rows.names), rows.repair)


def _write(rows: _Rows, path: Path) -> Path:
    """Write the rows with their repaired scores to a file, whole or not at all, and return its path."""
    sink = SINKS.get(path.suffix.lower())
    if sink is None:
        raise DataError(f"`out` must end in .parquet or .csv, got {shown(path.name)}.", "choose one of the two.")
    check_target(str(path))
    columns, repair, sums = rows.names, rows.repair, list[NewRowSums]()
    added = _added_columns(repair, columns)

    def step(batch: pl.DataFrame) -> pl.DataFrame:
        after = repair(batch, sums).reshape(batch.height, -1).T
        return batch.select(columns).with_columns(map(pl.Series, added, after))

    wanted = list(dict.fromkeys([*columns, *repair.columns]))
    with _ended(in_batches(rows.table.frames(wanted, _texts(repair, wanted)), step)) as frames:
        first = next(frames, None)
        if first is None:
            raise empty_table()
        with whole_file(path, TABLE) as part:
            try:
                getattr(_lazy(first, frames), sink)(part, maintain_order=True)
            except pl.exceptions.PolarsError as error:
                raise DataError(
                    f"`out` cannot hold the columns of `data` ({type(error).__name__}: {first_line(error)}).",
                    "a .parquet file holds every kind of column.",
                ) from None
    TABLES.add(path.resolve())
    _warn(repair, sum(sums, NewRowSums()))
    return path


@contextmanager
def _ended(frames: Generator[pl.DataFrame]) -> Iterator[Generator[pl.DataFrame]]:
    """Close a generator at the end, as `closing` does; after an error a thread of Polars may still run a batch."""
    try:
        yield frames
    finally:
        while True:
            try:
                frames.close()
                break
            except ValueError as error:
                if "already executing" not in str(error):
                    raise
                sleep(0.01)


def _lazy(first: pl.DataFrame, others: Generator[pl.DataFrame]) -> pl.LazyFrame:
    """Return frames that are made one by one as a lazy frame, which Polars writes in a stream."""
    from polars.io.plugins import register_io_source

    def source(with_columns: object, predicate: object, n_rows: object, batch_size: object) -> Generator[pl.DataFrame]:
        yield from chain([first], others)

    return register_io_source(source, schema=first.schema)
