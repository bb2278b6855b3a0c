"""Build a comparison from evidence and settings, with one pure function per block of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from tiltlens._analysis.adjusted_gap import AdjustedGap, ExemptParts, adjusted_gap, exempt_parts, sensitivities
from tiltlens._analysis.contributions import ContributionTable, contribution_table
from tiltlens._analysis.error_rates import ErrorRates, error_rates, rate_pairs
from tiltlens._analysis.evidence import (
    NO_MODEL,
    Evidence,
    Settings,
    TiltedMeans,
    evidence_notes,
    levels,
    output_measure,
    output_scale,
)
from tiltlens._analysis.influence_matching import (
    ComparisonErrors,
    ErrorKey,
    RowErrors,
    errors_of,
    output_errors,
    row_identities,
    signed,
)
from tiltlens._analysis.output_tables import DECILE_SCHEMA, decile_shares, decision_table
from tiltlens._analysis.periods import period_table
from tiltlens._analysis.prices import prices
from tiltlens._analysis.unobserved_groups import unobserved_group, unobserved_group_of
from tiltlens._estimators import crossfit, outputs
from tiltlens._estimators.estimate import Estimate, HasInterval, Normal
from tiltlens._estimators.outputs import Scores, lower_over_higher
from tiltlens._learners.balance import Balance, balance
from tiltlens._learners.propensity import prior_log_odds
from tiltlens._notes import Note
from tiltlens._results.comparison import Comparison, in_units, with_displays
from tiltlens._results.outputs import Checks, GapParts, Means, Outputs, Rates, Scale
from tiltlens._results.profiles import Correction, Profiles
from tiltlens._rows.wording import score_type_of
from tiltlens.errors import SupportError, TiltlensError
from tiltlens.paper.correction import CorrectionFunction, correction_function
from tiltlens.paper.exponents import TestPair


def compare(evidence: Evidence, settings: Settings) -> Comparison:
    """Return the comparison of one audited group with the reference."""
    every = settings.for_all(evidence.question.comparisons)  # gap and adjusted gap: at once for all audited groups
    notes, population, unit = [*evidence.question.notes], evidence.population, evidence.rows.unit
    function = _correction_function(evidence, settings, notes)
    checked = _balance(evidence)
    left, of_adjusted = adjusted_gap(evidence, every)
    notes += of_adjusted
    exempt = exempt_parts(evidence)
    soft = None if evidence.rows.probabilities is None else unobserved_group(evidence, every)
    table = contribution_table(evidence, settings, function, left, soft, checked is None or checked.is_adequate)
    gap = every.estimate(outputs.gap_law(population, evidence.score))
    ratio = _defined(settings, notes, lambda: outputs.impact_ratio(population, levels(evidence)))
    of_outputs = _outputs(evidence, settings, notes)
    correction = _correction(evidence, settings, notes, function, checked, gap, table)
    decisions, of_table = decision_table(evidence, settings) if evidence.question.is_decisions else (None, ())
    rates = None if evidence.y_true is None else error_rates(evidence, evidence.y_true, settings)
    notes += (*of_table, *table.notes, *evidence_notes(evidence, checked), *_against_outcome(evidence, rates))
    comparison = Comparison(
        audited=evidence.question.audited,
        reference=evidence.question.reference,
        rows=dict(zip(("audited", "reference"), map(round, evidence.rows.facts.people), strict=True)),
        scale=_scale(evidence, settings),
        outputs=of_outputs,
        gap=gap,
        adjusted_gap=left.estimate,
        gap_parts=_gap_parts(evidence, every, left, exempt, table),
        impact_ratio=ratio,
        adverse_impact_ratio=lower_over_higher(ratio) if ratio is not None and evidence.question.is_decisions else None,
        shortfall=_shortfall(evidence, settings),
        gap_test=_test(evidence, settings),
        decision_table=decisions,
        contributions_full=table.frame,
        error_rates=rates,
        periods=None if evidence.rows.period is None else period_table(evidence, evidence.rows.period, settings),
        unobserved_group=soft,
        correction=correction,
        checks=Checks(evidence.nuisances.name, checked, tuple(dict.fromkeys(notes))),
        _errors=None if settings.folds is None else _errors(evidence, left, exempt, table.errors),
    )
    return with_displays(in_units(comparison if soft is None else _of_unobserved_groups(comparison), unit))


def _against_outcome(evidence: Evidence, rates: ErrorRates | None) -> Iterator[Note]:
    """Yield a note if the outcome is less frequent among people with high scores, as if its codes were swapped."""
    if rates is None or rates.auc is None:
        return
    ends = [rate.high for rate in (rates.auc.audited, rates.auc.reference)]
    if all(end is not None and end < 0.5 for end in ends):
        decision = "the unfavourable decision" if evidence.rows.favourable == 0 else "the favourable decision"
        is_decisions = evidence.question.is_decisions
        yield Note(
            "outcome against the scores",
            high=decision if is_decisions else "high scores",
            each="decision" if is_decisions else "score",
        )


def _of_unobserved_groups(comparison: Comparison) -> Comparison:
    """Return a comparison without the quantities that, weighted by group probabilities, would understate disparity."""
    return replace(
        comparison,
        impact_ratio=None,
        adverse_impact_ratio=None,
        shortfall=None,
        gap_test=None,
        outputs=replace(comparison.outputs, standardised_difference=None),
        correction=replace(comparison.correction, output_divergence=None, detection_sample_size=None),
    )


def _scale(evidence: Evidence, settings: Settings) -> Scale:
    question = evidence.question
    return Scale(
        score_type_of(question.is_decisions, evidence.rows.unit.is_amount),
        question.metric,
        output_scale(evidence, settings).materiality,
        settings.confidence,
        question.wording,
        question.source,
        evidence.rows.wants_less,
    )


def _outputs(evidence: Evidence, settings: Settings, notes: list[Note]) -> Outputs:
    population, is_amount = evidence.population, evidence.rows.unit.is_amount

    def rates(score: Scores) -> Rates:
        return Rates(*map(settings.estimate, outputs.group_rates(population, score)))

    scores = evidence.score if is_amount else evidence.scores
    both = (mean.tolist() for mean in (scores.mean0, scores.mean1))
    return Outputs(
        means=Means(*(mean[0] if len(mean) == 1 else tuple(mean) for mean in both)),
        rates=rates(evidence.favourable),
        metric_rates=None if evidence.question.metric is None else rates(evidence.score),
        standardised_difference=_defined(
            settings, notes, lambda: outputs.standardised_difference(population, evidence.score).normal()
        ),
        decile_shares=decile_shares(evidence, settings) if is_amount else pl.DataFrame(schema=DECILE_SCHEMA),
    )


def _gap_parts(
    evidence: Evidence, every: Settings, left: AdjustedGap, exempt: ExemptParts | None, table: ContributionTable
) -> GapParts:
    given_exempt = None if exempt is None else every.estimate(exempt.at_equal)
    return GapParts(
        exempt=evidence.question.exempt,
        gap_explained_by_exempt=None if exempt is None else every.estimate(exempt.through),
        gap_given_exempt=given_exempt,
        shapley_remainder=table.remainder,
        band_factor=table.band_factor,
        sensitivity=sensitivities(evidence, every, left, exempt, given_exempt),
    )


def _correction(
    evidence: Evidence,
    settings: Settings,
    notes: list[Note],
    function: CorrectionFunction | None,
    checked: Balance | None,
    gap: Estimate,
    table: ContributionTable,
) -> Correction:
    divergence = _defined(settings, notes, lambda: outputs.output_divergence(evidence.population, evidence.scores))
    of_inputs = descent = None
    if function is None:
        notes.append(Note("no inputs"))
    else:
        estimate = partial(_of_propensity, evidence, settings, notes, checked)
        of_inputs = estimate("input_divergence", partial(_input_divergence, evidence))
        descent = estimate("descent_rate", partial(_descent_rate, evidence, settings, function))
    return Correction(
        numbers=None if function is None else function.to_dict(),
        epsilon_max=None if function is None else _epsilon_max(evidence, function),
        descent_rate=descent,
        input_divergence=of_inputs,
        output_divergence=divergence,
        detection_sample_size=_detection_sample_size(evidence, gap, notes),
        function=function,
        tradeoff=table.tradeoff
        and {name: table.tradeoff[name] for name in table.frame["feature"] if name in table.tradeoff},
        _confidence=None if checked is None else settings.confidence,
        _profiles=_profiles(evidence, function, settings.for_all(evidence.question.comparisons)),
    )


def _defined(settings: Settings, notes: list[Note], make: Callable[[], HasInterval]) -> Estimate | None:
    """Return an estimate; None and a note if it is not defined."""
    try:
        return settings.estimate(make())
    except SupportError as error:
        notes.append(Note("undefined", reason=str(error).splitlines()[0]))
        return None


def _shortfall(evidence: Evidence, settings: Settings) -> Estimate:
    """Return the shortfall Σw·(E1[W] − E0[W]) of the favourable outcome, with audited weights w in people."""
    law = outputs.gap_law(evidence.population, evidence.favourable)
    if not evidence.rows.wants_less:
        law = replace(law, first=law.second, second=law.first)
    size = evidence.rows.facts.largest_weight * evidence.population.weight0
    return settings.estimate(law).mapped(lambda gap: size * gap)


def _correction_function(evidence: Evidence, settings: Settings, notes: list[Note]) -> CorrectionFunction | None:
    """Return the correction function: None without inputs; of inputs only, with a note, if outputs lack support."""
    if evidence.nuisances.name == NO_MODEL:
        return None
    audited, reference = evidence.moments
    try:
        return correction_function(audited, reference, settings.input_weight, settings.output_weight)
    except SupportError as error:
        notes.append(Note("inputs only", reason=str(error).splitlines()[0]))
        return correction_function(audited, reference, settings.input_weight or 1.0, 0.0)


def _epsilon_max(evidence: Evidence, function: CorrectionFunction) -> float:
    """Return the largest valid step along f~, from its smallest value among the audited people of the sample."""
    mine = evidence.sample.audited & (evidence.sample.weights > 0)
    smallest = float(np.min(function(evidence.nuisances.log_odds[mine], evidence.rows.scores[mine])))
    return -1.0 / smallest if smallest < 0 else 0.0


def _balance(evidence: Evidence) -> Balance | None:
    """Return the checks of the group-membership model; None without one that was cross-fitted.

    They use the expected score given the features, because the score itself may depend on the group.
    """
    propensity, expectations = evidence.nuisances.propensity, evidence.nuisances.expectations
    if propensity is None or expectations is None:
        return None
    labels = {feature.name: feature.labels for feature in evidence.rows.features}
    expected = f"expected {output_measure(evidence).each}"
    return balance(evidence.sample, evidence.table, propensity, expectations.mean, labels, expected)


def _of_propensity(
    evidence: Evidence,
    settings: Settings,
    notes: list[Note],
    checked: Balance | None,
    name: str,
    make: Callable[[], HasInterval],
) -> Estimate | None:
    """Return an estimate that uses the propensity model; None if a feature has too many values to fit one.

    If the model fails its checks, only the limit nearer to 0 is kept: any model's divergence is at most the true one
    (Donsker & Varadhan 1983), and the part of ℓ that a model misses is missing in Var0(g) too.
    """
    nuisances, is_rate = evidence.nuisances, name == "descent_rate"  # which is negative
    uses_model = not is_rate or settings.input_weight > 0
    if uses_model and nuisances.pooled and nuisances.propensity is not None and not nuisances.propensity.is_known:
        notes.append(Note("too many values", quantity=name, features=", ".join(nuisances.pooled)))
        return None
    estimate = _defined(settings, notes, make)
    is_whole = not uses_model or checked is None or checked.is_adequate
    if estimate is None or estimate.low is None or is_whole:
        return estimate
    notes.append(Note("open-ended"))
    return Estimate(estimate.value, *((None, estimate.high) if is_rate else (estimate.low, None)))


def _input_divergence(evidence: Evidence) -> Normal:
    propensity, mean = evidence.nuisances.propensity, evidence.moments[0].mean_log_odds
    if propensity is None:
        return Normal(mean - prior_log_odds(evidence.population), 0.0)
    rows, value = evidence.sample, None
    if evidence.tilted is not None:
        rows, value = evidence.population, mean - evidence.tilted.log_mass
    return crossfit.input_divergence(rows, propensity.pairings, value).normal(least=0.0)


def _descent_rate(evidence: Evidence, settings: Settings, correction: CorrectionFunction) -> HasInterval:
    propensity, l2, l4 = evidence.nuisances.propensity, settings.input_weight, settings.output_weight
    if propensity is None:
        return Normal(correction.descent_rate, 0.0)
    if l2 == 0 and evidence.scores.mean0.size == 1:
        return outputs.output_descent_rate(evidence.population, evidence.scores, l4)
    if l2 == 0:
        outputs.check_descent(evidence.scores)
    rows = evidence.population if propensity.is_known else evidence.sample
    gradients = [crossfit.gradient(rows, evidence.scores, pair, l2, l4) for pair in propensity.pairings]
    value = None if evidence.tilted is None else _tilted_variance(evidence.tilted, correction)
    return crossfit.gradient_variance(rows, gradients, value).square_root(sign=-1)


def _tilted_variance(tilted: TiltedMeans, correction: CorrectionFunction) -> float:
    """Return Var0(g) − 2λ2·E1[e^ℓ·(g − E0[g])]/E1[e^ℓ] over all rows: corrected for the error of a given ℓ."""
    missed = tilted.means - correction.audited.mean
    on_gradient = correction.input_weight * float(missed[0])
    if correction.output_weight > 0:
        ratios = correction.log_output_ratio
        on_gradient += correction.output_weight * float((ratios[1:] - ratios[0]) @ missed[1:])
    return correction.descent_rate**2 - 2.0 * correction.input_weight * on_gradient


def _profiles(evidence: Evidence, correction: CorrectionFunction | None, settings: Settings) -> Profiles:
    propensity, log_odds = evidence.nuisances.propensity, evidence.nuisances.log_odds
    return Profiles(
        sampled=evidence.rows,
        rows=evidence.sample,
        score=evidence.rows.unit.level(evidence.score.column),
        favourable=evidence.rows.unit.level(evidence.favourable.column),
        correction=correction,
        log_odds=log_odds,
        log_ratio=log_odds - prior_log_odds(evidence.population) if propensity is None else propensity.log_ratio,
        confidence=settings.confidence,
        model=evidence.model,
        given=evidence.question.given,
        soft=None
        if evidence.rows.probabilities is None
        else partial(unobserved_group_of, _without_fits(evidence), settings),
        priced=None if evidence.rows.cost is None else partial(prices, evidence, settings),
    )


def _without_fits(evidence: Evidence) -> Evidence:
    """Return the part of the evidence that estimates by group probabilities need, to free memory."""
    rows = replace(evidence.rows, features=(), value_codes={})
    return replace(evidence, rows=rows, cells={}, table={}, nuisances=replace(evidence.nuisances, sets=None))


def _errors(
    evidence: Evidence, left: AdjustedGap, parts: ExemptParts | None, of_shown: dict[ErrorKey, RowErrors]
) -> ComparisonErrors:
    """Return the row-wise errors of all estimates, for a paired comparison with another audit."""
    scale, of_sample = evidence.rows.unit.scale, output_errors(evidence)
    if parts is not None:
        of_shown = of_shown | {"gap_explained_by_exempt": parts.of_through, "gap_given_exempt": parts.of_at_equal}
    for name, pair in {} if evidence.y_true is None else rate_pairs(evidence, evidence.y_true)[0].items():
        unseen = signed(pair.unseen, (pair.audited.value, pair.reference.value))
        of_sample[f"{name}_difference"] = replace(errors_of(pair.influence), unseen=unseen)
    if evidence.question.metric is not None:
        of_sample[f"{evidence.question.metric}_difference"] = of_sample["gap"]
    if left.measured is not None and not evidence.score_is_of_features:
        of_sample["adjusted_gap"] = errors_of(left.measured).times(scale)
    return ComparisonErrors(
        row_identities(evidence, np.arange(evidence.sample.audited.size)),
        row_identities(evidence, evidence.nuisances.influence_rows),
        of_sample,
        {key: errors.times(scale) for key, errors in of_shown.items()},
    )


def _detection_sample_size(evidence: Evidence, gap: Estimate, notes: list[Note]) -> Estimate | None:
    """Return the sample size to detect the gap, with an interval from the gap's; no upper end if that contains 0."""
    if evidence.scores.mean0.size != 1 or evidence.rows.unit.is_amount:
        return None
    p, p1 = evidence.score.means
    value = _sample_size(p, p1)
    if value is None:
        notes.append(Note("outputs too close"))
        return None
    if gap.low is None or gap.high is None:
        return Estimate(value)

    def at_gap(size: float) -> float | None:
        """Return the sample size for two rates that are `size` apart and have the same midpoint."""
        middle, half = (p + p1) / 2, np.copysign(size / 2, p - p1)
        return _sample_size(*(float(np.clip(middle + side * half, 1e-9, 1 - 1e-9)) for side in (1, -1)))

    near, far = sorted((abs(gap.low), abs(gap.high)))
    return Estimate(value, at_gap(far), None if gap.low * gap.high <= 0 else at_gap(near))


def _sample_size(p: float, p1: float) -> float | None:
    pair = TestPair(np.array([1 - p, p]), np.array([1 - p1, p1]))
    try:
        needed = pair.detection_sample_size()
    except TiltlensError:
        return None
    return None if needed is None else float(needed)


def _test(evidence: Evidence, settings: Settings) -> outputs.EqualOutputsTest | None:
    if settings.folds is None:
        return None
    # The channel of amounts is their deciles, but this test is about the gap, so it takes the amounts.
    scores = evidence.score if evidence.rows.unit.is_amount else evidence.scores
    return outputs.equal_outputs_test(evidence.population, scores, seed=settings.random_state)
