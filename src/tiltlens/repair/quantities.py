"""What is measured of scores, or decisions, where a repair is judged.

All have influence functions, so that any two scores of the same rows can be compared in pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tiltlens.estimators import error_rates, outputs
from tiltlens.estimators.estimate import Estimate, HasInterval, Normal, Proportion, quantile
from tiltlens.estimators.feature_gap import cell_sums_of
from tiltlens.estimators.influence import (
    Booleans,
    InfluenceEstimate,
    Integers,
    Rows,
    combined,
    overall_mean,
    summed_by_cluster,
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


@dataclass(frozen=True, slots=True)
class RateSum:
    """A sum of rates, each times a factor: value ± z·se, where Wilson's interval replaces the normal one of each rate.

    Of two independent rates it is Newcombe's interval of their difference (1998, method 10).
    """

    value: float
    se: float
    rates: Sequence[tuple[float, Proportion]]

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the value with its two-sided interval, which has a width where nobody, or everybody, is counted."""
        z = quantile(confidence)
        squares = np.full(2, (z * self.se) ** 2)
        for factor, rate in self.rates:
            found = rate.estimate(confidence)
            reach = np.array([rate.value - (found.low or 0.0), (found.high or 0.0) - rate.value])
            normal = z * z * rate.value * (1.0 - rate.value) / rate.size
            squares += factor**2 * ((reach if factor > 0.0 else reach[::-1]) ** 2 - normal)
        below, above = np.sqrt(np.maximum(squares, 0.0)).tolist()
        return Estimate(self.value, self.value - below, self.value + above)


class Measured(NamedTuple):
    """Some scores of these rows, and what is measured of them."""

    judged: Judged
    scores: Floats
    found: Quantities

    @property
    def are_decisions(self) -> bool:
        """Whether all scores are 0 or 1."""
        return _are_decisions(self.scores)

    def estimates(self) -> dict[str, HasInterval]:
        """Return every quantity with its interval."""
        found: dict[str, HasInterval] = {}
        for name, one in self.found.items():
            counted = self._counted(name)
            rates = [(factor, self._rate(who, counted)) for factor, who in self._cells(name)]
            found[name] = RateSum(one.value, one.se, rates)
        return found

    def change(self, old: Measured) -> dict[str, HasInterval]:
        """Return what both have, less that of `old`: errors are of the same rows."""
        found: dict[str, HasInterval] = {}
        for name, one in self.found.items():
            if name in old.found:
                moved = difference(one, old.found[name])
                now, then = self._counted(name), old._counted(name)
                cells = self._cells(name) if self.judged.moves and old._cells(name) else []
                rates = [(factor, self._rate(who, now & ~then)) for factor, who in cells]
                rates += [(-factor, self._rate(who, then & ~now)) for factor, who in cells]
                found[name] = RateSum(moved.value, moved.se, rates)
        return found

    def _counted(self, name: str) -> Booleans:
        """Return which rows are decided 1; for accuracy which decisions are right."""
        decided = np.asarray(self.scores >= self.judged.threshold)
        if name != "accuracy" or self.judged.outcome is None:
            return decided
        return np.asarray(decided == (self.judged.outcome == error_rates.WITH))

    def _rate(self, who: Booleans, counted: Booleans) -> Proportion:
        rows = self.judged.rows
        weights = np.where(who, rows.weights, 0.0)
        return Proportion(float(weights @ counted / weights.sum()), rows.independent(bool(rows.audited[who][0]), who))

    def _cells(self, name: str) -> list[tuple[float, Booleans]]:
        """Return whose rates of decisions a quantity is a sum of, with their factors; none of mean scores."""
        rows = self.judged.rows
        outcome = rows.single_cell if self.judged.outcome is None else self.judged.outcome
        factors, who = (1.0, -1.0), np.ones(rows.audited.size, dtype=np.bool_)
        if name == "calibration_difference" or not (name in ("accuracy", "decision_gap") or self.are_decisions):
            return []
        if name == "impact_ratio":
            slope = (-1.0 if self.judged.favours_low else 1.0) / rows.mean1(_favourable(self.judged, self.scores))
            factors = (slope, -slope * self.found[name].value)
        elif name == "fpr_difference":
            who = outcome == error_rates.WITHOUT
        elif name == "fnr_difference":
            factors, who = (-1.0, 1.0), outcome == error_rates.WITH
        elif name == "accuracy":
            who, share = outcome != error_rates.UNKNOWN, float(rows.weights @ rows.audited / rows.weights.sum())
            factors = (share, 1.0 - share)
        return [(factor, who & mine) for factor, mine in zip(factors, (rows.audited, ~rows.audited), strict=True)]


def measured(judged: Judged, scores: Floats) -> Measured:
    """Return what is measured of scores; what is not defined, or would be of fewer than ten people, is left out."""
    rows, outcome = judged.rows, judged.outcome
    one = outputs.Scores.of(rows, scores)
    found = {"gap": outputs.gap(rows, one)} | _ratio(rows, outputs.Scores.of(rows, _favourable(judged, scores)))
    found["decision_gap"] = decision_gap(rows, scores >= judged.threshold)
    if judged.factors is not None:
        found["exempt_gap"] = equal_gap(rows, judged.factors, scores)
    if outcome is None:
        return Measured(judged, scores, found)
    if (people_with_outcomes(rows, outcome) >= MINIMUM_ROWS).all():
        sums = cell_sums_of(rows, scores, outcome, 3)
        found["fpr_difference"] = error_rates.false_positive_rate(rows, scores, outcome, sums).influence
        found["fnr_difference"] = error_rates.false_negative_rate(rows, scores, outcome, sums).influence
        found["calibration_difference"] = error_rates.calibration_in_the_large(rows, scores, outcome, sums).influence
    return Measured(judged, scores, found | _accuracy(judged, scores, outcome))


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


def _favourable(judged: Judged, scores: Floats) -> Floats:
    """Return the scores of the outcome that people want."""
    return 1.0 - scores if judged.favours_low else scores


def _mean(rows: Rows, x: Floats, chosen: Booleans) -> InfluenceEstimate:
    """Return the mean over chosen rows of both groups."""
    return overall_mean(np.where(chosen, rows.weights, 0.0), x, rows.clusters)


def _ratio(rows: Rows, one: outputs.Scores) -> Quantities:
    p, p1 = (outputs.group_rate(rows, one, who) for who in (True, False))
    if p1.value <= SMALLEST_SHARE:
        return {}
    ratio = p.value / p1.value
    return {"impact_ratio": combined(ratio, [(1.0 / p1.value, p), (-ratio / p1.value, p1)])}
