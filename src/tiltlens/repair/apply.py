"""A repair applied to rows wherever they lie: memory, files larger than it, lazy queries, Spark."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.inputs import TABLE, TABLES, check_outputs
from tiltlens.limits import LOOKED_ROWS
from tiltlens.paper.checks import Floats
from tiltlens.repair.columns import (
    check_classes,
    class_scores,
    condition_notes,
    crossed_texts,
    meets,
    probabilities_of,
    score_columns_of,
)
from tiltlens.repair.unlike import Looked, beyond_notes, gap_notes, unseen_notes
from tiltlens.results.json_file import check_target, whole_file
from tiltlens.rows.batch_rows import row_name
from tiltlens.rows.roles import must_be_column
from tiltlens.sources.batches import FrameBatches, OrderedBatches, clean_batch, empty_table, in_batches
from tiltlens.sources.columns import check_index, column_of_values
from tiltlens.sources.files import inputs_of
from tiltlens.sources.messages import first_line, listed, shown
from tiltlens.sources.opening import batches_of, frame_of
from tiltlens.sources.spark import SparkBatches, with_numbers
from tiltlens.sources.tables import column_names

if TYPE_CHECKING:
    from tiltlens.repair.score_tilt import ScoreTilt

ADDED = "_repaired"  # after the name of a column of scores
SINKS = {".parquet": "sink_parquet", ".csv": "sink_csv"}


@dataclass(frozen=True, slots=True, eq=False)
class RowRepair:
    """What is done with a batch of rows: which columns are the scores and the group, and the tilt of them."""

    tilt: ScoreTilt
    scores: tuple[str, ...]
    group: tuple[str, ...]  # several are crossed

    conditions: tuple[str, ...] = ()  # columns of those of the audit, where the data has them

    @property
    def columns(self) -> list[str]:
        """All columns that are needed."""
        return list(dict.fromkeys([*self.scores, *self.group, *self.tilt.features, *self.conditions]))

    def looked_at(self, batch: pl.DataFrame) -> Looked:
        """Return what tells whether rows are like the audited ones."""
        looked: list[Looked] = []
        self(batch, looked)
        return sum(looked, Looked())

    def __call__(self, batch: pl.DataFrame, looked: list[Looked] | None = None) -> Floats:
        """Return the repaired scores of a batch, (n,) or (n, K), and what is seen of its rows in `looked`."""
        rows = self.tilt.declared.applied(clean_batch(batch.select(self.columns)))
        named = row_name(batch)
        found = [probabilities_of("scores", rows[name], named) for name in self.scores]
        scores = class_scores("scores", found, self.tilt.classes, named)
        group = crossed_texts([rows[name] for name in self.group]) if self.group else None
        meeting = meets(rows.select(self.conditions), self.tilt.given) if self.conditions else np.full(len(rows), True)
        if not meeting.all():
            rows, group = rows.filter(meeting), None if group is None else group[meeting]
        if looked is not None:
            looked.append(Looked(batch.height, batch.height - rows.height))
        threshold = self.tilt.threshold
        after = scores.copy() if threshold is None else np.asarray(scores >= threshold, dtype=np.float64)
        if rows.height:
            after[meeting] = self.tilt.repaired_batch(rows, scores[meeting], group, looked)
        return after


class _Rows(NamedTuple):
    """A table whose rows have an order; its own columns, and which columns play which part."""

    table: OrderedBatches
    names: list[str]
    repair: RowRepair


def applied(tilt: ScoreTilt, data: Any, scores: Any, group: Any, out: str | Path | None) -> Any:
    """Return the repaired scores: an array, of Spark a data frame, with `out` the file they were written to."""
    batches = batches_of(data)
    if isinstance(batches, SparkBatches):
        return _on_spark(batches, tilt, scores, group, out)
    if batches is None:
        rows = _in_memory(data, tilt, scores, group, out is not None)
    else:
        rows = _in_turn(batches, tilt, scores, group)
    if out is not None:
        check_outputs([("`out`", out)], inputs_of(data))
        return _written(rows, Path(out))
    columns, looked = rows.repair.columns, list[Looked]()
    step = partial(rows.repair, looked=looked)
    with closing(in_batches(rows.table.frames(columns, _texts(rows.repair, columns)), step)) as parts:
        found = list(parts)
    if not found:
        raise empty_table()
    _warn(rows.repair, sum(looked, Looked()))
    return np.concatenate(found)


def _warn(repair: RowRepair, looked: Looked) -> None:
    """Warn of rows that break a condition, and of those that are unlike the audited ones."""
    tilt, rows = repair.tilt, looked.rows - looked.outside
    what = "they keep their scores" if tilt.threshold is None else "they are decided by their own scores"
    notes = condition_notes(tilt.given, repair.conditions, looked.outside, looked.rows, what)
    notes += unseen_notes(looked.unlearnt, rows) + beyond_notes(looked.beyond, rows, tilt.ranges)
    for note in notes + gap_notes(looked.sums, tilt.constraints, tilt.limit):
        warnings.warn(note, UserWarning, stacklevel=4)


def _in_memory(data: Any, tilt: ScoreTilt, scores: Any, group: Any, is_whole: bool) -> _Rows:
    """Return a table in memory, or what is needed of it; arrays beside it become columns of it."""
    names = column_names(data)
    given = _given(scores, group, names)
    arrays = {f"\0{argument} {at}": one for at, (argument, one) in enumerate(given) if not isinstance(one, str)}
    beside = iter(arrays)
    roles = [_checked(argument, one, names) if isinstance(one, str) else next(beside) for argument, one in given]
    repair = _repair(tilt, roles, given, names)
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


def _given(scores: Any, group: Any, names: Sequence[str] | None = None) -> list[tuple[str, Any]]:
    """Return each column that is given by its name or as an array, after the argument that gives it.

    A list of texts is one of columns where all are `names`, or where no array could be given.
    """
    is_texts = isinstance(group, (list, tuple)) and all(isinstance(one, str) for one in group)
    is_crossed = is_texts and (names is None or all(one in names for one in group))
    groups = list(group) if is_crossed else [group]
    named = [("group", one) for one in groups if one is not None]
    return [("scores", one) for one in score_columns_of(scores)] + named


def _repair(tilt: ScoreTilt, roles: Sequence[str], given: Sequence[tuple[str, Any]], names: Sequence[str]) -> RowRepair:
    by_argument = {
        argument: tuple(role for role, (one, _) in zip(roles, given, strict=True) if one == argument)
        for argument in ("scores", "group")
    }
    found = RowRepair(tilt, **by_argument, conditions=tuple(name for name in tilt.given if name in names))
    check_classes("scores", len(found.scores), tilt.classes)
    missing = [name for name in tilt.features if name not in names]
    if missing:
        raise DataError(
            f"`data` must hold every feature of the membership model, got none named {shown(missing[0])}.",
            f"it needs {', '.join(tilt.features)}.",
        )
    return found


def _in_turn(batches: Any, tilt: ScoreTilt, scores: Any, group: Any) -> _Rows:
    """Return a table that is read batch by batch: columns go by their names."""
    names = batches.names()
    given = _given(scores, group)
    for argument, one in given:
        if not isinstance(one, str):
            raise must_be_column(argument, one)
        _checked(argument, one, names)
    return _Rows(batches, names, _repair(tilt, [one for _, one in given], given, names))


def _checked(argument: str, name: str, names: Sequence[str]) -> str:
    if name not in names:
        raise DataError(f"`{argument}` must be a column of the data, got {shown(name)}.", f"see {listed(names)}.")
    return name


def _texts(repair: RowRepair, columns: Sequence[str]) -> list[str]:
    """Return the columns that are texts to the repair, or nothing: a CSV file may hold "007" in them."""
    levels = {name for one in repair.tilt.models for name in one.model.texts} - {*repair.tilt.declared.categorical}
    numbers = {*repair.scores, *repair.group, *repair.tilt.features, *repair.conditions} - levels
    return [name for name in columns if name not in numbers]


def _added(repair: RowRepair, names: Sequence[str]) -> list[str]:
    """Return the names of the repaired columns, which must be new; to Spark letter case does not count."""
    added = [(name if name in names else name.strip("\0").replace(" 0", "")) + ADDED for name in repair.scores]
    known = {name.casefold() for name in names}
    for name in added:
        if name.casefold() in known:
            raise DataError(
                f"`data` must have no column {shown(name)}, which the repaired scores are to have, got one.",
                "rename or drop it.",
            )
    return added


def _on_spark(batches: SparkBatches, tilt: ScoreTilt, scores: Any, group: Any, out: Any) -> Any:
    if out is not None:
        raise DataError(
            "`out` must be left out of Spark data, got one.", "write what comes back: .write.parquet(path)."
        )
    rows = _in_turn(batches, tilt.without_rows(), scores, group)
    few = SparkBatches(batches.frame.limit(LOOKED_ROWS))
    _warn(rows.repair, few.fold(rows.repair.columns, rows.repair.looked_at))
    return with_numbers(batches.frame, rows.repair.columns, _added(rows.repair, rows.names), rows.repair)


def _written(rows: _Rows, path: Path) -> Path:
    """Write the rows with their repaired scores to a file, whole or not at all, and return its path."""
    sink = SINKS.get(path.suffix.lower())
    if sink is None:
        raise DataError(f"`out` must end in .parquet or .csv, got {shown(path.name)}.", "choose one of the two.")
    check_target(str(path))
    added, columns, repair, looked = _added(rows.repair, rows.names), rows.names, rows.repair, list[Looked]()

    def step(batch: pl.DataFrame) -> pl.DataFrame:
        found = repair(batch, looked).reshape(batch.height, -1).T
        return batch.select(columns).with_columns(pl.Series(*one) for one in zip(added, found, strict=True))

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
                    f"`out` must be able to hold the columns of `data`, got {type(error).__name__}: "
                    f"{first_line(error)}",
                    "a .parquet file holds every kind of column.",
                ) from None
    TABLES.add(path.resolve())
    _warn(repair, sum(looked, Looked()))
    return path


@contextmanager
def _ended(frames: Generator[pl.DataFrame]) -> Iterator[Generator[pl.DataFrame]]:
    """Close a generator at the end, as `closing` does; a thread of Polars may still be at a batch after an error."""
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
    """Return frames that are made one by one as a lazy frame, which Polars writes without holding them all."""
    from polars.io.plugins import register_io_source

    def source(with_columns: Any, predicate: Any, n_rows: Any, batch_size: Any) -> Generator[pl.DataFrame]:
        yield from chain([first], others)

    return register_io_source(source, schema=first.schema)
