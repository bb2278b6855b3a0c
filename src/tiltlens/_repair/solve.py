"""Score adjustments: the smallest change of scores that meets the constraints, fitted or read from JSON files."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tiltlens._estimators.influence import Rows
from tiltlens._model_files.load import open_skops
from tiltlens._repair.adjustment import MembershipFit, exempt_model, fit_cells
from tiltlens._repair.constraints import (
    DECISIONS,
    EVENTS,
    MEAN,
    ODDS,
    Constraint,
    check_max_gap,
    gradients,
    shift_of,
)
from tiltlens._repair.free_price import DiscriminationFreePrice, fit_free_price
from tiltlens._repair.least_change import kl_change, repaired
from tiltlens._repair.problem import RepairProblem, audit_notes, constraints_for, fit_notes, nearly_constant
from tiltlens._repair.quantities import are_decisions, gap_at_equal_factors
from tiltlens._repair.rows import (
    AuditedRowIndex,
    AuditedRows,
    audited_rows,
    modelled_gap,
    moments,
    ranges_of,
)
from tiltlens._repair.score_tilt import ScoreTilt
from tiltlens._results.audit import Audit
from tiltlens._results.codec import from_plain
from tiltlens._results.comparison import Comparison
from tiltlens._rows.wording import ScoreType
from tiltlens.errors import DataError, Input, quoted, remember, texts_of
from tiltlens.paper.checks import Floats, check_threshold

METRICS = tuple(metric for metric in EVENTS if metric != DECISIONS)


def repair(
    source: Comparison | Audit,
    max_gap: float = 0.0,
    use_group: bool = False,
    metric: str = MEAN,
    threshold: float | None = None,
    propensity_model: object = None,
) -> ScoreTilt | DiscriminationFreePrice:
    """Fit an adjustment to a comparison, or to all of an audit: `ScoreTilt`, or for amounts the free price."""
    comparisons = [source] if isinstance(source, Comparison) else source.comparisons.values()
    if any(comparison.scale.score_type == ScoreType.AMOUNT for comparison in comparisons):
        given = {"max_gap": max_gap != 0.0, "use_group": bool(use_group), "metric": metric != MEAN}
        given |= {"threshold": threshold is not None, "propensity_model": propensity_model is not None}
        option = next((name for name, is_given in given.items() if is_given), None)
        if option is not None:
            raise DataError(
                f"`{option}` is for scores, but amounts have a discrimination-free price.",
                "leave it out; the price has no options.",
            )
        return fit_free_price(source)
    rows = audited_rows(source, "repair", bool(use_group))
    limit, kind = check_max_gap(max_gap), _check_metric(metric, threshold, rows)
    if not isinstance(use_group, (bool, np.bool_)):
        raise DataError(f"`use_group` must be True or False, got {use_group!r}.", "True uses the group of each row.")
    _check_scores(rows.scores, threshold)
    return _tilt(rows, kind, threshold, limit, bool(use_group), propensity_model)


def _tilt(
    rows: AuditedRows, metric: str, threshold: float | None, limit: float, use_group: bool, estimator: object
) -> ScoreTilt:
    """Return the tilt after which no gap exceeds the limit.

    The multipliers are solved with the rows' own groups and cross-fitted probabilities.
    """
    rows, duplicate_notes = rows.with_duplicates()
    constraints = constraints_for(rows, metric, limit)
    fit = fit_cells(rows, constraints, use_group, estimator)
    problem = RepairProblem.of(rows, constraints, fit.cross_fitted, limit, threshold)
    solved, after, applied = _solve(problem, fit, use_group)
    return ScoreTilt(
        metric=metric,
        threshold=threshold,
        max_gap=limit,
        use_group=use_group,
        classes=rows.outcomes,
        constraints=solved,
        nats=kl_change(rows.scores, after, rows.weights) if threshold is None else None,
        models=fit.models,
        given=dict(rows.given),
        favours_low=rows.favours_low,
        soft=rows.soft_estimates(after, threshold) if metric in (MEAN, DECISIONS) else {},
        ranges=ranges_of(rows.model_features) if fit.models else {},
        declared=rows.declared,
        row_index=AuditedRowIndex.of(rows),
        notes=(
            *audit_notes(problem, solved, use_group, metric),
            *fit_notes(problem, solved, after),
            *(nearly_constant(rows.scores >= threshold, applied == 1.0, rows.weights) if threshold is not None else ()),
            *duplicate_notes,
        ),
    )


def _solve(
    problem: RepairProblem, fit: MembershipFit, use_group: bool
) -> tuple[tuple[Constraint, ...], Floats, Floats]:
    """Return the solved constraints, the scores adjusted by cross-fitted models, and those by the saved models."""
    rows = problem.rows
    members = {group: rows.codes == code for code, group in enumerate(rows.groups)} if use_group else None
    a = gradients(problem.constraints, fit.cross_fitted, members)
    crossed = None if use_group else a
    if problem.threshold is not None:
        a = gradients(problem.constraints, fit.for_decisions(rows.clusters), members)
    hint = "adjust with the group (use_group=True, --use-group), or audit with other features or more rows."
    solved, after = problem.solve(a, crossed, hint)
    if fit.design is not None:
        a = gradients(problem.constraints, fit.fitted(), members)
    exempt = exempt_model(fit.models)
    if fit.design is not None and exempt is not None:
        columns = exempt.columns(fit.design.table)
        solved = tuple(_with_exempt_error(rows, constraint, columns, after) for constraint in solved)
    applied = repaired(rows.scores, shift_of(solved, a, rows.outcomes), problem.threshold)
    gaps = map(modelled_gap, moments(a, applied, solved, rows.weights))
    solved = tuple(replace(constraint, modelled=gap.value) for constraint, gap in zip(solved, gaps, strict=True))
    return solved, after, applied


def _with_exempt_error(rows: AuditedRows, constraint: Constraint, columns: Floats, after: Floats) -> Constraint:
    """Return a constraint with the standard error of its gap at equal exempt factors, smaller than for two means."""
    first, second = (rows.members(cell) for cell in constraint.cells)
    pair = Rows.of(first, rows.weights * (first | second), rows.clusters)
    scores = after if after.ndim == 1 else after[:, constraint.score_class]
    return replace(constraint, se=gap_at_equal_factors(pair, columns, scores).se, se_before=None)


def _check_metric(metric: object, threshold: float | None, rows: AuditedRows) -> str:
    if metric not in METRICS:
        names = ", ".join(map(repr, METRICS[:-1]))
        hint = "to adjust decisions, pass threshold= as well."
        raise DataError(f"`metric` must be {names} or {ODDS!r}, got {metric!r}.", hint)
    if metric == MEAN:
        return MEAN if threshold is None else DECISIONS
    if rows.outcome is None:
        raise DataError(f"The metric {metric!r} needs outcomes, but the audit has none.", "audit with outcome=.")
    return str(metric)


def _check_scores(scores: Floats, threshold: float | None) -> None:
    if threshold is not None and scores.ndim == 2:
        raise DataError(
            f"`threshold` needs scores of two classes, got {scores.shape[1]} classes.",
            "audit the score of one class to adjust decisions.",
        )
    if threshold is not None:
        check_threshold(threshold, below_one=True)
    if are_decisions(scores):
        raise DataError(
            "All scores are 0 or 1, and decisions cannot be adjusted.",
            "audit the scores behind them, and repair with threshold=.",
        )
    if (scores.min(axis=0) == scores.max(axis=0)).all():
        raise DataError("The scores are constant: nothing can be adjusted.", "audit a model whose scores vary.")


KINDS: dict[str, type[ScoreTilt] | type[DiscriminationFreePrice]] = {
    kind.SCHEMA: kind for kind in (ScoreTilt, DiscriminationFreePrice)
}


def read_repair(path: str | Path, trusted: str | Sequence[str] = ()) -> ScoreTilt | DiscriminationFreePrice:
    """Read an adjustment that `to_json` wrote.

    Parameters
    ----------
    path
        The file.
    trusted
        Names of types in your own group-membership model to load although skops does not recognise them. Loading them
        runs their code.

    Returns
    -------
    ScoreTilt or DiscriminationFreePrice
        The adjustment, ready to apply and to evaluate.

    Raises
    ------
    TiltlensError
        If the file has another version, missing parts or types that are not trusted.

    See Also
    --------
    ScoreTilt.to_json : Write the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50, "score": [0.4, 0.5, 0.6, 0.8] * 25}
    >>> tilt = tl.audit(people, "sex", reference="men", scores="score")["women"].repair(use_group=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tilt.to_json(Path(folder, "repair.json"))
    ...     again = tl.read_repair(Path(folder, "repair.json"))
    >>> again.multiplier == tilt.multiplier
    True
    """
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError) as error:
        raise DataError(
            f"Cannot read an adjustment from {quoted(str(path))}: {getattr(error, 'strerror', None) or error}.",
            "write one with `to_json` (--save).",
        ) from None
    schema = saved.pop("schema", None) if isinstance(saved, dict) else None
    if schema not in KINDS:
        raise DataError(
            f"{quoted(str(path))} is not an adjustment of the schema {' or '.join(KINDS)}.",
            "fit it again, and save it.",
        )
    remember(Input.file(path, schema))
    for model in _saved_classifiers(saved):
        content = b64decode(str(model["estimator"]))
        model["estimator"] = open_skops("the group-membership model", content, texts_of("trusted", trusted))
    try:
        adjustment = from_plain(KINDS[schema], saved)
        adjustment.check_whole()
        return adjustment
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{quoted(str(path))} is not a whole adjustment: a part is missing or altered ({error}).",
            "write it again with `to_json`.",
        ) from None


def _saved_classifiers(saved: dict[str, object]) -> list[dict[str, object]]:
    """Return the saved models that are classifiers; the file may be damaged."""
    models = saved.get("models")
    parts = [entry.get("model") for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    return [part for part in parts if isinstance(part, dict) and "estimator" in part]
