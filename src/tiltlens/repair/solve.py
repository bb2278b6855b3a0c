"""Audited rows → the least change of their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from tiltlens.errors import DataError, SupportError
from tiltlens.estimators.error_rates import WITH, WITHOUT
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.limits import FOLDS, LARGEST_MULTIPLIER, MINIMUM_ROWS
from tiltlens.models.asked import AskedModel
from tiltlens.models.features import Feature
from tiltlens.models.membership import row_folds
from tiltlens.paper.checks import Floats
from tiltlens.repair.additive import AdditiveLogit, Design, additive_design, fitted_logit
from tiltlens.repair.least_change import multiplier, nats_moved, repaired
from tiltlens.repair.score_tilt import DECISIONS, FNR, FPR, MEAN, ScoreTilt, gradient, hashed_rows

REGULATED = "the group itself is needed for every new row: its use at prediction time may be regulated"
TOUCHED = "the sensitive attribute was used to fit the membership model and the multiplier, not to repair new rows"


class AuditedRows(NamedTuple):
    """What an audit knows of its rows: the names of the groups, scores W(1|x), features, outcomes and model."""

    groups: tuple[str, str]
    rows: Rows
    features: Sequence[Feature]
    scores: Floats
    outcome: Integers | None = None
    model: AskedModel | None = None


def score_tilt(
    audited: AuditedRows,
    criterion: str = MEAN,
    limit: float = 0.0,
    use_group: bool = False,
    threshold: float | None = None,
    seed: int = 0,
) -> ScoreTilt:
    """Return the tilt after which the groups' difference is no larger than `limit`.

    The multiplier is solved on the rows' own group means, with chances of models that have not seen the row.
    """
    size, kind = checked_limit(limit), _checked_criterion(criterion, threshold, audited.outcome)
    rows, scores = audited.rows, audited.scores
    _check_scores(scores, threshold)
    counted = _counted(audited, kind)
    is_of_group_alone = use_group and kind in (MEAN, DECISIONS)
    design = None if is_of_group_alone else _design(audited.features)
    models, p0, p1 = _chances(audited, counted, kind, design, use_group, seed)
    shares = float(rows.weights @ (counted & rows.audited)), float(rows.weights @ (counted & ~rows.audited))
    shares = shares[0] / float(rows.weights.sum()), shares[1] / float(rows.weights.sum())
    a = gradient(p0, p1, shares)
    part = counted.astype(np.float64)

    def gap_at(t: float) -> float:
        after = part * repaired(scores, t * a, threshold)
        return rows.mean0(after) / rows.mean0(part) - rows.mean1(after) / rows.mean1(part)

    before, t = gap_at(0.0), 0.0
    if abs(before) > size:
        target = math.copysign(size, before)
        t = multiplier(gap_at, target) if threshold is None else decision_multiplier(gap_at, target)
    after, sign = repaired(scores, t * a, threshold), -1.0 if kind == FNR else 1.0
    notes = [REGULATED if use_group else TOUCHED]
    notes += [f"nothing to do: the difference is {sign * before:+.4f}, no larger than the limit"] if not t else []
    return ScoreTilt(
        criterion=kind,
        threshold=threshold,
        limit=size,
        use_group=use_group,
        multiplier=t,
        shares=shares,
        audited=audited.groups[0],
        reference=audited.groups[1],
        gap_before=sign * before,
        gap_after=sign * gap_at(t),
        nats=nats_moved(scores, after, rows.weights) if threshold is None else None,
        models=models,
        seen=hashed_rows({} if design is None else design.table, scores, rows.audited),
        notes=tuple(notes),
    )


def _counted(audited: AuditedRows, kind: str) -> Booleans:
    """Return which rows a criterion is of: all, or those with the outcome 0 or 1."""
    if kind not in (FPR, FNR) or audited.outcome is None:
        return np.ones(audited.scores.size, dtype=np.bool_)
    counted = np.asarray(audited.outcome == (WITHOUT if kind == FPR else WITH))
    sizes = [int((counted & who).sum()) for who in (audited.rows.audited, ~audited.rows.audited)]
    if min(sizes) < MINIMUM_ROWS:
        raise DataError(
            f"`criterion` must be of {MINIMUM_ROWS} people of each group at least, got {sizes[0]} and {sizes[1]} with "
            f"that outcome for {kind!r}.",
            "bring more rows.",
        )
    return counted


def _chances(
    audited: AuditedRows, counted: Booleans, kind: str, design: Design | None, use_group: bool, seed: int
) -> tuple[tuple[AdditiveLogit, ...], Floats, Floats]:
    """Return the models, and each row's chances p0, p1 by models that have not seen it."""
    mine, everyone = audited.rows.audited, np.ones(audited.scores.size, dtype=np.bool_)
    if design is None:
        return (), mine.astype(np.float64), (~mine).astype(np.float64)
    fold = row_folds(audited.rows, FOLDS, seed)
    if kind in (MEAN, DECISIONS):
        model, p0 = cross_fitted(design, audited.rows, fold, mine, everyone)
        return (model,), p0, 1.0 - p0
    pairs = []
    for who in (mine, ~mine):
        labels, among = (counted, who) if use_group else (counted & who, everyone)
        model, chance = cross_fitted(design, audited.rows, fold, labels, among)
        pairs.append((model, np.where(who, chance, 0.0) if use_group else chance))
    return (pairs[0][0], pairs[1][0]), pairs[0][1], pairs[1][1]


def _design(features: Sequence[Feature]) -> Design:
    if not any(one.in_membership for one in features):
        raise DataError(
            "`use_group` must be True where no feature tells the groups apart, got False.",
            "a repair without the group needs features.",
        )
    return additive_design(features)


def cross_fitted(
    design: Design, rows: Rows, fold: Integers, labels: Booleans, among: Booleans
) -> tuple[AdditiveLogit, Floats]:
    """Return the model of `labels` fitted on the rows `among`, and each row's chance by a model of the other folds."""
    chance = np.empty(labels.size)
    for one in range(FOLDS):
        held_out = np.flatnonzero(fold == one)
        part = fitted_logit(design, np.flatnonzero(among & (fold != one)), labels, rows.weights)
        chance[held_out] = expit(part.log_odds(design.table, held_out))
    return fitted_logit(design, np.flatnonzero(among), labels, rows.weights), chance


def _checked_criterion(criterion: Any, threshold: float | None, outcome: Integers | None) -> str:
    if criterion not in (MEAN, FPR, FNR):
        raise DataError(
            f"`criterion` must be {MEAN!r}, {FPR!r} or {FNR!r}, got {criterion!r}.", "threshold= is for decisions."
        )
    if criterion == MEAN:
        return MEAN if threshold is None else DECISIONS
    if threshold is not None:
        raise DataError(
            f"`threshold` must be left out for {criterion!r}, got {threshold!r}.",
            "mean scores of those people are made equal.",
        )
    if outcome is None:
        raise DataError(
            f"`criterion` {criterion!r} must be of an audit with outcomes, got one without.", "audit with outcome=."
        )
    return str(criterion)


def decision_multiplier(gap_at: Callable[[float], float], target: float) -> float:
    """Return the t nearest to 0 at which the difference of decision rates is within the limit, by bisection.

    The difference falls in jumps: where rows tie, exact equality would take lots.
    """
    start = gap_at(0.0)
    side, near, far = math.copysign(1.0, start), 0.0, 0.01
    while (gap_at(side * far) - target) * start > 0.0:
        near, far = far, 2.0 * far
        if far > LARGEST_MULTIPLIER:
            raise SupportError(
                "The limit is beyond reach: no rule of these scores and features meets it.",
                "allow a larger gap, or use_group=True.",
            )
    for _ in range(60):
        middle = 0.5 * (near + far)
        if (gap_at(side * middle) - target) * start > 0.0:
            near = middle
        else:
            far = middle
    return side * min((near, far), key=lambda t: abs(gap_at(side * t) - target))


def checked_limit(limit: Any) -> float:
    """Return the largest gap that is allowed, as a number."""
    is_number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
    if not is_number or not 0.0 <= limit < 1.0:
        raise DataError(f"`limit` must be a number from 0 to below 1, got {limit!r}.", "0 closes the gap.")
    return float(limit)


def _check_scores(scores: Floats, threshold: float | None) -> None:
    if scores.ndim != 1:
        raise DataError("the scores to repair must be of two outcomes, got more.", "repair one of the outcomes.")
    if threshold is not None and not 0.0 < threshold < 1.0:
        raise DataError(f"`threshold` must lie between 0 and 1, got {threshold!r}.", "0.5 is accuracy.")
    if np.isin(scores, (0.0, 1.0)).all():
        raise DataError(
            "the scores to repair must not all be 0 or 1: decisions cannot be tilted.",
            "audit the scores behind them, and repair with threshold=.",
        )
    if scores.min() == scores.max():
        raise DataError("the scores to repair must vary, got a constant model.", "there is nothing to repair.")
