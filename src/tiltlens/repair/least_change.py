"""The least change of the scores under linear constraints: a tilt W'_y ∝ W_y·exp(−Σ_c t_c·a_c(x)·[y = y_c]).

It has the least E[KL(W'‖W)] of all W' whose gaps are within a limit (Csiszár 1975; Alghamdi et al. 2022). See
docs/howto/mitigation.md; `multipliers` finds t.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit, rel_entr, softmax

from tiltlens.estimators.influence import Integers
from tiltlens.paper.checks import Floats


def gradient(p0: Floats, p1: Floats, shares: tuple[float, float]) -> Floats:
    """Return a = p0/q0 − p1/q1."""
    return np.asarray(p0 / shares[0] - p1 / shares[1])


def log_scores(scores: Floats) -> Floats:
    """Return what a tilt shifts: logit W(1|x) of (n,) scores of two outcomes, log W of (n, K)."""
    if scores.ndim == 1:
        return np.asarray(logit(scores))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(scores))


def shifts(multipliers: Floats, gradients: Floats, classes: Integers, outcomes: int) -> Floats:
    """Return Σ_c t_c·a_c: (n,) for two outcomes, where each constrains the second; else (n, K), by class."""
    if outcomes == 2:
        return np.asarray(multipliers @ gradients)
    shift = np.zeros((gradients.shape[1], outcomes))
    for t, a, y in zip(multipliers.tolist(), gradients, classes.tolist(), strict=True):
        shift[:, y] += t * a
    return shift


def shifted(logs: Floats, shift: Floats | float) -> Floats:
    """Return the scores of shifted `log_scores`; probabilities of 0 stay 0."""
    return np.asarray(expit(logs - shift) if logs.ndim == 1 else softmax(logs - shift, axis=1))


def tilted_score(scores: Floats, shift: Floats | float) -> Floats:
    """Return the tilted scores, logit W' = logit W − shift for two outcomes; scores of 0 and 1 do not move."""
    return shifted(log_scores(scores), shift)


def repaired(scores: Floats, shift: Floats | float, threshold: float | None = None) -> Floats:
    """Return the tilted scores; with a threshold τ decisions, 1 where W − τ ≥ shift."""
    if threshold is None:
        return tilted_score(scores, shift)
    return np.asarray(scores - threshold >= shift, dtype=np.float64)


def nats_moved(before: Floats, after: Floats, weights: Floats) -> float:
    """Return E[KL(W'‖W)] of (n,) scores of two outcomes, or of (n, K)."""
    if before.ndim == 1:
        moved = rel_entr(after, before) + rel_entr(1.0 - after, 1.0 - before)
    else:
        moved = rel_entr(after, before).sum(axis=1)
    return float(weights @ moved / weights.sum())
