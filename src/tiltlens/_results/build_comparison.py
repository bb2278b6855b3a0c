"""Build a comparison from evidence and settings, with one pure function per block of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from tiltlens._analysis.adjusted_gap import AdjustedGap, ExemptParts, adjusted_gap, exempt_parts, sensitivities
from tiltlens._analysis.contributions import ContributionTable, contribution_table
from tiltlens._analysis.error_rates import error_rates, rate_pairs
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
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction, correction_function
from tiltlens.paper.exponents import TestPair

Noted = tuple[Estimate | None, tuple[Note, ...]]


def compare(evidence: Evidence, settings: Settings) -> Comparison:
    """Return the comparison of one audited group with the reference."""
    every = settings.for_all(evidence.question.comparisons)  # gap and adjusted gap: at once for all audited groups
    function, of_function = _correction_function(evidence, settings)
    checked = _balance(evidence)
    left, of_adjusted = adjusted_gap(evidence, every)
    exempt = exempt_parts(evidence)
    soft = None if evidence.rows.probabilities is None else unobserved_group(evidence, every)
    table = contribution_table(evidence, settings, function, left, soft, checked is None or checked.is_adequate)
    gap = every.estimate(outputs.gap_law(evidence.population, evidence.score))
    noted = _compare_scores(evidence, settings) | _paper_estimates(evidence, settings, checked, function, gap)
    estimates = {name: estimate for name, (estimate, _) in noted.items()}
    ratio = estimates["impact_ratio"]
    decisions, of_table = decision_table(evidence, settings) if evidence.question.is_decisions else (None, ())
    notes = (
        *(
            *evidence.question.notes,
            *of_function,
            *of_adjusted,
            *(note for _, notes in noted.values() for note in notes),
        ),
        *(*of_table, *table.notes, *evidence_notes(evidence, checked)),
    )
    comparison = Comparison(
        audited=evidence.question.audited,
        reference=evidence.question.reference,
        rows=dict(zip(("audited", "reference"), map(round, evidence.rows.facts.people), strict=True)),
        scale=_scale(evidence, settings),
        outputs=_outputs(evidence, settings, estimates["standardised_difference"]),
        gap=gap,
        adjusted_gap=left.estimate,
        gap_parts=_gap_parts(evidence, every, left, exempt, table),
        impact_ratio=ratio,
        adverse_impact_ratio=lower_over_higher(ratio) if ratio is not None and evidence.question.is_decisions else None,
        shortfall=_shortfall(evidence, settings),
        gap_test=_test(evidence, settings),
        decision_table=decisions,
        contributions_full=table.frame,
        error_rates=None if evidence.y_true is None else error_rates(evidence, evidence.y_true, settings),
        periods=None if evidence.rows.period is None else period_table(evidence, evidence.rows.period, settings),
        unobserved_group=soft,
        correction=_correction(evidence, settings, function, checked, estimates, table),
        checks=Checks(evidence.nuisances.name, checked, tuple(dict.fromkeys(notes))),
        _errors=None if settings.folds is None else _errors(evidence, left, exempt, table.errors),
    )
    reported = comparison if soft is None else _of_unobserved_groups(comparison)
    return with_displays(in_units(reported, evidence.rows.unit))


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
    return Scale(
        score_type_of(evidence.question.is_decisions, evidence.rows.unit.is_amount),
        evidence.question.metric,
        output_scale(evidence, settings).materiality,
        settings.confidence,
        evidence.question.wording,
        evidence.question.source,
        evidence.rows.wants_less,
    )


def _outputs(evidence: Evidence, settings: Settings, spread: Estimate | None) -> Outputs:
    has_metric, is_amount = evidence.question.metric is not None, evidence.rows.unit.is_amount
    return Outputs(
        means=_means(evidence),
        rates=_rates(evidence, settings, evidence.favourable),
        metric_rates=_rates(evidence, settings, evidence.score) if has_metric else None,
        standardised_difference=spread,
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


def _compare_scores(evidence: Evidence, settings: Settings) -> dict[str, Noted]:
    """Return the ratio, the standardised difference and the divergence of scores."""
    population = evidence.population
    favourable = levels(evidence) if evidence.rows.unit.is_amount else evidence.favourable
    measured: dict[str, Callable[[], HasInterval]] = {
        "impact_ratio": lambda: outputs.impact_ratio(population, favourable),
        "standardised_difference": lambda: outputs.standardised_difference(population, evidence.score).normal(),
        "output_divergence": lambda: outputs.output_divergence(population, evidence.scores),
    }
    return {name: _defined(settings, make) for name, make in measured.items()}


def _paper_estimates(
    evidence: Evidence, settings: Settings, checked: Balance | None, function: CorrectionFunction | None, gap: Estimate
) -> dict[str, Noted]:
    """Return the paper's quantities; those of the inputs are None without features or propensity."""
    measured: dict[str, Noted] = {"input_divergence": (None, (Note("no inputs"),)), "descent_rate": (None, ())}
    if function is not None:
        makes: dict[str, Callable[[], Noted]] = {
            "input_divergence": lambda: _defined(settings, lambda: _input_divergence(evidence)),
            "descent_rate": lambda: _descent_rate(evidence, settings, function),
        }
        measured = {name: _of_propensity(evidence, settings, checked, name, make) for name, make in makes.items()}
    return measured | {"detection_sample_size": _decisions(evidence, gap)}


def _correction(
    evidence: Evidence,
    settings: Settings,
    function: CorrectionFunction | None,
    checked: Balance | None,
    estimates: Mapping[str, Estimate | None],
    table: ContributionTable,
) -> Correction:
    return Correction(
        numbers=None if function is None else function.to_dict(),
        epsilon_max=None if function is None else _epsilon_max(evidence, function),
        descent_rate=estimates["descent_rate"],
        input_divergence=estimates["input_divergence"],
        output_divergence=estimates["output_divergence"],
        detection_sample_size=estimates["detection_sample_size"],
        function=function,
        tradeoff=table.tradeoff and {name: table.tradeoff[name] for name in table.frame["feature"]},
        _confidence=None if checked is None else settings.confidence,
        _profiles=_profiles(evidence, function, settings.for_all(evidence.question.comparisons)),
    )


def _defined(settings: Settings, make: Callable[[], HasInterval]) -> Noted:
    """Return an estimate, or None and a note if it is not defined."""
    try:
        return settings.estimate(make()), ()
    except SupportError as error:
        return None, (Note("undefined", reason=str(error).splitlines()[0]),)


def _rates(evidence: Evidence, settings: Settings, score: Scores) -> Rates:
    return Rates(*map(settings.estimate, outputs.group_rates(evidence.population, score)))


def _shortfall(evidence: Evidence, settings: Settings) -> Estimate:
    """Return the shortfall Σw·(E1[W] − E0[W]) of the favourable outcome, with audited weights w in people."""
    law = outputs.gap_law(evidence.population, evidence.favourable)
    if not evidence.rows.wants_less:
        law = replace(law, first=law.second, second=law.first)
    size = evidence.rows.facts.largest_weight * evidence.population.weight0
    return settings.estimate(law).mapped(lambda gap: size * gap)


def _means(evidence: Evidence) -> Means:
    scores = evidence.score if evidence.rows.unit.is_amount else evidence.scores
    y0, y1 = scores.mean0, scores.mean1
    if y0.size == 1:
        return Means(float(y0[0]), float(y1[0]))
    return Means(tuple(y0.tolist()), tuple(y1.tolist()))


def _correction_function(evidence: Evidence, settings: Settings) -> tuple[CorrectionFunction | None, tuple[str, ...]]:
    """Return the correction function: None without inputs; of inputs only, with a note, if outputs lack support."""
    if evidence.nuisances.name == NO_MODEL:
        return None, ()
    audited, reference = evidence.moments
    try:
        return correction_function(audited, reference, settings.input_weight, settings.output_weight), ()
    except SupportError as error:
        note = Note("inputs only", reason=str(error).splitlines()[0])
        return correction_function(audited, reference, settings.input_weight or 1.0, 0.0), (note,)


def _epsilon_max(evidence: Evidence, function: CorrectionFunction) -> float:
    """Return the largest valid step along f~, from its smallest value among the audited people of the sample."""
    mine = evidence.sample.audited & (evidence.sample.weights > 0)
    smallest = float(np.min(function(evidence.nuisances.log_odds[mine], evidence.rows.scores[mine])))
    return -1.0 / smallest if smallest < 0 else 0.0


def _log_ratio(evidence: Evidence) -> Floats:
    """Return the log-ratio ℓ, cross-fitted if possible."""
    if evidence.nuisances.propensity is not None:
        return evidence.nuisances.propensity.log_ratio
    return evidence.nuisances.log_odds - prior_log_odds(evidence.population)


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
    evidence: Evidence, settings: Settings, checked: Balance | None, name: str, make: Callable[[], Noted]
) -> Noted:
    """Return an estimate that uses the propensity model; None if a feature has too many values to fit one.

    If the model fails its checks, only the limit nearer to 0 is kept: any model's divergence is at most the true one
    (Donsker & Varadhan 1983), and the part of ℓ that a model misses is missing in Var0(g) too.
    """
    propensity = evidence.nuisances.propensity
    is_rate = name == "descent_rate"  # which is negative
    if is_rate and settings.input_weight == 0:
        return make()
    if evidence.nuisances.pooled and propensity is not None and not propensity.is_known:
        return None, (Note("too many values", quantity=name, features=", ".join(evidence.nuisances.pooled)),)
    estimate, notes = make()
    if estimate is None or estimate.low is None or checked is None or checked.is_adequate:
        return estimate, notes
    ends = (None, estimate.high) if is_rate else (estimate.low, None)
    return Estimate(estimate.value, *ends), (*notes, Note("open-ended"))


def _input_divergence(evidence: Evidence) -> HasInterval:
    if evidence.nuisances.propensity is None:
        return Normal(evidence.moments[0].mean_log_odds - prior_log_odds(evidence.population), 0.0)
    if evidence.tilted is None:
        return crossfit.input_divergence(evidence.sample, evidence.nuisances.propensity.pairings).normal(least=0.0)
    value = evidence.moments[0].mean_log_odds - evidence.tilted.log_mass
    return crossfit.input_divergence(evidence.population, evidence.nuisances.propensity.pairings, value).normal(
        least=0.0
    )


def _descent_rate(evidence: Evidence, settings: Settings, correction: CorrectionFunction) -> Noted:
    if evidence.nuisances.propensity is None:
        return Estimate(correction.descent_rate), ()
    propensity, l2, l4 = evidence.nuisances.propensity, settings.input_weight, settings.output_weight
    if l2 == 0 and evidence.scores.mean0.size == 1:
        return _defined(settings, lambda: outputs.output_descent_rate(evidence.population, evidence.scores, l4))

    def measured() -> HasInterval:
        if l2 == 0:
            outputs.check_descent(evidence.scores)
        rows = evidence.population if propensity.is_known else evidence.sample
        gradients = [crossfit.gradient(rows, evidence.scores, pair, l2, l4) for pair in propensity.pairings]
        value = None if evidence.tilted is None else _tilted_variance(evidence.tilted, correction)
        return crossfit.gradient_variance(rows, gradients, value).square_root(sign=-1)

    return _defined(settings, measured)


def _tilted_variance(tilted: TiltedMeans, correction: CorrectionFunction) -> float:
    """Return Var0(g) − 2λ2·E1[e^ℓ·(g − E0[g])]/E1[e^ℓ] over all rows: corrected for the error of a given ℓ."""
    missed = tilted.means - correction.audited.mean
    on_gradient = correction.input_weight * float(missed[0])
    if correction.output_weight > 0:
        ratios = correction.log_output_ratio
        on_gradient += correction.output_weight * float((ratios[1:] - ratios[0]) @ missed[1:])
    return correction.descent_rate**2 - 2.0 * correction.input_weight * on_gradient


def _profiles(evidence: Evidence, correction: CorrectionFunction | None, settings: Settings) -> Profiles:
    return Profiles(
        sampled=evidence.rows,
        rows=evidence.sample,
        score=evidence.rows.unit.level(evidence.score.column),
        favourable=evidence.rows.unit.level(evidence.favourable.column),
        correction=correction,
        log_odds=evidence.nuisances.log_odds,
        log_ratio=_log_ratio(evidence),
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
    evidence: Evidence, left: AdjustedGap, parts: ExemptParts | None, of_features: dict[tuple[str, str], RowErrors]
) -> ComparisonErrors:
    """Return the row-wise errors of all estimates, for a paired comparison with another audit."""
    scale = evidence.rows.unit.scale
    of_sample: dict[ErrorKey, RowErrors] = dict(output_errors(evidence).items())
    of_shown: dict[ErrorKey, RowErrors] = dict(of_features.items())
    if parts is not None:
        of_shown |= {"gap_explained_by_exempt": parts.of_through, "gap_given_exempt": parts.of_at_equal}
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


def _decisions(evidence: Evidence, gap: Estimate) -> Noted:
    """Return the sample size to detect the gap, with an interval from the gap's; no upper end if that contains 0."""
    if evidence.scores.mean0.size != 1 or evidence.rows.unit.is_amount:
        return None, ()
    p, p1 = evidence.score.means
    value = _detection_sample_size(p, p1)
    if value is None:
        return None, (Note("outputs too close"),)
    if gap.low is None or gap.high is None:
        return Estimate(value), ()
    near, far = sorted((abs(gap.low), abs(gap.high)))
    ends = [_at_gap(p, p1, size) for size in (far, near)]
    return Estimate(value, ends[0], None if gap.low * gap.high <= 0 else ends[1]), ()


def _at_gap(p: float, p1: float, size: float) -> float | None:
    """Return the sample size to detect two rates that are `size` apart and have the same midpoint."""
    middle, half = (p + p1) / 2, np.copysign(size / 2, p - p1)
    return _detection_sample_size(*(float(np.clip(middle + side * half, 1e-9, 1 - 1e-9)) for side in (1, -1)))


def _detection_sample_size(p: float, p1: float) -> float | None:
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
