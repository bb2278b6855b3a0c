"""Is there a rule that is no less accurate, and leans less? Attainable rules, compared with the audited one in pairs.

With η(x) = P(Y=1|x) and m(x) = P(audited|x), both cross-fitted, the rules "1 where η(x) − τ > μ·a(x)" trace the least
loss of accuracy for each gap as μ moves. Errors cost what the threshold τ says, so that no rule beats η(x) > τ. On rows
that they were not fitted on each is attainable, and has an interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
import polars as pl
from scipy.special import expit

from tiltlens.errors import DataError
from tiltlens.estimators.error_rates import UNKNOWN, WITH
from tiltlens.estimators.estimate import Estimate, HasInterval, Normal, quantile
from tiltlens.estimators.influence import Booleans, InfluenceEstimate, Integers, Rows, combined, overall_mean
from tiltlens.estimators.outputs import Scores, gap, group_rate, impact_ratio
from tiltlens.learners.candidates import TREES, Sample, fit_candidate
from tiltlens.learners.design import code_columns
from tiltlens.learners.propensity import row_folds
from tiltlens.limits import FEWEST_KNOWN, FOLDS, SMALLEST_SE, SMALLEST_SHARE, TRADED_RULES
from tiltlens.paper.checks import Floats, check_share, check_threshold
from tiltlens.repair.additive import Design, additive_design
from tiltlens.repair.least_change import gradient, tilted_score
from tiltlens.repair.quantities import accuracy_at, area, columns, decision_gap, difference
from tiltlens.repair.rows import AuditedRows
from tiltlens.repair.solve import cross_fitted, nearly_constant
from tiltlens.repair.what_ifs import NEEDS_MODEL, SCHEMA, what_ifs, words_of
from tiltlens.rows.rescoring import AskedModel

if TYPE_CHECKING:
    from tiltlens.figures import Figure

SUMMARY = "tiltlens/alternatives/1"
EXISTS, NOT_FOUND, CANNOT_BE_TOLD = "exists", "was not found", "cannot be told"
AT_HALF = "the scores are decisions, so both kinds of error cost the same unless `threshold` says otherwise"
WHOLE = "gaps are whole: the exempt factors of the audit are not held equal"


@dataclass(frozen=True, slots=True, eq=False)
class Alternatives:
    """What other rules attain.

    Attributes
    ----------
    curve
        One row per rule: μ, and its gap, accuracy, AUC and gap of scores, with intervals; rules are of other rows than
        they are measured on.
    accuracy, gap, auc, score_gap
        The audited model's point on the same rows: of its decisions; of its scores, no AUC where these are decisions.
        In the accuracy people with the outcome count 1 − `threshold`, others `threshold`: the same at 0.5.
    rates
        Of the "model" and the "alternative": the share of people "selected" (decision 1), the "impact_ratio" of
        favourable decisions, and the "true_positive_rate", the share selected among people with the outcome.
    soft
        Of unobserved groups, whose gaps are weighted by probabilities: what these tell of the gap of the "model" and of
        the "alternative"; empty where groups are known.
    accuracy_change, gap_reduction
        Of the alternative that was chosen on other rows: its accuracy less the model's, and by how much its gap is
        smaller, both of the same rows.
    tolerance
        The loss of accuracy that is held to be none.
    verdict
        "exists", "was not found" or "cannot be told".
    what_ifs
        One row for each feature of the model that is neutralised or coarsened, with what that changes; none where
        scores were audited without their model.
    notes
        What the what-ifs say, and what to know.
    audited, reference, rows
        The groups, and how many people of each have a known outcome.
    threshold, confidence
        Of the audited model's decisions and of what errors cost; and of the intervals.
    """

    curve: pl.DataFrame
    accuracy: Estimate
    gap: Estimate
    auc: Estimate | None
    score_gap: Estimate
    accuracy_change: Estimate
    gap_reduction: Estimate
    rates: dict[str, dict[str, Estimate | None]]
    soft: dict[str, Any]
    tolerance: float
    verdict: str
    what_ifs: pl.DataFrame
    notes: tuple[str, ...]
    audited: str
    reference: str
    rows: dict[str, int]
    threshold: float
    confidence: float

    def __str__(self) -> str:
        less = self.gap_reduction
        low, high = (100 * (end or 0.0) for end in (less.low, less.high))
        ends = f"{low:.1f} to {high:.1f}" if low > 0.0 else f"{100 * less.value:.1f}"
        points, which = f"{100 * self.tolerance:g} points", "weighted gap" if self.soft else "gap"
        if self.verdict == EXISTS:
            found = f"A rule no less accurate (within {points}) with a {which} smaller by {ends} points exists."
            return f"{found} {_rates_words(**self.rates)}"
        if self.verdict == NOT_FOUND:
            return f"A rule no less accurate (within {points}) with a smaller {which} was not found."
        return f"Whether a rule no less accurate (within {points}) with a smaller {which} exists cannot be told."

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain numbers."""
        plain = ("audited", "reference", "rows", "threshold", "confidence", "tolerance", "verdict", "soft")
        names = ("accuracy", "gap", "auc", "score_gap", "accuracy_change", "gap_reduction")
        estimates = {name: getattr(self, name) for name in names}
        return (
            {name: getattr(self, name) for name in plain}
            | _plain(estimates)
            | {"rates": {rule: _plain(rates) for rule, rates in self.rates.items()}}
            | {"words": str(self), "curve": self.curve.to_dicts()}
            | {"what_ifs": self.what_ifs.to_dicts(), "notes": list(self.notes)}
        )

    def to_json(self, path: str | Path | TextIO) -> None:
        """Write every number to a JSON file, whole or not at all; or to a file that is open for text."""
        from tiltlens.results.json_file import write_json

        write_json(alternatives_summary({self.audited: self}), path)

    def report(self, path: str | Path | TextIO) -> None:
        """Write the page of the alternatives, one HTML file that needs no network, as `to_json` does."""
        from tiltlens.render.document_page import write_alternatives

        write_alternatives(alternatives_summary({self.audited: self}), path)

    def plot(self) -> Figure:
        """Return the figure of what rules attain: its chart, the numbers behind it, and words for both."""
        from tiltlens.figures import attainable

        return attainable(self.to_dict())


def _plain(estimates: Mapping[str, Estimate | None]) -> dict[str, Any]:
    return {name: None if one is None else one.to_dict() for name, one in estimates.items()}


def _rates_words(model: Mapping[str, Any], alternative: Mapping[str, Any]) -> str:
    """Return what both decide: a rule may be accurate because it selects hardly anybody."""
    selected, found, ratio = (
        f"{alternative[name]:{form}} (the model {model[name]:{form}})"
        if None not in (alternative[name], model[name])
        else ""
        for name, form in (("selected", ".1%"), ("true_positive_rate", ".1%"), ("impact_ratio", ".2f"))
    )
    words = f"It selects {selected} of people and {found} of those with the outcome"
    return f"{words}; its impact ratio is {ratio}." if ratio else f"{words}."


def alternatives_summary(found: Mapping[str, Alternatives], group: str = "group") -> dict[str, Any]:
    """Return the alternatives of some audited groups as plain numbers; `group` is the column's name."""
    return {"schema": SUMMARY, "group": group, "comparisons": {name: one.to_dict() for name, one in found.items()}}


class _Known(NamedTuple):
    """Rows whose outcome is known: the audited scores, outcomes as codes, folds, and the threshold."""

    rows: Rows
    scores: Floats
    outcome: Integers
    fold: Integers
    threshold: float
    favours_low: bool
    has_ratio: bool  # groups are known: by probabilities it would come out too near to 1

    @property
    def decided(self) -> Booleans:
        return np.asarray(self.scores >= self.threshold)

    @property
    def y(self) -> Booleans:
        return np.asarray(self.outcome == WITH)

    def right(self, decided: Booleans) -> InfluenceEstimate:
        """Return the accuracy of decisions at the threshold's cost."""
        return accuracy_at(self.threshold, self.rows, decided, self.outcome)

    def nearer(self, decided: Booleans) -> Normal:
        """Return by how much the lower favourable rate over the higher is nearer to 1 than the model's."""
        ratios = []
        for selected in (self.decided, decided):
            one = Scores.of(self.rows, (selected != self.favours_low).astype(np.float64))
            low, high = sorted((group_rate(self.rows, one, who) for who in (True, False)), key=lambda rate: rate.value)
            top = max(high.value, SMALLEST_SHARE)
            ratios.append(combined(low.value / top, [(1.0 / top, low), (-low.value / top**2, high)]))
        return difference(ratios[1], ratios[0])

    def rates(self, decided: Booleans, confidence: float) -> dict[str, Estimate | None]:
        """Return the share selected, the impact ratio and the true positive rate of decisions."""
        selected = decided.astype(np.float64)
        favourable = Scores.of(self.rows, (decided != self.favours_low).astype(np.float64))
        has_ratio, weights = self.has_ratio and favourable.mean1[0] > SMALLEST_SHARE, self.rows.weights
        found: dict[str, HasInterval | None] = {
            "selected": overall_mean(weights, selected, self.rows.clusters).normal(0.0, 1.0),
            "impact_ratio": impact_ratio(self.rows, favourable) if has_ratio else None,
            "true_positive_rate": overall_mean(weights * self.y, selected, self.rows.clusters).normal(0.0, 1.0),
        }
        return {name: None if one is None else one.estimate(confidence) for name, one in found.items()}


class _Rules(NamedTuple):
    """The rules that trade accuracy for the gap: their μ, decisions and scores on rows that they were not fitted on."""

    grid: Floats
    decided: list[Booleans]
    scores: list[Floats]


def alternatives_of(
    audited: AuditedRows, tolerance: float = 0.005, threshold: float = 0.5, confidence: float = 0.95, seed: int = 0
) -> Alternatives:
    """Return what rules of the audited features attain, on the rows whose outcome is known."""
    _check(tolerance, threshold, audited.scores)
    at = _known_places(audited)
    audited, of_copies = audited.taken(at).with_copies()
    rows, scores, tell = audited.rows, audited.scores, audited.soft.get(audited.groups[0])
    rest = threshold, audited.favours_low, tell is None
    known = _Known(rows, scores, _codes(audited), row_folds(rows, FOLDS, seed), *rest)
    rules = _rules(known, additive_design(audited.features), seed)
    chosen, is_sure = _chosen(known, rules.decided, tolerance, quantile(2.0 * confidence - 1.0))
    own_gap, own_right = decision_gap(rows, known.decided), known.right(known.decided)
    accuracy = difference(known.right(chosen), own_right)
    reduction = _reduction(own_gap, decision_gap(rows, chosen))
    table, notes = _what_ifs(audited.model, known, confidence)
    is_scored = not np.isin(scores, (0.0, 1.0)).all()
    decisions = {"model": known.decided, "alternative": chosen}
    return Alternatives(
        _curve(known, rules, confidence),
        own_right.normal(0.0, 1.0).estimate(confidence),
        own_gap.normal(-1.0, 1.0).estimate(confidence),
        _area(known, scores).estimate(confidence) if is_scored else None,
        gap(rows, Scores.of(rows, scores)).normal(-1.0, 1.0).estimate(confidence),
        accuracy.estimate(confidence),
        reduction.estimate(confidence),
        {name: known.rates(one, confidence) for name, one in decisions.items()},
        {} if tell is None else {name: tell(one.astype(np.float64), at) for name, one in decisions.items()},
        tolerance,
        _verdict(accuracy, reduction, known.nearer(chosen), tolerance, confidence, is_sure),
        table,
        (*nearly_constant(known.decided, chosen, rows.weights), *notes, *of_copies, *_notes(audited, is_scored)),
        audited.groups[0],
        audited.reference,
        {"audited": rows.count0, "reference": rows.count1},
        threshold,
        confidence,
    )


def _notes(audited: AuditedRows, is_scored: bool) -> list[str]:
    return ([] if is_scored else [AT_HALF]) + ([WHOLE] if audited.exempt else [])


def _check(tolerance: Any, threshold: Any, scores: Floats) -> None:
    check_share("tolerance", tolerance, "0.005 is half a point.")
    check_threshold(threshold, below_one=True)
    if scores.ndim != 1:
        raise DataError("`scores` must be of two outcomes for alternatives, got more.", "audit one of the outcomes.")


def _codes(audited: AuditedRows) -> Integers:
    if audited.outcome is None:
        raise DataError("`outcome` must be given for alternatives, got an audit without one.", "audit with outcome=.")
    return audited.outcome


def _known_places(audited: AuditedRows) -> Integers:
    """Return the rows whose outcome is known, after checks that there are enough of them, and features."""
    at = np.flatnonzero(_codes(audited) != UNKNOWN)
    mine = audited.rows.audited[at]
    sizes = int(mine.sum()), int((~mine).sum())
    if min(sizes) < FEWEST_KNOWN:
        raise DataError(
            f"`outcome` must be known for {FEWEST_KNOWN} people of each group at least, got {sizes[0]} and {sizes[1]}.",
            "bring more rows.",
        )
    if not any(one.in_membership for one in audited.features):
        raise DataError("`features` must hold columns to make other rules of, got none.", "list features.")
    return at


def _what_ifs(asked: AskedModel | None, known: _Known, confidence: float) -> tuple[pl.DataFrame, tuple[str, ...]]:
    if asked is None:
        return pl.DataFrame(schema=SCHEMA), (NEEDS_MODEL,)
    table, notes = what_ifs(asked, known.rows, known.outcome, known.scores, known.threshold, confidence)
    return table, (words_of(table), *notes)


def _rules(known: _Known, design: Design, seed: int) -> _Rules:
    """Return the rules "1 where η(x) − τ > μ·a(x)", μ from where one group surely is all 1, or 0, to the other's."""
    rows = known.rows
    eta, chance = (_cross_fitted(design, rows, known.fold, labels, seed) for labels in (known.y, rows.audited))
    share = float(rows.weights @ rows.audited) / float(rows.weights.sum())
    a = gradient(chance, 1.0 - chance, (share, 1.0 - share))
    tau = known.threshold
    grid = np.linspace(-1.0, 1.0, TRADED_RULES) * max(share, 1.0 - share) * min(tau, 1.0 - tau)
    # logit η − logit τ ≈ (η − τ)/(τ(1 − τ)) near τ, so that the scores of a rule are tilted by as much
    scores = [tilted_score(eta, mu * a / (tau * (1.0 - tau))) for mu in grid]
    return _Rules(grid, [eta - tau > mu * a for mu in grid], scores)


def _cross_fitted(design: Design, rows: Rows, fold: Integers, labels: Booleans, seed: int) -> Floats:
    """Return P(label|x) of each row by models of the other folds: additive, or trees where their loss is lower."""
    everyone = np.ones_like(labels)
    additive = cross_fitted(design, rows.weights, fold, labels, everyone)[1]
    found = np.array([additive, _of_trees(design, rows, fold, labels, seed)])
    safe = np.clip(found, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
    losses = -(np.where(labels, np.log(safe), np.log1p(-safe)) @ rows.weights)
    return np.asarray(found[int(np.argmin(losses))])


def _of_trees(design: Design, rows: Rows, fold: Integers, labels: Booleans, seed: int) -> Floats:
    raw, none = design.encoding.raw(design.table, slice(None)), np.empty((labels.size, 0))
    kinds, owners = np.empty(0, dtype=np.str_), np.empty(0, dtype=np.intp)  # trees read the raw columns
    sample = Sample(none, kinds, owners, raw, code_columns(design.table), labels, rows.weights)
    found = np.empty(labels.size)
    for one in range(FOLDS):
        trees = fit_candidate(TREES, sample.rows(fold != one), seed)
        found[fold == one] = expit(trees.log_odds(none, raw[fold == one]))
    return found


def _chosen(known: _Known, rules: Sequence[Booleans], tolerance: float, sure: float) -> tuple[Booleans, bool]:
    """Return, fold by fold, the decisions of the rule with the smallest gap that is surely accurate on other folds.

    Where no rule is, that of the largest chance to be; and whether there was one of every fold.
    """
    found, is_sure, every = np.zeros_like(known.decided), True, [known.decided, *rules]
    for one in range(FOLDS):
        others = known.fold != one
        part = known.rows.taken(np.flatnonzero(others))
        all_right = [accuracy_at(known.threshold, part, rule[others], known.outcome[others]) for rule in every]
        right = [difference(one, all_right[0]) for one in all_right[1:]]
        t = np.array([(one.value + tolerance) / max(one.se, SMALLEST_SE) for one in right])
        gaps = np.array([abs(decision_gap(part, rule[others]).value) for rule in rules])
        has_one = bool((t >= sure).any())
        best = int(np.argmin(np.where(t >= sure, gaps, np.inf))) if has_one else int(np.argmax(t))
        found[~others] = rules[best][~others]
        is_sure = is_sure and has_one
    return found, is_sure


def _reduction(own: InfluenceEstimate, other: InfluenceEstimate) -> Normal:
    """Return |gap of the model| − |gap of the alternative|."""
    signs = [1.0 if one.value >= 0.0 else -1.0 for one in (own, other)]
    return combined(abs(own.value) - abs(other.value), [(signs[0], own), (-signs[1], other)]).normal()


def _verdict(
    accuracy: Normal, reduction: Normal, ratio: Normal, tolerance: float, confidence: float, is_sure: bool
) -> str:
    """Return what can be said, each part by a one-sided test at the level 1 − `confidence`: all must hold.

    A gap alone also shrinks where fewer people of both groups are selected. Unless rules that were surely accurate were
    tried, nothing is said of such rules where this one fails.
    """
    level = 1.0 - 2.0 * (1.0 - confidence)
    right, less, nearer = (one.estimate(level) for one in (accuracy, reduction, ratio))
    if (right.low or 0.0) > -tolerance and min(less.low or 0.0, nearer.low or 0.0) > 0.0:
        return EXISTS
    if is_sure and ((right.high or 0.0) < -tolerance or (less.high or 0.0) < 0.0):
        return NOT_FOUND
    return CANNOT_BE_TOLD


def _area(known: _Known, scores: Floats) -> Normal:
    share = known.rows.weights / known.rows.weights.sum()
    return area(known.rows, scores, known.outcome, share).normal(0.0, 1.0)


def _curve(known: _Known, rules: _Rules, confidence: float) -> pl.DataFrame:
    """Return a row for each rule."""
    records = []
    for mu, decided, scores in zip(rules.grid.tolist(), rules.decided, rules.scores, strict=True):
        points = {
            "gap": decision_gap(known.rows, decided).normal(-1.0, 1.0),
            "accuracy": known.right(decided).normal(0.0, 1.0),
            "score_gap": gap(known.rows, Scores.of(known.rows, scores)).normal(-1.0, 1.0),
            "auc": _area(known, scores),
        }
        record = {"mu": mu}
        for name, one in points.items():
            record |= columns(name, one, confidence)
        records.append(record)
    return pl.DataFrame(records)
