"""Audited rows → the least change of their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from tiltlens.errors import DataError, SupportError
from tiltlens.estimators.influence import Rows
from tiltlens.limits import FOLDS, LARGEST_MULTIPLIER
from tiltlens.models.features import Feature
from tiltlens.models.membership import row_folds
from tiltlens.paper.checks import Floats
from tiltlens.repair.additive import AdditiveLogit, additive_encoding, fitted_logit
from tiltlens.repair.least_change import multiplier, nats_moved, tilted_score
from tiltlens.repair.score_tilt import DECISIONS, MEAN, ScoreTilt, gradient, hashed_rows

REGULATED = "the group itself is needed for every new row: its use at prediction time may be regulated"
TOUCHED = "the sensitive attribute was used to fit the membership model and the multiplier, not to repair new rows"


def score_tilt(
    groups: tuple[str, str],
    rows: Rows,
    features: Sequence[Feature],
    scores: Floats,
    limit: float = 0.0,
    use_group: bool = False,
    threshold: float | None = None,
    seed: int = 0,
) -> ScoreTilt:
    """Return the tilt of two outcomes' scores W(1|x) after which the gap of `groups` is no larger than `limit`.

    The multiplier is solved on the rows' own group means, with chances of models that have not seen the row.
    """
    target_size = checked_limit(limit)
    _check_scores(scores, threshold)
    share = float(np.dot(rows.weights, rows.audited) / rows.weights.sum())
    model, chance = (None, rows.audited.astype(np.float64)) if use_group else _membership(rows, features, seed)
    a = gradient(chance, share)
    kind = MEAN if threshold is None else DECISIONS

    def gap_at(t: float) -> float:
        after = _after(scores, t * a, threshold)
        return rows.mean0(after) - rows.mean1(after)

    before = gap_at(0.0)
    t = 0.0
    if abs(before) > target_size:
        target = math.copysign(target_size, before)
        t = multiplier(gap_at, target) if threshold is None else decision_multiplier(gap_at, target)
    after = _after(scores, t * a, threshold)
    nats = nats_moved(scores, after, rows.weights) if threshold is None else None
    notes = [REGULATED if use_group else TOUCHED]
    notes += [f"nothing to do: the gap is {before:+.4f}, no larger than the limit"] if not t else []
    return ScoreTilt(
        kind,
        threshold,
        target_size,
        use_group,
        t,
        share,
        groups[0],
        groups[1],
        before,
        gap_at(t),
        nats,
        model,
        hashed_rows({} if use_group else additive_encoding(features)[2], scores, rows.audited),
        tuple(notes),
    )


def _after(scores: Floats, shift: Floats, threshold: float | None) -> Floats:
    if threshold is None:
        return tilted_score(scores, shift)
    return np.asarray((scores - threshold > shift).astype(np.float64))


def _membership(rows: Rows, features: Sequence[Feature], seed: int) -> tuple[AdditiveLogit, Floats]:
    """Return the model fitted on all rows, and each row's chance by a model of the other folds."""
    if not any(one.in_membership for one in features):
        raise DataError(
            "`use_group` must be True where no feature tells the groups apart, got False.",
            "a repair without the group needs features.",
        )
    encoder, texts, table = additive_encoding(features)
    fold = row_folds(rows, FOLDS, seed)
    chance = np.empty(rows.audited.size)
    for one in range(FOLDS):
        mine = np.flatnonzero(fold == one)
        others = np.flatnonzero(fold != one)
        part = fitted_logit(encoder, texts, table, others, rows.audited, rows.weights)
        chance[mine] = expit(part.log_odds(table, mine))
    everyone = np.arange(rows.audited.size)
    return fitted_logit(encoder, texts, table, everyone, rows.audited, rows.weights), chance


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
