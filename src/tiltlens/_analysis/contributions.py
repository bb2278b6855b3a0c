"""The table of contributions: each feature's part of the gap, share of the correction, direction and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tiltlens._analysis.adjusted_gap import AdjustedGap
from tiltlens._analysis.decomposition import decompose_gap
from tiltlens._analysis.evidence import Columns, Evidence, Settings, estimate_columns, interval_schema, output_measure
from tiltlens._analysis.feature_use import Partners, partners
from tiltlens._analysis.influence_matching import ErrorKey, RowErrors
from tiltlens._analysis.unobserved_groups import UnobservedGroup
from tiltlens._estimators import crossfit
from tiltlens._estimators.estimate import Estimate, Ratio
from tiltlens._estimators.feature_gap import factorize_ints
from tiltlens._estimators.influence import InfluenceEstimate, Integers, Rows, average_estimates, combine, sums_by
from tiltlens._estimators.outputs import Scores, output_term
from tiltlens._estimators.use import CORNERS, ShareForm, plug_in_form, share_form
from tiltlens._formats import label, value_of
from tiltlens._learners.propensity import (
    Propensity,
    fold_pairings,
    in_folds,
    prior_log_odds,
    row_folds,
    served_folds,
)
from tiltlens._learners.regressions import SmoothPart, spline_means
from tiltlens._limits import CLIP, FOLDS, NOISE, SUPPRESSED_BELOW
from tiltlens._notes import Note
from tiltlens._rows.features import Feature, joined_feature
from tiltlens._threads import in_threads, steps_in_threads
from tiltlens.errors import SupportError
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction


def direction(evidence: Evidence, feature: Feature, part: float | None = None) -> Note:
    """Describe how the score and group membership vary with the feature.

    Only associations with the sign of the feature's contribution `part` are named, and never levels with one to nine
    people of a group.
    """
    rows, w, codes, levels = evidence.sample, evidence.score.column, feature.codes, len(feature.labels)
    both = rows.audited_share + rows.reference_share
    p0, p1, first = (np.bincount(codes, x, levels) for x in (rows.audited_share, rows.reference_share, both * w))
    used = p0 + p1 > 0
    means = np.divide(first, p0 + p1, out=np.zeros_like(first), where=used)
    output = output_measure(evidence).output
    group = evidence.question.audited
    if feature.kind == "identifier":
        return Note("every value once")
    if used.sum() < 2:
        return Note("does not vary")
    if np.ptp(means[used]) < NOISE:
        return Note("score does not follow", output=output)
    if np.abs(p0 - p1).max() < NOISE:
        return Note("equally common")
    if feature.kind in ("numeric", "date"):
        level, share = np.arange(len(p0), dtype=np.float64), (p0 + p1) / (p0 + p1).sum()
        higher = float(share @ ((level - share @ level) * (means - share @ means))) > 0
        commoner = float(p0 @ level) > float(p1 @ level)
        if not part or (part > 0.0) == (higher == commoner):
            score, frequency = _association(higher, commoner)
            name = feature.name
            return Note("higher values", feature=name, score=score, frequency=frequency, output=output, group=group)
    people = rows.counts(codes, levels)
    is_common = used & ~np.any([(n > 0) & (n < SUPPRESSED_BELOW) for n in people], axis=0)
    if not is_common.any():
        return Note("rare values")
    # A level's part in Σ (P0 − P1)·E[W|level], the gap without holding the group fixed.
    pull = (p0 - p1) * (means - 0.5 * float((p0 + p1) @ means))
    is_common &= (pull * part > 0.0) if part else is_common
    if not is_common.any():
        return Note("no common value")
    top = int(np.argmax(np.where(is_common, np.abs(pull), -1.0)))
    score, frequency = _association(means[top] > 0.5 * float((p0 + p1) @ means), p0[top] > p1[top])
    value = value_of(feature.name, feature.labels[top])
    return Note("value", value=value, score=score, frequency=frequency, output=output, group=group)


def _association(is_higher: bool, is_commoner: bool) -> tuple[str, str]:
    return "higher" if is_higher else "lower", "more" if is_commoner else "less"


SHARES = {  # of g, of ℓ, and of W
    "share": "the share of the correction",
    "share_inputs": "the share of the correction's inputs (share_inputs)",
    "share_outputs": "the share of the correction's outputs (share_outputs)",
}
POOLED_AUDITED = 0.1  # largest fraction of audited people with merged values for which a share is reported
SplineMeans = list[tuple[Floats, Floats]]  # per pairing, from both models: E0[(ℓ, T, W)|X_j] at each row, (n, 3)


def correction_shares(
    evidence: Evidence, settings: Settings, correction: CorrectionFunction, is_adequate: bool = True
) -> tuple[dict[str, ShareForm] | None, dict[str, Columns], list[Note]]:
    """Return each feature's share of Var0(g) as a form in (λ2, λ4), its shares of g, ℓ and W as columns, and notes.

    If the membership model fails its checks, only shares that do not involve ℓ are returned.
    """
    if evidence.nuisances.propensity is None:
        return _plug_in_shares(evidence, settings, correction)
    rows, scores, pairs = evidence.sample, evidence.scores, evidence.nuisances.propensity.pairings
    # Levels too rare for leave-one-out means are merged before a cross-fit.
    fold, every = evidence.nuisances.propensity.fold, evidence.rows.features
    features = in_threads(lambda feature: joined_feature(feature, rows, fold), every, fold.size)
    scored = [_score_gradient(rows, evidence.score.column, pair) for pair in pairs]
    spread = crossfit.gradient_variance(rows, scored)
    # Three corners of the dial determine the form at every (λ2, λ4): (33).
    used = CORNERS if has_outputs(evidence) else CORNERS[:1]
    corners = [[crossfit.gradient(rows, scores, pair, *corner) for pair in pairs] for corner in used]
    wholes = [crossfit.gradient_variance(rows, corner) for corner in corners]
    learnt = _parts(evidence, evidence.nuisances.propensity, settings)

    def explained(gradients: Sequence[crossfit.Gradient], codes: Integers) -> InfluenceEstimate:
        return average_estimates([crossfit.explained_variance(rows, g, codes) for g in gradients])

    def shared(feature: Feature) -> tuple[ShareForm, Ratio]:
        if feature.name in evidence.table and feature.is_binned:
            means = learnt.means(evidence.table[feature.name], rows.weights, settings.random_state)
            parts = [_learned_by(rows, corner, means, on) for corner, on in zip(corners, CORNERS, strict=False)]
            outputs = _learned_by(rows, scored, means, (0.0, 0.0)).over(spread)
        else:
            parts = [explained(corner, feature.codes) for corner in corners]
            outputs = explained(scored, feature.codes).over(spread)
        return share_form(_three(parts), _three(wholes)), outputs

    pairs_of_shares = steps_in_threads(shared, features, rows.audited.size)
    shares = list(zip(features, pairs_of_shares, strict=True))
    pooled = [feature.name for feature in features if _pooled_share(evidence, feature) > POOLED_AUDITED]
    columns, notes = _share_columns(settings, correction, is_adequate, shares, pooled)
    forms = {feature.name: form for feature, (form, _) in shares if feature.name not in pooled}
    return forms if is_adequate else None, columns, notes


def _share_columns(
    settings: Settings,
    correction: CorrectionFunction,
    is_adequate: bool,
    shares: Sequence[tuple[Feature, tuple[ShareForm, Ratio]]],
    pooled: Sequence[str],
) -> tuple[dict[str, Columns], list[Note]]:
    """Return the columns of the shares of g, ℓ and W that can be reported, and notes on those that cannot."""
    columns: dict[str, Columns] = {}
    notes = [] if is_adequate else [Note("no shares")]
    is_reported = dict(zip(SHARES, (is_adequate or not settings.input_weight, is_adequate, True), strict=True))
    weights = (correction.input_weight, correction.output_weight)
    for feature, (form, of_outputs) in shares:
        ratios = dict(zip(SHARES, (form.at(*weights), form.at(1.0, 0.0), of_outputs), strict=True))
        for name, ratio in ratios.items():
            if is_reported[name] and not ratio.is_determined(settings.confidence):
                notes.append(Note("no share: no correction", share=SHARES[name]))
        columns[feature.name] = estimate_columns(
            {
                name: settings.estimate(law) if is_reported[name] and feature.name not in pooled else None
                for name, law in ratios.items()
            }
        )
    if pooled:
        names = ", ".join(map(label, sorted(pooled)))
        notes.append(Note("no share: merged values", features=names, limit=POOLED_AUDITED))
    return columns, notes


def _pooled_share(evidence: Evidence, feature: Feature) -> float:
    """Return the fraction of audited people with a merged value; a share cannot tell merged values apart."""
    if feature.kind == "identifier":
        return 1.0
    if feature.is_binned or feature.name not in evidence.cells:
        return 0.0
    values = evidence.cells[feature.name].codes
    width = int(values.max()) + 1
    # Levels with several of the original values are those that were joined.
    level_of = factorize_ints(feature.codes * width + values)[0] // width
    joined = np.bincount(level_of, minlength=len(feature.labels)) > 1
    return evidence.sample.mean0(joined[feature.codes].astype(np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Training data for E0[(ℓ, T, W)|X_j]; `plan` gives for each pairing the two parts that serve each fold."""

    parts: list[SmoothPart]
    fold: Integers
    plan: Sequence[Integers]

    def means(self, column: Floats, weights: Floats, seed: int) -> SplineMeans:
        """Return E0[(ℓ, T, W)|X_j] for a numeric feature, fitted for each model on that model's training rows."""
        every, size = np.empty((len(self.parts), self.fold.size, 3)), self.fold.size
        # m_a is learnt from model a's own rows, m_b from b's: neither has seen the row it is used on.
        means = spline_means(column, self.parts, weights, seed)
        for number, (part, part_means) in enumerate(zip(self.parts, means, strict=True)):
            every[number, part.wanted] = part_means
        places = [(half * size).take(self.fold, axis=0) + np.arange(size)[:, None] for half in self.plan]
        lines = every.reshape(-1, 3)
        return [(lines.take(both[:, 0], axis=0), lines.take(both[:, 1], axis=0)) for both in places]


def _parts(evidence: Evidence, propensity: Propensity, settings: Settings) -> _Parts:
    """Return the training parts of the cross-fit; for a given ℓ, the halves of the other folds that one would use."""
    rows = evidence.sample
    if propensity.is_known:
        fold, halves = row_folds(rows, FOLDS, settings.random_state), fold_pairings(FOLDS, several=False)[0]
        folds = sorted({half for pair in halves for half in pair})
        plan: Sequence[Integers] = (np.array([[folds.index(half) for half in pair] for pair in halves]),)
        ells = [propensity.pairings[0].a] * len(folds)
    else:
        fold, plan, folds = propensity.fold, propensity.plan, [part.folds for part in propensity.parts]
        ells = [np.clip(log_odds - prior_log_odds(rows), -CLIP, CLIP) for log_odds in propensity.part_log_odds]
    term = output_term(evidence.scores).values() if has_outputs(evidence) else np.zeros(fold.size)
    parts = []
    for number, (fitted_on, ell) in enumerate(zip(folds, ells, strict=True)):
        target = np.column_stack([ell, term, evidence.score.column])
        trained, wanted = (in_folds(fold, some) for some in (fitted_on, served_folds(plan, number)))
        parts.append(SmoothPart.of(target, np.flatnonzero(rows.audited & trained), np.flatnonzero(wanted)))
    return _Parts(parts, fold, plan)


def _learned_by(
    rows: Rows, gradients: list[crossfit.Gradient], means: SplineMeans, on: tuple[float, float]
) -> InfluenceEstimate:
    """Return Var0(E0[g|X_j]) for g = λ2·ℓ + λ4·T with (λ2, λ4) = `on`, or for g = W if both are 0."""
    # E0[g|X_j] is linear in (ℓ, T): learnt once, mixed for every corner.
    mix = np.array([*on, 0.0]) if any(on) else np.array([0.0, 0.0, 1.0])
    return average_estimates(
        [crossfit.learned_variance(rows, g, a @ mix, b @ mix) for g, (a, b) in zip(gradients, means, strict=True)]
    )


def _plug_in_shares(
    evidence: Evidence, settings: Settings, correction: CorrectionFunction
) -> tuple[dict[str, ShareForm], dict[str, Columns], list[Note]]:
    ratios = correction.log_output_ratio
    slopes = ratios[1:] - ratios[0] if has_outputs(evidence) else np.zeros(correction.outcomes - 1)
    spread = float(evidence.score.covariance0[0, 0])
    # W last: its own share does not pass through T.
    z = np.column_stack([evidence.nuisances.log_odds, *evidence.rows.free_scores, evidence.score.column])
    forms, columns = {}, dict[str, Columns]()
    for feature in evidence.rows.features:
        between = _between(evidence, feature, z, settings)
        form = forms[feature.name] = plug_in_form(between[:-1, :-1], correction.audited.covariance, slopes)
        share = form.at(correction.input_weight, correction.output_weight)
        of_outputs = float(between[-1, -1]) / spread if spread > 0 else 0.0
        values = (share.estimate().value, form.at(1.0, 0.0).estimate().value, of_outputs)
        columns[feature.name] = estimate_columns(dict(zip(SHARES, map(Estimate, values), strict=True)))
    return forms, columns, []


def _between(evidence: Evidence, feature: Feature, z: Floats, settings: Settings) -> Floats:
    """Return the plug-in Cov0(E0[z|X_j]), with E0 from splines of a numeric feature or the cell means of any other."""
    share = evidence.sample.audited_share
    if feature.name in evidence.table and feature.is_binned:
        part = SmoothPart.of(z, np.flatnonzero(evidence.sample.audited), np.arange(share.size))
        column = evidence.table[feature.name]
        means, mass = spline_means(column, [part], evidence.sample.weights, settings.random_state)[0], share
    else:
        mass = sums_by(feature.codes, share)
        sums = np.column_stack([sums_by(feature.codes, share * column) for column in z.T])
        means = sums / np.where(mass > 0.0, mass, 1.0)[:, None]
    centred = means - mass @ means
    return np.asarray((centred * mass[:, None]).T @ centred)


def _three(corners: list[InfluenceEstimate]) -> list[InfluenceEstimate]:
    """Return the estimates at the three corners of the dial; if outputs cannot be aligned, T contributes 0."""
    # 0 with the shape of an estimate: T is left out of the form.
    return corners if len(corners) == 3 else [corners[0], combine(0.0, [(0.0, corners[0])]), corners[0]]


def _score_gradient(rows: Rows, outcome: Floats, pair: crossfit.Pairing) -> crossfit.Gradient:
    """Return W as a gradient: the slope k of T = k·W cancels in every share, and its error with it."""
    varies = float(np.ptp(outcome) > 0)  # 0, not rounding
    # A constant score has no share; rounding must not give it one.
    centred = crossfit.centre_by_fold(rows, outcome, pair.fold) * varies
    return crossfit.Gradient(centred, centred, pair, None, 0.0, 0.0, is_known=pair.a is pair.b)


def has_outputs(evidence: Evidence) -> bool:
    """Return whether the outputs have a finite divergence, so that they can be aligned."""
    try:
        output_term(evidence.scores)
    except SupportError:
        return False
    return True


MOST_CROSSED = 40  # most features whose pairs are all searched
PARTNER_ROWS = 20_000  # used to search for partners


@dataclass(frozen=True, slots=True, eq=False)
class ContributionTable:
    """The table of contributions, with its band factor, row-wise errors and notes."""

    frame: pl.DataFrame
    tradeoff: dict[str, ShareForm] | None  # None if the output divergence is infinite, or the model of ℓ is inadequate
    remainder: float | None  # the gap minus the sum of the Shapley values
    band_factor: float | None  # κ of the bands
    errors: dict[ErrorKey, RowErrors]
    notes: tuple[Note, ...]


def contribution_table(
    evidence: Evidence,
    settings: Settings,
    correction: CorrectionFunction | None,
    adjusted: AdjustedGap,
    soft: UnobservedGroup | None = None,
    is_adequate: bool = True,
) -> ContributionTable:
    """Return one row per feature, the largest contribution alone first; no rows without features or a correction.

    `soft` limits the verdicts for unobserved groups; `is_adequate` is whether the membership model passed its checks.
    """
    if correction is None or not evidence.rows.features:
        return ContributionTable(pl.DataFrame(schema=SCHEMA), None, None, None, {}, (Note("no features"),))
    pairs, of_pairs = _partners(evidence, settings, correction)
    parts = decompose_gap(evidence, settings, adjusted, pairs, soft)
    forms, shares, of_shares = correction_shares(evidence, settings, correction, is_adequate)
    features = sorted(
        evidence.rows.features,
        key=lambda feature: (-round(abs(parts.columns[feature.name]["alone"] or 0.0), 12), feature.name),
    )
    records = []
    for feature in features:
        columns = parts.columns[feature.name]
        texts = {"feature": feature.name, "direction": direction(evidence, feature, columns["alone"])}
        texts |= {"notes": "; ".join(feature.notes)} | parts.judgements[feature.name]._asdict()
        records.append(columns | shares[feature.name] | pairs.get(feature.name, Partners())._asdict() | texts)
    frame = pl.DataFrame(records, schema=SCHEMA, infer_schema_length=None)
    tradeoff = forms if has_outputs(evidence) else None
    return ContributionTable(
        frame, tradeoff, parts.remainder, parts.band_factor, parts.errors, (*parts.notes, *of_shares, *of_pairs)
    )


def _partners(
    evidence: Evidence, settings: Settings, correction: CorrectionFunction
) -> tuple[dict[str, Partners], list[Note]]:
    """Return each feature's partner, whose joint share most exceeds the sum of both shares, and duplicate, with notes.

    Shares use the log-odds of one fit on all rows, at up to `PARTNER_ROWS` evenly spaced rows.
    """
    usable = [feature for feature in evidence.rows.features if feature.in_membership]
    if len(usable) > MOST_CROSSED:
        return {}, [Note("no partners", most=MOST_CROSSED)]
    at = np.arange(0, evidence.sample.audited.size, -(-evidence.sample.audited.size // PARTNER_ROWS))
    rows = Rows.of(evidence.sample.audited[at], evidence.sample.weights[at])
    # One fit on all rows is enough to name a partner; intervals do not use it.
    ell = evidence.nuisances.log_odds[at] - prior_log_odds(evidence.population)
    pair = crossfit.known_pairing(rows, np.clip(ell, -CLIP, CLIP))
    scores = Scores.of(rows, evidence.scores.values[at])
    g = crossfit.gradient(rows, scores, pair, correction.input_weight, correction.output_weight)
    if evidence.nuisances.propensity is not None:
        usable = [joined_feature(feature, evidence.sample, evidence.nuisances.propensity.fold) for feature in usable]
    return partners(usable, rows, g, [feature.codes[at] for feature in usable]), []


SCHEMA: dict[str, type[pl.DataType]] = (
    {"feature": pl.String}
    | interval_schema("alone", "beyond_others", "shapley", "use", "reveals", "drives", "alignment", *SHARES)
    | dict.fromkeys(("direction", "partner", "redundant_with", "verdict", "reason", "notes"), pl.String)
)
