"""What if a feature were not used, or less finely? The audited model itself, asked again; nothing is re-trained.

A feature is *neutralised* where the model's output is averaged over the values that the reference has of it, the same
for everybody. It is *coarsened* where a number becomes the median of its quartile, or where the outputs of rare levels
are averaged over all of them. Each is a rule that could be used, and is judged on the same rows as the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tiltlens.errors import TiltlensError
from tiltlens.estimators.error_rates import WITH
from tiltlens.estimators.influence import Integers, Rows
from tiltlens.estimators.sets import evenly
from tiltlens.limits import RARE_LEVEL, WHAT_IF_BINS, WHAT_IF_ROWS, WHAT_IF_VALUES
from tiltlens.paper.checks import Floats
from tiltlens.repair.quantities import ENDS, Judged, Measured, accuracy_at, columns, measured
from tiltlens.rows.levels import numbers_of
from tiltlens.rows.rescoring import AskedModel
from tiltlens.sources.messages import first_line

NEUTRALISED, COARSENED = "neutralised", "coarsened"
QUANTITIES = {"gap": "decision_gap", "score_gap": "gap", "accuracy": "accuracy", "auc": "auc"}  # column: measured as
SCHEMA = {
    "feature": pl.String,
    "what_if": pl.String,
    **{f"{name}{part}{end}": pl.Float64 for name in QUANTITIES for part in ("", "_change") for end in ENDS},
}
NEEDS_MODEL = "what-ifs of single features need the model: audit with model= in place of scores"


class Borrowed(NamedTuple):
    """The rows whose value of a feature each row takes, and how much of the output that is."""

    source: Integers
    share: float


WhatIf = tuple[str, str, list[Borrowed]]


def what_ifs(
    asked: AskedModel, rows: Rows, outcome: Integers, scores: Floats, threshold: float, confidence: float
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return one row for each what-if, those that make the gap of decisions smallest first, and what to know.

    Intervals hold for all what-ifs at once (Šidák): whoever picks one of many may read its interval.
    """
    some, weights = _some(rows)
    judged = Judged(
        Rows.of(rows.audited[some], weights, None if rows.clusters is None else rows.clusters[some]),
        outcome[some],
        threshold,
    )
    before, asked = _measured(judged, scores[some]), asked.rows(some)
    asks = [one for name in asked.features for one in _asks(name, asked.table[name], judged.rows)]
    level = confidence ** (1.0 / max(len(asks), 1))
    records, notes = [], []
    for ask in asks:
        try:
            records.append(_record(ask, before, _measured(judged, _answer(asked, ask)), level))
        except TiltlensError as error:  # the model may not take values that it never saw together
            notes.append(f"what if {ask[0]} were {ask[1]} cannot be told: {first_line(error)}")
    if some.size < rows.audited.size:
        notes.append(f"the model was asked again about {some.size:,} of the rows")
    return pl.DataFrame(sorted(records, key=lambda one: abs(one["gap"])), schema=SCHEMA), tuple(notes)


def words_of(table: pl.DataFrame) -> str:
    """Return the what-if that makes the gap surely smaller by most, in words."""
    best, least = None, 0.0
    for row in table.iter_rows(named=True):
        side = np.sign(row["gap"] - row["gap_change"])  # of the gap before
        sure = min(-side * row["gap_change_low"], -side * row["gap_change_high"])
        if sure > least and abs(row["gap"]) < abs(row["gap"] - row["gap_change"]):
            best, least = row, sure
    if best is None:
        return "no what-if of a single feature makes the gap of decisions surely smaller"
    ends = sorted(abs(100.0 * best[f"gap_change{end}"]) for end in ("_low", "_high"))
    right = [100.0 * best[f"accuracy_change{end}"] for end in ("_low", "_high")]
    return (
        f"with {best['feature']} {best['what_if']} the gap of decisions is smaller by {ends[0]:.1f} to {ends[1]:.1f} "
        f"points, and accuracy changes by {right[0]:+.1f} to {right[1]:+.1f}"
    )


def _some(rows: Rows) -> tuple[Integers, Floats]:
    """Return rows to ask the model about, as many of each group as can be, and for how much each stands."""
    places = [np.flatnonzero(who) for who in (rows.audited, ~rows.audited)]
    half = WHAT_IF_ROWS // 2
    room = [max(half, WHAT_IF_ROWS - other.size) for other in places[::-1]]
    taken = [evenly(own, count) for own, count in zip(places, room, strict=True)]
    scale = [rows.weights[own].sum() / rows.weights[some].sum() for own, some in zip(places, taken, strict=True)]
    weights = np.concatenate([rows.weights[some] * one for some, one in zip(taken, scale, strict=True)])
    return np.concatenate(taken), weights


def _asks(name: str, column: pl.Series, rows: Rows) -> Iterator[WhatIf]:
    """Yield the what-ifs of a feature, none where nothing would change."""
    codes = _codes(column)
    if codes.max() == 0:
        return
    yield (
        name,
        NEUTRALISED,
        [Borrowed(np.full(codes.size, at), share) for at, share in _values(codes, ~rows.audited, rows)],
    )
    coarse = _of_numbers(column, rows) if _is_number(column) else _of_levels(codes, rows)
    if coarse:
        yield name, COARSENED, coarse


def _codes(column: pl.Series) -> Integers:
    """Return the place of each value among all, in their order; missing ones are the first."""
    keys = column.to_physical() if column.dtype == pl.Enum else column
    return np.unique(keys.rank("dense").fill_null(0).to_numpy(), return_inverse=True)[1]


def _is_number(column: pl.Series) -> bool:
    return column.dtype.is_numeric() or column.dtype.is_temporal()


def _values(codes: Integers, among: Any, rows: Rows) -> list[tuple[int, float]]:
    """Return rows whose values stand for those of all rows `among`, with their shares.

    Each value where they are few, else those at equally spaced quantiles.
    """
    own = np.flatnonzero(among & (rows.weights > 0))
    order = own[np.argsort(codes[own], kind="stable")]
    distinct, first = np.unique(codes[order], return_index=True)
    if distinct.size <= WHAT_IF_VALUES:
        totals = np.add.reduceat(rows.weights[order], first)
        return list(zip(order[first].tolist(), (totals / totals.sum()).tolist(), strict=True))
    shares = np.cumsum(rows.weights[order]) / rows.weights[order].sum()
    at = np.searchsorted(shares, (np.arange(WHAT_IF_VALUES) + 0.5) / WHAT_IF_VALUES)
    return [(place, 1.0 / WHAT_IF_VALUES) for place in order[np.minimum(at, order.size - 1)].tolist()]


def _of_numbers(column: pl.Series, rows: Rows) -> list[Borrowed]:
    """Return numbers as the median of their quantile bin; missing ones stay, and so do few values."""
    values, source = numbers_of(column), np.arange(len(column))
    known = np.flatnonzero(~np.isnan(values))
    if np.unique(values[known]).size <= WHAT_IF_BINS:
        return []
    inner = np.arange(1, WHAT_IF_BINS) / WHAT_IF_BINS
    edges = np.quantile(values[known], inner, weights=rows.weights[known], method="inverted_cdf")
    bins = np.searchsorted(np.unique(edges), values[known], side="left")
    for one in range(int(bins.max()) + 1):
        own = known[bins == one]
        if own.size:
            order = own[np.argsort(values[own], kind="stable")]
            shares = np.cumsum(rows.weights[order]) / rows.weights[order].sum()
            source[own] = order[np.searchsorted(shares, 0.5)]
    return [Borrowed(source, 1.0)]


def _of_levels(codes: Integers, rows: Rows) -> list[Borrowed]:
    """Return rare levels as a mixture of all rare ones; nothing where there are not two."""
    shares = np.bincount(codes, rows.weights) / rows.weights.sum()
    is_rare = ((shares > 0.0) & (shares < RARE_LEVEL))[codes]
    if np.unique(codes[is_rare]).size < 2:
        return []
    own = np.arange(codes.size)
    return [Borrowed(np.where(is_rare, at, own), share) for at, share in _values(codes, is_rare, rows)]


def _answer(asked: AskedModel, ask: WhatIf) -> Floats:
    name, _, borrowed = ask
    return np.asarray(sum(one.share * asked.scores(name, one.source) for one in borrowed))


def _measured(judged: Judged, scores: Floats) -> Measured:
    """Return what is measured of scores, with the accuracy at the threshold's cost."""
    found = measured(judged, scores)
    if judged.outcome is None:
        return found
    right = accuracy_at(judged.threshold, judged.rows, scores >= judged.threshold, judged.outcome)
    cost = np.where(judged.outcome == WITH, 1.0 - judged.threshold, judged.threshold)
    return found._replace(found=found.found | {"accuracy": right}, cost=cost)


def _record(ask: WhatIf, before: Measured, after: Measured, level: float) -> dict[str, Any]:
    changes = after.change(before)
    record: dict[str, Any] = {"feature": ask[0], "what_if": ask[1]}
    for name, quantity in QUANTITIES.items():
        own = after.found.get(quantity)
        record |= columns(name, None if own is None else own.normal(), level)
        record |= columns(f"{name}_change", changes.get(quantity), level)
    return record
