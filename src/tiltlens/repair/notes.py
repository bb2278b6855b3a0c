"""Notes on a fitted repair: limits missed, gaps that may be chance, scores that no longer predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tiltlens.errors import shown
from tiltlens.estimators.error_rates import UNKNOWN, WITH, WITHOUT
from tiltlens.estimators.estimate import quantile
from tiltlens.estimators.influence import Booleans, Rows, cluster_codes, overall_mean
from tiltlens.limits import FEW_REPAIRED, MATERIALITY, MINIMUM_ROWS, REPAIRED, SCORE_TENTHS, SMALLEST_SHARE
from tiltlens.paper.checks import Floats
from tiltlens.repair.constraints import ALL, DECISIONS, MEAN, Constraint
from tiltlens.repair.new_rows import condition_words
from tiltlens.repair.quantities import area, effective_size, proportion
from tiltlens.repair.rows import AuditedRows

FEW_DECIDED = 0.01  # share of people: a rule that decides fewer otherwise than the rest hardly decides
SURELY_OFF = 0.9999  # confidence of each of ten intervals of outcomes: together 0.999
if TYPE_CHECKING:
    from tiltlens.repair.solve import RepairProblem

REGULATED = "the group of every new row is needed, and its use at prediction time may be regulated"
NOT_AT_PREDICTION = "the group was used to fit the adjustment; new rows are adjusted without it"
TOGETHER = "people with equal features get equal decisions, so the gap moves in jumps"


def audit_notes(problem: RepairProblem, solved: Sequence[Constraint], use_group: bool, metric: str) -> list[str]:
    """Return notes on the audit that a repair rests on: use of the group, missing outcomes, conditions."""
    notes, rows = [REGULATED if use_group else NOT_AT_PREDICTION], problem.rows
    largest = max((constraint.gap_before for constraint in solved), key=abs)
    if abs(largest) <= problem.limit + REPAIRED:
        what = "the gap" if len(solved) == 1 else f"the largest of {len(solved)} gaps"
        notes.append(f"nothing to adjust: {what} is {largest:+.4f}, within the limit")
    if any(constraint.event != ALL for constraint in solved) and rows.outcome is not None:
        count = int((rows.outcome != UNKNOWN).sum())
        if count < rows.codes.size:
            notes.append(f"{count} of {rows.codes.size} rows have an outcome; error rates use these only")
    people = min(
        effective_size(measure * side, cluster_codes(rows.clusters))
        for measure in problem.measures
        for side in (measure > 0.0, measure < 0.0)
    )
    if people < FEW_REPAIRED:
        error = max(constraint.se or 0.0 for constraint in solved)
        notes.append(
            f"one group has only {people:.0f} people: on new data the gap may miss the limit by {2.0 * error:.3f} or "
            "more"
        )
    return notes + condition_notes_of(rows) + _exempt_notes(rows, metric)


def condition_notes_of(rows: AuditedRows) -> list[str]:
    """Return a note on the conditions that audited rows met."""
    words = condition_words(rows.given)
    return [f"fitted only on rows with {words}; other rows are neither adjusted nor evaluated"] if rows.given else []


def _exempt_notes(rows: AuditedRows, metric: str) -> list[str]:
    if not rows.exempt:
        return []
    names = ", ".join(map(shown, rows.exempt))
    if metric in (MEAN, DECISIONS):
        return [
            f"the gap is closed among people with the same {names}; the part that these exempt factors explain stays"
        ]
    return [
        "error rates are compared among all people, not among people with the same values of the exempt factors "
        f"{names}"
    ]


def nearly_constant(before: Booleans, after: Booleans, weights: Floats) -> list[str]:
    """Return a note where a rule selects almost nobody, or almost everybody, and the rule before did not."""
    old, new = (float(weights @ decided) / float(weights.sum()) for decided in (before, after))
    if min(new, 1.0 - new) >= min(FEW_DECIDED, old, 1.0 - old):
        return []
    if after.all() or not after.any():
        return [f"the new rule selects {'everybody' if after.all() else 'nobody'} (the audited one {100.0 * old:.1f}%)"]
    share = f"fewer than {100.0 * FEW_DECIDED:.0f}%" if new < 0.5 else f"more than {100.0 - 100.0 * FEW_DECIDED:.0f}%"
    return [f"the new rule selects {share} of people (the audited one {100.0 * old:.1f}%)"]


def fit_notes(problem: RepairProblem, solved: Sequence[Constraint], after: Floats) -> list[str]:
    """Return notes on the fit: gaps that miss the limit or may be chance, and scores that no longer predict."""
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


def _missed_limits(problem: RepairProblem, solved: Sequence[Constraint]) -> list[str]:
    """Return notes on gaps that miss the limit or fall below it; decisions may do so by the weight of one person."""
    limit, is_decided = problem.limit, problem.threshold is not None
    step = len(solved) * float(np.abs(problem.measures).max()) if is_decided else 0.0
    over = max(abs(constraint.gap_after) for constraint in solved) - limit
    closer = [c for c in solved if c.multiplier and limit - abs(c.gap_after) > REPAIRED + step]
    notes = []
    if closer and is_decided:
        gap = f"{100.0 * closer[0].gap_after:+.1f} points (limit {100.0 * limit:g})"
        notes.append(f"{closer[0].describe(False)} is closed further than the limit requires, to {gap}: {TOGETHER}")
    if over > REPAIRED + step:
        far = "closing it exactly would take more than twice the change, or is impossible"
        why = far if not is_decided else TOGETHER if len(solved) == 1 else f"{TOGETHER}; or {far}"
        error = max(constraint.se or 0.0 for constraint in solved)
        size = f"{over:.4f} beyond the limit on the audited rows (standard error {error:.4f})"
        notes.append(f"the largest gap after the adjustment is {size}: {why}")
    return notes


def _chance_notes(solved: Sequence[Constraint], limit: float) -> list[str]:
    """Return a note where scores move for gaps that are not significantly beyond the limit."""
    moved = [constraint for constraint in solved if constraint.multiplier]
    if not moved or any(abs(c.gap_before) - limit > quantile(0.95) * (c.se_before or 0.0) for c in moved):
        return []
    largest = max(moved, key=lambda constraint: abs(constraint.gap_before))
    gap = f"{100.0 * largest.gap_before:+.1f} points (standard error {100.0 * (largest.se_before or 0.0):.1f})"
    return [f"the gap before, {gap}, is not significantly beyond the limit, so the adjustment may follow chance"]


def _prediction_notes(rows: Rows, before: Floats, after: Floats, threshold: float | None) -> list[str]:
    """Return a note where repaired scores, unlike those before, predict no better than a constant, which has no gap."""
    outcome, share = np.where(rows.audited, WITH, WITHOUT), rows.weights / rows.weights.sum()
    old, new = (area(rows, scores, outcome).normal().estimate(0.95) for scores in (before, after))

    def loss(scores: Floats) -> float:
        clipped = np.clip(scores, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
        return -float(share @ np.where(rows.audited, np.log(clipped), np.log1p(-clipped)))

    constant, losses = loss(rows.constant(float(share @ rows.audited))), (loss(before), loss(after))
    is_flat = (old.low or 0.0) > 0.5 >= (new.low or 0.0)
    if not is_flat and (threshold is not None or not losses[0] < constant <= losses[1]):
        return []
    interval = f"{new.value:.3f} (95% CI {new.low:.3f} to {new.high:.3f})"
    of_loss = "" if threshold is not None else f" and the log-loss {losses[1]:.4f} (a constant has {constant:.4f})"
    no_worse = "A constant score also meets this limit, and predicts no worse"
    return [f"after the adjustment the area under the curve is {interval}{of_loss}. {no_worse}"]


def _calibration_notes(rows: Rows, scores: Floats) -> list[str]:
    """Return a note where scores are not calibrated: another rule of decisions may then be more accurate."""
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
    where = f"where they average {score:.2f}, {100.0 * observed:.0f}% have the outcome"
    return [f"the scores are not calibrated: {where}. Recalibrate them first, or a more accurate rule may exist"]
