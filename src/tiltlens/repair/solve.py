"""Audited rows → the least change of their scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Rows
from tiltlens.paper.checks import Floats, check_threshold
from tiltlens.repair.cell_models import MembershipFit, fit_cells
from tiltlens.repair.constraints import DECISIONS, EQUAL, FNR, FPR, MEAN, ODDS, Constraint, gradients
from tiltlens.repair.duplicates import AuditedRowIndex
from tiltlens.repair.least_change import nats_moved, repaired, shifts
from tiltlens.repair.new_rows import modelled_gap, moments, ranges_of
from tiltlens.repair.notes import audit_notes, fit_notes, nearly_constant
from tiltlens.repair.problem import RepairProblem, check_limit, check_separations, constraints_for
from tiltlens.repair.quantities import equal_gap
from tiltlens.repair.rows import AuditedRows, audited_rows
from tiltlens.repair.score_tilt import ScoreTilt
from tiltlens.results.audit import Audit
from tiltlens.results.comparison import Comparison
from tiltlens.rows.declared import declared_in

METRICS = (MEAN, FPR, FNR, ODDS)


def repair(
    source: Comparison | Audit,
    metric: str = MEAN,
    limit: float = 0.0,
    use_group: bool = False,
    threshold: float | None = None,
    estimator: Any = None,
    seed: int = 0,
) -> ScoreTilt:
    """Return the tilt after which no gap of a comparison, or of all comparisons of an audit, is larger than `limit`.

    The multipliers are solved with the rows' own groups, and with probabilities by models fitted on other rows.
    """
    rows = audited_rows(source, "repair", bool(use_group))
    size, kind = check_limit(limit), _check_metric(metric, threshold, rows)
    if not isinstance(use_group, (bool, np.bool_)):
        raise DataError(f"`use_group` must be True or False, got {use_group!r}.", "True uses the group of each row.")
    _check_scores(rows.scores, threshold)
    rows, duplicate_notes = rows.with_duplicates()
    constraints = constraints_for(rows, kind, size)
    fit = fit_cells(rows, constraints, bool(use_group), seed, estimator)
    problem = RepairProblem.of(rows, constraints, fit.cross_fitted, size, threshold)
    solved, after, a = _solve(problem, fit, bool(use_group))
    return ScoreTilt(
        criterion=kind,
        threshold=threshold,
        limit=size,
        use_group=bool(use_group),
        classes=rows.outcomes,
        constraints=solved,
        nats=nats_moved(rows.scores, after, rows.weights) if threshold is None else None,
        models=fit.models,
        given=dict(rows.given),
        favours_low=rows.favours_low,
        soft=rows.soft_estimates(after, threshold) if kind in (MEAN, DECISIONS) else {},
        ranges=ranges_of([feature for feature in rows.features if feature.in_membership]) if fit.models else {},
        declared=declared_in({own.name: own.levels.made_of for own in rows.features if own.levels is not None}),
        row_index=AuditedRowIndex.of(rows.features, rows.scores, rows.codes, rows.clusters),
        notes=(
            *audit_notes(problem, solved, bool(use_group), kind),
            *fit_notes(problem, solved, after),
            *_constant_notes(rows, solved, a, threshold),
            *duplicate_notes,
        ),
    )


def _solve(
    problem: RepairProblem, fit: MembershipFit, use_group: bool
) -> tuple[tuple[Constraint, ...], Floats, Floats]:
    """Return the constraints with their multipliers, the scores after, and the gradients as new rows have them."""
    rows = problem.rows
    members = {group: rows.codes == code for code, group in enumerate(rows.groups)} if use_group else None
    a = gradients(problem.constraints, fit.cross_fitted, members)
    areas = [] if use_group else problem.separations(a)
    if problem.threshold is not None:
        a = gradients(problem.constraints, fit.for_decisions(rows.clusters), members)
    solved, after = problem.solve(a)
    if fit.design is not None:
        a = gradients(problem.constraints, fit.fitted(), members)
    if fit.design is not None and solved[0].event == EQUAL:
        columns = fit.models[-1].model.columns(fit.design.table)
        solved = tuple(_with_exempt_error(rows, constraint, columns, after) for constraint in solved)
    solved = _with_modelled_gaps(rows, solved, a, problem.threshold)
    hint = "use_group=True needs no features; or audit with other features, or more rows."
    check_separations(solved, areas, hint)
    return solved, after, a


def _with_modelled_gaps(
    rows: AuditedRows, constraints: tuple[Constraint, ...], a: Floats, threshold: float | None
) -> tuple[Constraint, ...]:
    """Return the constraints with the gaps after that the saved membership model, with gradients `a`, predicts."""
    t, classes = np.array([(constraint.multiplier, constraint.score_class) for constraint in constraints]).T
    after = repaired(rows.scores, shifts(t, a, classes.astype(np.intp), rows.outcomes), threshold)
    gaps = map(modelled_gap, moments(a, after, constraints, rows.weights))
    return tuple(replace(constraint, modelled=gap.value) for constraint, gap in zip(constraints, gaps, strict=True))


def _with_exempt_error(rows: AuditedRows, constraint: Constraint, columns: Floats, after: Floats) -> Constraint:
    """Return a constraint with the error of its gap at equal exempt factors, smaller than that of two means."""
    if constraint.event != EQUAL:
        return constraint
    first, second = (rows.members(cell) for cell in constraint.cells)
    pair = Rows.of(first, rows.weights * (first | second), rows.clusters)
    scores = after if after.ndim == 1 else after[:, constraint.score_class]
    return replace(constraint, se=equal_gap(pair, columns, scores).se, se_before=None)


def _constant_notes(
    rows: AuditedRows, constraints: tuple[Constraint, ...], a: Floats, threshold: float | None
) -> list[str]:
    """Return a note where decisions have become nearly the same for everyone."""
    if threshold is None:
        return []
    after = repaired(rows.scores, np.array([constraint.multiplier for constraint in constraints]) @ a, threshold)
    return nearly_constant(rows.scores >= threshold, after == 1.0, rows.weights)


def _check_metric(metric: Any, threshold: float | None, rows: AuditedRows) -> str:
    if metric not in METRICS:
        names = ", ".join(map(repr, METRICS[:-1]))
        raise DataError(f"`metric` must be {names} or {ODDS!r}, got {metric!r}.", "threshold= is for decisions.")
    if metric == MEAN:
        return MEAN if threshold is None else DECISIONS
    if rows.outcome is None:
        raise DataError(f"The metric {metric!r} needs outcomes, but the audit has none.", "audit with outcome=.")
    return str(metric)


def _check_scores(scores: Floats, threshold: float | None) -> None:
    if threshold is not None and scores.ndim == 2:
        raise DataError(
            f"`threshold` must be left out for scores of {scores.shape[1]} classes, got {threshold!r}.",
            "audit the score of one class to repair decisions.",
        )
    if threshold is not None:
        check_threshold(threshold, below_one=True)
    if np.isin(scores, (0.0, 1.0)).all():
        raise DataError(
            "All scores are 0 or 1: decisions cannot be tilted.",
            "audit the scores behind them, and repair with threshold=.",
        )
    if (scores.min(axis=0) == scores.max(axis=0)).all():
        raise DataError("The scores are constant: there is nothing to repair.", "audit a model whose scores vary.")
