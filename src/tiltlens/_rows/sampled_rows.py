"""`SampledRows`: rows with their groups, scores, weights and optional columns, from the batches to the results."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Generic, TypeVar

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
    equals_mask,
    factorize_groups,
    group_chances,
    outcome_codes,
    outcome_names,
    wrong_decisions,
)
from tiltlens._rows.roles import ColumnRoles
from tiltlens._rows.row_columns import ColumnValues, Labels, narrow_columns, read_columns, take_values
from tiltlens._rows.scores import Channel, RowName
from tiltlens._rows.wording import NOT_GIVEN, PROBABILITY, Unit
from tiltlens._sources.arrays import Hashes, factorize_texts
from tiltlens._sources.tables import ROW
from tiltlens._threads import in_threads
from tiltlens.paper.checks import Floats

V = TypeVar("V")
ONE_AT_A_TIME = Lock()  # a user's model may not be made for several threads


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


class _Optional(Generic[V]):
    """The values of an optional column of `SampledRows`, by its name; None where it was not requested."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, rows: SampledRows, owner: type) -> V | None:
        return rows.columns.get(self.name)


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
    # The values of each optional column, by the names of `ROW_COLUMNS`; in a sample also "row_number", "row_key" and,
    # if rows were drawn, "sampling_weight"
    columns: Mapping[str, ColumnValues] = field(default_factory=dict)
    labels: Mapping[str, Labels] = field(default_factory=dict)  # the labels of the codes of a column such as "period"
    # The features; and the codes of all values of those that are countable
    features: tuple[Feature, ...] = ()
    value_codes: Mapping[str, Integers] = field(default_factory=dict)
    # The unit of the score; and the number of the favourable class
    unit: Unit = PROBABILITY
    favourable: int = 1
    facts: SampleFacts = SampleFacts()  # facts about the sample as a whole

    # The given log-odds of being audited, not finite where the given probability is not between 0 and 1
    log_odds = _Optional[Floats]()
    y_true = _Optional[Integers]()  # the code of the observed outcome: 0, 1 or `OUTCOME_MISSING`
    cost = _Optional[Floats]()  # the observed cost of amounts, NaN where it is missing
    period = _Optional[Integers]()  # the code of the period, one after the last where it is missing
    cluster = _Optional[Hashes]()  # equal for rows of the same cluster; without it, each row is its own cluster
    # Where groups are not observed, (n, groups): the probability of each; and the code of the group, or `NO_GROUP`
    probabilities = _Optional[Floats]()
    known_group = _Optional[Integers]()

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
        facts = replace(self.facts, people=tuple(self.facts.people[code] for code in codes))
        scores = np.ascontiguousarray(some.scores)  # models read by row, frames store by column
        return replace(some, scores=scores, columns=narrow_columns(some.columns, codes), facts=facts)

    def in_unit(self, unit: Unit) -> SampledRows:
        """Return rows whose scores are amounts with the scores rescaled for estimators."""
        return replace(self, scores=unit.channel(self.scores), score=unit.seen(self.scores), unit=unit)


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
    y_true: Integers | None = None
    values: Meant | None = None
    if roles.label is not None:
        y_true, values = outcome_codes(table[roles.label], outcome_names(channel, roles.favourable))
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
