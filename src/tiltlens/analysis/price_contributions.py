"""Contributions of features to proxy discrimination, in money: those to the gap of the local score Λ."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
from scipy.special import expit

from tiltlens.analysis.adjusted_gap import exempt_places
from tiltlens.analysis.decomposition import at_equal_exempt, beyond_others, simultaneous_bands
from tiltlens.analysis.evidence import Columns, Evidence, estimate_columns, number_columns
from tiltlens.analysis.fitting import sets_of_target
from tiltlens.analysis.settings import Settings
from tiltlens.estimators.estimate import Estimate, Normal
from tiltlens.estimators.influence import Integers
from tiltlens.estimators.prices import PricedRows, ProxyDiscrimination, local_target
from tiltlens.estimators.sets import CellSets, RidgeSets, covariance
from tiltlens.estimators.shapley import shapley_gaps
from tiltlens.estimators.verdicts import Band
from tiltlens.learners.propensity import Propensity
from tiltlens.threads import steps_in_threads

NAMES = ("alone", "beyond_others", "shapley")
CONTRIBUTION_SCHEMA: dict[str, type[pl.DataType]] = {"feature": pl.String} | {
    column: pl.Float64 for name in NAMES for column in (name, f"{name}_low", f"{name}_high")
}


def price_contributions(
    evidence: Evidence,
    propensity: Propensity,
    rows: PricedRows,
    distance: ProxyDiscrimination,
    index: Integers,
    settings: Settings,
) -> tuple[Estimate, pl.DataFrame] | None:
    """Return the gap of Λ, and one row per feature that is regressed on, the largest alone first; None without any.

    As Λ = π − c − Σ v_d·μ_d, the price's gap and contributions are those of the mixture plus these.
    """
    target, errors = local_target(rows, distance, expit(propensity.halves[0][:, index]))
    sets = sets_of_target(evidence, target, errors, index, settings.random_state)
    if sets is None:
        return None
    alone, beyond, _ = simultaneous_bands(
        evidence, settings, at_equal_exempt(evidence, sets), beyond_others(evidence, sets.left_out())
    )
    shapley, scale = _shapley(evidence, sets, settings), evidence.rows.unit.scale
    whole = sets.sets([[]])
    gap = Normal(float(whole.values[0]), float(np.sqrt(covariance(whole.influence, whole.between)[0, 0])))
    records = []
    for name in sorted(alone, key=lambda name: (-abs(alone[name].value), name)):
        # Values that share a column would hide what the feature contributes alone, too.
        own = None if name in sets.pooled else alone[name]
        columns = _band_columns("alone", own) | _band_columns("beyond_others", beyond.get(name))
        columns |= shapley.get(name, number_columns("shapley", None, None, None))
        money = {key: None if part is None else scale * part for key, part in columns.items()}
        records.append({"feature": name} | money)
    money_gap = gap.estimate(settings.confidence).mapped(lambda part: scale * part)
    return money_gap, pl.DataFrame(records, schema=CONTRIBUTION_SCHEMA)


def _shapley(evidence: Evidence, sets: CellSets | RidgeSets, settings: Settings) -> dict[str, Columns]:
    """Return Shapley values of the features; none where one has too many values to be regressed on."""
    if sets.pooled:
        return {}
    start, apply = exempt_places(evidence), partial(steps_in_threads, rows=evidence.sample.audited.size)
    gaps = shapley_gaps(sets, settings.random_state, apply, start)
    others = [name for number, name in enumerate(evidence.table) if number not in start]
    laws = [Normal(value, se) for value, se in zip(gaps.values.tolist(), gaps.se.tolist(), strict=True)]
    return {name: estimate_columns("shapley", law, settings) for name, law in zip(others, laws, strict=True)}


def _band_columns(name: str, band: Band | None) -> Columns:
    return number_columns(name, *((None, None, None) if band is None else (band.value, band.low, band.high)))
