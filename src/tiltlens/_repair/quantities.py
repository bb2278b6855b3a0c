"""Quantities that evaluate scores or decisions.

All quantities have influence functions, so that two scores of the same rows are compared with paired intervals.
"""

from __future__ import annotations

import math
from collections.abc import Set
from typing import NamedTuple

import numpy as np

from tiltlens._estimators import error_rates, outputs
from tiltlens._estimators.error_rates import UNKNOWN, WITH, WITHOUT
from tiltlens._estimators.estimate import Difference, HasInterval, Proportion
from tiltlens._estimators.feature_gap import cell_sums_of
from tiltlens._estimators.influence import (
    Booleans,
    InfluenceEstimate,
    Integers,
    Rows,
    overall_mean,
    quotient,
    sums_by,
)
from tiltlens._limits import MINIMUM_ROWS, SMALLEST_SHARE
from tiltlens.paper.checks import Floats


class EvaluationRows(NamedTuple):
    """Rows on which scores are evaluated, with their outcome codes (None if no outcome is given)."""

    rows: Rows
    outcome: Integers | None
    threshold: float
    favours_low: bool = False  # whether 0 is the favourable outcome, so that ratios use 1 − score
    moves: bool = True  # False if the two scores to compare are equal by construction
    factors: Floats | None = None  # the exempt factors, as columns
    has_costs: bool = False  # whether the threshold weights errors in the accuracy


class Measurement(NamedTuple):
    """A quantity of some scores, and its sampling law if that is not the normal one of the influences."""

    estimate: InfluenceEstimate
    own_law: HasInterval | None = None

    @property
    def law(self) -> HasInterval:
        """The law of its interval, as an audit computes it."""
        return self.estimate.normal() if self.own_law is None else self.own_law


class Measurements(NamedTuple):
    """The quantities of some scores."""

    data: EvaluationRows
    scores: Floats
    quantities: dict[str, Measurement]

    def change(self, old: Measurements) -> dict[str, HasInterval]:
        """Return the change of each quantity from `old`, with paired intervals."""
        changes: dict[str, HasInterval] = {
            name: own.estimate.minus(old.quantities[name].estimate).normal()
            for name, own in self.quantities.items()
            if name in old.quantities
        }
        return changes | self._rate_changes(old, changes.keys()) if self.data.moves else changes

    def _rate_changes(self, old: Measurements, names: Set[str]) -> dict[str, HasInterval]:
        """Return the changes of decision rates, whose intervals have positive width even if no decision changes."""
        rows, outcome, threshold = self.data.rows, self.data.outcome, self.data.threshold
        now, then = self.scores >= threshold, old.scores >= threshold
        changes: dict[str, HasInterval] = {}
        everyone = np.ones(rows.audited.size, dtype=np.bool_)
        counted = {"decision_gap": everyone}
        if are_decisions(self.scores) and are_decisions(old.scores):
            counted["gap"] = everyone
            if "impact_ratio" in names:  # the correlation of two ratios with few decisions cannot be estimated
                ratio, old_ratio = (own.quantities["impact_ratio"].law for own in (self, old))
                changes["impact_ratio"] = Difference(ratio, old_ratio)
            if outcome is not None:
                counted |= {"fpr_difference": outcome == WITHOUT, "fnr_difference": outcome == WITH}
        for name in counted.keys() & names:
            members = (counted[name] & rows.audited, counted[name] & ~rows.audited)
            first, second = (_rate_change(rows, rows.weights * group, now, then) for group in members)
            changes[name] = Difference(second, first) if name == "fnr_difference" else Difference(first, second)
        if outcome is not None and "accuracy" in names:
            cost = error_costs(threshold, outcome) if self.data.has_costs else 1.0
            weights = rows.weights * cost * (outcome != UNKNOWN)
            changes["accuracy"] = _rate_change(rows, weights, now == (outcome == WITH), then == (outcome == WITH))
        return changes


def _rate_change(rows: Rows, weights: Floats, now: Booleans, then: Booleans) -> Difference:
    """Return the change of a rate: the share of people who gained a property minus the share who lost it.

    Both shares have Wilson intervals, which have positive width even if nobody changes. Shares of one sample are
    negatively correlated.
    """
    up, down = (float(weights @ moved / weights.sum()) for moved in (now & ~then, then & ~now))
    variance = overall_mean(weights, now.astype(np.float64) - then, rows.clusters).variance
    size = (up + down - (up - down) ** 2) / variance if variance > 0.0 else effective_size(weights, rows.clusters)
    correlation = -math.sqrt(up * down / ((1.0 - up) * (1.0 - down))) if max(up, down) < 1.0 else 0.0
    return Difference(Proportion(up, size), Proportion(down, size), correlation)


def proportion(rate: InfluenceEstimate, people: float) -> Proportion:
    """Return a share with Wilson's interval for the effective size implied by its variance (`people` if that is 0)."""
    size = rate.value * (1.0 - rate.value) / rate.variance if rate.variance > 0.0 else people
    return Proportion(rate.value, size)


def effective_size(weights: Floats, clusters: Integers | None = None) -> float:
    """Return the effective number of independent people, (Σw)²/Σw², with w summed by cluster."""
    totals = weights if clusters is None else sums_by(clusters, weights)
    return float(totals.sum() ** 2 / (totals @ totals))


def measure(data: EvaluationRows, scores: Floats) -> Measurements:
    """Return the quantities of scores that are defined and are based on at least ten people."""
    rows, favourable = data.rows, outputs.Scores.of(data.rows, 1.0 - scores if data.favours_low else scores)
    quantities = {"gap": _gap(rows, scores)}
    audited, reference = outputs.both_rates(rows, favourable)
    if reference.value > SMALLEST_SHARE:
        quantities["impact_ratio"] = Measurement(quotient(audited, reference), outputs.impact_ratio(rows, favourable))
    quantities["decision_gap"] = _gap(rows, (scores >= data.threshold).astype(np.float64))
    if data.factors is not None:
        quantities["exempt_gap"] = Measurement(gap_at_equal_factors(rows, data.factors, scores))
    if data.outcome is not None:
        quantities |= _error_rates(rows, scores, data.outcome) | _accuracy(data, scores, data.outcome)
    return Measurements(data, scores, quantities)


def _gap(rows: Rows, values: Floats) -> Measurement:
    scores = outputs.Scores.of(rows, values)
    return Measurement(outputs.gap(rows, scores), outputs.gap_law(rows, scores))


def _error_rates(rows: Rows, scores: Floats, outcome: Integers) -> dict[str, Measurement]:
    if people_with_outcomes(rows, outcome).min() < MINIMUM_ROWS:
        return {}
    sums = cell_sums_of(rows, scores, outcome, 3)
    pairs = {
        "fpr_difference": error_rates.false_positive_rate(rows, scores, outcome, sums),
        "fnr_difference": error_rates.false_negative_rate(rows, scores, outcome, sums),
        "calibration_difference": error_rates.calibration_in_the_large(rows, scores, outcome, sums),
    }
    return {name: Measurement(pair.influence, pair.difference) for name, pair in pairs.items()}


def people_with_outcomes(rows: Rows, outcome: Integers) -> Integers:
    """Return the number of rows of the audited and the reference group with outcome 0 and 1, (2, 2)."""
    groups = (rows.audited, ~rows.audited)
    return np.array([[int((group & (outcome == y)).sum()) for y in (WITHOUT, WITH)] for group in groups])


def _accuracy(data: EvaluationRows, scores: Floats, outcome: Integers) -> dict[str, Measurement]:
    """Return accuracy at the threshold and, unless scores are decisions, AUC (all, each group), log-loss and Brier."""
    rows, has_outcome, y = data.rows, outcome != UNKNOWN, outcome == WITH
    if int(has_outcome.sum()) < MINIMUM_ROWS:
        return {}
    weights = np.where(has_outcome, rows.weights, 0.0)

    def mean(values: Floats) -> InfluenceEstimate:
        return overall_mean(weights, values, rows.clusters)

    decided, tau = scores >= data.threshold, data.threshold
    is_right = mean((decided == y).astype(np.float64))
    rates = {"accuracy": accuracy_at(tau, rows, decided, outcome) if data.has_costs else is_right}
    losses: dict[str, Measurement] = {}
    if not are_decisions(scores):
        people = people_with_outcomes(rows, outcome)
        shares = (
            ("auc", None, people.sum(axis=0)),
            ("auc_audited", rows.audited_share, people[0]),
            ("auc_reference", rows.reference_share, people[1]),
        )
        rates |= {
            name: area(rows, scores, outcome, share) for name, share, counts in shares if counts.min() >= MINIMUM_ROWS
        }
        losses["log_loss"] = Measurement(mean(log_losses(scores, y)))
        losses["brier"] = Measurement(mean((scores - y) ** 2))
    size = sum(rows.independent(group, has_outcome) for group in (True, False))
    return {name: Measurement(rate, proportion(rate, size)) for name, rate in rates.items()} | losses


def log_losses(scores: Floats, y: Booleans) -> Floats:
    """Return the log-loss of each score."""
    clipped = np.clip(scores, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
    return np.asarray(-np.where(y, np.log(clipped), np.log1p(-clipped)))


def decision_gap(rows: Rows, decided: Booleans) -> InfluenceEstimate:
    """Return the gap of decision rates."""
    return outputs.gap(rows, outputs.Scores.of(rows, decided.astype(np.float64)))


def gap_at_equal_factors(rows: Rows, factors: Floats, scores: Floats) -> InfluenceEstimate:
    """Return the gap at equal exempt factors: the group's coefficient in a least-squares fit on the factors.

    It equals c_E of the audit, E[(S̄ − e)·W]/E[e(1 − e)] with e = P(audited|E), if e or E[W|E] is linear in them.
    """
    root = np.sqrt(rows.weights)
    others, group = root[:, None] * np.column_stack([np.ones(root.size), factors]), root * rows.audited
    residual, score = (y - others @ np.linalg.lstsq(others, y)[0] for y in (group, root * scores))
    spread = float(residual @ residual)
    value = float(residual @ score) / spread
    influence = residual * (score - value * residual) / spread
    return InfluenceEstimate(value, (rows.sum_by_cluster(influence),), degrees=rows.degrees)


def accuracy_at(threshold: float, rows: Rows, decided: Booleans, outcome: Integers) -> InfluenceEstimate:
    """Return the share of correct decisions, weighted 1 − τ for people with the outcome and τ for others.

    A missed outcome then costs (1 − τ)/τ times a false alarm, the cost ratio for which the threshold τ is optimal. At
    τ = ½ it is the usual accuracy.
    """
    weights = rows.weights * error_costs(threshold, outcome)
    return overall_mean(weights, (decided == (outcome == WITH)).astype(np.float64), rows.clusters)


def error_costs(threshold: float, outcome: Integers) -> Floats:
    """Return the cost of a wrong decision for each row, 0 where the outcome is unknown."""
    return np.asarray(np.where(outcome == WITH, 1.0 - threshold, threshold) * (outcome != UNKNOWN))


def area(rows: Rows, scores: Floats, outcome: Integers, share: Floats | None = None) -> InfluenceEstimate:
    """Return the area under the ROC curve; rows are weighted by `share`, by default their share of all weights."""
    share = rows.weights / rows.weights.sum() if share is None else share
    _, ranks = np.unique(scores, return_inverse=True)
    value, influence = error_rates.area_under_curve(ranks, share, outcome)
    return InfluenceEstimate(value, (rows.sum_by_cluster(share * influence),), degrees=rows.degrees)


def are_decisions(scores: Floats) -> bool:
    """Return whether all scores are 0 or 1."""
    return bool(np.isin(scores, (0.0, 1.0)).all())
