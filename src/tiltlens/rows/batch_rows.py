"""A batch as the rows that count: who they are, what they score, what they weigh."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.estimators.error_rates import UNKNOWN as UNKNOWN_OUTCOME
from tiltlens.estimators.influence import Integers
from tiltlens.paper.checks import Floats
from tiltlens.rows.group_probabilities import group_chances
from tiltlens.rows.groups import UNKNOWN, factorize_groups
from tiltlens.rows.outcomes import CRITERIA, Meant, outcome_codes, outcome_names
from tiltlens.rows.periods import period_texts
from tiltlens.rows.roles import ColumnRoles
from tiltlens.rows.scores import Channel, RowName, channel_of
from tiltlens.rows.weights import check_sample_weight, equals_mask, numbers_of
from tiltlens.sources.batches import ROW
from tiltlens.sources.factorize import factorize_texts

Booleans = NDArray[np.bool_]
ONE_AT_A_TIME = Lock()  # a user's model may not be made for several threads


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The rows of a batch that count.

    Attributes
    ----------
    table
        Their columns.
    read, left_out, unknown
        How many rows there were, how many were left out for which reason, and how many have no known group.
    channel
        Of the whole batch; `scores`, (n,) or (n, K), are those of the rows that count.
    group, labels
        The code of each row's group, and what each code stands for.
    weights
        One number that stands for all rows where none are given.
    log_odds
        Of being audited, as given; not finite where the membership is not between 0 and 1; None where none is given.
    truth, outcomes
        The code of each row's true outcome, and the values it was found to have; None where none is given.
    place, chances
        Where groups are known by probabilities: which row each copy is of, from 0 on, and all chances of that row.
    period
        Of each row, as a text; None where none are asked for.
    """

    table: pl.DataFrame
    read: int
    left_out: dict[str, int]
    unknown: int
    channel: Channel
    scores: Floats
    group: NDArray[np.int64]
    labels: tuple[str, ...]
    weights: Floats
    log_odds: Floats | None
    truth: Integers | None = None
    outcomes: Meant | None = None
    period: pl.Series | None = None
    place: NDArray[np.intp] | None = None
    chances: Floats | None = None

    @property
    def people(self) -> Floats:
        """How many people each group has: rows, or the sum of their chances."""
        size = len(self.labels)
        if self.chances is None:
            return np.bincount(self.group, minlength=size).astype(np.float64)
        own = self.chances[np.arange(self.group.size), self.group]
        return np.asarray(np.bincount(self.group, own, size), dtype=np.float64)

    @property
    def score_columns(self) -> Floats:
        """(m, n): one row for each column of scores."""
        return np.atleast_2d(self.scores.T)


def reading(roles: ColumnRoles, table: pl.DataFrame) -> Reading:
    """Return the rows of a batch that count."""
    named = row_name(table)
    channel = _channel(roles, table, named)
    truth, outcomes = _truth(roles, table, channel)
    if roles.metric == "fnr":
        channel = channel.reversed()
    weights = check_sample_weight(roles.sample_weight, table, named)
    keep, left_out = _kept(roles, table, channel, weights, truth)
    chances = group_chances(roles.group, table, named) if roles.soft else None
    group, labels = _groups(roles, table) if chances is None else (_known(chances), roles.soft)
    unknown = int((keep & (group == UNKNOWN)).sum())
    keep &= group != UNKNOWN
    scores, kept = channel.scores, table
    if not keep.all():
        kept, scores, weights, group = table.filter(keep), scores[keep], weights[keep], group[keep]
        truth = None if truth is None else truth[keep]
    kept = roles.declared.applied(kept, roles.sources if roles.keeps_inputs else ())
    log_odds = None if roles.propensity is None else _logit(numbers_of("propensity", kept[roles.propensity]))
    period = None if roles.periods is None else period_texts(kept[roles.periods])
    counted = (table.height, left_out, unknown)
    found = Reading(kept, *counted, channel, scores, group, labels, weights, log_odds, truth, outcomes, period)
    return found if chances is None else _copied(found, chances[keep])


def _known(chances: Floats) -> NDArray[np.int64]:
    """Return 0 for rows whose chances are known and not all 0, −1 for others."""
    return np.where(chances.sum(axis=1) > 0.0, 0, UNKNOWN)  # NaN is not above 0


def _copied(rows: Reading, chances: Floats) -> Reading:
    """Return a copy of each row for each group that it may belong to, with its chance as a weight."""
    group, place = np.nonzero(chances.T)
    return replace(
        rows,
        table=rows.table[pl.Series(place, dtype=pl.UInt32)],
        scores=rows.scores[place],
        group=group,
        weights=rows.weights[place] * chances[place, group],
        log_odds=None if rows.log_odds is None else rows.log_odds[place],
        truth=None if rows.truth is None else rows.truth[place],
        period=None if rows.period is None else rows.period.gather(place),
        place=place,
        chances=chances[place],
    )


def row_name(table: pl.DataFrame) -> RowName:
    """Return how a message calls a row: by its number in the table, where rows have an order."""
    if ROW in table.columns:
        return lambda row: f"row {table[ROW][row]}"
    return "row {} of a batch".format


def _channel(roles: ColumnRoles, table: pl.DataFrame, row_name: RowName) -> Channel:
    with nullcontext() if roles.model is None else ONE_AT_A_TIME:
        return channel_of(
            table,
            table,
            scores=list(roles.scores) or None,
            model=roles.model,
            score_type=roles.score_type,
            features=roles.sources,
            favourable=roles.favourable,
            threshold=roles.threshold,
            labels=roles.labels,
            row_name=row_name,
        )


def _truth(roles: ColumnRoles, table: pl.DataFrame, channel: Channel) -> tuple[Integers | None, Meant | None]:
    if roles.outcome is None:
        return None, None
    return outcome_codes(table[roles.outcome], outcome_names(channel, roles.favourable))


def _groups(roles: ColumnRoles, table: pl.DataFrame) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a code per row, −1 where the group is unknown, and the label of each code."""
    columns = [table[name] for name in roles.group]
    if len(columns) == 1 and columns[0].dtype == pl.String:
        texts, codes = factorize_texts(columns[0], first=0, missing=UNKNOWN)
        return codes, tuple(texts)
    return factorize_groups(roles.name, columns)


def _logit(chance: Floats) -> Floats:
    """Return log p/(1 − p), wrong by the rounding of 1 at most, and made several times faster than by scipy."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = 1.0 - chance
        np.divide(chance, odds, out=odds)
        return np.log(odds, out=odds)


def _kept(
    roles: ColumnRoles, table: pl.DataFrame, channel: Channel, weights: Floats, truth: Integers | None
) -> tuple[Booleans, dict[str, int]]:
    """Return which rows count, and how many do not for which reason; the first reason counts."""
    keep, left_out = np.ones(table.height, dtype=np.bool_), {}
    reasons = {f"not_given_{column}": ~equals_mask(table[column], value) for column, value in roles.where.items()}
    if roles.metric is not None and truth is not None:
        is_known = truth != UNKNOWN_OUTCOME
        reasons |= {"missing_outcome": ~is_known, "other_outcome": is_known & (truth != CRITERIA[roles.metric])}
    for reason, rows in (reasons | {"missing_score": channel.missing, "zero_weight": weights == 0}).items():
        left_out[reason] = int((keep & rows).sum())
        keep &= ~rows
    return keep, left_out
