"""The sample's rows of the groups that are compared, in an order that depends on what they hold alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tiltlens.errors import DataError, DistributionError
from tiltlens.estimators.influence import Integers
from tiltlens.limits import CONTINUOUS
from tiltlens.paper.checks import Floats
from tiltlens.rows.amounts import PROBABILITY, Unit, unit_of
from tiltlens.rows.declared import INPUT
from tiltlens.rows.features import Feature, feature_of
from tiltlens.rows.groups import ComparedGroups, compared_groups, natural_order
from tiltlens.rows.levels import Levels, feature_levels, value_levels
from tiltlens.rows.outcomes import check_outcome
from tiltlens.rows.periods import check_periods, period_codes
from tiltlens.rows.roles import (
    CHANCE,
    CONTENT,
    GROUP,
    HASH,
    LABEL,
    LOG_ODDS,
    OUTCOME,
    PERIOD,
    SCORE,
    WEIGHT,
    ColumnRoles,
)
from tiltlens.rows.survey import Survey
from tiltlens.rows.value_counts import ValueCounts, exact_counts
from tiltlens.rows.weights import check_unequal, not_found, scaled_weights
from tiltlens.sources.batches import ROW
from tiltlens.sources.hashing import Hashes, nameless_hashes, nested_hashes
from tiltlens.sources.messages import listed, shown
from tiltlens.threads import in_threads


@dataclass(frozen=True, slots=True, eq=False)
class SoftRows:
    """The chances of some groups, (n, groups), and the code of the group where it is known, −1 elsewhere."""

    chances: Floats
    known: Integers | None

    def of(self, index: Integers, audited: int) -> SoftRows:
        """Return those of the audited group and the reference, of some rows: codes are then 0 and 1."""
        known = None
        if self.known is not None:
            known = np.select([self.known[index] == audited, self.known[index] == 0], [0, 1], -1)
        return SoftRows(self.chances[index][:, [audited, 0]], known)


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRows:
    """The sample's rows of the reference and of all audited groups.

    Attributes
    ----------
    labels, group
        The groups, the reference first, and the code of each row's.
    weights
        Divided by the largest of all rows.
    channel
        Scores, (n,) or (n, K), of amounts their deciles; `favourable` is the column a person wants.
    outcome, unit
        The score whose gap is measured, as estimators see it, and what it is measured in.
    log_odds
        As given; None where a model is to be fitted.
    features, levels
        The features on these rows; and how those with countable values are coded by all of them, with their codes.
    places
        A number of each feature, by which models take them in the same order whatever they are called.
    table, inputs
        Their features; and, where a model is asked again, the columns that it saw.
    copies
        How many rows are equal to another one in everything, where chance does not make them so.
    clusters
        Equal for rows of the same cluster; None where each row is one.
    truth
        The code of each row's true outcome; None where none is given.
    periods, period
        Those found, and the place of each row's among them; None where none are asked for.
    keys
        The hash of what each row holds beside its scores, by which it is known in another audit.
    is_numbered
        Whether rows have numbers in their table: Spark's have none.
    has_clusters
        Whether clusters were named: copies of a row in several groups are one without.
    people
        How many each group has, of all rows.
    soft
        The chances of these groups where they are known by probabilities.
    standing
        How much of all rows a row represents, if the sample has other shares of groups; None with `sample_weight`.
    """

    labels: tuple[str, ...]
    group: Integers
    weights: Floats
    channel: Floats
    outcome: Floats
    unit: Unit
    favourable: int
    log_odds: Floats | None
    features: tuple[Feature, ...]
    places: dict[str, int]
    levels: dict[str, Levels]
    codes: dict[str, Integers]
    row_numbers: Integers
    table: pl.DataFrame
    inputs: pl.DataFrame
    is_complete: bool
    largest_weight: float
    copies: int
    clusters: Hashes | None
    keys: Hashes
    is_numbered: bool
    has_clusters: bool
    people: tuple[float, ...]
    soft: SoftRows | None
    standing: Floats | None = None
    truth: Integers | None = None
    periods: tuple[str, ...] | None = None
    period: Integers | None = None


def who_is_compared(roles: ColumnRoles, survey: Survey, reference: Any, audited: Any) -> ComparedGroups:
    """Return who is compared with whom, after checks that the survey's rows allow it."""
    if survey.periods is not None:
        check_periods(survey.periods, bool(roles.soft))
    if survey.outcomes is not None:
        check_outcome(survey.outcomes, len(survey.labels))
    for column, is_present in survey.is_present.items():
        if not is_present:
            raise not_found(column, roles.where[column], list(survey.seen[column]))
    kept = survey.kept + survey.unknown
    if not kept:
        if survey.left_out["missing_score"] == survey.read:
            raise DistributionError(
                "`scores` must be known for some rows, got only missing values.", "check the column."
            )
        raise DataError(
            f"the data must have rows left to compare, got none of {survey.read}.", f"left out: {survey.left_out}."
        )
    counts = {label: round(survey.people[label]) for label in sorted(survey.people, key=natural_order)}
    groups = compared_groups(roles.name, counts, kept, reference, audited)
    if len(groups.audited) > 1 and roles.propensity is not None:
        raise DataError(
            f"`propensity` must be None or an estimator for several audited groups, got values for "
            f"{len(groups.audited)} of them.",
            "name one audited group: P(audited|x) is another one for each.",
        )
    outside = sum(survey.outside.get(label, 0) for label in (groups.reference, *groups.audited))
    if outside:
        raise DataError(
            f"`propensity` must lie strictly between 0 and 1, got {outside} rows that do not.",
            "it is P(audited|x); 0 or 1 says that the groups do not overlap there: leave such rows out.",
        )
    return groups


def compared_rows(roles: ColumnRoles, survey: Survey, groups: ComparedGroups) -> ComparedRows:
    """Return the sample's rows of these groups."""
    labels = (groups.reference, *groups.audited)
    ranges = [survey.weight_range[label] for label in labels]
    least, largest = min(low for low, _ in ranges), max(high for _, high in ranges)
    check_unequal(least, largest)
    frame = survey.sample.frame
    if set(survey.sample.counts) - set(labels):
        frame = frame.filter(pl.col(GROUP).is_in(labels))
    is_weighted, is_complete = roles.is_weighted, survey.sample.is_complete
    frame = frame.with_columns(pl.Series(WEIGHT, scaled_weights(frame[WEIGHT].to_numpy(), largest)))
    counts = _value_counts(roles, survey, frame, is_weighted)

    def encoded(name: str) -> tuple[Feature, Levels | None, Levels]:
        is_counted = is_complete or survey.values[name].frame is not None
        levels = feature_levels(name, counts[name], labels, is_weighted, not is_counted)
        levels = replace(levels, made_of=roles.declared.made_of(name))
        fine = value_levels(name, counts[name], labels, levels) if is_counted else None
        return feature_of(levels, frame[name]), fine, levels

    every = in_threads(encoded, list(roles.features), frame.height)
    features = tuple(feature for feature, _, _ in every)
    telling = [one.name for one in features if one.in_membership]
    order, of_rows, hashes, signs = _canonical_order(frame, telling, is_amount=bool(survey.amounts))
    frame = frame[pl.Series(order, dtype=pl.UInt32)]
    fine = {levels.name: levels for _, levels, _ in every if levels is not None}
    channel, outcome, unit = _outputs(frame, survey, labels)
    numbers = frame[ROW].to_numpy() if ROW in frame.columns else np.arange(frame.height)
    return ComparedRows(
        labels=labels,
        group=_codes(frame[GROUP], labels),
        weights=frame[WEIGHT].to_numpy(),
        channel=channel,
        outcome=outcome,
        unit=unit,
        favourable=survey.favourable,
        log_odds=frame[LOG_ODDS].to_numpy() if LOG_ODDS in frame.columns else None,
        features=tuple(feature.rows(order) for feature in features),
        places={one.name: signs.get(one.name, -1) for one in features},
        levels=fine,
        codes={name: levels.codes(frame[name]) for name, levels in fine.items()},
        row_numbers=numbers,
        table=frame.select(roles.features),
        inputs=frame.select(pl.col(f"{INPUT}{one}").alias(one) for one in roles.sources if roles.keeps_inputs),
        is_complete=is_complete,
        largest_weight=largest,
        copies=_copies(hashes, features),
        clusters=_clusters(roles, frame),
        truth=frame[OUTCOME].to_numpy() if OUTCOME in frame.columns else None,
        periods=survey.periods,
        period=None if survey.periods is None else period_codes(frame[PERIOD], survey.periods),
        keys=of_rows[order],
        is_numbered=ROW in frame.columns,
        has_clusters=roles.clusters is not None,
        people=tuple(survey.people[label] for label in labels),
        soft=_soft_rows(roles, frame, labels),
        standing=None if is_complete else _standing_for(frame, survey),
    )


def _clusters(roles: ColumnRoles, frame: pl.DataFrame) -> Hashes | None:
    """Return the cluster of each row: as named, or the row itself where it stands in several groups.

    Such rows are numbered by what they hold: folds must not depend on their order.
    """
    if roles.clusters is not None:
        return frame[HASH].to_numpy()
    if CONTENT not in frame.columns:
        return None
    return frame.select(pl.struct(CONTENT, HASH).rank("dense")).to_series().cast(pl.UInt64).to_numpy()


def _soft_rows(roles: ColumnRoles, frame: pl.DataFrame, labels: tuple[str, ...]) -> SoftRows | None:
    """Return the chances of these groups, in their order, and the groups that are known."""
    if not roles.soft:
        return None
    chances = frame.select(f"{CHANCE}{roles.soft.index(label)}" for label in labels).to_numpy()
    if roles.known_groups is None:
        return SoftRows(chances, None)
    found = frame[LABEL].drop_nulls().unique().sort()
    if found.len() and not found.is_in(roles.soft).any():
        raise DataError(
            f"`known_groups` must hold names of groups, got {listed(found.to_list())} in {shown(roles.known_groups)}.",
            f"the groups are {listed(roles.soft)}: write both alike.",
        )
    known = frame[LABEL].replace_strict(list(labels), range(len(labels)), default=-1, return_dtype=pl.Int64)
    return SoftRows(chances, known.to_numpy())


def _outputs(frame: pl.DataFrame, survey: Survey, labels: Sequence[str]) -> tuple[Floats, Floats, Unit]:
    """Return the channel, the score whose gap is measured, and its unit."""
    names = [name for name in frame.columns if name.startswith(SCORE)]
    scores = frame[names[0]].to_numpy() if len(names) == 1 else frame.select(names).to_numpy()
    if survey.amounts:
        unit = unit_of([survey.amounts[label] for label in labels], scores, _standing_for(frame, survey))
        return unit.channel(scores), unit.seen(scores), unit
    return scores, scores if scores.ndim == 1 else np.asarray(scores[:, survey.favourable]), PROBABILITY


def _standing_for(frame: pl.DataFrame, survey: Survey) -> Floats | None:
    """Return for how much each row of the sample stands: its weight, times its group's rows for each that was drawn.

    None where all stand for the same.
    """
    weights = frame[WEIGHT].to_numpy()
    if not survey.sample.is_complete:
        drawn = frame[GROUP].value_counts().rows()
        share = {label: survey.sample.counts[label] / count for label, count in drawn}
        weights = weights * frame[GROUP].replace_strict(share, return_dtype=pl.Float64).to_numpy()
    return None if (weights == weights[0]).all() else weights


def _copies(hashes: Hashes, features: Sequence[Feature]) -> int:
    """Return how many rows repeat another; 0 where features have so few values that people are alike by chance."""
    distinct = len(np.unique(hashes))
    is_continuous = any(
        feature.values is not None and len(np.unique(feature.values)) > CONTINUOUS * distinct for feature in features
    )
    return len(hashes) - distinct if is_continuous else 0


def _codes(column: pl.Series, labels: tuple[str, ...]) -> Integers:
    return column.cast(pl.Enum(labels)).to_physical().cast(pl.Int64).to_numpy()


def _value_counts(
    roles: ColumnRoles, survey: Survey, frame: pl.DataFrame, is_weighted: bool
) -> Mapping[str, ValueCounts]:
    """Return the counts of each feature's values: of all rows where these are counted, else of the sample's."""
    labels = frame[GROUP].unique().sort()
    codes = frame[GROUP].cast(pl.Enum(labels)).to_physical().cast(pl.Int64).to_numpy()
    weights = frame[WEIGHT].to_numpy() if is_weighted else None

    def counted(name: str) -> ValueCounts:
        if not survey.sample.is_complete and survey.values[name].frame is not None:
            return survey.values[name]
        counts = exact_counts(frame[name], codes, labels, weights)
        return counts if survey.sample.is_complete else ValueCounts(counts.parts, survey.values[name].ranges)

    return dict(zip(roles.features, in_threads(counted, list(roles.features), frame.height), strict=True))


def _canonical_order(
    frame: pl.DataFrame, telling: list[str], is_amount: bool
) -> tuple[Integers, Hashes, Hashes, dict[str, int]]:
    """Return an order of the rows that depends on what they hold alone, so that folds do too.

    Beside it are the two hashes that end ties, and numbers that order the features. Names of columns, levels and groups
    have no part in it, nor have features that tell the groups nothing, such as row numbers. Scores order rows that are
    alike in everything else: two models' audits of the same rows have the same folds. Of amounts it is their order that
    counts: cents have the same as euros.
    """
    scores = {name: frame[name] for name in frame.columns if name.startswith(SCORE)}
    if is_amount:
        scores = {name: (column.rank("dense") - 1).cast(pl.Float64) for name, column in scores.items()}
    of_rows, hashes = nested_hashes([{name: frame[name] for name in (*telling, GROUP, WEIGHT)}, scores])
    nameless, signs = nameless_hashes([frame[name] for name in (*telling, GROUP, WEIGHT)])
    return np.lexsort((hashes, of_rows, nameless)), of_rows, hashes, dict(zip(telling, signs, strict=False))


def account_rows(survey: Survey, groups: ComparedGroups, is_soft: bool) -> dict[str, int]:
    """Count the rows by what became of them; rows used and rows left out add up to rows read."""
    used, small = sum(survey.sample.counts[label] for label in (groups.reference, *groups.audited)), groups.too_small
    if is_soft:
        used, small = survey.kept, {}  # each row may be of every group
    gone = survey.left_out | {"missing_group": survey.unknown, "too_small_group": sum(small.values())}
    rest = survey.read - used - sum(gone.values())
    return {"read": survey.read, "used": used} | gone | {"group_not_audited": rest}
