"""Compare prices with observed costs: proxy discrimination, proxy vulnerability, and feature contributions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import polars as pl
from scipy.special import expit, logit

from tiltlens._analysis.decomposition import (
    PARTS,
    at_equal_exempt,
    beyond_others,
    shapley_values,
    simultaneous_bands,
)
from tiltlens._analysis.evidence import (
    Evidence,
    Settings,
    estimate_columns,
    interval_columns,
    interval_schema,
    withheld,
)
from tiltlens._analysis.fitting import sets_of_target
from tiltlens._estimators import prices as estimators
from tiltlens._estimators.estimate import Estimate, Materiality, Normal, materiality, student_factor
from tiltlens._estimators.influence import Booleans, InfluenceEstimate, Integers
from tiltlens._estimators.prices import AUDITED, REFERENCE, CostRows, PricedRows, ProxyDiscrimination, local_target
from tiltlens._estimators.sets import covariance
from tiltlens._formats import FieldTable
from tiltlens._learners.propensity import Propensity, fold_pairings, in_folds, row_folds
from tiltlens._learners.regressions import Regressor, TreeSize
from tiltlens._limits import FEWEST_KNOWN, FOLDS, SCORE_TENTHS
from tiltlens._sources.arrays import quantile_edges
from tiltlens._sources.tables import Record
from tiltlens._threads import one_thread, steps_in_threads
from tiltlens.paper.checks import Floats

MATERIAL_PROXY = 0.01  # share of the price's variance: smaller proxy discrimination is not material
MOST_SEGMENTS = 12  # most rows of the table of segments
COST_TREES = TreeSize(20, 8, 0.03)
GROUPS = {"audited": AUDITED, "reference": REFERENCE}
COUNTED: dict[str, type[pl.DataType]] = {"group": pl.String, "decile": pl.Int64, "n": pl.Int64}
MONEY: dict[str, type[pl.DataType]] = {"price": pl.Float64, "free_price": pl.Float64}
DECILE_SCHEMA = COUNTED | MONEY | interval_schema("actual_to_expected")
SEGMENT_SCHEMA = {"feature": pl.String, "value": pl.String, "n": pl.Int64} | interval_schema("vulnerability")
CONTRIBUTION_SCHEMA = {"feature": pl.String} | interval_schema(*PARTS)


@dataclass(frozen=True, slots=True, eq=False)
class Prices(FieldTable):
    """A price compared with the observed costs of two groups.

    Attributes
    ----------
    rows
        Numbers of people of each group with an observed cost.
    actual_to_expected
        Observed cost divided by price (A/E), of each group; None where either is not positive.
    actual_to_expected_ratio
        A/E of the audited group divided by that of the reference.
    proxy_discrimination, mixture
        PD, the smallest share of the price's variance that a constant plus a mixture of the groups' expected costs
        leaves unexplained; and that mixture.
    materiality, status
        The materiality threshold of PD; and the status of PD, from its interval.
    unfairness
        UF, the share of the price's variance that lies between the groups.
    vulnerability
        Mean proxy vulnerability: how far the best price without the group is from the discrimination-free price.
    unaware_gap, free_gap
        The gap of the best price without the group, E[cost | features], and that of the discrimination-free price.
    proxy_gap
        The gap of the price minus that of the mixture: the part that expected costs do not account for.
    contributions
        Each feature's contribution to that part, in money: alone, beyond the others, and as a Shapley contribution.
    by_decile
        For each group and decile of the price: people, mean price, mean discrimination-free price, A/E.
    segments
        The values of features with the largest mean proxy vulnerability; a positive one raises the price.
    """

    rows: dict[str, int]
    actual_to_expected: dict[str, Estimate | None]
    actual_to_expected_ratio: Estimate | None
    proxy_discrimination: Estimate
    mixture: dict[str, float]
    materiality: float
    status: Materiality
    unfairness: Estimate
    vulnerability: Estimate
    unaware_gap: Estimate
    free_gap: Estimate
    proxy_gap: Estimate | None
    contributions: Annotated[pl.DataFrame, CONTRIBUTION_SCHEMA]
    by_decile: Annotated[pl.DataFrame, DECILE_SCHEMA]
    segments: Annotated[pl.DataFrame, SEGMENT_SCHEMA]


def prices(evidence: Evidence, settings: Settings) -> Prices | None:
    """Compare the price with observed costs; None without enough of them, without features, and for plug-in values.

    Groups must be observed. Expected costs come from cross-fitted regressions within each group.
    """
    propensity, cost = evidence.nuisances.propensity, evidence.rows.cost
    if cost is None or propensity is None or evidence.rows.probabilities is not None or not evidence.table:
        return None
    index = np.flatnonzero(np.isfinite(cost))
    people = np.bincount(evidence.rows.group[index], minlength=2)
    if people.min() < FEWEST_KNOWN:
        return None
    with one_thread():
        rows = priced_rows(evidence, propensity, index, settings.random_state)
        distance = estimators.proxy_discrimination(rows)
        parts = price_contributions(evidence, propensity, rows, distance, index, settings)
    return _prices(evidence, rows, distance, parts, index, settings.confidence)


def _prices(
    evidence: Evidence,
    rows: PricedRows,
    distance: ProxyDiscrimination,
    parts: tuple[Estimate, pl.DataFrame] | None,
    index: Integers,
    confidence: float,
) -> Prices:
    scale = evidence.rows.unit.scale
    ratios = {name: estimators.actual_to_expected(rows, rows.in_group[at] > 0) for name, at in GROUPS.items()}
    proxy = distance.estimate(confidence)
    status = materiality(proxy.low, proxy.high, MATERIAL_PROXY)

    def amount(measured: InfluenceEstimate, least: float = -np.inf) -> Estimate:
        return measured.normal(least).estimate(confidence).mapped(evidence.rows.unit.difference)

    return Prices(
        rows={name: int(rows.in_group[at].sum()) for name, at in GROUPS.items()},
        actual_to_expected={name: ratio_of_log(ratio, confidence) for name, ratio in ratios.items()},
        actual_to_expected_ratio=ratio_of_log(log_difference(*ratios.values()), confidence),
        proxy_discrimination=proxy,
        mixture={name: float(distance.mixture[at]) for name, at in GROUPS.items()},
        materiality=MATERIAL_PROXY,
        status=Materiality.INCONCLUSIVE if status is None else status,
        unfairness=estimators.unfairness(rows, rows.price).estimate(confidence),
        vulnerability=amount(estimators.mean_vulnerability(rows), 0.0),
        unaware_gap=amount(estimators.unaware_price_gap(rows)),
        free_gap=amount(estimators.free_price_gap(rows)),
        proxy_gap=None if parts is None else parts[0],
        contributions=pl.DataFrame(schema=CONTRIBUTION_SCHEMA) if parts is None else parts[1],
        by_decile=pl.DataFrame(list(decile_cells(rows, scale, confidence)), schema=DECILE_SCHEMA),
        segments=_segments(evidence, rows, index, confidence),
    )


def priced_rows(evidence: Evidence, propensity: Propensity, index: Integers, seed: int) -> PricedRows:
    """Return the rows with an observed cost, with two cross-fitted expected costs and the propensity of each.

    Money is divided by the unit's scale. Group shares are those of all rows, not those of the sample.
    """
    unit, weights = evidence.rows.unit, evidence.rows.sampling_weight[index]
    sample = evidence.sample.take(index)
    fold = row_folds(sample, FOLDS, seed) if propensity.is_known else propensity.fold[index]
    cost = np.asarray(evidence.rows.cost)[index] / unit.scale
    share = float(weights[sample.audited].sum() / weights.sum())
    costs, steady = _expected_costs(evidence, index, cost, fold, seed)
    return PricedRows(
        price=unit.level(evidence.score.column[index]) / unit.scale,
        cost=cost,
        weights=weights,
        audited=sample.audited,
        costs=costs,
        propensity=expit(propensity.halves[0][:, index] + logit(share)),
        steady=steady,
        fold=fold,
        clusters=sample.clusters,
    )


def _expected_costs(
    evidence: Evidence, index: Integers, cost: Floats, fold: Integers, seed: int
) -> tuple[Floats, Floats]:
    """Return E[cost | x, group] from both halves of the other folds, (2 fits, 2 groups, n), and shrunk, (2, n)."""
    table = {name: column[index] for name, column in evidence.table.items()}
    values = {
        name: evidence.cells[name].codes[index] if name in evidence.cells else column
        for name, column in table.items()
        if column.dtype.kind != "f"
    }
    weights = evidence.rows.sampling_weight[index]
    regressor = Regressor.of(table, values, cost, weights / weights.mean(), seed)
    if any(column.dtype.kind == "f" for column in table.values()):
        # Costs are mostly noise: small trees detect steps in a number, which splines and cell means miss.
        regressor = replace(regressor, cells=None, trees=COST_TREES)
    plan = fold_pairings(int(fold.max()) + 1, several=False)[0]
    parts = sorted({half for halves in plan for half in halves})
    group = evidence.rows.group[index]

    def fit(part: tuple[int, ...]) -> Floats:
        is_own, served = in_folds(fold, part), [number for number, halves in enumerate(plan) if part in halves]
        wanted, fitted = np.flatnonzero(in_folds(fold, served)), np.zeros((2, len(GROUPS), fold.size))
        for member in GROUPS.values():
            fitted[:, member, wanted] = regressor.stages(cost, np.flatnonzero(is_own & (group == member)), wanted)
        return fitted

    every = dict(zip(parts, steps_in_threads(fit, parts, fold.size), strict=True))
    stages = np.empty((2, 2, len(GROUPS), fold.size))
    for number, halves in enumerate(plan):
        own = fold == number
        stages[..., own] = [every[half][..., own] for half in halves]
    steady = [
        _shrunk(stages[:, :, member].mean(axis=0), cost, weights * (group == member)) for member in GROUPS.values()
    ]
    return np.asarray(stages.sum(axis=1)), np.array(steady)


def _shrunk(stages: Floats, cost: Floats, weights: Floats) -> Floats:
    """Return the sum of both terms of a fit, each shrunk by its slope in a regression of the held-out costs.

    Costs are mostly noise, and overfitted noise would look like a difference between people.
    """
    level, *centres = (float(np.average(x, weights=weights)) for x in (cost, *stages))
    terms = stages - np.array(centres)[:, None]
    gram, with_cost = (terms * weights) @ terms.T, (terms * weights) @ (cost - level)
    shrinkage = np.clip(np.linalg.lstsq(gram, with_cost, rcond=None)[0], 0.0, 1.0)
    return np.asarray(level + shrinkage @ terms)


def ratio_of_log(log_ratio: InfluenceEstimate | None, confidence: float) -> Estimate | None:
    """Return the ratio whose log was estimated; None where it is not defined."""
    return None if log_ratio is None else log_ratio.exponential().estimate(confidence)


def log_difference(first: InfluenceEstimate | None, other: InfluenceEstimate | None) -> InfluenceEstimate | None:
    """Return the difference of two estimates of the same rows; None where one is not defined."""
    return None if first is None or other is None else first.minus(other)


def decile_cells(rows: CostRows, scale: float, confidence: float) -> Iterator[Record]:
    """Yield each group's cells by decile of the price, without numbers where they are suppressed."""
    priced = {"price": rows.price} | ({"free_price": rows.free_price} if isinstance(rows, PricedRows) else {})
    edges = quantile_edges(rows.price, rows.weights, SCORE_TENTHS)
    decile = np.searchsorted(edges, rows.price, side="left")
    for group, at in GROUPS.items():
        mine = rows.in_group[at] > 0
        counts = np.bincount(decile[mine], minlength=edges.size + 1)
        for number, (people, is_hidden) in enumerate(zip(counts.tolist(), withheld(counts).tolist(), strict=True)):
            record: Record = {"group": group, "decile": number + 1}
            if not people or is_hidden:
                yield record | ({} if people else {"n": 0})
                continue
            cell: Booleans = mine & (decile == number)
            record |= {
                name: scale * float(np.average(x[cell], weights=rows.weights[cell])) for name, x in priced.items()
            }
            ratio = ratio_of_log(estimators.actual_to_expected(rows, cell), confidence)
            yield record | {"n": people} | interval_columns("actual_to_expected", ratio)


def _segments(evidence: Evidence, rows: PricedRows, index: Integers, confidence: float) -> pl.DataFrame:
    """Return the feature values with the largest mean proxy vulnerability, without suppressed ones."""
    terms, scale, cells = estimators.vulnerability_terms(rows), evidence.rows.unit.scale, []
    mass = rows.weights * terms
    for feature in evidence.rows.features:
        codes, size = feature.codes[index], len(feature.labels)
        counts = np.bincount(codes, minlength=size)
        means = np.bincount(codes, mass, size) / np.maximum(np.bincount(codes, rows.weights, size), 1e-300)
        visible = np.flatnonzero((counts > 0) & ~withheld(counts)).tolist()
        cells += [(abs(float(means[code])), feature, code, int(counts[code])) for code in visible]
    records = []
    for _, feature, code, people in sorted(cells, key=lambda cell: -cell[0])[:MOST_SEGMENTS]:
        mean = estimators.segment_vulnerability(rows, terms, feature.codes[index] == code)
        record = {"feature": feature.name, "value": feature.labels[code], "n": people}
        records.append(record | interval_columns("vulnerability", mean.normal().estimate(confidence), scale))
    return pl.DataFrame(records, schema=SEGMENT_SCHEMA)


def price_contributions(
    evidence: Evidence,
    propensity: Propensity,
    rows: PricedRows,
    distance: ProxyDiscrimination,
    index: Integers,
    settings: Settings,
) -> tuple[Estimate, pl.DataFrame] | None:
    """Return the gap of Λ, and one row per feature, the largest contribution alone first; None without regressions.

    As Λ = π − c − Σ v_d·μ_d, the price's gap and contributions are those of the mixture plus these.
    """
    target, errors = local_target(rows, distance, expit(propensity.halves[0][:, index]))
    sets = sets_of_target(evidence, target, errors, index, settings.random_state)
    if sets is None:
        return None
    alone, beyond, _ = simultaneous_bands(
        evidence, settings, at_equal_exempt(evidence, sets), beyond_others(evidence, sets.left_out())
    )
    # Values of a feature with too many of them are not regressed on, so contributions would not add up.
    shapley = {} if sets.pooled else shapley_values(evidence, settings, sets)[0]
    whole, scale = sets.sets([[]]), evidence.rows.unit.scale
    se = float(np.sqrt(covariance(whole.influence, whole.between)[0, 0]) / student_factor(sets.at.degrees))
    gap = Normal(float(whole.values[0]), se, degrees=sets.at.degrees)
    records = []
    for name in sorted(alone, key=lambda name: (-abs(alone[name].value), name)):
        # Values that share a column would also hide part of the contribution alone.
        parts = (None if name in sets.pooled else alone[name], beyond.get(name), shapley.get(name))
        records.append({"feature": name} | estimate_columns(dict(zip(PARTS, parts, strict=True)), scale))
    money_gap = gap.estimate(settings.confidence).mapped(evidence.rows.unit.difference)
    return money_gap, pl.DataFrame(records, schema=CONTRIBUTION_SCHEMA)
