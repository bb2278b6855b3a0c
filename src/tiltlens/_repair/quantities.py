"""Quantities that evaluate scores or decisions, and notes on a fitted adjustment.

All quantities have influence functions, so that two scores of the same rows are compared with paired intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from tiltlens._estimators import error_rates, outputs
from tiltlens._estimators.error_rates import UNKNOWN, WITH, WITHOUT
from tiltlens._estimators.estimate import Difference, HasInterval, Proportion, quantile
from tiltlens._estimators.feature_gap import cell_sums_of
from tiltlens._estimators.influence import (
    Booleans,
    InfluenceEstimate,
    Integers,
    Rows,
    cluster_codes,
    combine,
    overall_mean,
    sum_by_cluster,
    sums_by,
)
from tiltlens._limits import FEW_REPAIRED, MATERIALITY, MINIMUM_ROWS, REPAIRED, SCORE_TENTHS, SMALLEST_SHARE
from tiltlens._notes import (
    ALMOST_EVERYBODY,
    ALMOST_NOBODY,
    EQUAL_DECISIONS,
    EVERYBODY,
    LARGEST_GAP,
    NOBODY,
    OUT_OF_REACH,
    THE_GAP,
    Note,
)
from tiltlens._repair.constraints import ALL, DECISIONS, MEAN, Constraint
from tiltlens._repair.rows import AuditedRows
from tiltlens._rows.groups import equals_mask
from tiltlens.errors import shown
from tiltlens.paper.checks import Floats

if TYPE_CHECKING:
    from tiltlens._repair.solve import RepairProblem


class EvaluationRows(NamedTuple):
    """Rows on which scores are evaluated, with their outcome codes (None if no outcome is given)."""

    rows: Rows
    outcome: Integers | None
    threshold: float
    favours_low: bool = False  # whether 0 is the favourable outcome, so that ratios use 1 − score
    moves: bool = True  # False if the two scores to compare are equal by construction
    factors: Floats | None = None  # the exempt factors, as columns


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
    cost: Floats | float = 1.0  # of a wrong decision, if accuracy is weighted by cost

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
            weights = rows.weights * self.cost * (outcome != UNKNOWN)
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
    audited, reference = (outputs.group_rate(rows, favourable, group) for group in (True, False))
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


def quotient(numerator: InfluenceEstimate, denominator: InfluenceEstimate) -> InfluenceEstimate:
    """Return the ratio of two rates."""
    bottom = max(denominator.value, SMALLEST_SHARE)
    ratio = numerator.value / bottom
    return combine(ratio, [(1.0 / bottom, numerator), (-ratio / bottom, denominator)])


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

    rates = {"accuracy": mean(((scores >= data.threshold) == y).astype(np.float64))}
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
    return InfluenceEstimate(value, (sum_by_cluster(rows.clusters, influence),), degrees=rows.degrees)


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
    return InfluenceEstimate(value, (sum_by_cluster(rows.clusters, share * influence),), degrees=rows.degrees)


def are_decisions(scores: Floats) -> bool:
    """Return whether all scores are 0 or 1."""
    return bool(np.isin(scores, (0.0, 1.0)).all())


FEW_DECIDED = 0.01  # share of people: a rule with a smaller minority of decisions is nearly constant
OF_NOTES = 0.95  # confidence level of intervals in notes
SURELY_OFF = 0.9999  # confidence level of each of ten intervals of outcome rates; 0.999 together


def audit_notes(problem: RepairProblem, solved: Sequence[Constraint], use_group: bool, metric: str) -> list[Note]:
    """Return notes on the use of the group, limits already met, missing outcomes, small groups and conditions."""
    notes, rows = [Note("group needed") if use_group else Note("group used to fit")], problem.rows
    largest = max((constraint.gap_before for constraint in solved), key=abs)
    if abs(largest) <= problem.limit + REPAIRED:
        which = THE_GAP if len(solved) == 1 else LARGEST_GAP.format(gaps=len(solved))
        notes.append(Note("nothing to adjust", gap=which, size=largest))
    if any(constraint.event != ALL for constraint in solved) and rows.outcome is not None:
        known = int((rows.outcome != UNKNOWN).sum())
        if known < rows.codes.size:
            notes.append(Note("some outcomes", known=known, rows=rows.codes.size))
    people = min(
        effective_size(measure * side, cluster_codes(rows.clusters))
        for measure in problem.measures
        for side in (measure > 0.0, measure < 0.0)
    )
    if people < FEW_REPAIRED:
        error = max(constraint.se or 0.0 for constraint in solved)
        notes.append(Note("few people in a group", people=people, error=2.0 * error))
    return notes + condition_notes_of(rows) + _exempt_notes(rows, metric)


def condition_notes_of(rows: AuditedRows) -> list[Note]:
    """Return a note on the conditions that all audited rows meet."""
    return [Note("fitted on a condition", conditions=condition_words(rows.given))] if rows.given else []


def _exempt_notes(rows: AuditedRows, metric: str) -> list[Note]:
    if not rows.exempt:
        return []
    factors = ", ".join(map(shown, rows.exempt))
    if metric in (MEAN, DECISIONS):
        return [Note("exempt factors held equal", factors=factors)]
    return [Note("exempt factors not held equal", factors=factors)]


def nearly_constant(before: Booleans, after: Booleans, weights: Floats) -> list[Note]:
    """Return a note if the new rule selects almost nobody, or almost everybody, and the audited one did not."""
    old, new = (float(weights @ decided) / float(weights.sum()) for decided in (before, after))
    if min(new, 1.0 - new) >= min(FEW_DECIDED, old, 1.0 - old):
        return []
    if after.all() or not after.any():
        people = EVERYBODY if after.all() else NOBODY
    else:
        people = ALMOST_NOBODY if new < 0.5 else ALMOST_EVERYBODY
    people = people.format(few=FEW_DECIDED, most=1.0 - FEW_DECIDED)
    return [Note("nearly constant rule", people=people, share=old)]


def fit_notes(problem: RepairProblem, solved: Sequence[Constraint], after: Floats) -> list[Note]:
    """Return notes on the fit: missed limits, gaps that may be due to chance, and scores that no longer predict."""
    rows, threshold = problem.rows, problem.threshold
    notes = _missed_limits(problem, solved) + _chance_notes(solved, problem.limit)
    if rows.outcome is None or rows.scores.ndim == 2 or not any(constraint.multiplier for constraint in solved):
        return notes
    index = np.flatnonzero(rows.outcome != UNKNOWN)
    y = rows.outcome[index] == WITH
    if min(int(y.sum()), int((~y).sum())) < MINIMUM_ROWS:
        return notes
    by_outcome = rows.compared(rows.outcome == WITH, index)  # people with the outcome against those without
    notes += _prediction_notes(by_outcome, rows.scores[index], after[index], threshold)
    return notes if threshold is None else notes + _calibration_notes(by_outcome, rows.scores[index])


def _missed_limits(problem: RepairProblem, solved: Sequence[Constraint]) -> list[Note]:
    """Return notes on gaps beyond the limit or closed further; decisions may miss it by the weight of one person."""
    limit, is_decided = problem.limit, problem.threshold is not None
    step = len(solved) * float(np.abs(problem.measures).max()) if is_decided else 0.0
    over = max(abs(constraint.gap_after) for constraint in solved) - limit
    closer = [c for c in solved if c.multiplier and limit - abs(c.gap_after) > REPAIRED + step]
    notes = []
    if closer and is_decided:
        size = 100.0 * closer[0].gap_after
        notes.append(Note("closed further", gap=closer[0].describe(False), size=size, limit=100.0 * limit))
    if over > REPAIRED + step:
        reasons = [EQUAL_DECISIONS] * is_decided + [OUT_OF_REACH] * (not is_decided or len(solved) > 1)
        error = max(constraint.se or 0.0 for constraint in solved)
        notes.append(Note("limit missed", over=over, error=error, reason="; or ".join(reasons)))
    return notes


def _chance_notes(solved: Sequence[Constraint], limit: float) -> list[Note]:
    """Return a note if scores are adjusted although no gap is significantly beyond the limit."""
    moved = [constraint for constraint in solved if constraint.multiplier]
    if not moved or any(abs(c.gap_before) - limit > quantile(OF_NOTES) * (c.se_before or 0.0) for c in moved):
        return []
    largest = max(moved, key=lambda constraint: abs(constraint.gap_before))
    return [Note("gap not significant", gap=100.0 * largest.gap_before, error=100.0 * (largest.se_before or 0.0))]


def _prediction_notes(rows: Rows, before: Floats, after: Floats, threshold: float | None) -> list[Note]:
    """Return a note if adjusted scores, unlike those before, predict no better than a constant, which has no gap."""
    outcome, share = np.where(rows.audited, WITH, WITHOUT), rows.weights / rows.weights.sum()
    old, new = (area(rows, scores, outcome).normal().estimate(OF_NOTES) for scores in (before, after))

    predictions = (rows.constant(float(share @ rows.audited)), before, after)
    constant, loss_before, loss = (float(share @ log_losses(scores, rows.audited)) for scores in predictions)
    is_flat = (old.low or 0.0) > 0.5 >= (new.low or 0.0)
    if not is_flat and (threshold is not None or not loss_before < constant <= loss):
        return []
    if threshold is not None:
        return [Note("useless decisions", auc=new.value, low=new.low, high=new.high)]
    return [Note("useless scores", auc=new.value, low=new.low, high=new.high, loss=loss, constant=constant)]


def _calibration_notes(rows: Rows, scores: Floats) -> list[Note]:
    """Return a note if scores are not calibrated, since another decision rule may then be more accurate."""
    cuts = np.quantile(scores, np.arange(1, SCORE_TENTHS) / SCORE_TENTHS)
    tenths, misfits = np.searchsorted(cuts, scores, side="right"), []
    for tenth in np.unique(tenths).tolist():
        weights = np.where(tenths == tenth, rows.weights, 0.0)
        score = float(weights @ scores / weights.sum())
        rate = overall_mean(weights, rows.audited.astype(np.float64), rows.clusters)
        people = int((weights > 0.0).sum())
        ends = proportion(rate, people).estimate(SURELY_OFF)
        is_within = (ends.low or 0.0) - MATERIALITY <= score <= (ends.high or 0.0) + MATERIALITY
        if people >= MINIMUM_ROWS and not is_within:
            misfits.append((abs(rate.value - score), score, rate.value))
    if not misfits:
        return []
    _, score, observed = max(misfits)
    return [Note("not calibrated", score=score, observed=observed)]


def condition_words(given: Mapping[str, str]) -> str:
    """Return the conditions as text."""
    return " and ".join(f"{shown(name)} = {shown(value)}" for name, value in given.items())


def meets(frame: pl.DataFrame, given: Mapping[str, str]) -> Booleans:
    """Return which rows of a clean frame meet the conditions whose column the frame has."""
    is_met = np.ones(frame.height, dtype=np.bool_)
    for name in given.keys() & set(frame.columns):
        is_met &= equals_mask(frame[name], given[name])
    return is_met


def condition_notes(
    given: Mapping[str, str], names: Sequence[str], outside: int, rows: int, treatment: str
) -> list[Note]:
    """Return notes on rows that do not meet the conditions, and on conditions that cannot be checked."""
    missing = {name: value for name, value in given.items() if name not in names}
    notes = []
    if outside:
        conditions = condition_words(given)
        notes.append(Note("condition not met", outside=outside, rows=rows, conditions=conditions, treatment=treatment))
    if missing:
        notes.append(Note("condition not checked", conditions=condition_words(missing)))
    return notes
