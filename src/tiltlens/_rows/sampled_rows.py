"""`SampledRows`: rows with their groups, scores, weights and optional columns, from the batches to the results.

Each optional column is an entry of `ROW_COLUMNS`, and its values are in `SampledRows.columns` under its name. Code that
reads batches, or samples, takes or sums rows, iterates over these entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._estimators.error_rates import UNKNOWN as OUTCOME_MISSING
from tiltlens._estimators.influence import Booleans, Integers
from tiltlens._rows.features import Feature
from tiltlens._rows.groups import (
    CRITERIA,
    DECIDED,
    NO_GROUP,
    Meant,
    check_sample_weight,
    encode_periods,
    equals_mask,
    factorize_groups,
    group_chances,
    numbers_of,
    observed_costs,
    outcome_codes,
    outcome_names,
    read_periods,
    sort_periods,
    wrong_decisions,
)
from tiltlens._rows.roles import CLUSTER, ColumnRoles
from tiltlens._rows.scores import Channel, RowName
from tiltlens._rows.wording import NOT_GIVEN, PROBABILITY, Unit
from tiltlens._sources.arrays import Hashes, factorize_texts, row_hashes
from tiltlens._sources.tables import ROW
from tiltlens._threads import in_threads
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats

ONE_AT_A_TIME = Lock()  # a user's model may not be made for several threads
Labels = tuple[str, ...]
ColumnValues: TypeAlias = Any  # an array, or a series of texts that is encoded when all are known: see `ROW_COLUMNS`


@dataclass(frozen=True, slots=True)
class SampleFacts:
    """Facts about a sample as a whole."""

    people: tuple[float, ...] = ()  # the number of people of each group among all rows, in the order of the groups
    is_complete: bool = True  # whether the sample has all rows
    is_weighted: bool = False  # whether rows have weights: their own, or the probabilities of groups
    largest_weight: float = 1.0  # the largest weight as it was given: weights are divided by it
    # The number of rows that equal another in everything, if this is not a coincidence; 0 with clusters
    repeated_rows: int = 0
    # Whether the user named clusters. Otherwise the copies of a row in several groups form a cluster.
    has_clusters: bool = False
    is_numbered: bool = True  # whether rows have numbers in their table; with Spark they do not


@dataclass(frozen=True, slots=True, eq=False)
class SampledRows:
    """Rows of some groups."""

    # The names of the groups, and the code of each row's group
    groups: Labels
    group: Integers
    weights: Floats  # in a sample, divided by the largest weight of all rows
    # All scores, (n,) or (n, K), for amounts the indicators of their deciles; and the score whose gap is measured
    scores: Floats
    score: Floats
    # The values of each optional column, by the names of `ROW_COLUMNS`
    columns: Mapping[str, ColumnValues] = field(default_factory=dict)
    labels: Mapping[str, Labels] = field(default_factory=dict)  # the labels of the codes of a column such as "period"
    # The features; and the codes of all values of those that are countable
    features: tuple[Feature, ...] = ()
    value_codes: Mapping[str, Integers] = field(default_factory=dict)
    # The unit of the score; and the number of the favourable class
    unit: Unit = PROBABILITY
    favourable: int = 1
    facts: SampleFacts = SampleFacts()  # facts about the sample as a whole

    @property
    def log_odds(self) -> Floats | None:
        """The given log-odds of being audited, not finite where the given probability is not between 0 and 1."""
        return self.columns.get("log_odds")

    @property
    def y_true(self) -> Integers | None:
        """The code of the observed outcome: 0, 1 or `OUTCOME_MISSING`."""
        return self.columns.get("y_true")

    @property
    def cost(self) -> Floats | None:
        """The observed cost of amounts, NaN where it is missing; None where none is given."""
        return self.columns.get("cost")

    @property
    def period(self) -> Integers | None:
        """The code of the period, one after the last where it is missing."""
        return self.columns.get("period")

    @property
    def cluster(self) -> Hashes | None:
        """Equal for rows of the same cluster; None if each row is its own cluster."""
        return self.columns.get("cluster")

    @property
    def probabilities(self) -> Floats | None:
        """(n, groups): the probability of each group, where groups are not observed."""
        return self.columns.get("probabilities")

    @property
    def known_group(self) -> Integers | None:
        """Where groups are not observed, the code of the group if it is known, else `NO_GROUP`."""
        return self.columns.get("known_group")

    @property
    def sampling_weight(self) -> Floats:
        """The sampling weight: the row's weight, over the sampling rate of its group if rows were sampled."""
        return np.asarray(self.columns.get("sampling_weight", self.weights))

    @property
    def row_key(self) -> Hashes:
        """The hash by which a row, or its cluster, is recognised in another audit."""
        return np.asarray(self.columns["row_key"])

    @property
    def row_number(self) -> Integers:
        """The number of the row in its table, or in the sample where the table has no order."""
        return np.asarray(self.columns["row_number"])

    @property
    def free_scores(self) -> list[Floats]:
        """The scores that determine all scores: without the first class, since the classes of a row sum to 1."""
        return [*self.scores[:, 1:].T] if self.scores.ndim == 2 else [self.scores]

    @property
    def wants_less(self) -> bool:
        """Whether a small amount is favourable."""
        return self.unit.is_amount and self.favourable == 0

    def take(self, index: Integers) -> SampledRows:
        """Return the rows with this index."""
        scores = self.scores[index]
        features = in_threads(lambda feature: feature.rows(index), self.features, index.size) if self.features else ()
        return replace(
            self,
            group=self.group[index],
            weights=self.weights[index],
            scores=scores,
            score=scores if self.score is self.scores else self.score[index],
            columns={name: take_values(values, index) for name, values in self.columns.items()},
            features=tuple(features),
            value_codes={name: codes[index] for name, codes in self.value_codes.items()},
        )

    def code_groups(self, groups: Labels) -> Integers:
        """Return the code of each row's group among some groups, which need not all occur; else `NO_GROUP`."""
        code_of = {label: code for code, label in enumerate(groups)}
        return np.array([code_of.get(label, NO_GROUP) for label in self.groups], dtype=np.int64)[self.group]

    def recode(self, groups: Labels) -> SampledRows:
        """Return the rows of some groups, with codes in the order given."""
        codes = self.code_groups(groups)
        index = np.flatnonzero(codes != NO_GROUP)
        some = self if index.size == codes.size else self.take(index)
        return replace(some, groups=groups, group=codes[index])

    def of_groups(self, audited: str, reference: str) -> SampledRows:
        """Return the rows of two groups, with the codes 0 and 1, with columns by group reduced to these two."""
        some = self.recode((audited, reference))
        codes = [self.groups.index(label) for label in some.groups]
        narrowed = {
            column.name: column.of_groups(some.columns[column.name], codes)
            for column in ROW_COLUMNS
            if column.of_groups is not None and column.name in some.columns
        }
        facts = replace(self.facts, people=tuple(self.facts.people[code] for code in codes))
        scores = np.ascontiguousarray(some.scores)  # models read by row, frames store by column
        return replace(some, scores=scores, columns={**some.columns, **narrowed}, facts=facts)

    def in_unit(self, unit: Unit) -> SampledRows:
        """Return rows whose scores are amounts with the scores rescaled for estimators."""
        return replace(self, scores=unit.channel(self.scores), score=unit.seen(self.scores), unit=unit)


def take_values(values: ColumnValues, index: Integers) -> ColumnValues:
    """Return some values of an array, its rows where it has two dimensions, or of a Polars series."""
    return values.gather(index) if isinstance(values, pl.Series) else values[index]


@dataclass(frozen=True, slots=True)
class RowColumn:
    """An optional column of `SampledRows`: how it is read from a batch, stored in the sample, taken and summed."""

    # The key of its values in `SampledRows.columns`; and how the sample stores them
    name: str
    dtype: type[pl.DataType]
    role: str | None = None  # the field of `ColumnRoles` that requests it; None if it is derived from other columns
    # Takes the roles and the rows of a batch, and returns a series or an array. None where `read_batch` makes it,
    # because it decides which rows are kept, and where `select_rows` does, from what was sampled.
    read: Callable[[ColumnRoles, pl.DataFrame], ColumnValues] | None = None
    # Sorts the texts that occur in all batches: they become the labels of its codes
    collect: Callable[[Iterable[str]], Labels] | None = None
    # Takes texts and labels, and returns codes. The labels are the compared groups where none are collected.
    encode: Callable[[pl.Series, Labels], Integers] | None = None
    by_group: bool = False  # whether it has one value for each group, (n, groups)
    # Takes the values and the codes of two groups, and returns the values for these two
    of_groups: Callable[[ColumnValues, list[int]], ColumnValues] | None = None
    # Whether sums over all rows need it; and, if the score is summed by its codes, their number given the labels
    is_summed: bool = False
    count_codes: Callable[[Labels], int] | None = None

    @property
    def stored(self) -> str:
        """Its name in the sample's frame, where no column of a table begins with a NUL."""
        return f"\0{self.name}"

    def store(self, values: ColumnValues, groups: Labels) -> list[pl.Series]:
        """Return the columns of the sample's frame."""
        if not self.by_group:
            return [pl.Series(self.stored, values, self.dtype)]
        return [
            pl.Series(f"{self.stored} {group}", part, self.dtype) for group, part in zip(groups, values.T, strict=True)
        ]

    def gather(self, frame: pl.DataFrame, groups: Labels, labels: Labels) -> ColumnValues:
        """Return the values from the sample's frame, texts as codes."""
        if self.by_group:
            return frame.select(f"{self.stored} {group}" for group in groups).to_numpy()
        values = frame[self.stored]
        return values.to_numpy() if self.encode is None else self.encode(values, labels)


def read_columns(roles: ColumnRoles, table: pl.DataFrame, for_sums: bool) -> dict[str, ColumnValues]:
    """Return the optional columns of the rows of a batch; `for_sums` only those that sums need."""
    return {
        column.name: column.read(roles, table)
        for column in ROW_COLUMNS
        if column.read is not None and (column.is_summed or not for_sums) and getattr(roles, str(column.role))
    }


def collect_labels(columns: Mapping[str, ColumnValues]) -> dict[str, Labels]:
    """Return the labels of each column of a batch whose texts are collected."""
    return {
        column.name: column.collect(columns[column.name].drop_nulls().unique())
        for column in ROW_COLUMNS
        if column.collect is not None and column.name in columns
    }


def join_labels(labels: Mapping[str, Labels], others: Mapping[str, Labels]) -> dict[str, Labels]:
    """Return the labels of two parts of the data."""
    return {
        column.name: column.collect((*labels[column.name], *others[column.name]))
        for column in ROW_COLUMNS
        if column.collect is not None and column.name in labels
    }


def store_columns(rows: SampledRows, index: Integers | None) -> list[pl.Series]:
    """Return the optional columns of some rows of a batch, or of all, as columns of the sample's frame."""
    return [
        series
        for column in ROW_COLUMNS
        if column.name in rows.columns
        for series in column.store(
            rows.columns[column.name] if index is None else take_values(rows.columns[column.name], index), rows.groups
        )
    ]


def gather_columns(
    frame: pl.DataFrame, roles: ColumnRoles, groups: Labels, labels: Mapping[str, Labels]
) -> dict[str, ColumnValues]:
    """Return the optional columns from the frame of a sample."""
    return {
        column.name: column.gather(frame, groups, labels.get(column.name, groups))
        for column in ROW_COLUMNS
        if column.role is not None and getattr(roles, column.role)
    }


def encode_columns(columns: Mapping[str, ColumnValues], labels: Mapping[str, Labels]) -> dict[str, ColumnValues]:
    """Return the columns of a batch, with codes where texts have labels."""
    encoded = {
        column.name: column.encode(columns[column.name], labels[column.name])
        for column in ROW_COLUMNS
        if column.encode is not None and column.name in labels and column.name in columns
    }
    return {**columns, **encoded}


def count_codes(rows: SampledRows) -> dict[str, int]:
    """Return the number of codes of each column by which scores are summed."""
    return {
        column.name: column.count_codes(rows.labels.get(column.name, ()))
        for column in ROW_COLUMNS
        if column.count_codes is not None and column.name in rows.columns
    }


def _read_log_odds(roles: ColumnRoles, table: pl.DataFrame) -> Floats:
    """Return log p/(1 − p), with an error of at most the rounding of 1, several times faster than scipy."""
    p = numbers_of("propensity", table[str(roles.propensity)])
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = 1.0 - p
        np.divide(p, odds, out=odds)
        return np.log(odds, out=odds)


def _read_clusters(roles: ColumnRoles, table: pl.DataFrame) -> Hashes:
    column = table[str(roles.clusters)]
    missing = column.null_count()
    if missing:
        raise DataError(
            f"`clusters` must be known for every row, got {missing} without one.",
            "give a row that belongs to nobody else a number of its own.",
        )
    return row_hashes({CLUSTER: column})


def _read_known_groups(roles: ColumnRoles, table: pl.DataFrame) -> pl.Series:
    name = str(roles.known_groups)
    codes, texts = factorize_groups(name, [table[name]])
    return pl.Series([*texts, None], dtype=pl.String).gather(codes % (len(texts) + 1))


def _encode_groups(texts: pl.Series, groups: Labels) -> Integers:
    codes = texts.replace_strict(list(groups), range(len(groups)), default=NO_GROUP, return_dtype=pl.Int64)
    return codes.to_numpy()


def _recode_groups(group: Integers, codes: list[int]) -> Integers:
    return np.select([group == code for code in codes], range(len(codes)), NO_GROUP)


ROW_COLUMNS = (
    RowColumn("log_odds", pl.Float64, "propensity", _read_log_odds, is_summed=True),
    RowColumn("cost", pl.Float64, "cost", lambda roles, table: observed_costs(table[str(roles.cost)])),
    RowColumn("y_true", pl.Int64, "label", is_summed=True, count_codes=lambda labels: OUTCOME_MISSING + 1),
    RowColumn(
        "period",
        pl.String,
        "periods",
        lambda roles, table: read_periods(table[str(roles.periods)]),
        collect=sort_periods,
        encode=encode_periods,
        is_summed=True,
        count_codes=lambda labels: len(labels) + 1,
    ),
    RowColumn("cluster", pl.UInt64, "clusters", _read_clusters),
    RowColumn("probabilities", pl.Float64, "soft", by_group=True, of_groups=lambda values, codes: values[:, codes]),
    RowColumn(
        "known_group", pl.String, "known_groups", _read_known_groups, encode=_encode_groups, of_groups=_recode_groups
    ),
    RowColumn("sampling_weight", pl.Float64),
    RowColumn("row_number", pl.Int64),
    RowColumn("row_key", pl.UInt64),
)


@dataclass(frozen=True, slots=True, eq=False)
class BatchRows:
    """The rows of a batch that are kept."""

    # The rows, and the columns of their table. Without weights, one number is broadcast to all rows.
    rows: SampledRows
    table: pl.DataFrame
    channel: Channel  # the scores of the whole batch
    # The number of rows read, of rows left out by reason, and of rows without a group
    read: int
    left_out: dict[str, int]
    without_group: int
    # The values of the observed outcome, and which outcome each stands for; None where none is given
    outcome_values: Meant | None
    source: NDArray[np.intp] | None = None  # for unobserved groups: the row of which each is a copy, from 0

    @property
    def people(self) -> Floats:
        """The number of people of each group: rows, or the sum of their probabilities."""
        group, size, probabilities = self.rows.group, len(self.rows.groups), self.rows.probabilities
        if probabilities is None:
            return np.bincount(group, minlength=size).astype(np.float64)
        return np.asarray(np.bincount(group, probabilities[np.arange(group.size), group], size), dtype=np.float64)

    @property
    def score_columns(self) -> Floats:
        """(m, n): one row for each column of scores."""
        return np.atleast_2d(self.rows.scores.T)


def read_batch(roles: ColumnRoles, table: pl.DataFrame, for_sums: bool = False) -> BatchRows:
    """Return the rows of a batch that are kept; `for_sums` without the columns that sums do not need."""
    named = row_name(table)
    with nullcontext() if roles.model is None else ONE_AT_A_TIME:
        channel = roles.channel(table, table, roles.model, named)
    y_true, values = _read_outcomes(roles, table, channel)
    is_other = _is_other(roles, channel, y_true)
    if roles.metric == "fnr":
        channel = channel.reversed()
    elif roles.metric in DECIDED and y_true is not None:
        channel = wrong_decisions(roles.metric, channel, y_true)
    weights = check_sample_weight(roles.sample_weight, table, named)
    keep, left_out = _keep_rows(roles, table, channel, weights, is_other)
    columns: dict[str, ColumnValues] = {} if y_true is None else {"y_true": y_true}
    groups = roles.soft
    if roles.soft:
        columns["probabilities"] = group_chances(roles.group, table, named)
        group = np.where(columns["probabilities"].sum(axis=1) > 0.0, 0, NO_GROUP)  # NaN is not above 0
    else:
        group, groups = _read_groups(roles, table)
    without_group = int((keep & (group == NO_GROUP)).sum())
    keep &= group != NO_GROUP
    scores = channel.scores
    score = scores if scores.ndim == 1 else scores[:, channel.favourable]
    rows = SampledRows(groups, group, weights, scores, score, columns, favourable=channel.favourable)
    if not keep.all():
        table, rows = table.filter(keep), rows.take(np.flatnonzero(keep))
    kept = roles.declared.applied(table, roles.sources if roles.keeps_inputs else ())
    rows = replace(rows, columns={**rows.columns, **read_columns(roles, kept, for_sums)})
    batch = BatchRows(rows, kept, channel, keep.size, left_out, without_group, outcome_values=values)
    return _copy_by_group(batch) if roles.soft else batch


def _copy_by_group(batch: BatchRows) -> BatchRows:
    """Return a copy of each row for each group that it may belong to, weighted by the probability."""
    probabilities = np.asarray(batch.rows.probabilities)
    group, source = np.nonzero(probabilities.T)
    copies = batch.rows.take(source)
    rows = replace(copies, group=group, weights=copies.weights * probabilities[source, group])
    return replace(batch, rows=rows, table=batch.table[pl.Series(source, dtype=pl.UInt32)], source=source)


def row_name(table: pl.DataFrame) -> RowName:
    """Return a function that names a row in messages: by its number in the table, where rows have an order."""
    if ROW in table.columns:
        return lambda row: f"row {table[ROW][row]}"
    return "row {} of a batch".format


def _read_groups(roles: ColumnRoles, table: pl.DataFrame) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a code per row, `NO_GROUP` where it has none, and the label of each code."""
    columns = [table[name] for name in roles.group]
    if len(columns) == 1 and columns[0].dtype == pl.String:
        texts, codes = factorize_texts(columns[0], first=0, missing=NO_GROUP)
        return codes, tuple(texts)
    return factorize_groups(roles.name, columns)


def _read_outcomes(roles: ColumnRoles, table: pl.DataFrame, channel: Channel) -> tuple[Integers | None, Meant | None]:
    if roles.label is None:
        return None, None
    return outcome_codes(table[roles.label], outcome_names(channel, roles.favourable))


def _is_other(roles: ColumnRoles, channel: Channel, y_true: Integers | None) -> dict[str, Booleans]:
    """Return the rows to which a metric does not apply: without an outcome, or with another outcome or decision."""
    if roles.metric is None or y_true is None:
        return {}
    has_outcome = y_true != OUTCOME_MISSING
    if roles.metric in CRITERIA:
        other = {"other_outcome": has_outcome & (y_true != CRITERIA[roles.metric])}
    else:
        other = {"other_decision": has_outcome & ~channel.missing & (channel.scores != DECIDED[roles.metric])}
    return {"missing_outcome": ~has_outcome, **other}


def _keep_rows(
    roles: ColumnRoles, table: pl.DataFrame, channel: Channel, weights: Floats, is_other: dict[str, Booleans]
) -> tuple[Booleans, dict[str, int]]:
    """Return which rows are kept, and the number left out by reason; a row is counted under the first that applies."""
    keep, left_out = np.ones(table.height, dtype=np.bool_), {}
    reasons = {f"{NOT_GIVEN}{column}": ~equals_mask(table[column], value) for column, value in roles.where.items()}
    for reason, rows in (reasons | is_other | {"missing_score": channel.missing, "zero_weight": weights == 0}).items():
        left_out[reason] = int((keep & rows).sum())
        keep &= ~rows
    return keep, left_out
