"""With observed outcomes Y: error rates and calibration of both groups, and the gain from separate models.

Each rate is a mean over some rows of a group, or of pairs of them (the area under the curve), with the influence
function of a ratio. See docs/methods.md, section 3.

With y_s(x) = P(Y=1|x, S=s) and e_ω(x) = P(audited|x) where the audited group has the weight ω, the best blind
prediction is η_ω = e_ω·y_0 + (1 − e_ω)·y_1, and for the squared error (Wang, Hsu, Diaz & Calmon 2021)

    ε(ω) = ω·G_0 + (1 − ω)·G_1 = E_ω[e_ω(1 − e_ω)(y_1 − y_0)²],     G_s = E_s[loss(Y, η_ω) − loss(Y, y_s)].

See docs/methods.md, section 19.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from tiltlens._estimators.estimate import Difference, LogitNormal, MeanLaw, Normal, Proportion, unseen_mean_se
from tiltlens._estimators.feature_gap import CellSums
from tiltlens._estimators.influence import (
    Booleans,
    InfluenceEstimate,
    Integers,
    Rows,
    combine,
    mean_difference,
    mean_law,
    rate_law,
    satterthwaite,
    sums_by,
)
from tiltlens._estimators.outputs import shares_below
from tiltlens._limits import SMALLEST_SHARE
from tiltlens.paper.checks import Floats

WITHOUT, WITH, UNKNOWN = 0, 1, 2  # codes of a row's outcome: Y = 0, Y = 1, not known


@dataclass(frozen=True, slots=True)
class GroupPair:
    """A rate of the audited and of the reference group, and the first minus the second.

    `means` are both groups' rates with their influences, and `unseen` their unseen standard errors.
    """

    audited: MeanLaw
    reference: MeanLaw
    difference: Difference
    means: tuple[InfluenceEstimate, InfluenceEstimate]
    unseen: tuple[float, float]

    @property
    def influence(self) -> InfluenceEstimate:
        """The difference with its influences."""
        return self.means[0].minus(self.means[1])


def false_positive_rate(rows: Rows, score: Floats, outcome: Integers, sums: CellSums) -> GroupPair:
    """Return E_g[W | Y = 0]; `sums`, of all rows by outcome, give the values."""
    return mean_pair(rows, score, outcome == WITHOUT, sums.first[:, WITHOUT] / sums.weight[:, WITHOUT])


def false_negative_rate(rows: Rows, score: Floats, outcome: Integers, sums: CellSums) -> GroupPair:
    """Return E_g[1 − W | Y = 1]."""
    return mean_pair(rows, 1.0 - score, outcome == WITH, 1.0 - sums.first[:, WITH] / sums.weight[:, WITH])


def calibration_in_the_large(rows: Rows, score: Floats, outcome: Integers, sums: CellSums) -> GroupPair:
    """Return E_g[Y − W], which is above 0 if the outcome is more frequent than the scores predict."""
    observed = [WITHOUT, WITH]
    weight = sums.weight[:, observed].sum(axis=1)
    means = (sums.weight[:, WITH] - sums.first[:, observed].sum(axis=1)) / weight
    # E|Y − W| is 0 only if no decision was wrong: then, as with a rate of 0, rows show no error.
    wrong = (sums.first[:, WITHOUT] + sums.weight[:, WITH] - sums.first[:, WITH]) / weight  # E|Y − W|
    errors = unseen_errors(rows, outcome != UNKNOWN, np.minimum(wrong, 0.5))
    return mean_pair(rows, (outcome == WITH) - score, outcome != UNKNOWN, means, errors, least=-1.0)


def predictive_rate(
    rows: Rows, decision: Floats, outcome: Integers, sums: CellSums, decided: int, code: int
) -> GroupPair:
    """Return P_g(Y = `code` | decision = `decided`): predictive values, and rates of false discovery and omission."""
    counts = (sums.first if decided else sums.weight - sums.first)[:, [WITHOUT, WITH]]
    chosen = (decision == decided) & (outcome != UNKNOWN)
    return mean_pair(rows, (outcome == code) * 1.0, chosen, counts[:, code] / counts.sum(axis=1))


def log_loss(rows: Rows, score: Floats, outcome: Integers) -> GroupPair:
    """Return −E_g[Y·log W + (1 − Y)·log(1 − W)]; scores of 0 and 1 must be right."""
    chosen = outcome != UNKNOWN
    right = np.where(outcome == WITH, score, 1.0 - score)
    loss = np.zeros_like(score)
    np.log(right, out=loss, where=chosen)
    return mean_pair(rows, -loss, chosen, None, (0.0, 0.0), most=math.inf)


def unseen_errors(rows: Rows, chosen: Booleans, means: Floats) -> list[float]:
    """Return the unseen error (`unseen_mean_se`) of each group's mean over its chosen rows."""
    return [unseen_mean_se(float(means[k]), rows.independent(k == 0, chosen)) for k in (0, 1)]


def mean_pair(
    rows: Rows,
    x: Floats,
    chosen: Booleans,
    means: Floats | None = None,
    errors: Sequence[float] | None = None,
    least: float = 0.0,
    most: float = 1.0,
) -> GroupPair:
    """Return E_g[x | chosen], IF = [chosen]/P_g(chosen)·(x − E_g[x | chosen]).

    `means` are by default those of the rows, `errors` the unseen.
    """
    part = chosen.astype(np.float64)
    shares = np.array([rows.mean0(part), rows.mean1(part)])
    means = np.array([rows.mean0(part * x), rows.mean1(part * x)]) / shares if means is None else means
    errors = unseen_errors(rows, chosen, means) if errors is None else errors
    # The influence of a ratio of means, [chosen]·(x − mean)/P_g(chosen).
    group_mean, share = (np.where(rows.audited, *of_groups) for of_groups in (means, shares))
    both = _group_means(rows.among(chosen), means, part * (x - group_mean) / share)
    is_rate = least == 0.0 and bool(np.isin(x[chosen], (0.0, 1.0)).all())
    laws = [mean_law(rows, both[k], k == 0, is_rate, (least, most), chosen) for k in (0, 1)]
    return _pair(rows, both, laws, errors)


def _group_means(rows: Rows, values: Floats, influence: Floats) -> list[InfluenceEstimate]:
    """Return both groups' estimators from each row's influence on that of its own group."""
    return [InfluenceEstimate.of_group(rows, float(values[k]), k == 0, influence) for k in (0, 1)]


def _pair(
    rows: Rows, means: Sequence[InfluenceEstimate], laws: Sequence[MeanLaw], errors: Sequence[float]
) -> GroupPair:
    """Return both groups' estimators and their difference; unseen errors are added to normal intervals only."""
    both = zip(laws, errors, strict=True)
    audited, reference = (law.with_extra_se(error) if isinstance(law, Normal) else law for law, error in both)
    difference = mean_difference(rows, means, (audited, reference))
    return GroupPair(audited, reference, difference, (means[0], means[1]), (errors[0], errors[1]))


def area_pair(rows: Rows, score: Floats, outcome: Integers) -> GroupPair:
    """Return P(W > W' | Y = 1, Y' = 0) of two people of one group, ties counted half: the area under the curve.

    If every pair is in order, its error is a binomial bound for as many disjoint pairs as the rarer outcome has people.
    """
    _, rank = np.unique(score, return_inverse=True)
    both = [area_under_curve(rank, share, outcome) for share in (rows.audited_share, rows.reference_share)]
    areas = [area for area, _ in both]
    errors = [
        _unseen_area_error(rows, rank, outcome, group, area) for group, area in zip((True, False), areas, strict=True)
    ]
    means = _group_means(rows.among(outcome != UNKNOWN), np.array(areas), both[0][1] + both[1][1])
    # Near 1 and with few people an area is skewed; where all pairs are in order, log-odds are infinite.
    laws: list[MeanLaw] = []
    for mean, error, group in zip(means, errors, (rows.audited, ~rows.audited), strict=True):
        degrees, people = mean.degrees, int((group & (outcome != UNKNOWN)).sum())
        if rows.clusters is None and mean.se > SMALLEST_SHARE:  # of few people, as of means (29)
            degrees = min(float(satterthwaite(mean.influence, mean.variance, rows=people)), people - 1.0)
        normal = replace(mean.normal(0.0, 1.0), degrees=degrees)
        laws.append(normal if error else LogitNormal(mean.value, mean.law_se, degrees))
    return _pair(rows, means, laws, errors)


def _unseen_area_error(rows: Rows, rank: Integers, outcome: Integers, is_audited: bool, area: float) -> float:
    """Return the unseen standard error of an area, if all people with one outcome are at the same place.

    Unseen people may be anywhere between the places of the lowest and of the highest score of both groups.
    """
    people = [rows.independent(is_audited, outcome == y) for y in (WITHOUT, WITH)]
    # With all pairs in order DeLong’s error is 0; disjoint pairs are independent, hence binomial.
    error, share = unseen_mean_se(area, min(people)), rows.audited_share if is_audited else rows.reference_share
    if error > 0.0:
        return error
    width = int(rank.max()) + 1
    for y, other in ((WITHOUT, WITH), (WITH, WITHOUT)):
        others = np.where(outcome == other, share, 0.0)
        below = shares_below(np.bincount(rank, others, width) / others.sum())
        own = below[rank[(outcome == y) & (share > 0.0)]]
        if np.ptp(own) <= SMALLEST_SHARE:
            error = max(error, max(own[0] - below[0], below[-1] - own[0]) * unseen_mean_se(0.0, people[y]))
    return error if error > SMALLEST_SHARE else 0.0


def area_under_curve(rank: Integers, share: Floats, outcome: Integers) -> tuple[float, Floats]:
    """Return one group's AUC and its influence function (Hájek; DeLong, DeLong & Clarke-Pearson 1988).

    IF = [Y=1]/P(Y=1)·(P(W' < W | Y'=0) − AUC) + [Y=0]/P(Y=0)·(P(W' > W | Y'=1) − AUC).
    """
    with_it, without = (np.where(outcome == y, share, 0.0) for y in (WITH, WITHOUT))
    part, others = float(with_it.sum()), float(without.sum())
    # Hájek’s projection of a U-statistic: compare each row with the distribution of the other outcome.
    below = shares_below(np.bincount(rank, without) / others)[rank]
    above = 1.0 - shares_below(np.bincount(rank, with_it) / part)[rank]
    area = float(with_it @ below) / part
    influence = np.where(with_it > 0, (below - area) / part, 0.0)
    return area, influence + np.where(without > 0, (above - area) / others, 0.0)


@dataclass(frozen=True, slots=True)
class CalibrationCell:
    """People of one group with scores in one range: how many, their mean score, and how often they have Y = 1."""

    people: int
    mean_score: float
    observed: Proportion


def calibration_cells(
    rows: Rows, score: Floats, outcome: Integers, cell: Integers, people: Floats | None = None
) -> list[CalibrationCell]:
    """Return the calibration cell of each code (−1 for none); all rows of a cell must be of one group.

    `people` is the number of people that each row counts as, 1 by default.
    """
    heads = rows.constant(1.0) if people is None else people
    codes = range(int(cell.max(initial=-1)) + 1)
    return [_calibration_cell(rows, score, outcome == WITH, np.where(cell == code, heads, 0.0)) for code in codes]


def _calibration_cell(rows: Rows, score: Floats, has_it: Booleans, heads: Floats) -> CalibrationCell:
    mine = heads > 0.0
    shares = np.where(mine, rows.audited_share + rows.reference_share, 0.0)
    whole, people = float(shares.sum()), round(float(heads.sum()))
    if not people:
        return CalibrationCell(0, 0.0, Proportion(0.0, 1.0))
    rate = float(shares @ has_it) / whole
    deviation = np.where(mine, has_it - rate, 0.0) / whole
    mean = InfluenceEstimate.of(rows.among(mine), rate, deviation, deviation)
    law = rate_law(rows, mean, bool(rows.audited[mine].all()), mine)
    # Never more than the people there are: with few events the variance may come out too small.
    return CalibrationCell(people, float(shares @ score) / whole, replace(law, size=min(law.size, people)))


Bound = Callable[[float, bool], InfluenceEstimate]  # of Γ, and whether it is the upper one


# Where some outcomes were not observed, P(Y = y | score, unobserved) is assumed to lie within ±Γ of
# P(Y = y | score, observed), by group and cell of the score. Cells without enough observed outcomes have no limits but
# 0 and 1. See docs/methods.md, section 18.
def partly_seen_rate(
    rows: Rows, is_audited: bool, x: Floats, outcome: Integers, code: int, cell: Integers, fewest: int
) -> Bound:
    """Return the bounds of E_g[x | Y = `code`] of one group; ±Γ applies in cells with `fewest` observed outcomes."""
    share = rows.audited_share if is_audited else rows.reference_share
    is_seen, has_it = outcome != UNKNOWN, outcome == code
    seen, events = (sums_by(cell, np.where(part, share, 0.0)) for part in (is_seen, has_it))
    rate = np.divide(events, seen, out=np.zeros_like(seen), where=seen > 0.0)[cell]
    mine = rows.audited == is_audited
    is_informed = ~is_seen & (np.bincount(cell, mine & is_seen, seen.size) >= fewest)[cell]
    unseen = np.flatnonzero(mine & ~is_seen)
    # A ratio linear in the probabilities is largest with the highest x at their upper ends.
    order = unseen[np.argsort(-x[unseen], kind="stable")]

    def bound(gamma: float, is_upper: bool) -> InfluenceEstimate:
        """Return the largest or smallest mean, at which each probability is at one end of its range, by rank of x.

        The influence is that of a ratio with these probabilities, plus that of the observed rates behind their ranges.
        """
        low, high = (np.where(is_informed, np.clip(rate + side * gamma, 0.0, 1.0), side > 0) for side in (-1, 1))
        likely, ranked = np.where(is_seen, has_it, low), order if is_upper else order[::-1]
        gain, weight = (share * (high - low))[ranked], share * likely
        mass = np.cumsum(np.append(weight.sum(), gain))
        ratios = np.cumsum(np.append(weight @ x, gain * x[ranked])) / np.maximum(mass, 1e-300)
        raised = int(ratios.argmax() if is_upper else ratios.argmin())
        likely[ranked[:raised]] = high[ranked[:raised]]
        away = (x - ratios[raised]) / mass[raised]
        # Ends that are cut at 0 or 1 do not move with the observed rate.
        moves = is_informed & (likely > 0.0) & (likely < 1.0)
        # [observed]·(y − p_k)/P(observed, k)·E[(x − R)·[unobserved, k, 0 < q < 1]]/E[weights], section 18.
        slope = np.divide(sums_by(cell, share * moves * away), seen, out=np.zeros_like(seen), where=seen > 0.0)
        influence = away * likely + is_seen * slope[cell] * (has_it - rate)
        return InfluenceEstimate.of_group(rows, float(ratios[raised]), is_audited, influence)

    return bound


def bound_gap(audited: Bound, reference: Bound, gamma: float) -> tuple[InfluenceEstimate, InfluenceEstimate]:
    """Return the smallest and the largest gap of a rate for event rates within ±Γ of the observed, in each group."""
    low, high = (audited(gamma, is_upper).minus(reference(gamma, not is_upper)) for is_upper in (False, True))
    return low, high


LEAST_PREDICTED = 1e-3  # clip of predictions, and 1 − this: one certain error would make the log loss infinite
EVEN = 0.5  # ω that gives each group half of the weight


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of predictions, and its slope along the blind prediction η where P(Y=1|x) is y, over (y − η)."""

    of: Callable[[Floats, Floats], Floats]
    slope: Callable[[Floats], Floats | float]


def _cut(p: Floats) -> Floats:
    return np.clip(p, LEAST_PREDICTED, 1.0 - LEAST_PREDICTED)


LOSSES = {
    "brier": Loss(lambda y, p: (y - p) ** 2, lambda p: -2.0),
    "error_rate": Loss(lambda y, p: np.abs(y - (p > 0.5)), lambda p: 0.0),
    "log_loss": Loss(
        lambda y, p: -np.where(y > 0.5, np.log(_cut(p)), np.log1p(-_cut(p))), lambda p: -1.0 / (_cut(p) * _cut(1.0 - p))
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class SplitPredictions:
    """Cross-fitted predictions of rows."""

    # The rows of both groups, and their outcomes, 0 or 1
    rows: Rows
    outcome: Floats
    # y_0 and y_1 at every row, whichever group it is of
    audited: Floats
    reference: Floats
    log_ratio: Floats  # ℓ = log P0/P1 at every row

    def blind(self, weight: float) -> tuple[Floats, Floats]:
        """Return e_ω and η_ω."""
        e = expit(self.log_ratio + logit(weight))
        return e, e * self.audited + (1.0 - e) * self.reference

    def gains(self, loss: str, weight: float = EVEN) -> tuple[InfluenceEstimate, InfluenceEstimate]:
        """Return G_0 and G_1, the gain of each group from its own model.

        They are differences of losses, for a smooth loss corrected for errors of η_ω to first order: E_ω[Y − η_ω | x]
        is 0, but not within a group. Products of errors remain; noise of y_0 and y_1 makes a gain smaller.
        """
        chosen, y = LOSSES[loss], self.outcome
        e, eta = self.blind(weight)
        both = []
        for separate, chance, is_audited in ((self.audited, e, True), (self.reference, 1.0 - e, False)):
            difference = chosen.of(y, eta) - chosen.of(y, separate)
            # E_ω[(P_s/P_ω)·h·(Y − η)], h = ∂loss/∂η for P(Y=1|x) = y_s: cancels the first order of an error of η.
            missed = -chance * chosen.slope(eta) * (eta - separate) * (y - eta)
            # Rows of the other group have 1 − ω in P_ω where the group’s own have ω.
            other = missed * ((1.0 - weight) / weight if is_audited else weight / (1.0 - weight))
            columns = (difference + missed, other) if is_audited else (other, difference + missed)
            value = self.rows.mean0(columns[0]) + self.rows.mean1(columns[1])
            both.append(InfluenceEstimate.of(self.rows, value, *columns))
        return both[0], both[1]

    def gain(self, loss: str, weight: float = EVEN) -> InfluenceEstimate:
        """Return ε(ω), the gain where the audited group has the weight ω."""
        audited, reference = self.gains(loss, weight)
        value = weight * audited.value + (1.0 - weight) * reference.value
        return combine(value, [(weight, audited), (1.0 - weight, reference)])

    def largest_gain(self, loss: str) -> tuple[InfluenceEstimate, float]:
        """Return sup_ω ε(ω), concave in ω, and its ω: every model without the group costs one group at least that."""
        from scipy.optimize import minimize_scalar

        best = minimize_scalar(
            lambda weight: -self.gain(loss, weight).value,
            bounds=(0.01, 0.99),
            method="bounded",
            options={"xatol": 1e-6},
        )
        # The bounded search stops within its tolerance: ½ may be as good, and is simpler.
        weight = max(EVEN, float(best.x), key=lambda at: self.gain(loss, at).value)
        # At a maximum an error of ω is of second order (envelope theorem): its influence is that at ω.
        return self.gain(loss, weight), weight
