"""What is measured of scores, or decisions, where a repair is judged.

All have influence functions, so that any two scores of the same rows can be compared in pairs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tiltlens.estimators import error_rates, outputs
from tiltlens.estimators.estimate import HasInterval, Normal
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


class Measured(NamedTuple):
    """Some scores of these rows, and what is measured of them."""

    judged: Judged
    scores: Floats
    found: Quantities

    @property
    def are_decisions(self) -> bool:
        """Whether all scores are 0 or 1."""
        return _are_decisions(self.scores)

    def change(self, old: Measured) -> dict[str, Normal]:
        """Return what both have, less that of `old`: errors are of the same rows."""
        unseen = self._unseen(old)
        return {
            name: difference(new, old.found[name]).with_extra_se(*unseen.get(name, ()))
            for name, new in self.found.items()
            if name in old.found
        }

    def _unseen(self, old: Measured) -> dict[str, tuple[float, ...]]:
        """Return errors of changed decisions that rows do not show, where nobody's has changed but somebody's might."""
        if (self.scores == old.scores).all():
            return {}
        rows, tau = self.judged.rows, self.judged.threshold
        changed = ((self.scores >= tau) != (old.scores >= tau)).astype(np.float64)
        of_groups = [
            outputs.unseen_mean_se(mean, rows.independent(who))
            for who, mean in ((True, rows.mean0(changed)), (False, rows.mean1(changed)))
        ]
        found = {"decision_gap": tuple(of_groups)}
        if self.are_decisions and old.are_decisions:
            found["gap"] = found["decision_gap"]
        share = float(rows.weights @ rows.audited) / float(rows.weights.sum())
        return found | {"accuracy": (share * of_groups[0], (1.0 - share) * of_groups[1])}


def measured(judged: Judged, scores: Floats) -> Measured:
    """Return what is measured of scores; what is not defined, or would be of fewer than ten people, is left out."""
    rows, outcome = judged.rows, judged.outcome
    one = outputs.Scores.of(rows, scores)
    found = {"gap": outputs.gap(rows, one)} | _ratio(rows, one)
    found["decision_gap"] = decision_gap(rows, scores >= judged.threshold)
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
