"""The first pass: who is there, which values the features take, and a sample of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tiltlens.estimators.estimate import Integers
from tiltlens.paper.checks import Floats
from tiltlens.streams.places import placed
from tiltlens.streams.reading import Question, Reading, reading
from tiltlens.streams.sample import (
    GROUP,
    PEOPLE,
    WEIGHT,
    Bound,
    GroupSample,
    RowSample,
    SampleRows,
    group_sample,
    sampled,
)
from tiltlens.streams.values import ValueCounts, value_counts

FEW_GROUPS = 8  # up to which looking for each group is faster than sorting


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What the first pass finds, added with `+`.

    Attributes
    ----------
    read, left_out, unknown
        Rows read; left out for which reason; of unknown group.
    groups
        One row per group: people, weight, weighted sums of the scores, extremes of log-odds and scores, and how many
        have a membership that is not between 0 and 1.
    values
        Of each feature.
    sample, fit
        Some rows; and some of each group, where a membership model is to be fitted.
    is_decisions
        Whether every score is 0 or 1.
    found, seen
        Whether each `given` value occurs, and some values that do.
    fingerprint
        Σ of hashes of all rows that count, modulo 2^64: the same rows in any order have the same.
    """

    read: int
    left_out: dict[str, int]
    unknown: int
    groups: pl.DataFrame
    values: dict[str, ValueCounts]
    sample: RowSample
    fit: GroupSample | None
    is_decisions: bool
    outcomes: int
    favourable: int
    labels: tuple[str, ...]
    found: dict[str, bool]
    seen: dict[str, tuple[Any, ...]]
    fingerprint: int

    def __add__(self, other: Survey) -> Survey:
        return Survey(
            self.read + other.read,
            {reason: count + other.left_out[reason] for reason, count in self.left_out.items()},
            self.unknown + other.unknown,
            _added(self.groups, other.groups),
            {name: one + other.values[name] for name, one in self.values.items()},
            self.sample + other.sample,
            None if self.fit is None or other.fit is None else self.fit + other.fit,
            self.is_decisions and other.is_decisions,
            self.outcomes,
            self.favourable,
            self.labels,
            {column: one or other.found[column] for column, one in self.found.items()},
            {column: tuple(sorted({*one, *other.seen[column]}))[:30] for column, one in self.seen.items()},
            (self.fingerprint + other.fingerprint) % 2**64,
        )


def _added(groups: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Return the sums and the extremes of both."""
    names = [name for name in groups.columns if name != GROUP]
    least, most = ([name for name in names if name.startswith(end)] for end in ("least", "most"))
    sums = [name for name in names if name not in (*least, *most)]
    found = pl.concat([groups, others]).group_by(GROUP).agg(pl.col(sums).sum(), pl.col(least).min(), pl.col(most).max())
    return found.select(groups.columns)


class SurveyRows(NamedTuple):
    """A batch as it is read, and its rows of a known group."""

    reading: Reading
    rows: SampleRows
    unknown: int


def survey_rows(question: Question, table: pl.DataFrame) -> SurveyRows:
    """Return the rows of a batch that the survey is made of."""
    found = reading(question, table)
    codes, names = found.coded()
    known, labels = codes >= 0, pl.Series(GROUP, names, dtype=pl.String)
    features, weights, log_odds, scores = (
        found.table.select(question.features),
        found.weights,
        found.log_odds,
        found.scores,
    )
    if not known.all():
        features, codes = features.filter(known), codes[known]
        weights, log_odds, scores = weights[known], log_odds[known], scores[known]
    columns, given = np.atleast_2d(scores.T), None if question.weights is None else weights
    by_value = {column.name: placed(column) for column in features.get_columns()}
    rows = SampleRows(features, codes, labels, given, log_odds, columns, by_value)
    return SurveyRows(found, rows, int((~known).sum()))


def surveyed(question: Question, bound: Bound, table: pl.DataFrame) -> Survey:
    """Return what one batch adds to the survey; `bound` is that of the samples of all batches."""
    found, rows, unknown = survey_rows(question, table)
    sample, fingerprint = sampled(rows, bound)
    return Survey(
        read=table.height,
        left_out=found.left_out,
        unknown=unknown,
        groups=_groups(rows.codes, rows.labels, rows.weights, rows.log_odds, rows.scores),
        values={
            column.name: value_counts(column, rows.placed[column.name], rows.codes, rows.labels, rows.weights)
            for column in rows.features.get_columns()
        },
        sample=sample,
        fit=group_sample(rows) if question.membership is None else None,
        is_decisions=found.channel.kind == "decisions",
        outcomes=found.channel.outcomes,
        favourable=found.channel.favourable,
        labels=found.channel.labels,
        found=_found(question.given, table, found),
        seen={column: tuple(table[column].drop_nulls().unique().sort().head(30)) for column in question.given},
        fingerprint=fingerprint,
    )


def _found(given: Mapping[str, Any], table: pl.DataFrame, found: Reading) -> dict[str, bool]:
    left = {column: found.left_out[f"not_given_{column}"] for column in given}
    return {column: count < table.height for column, count in left.items()}


def _groups(
    codes: Integers, labels: pl.Series, weights: Floats | None, log_odds: Floats, scores: Floats
) -> pl.DataFrame:
    """Return sums and extremes by group: rows are sorted by group, so that each group is a stretch of them."""
    order, counts = _sorted(codes, len(labels))
    starts = np.cumsum(counts) - counts
    w, ell = None if weights is None else weights.take(order), log_odds.take(order)
    outside = ~np.isfinite(ell)
    low, high = (np.where(outside, end, ell) for end in (np.inf, -np.inf)) if outside.any() else (ell, ell)

    def total(values: Floats) -> Floats:
        return np.asarray(np.add.reduceat(values if w is None else values * w, starts))

    ones = np.ones(len(labels))
    found: dict[str, Any] = {
        GROUP: labels,
        WEIGHT: counts.astype(np.float64) if w is None else np.add.reduceat(w, starts),
        PEOPLE: counts,
        "outside": np.add.reduceat(outside, starts, dtype=np.int64),
        "log_odds": total(np.where(outside, 0.0, ell) if outside.any() else ell),
        "least_weight": ones if w is None else np.minimum.reduceat(w, starts),
        "most_weight": ones if w is None else np.maximum.reduceat(w, starts),
        "least_log_odds": np.minimum.reduceat(low, starts),
        "most_log_odds": np.maximum.reduceat(high, starts),
    }
    for y, column in enumerate(scores):
        score = column.take(order)
        found[f"score {y}"] = total(score)
        found[f"least_score {y}"] = np.minimum.reduceat(score, starts)
        found[f"most_score {y}"] = np.maximum.reduceat(score, starts)
    return pl.DataFrame(found)


def _sorted(codes: Integers, groups: int) -> tuple[Integers, Integers]:
    """Return the rows group by group, and how many each has."""
    if groups <= FEW_GROUPS:
        places = [np.flatnonzero(codes == group) for group in range(groups)]
        return np.concatenate(places) if places else codes, np.array([len(one) for one in places], dtype=np.int64)
    return np.argsort(codes.astype(np.min_scalar_type(groups)), kind="stable"), np.bincount(codes, minlength=groups)
