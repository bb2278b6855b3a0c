"""The smallest change of scores under linear constraints: a tilt W'_y ∝ W_y·exp(−Σ_c t_c·a_c(x)·[y = y_c]).

It minimises E[KL(W'‖W)] over all W' with |gap_c| ≤ limit for every constraint c (Csiszár 1975; Alghamdi et al. 2022).
The multipliers t minimise the dual E[log Σ_y W_y·exp(−Σ_c t_c·a_c·[y = y_c])] + limit·|t|₁: gap_c = limit·sign(t_c)
where t_c ≠ 0, and |gap_c| ≤ limit where t_c = 0. These conditions are solved directly, with gaps of the rows' own
groups, because the probabilities in a_c come from models that may be wrong. Decisions, 1 where W − τ ≥ Σ_c t_c·a_c,
are the limit of tilted scores with log-odds (W − τ)/h as h falls to 0; their dual is
E[max(W − τ − Σ_c t_c·a_c, 0)] + limit·|t|₁. See docs/howto/mitigation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, logsumexp, rel_entr, softmax

from tiltlens._estimators.influence import Integers, overall_mean
from tiltlens._limits import DAMPED_STEPS, REPAIRED, SURELY_BEYOND
from tiltlens.errors import SupportError
from tiltlens.paper.checks import Floats

LARGEST_MULTIPLIER = 50.0  # of a tilt: beyond it all scores are practically 0 or 1
ONE_JUMP = 1e-9  # relative distance of multipliers that differ only by rounding
MOST_CHANGE = 2.0  # times the change that suffices if propensities are right; beyond it, multipliers fit noise
SWEEPS = 20  # over all constraints; two or three suffice unless no tilt meets them all
WIDEST_DECISION = 0.1  # initial width, in score units, over which decisions are smoothed
DECISION_WIDTHS = 12  # each a third of the previous one; the last is below the spacing of scores
FEW_UNDECIDED = 2.0  # Σ W'(1 − W'): smoothed decisions with less are practically decisions


def gradient(p0: Floats, p1: Floats, shares: tuple[float, float]) -> Floats:
    """Return a = p0/q0 − p1/q1."""
    return np.asarray(p0 / shares[0] - p1 / shares[1])


def log_scores(scores: Floats) -> Floats:
    """Return the quantities that a tilt shifts: logit W(1|x) for (n,) scores of two outcomes, log W for (n, K)."""
    if scores.ndim == 1:
        return np.asarray(logit(scores))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(scores))


def shifts(multipliers: Floats, gradients: Floats, classes: Integers, outcomes: int) -> Floats:
    """Return Σ_c t_c·a_c: (n,) for two outcomes, where every constraint is on the second; else (n, K), by class."""
    if outcomes == 2:
        return np.asarray(multipliers @ gradients)
    shift = np.zeros((gradients.shape[1], outcomes))
    for t, a, y in zip(multipliers.tolist(), gradients, classes.tolist(), strict=True):
        shift[:, y] += t * a
    return shift


def shifted(logs: Floats, shift: Floats | float) -> Floats:
    """Return the scores after a shift of `log_scores`; probabilities of 0 stay 0."""
    return np.asarray(expit(logs - shift) if logs.ndim == 1 else softmax(logs - shift, axis=1))


def repaired(scores: Floats, shift: Floats | float, threshold: float | None = None) -> Floats:
    """Return the tilted scores or, with a threshold τ, decisions: 1 where W − τ ≥ shift.

    For two outcomes logit W' = logit W − shift, so scores of 0 and 1 do not change.
    """
    if threshold is None:
        return shifted(log_scores(scores), shift)
    return np.asarray(scores - threshold >= shift, dtype=np.float64)


def kl_change(before: Floats, after: Floats, weights: Floats) -> float:
    """Return E[KL(W'‖W)] of scores of shape (n,) (two outcomes) or (n, K)."""
    if before.ndim == 1:
        moved = rel_entr(after, before) + rel_entr(1.0 - after, 1.0 - before)
    else:
        moved = rel_entr(after, before).sum(axis=1)
    return float(weights @ moved / weights.sum())


@dataclass(frozen=True, slots=True, eq=False)
class GapProblem:
    """Scores, and the gaps that a tilt must bring within a limit."""

    logs: Floats  # from `log_scores`: (n,), or (n, K)
    # A_c of each constraint, (C, n), and the class whose score it constrains
    gradients: Floats
    classes: Integers
    # (C, n): gap_c = Σ_n measures_cn·W'_n of its class, from the rows' own groups; `modelled`: from the probabilities
    measures: Floats
    modelled: Floats
    shares: Floats  # the share of each row in all weights, (n,)
    limit: float
    names: Sequence[str]  # names of the gaps, for messages
    # Indices of constraints on all classes with the same a: their gaps sum to 0, so a constant may be added to t
    wholes: Sequence[Integers] = ()
    # The cluster of each row, numbered from 0; None if each row is a cluster of its own
    clusters: Integers | None = None

    def scores(self, t: Floats) -> Floats:
        """Return the tilted scores."""
        return shifted(self.logs, shifts(t, self.gradients, self.classes, self.outcomes))

    @property
    def outcomes(self) -> int:
        """The number of classes."""
        return 2 if self.logs.ndim == 1 else self.logs.shape[1]

    def gaps(self, t: Floats) -> Floats:
        """Return the gaps of the tilted scores."""
        return gaps_of(self.scores(t), self.measures, self.classes)

    def errors(self, scores: Floats) -> Floats:
        """Return the standard errors of the gaps of given scores, as differences of two means."""
        errors = []
        for measure, y in zip(self.measures, self.classes.tolist(), strict=True):
            own, first = scores if scores.ndim == 1 else scores[:, y], measure > 0.0
            means = [float(np.abs(measure * group) @ own) for group in (first, ~first)]
            shares, deviations = np.abs(measure), np.sign(measure) * (own - np.where(first, *means))
            mean = overall_mean(shares, deviations, self.clusters, first)
            errors.append(float(shares.sum()) * math.sqrt(mean.variance))
        return np.array(errors)

    def cost(self, t: Floats) -> float:
        """Return E[KL(W'‖W)] = −E[Σ_y W'_y·shift_y + log Σ_y W_y·exp(−shift_y)]."""
        shift = shifts(t, self.gradients, self.classes, self.outcomes)
        after = shifted(self.logs, shift)
        if after.ndim == 1:
            moves = np.isfinite(self.logs)
            logs = np.where(moves, self.logs, 0.0)
            mass = np.logaddexp(0.0, logs - shift) - np.logaddexp(0.0, logs)
            return float(self.shares @ np.where(moves, -after * shift - mass, 0.0))
        mass = logsumexp(self.logs - shift, axis=1) - logsumexp(self.logs, axis=1)
        return float(-self.shares @ ((after * shift).sum(axis=1) + mass))

    def gaps_and_slopes(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the gaps and ∂gap_c/∂t_d = −Σ measures_c·W'_yc·([yc = yd] − W'_yd)·a_d."""
        after = self.scores(t)
        gaps = gaps_of(after, self.measures, self.classes)
        if after.ndim == 1:
            return gaps, -(self.measures * (after * (1.0 - after))) @ self.gradients.T
        own = after.T[self.classes]  # (C, n): the score of each constraint
        moved = (self.measures * own) @ (self.gradients * own).T
        same = self.classes[:, None] == self.classes[None, :]
        return gaps, moved - np.where(same, (self.measures * own) @ self.gradients.T, 0.0)


def gaps_of(scores: Floats, measures: Floats, classes: Integers) -> Floats:
    """Return the gap of each constraint."""
    if scores.ndim == 1:
        return np.asarray(measures @ scores)
    return np.asarray((measures * scores.T[classes]).sum(axis=1))


def score_multipliers(problem: GapProblem, start: Floats | None = None) -> Floats:
    """Return the multipliers of a tilt of scores.

    A single one is bracketed. Several start from the minimum of the dual, where all conditions are met if the
    probabilities are right; Newton's method then solves the conditions for the rows' own groups. Some mixtures of gaps
    hardly respond to any multiplier: if solving for the own groups takes more than twice the change, or is impossible,
    the dual's multipliers are returned, provided that the own gaps are then within sampling error.
    """
    zeros = np.zeros(len(problem.names))
    if len(problem.names) == 1:
        return _solve_in_turn(problem, zeros)
    if _worst(problem, zeros) <= REPAIRED:
        return zeros
    first = _solve(replace(problem, measures=problem.modelled), zeros if start is None else start)
    exact = _newton(problem, first)
    is_solved = _worst(problem, exact) <= REPAIRED
    if is_solved and problem.cost(exact) <= MOST_CHANGE * problem.cost(first):
        return exact
    scores = problem.scores(first)
    gaps = gaps_of(scores, problem.measures, problem.classes)
    beyond = np.abs(left_over(first, gaps, problem.limit)) - SURELY_BEYOND * problem.errors(scores)
    if beyond.max() <= 0.0:
        return first
    if is_solved:
        return exact
    worst = int(np.argmax(beyond))
    raise unreachable_limit_error(problem.names[worst], float(gaps[worst]), problem.limit)


def _solve(problem: GapProblem, start: Floats) -> Floats:
    """Return multipliers that meet all conditions, by Newton's method and, if it stalls, one constraint at a time."""
    t = _newton(problem, start)
    for _ in range(SWEEPS):
        if _worst(problem, t) <= REPAIRED:
            return t
        t = _newton(problem, _solve_in_turn(problem, t))
    gaps = problem.gaps(t)
    worst = int(np.argmax(np.abs(left_over(t, gaps, problem.limit))))
    raise unreachable_limit_error(problem.names[worst], float(gaps[worst]), problem.limit)


def _worst(problem: GapProblem, t: Floats) -> float:
    return float(np.abs(left_over(t, problem.gaps(t), problem.limit)).max())


def decision_multipliers(problem: GapProblem, scores: Floats, threshold: float) -> Floats:
    """Return the multipliers of decisions; a single gap is a step function of t, so the step nearest the limit is used.

    Several are traced from smoothed to almost unsmoothed decisions; if rows tie, exact equality would need randomised
    decisions.
    """

    def size(t: Floats) -> float:
        after = repaired(scores, shifts(t, problem.gradients, problem.classes, 2), threshold)
        gaps = gaps_of(after, problem.measures, problem.classes)
        return float(np.abs(left_over(t, gaps, problem.limit)).max())

    if len(problem.names) == 1:
        a, measure = problem.gradients[0], problem.measures[0]
        return np.array([_stepped_root(scores - threshold, a, measure, problem.limit, problem.names[0])])
    if size(np.zeros(len(problem.names))) <= REPAIRED:
        return np.zeros(len(problem.names))
    solutions: list[Floats] = []
    for width in WIDEST_DECISION / 3.0 ** np.arange(DECISION_WIDTHS):
        blurred = replace(problem, logs=(scores - threshold) / width, gradients=problem.gradients / width)
        try:
            solutions.append(score_multipliers(blurred, solutions[-1] if solutions else None))
        except SupportError:
            if not solutions:
                raise
            break
        after = blurred.scores(solutions[-1])
        if float((after * (1.0 - after)).sum()) < FEW_UNDECIDED:
            break
    return min(solutions[::-1], key=size)


def left_over(t: Floats, gaps: Floats, limit: float) -> Floats:
    """Return the violation of each condition: gap_c = limit·sign(t_c) if t_c ≠ 0, |gap_c| ≤ limit if t_c = 0."""
    at_zero = gaps - np.clip(gaps, -limit, limit)
    return np.where(t == 0.0, at_zero, gaps - limit * np.sign(t))


def unreachable_limit_error(name: str, nearest: float, limit: float) -> SupportError:
    """Return the error for a limit that no tilt can reach."""
    return SupportError(
        f"The limit cannot be reached: {name} cannot be brought closer to 0 than {nearest:.3g} (limit {limit:.3g}), "
        "however much the scores change. The group-membership model separates the groups too weakly, or too many "
        "scores are 0 or 1.",
        "allow a larger gap, or repair with use_group=True.",
    )


def _solve_in_turn(problem: GapProblem, start: Floats) -> Floats:
    """Return the multipliers after one pass that solves each constraint with the others fixed."""
    t = start.copy()
    for c, name in enumerate(problem.names):

        def gap_at(value: float, c: int = c) -> float:
            t[c] = value
            return float(problem.gaps(t)[c])

        t[c] = _root(gap_at, problem.limit, name)
    return _centred(problem, t)


def _centred(problem: GapProblem, t: Floats) -> Floats:
    """Return multipliers of the same tilt with the smallest |t|₁, so that their median over the classes is 0."""
    centred = t.copy()
    for whole in problem.wholes:
        centred[whole] -= np.sort(centred[whole])[(whole.size - 1) // 2]
    return centred


def _root(gap_at: Callable[[float], float], limit: float, name: str) -> float:
    """Return the t nearest to 0 with |gap(t)| ≤ `limit`; the gap decreases in t if the membership model is right.

    The root t has the sign of the gap at 0, and is bracketed by doubling.
    """
    start = gap_at(0.0)
    if abs(start) - limit <= REPAIRED:
        return 0.0
    side, near, far = math.copysign(1.0, start), 0.0, 0.125
    target, nearest = side * limit, start
    while (value := gap_at(side * far) - target) * side > 0.0:
        near, far, nearest = far, 2.0 * far, min(nearest, value + target, key=abs)
        if far > LARGEST_MULTIPLIER:
            raise unreachable_limit_error(name, nearest, limit)
    low, high = min(side * near, side * far), max(side * near, side * far)
    return float(brentq(lambda t: gap_at(t) - target, low, high, xtol=1e-14, rtol=1e-14))


def _stepped_root(margin: Floats, a: Floats, measure: Floats, limit: float, name: str) -> float:
    """Return the root for decisions, 1 where margin ≥ t·a: their gap jumps at t = margin/a of each row.

    t lies beyond the first jump that brings the gap within the limit, unless the gap before it is closer to the limit;
    it is halfway to the next jump, so that rounding changes no decision.
    """
    start = float(measure @ (margin >= 0.0))
    if abs(start) - limit <= REPAIRED:
        return 0.0
    side = math.copysign(1.0, start)
    jumps, moved = _jumps(margin, side * a, measure)
    gaps = start + np.cumsum(moved)
    reached = np.flatnonzero(side * gaps <= limit + REPAIRED)
    if not reached.size:
        raise unreachable_limit_error(name, min([start, *gaps.tolist()], key=abs), limit)
    k = int(reached[0])
    before = start if k == 0 else float(gaps[k - 1])
    if abs(before) - limit <= max(abs(float(gaps[k])) - limit, 0.0):
        k -= 1
    if k < 0:
        return 0.0
    following = float(jumps[k + 1]) if k + 1 < jumps.size else LARGEST_MULTIPLIER
    if jumps[k] > 0.0:
        following = min(following, 2.0 * float(jumps[k]))
    return side * 0.5 * (float(jumps[k]) + following)


def _jumps(margin: Floats, a: Floats, measure: Floats) -> tuple[Floats, Floats]:
    """Return the multipliers > 0 at which decisions change, in increasing order, and the change of the gap at each."""
    falls, rises = (a > 0.0) & (margin >= 0.0), (a < 0.0) & (margin < 0.0)
    at = np.flatnonzero(falls | rises)
    at = at[margin[at] / a[at] <= LARGEST_MULTIPLIER]
    at = at[np.argsort(margin[at] / a[at], kind="stable")]
    jump = margin[at] / a[at]
    first = np.flatnonzero(np.diff(jump, prepend=-1.0) > ONE_JUMP * np.maximum(jump, ONE_JUMP))
    return jump[first], np.add.reduceat(np.where(rises[at], measure[at], -measure[at]), first)


def _newton(problem: GapProblem, start: Floats) -> Floats:
    """Improve multipliers by damped Newton steps on the binding conditions; a sign never flips, but may become 0."""
    t = start
    for _ in range(DAMPED_STEPS if t.size > 1 else 0):
        gaps, slopes = problem.gaps_and_slopes(t)
        left = left_over(t, gaps, problem.limit)
        binds = np.flatnonzero((t != 0.0) | (left != 0.0))
        if not binds.size or np.abs(left).max() <= 1e-15:
            break
        step = np.zeros_like(t)
        step[binds] = -np.linalg.lstsq(slopes[np.ix_(binds, binds)], left[binds])[0]
        moved = _halved(problem, t, step, float(np.abs(left).max()))
        if moved is None:
            break
        t = moved
    return t


def _halved(problem: GapProblem, t: Floats, step: Floats, worst: float) -> Floats | None:
    """Return t after the first of step, step/2, … that reduces the largest violation, or None."""
    size = 1.0
    while size > 1e-4:
        new = t + size * step
        if problem.limit > 0.0:
            new = _centred(problem, np.where(t * new < 0.0, 0.0, new))
        if np.abs(new).max() <= LARGEST_MULTIPLIER:
            left = np.abs(left_over(new, problem.gaps(new), problem.limit)).max()
            if left < (1.0 - 1e-4 * size) * worst:
                return new
        size /= 2.0
    return None
