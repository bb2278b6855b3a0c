"""Less discriminatory alternatives: other rules based on the same features, compared with the audited decisions.

With η(x) = P(Y=1|x) and m(x) = P(audited|x), both cross-fitted, the rules "1 where η(x) − τ > μ·a(x)" trace the
smallest loss of accuracy for each gap as μ varies. Errors are weighted by the threshold τ, so no rule is more accurate
than η(x) > τ. Each rule is evaluated on rows that it was not fitted on, so it is attainable and has an interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
import polars as pl
from scipy.special import expit

from tiltlens._analysis.evidence import interval_columns
from tiltlens._analysis.unobserved_groups import UnobservedGroup
from tiltlens._estimators.error_rates import UNKNOWN
from tiltlens._estimators.estimate import Estimate, quantile
from tiltlens._estimators.influence import Booleans, Integers
from tiltlens._learners.candidates import Sample, fit_trees
from tiltlens._learners.design import code_columns
from tiltlens._limits import FEWEST_KNOWN, FOLDS
from tiltlens._notes import Note
from tiltlens._repair.adjustment import Design, additive_design, cross_fit
from tiltlens._repair.least_change import gradient, tilted_score
from tiltlens._repair.quantities import EvaluationRows, are_decisions, decision_gap, log_losses, nearly_constant
from tiltlens._repair.rows import AuditedRows, audited_rows
from tiltlens._repair.what_ifs import (
    EXISTS,
    NOT_FOUND,
    SCHEMA,
    PairedRows,
    choose_rules,
    measure_folds,
    outcome_of,
    strongest_what_if,
    tolerance_table,
    verdict_of,
    what_ifs,
)
from tiltlens._results.codec import to_plain, write_json
from tiltlens._results.comparison import Comparison
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats, check_share, check_threshold

if TYPE_CHECKING:
    from tiltlens.figures import Figure

TRADED_RULES = 41  # number of values of μ
SUMMARY = "tiltlens/alternatives/1"


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
        from tiltlens._render.html import alternatives_html

        return alternatives_html(AlternativesByGroup({self.audited: self}))

    def __str__(self) -> str:
        reduction = self.gap_reduction
        low, high = (100 * (end or 0.0) for end in (reduction.low, reduction.high))
        ends = f"{low:.1f} to {high:.1f}" if low > 0.0 else f"{100 * reduction.value:.1f}"
        points, which = f"{100 * self.tolerance:g} points", "weighted gap" if self.soft else "gap"
        if self.verdict == EXISTS:
            exists = (
                f"There is a rule that is no less accurate (within {points}) and has a {which} that is {ends} "
                "points smaller."
            )
            return f"{exists} {_rates_words(**self.rates)}"
        if self.verdict == NOT_FOUND:
            return f"A rule no less accurate (within {points}) with a smaller {which} was not found."
        return f"Inconclusive: no evidence for or against a rule as accurate (within {points}) with a smaller {which}."

    def to_dict(self) -> dict[str, Any]:
        """Return the alternatives as plain numbers."""
        return {**to_plain(self), "words": str(self)}

    def to_json(self, path: str | Path | TextIO) -> None:
        """Write the alternatives to a JSON file, or to a file that is open for text."""
        write_json(AlternativesByGroup({self.audited: self}).to_dict(), path)

    def report(self, path: str | Path | TextIO) -> None:
        """Write the alternatives as HTML that needs no network, or as PDF if the name ends in .pdf."""
        from tiltlens._render.page import write_alternatives

        write_alternatives(AlternativesByGroup({self.audited: self}), path)

    def plot(self) -> Figure:
        """Return the figure of accuracy against gap."""
        from tiltlens.figures import attainable

        return attainable(self)


def _rates_words(model: Mapping[str, Estimate | None], alternative: Mapping[str, Estimate | None]) -> str:
    """Return a sentence with the rates of both rules, because a rule may be accurate by selecting almost nobody."""
    selected, true_positives, ratio = (
        f"{alternative[name]:{form}} (audited rule: {model[name]:{form}})"
        if None not in (alternative[name], model[name])
        else ""
        for name, form in (("selected", ".1%"), ("true_positive_rate", ".1%"), ("impact_ratio", ".2f"))
    )
    words = f"It selects {selected} of people and {true_positives} of those with the outcome"
    return f"{words}; its impact ratio is {ratio}." if ratio else f"{words}."


@dataclass(frozen=True, slots=True, eq=False)
class AlternativesByGroup:
    """The alternatives of each audited group; `group` is the name of the group column."""

    comparisons: Mapping[str, Alternatives]
    group: str = "group"

    def to_dict(self) -> dict[str, Any]:
        """Return the alternatives as plain numbers."""
        comparisons = {name: own.to_dict() for name, own in self.comparisons.items()}
        return {"schema": SUMMARY, "group": self.group, "comparisons": comparisons}


class _Rules(NamedTuple):
    """Rules for a grid of μ: their decisions and scores on rows that they were not fitted on."""

    grid: Floats
    decided: list[Booleans]
    scores: list[Floats]


def find_alternatives(comparison: Comparison, tolerance: float, threshold: float) -> Alternatives:
    """Find rules of the audited features with other accuracies and gaps, evaluated on the rows with an outcome."""
    whole, confidence = audited_rows(comparison, "alternatives"), comparison.scale.confidence
    _check(tolerance, threshold, whole.scores)
    index = _rows_with_outcome(whole)
    audited, notes = whole.take(index).with_duplicates()
    data = PairedRows.of(audited, threshold)
    rules = _make_rules(data, additive_design(audited.features))
    folds, sure = measure_folds(data, rules.decided), quantile(2.0 * confidence - 1.0)
    chosen, is_sure = choose_rules(data, rules.decided, folds, tolerance, sure)
    changes = [change.normal() for change in data.changes(chosen)]
    one_sided = [change.estimate(2.0 * confidence - 1.0) for change in changes]
    table, what_if_notes = _what_ifs(data, confidence)
    is_scored = not are_decisions(audited.scores)
    notes += [] if is_scored else [Note("scores are decisions")]
    notes += [Note("alternatives ignore exempt factors")] if audited.exempt else []
    decisions = {"model": data.decided, "alternative": chosen}
    return Alternatives(
        tolerances=tolerance_table(data, rules.decided, folds, tolerance, (sure, confidence)),
        curve=_curve(data, rules, confidence),
        accuracy=data.accuracy(data.decided).normal(0.0, 1.0).estimate(confidence),
        gap=decision_gap(data.rows, data.decided).normal(-1.0, 1.0).estimate(confidence),
        auc=data.auc(audited.scores).estimate(confidence) if is_scored else None,
        score_gap=data.score_gap(audited.scores).estimate(confidence),
        accuracy_change=changes[0].estimate(confidence),
        gap_reduction=changes[1].estimate(confidence),
        rates={name: data.rates(decided, confidence) for name, decided in decisions.items()},
        soft={
            name: estimate(decided.astype(np.float64), index)
            for estimate in audited.soft.values()  # of the audited group, if it is unobserved
            for name, decided in decisions.items()
        },
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


def _check(tolerance: object, threshold: object, scores: Floats) -> None:
    check_share("tolerance", tolerance, "0.005 is half a point.")
    check_threshold(threshold, below_one=True)
    if scores.ndim != 1:
        raise DataError("Alternatives need scores of two outcomes, got more.", "audit one of the outcomes.")


def _rows_with_outcome(audited: AuditedRows) -> Integers:
    """Return the index of the rows with an outcome; raise if there are too few of them or no features."""
    index = np.flatnonzero(outcome_of(audited) != UNKNOWN)
    is_audited = audited.rows.audited[index]
    sizes = int(is_audited.sum()), int((~is_audited).sum())
    if min(sizes) < FEWEST_KNOWN:
        raise DataError(
            f"Alternatives need outcomes of at least {FEWEST_KNOWN} people of each group, got {sizes[0]} and "
            f"{sizes[1]}.",
            "add rows.",
        )
    if not audited.model_features:
        raise DataError("Alternatives need features, but the audit has none.", "list features.")
    return index


def _what_ifs(data: PairedRows, confidence: float) -> tuple[pl.DataFrame, tuple[Note, ...]]:
    if data.audited.model is None:
        return pl.DataFrame(schema=SCHEMA), (Note("what-ifs need the model"),)
    evaluated = EvaluationRows(data.rows, data.outcome, data.threshold)
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
    scores = [tilted_score(eta, mu * a / (tau * (1.0 - tau))) for mu in grid]
    return _Rules(grid, [eta - tau > mu * a for mu in grid], scores)


def _cross_fit(design: Design, data: PairedRows, labels: Booleans) -> Floats:
    """Return cross-fitted P(label|x) of each row: from additive models, or from trees if their log-loss is lower."""
    weights = data.rows.weights
    additive = cross_fit(design, weights, data.fold, labels, np.ones_like(labels))[1]
    candidates = np.array([additive, _cross_fit_trees(design, data, labels)])
    return np.asarray(candidates[int(np.argmin(log_losses(candidates, labels) @ weights))])


def _cross_fit_trees(design: Design, data: PairedRows, labels: Booleans) -> Floats:
    raw = design.encoding.raw(design.table, slice(None))
    sample = Sample(
        matrix=np.empty((labels.size, 0)),  # trees read the raw columns
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
    """Return one row per rule, with the interval of each quantity."""
    records = []
    for mu, decided, scores in zip(rules.grid.tolist(), rules.decided, rules.scores, strict=True):
        quantities = {
            "gap": decision_gap(data.rows, decided).normal(-1.0, 1.0),
            "accuracy": data.accuracy(decided).normal(0.0, 1.0),
            "score_gap": data.score_gap(scores),
            "auc": data.auc(scores),
        }
        record = {"mu": mu}
        for name, quantity in quantities.items():
            record |= interval_columns(name, quantity.estimate(confidence))
        records.append(record)
    return pl.DataFrame(records)
