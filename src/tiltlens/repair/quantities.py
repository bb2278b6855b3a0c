"""Quantities by which scores, or decisions, are evaluated.

All have influence functions, so that any two scores of the same rows can be compared in pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tiltlens.estimators import error_rates, outputs
from tiltlens.estimators.estimate import Difference, HasInterval, Proportion
from tiltlens.estimators.feature_gap import cell_sums_of
from tiltlens.estimators.influence import (
    Booleans,
    InfluenceEstimate,
    Integers,
    Rows,
    combine,
    overall_mean,
    sum_by_cluster,
    sums_by,
)
from tiltlens.limits import MINIMUM_ROWS, SMALLEST_SHARE
from tiltlens.paper.checks import Floats

Quantities = dict[str, InfluenceEstimate]
Intervals = dict[str, HasInterval]


class EvaluationRows(NamedTuple):
    """Rows on which scores are evaluated, with the codes of their outcomes (None where none are given)."""

    rows: Rows
    outcome: Integers | None
    threshold: float
    favours_low: bool = False  # the favourable outcome is 0: ratios are those of 1 − score
    moves: bool = True  # False where the two scores to compare are equal by construction
    factors: Floats | None = None  # the exempt factors as columns


class Measurements(NamedTuple):
    """Some scores of these rows, their quantities, and the intervals of those that are not normal."""

    data: EvaluationRows
    scores: Floats
    estimates: Quantities
    intervals: Mapping[str, HasInterval]
    cost: Floats | float = 1.0  # of a wrong decision, where accuracy is weighted by cost

    @property
    def are_decisions(self) -> bool:
        """Whether all scores are 0 or 1."""
        return _are_decisions(self.scores)

    def interval(self, name: str) -> HasInterval:
        """Return a quantity with its interval, as an audit computes it."""
        return self.intervals.get(name, self.estimates[name].normal())

    def change(self, old: Measurements) -> Intervals:
        """Return the change of each quantity since `old`, with intervals from the same rows."""
        names = [name for name in self.estimates if name in old.estimates]
        changes: Intervals = {name: self.estimates[name].minus(old.estimates[name]).normal() for name in names}
        if self.data.moves:
            changes |= self._rate_changes(old, names)
        return changes

    def _rate_changes(self, old: Measurements, names: list[str]) -> Intervals:
        """Return the changes of rates of decisions, whose intervals have a width where no decision changes."""
        rows, outcome, threshold = self.data.rows, self.data.outcome, self.data.threshold
        now, then = self.scores >= threshold, old.scores >= threshold
        changes: Intervals = {}
        everyone = np.ones(rows.audited.size, dtype=np.bool_)
        counted = {"decision_gap": everyone}
        if self.are_decisions and old.are_decisions:
            counted["gap"] = everyone
            if "impact_ratio" in names:  # the correlation of two ratios of few decisions cannot be estimated
                changes["impact_ratio"] = Difference(self.interval("impact_ratio"), old.interval("impact_ratio"))
            if outcome is not None:
                counted["fpr_difference"] = outcome == error_rates.WITHOUT
                counted["fnr_difference"] = outcome == error_rates.WITH
        for name in counted.keys() & set(names):
            members = (counted[name] & rows.audited, counted[name] & ~rows.audited)
            first, second = (_rate_change(rows, rows.weights * group, now, then) for group in members)
            changes[name] = Difference(second, first) if name == "fnr_difference" else Difference(first, second)
        if outcome is not None and "accuracy" in names:
            y = outcome == error_rates.WITH
            weights = rows.weights * self.cost * (outcome != error_rates.UNKNOWN)
            changes["accuracy"] = _rate_change(rows, weights, now == y, then == y)
        return changes


def _rate_change(rows: Rows, weights: Floats, now: Booleans, then: Booleans) -> Difference:
    """Return the change of a rate: the share of people who gained a property minus the share who lost it.

    Both shares have Wilson's interval, so that there is a width where nobody changes. Shares of one sample are
    negatively correlated.
    """
    up, down = (float(weights @ moved / weights.sum()) for moved in (now & ~then, then & ~now))
    variance = overall_mean(weights, now.astype(np.float64) - then, rows.clusters).variance
    size = (up + down - (up - down) ** 2) / variance if variance > 0.0 else effective_size(weights, rows.clusters)
    correlation = -math.sqrt(up * down / ((1.0 - up) * (1.0 - down))) if max(up, down) < 1.0 else 0.0
    return Difference(Proportion(up, size), Proportion(down, size), correlation)


def proportion(rate: InfluenceEstimate, people: float) -> Proportion:
    """Return a share with Wilson's interval, of the size that its variance implies; of so many `people` without one."""
    size = rate.value * (1.0 - rate.value) / rate.variance if rate.variance > 0.0 else people
    return Proportion(rate.value, size)


def effective_size(weights: Floats, clusters: Integers | None = None) -> float:
    """Return how many independent people weighted rows are worth: (Σw)²/Σw², with w summed by cluster."""
    totals = weights if clusters is None else sums_by(clusters, weights)
    return float(totals.sum() ** 2 / (totals @ totals))


def measure(data: EvaluationRows, scores: Floats) -> Measurements:
    """Return the quantities of scores that are defined and rest on at least ten people."""
    rows, decided = data.rows, np.asarray(scores >= data.threshold)
    own, favourable = (outputs.Scores.of(rows, x) for x in (scores, 1.0 - scores if data.favours_low else scores))
    estimates = {"gap": outputs.gap(rows, own)} | _impact_ratio(rows, favourable)
    estimates["decision_gap"] = decision_gap(rows, decided)
    intervals: Intervals = {"gap": outputs.gap_law(rows, own)}
    intervals["decision_gap"] = outputs.gap_law(rows, outputs.Scores.of(rows, decided.astype(np.float64)))
    if "impact_ratio" in estimates:
        intervals["impact_ratio"] = outputs.impact_ratio(rows, favourable)
    if data.factors is not None:
        estimates["exempt_gap"] = equal_gap(rows, data.factors, scores)
    if data.outcome is not None:
        _add_error_rates(rows, scores, data.outcome, estimates, intervals)
        _add_accuracy(data, scores, data.outcome, estimates, intervals)
    return Measurements(data, scores, estimates, intervals)


def _add_error_rates(
    rows: Rows, scores: Floats, outcome: Integers, estimates: Quantities, intervals: Intervals
) -> None:
    if people_with_outcomes(rows, outcome).min() < MINIMUM_ROWS:
        return
    sums = cell_sums_of(rows, scores, outcome, 3)
    pairs = {
        "fpr_difference": error_rates.false_positive_rate(rows, scores, outcome, sums),
        "fnr_difference": error_rates.false_negative_rate(rows, scores, outcome, sums),
        "calibration_difference": error_rates.calibration_in_the_large(rows, scores, outcome, sums),
    }
    estimates |= {name: pair.influence for name, pair in pairs.items()}
    intervals |= {name: pair.difference for name, pair in pairs.items()}


def _add_accuracy(
    data: EvaluationRows, scores: Floats, outcome: Integers, estimates: Quantities, intervals: Intervals
) -> None:
    has_outcome = outcome != error_rates.UNKNOWN
    people = sum(data.rows.independent(group, has_outcome) for group in (True, False))
    for name, rate in _accuracy(data, scores, outcome).items():
        estimates[name] = rate
        if name not in ("log_loss", "brier"):
            intervals[name] = proportion(rate, people)


def people_with_outcomes(rows: Rows, outcome: Integers) -> Integers:
    """Return how many rows of the audited and the reference group have the outcome 0 and 1, (2, 2)."""
    codes = (error_rates.WITHOUT, error_rates.WITH)
    groups = (rows.audited, ~rows.audited)
    return np.array([[int((group & (outcome == y)).sum()) for y in codes] for group in groups])


def _accuracy(data: EvaluationRows, scores: Floats, outcome: Integers) -> Quantities:
    """Return accuracy at the threshold and, for scores, AUC of all people and each group, log-loss and Brier score."""
    rows, has_outcome = data.rows, outcome != error_rates.UNKNOWN
    y = (outcome == error_rates.WITH).astype(np.float64)
    if int(has_outcome.sum()) < MINIMUM_ROWS:
        return {}
    weights = np.where(has_outcome, rows.weights, 0.0)

    def mean(values: Floats) -> InfluenceEstimate:
        return overall_mean(weights, values, rows.clusters)

    estimates = {"accuracy": mean(((scores >= data.threshold) == y).astype(np.float64))}
    if _are_decisions(scores):
        return estimates
    people = people_with_outcomes(rows, outcome)
    shares = (
        ("auc", None, people.sum(axis=0)),
        ("auc_audited", rows.audited_share, people[0]),
        ("auc_reference", rows.reference_share, people[1]),
    )
    estimates |= {
        name: area(rows, scores, outcome, share) for name, share, counts in shares if counts.min() >= MINIMUM_ROWS
    }
    clipped = np.clip(scores, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
    estimates["log_loss"] = mean(-np.where(y > 0, np.log(clipped), np.log1p(-clipped)))
    estimates["brier"] = mean((scores - y) ** 2)
    return estimates


def decision_gap(rows: Rows, decided: Booleans) -> InfluenceEstimate:
    """Return the gap of decision rates."""
    return outputs.gap(rows, outputs.Scores.of(rows, decided.astype(np.float64)))


def equal_gap(rows: Rows, factors: Floats, scores: Floats) -> InfluenceEstimate:
    """Return the gap at equal exempt factors: the group's coefficient in a least-squares fit with their columns.

    It is c_E of the audit, E[(S̄ − e)·W]/E[e(1 − e)] with e = P(audited|E), where e or E[W|E] is linear in the columns.
    """
    root = np.sqrt(rows.weights)
    others, group = root[:, None] * np.column_stack([np.ones(root.size), factors]), root * rows.audited
    residual, score = (y - others @ np.linalg.lstsq(others, y)[0] for y in (group, root * scores))
    spread = float(residual @ residual)
    value = float(residual @ score) / spread
    influence = residual * (score - value * residual) / spread
    return InfluenceEstimate(value, (sum_by_cluster(rows.clusters, influence),), degrees=rows.degrees)


def accuracy_at(threshold: float, rows: Rows, decided: Booleans, outcome: Integers) -> InfluenceEstimate:
    """Return the share of correct decisions, weighted 1 − τ for people with the outcome and τ for others.

    A missed outcome then costs (1 − τ)/τ times a false alarm, the cost ratio at which the threshold τ is optimal. At ½
    it is the usual accuracy.
    """
    y = outcome == error_rates.WITH
    cost = np.where(y, 1.0 - threshold, threshold) * (outcome != error_rates.UNKNOWN)
    return overall_mean(rows.weights * cost, (decided == y).astype(np.float64), rows.clusters)


def area(rows: Rows, scores: Floats, outcome: Integers, share: Floats | None = None) -> InfluenceEstimate:
    """Return the area under the ROC curve, where rows have these shares: by default those of their weights."""
    share = rows.weights / rows.weights.sum() if share is None else share
    _, ranks = np.unique(scores, return_inverse=True)
    value, influence = error_rates.area_under_curve(ranks, share, outcome)
    return InfluenceEstimate(value, (sum_by_cluster(rows.clusters, share * influence),), degrees=rows.degrees)


def _are_decisions(scores: Floats) -> bool:
    return bool(np.isin(scores, (0.0, 1.0)).all())


def _impact_ratio(rows: Rows, scores: outputs.Scores) -> Quantities:
    audited, reference = (outputs.group_rate(rows, scores, group) for group in (True, False))
    if reference.value <= SMALLEST_SHARE:
        return {}
    ratio = audited.value / reference.value
    parts = [(1.0 / reference.value, audited), (-ratio / reference.value, reference)]
    return {"impact_ratio": combine(ratio, parts)}
