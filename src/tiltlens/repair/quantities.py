"""What is measured of scores, or decisions, where a repair is judged.

All have influence functions, so that any two scores of the same rows can be compared in pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tiltlens.estimators import error_rates, outputs
from tiltlens.estimators.estimate import Difference, HasInterval, Normal, Proportion
from tiltlens.estimators.feature_gap import cell_sums_of
from tiltlens.estimators.influence import (
    Booleans,
    InfluenceEstimate,
    Integers,
    Rows,
    combined,
    overall_mean,
    summed_by_cluster,
    sums_by,
)
from tiltlens.limits import MINIMUM_ROWS, SMALLEST_SHARE
from tiltlens.paper.checks import Floats

Quantities = dict[str, InfluenceEstimate]
ENDS = ("", "_low", "_high")


class Judged(NamedTuple):
    """Rows on which scores are judged: the codes of their outcomes, None where none are given, and the threshold."""

    rows: Rows
    outcome: Integers | None
    threshold: float
    favours_low: bool = False  # people want the outcome 0: ratios are of it
    moves: bool = True  # other people's decisions may change, where those of these rows do not
    factors: Floats | None = None  # the exempt factors as columns


class Measured(NamedTuple):
    """Some scores of these rows, what is measured of them, and the laws of it that are not normal."""

    judged: Judged
    scores: Floats
    found: Quantities
    laws: Mapping[str, HasInterval]
    cost: Floats | float = 1.0  # of a wrong decision, where accuracy is at a cost

    @property
    def are_decisions(self) -> bool:
        """Whether all scores are 0 or 1."""
        return _are_decisions(self.scores)

    def law(self, name: str) -> HasInterval:
        """Return a quantity with its interval, as an audit has it."""
        return self.laws.get(name, self.found[name].normal())

    def change(self, old: Measured) -> dict[str, HasInterval]:
        """Return what both have, less that of `old`: errors are of the same rows."""
        rows, outcome = self.judged.rows, self.judged.outcome
        found: dict[str, HasInterval] = {}
        for name in self.found.keys() & old.found.keys():
            found[name] = difference(self.found[name], old.found[name])
        if not self.judged.moves:
            return {name: found[name] for name in self.found if name in found}
        now, then = (one.scores >= self.judged.threshold for one in (self, old))
        cells = {"decision_gap": np.ones(rows.audited.size, dtype=np.bool_)}
        if self.are_decisions and old.are_decisions:
            cells["gap"] = cells["decision_gap"]
            if "impact_ratio" in found:  # how alike two ratios of few decisions err is not seen
                found["impact_ratio"] = Difference(self.law("impact_ratio"), old.law("impact_ratio"))
            for name, y in (("fpr_difference", error_rates.WITHOUT), ("fnr_difference", error_rates.WITH)):
                cells |= {} if outcome is None else {name: outcome == y}
        for name in cells.keys() & found.keys():
            who = (cells[name] & rows.audited, cells[name] & ~rows.audited)
            first, second = (_moved(rows, rows.weights * mine, now, then) for mine in who)
            found[name] = Difference(second, first) if name == "fnr_difference" else Difference(first, second)
        if outcome is not None and "accuracy" in found:
            y = outcome == error_rates.WITH
            weights = rows.weights * self.cost * (outcome != error_rates.UNKNOWN)
            found["accuracy"] = _moved(rows, weights, now == y, then == y)
        return {name: found[name] for name in self.found if name in found}


def _moved(rows: Rows, weights: Floats, now: Booleans, then: Booleans) -> Difference:
    """Return the change of a rate: the share of people that have it now alone, less the share that had it then alone.

    Both have Wilson's interval, so that there is a width where nobody changes. Shares of one sample are negatively
    correlated.
    """
    up, down = (float(weights @ one / weights.sum()) for one in (now & ~then, then & ~now))
    variance = overall_mean(weights, now.astype(np.float64) - then, rows.clusters).variance
    own = weights if rows.clusters is None else sums_by(rows.clusters, weights)
    size = (up + down - (up - down) ** 2) / variance if variance > 0.0 else float(own.sum() ** 2 / (own @ own))
    correlation = -math.sqrt(up * down / ((1.0 - up) * (1.0 - down))) if max(up, down) < 1.0 else 0.0
    return Difference(Proportion(up, size), Proportion(down, size), correlation)


def measured(judged: Judged, scores: Floats) -> Measured:
    """Return what is measured of scores; what is not defined, or would be of fewer than ten people, is left out."""
    rows, outcome, decided = judged.rows, judged.outcome, np.asarray(scores >= judged.threshold, dtype=np.float64)
    one, favourable = (outputs.Scores.of(rows, x) for x in (scores, 1.0 - scores if judged.favours_low else scores))
    found = {"gap": outputs.gap(rows, one)} | _ratio(rows, favourable)
    found["decision_gap"] = decision_gap(rows, decided > 0.0)
    laws: dict[str, HasInterval] = {"gap": outputs.gap_law(rows, one)}
    laws["decision_gap"] = outputs.gap_law(rows, outputs.Scores.of(rows, decided))
    if "impact_ratio" in found:
        laws["impact_ratio"] = outputs.impact_ratio(rows, favourable)
    if judged.factors is not None:
        found["exempt_gap"] = equal_gap(rows, judged.factors, scores)
    if outcome is None:
        return Measured(judged, scores, found, laws)
    if (people_with_outcomes(rows, outcome) >= MINIMUM_ROWS).all():
        sums = cell_sums_of(rows, scores, outcome, 3)
        pairs = {
            "fpr_difference": error_rates.false_positive_rate(rows, scores, outcome, sums),
            "fnr_difference": error_rates.false_negative_rate(rows, scores, outcome, sums),
            "calibration_difference": error_rates.calibration_in_the_large(rows, scores, outcome, sums),
        }
        found |= {name: pair.influence for name, pair in pairs.items()}
        laws |= {name: pair.difference for name, pair in pairs.items()}
    of_outcomes, known = _accuracy(judged, scores, outcome), outcome != error_rates.UNKNOWN
    people = sum(rows.independent(who, known) for who in (True, False))
    for name, rate in of_outcomes.items():
        if name not in ("log_loss", "brier"):  # Wilson's, of as many people as its error says
            size = rate.value * (1.0 - rate.value) / rate.variance if rate.variance > 0.0 else people
            laws[name] = Proportion(rate.value, size)
    return Measured(judged, scores, found | of_outcomes, laws)


def people_with_outcomes(rows: Rows, outcome: Integers) -> Integers:
    """Return how many rows of the audited and the reference group have the outcome 0 and 1, (2, 2)."""
    codes = (error_rates.WITHOUT, error_rates.WITH)
    return np.array([[int((who & (outcome == y)).sum()) for y in codes] for who in (rows.audited, ~rows.audited)])


def _accuracy(judged: Judged, scores: Floats, outcome: Integers) -> Quantities:
    """Return accuracy at the threshold; of scores also the AUC of all and of each group, log-loss and Brier score."""
    rows, known = judged.rows, outcome != error_rates.UNKNOWN
    y = (outcome == error_rates.WITH).astype(np.float64)
    if int(known.sum()) < MINIMUM_ROWS:
        return {}
    found = {"accuracy": _mean(rows, ((scores >= judged.threshold) == y).astype(np.float64), known)}
    if _are_decisions(scores):
        return found
    share, people = rows.weights / rows.weights.sum(), people_with_outcomes(rows, outcome)
    whose = (
        ("auc", share, people.sum(axis=0)),
        ("auc_audited", rows.audited_share, people[0]),
        ("auc_reference", rows.reference_share, people[1]),
    )
    found |= {name: area(rows, scores, outcome, own) for name, own, count in whose if count.min() >= MINIMUM_ROWS}
    safe = np.clip(scores, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
    found["log_loss"] = _mean(rows, -np.where(y > 0, np.log(safe), np.log1p(-safe)), known)
    found["brier"] = _mean(rows, (scores - y) ** 2, known)
    return found


def decision_gap(rows: Rows, decided: Booleans) -> InfluenceEstimate:
    """Return the difference of the groups' decision rates."""
    return outputs.gap(rows, outputs.Scores.of(rows, decided.astype(np.float64)))


def equal_gap(rows: Rows, factors: Floats, scores: Floats) -> InfluenceEstimate:
    """Return the gap at equal exempt factors: the coefficient of the group beside their columns in least squares.

    It is c_E of the audit, E[(S̄ − e)·W]/E[e(1 − e)] with e = P(audited|E), where the columns hold e or E[W|E].
    """
    root = np.sqrt(rows.weights)
    others, mine = root[:, None] * np.column_stack([np.ones(root.size), factors]), root * rows.audited
    left, score = (y - others @ np.linalg.lstsq(others, y)[0] for y in (mine, root * scores))
    spread = float(left @ left)
    value = float(left @ score) / spread
    return InfluenceEstimate(value, (summed_by_cluster(rows.clusters, left * (score - value * left) / spread),))


def accuracy_at(threshold: float, rows: Rows, decided: Booleans, outcome: Integers) -> InfluenceEstimate:
    """Return the share of right decisions, people with the outcome counting 1 − τ and others τ.

    A missed outcome then costs (1 − τ)/τ times a false alarm, as decisions from the score τ on are best at; at ½ it is
    the plain accuracy.
    """
    y = outcome == error_rates.WITH
    cost = np.where(y, 1.0 - threshold, threshold) * (outcome != error_rates.UNKNOWN)
    return overall_mean(rows.weights * cost, (decided == y).astype(np.float64), rows.clusters)


def area(rows: Rows, scores: Floats, outcome: Integers, share: Floats) -> InfluenceEstimate:
    """Return the area under the curve of people who have these shares."""
    _, place = np.unique(scores, return_inverse=True)
    found, influence = error_rates.area_under_curve(place, share, outcome)
    return InfluenceEstimate(found, (summed_by_cluster(rows.clusters, share * influence),))


def difference(new: InfluenceEstimate, old: InfluenceEstimate) -> Normal:
    """Return new − old of the same rows."""
    return combined(new.value - old.value, [(1.0, new), (-1.0, old)]).normal()


def columns(name: str, one: HasInterval | None, confidence: float) -> dict[str, Any]:
    """Return value and ends as columns of a table, None where there is none."""
    if one is None:
        return {f"{name}{end}": None for end in ENDS}
    found = one.estimate(confidence)
    return dict(zip((f"{name}{end}" for end in ENDS), (found.value, found.low, found.high), strict=True))


def _are_decisions(scores: Floats) -> bool:
    return bool(np.isin(scores, (0.0, 1.0)).all())


def _mean(rows: Rows, x: Floats, chosen: Booleans) -> InfluenceEstimate:
    """Return the mean over chosen rows of both groups."""
    return overall_mean(np.where(chosen, rows.weights, 0.0), x, rows.clusters)


def _ratio(rows: Rows, one: outputs.Scores) -> Quantities:
    p, p1 = (outputs.group_rate(rows, one, who) for who in (True, False))
    if p1.value <= SMALLEST_SHARE:
        return {}
    ratio = p.value / p1.value
    return {"impact_ratio": combined(ratio, [(1.0 / p1.value, p), (-ratio / p1.value, p1)])}
