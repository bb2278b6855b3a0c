"""Tables of outputs by group: of decisions 2×2, with the usual tests; of amounts, the shares above each decile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import (
    Evidence,
    Settings,
    disclosed_counts,
    estimate_columns,
    interval_schema,
    may_show,
)
from tiltlens._estimators import verdicts
from tiltlens._estimators.estimate import Estimate, quantile
from tiltlens._estimators.influence import Integers
from tiltlens._estimators.outputs import gap_law, group_rates
from tiltlens._estimators.verdicts import Count
from tiltlens._formats import FieldTable
from tiltlens._limits import FOUR_FIFTHS, SMALLEST_EXPECTED, SUPPRESSED_BELOW
from tiltlens._notes import Note

OUTCOMES = ("favourable", "unfavourable")
BEYOND = ("audited", "reference", "difference")
DECILE_SCHEMA: Mapping[str, type[pl.DataType]] = {"amount": pl.Float64} | interval_schema(*BEYOND)


@dataclass(frozen=True, slots=True)
class DecisionTable(FieldTable):
    """The 2×2 table of decisions by group, over all rows, with its tests.

    Attributes
    ----------
    counts
        People of each group with the favourable outcome and without it; None where cells below ten are suppressed.
    z, z_p_value, critical_z
        (p − p1)/√(p̄(1 − p̄)(1/n + 1/n1)), in standard deviations, with its two-sided p-value, and the critical value
        at the confidence level, such as 1.96; None where everyone has the same outcome.
    fisher_p_value
        Two-sided p-value of Fisher's exact test.
    odds_ratio
        Odds ratio of the favourable outcome, audited ÷ reference, with its score interval; None where it is not
        defined.
    ratio_flips, z_flips
        The fewest changed decisions, in both groups together, after which the lower rate is on the other side of four
        fifths of the higher; and after which z is on the other side of ±`critical_z`.
    note
        Limits of these numbers, such as too few expected people in a cell; empty if there are none.
    """

    counts: dict[str, dict[str, int | None]]
    z: float | None
    z_p_value: float | None
    critical_z: float
    fisher_p_value: float
    odds_ratio: Estimate | None = field(metadata={"scale": "ratio"})
    ratio_flips: int
    z_flips: int
    note: str


def decision_table(evidence: Evidence, settings: Settings) -> tuple[DecisionTable | None, tuple[Note, ...]]:
    """Return the table of decisions from sums over all rows; None with a note if rows are not independent people.

    Plug-in values have no tests, so there is no table for them.
    """
    if settings.folds is None:
        return None, ()
    rows, favourable = evidence.population, evidence.favourable
    sizes = (rows.count0, rows.count1)
    if rows.clusters is not None or rows.weight0 + rows.weight1 != sum(sizes):  # scaled weights are at most 1
        return None, (Note("dependent decisions"),)
    rates = favourable.means
    audited, reference = (Count(size, round(rate * size)) for size, rate in zip(sizes, rates, strict=True))
    return _tested(audited, reference, settings.confidence), ()


def _tested(audited: Count, reference: Count, confidence: float) -> DecisionTable:
    z, orders = verdicts.z_score(audited, reference), ((audited, reference), (reference, audited))
    return DecisionTable(
        counts={"audited": _disclosed(audited), "reference": _disclosed(reference)},
        z=z,
        z_p_value=verdicts.two_sided(z),
        critical_z=quantile(confidence),
        fisher_p_value=verdicts.fisher_p_value(audited, reference),
        odds_ratio=verdicts.odds_ratio(audited, reference, confidence),
        # either group may have the lower rate, so take the fewer flips of both directions
        ratio_flips=min(verdicts.ratio_flips(*pair, FOUR_FIFTHS) for pair in orders),
        z_flips=min(verdicts.z_flips(*pair, confidence) for pair in orders),
        note="; ".join(table_notes(audited, reference)),
    )


def _disclosed(group: Count) -> dict[str, int | None]:
    """Return the numbers of people with and without the outcome, None where suppressed."""
    counts = np.array([group.counted, group.size - group.counted])
    return dict(zip(OUTCOMES, disclosed_counts(counts), strict=True))


def table_notes(group: Count, other: Count) -> Iterator[Note]:
    """Yield notes on the limits of a 2×2 table."""
    if verdicts.z_score(group, other) is None:
        yield Note("same outcome")
    elif verdicts.is_sparse(group, other):
        yield Note("sparse table", minimum=SMALLEST_EXPECTED)


def decile_shares(evidence: Evidence, settings: Settings) -> pl.DataFrame:
    """Return the share of each group above each pooled decile, and their difference, with intervals.

    A decile is left out if it separates 1 to 9 people of a group, or could be one person's amount.
    """
    edges, deciles = evidence.rows.unit.edges or (), evidence.scores
    is_disclosed = _disclosed_edges(evidence, len(edges))
    records = []
    for edge in np.flatnonzero(is_disclosed).tolist():
        # The indicator of amounts above an edge: the sum of all bins above it.
        above = (np.arange(len(edges) + 1) > edge).astype(np.float64)
        share = deciles if len(edges) == 1 else deciles.mix(above[:, None], np.zeros(1))
        laws = (*group_rates(evidence.population, share), gap_law(evidence.population, share))
        estimates = dict(zip(BEYOND, map(settings.estimate, laws), strict=True))
        records.append({"amount": edges[edge], **estimate_columns(estimates)})
    return pl.DataFrame(records, schema=DECILE_SCHEMA)


def _disclosed_edges(evidence: Evidence, edges: int) -> list[bool]:
    """Return which edges may be disclosed: each group has 0 or at least ten people between any two, and above each."""
    counts, amounts = _people(evidence), evidence.score.column
    at = evidence.rows.unit.seen(np.array(evidence.rows.unit.edges or ()))
    is_common = [may_show((amounts < x).sum(), (amounts == x).sum(), (amounts > x).sum()) for x in at]
    is_disclosed, start = [], 0
    for edge in range(1, edges + 1):
        parts = [x[part].sum() for x in counts for part in (slice(start, edge), slice(edge, None))]
        is_told = bool(is_common[edge - 1]) and all(part == 0 or part >= SUPPRESSED_BELOW for part in parts)
        is_disclosed.append(is_told)
        start = edge if is_told else start
    return is_disclosed


def _people(evidence: Evidence) -> list[Integers]:
    """Return the number of people of each group in each bin; a lower bound if rows are a sample."""
    rows, bins, people = evidence.sample, evidence.scores, []
    if bins.values.shape[1] == 1:
        bins = bins.mix(np.array([[-1.0, 1.0]]), np.array([1.0, 0.0]))
    for group, shares in ((rows.audited, bins.mean0), (~rows.audited, bins.mean1)):
        counts = bins.values[group].sum(axis=0).astype(np.int64)
        people.append(np.where((counts == 0) & (not evidence.rows.facts.is_complete) & (shares > 0.0), 1, counts))
    return people
