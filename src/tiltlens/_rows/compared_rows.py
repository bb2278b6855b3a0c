"""The compared groups: the sample's rows in an order that depends only on their contents, and sums over all rows.

If the sample is complete its rows are summed, otherwise the data are read a second time. One function computes both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add

import numpy as np
import polars as pl

from tiltlens._estimators.feature_gap import CellSums
from tiltlens._estimators.influence import Integers
from tiltlens._rows.features import Feature, feature_of
from tiltlens._rows.groups import (
    NO_GROUP,
    ComparedGroups,
    check_outcome,
    check_periods,
    check_unequal,
    compared_groups,
    natural_order,
    scaled_weights,
)
from tiltlens._rows.levels import Levels, exact_counts, feature_levels, value_levels
from tiltlens._rows.roles import CONTENT, GROUP, HASH, INPUT, SCORE, WEIGHT, ColumnRoles
from tiltlens._rows.row_columns import ColumnValues, Labels, count_codes, encode_columns, gather_columns
from tiltlens._rows.sampled_rows import SampledRows, SampleFacts, read_batch
from tiltlens._rows.survey import Survey
from tiltlens._rows.wording import NOT_GIVEN, exclusion_words, unit_of
from tiltlens._sources.arrays import Hashes, chunked_moments, factorize, nameless_hashes, nested_hashes
from tiltlens._sources.tables import ROW, add_fields
from tiltlens._threads import in_threads
from tiltlens.errors import DataError, DistributionError, quoted, quoted_list
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import GroupMoments

CONTINUOUS = 0.5  # distinct numbers per distinct row, above which equal rows are not a coincidence


@dataclass(frozen=True, slots=True, eq=False)
class EncodedSample:
    """The sample's rows of the compared groups, with the columns and the levels of their features."""

    rows: SampledRows  # in an order that depends only on their contents; the reference is the first group
    # The columns of the features; and, where a model is asked again, the columns that it saw
    table: pl.DataFrame
    inputs: pl.DataFrame
    levels: dict[str, Levels]  # how the features with countable values are coded
    # A number for each feature, by which models order features independently of their names
    feature_order: dict[str, int]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of values of each countable feature."""
        return {name: len(levels.labels) for name, levels in self.levels.items()}

    def emptied(self) -> EncodedSample:
        """Return the sample without its rows, to encode others. It is sent to every worker."""
        return replace(self, rows=self.rows.take(np.arange(0)), table=self.table.clear(), inputs=self.inputs.clear())


def select_groups(roles: ColumnRoles, survey: Survey, reference: object, audited: object) -> ComparedGroups:
    """Return the reference and the audited groups, after checks that the survey's rows allow the comparison."""
    if "period" in survey.labels:
        check_periods(survey.labels["period"], bool(roles.soft))
    if survey.outcome_values is not None:
        check_outcome(survey.outcome_values, len(survey.classes))
    for column, value in roles.where.items():
        if survey.left_out[f"{NOT_GIVEN}{column}"] == survey.read:
            raise DataError(
                f"No row has {quoted(value)} in column {quoted(column)} (`where`).",
                f"its values are {quoted_list(survey.seen[column])}.",
            )
    _check_some_rows(survey)
    counts = {label: round(survey.people[label]) for label in sorted(survey.people, key=natural_order)}
    groups = compared_groups(roles.name, counts, survey.kept + survey.without_group, reference, audited)
    _check_propensity(roles, survey, groups)
    return groups


def _check_some_rows(survey: Survey) -> None:
    """Raise where no row is left."""
    if survey.kept + survey.without_group:
        return
    if survey.left_out["missing_score"] == survey.read:
        raise DistributionError("`scores` is missing in all rows.", "pass a column that has scores.")
    raise DataError(
        f"No row is left to compare, of {survey.read:,} rows.", f"left out: {exclusion_words(survey.left_out)}."
    )


def _check_propensity(roles: ColumnRoles, survey: Survey, groups: ComparedGroups) -> None:
    """Raise if a given P(audited|x) cannot apply to these groups."""
    if len(groups.audited) > 1 and roles.propensity is not None:
        raise DataError(
            f"`propensity` gives values for one audited group, but {len(groups.audited)} groups are audited.",
            "name one audited group, because P(audited|x) differs between groups; or leave `propensity` out.",
        )
    outside = sum(survey.outside.get(label, 0) for label in (groups.reference, *groups.audited))
    if outside:
        raise DataError(
            f"`propensity` must be strictly between 0 and 1. Rows outside: {outside:,}.",
            "it is P(audited|x). At 0 or 1 the groups do not overlap: leave such rows out.",
        )


def select_rows(roles: ColumnRoles, survey: Survey, groups: ComparedGroups) -> EncodedSample:
    """Return the sample's rows of the compared groups, with their features encoded."""
    labels = (groups.reference, *groups.audited)
    least, largest = (end(survey.weight_range[label][at] for label in labels) for at, end in enumerate((min, max)))
    check_unequal(least, largest)
    frame = survey.sample.frame
    if set(survey.sample.counts) - set(labels):
        frame = frame.filter(pl.col(GROUP).is_in(labels))
    frame = frame.with_columns(pl.Series(WEIGHT, scaled_weights(frame[WEIGHT].to_numpy(), largest)))
    features, levels = _encode_features(roles, survey, frame, labels)
    order = _canonical_order(
        frame, [feature.name for feature in features if feature.in_membership], is_amount=bool(survey.amounts)
    )
    frame = frame[pl.Series(order.index, dtype=pl.UInt32)]
    columns = _columns(roles, survey, frame, labels, order.content[order.index])
    codes = in_threads(lambda own: own.codes(frame[own.name]), list(levels.values()), frame.height)
    facts = SampleFacts(
        people=tuple(survey.people[label] for label in labels),
        is_complete=survey.sample.is_complete,
        is_weighted=roles.is_weighted,
        largest_weight=largest,
        repeated_rows=0 if "cluster" in columns else _count_copies(order.hashes, features),
        has_clusters=roles.clusters is not None,
        is_numbered=ROW in frame.columns,
    )
    rows = replace(
        _scored_rows(frame, survey, labels),
        columns=columns,
        labels=survey.labels,
        features=tuple(in_threads(lambda feature: feature.rows(order.index), features, frame.height)),
        value_codes=dict(zip(levels, codes, strict=True)),
        facts=facts,
    )
    inputs = frame.select(pl.col(f"{INPUT}{name}").alias(name) for name in roles.sources if roles.keeps_inputs)
    feature_order = {feature.name: order.signs.get(feature.name, -1) for feature in features}
    return EncodedSample(rows, frame.select(roles.features), inputs, levels, feature_order)


def _encode_features(
    roles: ColumnRoles, survey: Survey, frame: pl.DataFrame, labels: Labels
) -> tuple[list[Feature], dict[str, Levels]]:
    """Return the features, and the levels of all values of those that are countable.

    Values are counted among all rows where the survey counted them, else among the sample's.
    """
    codes, groups = _group_codes(frame, labels), pl.Series(GROUP, labels)
    weights = frame[WEIGHT].to_numpy() if roles.is_weighted else None

    def encode(name: str) -> tuple[Feature, Levels | None]:
        is_complete, counts = survey.sample.is_complete, survey.values[name]
        is_counted = is_complete or counts.frame is not None
        if is_complete or not is_counted:
            of_sample = exact_counts(frame[name], codes, groups, weights)
            counts = of_sample if is_complete else replace(of_sample, only_ranges=counts.ranges)
        levels = feature_levels(name, counts, labels, roles.is_weighted, not is_counted)
        levels = replace(levels, made_of=roles.declared.made_of(name))
        fine = value_levels(name, counts, labels, levels) if is_counted else None
        return feature_of(levels, frame[name]), fine

    pairs = in_threads(encode, list(roles.features), frame.height)
    return [feature for feature, _ in pairs], {fine.name: fine for _, fine in pairs if fine is not None}


def _scored_rows(frame: pl.DataFrame, survey: Survey, labels: Labels) -> SampledRows:
    """Return groups, weights and scores of the rows; amounts in a unit that suits them."""
    names = [name for name in frame.columns if name.startswith(SCORE)]
    scores = frame[names[0]].to_numpy() if len(names) == 1 else frame.select(names).to_numpy()
    score = scores if scores.ndim == 1 else np.asarray(scores[:, survey.favourable])
    group = _group_codes(frame, labels)
    rows = SampledRows(labels, group, frame[WEIGHT].to_numpy(), scores, score, favourable=survey.favourable)
    if not survey.amounts:
        return rows
    moments = [survey.amounts[label] for label in labels]
    return rows.in_unit(unit_of(moments, scores, _sampling_weights(frame, survey)))


def _group_codes(frame: pl.DataFrame, labels: Labels) -> Integers:
    return frame[GROUP].cast(pl.Enum(labels)).to_physical().cast(pl.Int64).to_numpy()


def _columns(
    roles: ColumnRoles, survey: Survey, frame: pl.DataFrame, labels: Labels, content: Hashes
) -> dict[str, ColumnValues]:
    """Return the optional columns: those that were read, and those that follow from how rows were sampled.

    `content` is the hash of each row's contents without its scores.
    """
    if roles.known_groups is not None:
        _check_known_groups(roles, frame)
    columns = gather_columns(frame, roles, labels, survey.labels)
    columns["row_number"] = frame[ROW].to_numpy() if ROW in frame.columns else np.arange(frame.height)
    columns["row_key"] = columns.get("cluster", content)
    if roles.clusters is None and CONTENT in frame.columns:
        # The copies of a row are a cluster, numbered by its contents: folds must not depend on the order of rows.
        copies = frame.select(pl.struct(CONTENT, ROW if ROW in frame.columns else HASH).rank("dense")).to_series()
        columns["cluster"] = copies.cast(pl.UInt64).to_numpy()
        columns["row_key"] = _sum_copies(content, columns["cluster"])
    weights = None if survey.sample.is_complete else _sampling_weights(frame, survey)
    return columns if weights is None else columns | {"sampling_weight": weights}


def _check_known_groups(roles: ColumnRoles, frame: pl.DataFrame) -> None:
    """Raise if `known_groups` has none of the names of the groups with probabilities."""
    names = frame["\0known_group"].drop_nulls().unique().sort()
    if names.len() and not names.is_in(roles.soft).any():
        raise DataError(
            f"`known_groups` ({quoted(roles.known_groups)}) has none of the groups, "
            f"but {quoted_list(names.to_list())}.",
            f"use the names of `group`: {quoted_list(roles.soft)}.",
        )


def _sum_copies(content: Hashes, copies: Hashes) -> Hashes:
    """Return the hash of a row with copies in several groups: the sum over these."""
    _, index = np.unique(copies, return_inverse=True)
    totals = np.zeros(int(index.max()) + 1, dtype=np.uint64)
    np.add.at(totals, index, content)
    return np.asarray(totals[index])


def _sampling_weights(frame: pl.DataFrame, survey: Survey) -> Floats | None:
    """Return each row's sampling weight: its weight times its group's number of rows per sampled row.

    None if all are equal.
    """
    weights = frame[WEIGHT].to_numpy()
    if not survey.sample.is_complete:
        drawn = frame[GROUP].value_counts().rows()
        share = {label: survey.sample.counts[label] / count for label, count in drawn}
        weights = weights * frame[GROUP].replace_strict(share, return_dtype=pl.Float64).to_numpy()
    return None if (weights == weights[0]).all() else weights


def _count_copies(hashes: Hashes, features: Sequence[Feature]) -> int:
    """Return the number of rows that repeat another; 0 if features have so few values that this may be chance."""
    distinct = pl.Series(hashes).n_unique()
    if distinct == len(hashes):
        return 0
    is_continuous = any(
        feature.values is not None and len(np.unique(feature.values)) > CONTINUOUS * distinct for feature in features
    )
    return len(hashes) - distinct if is_continuous else 0


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """An order of rows, two hashes of each row that break ties, and numbers that order the features."""

    index: Integers
    content: Hashes
    hashes: Hashes
    signs: dict[str, int]


def _canonical_order(frame: pl.DataFrame, telling: list[str], is_amount: bool) -> _Order:
    """Return an order of the rows that depends only on their contents, so that folds do too.

    It does not depend on names of columns, levels or groups, nor on features outside the membership model, such as row
    numbers. Scores only order rows that are equal in everything else, so two models' audits of the same rows have the
    same folds. Only the order of amounts is used, so cents and euros have the same folds.
    """
    scores = {name: frame[name] for name in frame.columns if name.startswith(SCORE)}
    if is_amount:
        scores = {name: (column.rank("dense") - 1).cast(pl.Float64) for name, column in scores.items()}
    columns = {name: frame[name] for name in (*telling, GROUP, WEIGHT)}
    coded = in_threads(factorize, list(columns.values()), frame.height)
    content, hashes = nested_hashes([columns, scores], dict(zip(columns, coded, strict=True)))
    nameless, signs = nameless_hashes(list(columns.values()))
    index = np.argsort(nameless)
    if not np.diff(nameless[index]).all():
        index = np.lexsort((hashes, content, nameless))
    return _Order(index, content, hashes, dict(zip(telling, signs, strict=False)))


def account_rows(survey: Survey, groups: ComparedGroups, is_soft: bool) -> dict[str, int]:
    """Count the rows used and the rows left out by reason; they add up to the rows read."""
    used, small = sum(survey.sample.counts[label] for label in (groups.reference, *groups.audited)), groups.too_small
    if is_soft:
        used, small = survey.kept, {}  # each row may be of every group
    gone = survey.left_out | {"missing_group": survey.without_group, "too_small_group": sum(small.values())}
    rest = survey.read - used - sum(gone.values())
    return {"read": survey.read, "used": used} | gone | {"group_not_audited": rest}


def _add_each(parts: tuple[GroupMoments, ...], others: tuple[GroupMoments, ...]) -> tuple[GroupMoments, ...]:
    return tuple(map(add, parts, others))


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Sums over all rows of some groups, added with `+`."""

    # Of (ℓ, W_1, …) in each group, where ℓ is 0 if no membership is given; and of the amount, none for probabilities
    moments: tuple[GroupMoments, ...] = field(metadata={"join": _add_each})
    amounts: tuple[GroupMoments, ...] = field(metadata={"join": _add_each})
    square: Floats  # Σ w² of each group
    # Σ w·e^(ℓ − shift)·(1, ℓ, W_1, …) of each group; (groups, 0) if no membership is given
    exponential: Floats
    shift: float = field(metadata={"join": min})  # the same in all
    cells: dict[str, CellSums]  # sums by value of each countable feature, one line per group
    # Sums by the codes of optional columns of the rows, such as the observed outcome and the period
    by_column: dict[str, CellSums]

    def __add__(self, other: GroupSums) -> GroupSums:
        return add_fields(self, other)


def sum_rows(rows: SampledRows, sizes: Mapping[str, int], shift: float) -> GroupSums:
    """Return the sums of some rows; `sizes` are the numbers of each feature's values."""
    groups, weights = len(rows.groups), rows.weights if rows.facts.is_weighted else None
    ell = np.broadcast_to(0.0, len(rows.group)) if rows.log_odds is None else rows.log_odds
    columns = [ell, *rows.free_scores]
    w = np.ones(len(rows.group)) if weights is None else weights
    exponential = np.zeros((groups, 0))
    if rows.log_odds is not None:
        tilt = w * np.exp(ell - shift)
        lines = (tilt, *(tilt * column for column in columns))
        exponential = np.column_stack([np.bincount(rows.group, line, groups) for line in lines])
    amounts = chunked_moments([rows.score], rows.group, groups, weights) if rows.unit.is_amount else ()
    return GroupSums(
        moments=tuple(chunked_moments(columns, rows.group, groups, weights)),
        amounts=tuple(amounts),
        square=np.bincount(rows.group, w**2, groups).astype(np.float64),
        exponential=exponential,
        shift=shift,
        cells={name: cell_sums(rows, codes, sizes[name]) for name, codes in rows.value_codes.items()},
        by_column={
            name: cell_sums(rows, rows.columns[name], count)
            for name, count in count_codes(rows.columns, rows.labels).items()
        },
    )


def cell_sums(rows: SampledRows, codes: Integers, values: int) -> CellSums:
    """Return the sums by group and value of a feature: people, Σ w, Σ w², Σ w·W and Σ w·W²."""
    weights = rows.weights if rows.facts.is_weighted else None
    return CellSums.by(rows.group, codes, (len(rows.groups), values), rows.score, weights)


def sum_batch(sample: EncodedSample, roles: ColumnRoles, shift: float, table: pl.DataFrame) -> GroupSums:
    """Return the sums of one batch, whose rows are encoded as those of a sample; the sample may be empty."""
    batch, groups = read_batch(roles, table, for_sums=True), sample.rows.groups
    index = np.flatnonzero(batch.rows.code_groups(groups) != NO_GROUP)
    kept = batch.table if index.size == batch.table.height else batch.table[pl.Series(index, dtype=pl.UInt32)]
    rows, unit, facts = batch.rows.recode(groups), sample.rows.unit, sample.rows.facts
    rows = replace(
        rows.in_unit(unit) if unit.is_amount else rows,
        weights=rows.weights / facts.largest_weight if facts.is_weighted else rows.weights,
        columns=encode_columns(rows.columns, sample.rows.labels),
        labels=sample.rows.labels,
        value_codes={name: levels.codes(kept[name]) for name, levels in sample.levels.items()},
        facts=facts,
    )
    return sum_rows(rows, sample.sizes, shift)


def check_same_rows(counts: Mapping[str, int], labels: Sequence[str], sums: GroupSums) -> None:
    """Raise if the sums have different numbers of rows from the survey, as with a query that draws at random."""
    for label, moments in zip(labels, sums.moments, strict=True):
        if moments.rows != counts[label]:
            raise DataError(
                f"`data` must have the same rows each time it is read, got {counts[label]:,} and then "
                f"{moments.rows:,} of {quoted(label)}.",
                "write what a query draws by chance, or what others still write to, to a file first.",
            )
