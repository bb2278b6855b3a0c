"""Bound gaps in error rates if some outcomes, such as those of rejected applicants, were not observed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl

from tiltlens.analysis.evidence import Evidence, Settings
from tiltlens.estimators.error_rates import UNKNOWN, WITH, WITHOUT, bound_gap, partly_seen_rate
from tiltlens.estimators.estimate import Estimate
from tiltlens.formats import FieldTable
from tiltlens.limits import MINIMUM_ROWS, SCORE_TENTHS
from tiltlens.paper.checks import Floats
from tiltlens.rows.levels import quantile_edges

GAMMAS = (0.0, 0.02, 0.05, 0.1, 0.2)
STEPS = 12  # bisection steps for Γ, which make it accurate to a fortieth of a point
ENDS = ("low", "high", "interval_low", "interval_high")
SCHEMA: dict[str, type[pl.DataType]] = {"rate": pl.String} | dict.fromkeys(("gamma", *ENDS), pl.Float64)
Ends = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SelectiveLabels(FieldTable):
    """Bounds on gaps in error rates where outcomes of some people were not observed.

    Attributes
    ----------
    bounds
        For each error rate and Γ: the smallest and the largest gap if, at equal score and group, the frequency of the
        outcome among people without an observed outcome differs by at most Γ from that among the others; and the
        interval around both.
    sign_gamma
        The Γ up to which the sign of the gap is determined, 0 if it never is; `low` is that for the interval.
    """

    bounds: Annotated[pl.DataFrame, SCHEMA]
    sign_gamma: dict[str, Estimate]


def selective_labels(evidence: Evidence, settings: Settings, measured: Collection[str]) -> SelectiveLabels | None:
    """Return bounds of the measured gaps in false positive and negative rates; None where all outcomes are observed."""
    outcome, rows, score = evidence.rows.y_true, evidence.sample, evidence.score.column
    codes = {
        name: pair for name, pair in {"fpr": (WITHOUT, score), "fnr": (WITH, 1 - score)}.items() if name in measured
    }
    if outcome is None or not codes or not (outcome == UNKNOWN).any() or evidence.rows.probabilities is not None:
        return None
    edges = quantile_edges(score, rows.weights, SCORE_TENTHS) if score.min() < score.max() else np.zeros(0)
    cell = np.searchsorted(edges, score, side="left")

    def ends(code: int, x: Floats) -> Callable[[float], Ends]:
        rates = [partly_seen_rate(rows, group, x, outcome, code, cell, MINIMUM_ROWS) for group in (True, False)]

        def at(gamma: float) -> Ends:
            low, high = (settings.estimate(bound.normal(-1.0, 1.0)) for bound in bound_gap(rates[0], rates[1], gamma))
            return low.value, high.value, low.low, high.high

        return at

    bounds = {name: ends(*pair) for name, pair in codes.items()}
    records = [
        {"rate": name, "gamma": gamma} | dict(zip(ENDS, at(gamma), strict=True))
        for name, at in bounds.items()
        for gamma in GAMMAS
    ]
    signs = {name: Estimate(*(_sign_gamma(at, start) for start in (0, 2))) for name, at in bounds.items()}
    return SelectiveLabels(pl.DataFrame(records, schema=SCHEMA), signs)


def _sign_gamma(ends: Callable[[float], Ends], start: int) -> float:
    """Return by bisection the largest Γ at which the bounds (`start` 0) or their intervals (`start` 2) exclude 0."""

    def is_determined(gamma: float) -> bool:
        low, high = ends(gamma)[start : start + 2]
        return low is not None and high is not None and (low > 0.0 or high < 0.0)

    # Bounds widen with Γ, so a sign that is lost stays lost.
    if is_determined(1.0) or not is_determined(0.0):
        return float(is_determined(1.0))
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_determined(middle) else (low, middle)
    return low
