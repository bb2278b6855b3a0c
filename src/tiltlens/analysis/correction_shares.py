"""Each feature's share of the correction: Var0(E0[g|X_j])/Var0(g), at every (λ2, λ4), and of ℓ and of W alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiltlens.analysis.evidence import Evidence
from tiltlens.analysis.presentation import Columns, estimate_columns, number_columns
from tiltlens.analysis.settings import Settings
from tiltlens.errors import SupportError
from tiltlens.estimators import crossfit
from tiltlens.estimators.dial import CORNERS, ShareForm, plug_in_form, share_form
from tiltlens.estimators.estimate import Ratio
from tiltlens.estimators.influence import InfluenceEstimate, Integers, Rows, average_estimates, combine, sums_by
from tiltlens.estimators.outputs import output_term
from tiltlens.learners.propensity import Propensity, fold_pairings, prior_log_odds, row_folds, served_folds
from tiltlens.learners.regressions import SmoothPart, spline_means
from tiltlens.limits import CLIP, FOLDS
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.rows.features import Feature, joined_feature
from tiltlens.sources.messages import listed
from tiltlens.threads import steps_in_threads

SHARES = ("share", "share_inputs", "share_outputs")  # of g, of ℓ, and of W
POOLED_AUDITED = 0.1  # of the audited people, whose values were joined, from which a feature has no share
INADEQUATE = (
    "shares of the correction are not reported, because the group-membership model fails its checks; share_outputs "
    "does not need it"
)
SplineMeans = list[tuple[Floats, Floats]]  # for each pairing, of both models: E0[(ℓ, T, W)|X_j] at each row, (n, 3)


def correction_shares(
    evidence: Evidence, settings: Settings, correction: CorrectionFunction, is_adequate: bool = True
) -> tuple[dict[str, ShareForm] | None, dict[str, Columns], list[str]]:
    """Return the shares of g at every (λ2, λ4), and those of g, of ℓ and of W as columns, with notes.

    Where the membership model is not adequate, only shares in which ℓ has no part are returned.
    """
    if evidence.nuisances.propensity is None:
        return _plug_in_shares(evidence, settings, correction)
    rows, scores, pairs = evidence.sample, evidence.scores, evidence.nuisances.propensity.pairings
    # A level too rare to leave a row out of has no place in a cross-fit.
    features = [joined_feature(feature, rows, evidence.nuisances.propensity.fold) for feature in evidence.rows.features]
    scored = [_score_gradient(rows, evidence.score.column, pair) for pair in pairs]
    spread = crossfit.gradient_variance(rows, scored)
    # Three corners of the dial determine the form at every (λ2, λ4): (33).
    used = CORNERS if has_outputs(evidence) else CORNERS[:1]
    corners = [[crossfit.gradient(rows, scores, pair, *corner) for pair in pairs] for corner in used]
    wholes = [crossfit.gradient_variance(rows, corner) for corner in corners]
    learnt = _parts(evidence, evidence.nuisances.propensity, settings)

    def shared(feature: Feature) -> tuple[ShareForm, Ratio]:
        if feature.name in evidence.table and feature.is_binned:
            means = learnt.means(evidence.table[feature.name], rows.weights, settings.random_state)
            parts = [_learned_by(rows, corner, means, on) for corner, on in zip(corners, CORNERS, strict=False)]
            outputs = _learned_by(rows, scored, means, (0.0, 0.0)).over(spread)
        else:
            parts = [_explained_by(rows, corner, feature.codes) for corner in corners]
            outputs = _explained_by(rows, scored, feature.codes).over(spread)
        return share_form(_three(parts), _three(wholes)), outputs

    pairs_of_shares = steps_in_threads(shared, features, rows.audited.size)
    columns, notes = _share_columns(
        evidence, settings, correction, is_adequate, list(zip(features, pairs_of_shares, strict=True))
    )
    forms = {feature.name: form for feature, (form, _) in zip(features, pairs_of_shares, strict=True)}
    return forms if is_adequate else None, columns, notes


def _share_columns(
    evidence: Evidence,
    settings: Settings,
    correction: CorrectionFunction,
    is_adequate: bool,
    shares: Sequence[tuple[Feature, tuple[ShareForm, Ratio]]],
) -> tuple[dict[str, Columns], list[str]]:
    """Return the shares of g, of ℓ and of W that are determined, with notes on others."""
    columns: dict[str, Columns] = {}
    notes: list[str] = [] if is_adequate else [INADEQUATE]
    pooled: list[str] = []
    is_reported = dict(zip(SHARES, (is_adequate or not settings.input_weight, is_adequate, True), strict=True))
    weights = (correction.input_weight, correction.output_weight)
    for feature, (form, of_outputs) in shares:
        ratios = dict(zip(SHARES, (form.at(*weights), form.at(1.0, 0.0), of_outputs), strict=True))
        is_pooled = _pooled_share(evidence, feature) > POOLED_AUDITED
        pooled += [feature.name] if is_pooled else []
        columns[feature.name] = {}
        for name, ratio in ratios.items():
            if is_reported[name] and not ratio.is_determined(settings.confidence):
                notes.append(f"{name} is not reported: the total is indistinguishable from 0")
            law = ratio if is_reported[name] and not is_pooled else None
            columns[feature.name] |= estimate_columns(name, law, settings)
    if pooled:
        notes.append(
            f"share of the correction is not reported for {listed(pooled)}: more than {POOLED_AUDITED:.0%} of the "
            "audited people have rare values, which were pooled"
        )
    return columns, notes


def _pooled_share(evidence: Evidence, feature: Feature) -> float:
    """Return the share of the audited people whose values were joined with others: of these a share knows nothing."""
    if feature.is_binned or feature.name not in evidence.cells:
        return 0.0
    values = evidence.cells[feature.name].codes
    width = int(values.max()) + 1
    # Levels with several of the original values are those that were joined.
    level_of = np.unique(feature.codes * width + values) // width
    joined = np.bincount(level_of, minlength=len(feature.labels)) > 1
    return evidence.sample.mean0(joined[feature.codes].astype(np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """What E0[(ℓ, T, W)|X_j] is learnt from, and for each pairing which two parts serve the rows of each fold."""

    parts: list[SmoothPart]
    fold: Integers
    plan: Sequence[Integers]

    def means(self, column: Floats, weights: Floats, seed: int) -> SplineMeans:
        """Return the means given a numeric feature: each model's are learnt from its own rows."""
        every, at = np.empty((len(self.parts), self.fold.size, 3)), np.arange(self.fold.size)
        # m_a is learnt from model a's own rows, m_b from b's: neither has seen the row it is used on.
        means = spline_means(column, self.parts, weights, seed)
        for number, (part, part_means) in enumerate(zip(self.parts, means, strict=True)):
            every[number, part.wanted] = part_means
        return [(every[half[self.fold, 0], at], every[half[self.fold, 1], at]) for half in self.plan]


def _parts(evidence: Evidence, propensity: Propensity, settings: Settings) -> _Parts:
    """Return the parts of a cross-fit; of a given ℓ halves of the other folds, as a cross-fit would have them."""
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
        trained, wanted = (np.isin(fold, some) for some in (fitted_on, served_folds(plan, number)))
        parts.append(SmoothPart.of(target, np.flatnonzero(rows.audited & trained), np.flatnonzero(wanted)))
    return _Parts(parts, fold, plan)


def _learned_by(
    rows: Rows, gradients: list[crossfit.Gradient], means: SplineMeans, on: tuple[float, float]
) -> InfluenceEstimate:
    """Return Var0(E0[g|X_j]) of g = λ2·ℓ + λ4·T, (λ2, λ4) being `on`; of W itself where both are 0."""
    # E0[g|X_j] is linear in (ℓ, T): learnt once, mixed for every corner.
    mix = np.array([*on, 0.0]) if any(on) else np.array([0.0, 0.0, 1.0])
    return average_estimates(
        [crossfit.learned_variance(rows, g, a @ mix, b @ mix) for g, (a, b) in zip(gradients, means, strict=True)]
    )


def _explained_by(rows: Rows, gradients: list[crossfit.Gradient], codes: Integers) -> InfluenceEstimate:
    return average_estimates([crossfit.explained_variance(rows, g, codes) for g in gradients])


def _plug_in_shares(
    evidence: Evidence, settings: Settings, correction: CorrectionFunction
) -> tuple[dict[str, ShareForm], dict[str, Columns], list[str]]:
    outcomes = correction.outcomes - 1
    slopes = (
        correction.log_output_ratio[1:] - correction.log_output_ratio[0]
        if has_outputs(evidence)
        else np.zeros(outcomes)
    )
    spread = float(evidence.score.covariance0[0, 0])
    scores = evidence.rows.scores[:, 1:] if evidence.rows.scores.ndim == 2 else evidence.rows.scores[:, None]
    # W last: its own share does not pass through T.
    z = np.column_stack([evidence.nuisances.log_odds, scores, evidence.score.column])
    forms, columns = {}, dict[str, Columns]()
    for feature in evidence.rows.features:
        between = _between(evidence, feature, z, settings)
        form = forms[feature.name] = plug_in_form(between[:-1, :-1], correction.audited.covariance, slopes)
        share = form.at(correction.input_weight, correction.output_weight)
        of_outputs = float(between[-1, -1]) / spread if spread > 0 else 0.0
        values = (share.estimate().value, form.at(1.0, 0.0).estimate().value, of_outputs)
        columns[feature.name] = {}
        for name, value in zip(SHARES, values, strict=True):
            columns[feature.name] |= number_columns(name, value, None, None)
    return forms, columns, []


def _between(evidence: Evidence, feature: Feature, z: Floats, settings: Settings) -> Floats:
    """Return Cov0(E0[z|X_j]) by plug-in: by splines of a numeric feature, by the values of any other."""
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
    """Return the values at the three corners of the dial; outputs that cannot be aligned count for nothing."""
    if len(corners) == 3:
        return corners
    # 0 with the shape of an estimate: T is left out of the form.
    inputs = corners[0]
    return [inputs, combine(0.0, [(0.0, inputs)]), inputs]


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
