"""What to know of a repair as it was fitted: limits missed, gaps that may be chance, scores that no longer predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiltlens.estimators.error_rates import UNKNOWN, WITH
from tiltlens.estimators.estimate import Proportion, quantile
from tiltlens.estimators.influence import Integers, Rows, overall_mean
from tiltlens.limits import MATERIALITY, MINIMUM_ROWS, REPAIRED, SCORE_TENTHS, SMALLEST_SHARE, SURELY_OFF
from tiltlens.paper.checks import Floats
from tiltlens.repair.constraints import Constraint
from tiltlens.repair.quantities import area

TOGETHER = "people equal in every feature are decided together, so it moves in jumps"


class Fitted(NamedTuple):
    """Scores before and after of the rows of a fit, by models that have not seen them; outcomes where known."""

    before: Floats
    after: Floats
    outcome: Integers | None
    weights: Floats
    clusters: Integers | None


def fit_notes(
    found: Sequence[Constraint], measures: Floats, limit: float, threshold: float | None, fitted: Fitted
) -> list[str]:
    """Return what to know of a repair, by the rows it was fitted on."""
    notes = _missed(found, measures, limit, threshold) + _chance(found, limit)
    if fitted.outcome is None or fitted.before.ndim == 2 or not any(one.multiplier for one in found):
        return notes
    known = fitted.outcome != UNKNOWN
    y = fitted.outcome[known] == WITH
    if min(int(y.sum()), int((~y).sum())) < MINIMUM_ROWS:
        return notes
    clusters = None if fitted.clusters is None else fitted.clusters[known]
    rows = Rows.of(y, fitted.weights[known], clusters)
    before, after = fitted.before[known], fitted.after[known]
    notes += _no_better(rows, before, after, threshold)
    return notes if threshold is None else notes + _calibration(rows, before)


def _missed(found: Sequence[Constraint], measures: Floats, limit: float, threshold: float | None) -> list[str]:
    """Return by how much gaps miss the limit, or are smaller than asked; decisions may by a step of one person."""
    step = 0.0 if threshold is None else len(found) * float(np.abs(measures).max())
    over, error = max(abs(one.gap_after) for one in found) - limit, max(one.se or 0.0 for one in found)
    closer = [one for one in found if one.multiplier and limit - abs(one.gap_after) > REPAIRED + step]
    notes = []
    if closer and threshold is not None:
        gap = f"{100.0 * closer[0].gap_after:+.1f} points (limit {100.0 * limit:g})"
        notes.append(f"{closer[0].named(False)} is closed further than asked, to {gap}: {TOGETHER}")
    if over > REPAIRED + step:
        far = "to close it exactly would take more than twice the change, or cannot be done"
        why = far if threshold is None else TOGETHER if len(found) == 1 else f"{TOGETHER}; or {far}"
        size = f"{over:.4f} beyond the limit on the audited rows (standard error {error:.4f})"
        notes.append(f"the largest difference after is {size}: {why}")
    return notes


def _chance(found: Sequence[Constraint], limit: float) -> list[str]:
    """Return a note where scores move for gaps that are not significantly beyond the limit."""
    moved = [one for one in found if one.multiplier]
    if not moved or any(abs(one.gap_before) - limit > quantile(0.95) * (one.se_before or 0.0) for one in moved):
        return []
    one = max(moved, key=lambda one: abs(one.gap_before))
    gap = f"{100.0 * one.gap_before:+.1f} points (standard error {100.0 * (one.se_before or 0.0):.1f})"
    return [f"the gap before, {gap}, is not significantly beyond the limit: the repair may follow chance"]


def _no_better(rows: Rows, before: Floats, after: Floats, threshold: float | None) -> list[str]:
    """Return a note where repaired scores, unlike those before, predict no better than a constant, which has no gap."""
    outcome, share = np.where(rows.audited, WITH, 1 - WITH), rows.weights / rows.weights.sum()
    old, new = (area(rows, one, outcome, share).normal().estimate(0.95) for one in (before, after))

    def loss(scores: Floats) -> float:
        safe = np.clip(scores, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
        return -float(share @ np.where(rows.audited, np.log(safe), np.log1p(-safe)))

    constant, losses = loss(rows.constant(float(share @ rows.audited))), (loss(before), loss(after))
    is_flat = (old.low or 0.0) > 0.5 >= (new.low or 0.0)
    if not is_flat and (threshold is not None or not losses[0] < constant <= losses[1]):
        return []
    interval = f"{new.value:.3f} (95% CI {new.low:.3f} to {new.high:.3f})"
    of_loss = "" if threshold is not None else f" and the log-loss {losses[1]:.4f} (of a constant {constant:.4f})"
    no_worse = "A constant score also meets this limit, and predicts no worse"
    return [f"after the repair the area under the curve is {interval}{of_loss}. {no_worse}"]


def _calibration(rows: Rows, scores: Floats) -> list[str]:
    """Return a note where scores are not calibrated: another rule of decisions may then be more accurate."""
    cuts = np.quantile(scores, np.arange(1, SCORE_TENTHS) / SCORE_TENTHS)
    tenth, off = np.searchsorted(cuts, scores, side="right"), []
    for one in np.unique(tenth).tolist():
        own = np.where(tenth == one, rows.weights, 0.0)
        score, rate = float(own @ scores / own.sum()), overall_mean(own, rows.audited.astype(np.float64), rows.clusters)
        people = int((own > 0.0).sum())
        size = rate.value * (1.0 - rate.value) / rate.variance if rate.variance > 0.0 else people
        ends = Proportion(rate.value, size).estimate(SURELY_OFF)
        is_within = (ends.low or 0.0) - MATERIALITY <= score <= (ends.high or 0.0) + MATERIALITY
        if people >= MINIMUM_ROWS and not is_within:
            off.append((abs(rate.value - score), score, rate.value))
    if not off:
        return []
    _, score, observed = max(off)
    where = f"where they are {score:.2f} on average, {100.0 * observed:.0f}% have the outcome"
    return [f"the scores are not calibrated: {where}. Recalibrate them first, or a more accurate rule may exist"]
