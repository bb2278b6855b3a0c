"""Audited prices and their costs → the discrimination-free price."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiltlens.errors import DataError, shown
from tiltlens.estimators.influence import Integers
from tiltlens.estimators.prices import CostRows, balance_factor, group_gap
from tiltlens.learners.cost_regression import CostSample, cost_encoding
from tiltlens.learners.design import Table
from tiltlens.learners.propensity import group_folds
from tiltlens.limits import FEWEST_KNOWN, FOLDS
from tiltlens.paper.checks import Floats
from tiltlens.repair.coded_features import category_levels, encoded_features, feature_table
from tiltlens.repair.free_price import AdditiveCost, DiscriminationFreePrice, GroupCost
from tiltlens.repair.notes import NOT_AT_PREDICTION, condition_notes_of
from tiltlens.repair.rows import AuditedRowIndex, AuditedRows, audited_rows, ranges_of
from tiltlens.results.audit import Audit
from tiltlens.results.comparison import Comparison
from tiltlens.rows.features import Feature
from tiltlens.threads import one_thread


def fit_free_price(source: Comparison | Audit) -> DiscriminationFreePrice:
    """Return the discrimination-free price of an audited amount with observed costs."""
    rows = audited_rows(source, "repair")
    if not rows.model_features:
        raise DataError(
            "No feature can predict costs, so there is no discrimination-free price.",
            "audit with features that vary and are neither the group nor identifiers.",
        )
    notes, index = [NOT_AT_PREDICTION, *condition_notes_of(rows)], _rows_with_costs(rows)
    if index.size < rows.codes.size:
        notes.append(
            f"{index.size:,} of {rows.codes.size:,} rows have an observed cost; models of costs use these only"
        )
        rows = rows.take(index)
    features = rows.model_features
    table = feature_table(features)
    with one_thread():
        costs, cross_fitted = _group_costs(rows, features, table)
    expected = np.asarray(sum(cost.share * cost.model.mean(table) for cost in costs))
    assert rows.cost is not None
    factor = balance_factor(CostRows(expected, rows.cost, rows.weights, rows.codes == 1))
    shares = np.array([cost.share for cost in costs])
    return DiscriminationFreePrice(
        reference=rows.reference,
        costs=costs,
        factor=factor,
        gap_before=_gaps(rows, rows.scores),
        gap_after=_gaps(rows, factor * (shares @ cross_fitted)),
        row_index=AuditedRowIndex.of(rows),
        notes=tuple(notes),
        given=dict(rows.given),
        ranges=ranges_of(features),
        declared=rows.declared,
        wording=source.scale.wording if isinstance(source, Comparison) else source.wording,
    )


def _rows_with_costs(rows: AuditedRows) -> Integers:
    """Return the rows with a cost, after a check that there are enough in each group."""
    cost = rows.cost
    if cost is None:
        raise DataError("The discrimination-free price needs observed costs.", "audit with outcome= (--outcome).")
    index = np.flatnonzero(np.isfinite(cost))
    for code, name in enumerate(rows.groups):
        own = index[rows.codes[index] == code]
        if own.size < FEWEST_KNOWN:
            raise DataError(
                f"The discrimination-free price needs {FEWEST_KNOWN} observed costs of each group, got {own.size} of "
                f"{shown(name)}.",
                "add rows, or merge groups.",
            )
        if float(rows.weights[own] @ cost[own]) <= 0.0:
            raise DataError(f"The costs of {shown(name)} do not add up to more than 0.", "check `outcome`.")
    return index


def _group_costs(rows: AuditedRows, features: Sequence[Feature], table: Table) -> tuple[tuple[GroupCost, ...], Floats]:
    """Return the groups' models, fitted on all rows, and what models of other folds expect, (groups, n)."""
    encoder, groups = cost_encoding(table), len(rows.groups)
    fold = group_folds(rows.codes, rows.clusters, FOLDS, 0)
    assert rows.cost is not None
    sample = CostSample(encoder, table, rows.codes, rows.cost, rows.weights, fold)
    settings = sample.choose(groups)
    read, costs = encoded_features(encoder, category_levels(features)), []
    for code, name in enumerate(rows.groups):
        own = np.flatnonzero(rows.codes == code)
        fit = sample.fit(own, settings)
        model = AdditiveCost(*read, encoder, fit.intercept, fit.slopes, fit.link)
        costs.append(GroupCost(name, float(rows.weights[own].sum() / rows.weights.sum()), model))
    return tuple(costs), sample.cross_fit(settings, groups)


def _gaps(rows: AuditedRows, price: Floats) -> dict[str, float]:
    """Return the gap of a price for each audited group."""
    gaps = {}
    for code, name in enumerate(rows.groups[1:], 1):
        compared = (rows.codes == code) | (rows.codes == 0)
        pair = CostRows(price[compared], price[compared], rows.weights[compared], rows.codes[compared] == code)
        gaps[name] = group_gap(pair, pair.price).value
    return gaps
