"""The constraints on an adjustment of audited rows, their solution, and notes on both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiltlens import _notes as phrases
from tiltlens._estimators.error_rates import UNKNOWN, WITH, WITHOUT
from tiltlens._estimators.estimate import Normal, quantile
from tiltlens._estimators.influence import Booleans, Rows, cluster_codes, overall_mean
from tiltlens._learners.propensity import check_overlap
from tiltlens._limits import FEW_REPAIRED, MATERIALITY, MINIMUM_ROWS, REPAIRED, SCORE_TENTHS, SURELY_BEYOND
from tiltlens._notes import Note
from tiltlens._repair import least_change
from tiltlens._repair.constraints import (
    ALL,
    DECISIONS,
    EQUAL,
    EVENTS,
    MEAN,
    Cell,
    Constraint,
    overlap_weights,
)
from tiltlens._repair.quantities import area, effective_size, log_losses, proportion
from tiltlens._repair.rows import AuditedRows, condition_notes_of
from tiltlens.errors import DataError, SupportError, quoted
from tiltlens.paper.checks import Floats

FEW_DECIDED = 0.01  # share of people: a rule with a smaller minority of decisions is nearly constant
OF_NOTES = 0.95  # confidence level of intervals in notes
SURELY_OFF = 0.9999  # confidence level of each of ten intervals of outcome rates; 0.999 together


def constraints_for(rows: AuditedRows, metric: str, limit: float) -> list[Constraint]:
    """Return the constraints, without multipliers, ordered by group, event and class; raise if a cell is too small."""
    # The gaps of all classes sum to 0: one is redundant for two classes, and for any number if the limit is 0.
    classes = range(1 if rows.outcomes == 2 or limit == 0.0 else 0, rows.outcomes)
    constraints = []
    for group in rows.groups[1:]:
        for event in EVENTS[metric]:
            sizes = [int(rows.members((name, event)).sum()) for name in (group, rows.reference)]
            if min(sizes) < MINIMUM_ROWS:
                raise DataError(
                    f"The metric {metric!r} needs at least {MINIMUM_ROWS} people of each group, got {sizes[0]} of "
                    f"{quoted(group)} and {sizes[1]} of {quoted(rows.reference)}.",
                    "merge groups, or add rows.",
                )
            which = EQUAL if event == ALL and rows.exempt else event
            constraints += [Constraint(group, rows.reference, which, y) for y in classes]
    return constraints


@dataclass(frozen=True, slots=True, eq=False)
class RepairProblem:
    """Constraints on gaps of the audited rows, with the rows and weights of each gap."""

    rows: AuditedRows  # the rows, with their scores
    constraints: tuple[Constraint, ...]  # with the shares of the people counted
    # The rows of the audited group and of the reference that each constraint compares
    members: tuple[tuple[Booleans, Booleans], ...]
    measures: Floats  # (C, n): the weight of each row in each gap, Σ_n measures_cn·W_n
    # The largest gap allowed, and the threshold of decisions (None for scores)
    limit: float
    threshold: float | None

    @classmethod
    def of(
        cls,
        rows: AuditedRows,
        constraints: Sequence[Constraint],
        probabilities: Mapping[Cell, Floats],
        limit: float,
        threshold: float | None,
    ) -> RepairProblem:
        """Return the problem; at equal exempt factors, rows are weighted by the overlap from `probabilities`."""
        counted, members, measures, total = [], [], [], float(rows.weights.sum())
        for constraint in constraints:
            first, second = (rows.members(cell) for cell in constraint.cells)
            weights = rows.weights * np.where(first, *overlap_weights(constraint, probabilities))
            sums = float(weights @ first), float(weights @ second)
            counted.append(replace(constraint, shares=(sums[0] / total, sums[1] / total)))
            members.append((first, second))
            measures.append(weights * first / sums[0] - weights * second / sums[1])
        return cls(rows, tuple(counted), tuple(members), np.array(measures), limit, threshold)

    def solve(self, a: Floats, crossed: Floats | None, hint: str) -> tuple[tuple[Constraint, ...], Floats]:
        """Return the constraints with their multipliers, and the adjusted scores; the gradients `a` are (C, n).

        Raise, with the hint, if `crossed`, cross-fitted gradients without the group, may not separate the groups.
        """
        areas = [] if crossed is None else self.separations(crossed)
        scores, share, outcomes = self.rows.scores, self.rows.weights / self.rows.weights.sum(), self.rows.outcomes
        classes = np.array([constraint.score_class for constraint in self.constraints])
        wholes = np.arange(len(classes)).reshape(-1, outcomes) if outcomes > 2 and self.limit > 0.0 else ()
        problem = least_change.GapProblem(
            logs=least_change.log_scores(scores),
            gradients=a,
            classes=classes,
            measures=self.measures,
            modelled=(a - (a @ share)[:, None]) * share,
            shares=share,
            limit=self.limit,
            names=[constraint.describe(outcomes > 2) for constraint in self.constraints],
            wholes=tuple(wholes),
            clusters=cluster_codes(self.rows.clusters),
        )
        if self.threshold is None:
            t = least_change.score_multipliers(problem)
        else:
            t = least_change.decision_multipliers(problem, scores, self.threshold)
        before, after = (
            least_change.repaired(scores, least_change.shifts(part * t, a, classes, outcomes), self.threshold)
            for part in (0.0, 1.0)
        )
        gaps = [least_change.gaps_of(own, self.measures, classes).tolist() for own in (before, after)]
        errors = [problem.errors(own).tolist() for own in (before, after)]
        columns = zip(self.constraints, t.tolist(), *gaps, *errors, strict=True)
        solved = tuple(
            replace(c, multiplier=value, gap_before=c.sign * old, gap_after=c.sign * new, se_before=old_se, se=se)
            for c, value, old, new, old_se, se in columns
        )
        _check_separations(solved, areas, hint)
        return solved, after

    def separations(self, a: Floats) -> list[Normal]:
        """Return the area under the curve with which each gradient in `a`, (C, n), separates a constraint's two groups.

        Raise if the separation is perfect: an adjustment without the group would then be one with it.
        """
        areas = []
        for (first, second), own in zip(self.members, a, strict=True):
            index = np.flatnonzero(first | second)
            pair = self.rows.compared(first, index)
            areas.append(area(pair, own[index], np.where(pair.audited, WITH, WITHOUT)).normal())
            check_overlap(areas[-1].value)
        return areas


def _check_separations(constraints: Sequence[Constraint], areas: Sequence[Normal], hint: str) -> None:
    """Raise if a multiplier uses features that may not separate the groups, so that scores would move by chance."""
    for constraint, auc in zip(constraints, areas, strict=False):
        if constraint.multiplier and auc.value - 0.5 < SURELY_BEYOND * auc.se:
            groups = f"{quoted(constraint.audited)} and {quoted(constraint.reference)}"
            raise SupportError(
                f"The features hardly distinguish {groups}, if at all: on rows not used in its fit, the AUC of the "
                f"group-membership model is {auc.value:.3f} (standard error {auc.se:.3f}). Adjusting without the group "
                "would move scores by chance.",
                hint,
            )


def audit_notes(problem: RepairProblem, solved: Sequence[Constraint], use_group: bool, metric: str) -> list[Note]:
    """Return notes on the use of the group, limits already met, missing outcomes, small groups and conditions."""
    notes, rows = [Note("group needed") if use_group else Note("group used to fit")], problem.rows
    largest = max((constraint.gap_before for constraint in solved), key=abs)
    if abs(largest) <= problem.limit + REPAIRED:
        which = phrases.THE_GAP if len(solved) == 1 else phrases.LARGEST_GAP.format(gaps=len(solved))
        notes.append(Note("nothing to adjust", gap=which, size=largest))
    if any(constraint.event != ALL for constraint in solved) and rows.outcome is not None:
        count = int((rows.outcome != UNKNOWN).sum())
        if count < rows.codes.size:
            notes.append(Note("some outcomes", known=count, rows=rows.codes.size))
    people = min(
        effective_size(measure * side, cluster_codes(rows.clusters))
        for measure in problem.measures
        for side in (measure > 0.0, measure < 0.0)
    )
    if people < FEW_REPAIRED:
        error = max(constraint.se or 0.0 for constraint in solved)
        notes.append(Note("few people in a group", people=people, error=2.0 * error))
    notes += condition_notes_of(rows)
    if rows.exempt:
        code = "exempt factors held equal" if metric in (MEAN, DECISIONS) else "exempt factors not held equal"
        notes.append(Note(code, factors=", ".join(map(quoted, rows.exempt))))
    return notes


def nearly_constant(before: Booleans, after: Booleans, weights: Floats) -> list[Note]:
    """Return a note if the new rule selects almost nobody, or almost everybody, and the audited one did not."""
    old, new = (float(weights @ decided) / float(weights.sum()) for decided in (before, after))
    if min(new, 1.0 - new) >= min(FEW_DECIDED, old, 1.0 - old):
        return []
    if after.all() or not after.any():
        people = phrases.EVERYBODY if after.all() else phrases.NOBODY
    else:
        people = phrases.ALMOST_NOBODY if new < 0.5 else phrases.ALMOST_EVERYBODY
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
        reasons = [phrases.EQUAL_DECISIONS] * is_decided + [phrases.OUT_OF_REACH] * (not is_decided or len(solved) > 1)
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
