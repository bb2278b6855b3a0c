"""The adjusted gap c_all, the gap c_E at equal exempt factors, and how far omitted factors may move them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from tiltlens._analysis.evidence import Evidence, OutputScale, Settings, output_scale
from tiltlens._analysis.influence_matching import RowErrors
from tiltlens._estimators import feature_gap
from tiltlens._estimators.estimate import Estimate, Normal, quantile, student_factor, without_noise
from tiltlens._estimators.feature_gap import Coefficient
from tiltlens._estimators.influence import InfluenceEstimate, average_estimates
from tiltlens._estimators.outputs import unseen_se
from tiltlens._estimators.sets import CellSets, RidgeSets, covariance
from tiltlens._estimators.verdicts import is_beyond
from tiltlens._formats import FieldTable, field_table
from tiltlens._limits import HIDDEN, OF_PAIRINGS
from tiltlens._notes import ACTING_TOGETHER, OMITTED, USE_OF_GROUP, Note
from tiltlens._rows.wording import Unit
from tiltlens.errors import DataError, quoted
from tiltlens.paper.checks import Floats, check_share

SHARE = "it is a share of what the features leave unexplained, for example 0.1."
OF_ALL, OF_EXEMPT = "adjusted_gap", "gap_given_exempt"


class ExemptParts(NamedTuple):
    """gap − c_E and c_E, the influence estimates of c_E and its bias scale 𝒮, and the row-wise errors of both parts."""

    through: Normal
    at_equal: Normal
    measured: InfluenceEstimate
    scale: InfluenceEstimate
    of_through: RowErrors
    of_at_equal: RowErrors


def exempt_parts(evidence: Evidence) -> ExemptParts | None:
    """Return gap − c_E and c_E from the regressions on sets of features; None without exempt factors or regressions.

    The gap uses all rows, c_E only a fraction f of each group's rows. Their covariance is f times that within these
    rows, so that Var(gap − c_E) = Σ (1 − f)·IF_c² + f·(IF_gap − IF_c)².
    """
    if not evidence.question.exempt or evidence.nuisances.sets is None:
        return None
    _check_values(evidence)
    sets, gap_score = evidence.nuisances.sets, evidence.score
    (coefficient,), between = sets.coefficients([evidence.exempt])
    if coefficient.is_separated:
        raise DataError(
            "`exempt` must leave people of both groups who are equal in it, got features that together separate "
            f"{quoted(evidence.question.audited)} and {quoted(evidence.question.reference)} completely.",
            "name fewer of them.",
        )
    population, at = evidence.population, sets.at
    # f = n/N; with weights, Σ of squared shares over all rows divided by that over the rows regressed on.
    seen = (min(population.square0 / at.square0, 1.0), min(population.square1 / at.square1, 1.0))  # f of either group
    unseen = tuple(1.0 - f for f in seen)

    def influence(u: Floats, v: Floats, parts: tuple[float, ...] = (1.0, 1.0)) -> Floats:
        return at.influence(math.sqrt(parts[0]) * u, math.sqrt(parts[1]) * v)

    left, score = coefficient.half, gap_score.column[evidence.nuisances.influence_rows]
    columns = np.column_stack(
        [influence(left, left), influence(left, left, unseen), influence(score - left, -score - left, seen)]
    )
    # Σ (1 − f)·IF_c² + f·(IF_gap − IF_c)²: outside the n rows the gap's error is independent of c_E's.
    errors = np.diag(covariance(columns, np.column_stack([between, between, np.zeros_like(between)])))
    constant = unseen_se(population, gap_score)  # of groups that all have one decision
    whole = gap_score.gap
    of_pairings = math.sqrt(OF_PAIRINGS / len(between)) * between[:, 0]
    se_through, se_left = (np.sqrt([errors[1] + errors[2], errors[0]]) / student_factor(at.degrees)).tolist()
    return ExemptParts(
        Normal(whole - coefficient.value, se_through, degrees=at.degrees).with_extra_se(*constant),
        Normal(coefficient.value, se_left, degrees=at.degrees).with_extra_se(*constant),
        coefficient.estimate(at),
        feature_gap.bias_scale(at, coefficient),
        RowErrors(columns[:, 1:], of_pairings, constant),
        RowErrors(columns[:, :1], -of_pairings, constant),
    )


def _check_values(evidence: Evidence) -> None:
    """Raise DataError if an exempt factor has too many values for the rows to compare people who are equal in it."""
    for name in evidence.question.exempt:
        cells = evidence.cells.get(name)
        if name in evidence.nuisances.pooled or (cells is not None and feature_gap.hidden_share(cells.sums) > HIDDEN):
            raise DataError(
                "`exempt` must name features with few enough values for people to be equal in them, got "
                f"{quoted(name)} for the {evidence.population.count0:,} rows of {quoted(evidence.question.audited)}.",
                "group its values, add rows, or leave small groups out with `audited`.",
            )


LEAST_SEEN = 0.1  # smallest fraction of a gap at equal features that group probabilities must reveal
CHECK_SURE = 3.0  # standard errors


class AdjustedGap(NamedTuple):
    """c_all as reported (`estimate`) and as estimated by the regressions (`measured`).

    `estimate` is 0 if the score is a function of the features, and None if they nearly determine group probabilities.
    """

    estimate: Estimate | None
    measured: InfluenceEstimate | None
    scale: InfluenceEstimate | None = None  # 𝒮, the scale of the bias from an omitted factor
    is_by_construction: bool = False

    @property
    def value(self) -> float | None:
        """The reported c_all or, without one, the measured c_all; None without either."""
        if self.estimate is not None:
            return self.estimate.value
        return None if self.measured is None else self.measured.value


def adjusted_gap(evidence: Evidence, settings: Settings) -> tuple[AdjustedGap, tuple[Note, ...]]:
    """Return the adjusted gap c_all and notes on it.

    If the audited model computes the score from the features alone, c_all is 0 and its estimate checks the regressions.
    """
    sets, is_of_features = evidence.nuisances.sets, evidence.score_is_of_features
    if sets is None:
        return AdjustedGap(None, None), ()
    if settings.folds is None:
        # Plug-in ridges would predict their own rows.
        plug_in = sets.coefficient(range(sets.features)).value if isinstance(sets, CellSets) else None
        return AdjustedGap(None if plug_in is None else Estimate(without_noise(plug_in)), None), ()
    if sets.pooled and not is_of_features:
        note = Note("too many values", quantity="the adjusted gap", features=", ".join(sets.pooled))
        return AdjustedGap(None, None), (note,)
    coefficients = _coefficients(evidence)
    if not coefficients:
        return AdjustedGap(None, None), (Note("groups identified"),)
    # (27): average over pairings, which share all rows.
    measured = _averaged([c.estimate(evidence.sample) for c in coefficients])
    words = output_scale(evidence, settings)
    if is_of_features:
        return AdjustedGap(Estimate(0.0, 0.0, 0.0), measured, is_by_construction=True), _check(measured, words)
    seen = _seen(evidence)
    if seen is not None and seen < LEAST_SEEN:
        return AdjustedGap(None, measured), (Note("group probabilities too close"),)
    constant = unseen_se(evidence.population, evidence.score)  # of groups that all have one decision
    estimate = settings.estimate(measured.normal().with_extra_se(*constant))
    # The largest significant part that the regressions miss in cells of the features. It biases c_all in a known
    # direction, so it widens the interval on one side only.
    hidden = () if evidence.nuisances.expectations is None else evidence.nuisances.expectations.hidden
    missed = max((part.value for part in hidden if part.is_sure), key=abs, default=0.0)
    low, high = (estimate.low or 0.0) - max(missed, 0.0), (estimate.high or 0.0) - min(missed, 0.0)
    widened = Estimate(estimate.value, low, high)
    if abs(missed) > words.materiality:  # then name no causes
        notes: tuple[Note, ...] = (Note("poor fit", size=words.size_words(missed)),)
    else:
        notes = _not_accounted_for(evidence, widened, words)
    if seen is not None and f"{seen:.0%}" != "100%":
        notes += (Note("adjusted gap by group probabilities", share=seen),)
    return AdjustedGap(
        widened, measured, _averaged([feature_gap.bias_scale(evidence.sample, c) for c in coefficients])
    ), notes


MOST_FITTED = 2  # most features that one column of the regressions on sets depends on


def _seen(evidence: Evidence) -> float | None:
    """Return the fraction of a gap at equal features that group probabilities reveal; None for observed groups.

    If W = f(X) + c·S̄ and b is calibrated at each X, c_all = c·E[(b̃ − e)²]/E[b̃(1 − b̃) + (b̃ − e)²].
    """
    rows, population = evidence.sample, evidence.population
    probabilities, propensity = evidence.rows.probabilities, evidence.nuisances.propensity
    if probabilities is None or propensity is None:
        return None
    audited, reference = probabilities[:, 0] / population.weight0, probabilities[:, 1] / population.weight1
    chance = audited / (audited + reference)
    omega = rows.balanced_weights
    # The product of two independent fits: the square of one would add the variance of its noise.
    beyond = [float(omega @ ((chance - expit(pair.a)) * (chance - expit(pair.b)))) for pair in propensity.pairings]
    return max(float(np.mean(beyond)), 0.0) / float(omega @ (chance * (1.0 - chance)) + np.mean(beyond))


def _coefficients(evidence: Evidence) -> list[Coefficient]:
    """Return c_all = E[(S̄ − e)(W − m)]/E[(S̄ − e)²] of each pairing; empty if the features determine the group.

    m comes from the best regression, e from it too or else from the membership model. Each product pairs an e and an m
    that were fitted on disjoint rows, in both roles.
    """
    rows, propensity, expected = evidence.sample, evidence.nuisances.propensity, evidence.nuisances.expectations
    if propensity is None or expected is None:
        return []
    s, w = rows.audited.astype(np.float64), evidence.score.column
    coefficients: list[Coefficient] = []
    for (e_a, e_b), (m_a, m_b) in zip(
        expected.groups or tuple(map(expit, propensity.halves)), expected.pairs, strict=True
    ):
        # e and m from disjoint rows: fitted on the same ones, their errors correlate wherever c is not 0.
        product = 0.5 * ((s - e_a) * (w - m_b) + (s - e_b) * (w - m_a))
        coefficients.append(feature_gap.mean_coefficient(rows, product, (s - e_a) * (s - e_b), (w - m_a) * (w - m_b)))
    # D = 0: the groups do not overlap, so c_all is not defined.
    return [] if any(c.is_separated for c in coefficients) else coefficients


def _averaged(parts: Sequence[InfluenceEstimate]) -> InfluenceEstimate:
    # Approximation 1 of docs/methods holds for group membership only: here the factor is exact.
    mean = average_estimates(parts)
    # Each part's model serves several folds: the pairings' mean has six times the variance between them, not twice.
    return replace(mean, between=mean.between * math.sqrt(3.0))


def _check(estimate: InfluenceEstimate, words: OutputScale) -> tuple[Note, ...]:
    """Return a note if the regressions leave a material c_all although it is 0 by construction."""
    if abs(estimate.value) - CHECK_SURE * estimate.se <= words.materiality:
        return ()
    size, output = words.signed_words(estimate.value), words.measure.output
    return (Note("regressions contradict the model", size=size, output=output),)


def _not_accounted_for(evidence: Evidence, estimate: Estimate, words: OutputScale) -> tuple[Note, ...]:
    """Return a note if the confidence interval of the adjusted gap is material, with possible explanations."""
    if not is_beyond(estimate, words.materiality):
        return ()
    apart = [feature.name for feature in evidence.rows.features if feature.is_group]
    causes = [OMITTED, USE_OF_GROUP, *(f"use of {name} (which identifies the group)" for name in apart)]
    # Cells of joint values represent every interaction.
    may_act_together = len(evidence.rows.features) > MOST_FITTED and not isinstance(evidence.nuisances.sets, CellSets)
    causes += [ACTING_TOGETHER] if may_act_together else []
    ends = f"{words.signed(estimate.low or 0.0)} to {words.signed(estimate.high or 0.0)}"
    named = f"{', '.join(causes[:-1])} or {causes[-1]}"
    return (Note("not accounted for", gap=words.signed_words(estimate.value), interval=ends, causes=named),)


class Yardstick(NamedTuple):
    """A listed feature as if it were omitted: the shares of the score and of the group that it explains.

    Attributes
    ----------
    multiple, multiple_low
        Multiple of both shares with which an omitted factor brings the gap, and the end of its interval nearer to 0,
        to 0; None where no multiple does.
    """

    feature: str
    r2_score: float
    r2_group: float
    multiple: float | None
    multiple_low: float | None

    def _repr_html_(self) -> str:
        return field_table(self)


class GapBounds(NamedTuple):
    """The smallest and the largest gap that an omitted factor of some strength allows, each with its interval."""

    low: Estimate
    high: Estimate

    def _repr_html_(self) -> str:
        return field_table(self)


@dataclass(frozen=True, slots=True)
class Sensitivity(FieldTable):
    """How far an omitted factor may move an adjusted gap.

    Attributes
    ----------
    scale
        𝒮: a factor with the shares R²_W and R²_S moves the gap by at most 𝒮·√(R²_W·R²_S/(1 − R²_S)).
    robustness_value
        Smallest value of both R²_W and R²_S with which a factor accounts for the whole gap; `low` is that for the
        end of the gap's interval nearer to 0, and 0 if the interval includes 0.
    se, scale_se, covariance, confidence
        Standard errors of gap and 𝒮, and their covariance, for the intervals of bounds; and the confidence level.
    yardsticks
        The listed features, the strongest first (the smallest multiple of it accounts for the gap).
    """

    gap: Estimate
    scale: float
    robustness_value: Estimate
    se: float
    scale_se: float
    covariance: float
    confidence: float
    yardsticks: tuple[Yardstick, ...]

    def bounds(self, r2_score: float, r2_group: float) -> GapBounds:
        """Return the bounds of the gap for an omitted factor of a stated strength, with their intervals.

        Parameters
        ----------
        r2_score, r2_group : float
            Share that the factor explains of the remaining variance of the score, given the group, and of the group,
            after the features.
        """
        factor = feature_gap.bias_factor(
            check_share("r2_score", r2_score, SHARE), check_share("r2_group", r2_group, SHARE)
        )
        return GapBounds(self._moved(-factor), self._moved(factor))

    def _moved(self, factor: float) -> Estimate:
        """Return c + factor·𝒮; without an omitted factor its interval is that of the gap."""
        # Var(c + factor·𝒮); only the difference to the se of c is added, as c's own interval may be wider than normal.
        square = self.se**2 + 2.0 * factor * self.covariance + (factor * self.scale_se) ** 2
        wider = quantile(self.confidence) * (math.sqrt(max(square, 0.0)) - self.se)
        low, high = (0.0 if end is None else end + factor * self.scale for end in (self.gap.low, self.gap.high))
        return Estimate(self.gap.value + factor * self.scale, low - wider, high + wider)

    def in_units(self, unit: Unit) -> Sensitivity:
        """Return the same in the unit of an amount."""
        scale, se, scale_se = (unit.difference(size) for size in (self.scale, self.se, self.scale_se))
        gap, covariance = self.gap.mapped(unit.difference), unit.scale**2 * self.covariance
        return replace(self, gap=gap, scale=scale, se=se, scale_se=scale_se, covariance=covariance)


def sensitivities(
    evidence: Evidence,
    settings: Settings,
    adjusted: AdjustedGap,
    parts: ExemptParts | None,
    given_exempt: Estimate | None,
) -> dict[str, Sensitivity]:
    """Return the sensitivity of the adjusted gap and of the gap given exempt factors, as far as these are estimated.

    Empty for plug-in values and unobserved groups. An adjusted gap that is 0 by construction has none.
    """
    sets, results = evidence.nuisances.sets, {}
    if settings.folds is None or sets is None or evidence.rows.probabilities is not None:
        return {}
    sensitivity, names = partial(_sensitivity, settings.confidence), list(evidence.table)
    if adjusted.estimate is not None and adjusted.measured is not None and adjusted.scale is not None:
        strengths = _strengths(names, sets, range(sets.features))
        se = math.hypot(adjusted.measured.se, *unseen_se(evidence.population, evidence.score))
        results[OF_ALL] = sensitivity(adjusted.estimate, se, adjusted.measured, adjusted.scale, strengths)
    if parts is not None and given_exempt is not None:
        strengths, se = _strengths(names, sets, evidence.exempt), parts.at_equal.se
        results[OF_EXEMPT] = sensitivity(given_exempt, se, parts.measured, parts.scale, strengths)
    return results


def _strengths(
    names: list[str], sets: CellSets | RidgeSets, features: Sequence[int]
) -> Iterator[tuple[str, float, float]]:
    """Yield name, R²_W and R²_S of each feature of a set as if it were omitted, from the regressions without it."""
    without = [[other for other in features if other != feature] for feature in features]
    shares = feature_gap.partial_strengths(*sets.means([list(features), *without]))
    for feature, *both in zip(features, *(share.tolist() for share in shares), strict=True):
        if names[feature] not in sets.pooled:
            yield names[feature], both[0], both[1]


def _sensitivity(
    confidence: float,
    gap: Estimate,
    se: float,
    value: InfluenceEstimate,
    scale: InfluenceEstimate,
    strengths: Iterable[tuple[str, float, float]],
) -> Sensitivity:
    ends = sorted(abs(end) for end in (gap.low, gap.high) if end is not None)
    # The end nearest to 0 gives the robustness value at the confidence level.
    near = ends[0] if is_beyond(gap) else 0.0
    values = [feature_gap.robustness_value(end, scale.value) for end in (gap.value, near, ends[-1])]
    yardsticks = [
        Yardstick(name, *both, *(feature_gap.strength_multiple(end, scale.value, *both) for end in (gap.value, near)))
        for name, *both in strengths
    ]
    yardsticks.sort(key=lambda own: (math.inf if own.multiple is None else own.multiple, own.feature))
    spread, covariance = math.sqrt(scale.variance), value.covariance(scale)
    return Sensitivity(gap, scale.value, Estimate(*values), se, spread, covariance, confidence, tuple(yardsticks))
