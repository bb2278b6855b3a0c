"""What-ifs: the audited model with one feature neutralised or coarsened.

To *neutralise* a feature, the model's output is averaged over the reference's values of the feature, for every row. To
*coarsen* it, a number is replaced by the median of its quartile, or outputs are averaged over all rare levels. Each
what-if is a usable rule, and is evaluated on the same rows as the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import interval_columns, interval_schema
from tiltlens._estimators.influence import Booleans, Integers, Rows
from tiltlens._estimators.sets import evenly
from tiltlens._notes import Note
from tiltlens._repair.quantities import EvaluationRows, Measurements, measure
from tiltlens._rows.levels import numbers_of
from tiltlens._rows.predictions import AskedModel
from tiltlens._sources.tables import Record
from tiltlens.errors import TiltlensError, first_line
from tiltlens.paper.checks import Floats

WHAT_IF_ROWS = 20_000  # sample of rows to predict; a standard error is then one point at most
WHAT_IF_VALUES = 32  # values of a feature to average over; each needs a prediction of all sampled rows
WHAT_IF_BINS = 4  # bins of a coarsened number: quartiles
RARE_LEVEL = 0.05  # share of people below which a level of a category is rare

NEUTRALISED, COARSENED = "neutralised", "coarsened"
QUANTITIES = {"gap": "decision_gap", "score_gap": "gap", "accuracy": "accuracy", "auc": "auc"}  # column: quantity
SCHEMA: dict[str, type[pl.DataType]] = {"feature": pl.String, "what_if": pl.String} | interval_schema(
    *(f"{name}{part}" for name in QUANTITIES for part in ("", "_change"))
)


# For each row, the row whose value of a feature it takes, and the share of this output in the average
ValueSource = tuple[Integers, float]


class WhatIf(NamedTuple):
    """A change of one feature, as a mixture of values of other rows."""

    feature: str
    kind: str
    values: list[ValueSource]


def what_ifs(
    model: AskedModel, data: EvaluationRows, scores: Floats, confidence: float
) -> tuple[pl.DataFrame, tuple[Note, ...]]:
    """Return one row per what-if, sorted by the absolute decision gap, and notes.

    The intervals are simultaneous over all what-ifs (Šidák), so any of them may be selected.
    """
    index, weights = _sample(data.rows)
    clusters = None if data.rows.clusters is None else data.rows.clusters[index]
    outcome = None if data.outcome is None else data.outcome[index]
    part = data._replace(rows=Rows.of(data.rows.audited[index], weights, clusters), outcome=outcome, has_costs=True)
    before, model = measure(part, scores[index]), model.rows(index)
    changes = [change for name in model.features for change in _changes(name, model.table[name], part.rows)]
    level = confidence ** (1.0 / max(len(changes), 1))
    records, notes = [], []
    for change in changes:
        try:
            after = np.asarray(sum(share * model.scores(change.feature, source) for source, share in change.values))
            records.append(_record(change, before, measure(part, after), level))
        except TiltlensError as error:  # the model may reject combinations of values that it never saw
            notes.append(Note("what-if refused", feature=change.feature, what_if=change.kind, error=first_line(error)))
    if index.size < data.rows.audited.size:
        notes.append(Note("sampled what-ifs", rows=index.size))
    table = pl.DataFrame(sorted(records, key=lambda record: abs(record["gap"])), schema=SCHEMA)
    return table, tuple(notes)


def strongest_what_if(table: pl.DataFrame) -> Note:
    """Return a note on the what-if whose interval shows the largest reduction of the gap."""
    best, largest = None, 0.0
    for row in table.iter_rows(named=True):
        side = np.sign(row["gap"] - row["gap_change"])  # sign of the gap before
        reduction = min(-side * row["gap_change_low"], -side * row["gap_change_high"])
        if reduction > largest and abs(row["gap"]) < abs(row["gap"] - row["gap_change"]):
            best, largest = row, reduction
    if best is None:
        return Note("no what-if")
    low, high = sorted(abs(100.0 * best[f"gap_change{end}"]) for end in ("_low", "_high"))
    least, most = (100.0 * best[f"accuracy_change{end}"] for end in ("_low", "_high"))
    feature, what_if = best["feature"], best["what_if"]
    return Note("strongest what-if", feature=feature, what_if=what_if, low=low, high=high, least=least, most=most)


def _sample(rows: Rows) -> tuple[Integers, Floats]:
    """Return a sample of rows to predict, balanced between the groups if possible, and their weights."""
    groups = [np.flatnonzero(group) for group in (rows.audited, ~rows.audited)]
    half = WHAT_IF_ROWS // 2
    room = [max(half, WHAT_IF_ROWS - other.size) for other in groups[::-1]]
    drawn = [evenly(group, count) for group, count in zip(groups, room, strict=True)]
    weights = [
        rows.weights[part] * (rows.weights[group].sum() / rows.weights[part].sum())
        for group, part in zip(groups, drawn, strict=True)
    ]
    return np.concatenate(drawn), np.concatenate(weights)


def _changes(name: str, column: pl.Series, rows: Rows) -> Iterator[WhatIf]:
    """Yield the what-ifs of a feature; none if nothing would change."""
    keys = column.to_physical() if column.dtype == pl.Enum else column
    codes = np.unique(keys.rank("dense").fill_null(0).to_numpy(), return_inverse=True)[1]  # missing values are lowest
    if codes.max() == 0:
        return
    shares = _values(codes, ~rows.audited, rows)
    yield WhatIf(name, NEUTRALISED, [(np.full(codes.size, row), share) for row, share in shares])
    is_number = column.dtype.is_numeric() or column.dtype.is_temporal()
    coarse = _coarse_numbers(column, rows) if is_number else _coarse_levels(codes, rows)
    if coarse:
        yield WhatIf(name, COARSENED, coarse)


def _values(codes: Integers, among: Booleans, rows: Rows) -> list[tuple[int, float]]:
    """Return rows whose values represent those of the rows `among`, with their shares.

    They are one row per value if there are few values, else rows at equally spaced quantiles.
    """
    own = np.flatnonzero(among & (rows.weights > 0))
    order = own[np.argsort(codes[own], kind="stable")]
    distinct, first = np.unique(codes[order], return_index=True)
    if distinct.size <= WHAT_IF_VALUES:
        totals = np.add.reduceat(rows.weights[order], first)
        return list(zip(order[first].tolist(), (totals / totals.sum()).tolist(), strict=True))
    shares = np.cumsum(rows.weights[order]) / rows.weights[order].sum()
    ranks = np.searchsorted(shares, (np.arange(WHAT_IF_VALUES) + 0.5) / WHAT_IF_VALUES)
    return [(row, 1.0 / WHAT_IF_VALUES) for row in order[np.minimum(ranks, order.size - 1)].tolist()]


def _coarse_numbers(column: pl.Series, rows: Rows) -> list[ValueSource]:
    """Replace numbers by the median of their quantile bin; missing ones stay; return [] for few distinct values."""
    values, source = numbers_of(column), np.arange(len(column))
    present = np.flatnonzero(~np.isnan(values))
    if np.unique(values[present]).size <= WHAT_IF_BINS:
        return []
    inner = np.arange(1, WHAT_IF_BINS) / WHAT_IF_BINS
    edges = np.quantile(values[present], inner, weights=rows.weights[present], method="inverted_cdf")
    bins = np.searchsorted(np.unique(edges), values[present], side="left")
    for k in np.unique(bins):
        own = present[bins == k]
        order = own[np.argsort(values[own], kind="stable")]
        shares = np.cumsum(rows.weights[order]) / rows.weights[order].sum()
        source[own] = order[np.searchsorted(shares, 0.5)]
    return [(source, 1.0)]


def _coarse_levels(codes: Integers, rows: Rows) -> list[ValueSource]:
    """Replace rare levels by a mixture of all rare levels; return [] if there are fewer than two."""
    shares = np.bincount(codes, rows.weights) / rows.weights.sum()
    is_rare = ((shares > 0.0) & (shares < RARE_LEVEL))[codes]
    if np.unique(codes[is_rare]).size < 2:
        return []
    own = np.arange(codes.size)
    return [(np.where(is_rare, row, own), share) for row, share in _values(codes, is_rare, rows)]


def _record(what_if: WhatIf, before: Measurements, after: Measurements, level: float) -> Record:
    changes = after.change(before)
    measured = {key: own.estimate.normal() for key, own in after.quantities.items()}
    record: Record = {"feature": what_if.feature, "what_if": what_if.kind}
    for column, key in QUANTITIES.items():
        for name, quantity in ((column, measured.get(key)), (f"{column}_change", changes.get(key))):
            record |= interval_columns(name, None if quantity is None else quantity.estimate(level))
    return record
