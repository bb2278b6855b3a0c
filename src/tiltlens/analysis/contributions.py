"""Contributions: each feature's part in the gap and in the correction, with intervals and a verdict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tiltlens.analysis.adjusted_gap import AdjustedGap
from tiltlens.analysis.correction_shares import correction_shares, has_outputs
from tiltlens.analysis.decomposition import decompose_gap
from tiltlens.analysis.directions import direction
from tiltlens.analysis.evidence import Evidence
from tiltlens.analysis.influence_matching import RowErrors
from tiltlens.analysis.partners import Partners, partners
from tiltlens.analysis.settings import Settings
from tiltlens.analysis.unobserved_groups import UnobservedGroup
from tiltlens.estimators import crossfit
from tiltlens.estimators.dial import ShareForm
from tiltlens.estimators.influence import Rows
from tiltlens.estimators.outputs import Scores
from tiltlens.learners.propensity import prior_log_odds
from tiltlens.limits import CLIP
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.rows.features import joined_feature

MOST_CROSSED = 40  # features whose pairs are all looked at
PARTNER_ROWS = 20_000  # from which partners are found
NO_FEATURES = "no features were listed, so contributions were not estimated"


@dataclass(frozen=True, slots=True, eq=False)
class ContributionTable:
    """The table, and what a reader should know of how it was made."""

    frame: pl.DataFrame
    tradeoff: dict[str, ShareForm] | None  # None where outputs have no finite divergence, or ℓ is not to be trusted
    remainder: float | None  # of the gap, that the Shapley values leave
    band_factor: float | None  # κ of the bands
    errors: dict[tuple[str, str], RowErrors]
    notes: tuple[str, ...]


def contribution_table(
    evidence: Evidence,
    settings: Settings,
    correction: CorrectionFunction | None,
    adjusted: AdjustedGap,
    soft: UnobservedGroup | None = None,
    is_adequate: bool = True,
) -> ContributionTable:
    """Return one row a feature, the strongest points of the gap first; none where none was listed.

    `soft` says how far features may be judged where groups are known by probabilities, `is_adequate` whether the
    membership model passed its checks.
    """
    if correction is None or not evidence.rows.features:
        return ContributionTable(pl.DataFrame(schema=SCHEMA), None, None, None, {}, (NO_FEATURES,))
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
) -> tuple[dict[str, Partners], list[str]]:
    """Return the partner with which a feature carries most beyond what both carry alone, and its duplicate.

    They are found on the log-odds of one fit on all rows, at evenly many rows where these are many.
    """
    usable = [feature for feature in evidence.rows.features if feature.in_membership]
    if len(usable) > MOST_CROSSED:
        return {}, [f"partners are not searched for among more than {MOST_CROSSED} features"]
    at = np.arange(0, evidence.sample.audited.size, -(-evidence.sample.audited.size // PARTNER_ROWS))
    rows = Rows.of(evidence.sample.audited[at], evidence.sample.weights[at])
    # One fit on all rows is enough to name a partner; no interval is made of it.
    ell = evidence.nuisances.log_odds[at] - prior_log_odds(evidence.population)
    pair = crossfit.known_pairing(rows, np.clip(ell, -CLIP, CLIP))
    scores = Scores.of(rows, evidence.scores.values[at])
    g = crossfit.gradient(rows, scores, pair, correction.input_weight, correction.output_weight)
    if evidence.nuisances.propensity is not None:
        usable = [joined_feature(feature, evidence.sample, evidence.nuisances.propensity.fold) for feature in usable]
    return partners(usable, rows, g, [feature.codes[at] for feature in usable]), []


def _with_ends(names: tuple[str, ...]) -> dict[str, type[pl.DataType]]:
    return {column: pl.Float64 for name in names for column in (name, f"{name}_low", f"{name}_high")}


SCHEMA: dict[str, type[pl.DataType]] = (
    {"feature": pl.String}
    | _with_ends(("alone", "beyond_others", "shapley", "use", "reveals", "drives", "alignment"))
    | _with_ends(("share", "share_inputs", "share_outputs"))
    | dict.fromkeys(("direction", "partner", "redundant_with", "verdict", "reason", "notes"), pl.String)
)
