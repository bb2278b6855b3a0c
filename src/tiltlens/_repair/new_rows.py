"""New rows: columns by name or as arrays, checks, held-out rows, and the application of an adjustment to them."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from time import sleep
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._estimators.influence import Integers, Rows
from tiltlens._formats import text_of
from tiltlens._limits import MINIMUM_ROWS, SCORE_ROUNDING
from tiltlens._notes import LEFT_OUT, Note
from tiltlens._repair.adjustment import Adjustment
from tiltlens._repair.constraints import check_features
from tiltlens._repair.rows import AuditedRowIndex, NewRowSums, condition_notes, meets
from tiltlens._results.codec import check_target, whole_file
from tiltlens._rows.features import DesignColumn
from tiltlens._rows.groups import JOINT, check_sample_weight, factorize_groups
from tiltlens._rows.roles import must_be_column
from tiltlens._rows.sampled_rows import row_name
from tiltlens._rows.scores import RowName
from tiltlens._sources import tables
from tiltlens._sources.engines import SparkBatches, batches_of, collected, frame_of, names_of, with_numbers
from tiltlens._sources.files import inputs_of
from tiltlens._sources.tables import FrameBatches, OrderedBatches, ValuesLike
from tiltlens.errors import (
    TABLE,
    TABLES,
    DataError,
    check_columns,
    check_outputs,
    first_line,
    names_in,
    quoted,
    quoted_list,
)
from tiltlens.paper.checks import Floats


class RepairTable(NamedTuple):
    """A table of rows to adjust; columns are given by name or as arrays of the same length."""

    given: object
    frame: pl.DataFrame

    def texts(self, argument: str, values: object) -> NDArray[np.str_]:
        """Return the values as texts ("" if missing); several columns are combined into intersections."""
        columns: list[object] = [*crossed_columns(values, self.frame.columns)] or [values]
        return intersection_labels([self.column(argument, column) for column in columns])

    def scores(self, values: object) -> list[pl.Series]:
        """Return the columns of scores."""
        if getattr(values, "ndim", 1) == 2:
            tables.check_index("scores", values, self.given)
        return [self.column("scores", column) for column in score_columns_of(values)]

    def weights(self, values: object) -> Floats:
        """Return the weight of each row, 1 by default."""
        if values is None:
            return np.ones(self.frame.height)
        column = self.column("sample_weight", values).alias("sample_weight")
        return check_sample_weight("sample_weight", column.to_frame(), "row {}".format)

    def clusters(self, values: object) -> Integers | None:
        """Return the cluster of each row, or None if none are given; rows with a missing cluster are their own."""
        if values is None:
            return None
        texts = self.texts("clusters", values)
        codes = np.unique(texts, return_inverse=True)[1]
        return np.where(texts == "", codes.max() + 1 + np.arange(codes.size), codes)

    def column(self, argument: str, values: object) -> pl.Series:
        """Return a column by its name, or an array as a column."""
        if not isinstance(values, str):
            tables.check_index(argument, values, self.given)
            return tables.column_of_values(argument, values, self.frame.height)
        check_columns(argument, [values], self.frame.columns)
        return self.frame[values]


def crossed_columns(values: object, columns: Sequence[str]) -> list[str]:
    """Return the columns named by `values` if the table has all of them; an empty list otherwise."""
    names = names_in(values) or []
    return names if all(name in columns for name in names) else []


def intersection_labels(columns: Sequence[pl.Series]) -> NDArray[np.str_]:
    """Return the groups of rows as texts ("" if missing); several columns are combined into intersections."""
    if len(columns) == 1:
        values = columns[0].unique()
        texts = pl.Series(["" if value is None else text_of(value) for value in values], dtype=pl.String)
        return columns[0].replace_strict(values, texts, return_dtype=pl.String).to_numpy().astype(str)
    codes, labels = factorize_groups("group", columns)
    return np.array([*labels, ""])[codes]  # the code of a missing group is −1


def score_columns_of(scores: ValuesLike) -> list[ValuesLike]:
    """Return scores as a list of columns (names or arrays), one per class."""
    if isinstance(scores, (list, tuple)) and scores and all(isinstance(name, str) for name in scores):
        return list(scores)
    is_matrix = getattr(scores, "ndim", 1) == 2
    return list(np.asarray(scores).T) if is_matrix else [scores]


def checked_scores(column: pl.Series, low: float, high: float, rule: str, row_name: RowName) -> Floats:
    """Return a clean column as numbers; raise unless all lie between two limits."""
    numbers = column.cast(pl.Float64, strict=False).to_numpy()
    if not (numbers.min(initial=low) >= low and numbers.max(initial=low) <= high):  # False if one is NaN
        row = int(np.argmax(~((numbers >= low) & (numbers <= high))))
        raise DataError(
            f"`scores` must be {rule}, got {column[row]} in {row_name(row)}.", "fill or leave out such rows first."
        )
    return np.asarray(numbers)


def probabilities_of(columns: Sequence[pl.Series], row_name: RowName) -> Floats:
    """Return clean columns as probabilities: (n,) for one column; (n, K) for more, whose rows must sum to 1."""
    parts = [checked_scores(column, 0.0, 1.0, "probabilities", row_name) for column in columns]
    if len(parts) == 1:
        return parts[0]
    scores = np.column_stack(parts)
    total = scores.sum(axis=1)
    wrong = np.abs(total - 1.0) > SCORE_ROUNDING
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"`scores` must add up to 1 in each row, got {total[row]:.6g} in {row_name(row)}.",
            "pass the probability of every class.",
        )
    return np.asarray(scores / total[:, None])


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Rows of an audited group and the reference that no model was fitted on."""

    frame: pl.DataFrame
    audited: str
    group_name: str  # name of the group column, for output
    labels: NDArray[np.str_]
    scores: Floats
    outcome: DesignColumn | None
    rows: Rows
    notes: tuple[Note, ...] = ()

    def check_not_audited(self, adjustment: Adjustment) -> list[Note]:
        """Raise if rows were audited; return notes on duplicate rows."""
        adjustment.table(self.frame)  # raises if a feature is missing or has another type than in the audit
        outcome = None if self.outcome is None else np.unique(self.outcome, return_inverse=True)[1]
        groups = [adjustment.reference, *adjustment.groups]
        codes = np.select([self.labels == name for name in groups], np.arange(len(groups)))
        return adjustment.row_index.check(self.frame, self.scores, codes, outcome, self.rows.clusters)


def read_held_out(
    adjustment: Adjustment,
    data: object,
    group_to_compare: str | None,
    scores: object,
    group: object,
    outcome: object,
    weights: object,
    clusters: object,
) -> HeldOutRows:
    """Return the rows of an audited group and the reference that meet the conditions of the audit.

    Columns are given by name, or as arrays of the table's length.
    """
    audited, table = _audited_group(adjustment, group_to_compare), RepairTable(data, collected(data))
    group_name = group if isinstance(group, str) else JOINT.join(crossed_columns(group, table.frame.columns)) or "group"
    labels, scores = table.texts("group", group), adjustment.read_scores(table.scores(scores))
    outcome = None if outcome is None else adjustment.read_outcome(table.column("outcome", outcome))
    weights, clusters = table.weights(weights), table.clusters(clusters)
    is_compared, is_met = (labels == audited) | (labels == adjustment.reference), meets(table.frame, adjustment.given)
    keep = is_compared & (weights > 0.0) & is_met
    clusters = None if clusters is None else clusters[keep]
    _check_groups(labels[keep], clusters, (audited, adjustment.reference))
    held_out = HeldOutRows(
        frame=adjustment.declared.applied(table.frame.filter(keep)),
        audited=audited,
        group_name=group_name,
        labels=labels[keep],
        scores=scores[keep],
        outcome=None if outcome is None else outcome[keep],
        rows=Rows.of(labels[keep] == audited, weights[keep], clusters),
    )
    outside, compared, frame = int((is_compared & ~is_met).sum()), int(is_compared.sum()), held_out.frame
    notes = (
        *condition_notes(adjustment.given, table.frame.columns, outside, compared, LEFT_OUT),
        *held_out.check_not_audited(adjustment),
        *adjustment.row_notes(adjustment.row_sums(frame) + NewRowSums(frame.height)),
    )
    return replace(held_out, notes=notes)


def _check_groups(labels: NDArray[np.str_], clusters: Integers | None, groups: tuple[str, str]) -> None:
    """Raise if a group has too few rows or a single cluster, so that its standard error cannot be estimated."""
    sizes = [int((labels == name).sum()) for name in groups]
    if min(sizes) < MINIMUM_ROWS:
        raise DataError(
            f"`held_out` must have {MINIMUM_ROWS} rows of each group at least, got {sizes[0]} and {sizes[1]}.",
            f"the groups are {quoted(groups[0])} and {quoted(groups[1])}: add rows of them.",
        )
    for name in groups:
        if clusters is not None and np.unique(clusters[labels == name]).size < 2:
            raise DataError(
                f"`clusters` must be two or more of each group, got 1 of {quoted(name)}.",
                "clusters are rows that belong together, such as those of one customer; omit them if no rows do.",
            )


def _audited_group(adjustment: Adjustment, audited: str | None) -> str:
    group = adjustment.audited if audited is None else audited
    if group is None or group not in adjustment.groups:
        got = "none" if audited is None else quoted(audited)
        raise DataError(
            f"`audited` must be one of {quoted_list(adjustment.groups)}, got {got}.",
            "`evaluate_groups` evaluates each of them.",
        )
    return group


CHECKED_SPARK_ROWS = 10_000  # of a Spark table that are checked before the rest is computed lazily

ADDED = "_repaired"  # appended to the name of a score column
SINKS = {".parquet": "sink_parquet", ".csv": "sink_csv"}


@dataclass(frozen=True, slots=True, eq=False)
class RowRepair:
    """An adjustment of batches of rows, with the columns of scores and groups."""

    adjustment: Adjustment
    scores: tuple[str, ...]
    group: tuple[str, ...]  # several are combined into intersections
    conditions: tuple[str, ...] = ()  # columns of the audit's conditions that the data have

    @property
    def columns(self) -> list[str]:
        """All columns that are needed."""
        return list(dict.fromkeys([*self.scores, *self.group, *self.adjustment.features, *self.conditions]))

    def sums(self, batch: pl.DataFrame) -> NewRowSums:
        """Return the sums by which rows are compared with the audited ones."""
        parts: list[NewRowSums] = []
        self(batch, parts)
        return sum(parts, NewRowSums())

    def __call__(self, batch: pl.DataFrame, sums: list[NewRowSums] | None = None) -> Floats:
        """Return the adjusted scores of a batch, (n,) or (n, K), and append sums over its rows to `sums`."""
        adjustment = self.adjustment
        rows = adjustment.declared.applied(tables.clean_batch(batch.select(self.columns)))
        name_row = row_name(batch)
        scores = adjustment.read_scores([rows[name] for name in self.scores], name_row)
        group = intersection_labels([rows[name] for name in self.group]) if self.group else None
        is_met = meets(rows.select(self.conditions), adjustment.given) if self.conditions else np.full(len(rows), True)
        if not is_met.all():
            rows, group = rows.filter(is_met), None if group is None else group[is_met]
        if sums is not None:
            sums.append(NewRowSums(batch.height, batch.height - rows.height))
        after = adjustment.unadjusted(scores)
        if rows.height:
            after[is_met] = adjustment.repair_batch(rows, scores[is_met], group, sums)
        return after


def apply_repair(adjustment: Adjustment, data: object, scores: object, group: object, out: str | Path | None) -> Any:
    """Return the adjusted scores: an array, for Spark a data frame, or with `out` the path of the file written."""
    batches: Any = batches_of(data)
    if isinstance(batches, SparkBatches):
        return _on_spark(batches, adjustment, scores, group, out)
    names = names_of(data, batches)
    repair, arrays = _plan(adjustment, scores, group, names, has_arrays=batches is None)
    table = _with_arrays(data, names if out is not None else repair.columns, arrays) if batches is None else batches
    if out is not None:
        check_outputs([("`out`", out)], inputs_of(data))
        return _write(table, names, repair, Path(out))
    sums = list[NewRowSums]()
    step = partial(repair, sums=sums)
    with closing(tables.in_batches(table.frames(repair.columns, _texts(repair, repair.columns)), step)) as parts:
        repaired = list(parts)
    if not repaired:
        raise tables.empty_table()
    _warn(repair, sum(sums, NewRowSums()))
    return np.concatenate(repaired)


def _warn(repair: RowRepair, sums: NewRowSums) -> None:
    """Warn of rows that do not meet the conditions, and of rows that differ from the audited ones."""
    adjustment = repair.adjustment
    notes = condition_notes(adjustment.given, repair.conditions, sums.outside, sums.rows, adjustment.left_alone)
    for note in notes + adjustment.row_notes(sums):
        warnings.warn(note, UserWarning, stacklevel=4)


def _with_arrays(data: object, wanted: list[str], arrays: dict[str, tuple[str, ValuesLike]]) -> FrameBatches:
    """Return wanted columns of a table in memory, or its first if all are arrays, and the arrays as columns."""
    frame = frame_of(data, [name for name in wanted if name not in arrays] or tables.column_names(data)[:1])
    if not frame.height:
        raise tables.empty_table()
    columns = []
    for name, (argument, values) in arrays.items():
        tables.check_index(argument, values, data)
        columns.append(tables.column_of_values(argument, values, frame.height).alias(name))
    return FrameBatches(frame.with_columns(columns))


def _plan(
    adjustment: Adjustment, scores: object, group: object, names: list[str], has_arrays: bool
) -> tuple[RowRepair, dict[str, tuple[str, ValuesLike]]]:
    """Return the adjustment for a table with these columns, and by new names the arrays, with their arguments."""
    texts = None if isinstance(group, str) else names_in(group)
    is_crossed = texts is not None and (not has_arrays or all(name in names for name in texts))
    groups = [] if group is None else texts if texts is not None and is_crossed else [group]
    columns: dict[str, list[str]] = {"scores": [], "group": []}
    arrays: dict[str, tuple[str, ValuesLike]] = {}
    for argument, given in (("scores", score_columns_of(scores)), ("group", groups)):
        for values in given:
            if isinstance(values, str):
                check_columns(argument, [values], names)
                columns[argument].append(values)
            elif has_arrays:
                columns[argument].append(f"\0{argument}" + (f" {len(arrays)}" if arrays else ""))
                arrays[columns[argument][-1]] = argument, values
            else:
                raise must_be_column(argument, values)
    adjustment.check_score_columns(len(columns["scores"]))
    check_features(adjustment.features, names)
    conditions = tuple(name for name in adjustment.given if name in names)
    return RowRepair(adjustment, tuple(columns["scores"]), tuple(columns["group"]), conditions), arrays


def _texts(repair: RowRepair, columns: Sequence[str]) -> list[str]:
    """Return the columns to read as text, or that are not used: a CSV file may contain "007" in them."""
    levels = repair.adjustment.text_features - {*repair.adjustment.declared.categorical}
    numbers = {*repair.scores, *repair.group, *repair.adjustment.features, *repair.conditions} - levels
    return [name for name in columns if name not in numbers]


def _added_columns(repair: RowRepair, names: Sequence[str]) -> list[str]:
    """Return the names of the columns of adjusted scores, which must be new; Spark ignores case."""
    added = [name.removeprefix("\0") + ADDED for name in repair.scores]
    taken = {name.casefold() for name in names}
    for name in added:
        if name.casefold() in taken:
            raise DataError(
                f"`data` already has a column {quoted(name)}, the name of the adjusted scores.", "rename or drop it."
            )
    return added


def _on_spark(batches: SparkBatches, adjustment: Adjustment, scores: object, group: object, out: object) -> Any:
    if out is not None:
        raise DataError(
            "`out` is not supported for Spark data.", "write the returned data frame: .write.parquet(path)."
        )
    names = batches.names()
    for_workers: Any = replace(cast(Any, adjustment), row_index=AuditedRowIndex())  # the hashes are not needed there
    repair, _ = _plan(for_workers, scores, group, names, has_arrays=False)
    few = SparkBatches(batches.frame.limit(CHECKED_SPARK_ROWS))
    _warn(repair, few.fold(repair.columns, repair.sums))
    return with_numbers(batches.frame, repair.columns, _added_columns(repair, names), repair)


def _write(table: OrderedBatches, columns: list[str], repair: RowRepair, path: Path) -> Path:
    """Write the rows with their adjusted scores to a file, completely or not at all, and return its path."""
    sink = SINKS.get(path.suffix.lower())
    if sink is None:
        raise DataError(f"`out` must end in .parquet or .csv, got {quoted(path.name)}.", "choose one of the two.")
    check_target(str(path))
    sums, added = list[NewRowSums](), _added_columns(repair, columns)

    def step(batch: pl.DataFrame) -> pl.DataFrame:
        after = repair(batch, sums).reshape(batch.height, -1).T
        return batch.select(columns).with_columns(map(pl.Series, added, after))

    wanted = list(dict.fromkeys([*columns, *repair.columns]))
    with _ended(tables.in_batches(table.frames(wanted, _texts(repair, wanted)), step)) as frames:
        first = next(frames, None)
        if first is None:
            raise tables.empty_table()
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
    """Close a generator on exit, as `closing` does; retry, since after an error a Polars thread may still run it."""
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
    """Return frames that are produced one by one as a lazy frame that Polars can stream to a file."""
    from polars.io.plugins import register_io_source

    def source(with_columns: object, predicate: object, n_rows: object, batch_size: object) -> Generator[pl.DataFrame]:
        yield from chain([first], others)

    return register_io_source(source, schema=first.schema)
