"""Each feature's contribution to the gap, alone and beyond the others, with a simultaneous band and a verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tiltlens._analysis.adjusted_gap import AdjustedGap
from tiltlens._analysis.evidence import Columns, Evidence, OutputScale, Settings, estimate_columns, output_scale
from tiltlens._analysis.feature_use import FeatureUses, Partners, feature_uses, judged_use
from tiltlens._analysis.influence_matching import ErrorKey, RowErrors, set_errors
from tiltlens._analysis.unobserved_groups import UnobservedGroup
from tiltlens._estimators.estimate import Estimate, Normal, quantile, without_noise
from tiltlens._estimators.feature_gap import FeatureGap, cell_coefficient, feature_gap, hidden_share, rare_part
from tiltlens._estimators.outputs import Scores
from tiltlens._estimators.sets import (
    CellSets,
    RidgeSets,
    SetCoefficients,
    ShapleyGaps,
    covariance,
    degrees_of_freedom,
    shapley_gaps,
)
from tiltlens._estimators.verdicts import (
    EVIDENCE,
    Band,
    Judgement,
    Verdict,
    bands,
    is_beyond,
    simultaneous_factor,
    verdict,
)
from tiltlens._limits import HIDDEN, SMALLEST_EXPECTED, SUPPRESSED_BELOW
from tiltlens._notes import Note
from tiltlens._rows.features import Feature
from tiltlens._threads import stage, steps_in_threads
from tiltlens.paper.checks import Floats

BANDS, USES, SHAPLEY = 0.2, 0.5, 0.95  # approximate shares of the running time
SHAPLEY_AGREED = 3.0  # standard errors within which Shapley values must add up to the gap minus the adjusted gap
WIDE_BANDS = 10.0  # multiple of the materiality threshold: wider bands are uninformative
PARTS = ("alone", "beyond_others", "shapley")
FACTORS = ("reveals", "drives", "alignment")


class Named(NamedTuple):
    """One number per named feature, with its row-wise influence and its deviations between pairings."""

    names: list[str]
    numbers: SetCoefficients


@dataclass(frozen=True, slots=True, eq=False)
class GapParts:
    """Columns and judgement of each feature, the remainder of the Shapley values, κ, row-wise errors, and notes."""

    columns: dict[str, Columns]
    judgements: dict[str, Judgement]
    remainder: float | None
    band_factor: float | None
    errors: dict[ErrorKey, RowErrors]
    notes: tuple[Note, ...]


def decompose_gap(
    evidence: Evidence,
    settings: Settings,
    adjusted: AdjustedGap,
    pairs: Mapping[str, Partners],
    soft: UnobservedGroup | None = None,
) -> GapParts:
    """Return gap(j), its factors, joint(j), Shapley values and the verdict of every feature.

    `soft` limits the verdicts for unobserved groups.
    """
    doubt, visible = (None, 1.0) if soft is None else (soft.doubt, soft.visible)
    factors, alone = _alone(evidence, settings)
    sets = evidence.nuisances.sets
    every = None if sets is None else sets.left_out()
    joint = None if every is None else beyond_others(evidence, every)
    gaps = at_equal_exempt(evidence, sets) if evidence.question.exempt and sets is not None else alone
    alone_bands, joint_bands, factor = simultaneous_bands(evidence, settings, gaps, joint)
    joint_bands = {name: _with_hidden(evidence, name, band) for name, band in joint_bands.items()}
    with stage(BANDS, USES):
        uses = feature_uses(evidence, settings, alone_bands, joint_bands, pairs) if doubt is None else FeatureUses()
    with stage(USES, SHAPLEY):
        shapley, remainder, notes, every_set = shapley_parts(evidence, settings, adjusted, every, uses.unused)
    errors = _errors("alone", gaps) | _errors("beyond_others", joint) | _errors("shapley", every_set)
    columns, judgements = dict[str, Columns](), dict[str, Judgement]()
    whole = whole_gap(evidence)
    if settings.folds is not None:
        notes += _wide_bands_note(joint_bands.values(), output_scale(evidence, settings))
    for feature in evidence.rows.features:
        name = feature.name
        both = alone_bands.get(name), joint_bands.get(name)
        judgement = _verdict(evidence, settings, feature, *both, pairs, visible=visible, whole=whole)
        judgement = judged_use(evidence, settings, uses, name, judgement)
        is_cleared = judgement.verdict == Verdict.NO_MATERIAL_CONTRIBUTION
        if is_cleared and any(band is not None and band.reach for band in both):
            judgement = _recheck_clearance(evidence, settings, adjusted, every, name, judgement)
        if doubt is not None and judgement.verdict not in (Verdict.EXEMPT, Verdict.IDENTIFIES_GROUP):
            judgement = Judgement(Verdict.NOT_ASSESSED, doubt)
        parts = (*both, shapley.get(name))
        columns[name] = _columns(evidence, settings, name, parts, factors.get(name)) | uses.columns(name)
        judgements[name] = judgement
    return GapParts(columns, judgements, remainder, None if settings.folds is None else factor, errors, tuple(notes))


def _columns(
    evidence: Evidence, settings: Settings, name: str, parts: Iterable[Band | Estimate | None], gap: FeatureGap | None
) -> Columns:
    """Return the parts of the gap that go through a feature, and their factors; no intervals for values too rare."""
    has_bands = settings.folds is not None and _rarity(evidence, settings, name) is None
    printed = (number if number is None or has_bands else Estimate(number.value) for number in parts)
    factors = {key: None if gap is None else settings.estimate(getattr(gap, key)) for key in FACTORS}
    return estimate_columns(dict(zip(PARTS, printed, strict=True)) | factors)


def _wide_bands_note(joint: Collection[Band], words: OutputScale) -> list[Note]:
    """Return a note if the median band of joint(j) is too wide to be informative."""
    middle = float(np.median([band.reach for band in joint])) if joint else 0.0
    is_wide = middle > WIDE_BANDS * words.materiality
    return [Note("few rows", size=words.size_words(middle))] if is_wide else []


def _recheck_clearance(
    evidence: Evidence,
    settings: Settings,
    adjusted: AdjustedGap,
    every: SetCoefficients | None,
    name: str,
    judgement: Judgement,
) -> Judgement:
    """Return the verdict of a cleared feature, changed to inconclusive if the regressions may miss a material part.

    It stands if the adjusted gap is not material, both estimates of c_all agree within ±m, and the cells of the
    feature, alone or with others, hide nothing material.
    """
    if not isinstance(evidence.nuisances.sets, RidgeSets) or every is None or adjusted.value is None:
        return judgement
    words, z = output_scale(evidence, settings), quantile(settings.confidence)
    # A material adjusted gap may be due to any feature, so none is cleared.
    if adjusted.estimate is not None and is_beyond(adjusted.estimate, words.materiality):
        size = words.size_words(adjusted.value)
        return Judgement(Verdict.INCONCLUSIVE, Note("material adjusted gap", reason=judgement.reason, size=size))
    # Equivalence, not absence of a difference: the regressions must agree within ±m at the level asked.
    missed = every.values[0] - adjusted.value
    if abs(missed) + z * difference_se(every, adjusted) > words.materiality:
        size = words.size_words(missed)
        return Judgement(Verdict.INCONCLUSIVE, Note("regressions disagree", reason=judgement.reason, size=size))
    for hidden in evidence.nuisances.sets.hidden:
        if name in hidden.names and abs(hidden.value) + z * hidden.se > words.materiality:
            others = ", ".join(other for other in hidden.names if other != name) or "its own values"
            return Judgement(Verdict.INCONCLUSIVE, Note("hidden in cells", reason=judgement.reason, others=others))
    return judgement


def _with_hidden(evidence: Evidence, name: str, band: Band) -> Band:
    """Return the band of joint(j), widened by the significant parts of c_all that regressions miss in cells of j."""
    hidden = evidence.nuisances.sets.hidden if isinstance(evidence.nuisances.sets, RidgeSets) else ()
    # The part of c_all hidden in cells is missing from joint(j) of the features that define them.
    missed = [part.value for part in hidden if part.is_sure and name in part.names]
    low, high = band.low + min([0.0, *missed]), band.high + max([0.0, *missed])
    return band._replace(low=low, high=high, reach=max(band.value - low, high - band.value))


def _errors(name: str, named: Named | None) -> dict[ErrorKey, RowErrors]:
    parts = [] if named is None else zip(named.names, set_errors(named.numbers), strict=True)
    return {(name, feature): part for feature, part in parts}


def _alone(evidence: Evidence, settings: Settings) -> tuple[dict[str, FeatureGap], Named]:
    """Return gap(j) of every feature: from cells if its values are countable, else from the regressions on sets.

    They are in the order of the models' table, which does not depend on feature names.
    """
    index, sets, order = evidence.nuisances.influence_rows, evidence.nuisances.sets, list(evidence.table)
    at, outcome = evidence.sample.take(index), replace(evidence.score, values=evidence.score.values[index])
    # (36): a sample's rows represent all rows, whose sums the values come from.
    if evidence.population.is_sample or index.size < evidence.sample.audited.size:
        at = at.represent(evidence.population)
    gaps: dict[str, FeatureGap] = {}
    between: dict[str, Floats] = {}
    for feature in evidence.rows.features:
        if feature.name in evidence.cells and not feature.is_group:
            cells = evidence.cells[feature.name]
            c = cell_coefficient(at, outcome.column, cells.codes[index], cells.sums, settings.folds is not None)
            if not c.is_separated:
                gaps[feature.name] = feature_gap(at, outcome, c)
    numeric = [name for name in order if name not in evidence.cells]
    if numeric and isinstance(sets, RidgeSets):
        coefficients, spread = sets.coefficients([[order.index(name)] for name in numeric])
        for name, c, deviations in zip(numeric, coefficients, spread.T, strict=True):
            if not c.is_separated:
                gaps[name] = feature_gap(sets.at, sampled_scores(evidence, outcome), c)
                # gap(j) = gap − c_j: deviations of c_j between pairings have the opposite sign in gap(j).
                between[name] = -_pad_pairings(deviations)
    names = [name for name in (*order, *sorted(set(gaps) - set(order))) if name in gaps]
    parts = [gaps[name].gap for name in names]
    influence = np.column_stack([part.influence for part in parts]) if parts else np.zeros((0, 0))
    # Cells use leave-one-out means, not fitted models, so they have no pairings.
    deviations = np.array([between.get(name, np.zeros(3)) for name in names]).reshape(-1, 3).T
    return gaps, Named(names, SetCoefficients(np.array([part.value for part in parts]), influence, deviations))


def at_equal_exempt(evidence: Evidence, sets: CellSets | RidgeSets) -> Named:
    """Return c_E − c_{E∪j} of each other feature that is regressed on: its gap(j) between people equal in E."""
    start = evidence.exempt
    others = [position for position in range(sets.features) if position not in start]
    coefficients = sets.sets([start, *([*start, position] for position in others)])
    # c_E − c_{E∪j}, column by column.
    weights = np.vstack([np.ones((1, len(others))), -np.eye(len(others))])
    names = list(evidence.table)
    return Named([names[position] for position in others], coefficients.combine(weights))


def beyond_others(evidence: Evidence, every: SetCoefficients) -> Named:
    """Return joint(j) = c_{all but j} − c_all, except for pooled and exempt features; `every` begins with c_all."""
    count = len(evidence.table)
    # (15): both within one class of regressions, so that what the basis misses mostly cancels.
    weights = np.vstack([-np.ones((1, count)), np.eye(count)])
    names, joint = list(evidence.table), every.combine(weights)
    unsaid = {*evidence.nuisances.pooled, *evidence.question.exempt}
    kept = [position for position, name in enumerate(names) if name not in unsaid]
    return Named([names[position] for position in kept], joint.select(kept))


def simultaneous_bands(
    evidence: Evidence, settings: Settings, gaps: Named, joint: Named | None
) -> tuple[dict[str, Band], dict[str, Band], float | None]:
    """Return the simultaneous bands of gap(j) and joint(j), over features and comparisons, and their factor κ.

    κ is simulated, so the order of the features must not depend on the order of columns.
    """
    both = [named for named in (gaps, joint) if named is not None and named.names]
    if not both:
        return {}, {}, None
    values = np.concatenate([named.numbers.values for named in both]).tolist()
    between = np.column_stack([_pad_pairings(column) for named in both for column in named.numbers.between.T])
    influence = np.hstack([named.numbers.influence for named in both])
    # (39): one covariance of gap(j) and joint(j) of all features, hence one κ for all that is judged.
    errors = covariance(influence, between)
    degrees = degrees_of_freedom(influence, between, errors)
    # (1 − α)^{1/G} for each of G groups: enough for jointly normal errors (Šidák).
    confidence = settings.for_all(evidence.question.comparisons).confidence
    factor = simultaneous_factor(errors, confidence, settings.random_state)
    every = bands(values, np.sqrt(np.maximum(np.diag(errors), 0.0)), factor, degrees)
    others = [] if joint is None else joint.names
    gap_bands = dict(zip(gaps.names, every, strict=False))
    return gap_bands, dict(zip(others, every[len(gaps.names) :], strict=True)), factor


def _pad_pairings(between: Floats) -> Floats:
    """Return the deviations between three pairings, 0 if there is only one."""
    return between if between.size == 3 else np.zeros(3)


def _direction(value: float, whole: float, materiality: float, audited: str) -> str:
    """Return a note on the direction of a contribution: that it narrows the gap or, for a gap of about 0, its sign."""
    if abs(whole) <= materiality:
        return Note("higher for a group", group=audited) if value > 0.0 else Note("lower for a group", group=audited)
    return Note("narrows the gap") if value * whole < 0.0 else ""


def _verdict(
    evidence: Evidence,
    settings: Settings,
    feature: Feature,
    alone: Band | None,
    joint: Band | None,
    pairs: Mapping[str, Partners],
    visible: float,
    whole: float,
) -> Judgement:
    """Return the verdict on a feature, checking first for reasons not to assess it."""
    words = output_scale(evidence, settings)
    if feature.name in evidence.question.exempt:
        return Judgement(Verdict.EXEMPT, Note("exempt"))
    if feature.is_group:
        return Judgement(Verdict.IDENTIFIES_GROUP, Note("group or copy"))
    if settings.folds is None:
        return Judgement(Verdict.NOT_ASSESSED, Note("plug-in"))
    if feature.kind == "identifier":
        return Judgement(Verdict.NOT_ASSESSED, Note("looks like an identifier"))
    judge = partial(verdict, size=words.size, unit=words.measure.unit)
    if feature.kind == "constant":
        return judge(Band(0.0, 0.0, 0.0, 0.0), None, words.materiality, 0)
    cells = evidence.cells.get(feature.name)
    is_sparse = cells is not None and hidden_share(cells.sums) > HIDDEN
    if alone is None and is_sparse:  # values of one person each separate any two groups
        return Judgement(Verdict.NOT_ASSESSED, Note("too sparse"))
    if alone is None:
        return Judgement(Verdict.IDENTIFIES_GROUP, Note("separating values"))
    rarity = _rarity(evidence, settings, feature.name)
    if rarity is not None:
        return Judgement(Verdict.NOT_ASSESSED, rarity)
    rows, partner = round(sum(evidence.rows.facts.people)), pairs.get(feature.name, Partners()).partner
    way = partial(_direction, whole=whole, materiality=words.materiality, audited=evidence.question.audited)
    judgement = judge(alone, joint, words.materiality, rows, partner, visible=visible, way=way)
    if judgement.verdict not in EVIDENCE and feature.name in evidence.nuisances.pooled:
        return Judgement(Verdict.NOT_ASSESSED, Note("too many values together"))
    return Judgement(Verdict.NOT_ASSESSED, Note("too sparse")) if is_sparse else judgement


def _rarity(evidence: Evidence, settings: Settings, name: str) -> Note | None:
    """Return why a feature has no band: values with a material part, or a decision, are too rare; None if neither is.

    If a group has no row with such a value or decision, its influences cannot show the error that follows.
    """
    rows, cells, rates = evidence.population, evidence.cells.get(name), evidence.score.means
    group = evidence.question.audited if rows.square0 >= rows.square1 else evidence.question.reference
    # Cochran's rule: the rarer decision's share times the effective n.
    rarest = min(max(rates), 1.0 - min(rates)) / max(rows.square0, rows.square1)
    if evidence.question.is_decisions and rarest < SMALLEST_EXPECTED:
        return Note("rare decision", minimum=SUPPRESSED_BELOW, group=group)
    if cells is None or rare_part(cells.sums) <= output_scale(evidence, settings).materiality:
        return None
    return Note("rare value", minimum=SUPPRESSED_BELOW, group=group)


def shapley_parts(
    evidence: Evidence,
    settings: Settings,
    adjusted: AdjustedGap,
    every: SetCoefficients | None,
    unused: Sequence[str] = (),
) -> tuple[dict[str, Estimate], float | None, list[Note], Named | None]:
    """Return Shapley values, the remainder, notes, and the values with row-wise errors (if all sets are used).

    There are no values unless they sum to the gap minus the adjusted gap within their error. `unused` features are left
    out of the game and get the value 0.
    """
    sets = evidence.nuisances.sets
    if pooled := evidence.nuisances.pooled:
        return {}, None, [Note("no Shapley: too many values", features=", ".join(pooled))], None
    if sets is None or every is None or adjusted.value is None:
        return {}, None, [], None
    start, whole, words = evidence.exempt, whole_gap(evidence), output_scale(evidence, settings)
    if len(start) == sets.features:
        return {}, without_noise(whole), [], None
    difference, se = float(every.values[0]) - adjusted.value, difference_se(every, adjusted)
    # Shapley values whose sum contradicts the best regressions would be precise but wrong.
    if settings.folds is not None and abs(difference) > SHAPLEY_AGREED * se + 0.1 * words.materiality:
        note = Note(
            "no Shapley: other sum",
            sum=words.signed_words(whole - float(every.values[0])),
            whole="the gap given the exempt factors" if start else "the gap",
            rest=words.signed(whole - adjusted.value),
        )
        return {}, None, [note], None
    without = [number for number, name in enumerate(evidence.table) if name in unused]
    values, gaps = shapley_values(evidence, settings, sets, without)
    notes = [Note("sampled orders", orders=gaps.orders)] if gaps.orders else []
    notes += _used_remainder(sets, without, words, quantile(settings.confidence))
    named = None if gaps.every is None else Named(list(values), gaps.every)
    nothing = dict.fromkeys(unused, settings.estimate(Normal(0.0, 0.0)))
    return nothing | values, without_noise(whole - float(gaps.values.sum())), notes, named


def shapley_values(
    evidence: Evidence, settings: Settings, sets: CellSets | RidgeSets, without: Sequence[int] = ()
) -> tuple[dict[str, Estimate], ShapleyGaps]:
    """Return the Shapley values of the features that are neither exempt nor at the positions `without`."""
    start, apply = evidence.exempt, partial(steps_in_threads, rows=evidence.sample.audited.size)
    gaps = shapley_gaps(sets, settings.random_state, apply, start, without)
    names = [name for number, name in enumerate(evidence.table) if number not in (*start, *without)]
    return dict(zip(names, map(settings.estimate, gaps.laws), strict=True)), gaps


def _used_remainder(sets: CellSets | RidgeSets, without: Sequence[int], words: OutputScale, z: float) -> list[Note]:
    """Return a note if the gap at equal used features differs significantly from the gap at all features equal."""
    if not without:
        return []
    every = list(range(sets.features))
    both = sets.sets([[number for number in every if number not in without], every])
    apart = both.combine(np.array([[1.0], [-1.0]]))
    if abs(apart.values[0]) <= z * float(np.sqrt(covariance(apart.influence, apart.between)[0, 0])):
        return []
    used, equal = (words.signed_words(float(value)) for value in both.values)
    return [Note("Shapley remainder", used=used, equal=equal)]


def whole_gap(evidence: Evidence) -> float:
    """Return the total that the features' contributions divide: the gap or, with exempt factors, c_E."""
    start = evidence.exempt
    if start and evidence.nuisances.sets is not None:
        return float(evidence.nuisances.sets.values([start])[0])
    return sampled_scores(evidence, evidence.score).gap


def difference_se(every: SetCoefficients, adjusted: AdjustedGap) -> float:
    """Return the standard error of c_all from the sets minus c_all from the best regressions.

    Influences are subtracted row by row if both use the same rows. A c_all of 0 by construction has no error.
    """
    influence, best, rest = every.influence[:, 0], adjusted.measured, 0.0
    if best is not None and not adjusted.is_by_construction:
        rest = best.variance
        if best.influence.size == influence.size:
            # Row by row: both c_all come from the same rows, and their errors mostly cancel.
            influence, rest = influence - best.influence, 2.0 * float(best.between @ best.between) / len(best.parts)
    return float(np.sqrt(covariance(influence[:, None], every.between[:, :1])[0, 0] + rest))


def sampled_scores(evidence: Evidence, outcome: Scores) -> Scores:
    """Return the scores with the means of the sample, on which the regressions were fitted, not those of all rows."""
    if evidence.rows.facts.is_complete:
        return outcome
    whole = Scores.of(evidence.sample, evidence.score.column, outcome.is_probability)
    return replace(whole, values=outcome.values)
