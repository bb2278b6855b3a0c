"""Less discriminatory alternatives: other rules based on the same features, compared with the audited decisions.

With η(x) = P(Y=1|x) and m(x) = P(audited|x), both cross-fitted, the rules "1 where η(x) − τ > μ·a(x)" trace the
smallest loss of accuracy for each gap as μ varies. Errors are weighted by the threshold τ, so no rule is more accurate
than η(x) > τ. Each rule is evaluated on rows that it was not fitted on, so it is attainable and has an interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
import polars as pl
from scipy.special import expit

from tiltlens._analysis.evidence import interval_columns
from tiltlens._analysis.unobserved_groups import UnobservedGroup
from tiltlens._estimators.error_rates import UNKNOWN, WITH
from tiltlens._estimators.estimate import Estimate, HasInterval, quantile
from tiltlens._estimators.influence import Booleans, InfluenceEstimate, Integers, Rows, combine, overall_mean, quotient
from tiltlens._estimators.outputs import Scores, both_rates, gap, impact_ratio
from tiltlens._estimators.verdicts import simultaneous_factor
from tiltlens._learners.candidates import Sample, fit_trees
from tiltlens._learners.design import code_columns
from tiltlens._learners.propensity import row_folds
from tiltlens._limits import FEWEST_KNOWN, FOLDS, MINIMUM_ROWS, SMALLEST_SE, SMALLEST_SHARE
from tiltlens._notes import Note
from tiltlens._repair import quantities
from tiltlens._repair.adjustment import Design, additive_design, cross_fit
from tiltlens._repair.least_change import gradient, repaired
from tiltlens._repair.problem import nearly_constant
from tiltlens._repair.rows import AuditedRows, audited_rows
from tiltlens._repair.what_ifs import SCHEMA, strongest_what_if, what_ifs
from tiltlens._results.codec import to_plain, write_json
from tiltlens._results.comparison import Comparison
from tiltlens._sources.tables import Record
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats, check_share, check_threshold

if TYPE_CHECKING:
    from tiltlens.figures import Figure

TRADED_RULES = 41  # number of values of μ
SUMMARY = "tiltlens/alternatives/1"
TOLERANCES = (0.0, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)  # losses of accuracy that rules are chosen for

EXISTS, NOT_FOUND, INCONCLUSIVE = "exists", "was not found", "inconclusive"


@dataclass(frozen=True, slots=True, eq=False)
class Alternatives:
    """Other rules, and the one that was chosen as an alternative.

    Attributes
    ----------
    tolerances
        One row per accepted loss of accuracy, from 0 on, for the rule chosen for it: gap, change in accuracy, reduction
        of the gap and gain of the impact ratio, with one simultaneous confidence band over all rows, and a verdict.
    curve
        One row per rule: μ, and its gap, accuracy, AUC and gap of scores, with intervals; rules are evaluated on rows
        that they were not fitted on.
    accuracy, gap, auc, score_gap
        The audited model on the same rows: accuracy and gap of its decisions; AUC (None for decisions) and gap of its
        scores. The accuracy weights people with the outcome by 1 − `threshold`, others by `threshold`.
    rates
        For the "model" and the "alternative": the share of people "selected" (decision 1), the "impact_ratio" of
        favourable decisions, and the "true_positive_rate".
    soft
        For unobserved groups, the estimates of the gap of the "model" and of the "alternative"; empty if groups are
        observed.
    accuracy_change, gap_reduction
        The accuracy of the alternative, which was chosen on other rows, minus the model's accuracy, and the reduction
        of the gap; both are paired.
    tolerance
        The loss of accuracy that still counts as equally accurate.
    verdict
        "exists", "was not found" or "inconclusive".
    what_ifs
        One row per feature of the model that is neutralised or coarsened, with its effect; empty if scores were audited
        without their model.
    notes
        The strongest what-if, and warnings.
    audited, reference, rows
        The groups, and the number of people of each with an outcome.
    threshold, confidence
        The threshold of the audited decisions and of the weights of errors; and the confidence level.
    """

    tolerances: pl.DataFrame
    curve: pl.DataFrame
    accuracy: Estimate
    gap: Estimate
    auc: Estimate | None
    score_gap: Estimate
    accuracy_change: Estimate
    gap_reduction: Estimate
    rates: dict[str, dict[str, Estimate | None]]
    soft: dict[str, UnobservedGroup]
    tolerance: float
    verdict: str
    what_ifs: pl.DataFrame
    notes: tuple[str, ...]
    audited: str
    reference: str
    rows: dict[str, int]
    threshold: float
    confidence: float

    def _repr_html_(self) -> str:
        from tiltlens._render.html import result_html

        return result_html(AlternativesByGroup({self.audited: self}))

    def __str__(self) -> str:
        from tiltlens._documents.repair_sentences import verdict_sentence

        return verdict_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the alternatives as plain numbers."""
        return {**to_plain(self), "words": str(self)}

    def to_json(self, path: str | Path | TextIO) -> None:
        """Write the alternatives to a JSON file, or to a file that is open for text."""
        write_json(AlternativesByGroup({self.audited: self}).to_dict(), path)

    def report(self, path: str | Path | TextIO) -> None:
        """Write the alternatives as HTML that needs no network, or as PDF if the name ends in .pdf."""
        from tiltlens._render.page import write_report

        write_report(AlternativesByGroup({self.audited: self}), path)

    def plot(self) -> Figure:
        """Return the figure of accuracy against gap."""
        from tiltlens.figures import attainable

        return attainable(self)


@dataclass(frozen=True, slots=True, eq=False)
class AlternativesByGroup:
    """The alternatives of each audited group; `group` is the name of the group column."""

    comparisons: Mapping[str, Alternatives]
    group: str = "group"

    def to_dict(self) -> dict[str, Any]:
        """Return the alternatives as plain numbers."""
        comparisons = {name: own.to_dict() for name, own in self.comparisons.items()}
        return {"schema": SUMMARY, "group": self.group, "comparisons": comparisons}


@dataclass(frozen=True, slots=True, eq=False)
class PairedRows:
    """The rows with an outcome, with the audited scores, the threshold and cross-fitting folds."""

    audited: AuditedRows
    rows: Rows
    outcome: Integers
    fold: Integers
    threshold: float

    @property
    def decided(self) -> Booleans:
        """The audited decisions."""
        return np.asarray(self.audited.scores >= self.threshold)

    @property
    def y(self) -> Booleans:
        """Whether each row has the outcome."""
        return np.asarray(self.outcome == WITH)

    def accuracy(self, decided: Booleans) -> InfluenceEstimate:
        """Return the accuracy of decisions, with errors weighted by the threshold."""
        return quantities.accuracy_at(self.threshold, self.rows, decided, self.outcome)

    def measure(self, decided: Booleans, scores: Floats, confidence: float) -> dict[str, Estimate]:
        """Return the gap and accuracy of decisions, and the gap and AUC of scores."""
        laws = {
            "gap": quantities.decision_gap(self.rows, decided).normal(-1.0, 1.0),
            "accuracy": self.accuracy(decided).normal(0.0, 1.0),
            "score_gap": gap(self.rows, Scores.of(self.rows, scores)).normal(-1.0, 1.0),
            "auc": quantities.area(self.rows, scores, self.outcome).normal(0.0, 1.0),
        }
        return {name: law.estimate(confidence) for name, law in laws.items()}

    def favourable(self, decided: Booleans) -> Scores:
        """Return whether decisions are favourable, as scores."""
        return Scores.of(self.rows, (decided != self.audited.favours_low).astype(np.float64))

    def changes(self, decided: Booleans) -> tuple[InfluenceEstimate, InfluenceEstimate, InfluenceEstimate]:
        """Return the paired change of accuracy, reduction of the gap and increase in the impact ratio.

        The impact ratio is the lower favourable rate over the higher one.
        """
        rules, ratios = (self.decided, decided), []
        for rule in rules:
            rates = both_rates(self.rows, self.favourable(rule))
            ratios.append(quotient(*sorted(rates, key=lambda rate: rate.value)))
        own, other = (quantities.decision_gap(self.rows, rule) for rule in rules)
        signs = [1.0 if estimate.value >= 0.0 else -1.0 for estimate in (own, other)]
        reduction = combine(abs(own.value) - abs(other.value), [(signs[0], own), (-signs[1], other)])
        return self.accuracy(decided).minus(self.accuracy(self.decided)), reduction, ratios[1].minus(ratios[0])

    def rates(self, decided: Booleans, confidence: float) -> dict[str, Estimate | None]:
        """Return the share selected, the impact ratio and the true positive rate of decisions."""
        rows, selected, favourable = self.rows, decided.astype(np.float64), self.favourable(decided)
        # group probabilities as weights would bias a ratio towards 1
        has_ratio = not self.audited.soft and favourable.mean1[0] > SMALLEST_SHARE
        rates: dict[str, HasInterval | None] = {
            "selected": overall_mean(rows.weights, selected, rows.clusters).normal(0.0, 1.0),
            "impact_ratio": impact_ratio(rows, favourable) if has_ratio else None,
            "true_positive_rate": overall_mean(rows.weights * self.y, selected, rows.clusters).normal(0.0, 1.0),
        }
        return {name: None if rate is None else rate.estimate(confidence) for name, rate in rates.items()}


class _Fold(NamedTuple):
    """For each rule, estimates on the other folds: the change of accuracy, its standard error, and the absolute gap."""

    rows: Booleans
    change: Floats
    se: Floats
    gap: Floats


def measure_folds(data: PairedRows, rules: Sequence[Booleans]) -> list[_Fold]:
    """Return, for each fold, the estimates for each rule on the other folds."""
    folds = []
    for k in range(FOLDS):
        others = data.fold != k
        part, outcome = data.rows.take(np.flatnonzero(others)), data.outcome[others]
        own, *accuracies = (
            quantities.accuracy_at(data.threshold, part, decided[others], outcome) for decided in (data.decided, *rules)
        )
        changes = [accuracy.minus(own) for accuracy in accuracies]
        values, errors = ([getattr(change, name) for change in changes] for name in ("value", "se"))
        gaps = [abs(quantities.decision_gap(part, decided[others]).value) for decided in rules]
        folds.append(_Fold(~others, np.array(values), np.maximum(errors, SMALLEST_SE), np.array(gaps)))
    return folds


def choose_rules(
    data: PairedRows, rules: Sequence[Booleans], folds: Sequence[_Fold], tolerance: float, sure: float
) -> tuple[Booleans, bool]:
    """Return decisions fold by fold: of the rule with the smallest gap among those surely accurate on other folds.

    If no rule is surely accurate, use the one most likely to be; also return whether every fold had one that is.
    """
    chosen, is_sure = np.zeros_like(data.decided), True
    for fold in folds:
        t = (fold.change + tolerance) / fold.se
        has_accurate = bool((t >= sure).any())
        best = int(np.argmin(np.where(t >= sure, fold.gap, np.inf))) if has_accurate else int(np.argmax(t))
        chosen[fold.rows] = rules[best][fold.rows]
        is_sure = is_sure and has_accurate
    return chosen, is_sure


def verdict_of(changes: Sequence[Estimate], tolerance: float, is_sure: bool) -> str:
    """Return the verdict from intervals of the changes of accuracy, gap and ratio; "exists" needs all three.

    The gap alone also shrinks if fewer people of both groups are selected. If no rule is surely accurate in some fold,
    the failure of the chosen rule is inconclusive.
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
    """Return one row per tolerance, with one simultaneous (max-t) band over all from paired influence functions."""
    sure, confidence = levels
    losses = sorted({*TOLERANCES, tolerance})
    choices = [choose_rules(data, rules, folds, loss, sure) for loss in losses]
    changes = [data.changes(chosen) for chosen, _ in choices]
    columns = np.column_stack([change.influence for row in changes for change in row])
    factor = simultaneous_factor(columns.T @ columns, confidence, 0)
    records = []
    for loss, (chosen, is_sure), row in zip(losses, choices, changes, strict=True):
        bands = [Estimate(c.value, c.value - factor * c.se, c.value + factor * c.se) for c in row]
        record: Record = {"tolerance": loss, "gap": quantities.decision_gap(data.rows, chosen).value}
        for name, band in zip(("accuracy_change", "gap_reduction", "ratio_gain"), bands, strict=True):
            record |= interval_columns(name, band)
        records.append(record | {"verdict": verdict_of(bands, loss, is_sure)})
    return pl.DataFrame(records)


class _Rules(NamedTuple):
    """Rules for a grid of μ: their decisions and scores on rows that they were not fitted on."""

    grid: Floats
    decided: list[Booleans]
    scores: list[Floats]


def find_alternatives(comparison: Comparison, tolerance: float, threshold: float) -> Alternatives:
    """Find rules of the audited features with other accuracies and gaps, evaluated on the rows with an outcome."""
    whole, index = _rows_with_outcome(comparison, tolerance, threshold)
    (audited, notes), confidence = whole.take(index).with_duplicates(), comparison.scale.confidence
    rows = audited.rows
    assert audited.outcome is not None
    data = PairedRows(audited, rows, audited.outcome, row_folds(rows, FOLDS, 0), threshold)
    rules = _make_rules(data, additive_design(audited.features))
    folds, sure = measure_folds(data, rules.decided), quantile(2.0 * confidence - 1.0)
    chosen, is_sure = choose_rules(data, rules.decided, folds, tolerance, sure)
    changes = [change.normal() for change in data.changes(chosen)]
    one_sided = [change.estimate(2.0 * confidence - 1.0) for change in changes]
    table, what_if_notes = _what_ifs(data, confidence)
    is_scored = not quantities.are_decisions(audited.scores)
    own = data.measure(data.decided, audited.scores, confidence)
    notes += [] if is_scored else [Note("scores are decisions")]
    notes += [Note("alternatives ignore exempt factors")] if audited.exempt else []
    decisions = {"model": data.decided, "alternative": chosen}
    return Alternatives(
        tolerances=tolerance_table(data, rules.decided, folds, tolerance, (sure, confidence)),
        curve=_curve(data, rules, confidence),
        accuracy=own["accuracy"],
        gap=own["gap"],
        auc=own["auc"] if is_scored else None,
        score_gap=own["score_gap"],
        accuracy_change=changes[0].estimate(confidence),
        gap_reduction=changes[1].estimate(confidence),
        rates={name: data.rates(decided, confidence) for name, decided in decisions.items()},
        soft=_unobserved_gaps(audited, decisions, index),
        tolerance=tolerance,
        verdict=verdict_of(one_sided, tolerance, is_sure),
        what_ifs=table,
        notes=(*nearly_constant(data.decided, chosen, data.rows.weights), *what_if_notes, *notes),
        audited=audited.groups[1],
        reference=audited.reference,
        rows={"audited": data.rows.count0, "reference": data.rows.count1},
        threshold=threshold,
        confidence=confidence,
    )


def _unobserved_gaps(
    audited: AuditedRows, decisions: Mapping[str, Booleans], index: Integers
) -> dict[str, UnobservedGroup]:
    """Return the gap of decisions between groups that are unobserved; empty if they are observed."""
    return {
        name: estimate(decided.astype(np.float64), index)
        for estimate in audited.soft.values()
        for name, decided in decisions.items()
    }


def _rows_with_outcome(comparison: Comparison, tolerance: object, threshold: object) -> tuple[AuditedRows, Integers]:
    """Return the audited rows and the index of those with an outcome; raise if they allow no search."""
    audited = audited_rows(comparison, "alternatives")
    check_share("tolerance", tolerance, "0.005 is half a point.")
    check_threshold(threshold, below_one=True)
    if audited.scores.ndim != 1:
        raise DataError("Alternatives need scores of two outcomes, got more.", "audit one of the outcomes.")
    if audited.outcome is None:
        raise DataError("Alternatives need outcomes, but the audit has none.", "audit with outcome=.")
    index = np.flatnonzero(audited.outcome != UNKNOWN)
    first, second = np.bincount(audited.codes[index] == 1, minlength=2)[::-1].tolist()
    if min(first, second) < FEWEST_KNOWN:
        raise DataError(
            f"Alternatives need outcomes of at least {FEWEST_KNOWN} people of each group, got {first} and {second}.",
            "add rows.",
        )
    with_it = int((audited.outcome == WITH).sum())
    if min(with_it, index.size - with_it) < MINIMUM_ROWS:
        raise DataError(
            f"Alternatives need at least {MINIMUM_ROWS} people with the outcome and {MINIMUM_ROWS} without it, got "
            f"{with_it} and {index.size - with_it}.",
            "add rows.",
        )
    if not audited.model_features:
        raise DataError("Alternatives need features, but the audit has none.", "list features.")
    return audited, index


def _what_ifs(data: PairedRows, confidence: float) -> tuple[pl.DataFrame, tuple[Note, ...]]:
    if data.audited.model is None:
        return pl.DataFrame(schema=SCHEMA), (Note("what-ifs need the model"),)
    evaluated = quantities.EvaluationRows(data.rows, data.outcome, data.threshold)
    table, notes = what_ifs(data.audited.model, evaluated, data.audited.scores, confidence)
    return table, (strongest_what_if(table), *notes)


def _make_rules(data: PairedRows, design: Design) -> _Rules:
    """Return the rules "1 where η(x) − τ > μ·a(x)" for a grid of μ.

    At either end of the grid, all decisions are 1 in one group and 0 in the other.
    """
    rows, tau = data.rows, data.threshold
    eta, probability = (_cross_fit(design, data, labels) for labels in (data.y, rows.audited))
    share = float(rows.weights @ rows.audited) / float(rows.weights.sum())
    a = gradient(probability, 1.0 - probability, (share, 1.0 - share))
    grid = np.linspace(-1.0, 1.0, TRADED_RULES) * max(share, 1.0 - share) * min(tau, 1.0 - tau)
    # logit η − logit τ ≈ (η − τ)/(τ(1 − τ)) near τ, so that the scores of a rule are tilted by as much
    scores = [repaired(eta, mu * a / (tau * (1.0 - tau))) for mu in grid]
    return _Rules(grid, [eta - tau > mu * a for mu in grid], scores)


def _cross_fit(design: Design, data: PairedRows, labels: Booleans) -> Floats:
    """Return cross-fitted P(label|x) of each row: from additive models, or from trees if their log-loss is lower."""
    weights = data.rows.weights
    additive = cross_fit(design, weights, data.fold, labels, np.ones_like(labels))[1]
    candidates = np.array([additive, _cross_fit_trees(design, data, labels)])
    return np.asarray(candidates[int(np.argmin(quantities.log_losses(candidates, labels) @ weights))])


def _cross_fit_trees(design: Design, data: PairedRows, labels: Booleans) -> Floats:
    raw = design.encoding.raw(design.table, slice(None))
    sample = Sample(
        matrix=np.empty((labels.size, 0)),  # trees read the raw columns
        index=np.arange(labels.size),
        kinds=np.empty(0, dtype=np.str_),
        owners=np.empty(0, dtype=np.intp),
        raw=raw,
        codes=code_columns(design.table),
        audited=labels,
        weights=data.rows.weights,
    )
    probability = np.empty(labels.size)
    for k in range(FOLDS):
        trees = fit_trees(sample.rows(data.fold != k), 0)
        probability[data.fold == k] = expit(trees.decision_function(raw[data.fold == k]))
    return probability


def _curve(data: PairedRows, rules: _Rules, confidence: float) -> pl.DataFrame:
    records = []
    for mu, decided, scores in zip(rules.grid.tolist(), rules.decided, rules.scores, strict=True):
        records.append({"mu": mu})
        for name, estimate in data.measure(decided, scores, confidence).items():
            records[-1] |= interval_columns(name, estimate)
    return pl.DataFrame(records)
