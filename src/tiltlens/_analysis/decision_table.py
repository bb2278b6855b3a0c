"""The 2×2 table of decisions, with the tests commonly reported for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tiltlens._analysis.evidence import Evidence, Settings, disclosed_counts
from tiltlens._estimators.estimate import Estimate, quantile
from tiltlens._estimators.verdicts import (
    Count,
    fisher_p_value,
    is_sparse,
    odds_ratio,
    ratio_flips,
    two_sided,
    z_flips,
    z_score,
)
from tiltlens._formats import FieldTable
from tiltlens._limits import FOUR_FIFTHS, SMALLEST_EXPECTED
from tiltlens._notes import Note

OUTCOMES = ("favourable", "unfavourable")


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


def decision_table(evidence: Evidence, settings: Settings) -> tuple[DecisionTable | None, tuple[str, ...]]:
    """Return the table of decisions from sums over all rows; None with a note if rows are not independent people.

    Plug-in values have no tests, so there is no table for them.
    """
    if settings.folds is None:
        return None, ()
    rows, favourable = evidence.population, evidence.favourable
    sizes = (rows.count0, rows.count1)
    if rows.clusters is not None or rows.weight0 + rows.weight1 != sum(sizes):  # scaled weights are at most 1
        return None, (Note("dependent decisions"),)
    rates = (float(favourable.mean0[0]), float(favourable.mean1[0]))
    audited, reference = (Count(size, round(rate * size)) for size, rate in zip(sizes, rates, strict=True))
    return _tested(audited, reference, settings.confidence), ()


def _tested(audited: Count, reference: Count, confidence: float) -> DecisionTable:
    z, orders = z_score(audited, reference), ((audited, reference), (reference, audited))
    return DecisionTable(
        counts={"audited": _disclosed(audited), "reference": _disclosed(reference)},
        z=z,
        z_p_value=two_sided(z),
        critical_z=quantile(confidence),
        fisher_p_value=fisher_p_value(audited, reference),
        odds_ratio=odds_ratio(audited, reference, confidence),
        # either group may have the lower rate, so take the fewer flips of both directions
        ratio_flips=min(ratio_flips(lower, higher, FOUR_FIFTHS) for lower, higher in orders),
        z_flips=min(z_flips(lower, higher, confidence) for lower, higher in orders),
        note="; ".join(table_notes(audited, reference)),
    )


def _disclosed(group: Count) -> dict[str, int | None]:
    """Return the numbers of people with and without the outcome, None where suppressed."""
    counts = np.array([group.counted, group.size - group.counted])
    return dict(zip(OUTCOMES, disclosed_counts(counts), strict=True))


def table_notes(group: Count, other: Count) -> Iterator[Note]:
    """Yield notes on the limits of a 2×2 table."""
    if z_score(group, other) is None:
        yield Note("same outcome")
    elif is_sparse(group, other):
        yield Note("sparse table", minimum=SMALLEST_EXPECTED)
