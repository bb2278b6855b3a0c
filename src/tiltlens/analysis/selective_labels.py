"""Error rates where some outcomes were not observed, as of rejected applicants: evidence → bounds on their gaps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl

from tiltlens.analysis.evidence import Evidence
from tiltlens.estimators.error_rates import UNKNOWN, WITH, WITHOUT
from tiltlens.estimators.estimate import Estimate, HasInterval
from tiltlens.estimators.influence import InfluenceEstimate
from tiltlens.estimators.selective_labels import PartlySeenRate, bounded_gap
from tiltlens.limits import MINIMUM_ROWS, SCORE_TENTHS, SUPPRESSED_BELOW
from tiltlens.rows.binning import quantile_edges

Reported = Callable[[HasInterval], Estimate]
GAMMAS = (0.0, 0.02, 0.05, 0.1, 0.2)
STEPS = 12  # halvings of the interval in which Γ lies: to a fortieth of a point
SCHEMA: dict[str, Any] = {"rate": pl.String} | dict.fromkeys(
    ("gamma", "low", "high", "interval_low", "interval_high"), pl.Float64
)


@dataclass(frozen=True, slots=True, eq=False)
class SelectiveLabels:
    """Bounds on gaps in error rates where outcomes of some people were not observed.

    Attributes
    ----------
    bounds
        For each error rate and Γ: the smallest and the largest gap if, at equal score and group, the unobserved have
        the outcome as often as the observed, give or take Γ; and the interval around both.
    sign_gamma
        The Γ up to which the sign of the gap is determined, 0 where it never is; `low` is that for the interval.
    unmatched
        Share of the people without an observed outcome at whose score fewer than ten of their group have one: nothing
        is assumed about them. None where it would tell of fewer than ten people.
    """

    bounds: Annotated[pl.DataFrame, SCHEMA]
    sign_gamma: dict[str, Estimate]
    unmatched: float | None


def selective_labels(evidence: Evidence, reported: Reported, measured: Collection[str]) -> SelectiveLabels | None:
    """Return bounds of the measured gaps in false positive and negative rates; None where all outcomes are observed."""
    outcome, rows, score = evidence.rows.y_true, evidence.sample, evidence.score.column
    if outcome is None or not (outcome == UNKNOWN).any() or evidence.rows.probabilities is not None:
        return None
    is_constant = score.min() == score.max()
    edges = np.zeros(0) if is_constant else quantile_edges(score, rows.weights, SCORE_TENTHS)
    cell = np.searchsorted(edges, score, side="left")
    codes = {"fpr": (WITHOUT, score), "fnr": (WITH, 1.0 - score)}
    pairs = {
        name: [PartlySeenRate.of(rows, group, x, outcome, code, cell, MINIMUM_ROWS) for group in (True, False)]
        for name, (code, x) in codes.items()
        if name in measured
    }
    if not pairs:
        return None
    both = next(iter(pairs.values()))
    matched, unseen = sum(int(rate.is_informed[rate.order].sum()) for rate in both), int((outcome == UNKNOWN).sum())
    is_shown = all(people == 0 or people >= SUPPRESSED_BELOW for people in (matched, unseen - matched))
    return SelectiveLabels(
        pl.DataFrame([row for name, pair in pairs.items() for row in _bounds(name, pair, reported)], schema=SCHEMA),
        {name: _sign_gamma(pair, reported) for name, pair in pairs.items()},
        1.0 - matched / unseen if is_shown else None,
    )


def _bounds(name: str, pair: list[PartlySeenRate], reported: Reported) -> Iterator[dict[str, Any]]:
    for gamma in GAMMAS:
        low, high = (_reported(bound, reported) for bound in bounded_gap(pair[0], pair[1], gamma))
        ends = {"low": low.value, "high": high.value, "interval_low": low.low, "interval_high": high.high}
        yield {"rate": name, "gamma": gamma} | ends


def _reported(bound: InfluenceEstimate, reported: Reported) -> Estimate:
    return reported(bound.normal(-1.0, 1.0))


def _sign_gamma(pair: list[PartlySeenRate], reported: Reported) -> Estimate:
    """Return the largest Γ at which all gaps have one sign, and at which their intervals do, by bisection."""

    def is_determined(gamma: float, with_interval: bool) -> bool:
        low, high = (_reported(bound, reported) for bound in bounded_gap(pair[0], pair[1], gamma))
        ends = (low.low, high.high) if with_interval else (low.value, high.value)
        return None not in ends and ((ends[0] or 0.0) > 0.0 or (ends[1] or 0.0) < 0.0)

    values = []
    for with_interval in (False, True):
        low, high = 0.0, 1.0
        if is_determined(high, with_interval):
            low = high
        for _ in range(STEPS if low < high and is_determined(low, with_interval) else 0):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if is_determined(middle, with_interval) else (low, middle)
        values.append(low)
    return Estimate(*values)
