"""Rules compared with the audited decisions in pairs: which one is chosen for a loss of accuracy, and its effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from tiltlens.analysis.evidence import interval_columns
from tiltlens.errors import DataError
from tiltlens.estimators.error_rates import WITH
from tiltlens.estimators.estimate import Estimate, HasInterval, Normal
from tiltlens.estimators.influence import Booleans, InfluenceEstimate, Integers, Rows, combine, overall_mean
from tiltlens.estimators.outputs import Scores, gap, group_rate, impact_ratio
from tiltlens.estimators.verdicts import simultaneous_factor
from tiltlens.learners.propensity import row_folds
from tiltlens.limits import FOLDS, SMALLEST_SE, SMALLEST_SHARE
from tiltlens.paper.checks import Floats
from tiltlens.repair.quantities import accuracy_at, area, decision_gap
from tiltlens.repair.rows import AuditedRows
from tiltlens.sources.columns import Record

TOLERANCES = (0.0, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)  # losses of accuracy that rules are chosen for

EXISTS, NOT_FOUND, INCONCLUSIVE = "exists", "was not found", "inconclusive"


@dataclass(frozen=True, slots=True, eq=False)
class PairedRows:
    """Rows with an outcome, the audited scores and threshold, and folds."""

    audited: AuditedRows
    rows: Rows
    outcome: Integers
    fold: Integers
    threshold: float

    @classmethod
    def of(cls, audited: AuditedRows, threshold: float) -> PairedRows:
        """Return the rows with folds that depend on what they hold."""
        rows = audited.rows
        return cls(audited, rows, outcome_of(audited), row_folds(rows, FOLDS, 0), threshold)

    @property
    def decided(self) -> Booleans:
        """The audited decisions."""
        return np.asarray(self.audited.scores >= self.threshold)

    @property
    def y(self) -> Booleans:
        """Who has the outcome."""
        return np.asarray(self.outcome == WITH)

    def accuracy(self, decided: Booleans) -> InfluenceEstimate:
        """Return the accuracy of decisions, with errors weighted by the threshold."""
        return accuracy_at(self.threshold, self.rows, decided, self.outcome)

    def auc(self, scores: Floats) -> Normal:
        """Return the area under the curve of scores."""
        return area(self.rows, scores, self.outcome).normal(0.0, 1.0)

    def score_gap(self, scores: Floats) -> Normal:
        """Return the gap of scores."""
        return gap(self.rows, Scores.of(self.rows, scores)).normal(-1.0, 1.0)

    def ratio_gain(self, decided: Booleans) -> InfluenceEstimate:
        """Return by how much the lower favourable rate over the higher is nearer to 1 than the model's."""
        ratios = []
        for selected in (self.decided, decided):
            favourable = Scores.of(self.rows, (selected != self.audited.favours_low).astype(np.float64))
            rates = (group_rate(self.rows, favourable, group) for group in (True, False))
            low, high = sorted(rates, key=lambda rate: rate.value)
            top = max(high.value, SMALLEST_SHARE)
            ratios.append(combine(low.value / top, [(1.0 / top, low), (-low.value / top**2, high)]))
        return ratios[1].minus(ratios[0])

    def changes(self, decided: Booleans) -> tuple[InfluenceEstimate, InfluenceEstimate, InfluenceEstimate]:
        """Return the change of accuracy, the reduction of the gap and the gain of the ratio, paired with the model."""
        accuracy = self.accuracy(decided).minus(self.accuracy(self.decided))
        gaps = [decision_gap(self.rows, rule) for rule in (self.decided, decided)]
        return accuracy, _reduction(*gaps), self.ratio_gain(decided)

    def rates(self, decided: Booleans, confidence: float) -> dict[str, Estimate | None]:
        """Return the share selected, the impact ratio and the true positive rate of decisions."""
        rows, selected = self.rows, decided.astype(np.float64)
        favourable = Scores.of(rows, (decided != self.audited.favours_low).astype(np.float64))
        # weighting by probabilities of groups would bias a ratio towards 1
        has_ratio = not self.audited.soft and favourable.mean1[0] > SMALLEST_SHARE
        rates: dict[str, HasInterval | None] = {
            "selected": overall_mean(rows.weights, selected, rows.clusters).normal(0.0, 1.0),
            "impact_ratio": impact_ratio(rows, favourable) if has_ratio else None,
            "true_positive_rate": overall_mean(rows.weights * self.y, selected, rows.clusters).normal(0.0, 1.0),
        }
        return {name: None if rate is None else rate.estimate(confidence) for name, rate in rates.items()}


def outcome_of(audited: AuditedRows) -> Integers:
    """Return the codes of outcomes, which there must be."""
    if audited.outcome is None:
        raise DataError("Alternatives need outcomes, but the audit has none.", "audit with outcome=.")
    return audited.outcome


class _Fold(NamedTuple):
    """What other folds say of the rules: the change of accuracy, its standard error, and the size of the gap."""

    rows: Booleans
    change: Floats
    se: Floats
    gap: Floats


def measure_folds(data: PairedRows, rules: Sequence[Booleans]) -> list[_Fold]:
    """Return for each fold what the other folds say of each rule."""
    folds = []
    for k in range(FOLDS):
        others = data.fold != k
        part, outcome = data.rows.take(np.flatnonzero(others)), data.outcome[others]
        own, *accuracies = (
            accuracy_at(data.threshold, part, decided[others], outcome) for decided in (data.decided, *rules)
        )
        changes = [accuracy.minus(own) for accuracy in accuracies]
        columns = zip(*((change.value, max(change.se, SMALLEST_SE)) for change in changes), strict=True)
        gaps = [abs(decision_gap(part, decided[others]).value) for decided in rules]
        folds.append(_Fold(~others, *(np.array(column) for column in (*columns, gaps))))
    return folds


def choose_rules(
    data: PairedRows, rules: Sequence[Booleans], folds: Sequence[_Fold], tolerance: float, sure: float
) -> tuple[Booleans, bool]:
    """Return, fold by fold, the decisions of the rule with the smallest gap that is surely accurate on other folds.

    Where no rule is surely accurate, take the likeliest to be; also return whether every fold had one that is.
    """
    chosen, is_sure = np.zeros_like(data.decided), True
    for fold in folds:
        t = (fold.change + tolerance) / fold.se
        has_accurate = bool((t >= sure).any())
        best = int(np.argmin(np.where(t >= sure, fold.gap, np.inf))) if has_accurate else int(np.argmax(t))
        chosen[fold.rows] = rules[best][fold.rows]
        is_sure = is_sure and has_accurate
    return chosen, is_sure


def _reduction(own: InfluenceEstimate, other: InfluenceEstimate) -> InfluenceEstimate:
    """Return |gap of the model| − |gap of the alternative|."""
    signs = [1.0 if estimate.value >= 0.0 else -1.0 for estimate in (own, other)]
    return combine(abs(own.value) - abs(other.value), [(signs[0], own), (-signs[1], other)])


def verdict_of(changes: Sequence[Estimate], tolerance: float, is_sure: bool) -> str:
    """Return the verdict by intervals of accuracy, gap and ratio; all must hold.

    A gap alone also shrinks where fewer people of both groups are selected. Unless rules that are surely accurate were
    tried in every fold, a failure of this rule is inconclusive.
    """
    accuracy, reduction, ratio = changes
    if (accuracy.low or 0.0) > -tolerance and min(reduction.low or 0.0, ratio.low or 0.0) > 0.0:
        return EXISTS
    if is_sure and ((accuracy.high or 0.0) < -tolerance or (reduction.high or 0.0) < 0.0):
        return NOT_FOUND
    return INCONCLUSIVE


def tolerance_table(
    data: PairedRows,
    rules: Sequence[Booleans],
    folds: Sequence[_Fold],
    tolerance: float,
    levels: tuple[float, float],
) -> pl.DataFrame:
    """Return a row for each tolerance, with one band (max-t) over all of them by their paired influence functions."""
    sure, confidence = levels
    losses = sorted({*TOLERANCES, tolerance})
    choices = [choose_rules(data, rules, folds, loss, sure) for loss in losses]
    changes = [data.changes(chosen) for chosen, _ in choices]
    columns = np.column_stack([change.influence for row in changes for change in row])
    factor = simultaneous_factor(columns.T @ columns, confidence, 0)
    records = []
    for loss, (chosen, is_sure), row in zip(losses, choices, changes, strict=True):
        bands = [Estimate(c.value, c.value - factor * c.se, c.value + factor * c.se) for c in row]
        record: Record = {"tolerance": loss, "gap": decision_gap(data.rows, chosen).value}
        for name, band in zip(("accuracy_change", "gap_reduction", "ratio_gain"), bands, strict=True):
            record |= interval_columns(name, band)
        records.append(record | {"verdict": verdict_of(bands, loss, is_sure)})
    return pl.DataFrame(records)
