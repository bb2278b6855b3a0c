"""The table of proxy evidence: what goes through each feature, of the gap and of the correction, and how sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiltlens.engines.arrays import audited_sums
from tiltlens.errors import SupportError
from tiltlens.estimators import crossfit
from tiltlens.estimators.dial import CORNERS, ShareForm, plug_in_form, share_form
from tiltlens.estimators.estimate import HasInterval, Ratio, without_noise
from tiltlens.estimators.influence import InfluenceEstimate, Integers, Rows, averaged, combined
from tiltlens.estimators.outputs import output_term
from tiltlens.estimators.shares import AuditedSums
from tiltlens.limits import CLIP, MOST_CROSSED, PARTNER_ROWS
from tiltlens.models.features import Feature, joined_feature
from tiltlens.models.membership import prior_log_odds
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.passes.evidence import Evidence
from tiltlens.results.carried import Carried, carried
from tiltlens.results.directions import direction
from tiltlens.results.partners import Partners, partners
from tiltlens.results.settings import Settings
from tiltlens.results.unexplained import Unexplained
from tiltlens.threads import steps_in_threads

Records = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class ProxyTable:
    """The table, and what a reader should know of how it was made."""

    frame: pl.DataFrame
    dial: dict[str, ShareForm] | None  # None where outputs have no finite divergence
    remainder: float | None  # of the gap, that the Shapley values leave
    notes: tuple[str, ...]


def proxy_table(
    evidence: Evidence, settings: Settings, correction: CorrectionFunction, left: Unexplained
) -> ProxyTable:
    """Return one row a feature, the strongest points of the gap first."""
    pairs, of_pairs = _partners(evidence, settings, correction)
    found: Carried = carried(evidence, settings, left, pairs)
    forms, shares, of_shares = _shares(evidence, settings, correction)
    records: Records = []
    for feature in evidence.features:
        record = {"feature": feature.name} | found.columns[feature.name] | shares[feature.name]
        record |= pairs.get(feature.name, Partners())._asdict()
        record |= {"direction": direction(evidence, feature), "notes": "; ".join(feature.notes)}
        records.append(record)
    records.sort(key=lambda record: (-round(abs(record["gap"] or 0.0), 12), record["feature"]))
    frame = pl.DataFrame(records, schema=SCHEMA, infer_schema_length=None)
    dial = forms if _has_outputs(evidence) else None
    return ProxyTable(frame, dial, found.remainder, (*found.notes, *of_shares, *of_pairs))


def _estimated(name: str, measured: HasInterval | float | None, settings: Settings) -> dict[str, float | None]:
    """Return a number and the ends of its interval as columns."""
    if measured is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"))
    if isinstance(measured, float):
        return {name: without_noise(measured), f"{name}_low": None, f"{name}_high": None}
    estimate = measured.estimate(settings.confidence)
    ends = (None, None) if settings.folds is None else (estimate.low, estimate.high)
    low, high = (None if end is None else without_noise(end) for end in ends)
    return {name: without_noise(estimate.value), f"{name}_low": low, f"{name}_high": high}


def _has_outputs(evidence: Evidence) -> bool:
    """Return whether the outputs have a finite divergence, so that they can be aligned."""
    try:
        output_term(evidence.scores)
    except SupportError:
        return False
    return True


def _shares(
    evidence: Evidence, settings: Settings, correction: CorrectionFunction
) -> tuple[dict[str, ShareForm], dict[str, dict[str, float | None]], list[str]]:
    """Return the shares of g at every (λ2, λ4), and those of g, of ℓ and of W as columns, with notes."""
    if evidence.membership is None:
        return _plug_in_shares(evidence, settings, correction)
    rows, scores, pairs = evidence.rows, evidence.scores, evidence.membership.pairings
    # A level too rare to leave a row out of has no place in a cross-fit.
    features = [joined_feature(one, rows, evidence.membership.fold) for one in evidence.features]
    scored = [_score_gradient(rows, evidence.outcome.column, pair) for pair in pairs]
    spread = crossfit.gradient_variance(rows, scored)
    used = CORNERS if _has_outputs(evidence) else CORNERS[:1]
    corners = [[crossfit.gradient(rows, scores, pair, *corner) for pair in pairs] for corner in used]
    wholes = [crossfit.gradient_variance(rows, corner) for corner in corners]

    def shared(feature: Feature) -> tuple[ShareForm, Ratio]:
        parts = [_explained_by(rows, corner, feature.codes) for corner in corners]
        outputs = _explained_by(rows, scored, feature.codes).over(spread)
        return share_form(_three(parts), _three(wholes)), outputs

    forms: dict[str, ShareForm] = {}
    columns: dict[str, dict[str, float | None]] = {}
    notes: list[str] = []
    weights = (correction.input_weight, correction.output_weight)
    for feature, plain, (form, of_outputs) in zip(
        features, evidence.features, steps_in_threads(shared, features, rows.audited.size), strict=True
    ):
        forms[feature.name] = form
        ratios = {"share": form.at(*weights), "share_inputs": form.at(1.0, 0.0), "share_outputs": of_outputs}
        is_pooled = len(feature.labels) == 1 < len(plain.labels)
        notes += [f"{feature.name}: too few people for any of its values to have a share"] if is_pooled else []
        columns[feature.name] = {}
        for name, ratio in ratios.items():
            if not ratio.is_determined:
                notes.append(f"{name} is not determined: what it is a share of cannot be told from 0")
            columns[feature.name] |= _estimated(name, None if is_pooled else ratio, settings)
    return forms, columns, notes


def _explained_by(rows: Rows, gradients: list[crossfit.Gradient], codes: Integers) -> InfluenceEstimate:
    return averaged([crossfit.explained_variance(rows, g, codes) for g in gradients])


def _plug_in_shares(
    evidence: Evidence, settings: Settings, correction: CorrectionFunction
) -> tuple[dict[str, ShareForm], dict[str, dict[str, float | None]], list[str]]:
    outcomes = correction.outcomes - 1
    slopes = (
        correction.log_output_ratio[1:] - correction.log_output_ratio[0]
        if _has_outputs(evidence)
        else np.zeros(outcomes)
    )
    spread = float(evidence.outcome.covariance0[0, 0])
    forms, columns = {}, {}
    for feature in evidence.features:
        form = forms[feature.name] = plug_in_form(
            _audited_sums(evidence, feature).between,
            correction.audited.covariance,
            slopes,
        )
        between = _between_variance(evidence.rows, evidence.outcome.column, feature.codes)
        share = form.at(correction.input_weight, correction.output_weight)
        columns[feature.name] = (
            _estimated("share", share.estimate().value, settings)
            | _estimated("share_inputs", form.at(1.0, 0.0).estimate().value, settings)
            | _estimated("share_outputs", between / spread if spread > 0 else 0.0, settings)
        )
    return forms, columns, []


def _audited_sums(evidence: Evidence, feature: Feature) -> AuditedSums:
    mine = evidence.rows.audited
    ell, scores, codes = evidence.log_odds[mine], evidence.channel[mine], feature.codes[mine]
    return audited_sums(ell, scores, codes, len(feature.labels), evidence.rows.weights[mine])


def _between_variance(rows: Rows, outcome: Floats, codes: Integers) -> float:
    """Return Var0(E0[W|X_j]), by plug-in."""
    mass, centred = rows.sums0(codes), outcome - rows.mean0(outcome)
    return float((rows.sums0(codes, centred) ** 2 / np.where(mass > 0.0, mass, 1.0)).sum())


def _three(corners: list[InfluenceEstimate]) -> list[InfluenceEstimate]:
    """Return the values at the three corners of the dial; outputs that cannot be aligned count for nothing."""
    if len(corners) == 3:
        return corners
    inputs = corners[0]
    return [inputs, combined(0.0, [(0.0, inputs)]), inputs]


def _score_gradient(rows: Rows, outcome: Floats, pair: crossfit.Pairing) -> crossfit.Gradient:
    """Return W as a gradient: the slope k of T = k·W cancels in every share, and its error with it."""
    varies = float(np.ptp(outcome) > 0)  # 0, not rounding
    centred = crossfit.fold_centred(rows, outcome, pair.fold) * varies
    return crossfit.Gradient(centred, centred, pair, None, 0.0, 0.0, pair.a is pair.b)


def _partners(
    evidence: Evidence, settings: Settings, correction: CorrectionFunction
) -> tuple[dict[str, Partners], list[str]]:
    """Return the partner with which a feature carries most beyond what both carry alone, and its duplicate.

    They are found on the log-odds of one fit on all rows, at evenly many rows where these are many.
    """
    usable = [feature for feature in evidence.features if feature.in_membership]
    if len(usable) > MOST_CROSSED:
        return {}, [f"partners are not looked for among more than {MOST_CROSSED} features"]
    at = np.arange(0, evidence.rows.audited.size, -(-evidence.rows.audited.size // PARTNER_ROWS))
    rows = Rows.of(evidence.rows.audited[at], evidence.rows.weights[at])
    ell = evidence.log_odds[at] - prior_log_odds(evidence.everyone)
    pair = crossfit.known_pairing(rows, np.clip(ell, -CLIP, CLIP))
    scores = type(evidence.scores).of(rows, evidence.scores.values[at])
    g = crossfit.gradient(rows, scores, pair, correction.input_weight, correction.output_weight)
    if evidence.membership is not None:
        usable = [joined_feature(one, evidence.rows, evidence.membership.fold) for one in usable]
    return partners(usable, rows, g, [feature.codes[at] for feature in usable]), []


def _with_ends(names: tuple[str, ...]) -> dict[str, Any]:
    return {column: pl.Float64 for name in names for column in (name, f"{name}_low", f"{name}_high")}


SCHEMA: dict[str, Any] = (
    {"feature": pl.String}
    | _with_ends(("gap", "gap_shapley", "reveals", "drives", "alignment", "joint"))
    | _with_ends(("share", "share_inputs", "share_outputs"))
    | dict.fromkeys(("direction", "partner", "redundant_with", "verdict", "reason", "notes"), pl.String)
)
