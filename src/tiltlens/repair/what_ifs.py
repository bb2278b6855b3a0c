"""Candidate rules: the choice among them in pairs, and predictions without a feature or with less of it.

To *neutralise* a feature, the model's output is averaged over the reference's values of it, the same for everybody. To
*coarsen* it, a number becomes the median of its quartile, or the outputs of rare levels are averaged over all of them.
Each is a rule that could be used, and is evaluated on the same rows as the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from tiltlens.analysis.evidence import interval_columns, interval_schema
from tiltlens.errors import DataError, TiltlensError, first_line
from tiltlens.estimators.error_rates import WITH
from tiltlens.estimators.estimate import Estimate, HasInterval, Normal
from tiltlens.estimators.influence import Booleans, InfluenceEstimate, Integers, Rows, combine, overall_mean
from tiltlens.estimators.outputs import Scores, gap, group_rate, impact_ratio
from tiltlens.estimators.sets import evenly
from tiltlens.estimators.verdicts import simultaneous_factor
from tiltlens.learners.propensity import row_folds
from tiltlens.limits import FOLDS, SMALLEST_SE, SMALLEST_SHARE
from tiltlens.paper.checks import Floats
from tiltlens.repair.quantities import EvaluationRows, Measurements, accuracy_at, area, decision_gap, measure
from tiltlens.repair.rows import AuditedRows
from tiltlens.rows.levels import numbers_of
from tiltlens.rows.predictions import AskedModel
from tiltlens.sources.columns import Record

WHAT_IF_ROWS = 20_000  # that the model is asked about: a standard error is then a point at most
WHAT_IF_VALUES = 32  # of a feature that outputs are averaged over: each is a prediction of all those rows
WHAT_IF_BINS = 4  # of a coarsened number: quartiles
RARE_LEVEL = 0.05  # of the people, below which a level of a coarsened category is rare


NEUTRALISED, COARSENED = "neutralised", "coarsened"
QUANTITIES = {"gap": "decision_gap", "score_gap": "gap", "accuracy": "accuracy", "auc": "auc"}  # column: quantity
SCHEMA: dict[str, type[pl.DataType]] = {"feature": pl.String, "what_if": pl.String} | interval_schema(
    *(f"{name}{part}" for name in QUANTITIES for part in ("", "_change"))
)
NEEDS_MODEL = "what-ifs of single features need the model: audit with model= in place of scores"


class Borrowed(NamedTuple):
    """The rows whose value of a feature each row takes, and the share of the output with these values."""

    source: Integers
    share: float


class WhatIf(NamedTuple):
    """A change of one feature, as a mixture of borrowed values."""

    feature: str
    kind: str
    values: list[Borrowed]


def what_ifs(
    model: AskedModel, data: EvaluationRows, scores: Floats, confidence: float
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return one row for each what-if, those with the smallest gap of decisions first, and notes.

    The intervals are simultaneous over all what-ifs (Šidák), so that any of them may be picked.
    """
    index, weights = _sample(data.rows)
    clusters = None if data.rows.clusters is None else data.rows.clusters[index]
    outcome = None if data.outcome is None else data.outcome[index]
    part = data._replace(rows=Rows.of(data.rows.audited[index], weights, clusters), outcome=outcome)
    before, model = _measure(part, scores[index]), model.rows(index)
    changes = [change for name in model.features for change in _changes(name, model.table[name], part.rows)]
    level = confidence ** (1.0 / max(len(changes), 1))
    records, notes = [], []
    for change in changes:
        try:
            records.append(_record(change, before, _measure(part, _predict(model, change)), level))
        except TiltlensError as error:  # the model may refuse combinations of values that it never saw
            notes.append(f"{change.feature} could not be {change.kind}: {first_line(error)}")
    if index.size < data.rows.audited.size:
        notes.append(f"what-ifs are evaluated on {index.size:,} of the rows")
    table = pl.DataFrame(sorted(records, key=lambda record: abs(record["gap"])), schema=SCHEMA)
    return table, tuple(notes)


def strongest_what_if(table: pl.DataFrame) -> str:
    """Return the what-if that surely reduces the gap most, in words."""
    best, largest = None, 0.0
    for row in table.iter_rows(named=True):
        side = np.sign(row["gap"] - row["gap_change"])  # of the gap before
        reduction = min(-side * row["gap_change_low"], -side * row["gap_change_high"])
        if reduction > largest and abs(row["gap"]) < abs(row["gap"] - row["gap_change"]):
            best, largest = row, reduction
    if best is None:
        return "no what-if of a single feature significantly reduces the gap of decisions"
    ends = sorted(abs(100.0 * best[f"gap_change{end}"]) for end in ("_low", "_high"))
    accuracy = [100.0 * best[f"accuracy_change{end}"] for end in ("_low", "_high")]
    return (
        f"with {best['feature']} {best['what_if']} the gap of decisions is smaller by {ends[0]:.1f} to {ends[1]:.1f} "
        f"points, and accuracy changes by {accuracy[0]:+.1f} to {accuracy[1]:+.1f}"
    )


def _sample(rows: Rows) -> tuple[Integers, Floats]:
    """Return rows to predict, as many of each group as possible, and their weights."""
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
    """Yield the what-ifs of a feature, none where nothing would change."""
    codes = _codes(column)
    if codes.max() == 0:
        return
    shares = _values(codes, ~rows.audited, rows)
    yield WhatIf(name, NEUTRALISED, [Borrowed(np.full(codes.size, row), share) for row, share in shares])
    coarse = _coarse_numbers(column, rows) if _is_number(column) else _coarse_levels(codes, rows)
    if coarse:
        yield WhatIf(name, COARSENED, coarse)


def _codes(column: pl.Series) -> Integers:
    """Return the rank of each value, from 0; missing values are the first."""
    keys = column.to_physical() if column.dtype == pl.Enum else column
    return np.unique(keys.rank("dense").fill_null(0).to_numpy(), return_inverse=True)[1]


def _is_number(column: pl.Series) -> bool:
    return column.dtype.is_numeric() or column.dtype.is_temporal()


def _values(codes: Integers, among: Booleans, rows: Rows) -> list[tuple[int, float]]:
    """Return rows whose values represent those of the rows `among`, with their shares.

    They hold each value where there are few, else those at equally spaced quantiles.
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


def _coarse_numbers(column: pl.Series, rows: Rows) -> list[Borrowed]:
    """Return numbers as the median of their quantile bin; missing ones stay, and so do few values."""
    values, source = numbers_of(column), np.arange(len(column))
    present = np.flatnonzero(~np.isnan(values))
    if np.unique(values[present]).size <= WHAT_IF_BINS:
        return []
    inner = np.arange(1, WHAT_IF_BINS) / WHAT_IF_BINS
    edges = np.quantile(values[present], inner, weights=rows.weights[present], method="inverted_cdf")
    bins = np.searchsorted(np.unique(edges), values[present], side="left")
    for k in range(int(bins.max()) + 1):
        own = present[bins == k]
        if own.size:
            order = own[np.argsort(values[own], kind="stable")]
            shares = np.cumsum(rows.weights[order]) / rows.weights[order].sum()
            source[own] = order[np.searchsorted(shares, 0.5)]
    return [Borrowed(source, 1.0)]


def _coarse_levels(codes: Integers, rows: Rows) -> list[Borrowed]:
    """Return rare levels as a mixture of all rare ones; nothing where there are fewer than two."""
    shares = np.bincount(codes, rows.weights) / rows.weights.sum()
    is_rare = ((shares > 0.0) & (shares < RARE_LEVEL))[codes]
    if np.unique(codes[is_rare]).size < 2:
        return []
    own = np.arange(codes.size)
    return [Borrowed(np.where(is_rare, row, own), share) for row, share in _values(codes, is_rare, rows)]


def _predict(model: AskedModel, change: WhatIf) -> Floats:
    return np.asarray(sum(part.share * model.scores(change.feature, part.source) for part in change.values))


def _measure(data: EvaluationRows, scores: Floats) -> Measurements:
    """Return the quantities of scores, with errors weighted by the threshold in the accuracy."""
    measured = measure(data, scores)
    if data.outcome is None:
        return measured
    accuracy = accuracy_at(data.threshold, data.rows, scores >= data.threshold, data.outcome)
    cost = np.where(data.outcome == WITH, 1.0 - data.threshold, data.threshold)
    return measured._replace(estimates=measured.estimates | {"accuracy": accuracy}, cost=cost)


def _record(what_if: WhatIf, before: Measurements, after: Measurements, level: float) -> Record:
    differences = after.change(before)
    record: Record = {"feature": what_if.feature, "what_if": what_if.kind}
    for name, quantity in QUANTITIES.items():
        estimate = after.estimates.get(quantity)
        change = differences.get(quantity)
        record |= interval_columns(name, None if estimate is None else estimate.normal().estimate(level))
        record |= interval_columns(f"{name}_change", None if change is None else change.estimate(level))
    return record


TOLERANCES = (0.0, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)  # losses of accuracy that rules are chosen for

EXISTS, NOT_FOUND, INCONCLUSIVE = "exists", "was not found", "inconclusive"


@dataclass(frozen=True, slots=True, eq=False)
class PairedRows:
    """Rows with an outcome, the audited scores and threshold, and folds."""

    audited: AuditedRows
    rows: Rows
    outcome: Integers
    fold: Integers
    threshold: float

    @classmethod
    def of(cls, audited: AuditedRows, threshold: float) -> PairedRows:
        """Return the rows with folds that depend on what they hold."""
        rows = audited.rows
        return cls(audited, rows, outcome_of(audited), row_folds(rows, FOLDS, 0), threshold)

    @property
    def decided(self) -> Booleans:
        """The audited decisions."""
        return np.asarray(self.audited.scores >= self.threshold)

    @property
    def y(self) -> Booleans:
        """Who has the outcome."""
        return np.asarray(self.outcome == WITH)

    def accuracy(self, decided: Booleans) -> InfluenceEstimate:
        """Return the accuracy of decisions, with errors weighted by the threshold."""
        return accuracy_at(self.threshold, self.rows, decided, self.outcome)

    def auc(self, scores: Floats) -> Normal:
        """Return the area under the curve of scores."""
        return area(self.rows, scores, self.outcome).normal(0.0, 1.0)

    def score_gap(self, scores: Floats) -> Normal:
        """Return the gap of scores."""
        return gap(self.rows, Scores.of(self.rows, scores)).normal(-1.0, 1.0)

    def ratio_gain(self, decided: Booleans) -> InfluenceEstimate:
        """Return by how much the lower favourable rate over the higher is nearer to 1 than the model's."""
        ratios = []
        for selected in (self.decided, decided):
            favourable = Scores.of(self.rows, (selected != self.audited.favours_low).astype(np.float64))
            rates = (group_rate(self.rows, favourable, group) for group in (True, False))
            low, high = sorted(rates, key=lambda rate: rate.value)
            top = max(high.value, SMALLEST_SHARE)
            ratios.append(combine(low.value / top, [(1.0 / top, low), (-low.value / top**2, high)]))
        return ratios[1].minus(ratios[0])

    def changes(self, decided: Booleans) -> tuple[InfluenceEstimate, InfluenceEstimate, InfluenceEstimate]:
        """Return the change of accuracy, the reduction of the gap and the gain of the ratio, paired with the model."""
        accuracy = self.accuracy(decided).minus(self.accuracy(self.decided))
        gaps = [decision_gap(self.rows, rule) for rule in (self.decided, decided)]
        return accuracy, _reduction(*gaps), self.ratio_gain(decided)

    def rates(self, decided: Booleans, confidence: float) -> dict[str, Estimate | None]:
        """Return the share selected, the impact ratio and the true positive rate of decisions."""
        rows, selected = self.rows, decided.astype(np.float64)
        favourable = Scores.of(rows, (decided != self.audited.favours_low).astype(np.float64))
        # weighting by probabilities of groups would bias a ratio towards 1
        has_ratio = not self.audited.soft and favourable.mean1[0] > SMALLEST_SHARE
        rates: dict[str, HasInterval | None] = {
            "selected": overall_mean(rows.weights, selected, rows.clusters).normal(0.0, 1.0),
            "impact_ratio": impact_ratio(rows, favourable) if has_ratio else None,
            "true_positive_rate": overall_mean(rows.weights * self.y, selected, rows.clusters).normal(0.0, 1.0),
        }
        return {name: None if rate is None else rate.estimate(confidence) for name, rate in rates.items()}


def outcome_of(audited: AuditedRows) -> Integers:
    """Return the codes of outcomes, which there must be."""
    if audited.outcome is None:
        raise DataError("Alternatives need outcomes, but the audit has none.", "audit with outcome=.")
    return audited.outcome


class _Fold(NamedTuple):
    """What other folds say of the rules: the change of accuracy, its standard error, and the size of the gap."""

    rows: Booleans
    change: Floats
    se: Floats
    gap: Floats


def measure_folds(data: PairedRows, rules: Sequence[Booleans]) -> list[_Fold]:
    """Return for each fold what the other folds say of each rule."""
    folds = []
    for k in range(FOLDS):
        others = data.fold != k
        part, outcome = data.rows.take(np.flatnonzero(others)), data.outcome[others]
        own, *accuracies = (
            accuracy_at(data.threshold, part, decided[others], outcome) for decided in (data.decided, *rules)
        )
        changes = [accuracy.minus(own) for accuracy in accuracies]
        columns = zip(*((change.value, max(change.se, SMALLEST_SE)) for change in changes), strict=True)
        gaps = [abs(decision_gap(part, decided[others]).value) for decided in rules]
        folds.append(_Fold(~others, *(np.array(column) for column in (*columns, gaps))))
    return folds


def choose_rules(
    data: PairedRows, rules: Sequence[Booleans], folds: Sequence[_Fold], tolerance: float, sure: float
) -> tuple[Booleans, bool]:
    """Return, fold by fold, the decisions of the rule with the smallest gap that is surely accurate on other folds.

    Where no rule is surely accurate, take the likeliest to be; also return whether every fold had one that is.
    """
    chosen, is_sure = np.zeros_like(data.decided), True
    for fold in folds:
        t = (fold.change + tolerance) / fold.se
        has_accurate = bool((t >= sure).any())
        best = int(np.argmin(np.where(t >= sure, fold.gap, np.inf))) if has_accurate else int(np.argmax(t))
        chosen[fold.rows] = rules[best][fold.rows]
        is_sure = is_sure and has_accurate
    return chosen, is_sure


def _reduction(own: InfluenceEstimate, other: InfluenceEstimate) -> InfluenceEstimate:
    """Return |gap of the model| − |gap of the alternative|."""
    signs = [1.0 if estimate.value >= 0.0 else -1.0 for estimate in (own, other)]
    return combine(abs(own.value) - abs(other.value), [(signs[0], own), (-signs[1], other)])


def verdict_of(changes: Sequence[Estimate], tolerance: float, is_sure: bool) -> str:
    """Return the verdict by intervals of accuracy, gap and ratio; all must hold.

    A gap alone also shrinks where fewer people of both groups are selected. Unless rules that are surely accurate were
    tried in every fold, a failure of this rule is inconclusive.
    """
    accuracy, reduction, ratio = changes
    if (accuracy.low or 0.0) > -tolerance and min(reduction.low or 0.0, ratio.low or 0.0) > 0.0:
        return EXISTS
    if is_sure and ((accuracy.high or 0.0) < -tolerance or (reduction.high or 0.0) < 0.0):
        return NOT_FOUND
    return INCONCLUSIVE


def tolerance_table(
    data: PairedRows,
    rules: Sequence[Booleans],
    folds: Sequence[_Fold],
    tolerance: float,
    levels: tuple[float, float],
) -> pl.DataFrame:
    """Return a row for each tolerance, with one band (max-t) over all of them by their paired influence functions."""
    sure, confidence = levels
    losses = sorted({*TOLERANCES, tolerance})
    choices = [choose_rules(data, rules, folds, loss, sure) for loss in losses]
    changes = [data.changes(chosen) for chosen, _ in choices]
    columns = np.column_stack([change.influence for row in changes for change in row])
    factor = simultaneous_factor(columns.T @ columns, confidence, 0)
    records = []
    for loss, (chosen, is_sure), row in zip(losses, choices, changes, strict=True):
        bands = [Estimate(c.value, c.value - factor * c.se, c.value + factor * c.se) for c in row]
        record: Record = {"tolerance": loss, "gap": decision_gap(data.rows, chosen).value}
        for name, band in zip(("accuracy_change", "gap_reduction", "ratio_gain"), bands, strict=True):
            record |= interval_columns(name, band)
        records.append(record | {"verdict": verdict_of(bands, loss, is_sure)})
    return pl.DataFrame(records)
