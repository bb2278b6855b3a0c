"""For amounts, the share of each group above each decile of all amounts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import Columns, Evidence, Settings, interval_columns, interval_schema, may_show
from tiltlens._estimators.influence import Integers
from tiltlens._estimators.outputs import Scores, gap_law, group_rates
from tiltlens._limits import SUPPRESSED_BELOW

BEYOND = ("audited", "reference", "difference")
SCHEMA: Mapping[str, type[pl.DataType]] = {"amount": pl.Float64} | interval_schema(*BEYOND)


def decile_shares(evidence: Evidence, settings: Settings) -> pl.DataFrame:
    """Return the share of each group above each pooled decile, and their difference, with intervals.

    A decile is left out if it separates 1 to 9 people of a group, or could be one person's amount.
    """
    edges = evidence.rows.unit.edges or ()
    is_disclosed = _disclosed_edges(evidence, len(edges))
    records = []
    for edge in np.flatnonzero(is_disclosed).tolist():
        share = _beyond(evidence.scores, edge)
        rates = group_rates(evidence.population, share)
        both = gap_law(evidence.population, share)
        record: Columns = {"amount": edges[edge]}
        for name, law in zip(BEYOND, (*rates, both), strict=True):
            record |= interval_columns(name, settings.estimate(law))
        records.append(record)
    return pl.DataFrame(records, schema=SCHEMA)


def _beyond(deciles: Scores, edge: int) -> Scores:
    """Return the indicator of amounts above an edge: the sum of all bins above it."""
    bins = deciles.values.shape[1]
    if bins == 1:
        return deciles
    return deciles.mix((np.arange(bins) > edge).astype(np.float64)[:, None], np.zeros(1))


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
    rows, values = evidence.sample, evidence.scores.values
    bins = values if values.shape[1] > 1 else np.column_stack([1.0 - values, values])
    people = []
    for group, mean in ((rows.audited, evidence.scores.mean0), (~rows.audited, evidence.scores.mean1)):
        shares = mean if mean.size > 1 else np.array([1.0 - mean[0], mean[0]])
        counts = bins[group].sum(axis=0).astype(np.int64)
        people.append(np.where((counts == 0) & (not evidence.rows.facts.is_complete) & (shares > 0.0), 1, counts))
    return people
