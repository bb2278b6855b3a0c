"""The tilt of scores: its parameters, how it is applied to rows, and the JSON file in which it is saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from tiltlens._estimators.influence import Integers
from tiltlens._limits import FEW_REPAIRED, SURELY_BEYOND
from tiltlens._notes import KEEP_DECISIONS, KEEP_SCORES, Note
from tiltlens._repair.adjustment import Adjustment, CellModel, Labels, exempt_model
from tiltlens._repair.constraints import (
    GIVEN_EXEMPT,
    CodedFeatures,
    Constraint,
    SoftChange,
    TiltSummary,
    check_max_gap,
    gradients,
    only,
    shift_of,
)
from tiltlens._repair.evaluation import RepairEvaluation, compare, evaluate_parts
from tiltlens._repair.least_change import repaired
from tiltlens._repair.new_rows import HeldOutRows, apply_repair, probabilities_of, read_held_out
from tiltlens._repair.quantities import EvaluationRows, measure
from tiltlens._repair.rows import MEMBERSHIP, AuditedRowIndex, NewRowSums, Range, modelled_gap, moments
from tiltlens._rows.features import DesignColumn
from tiltlens._rows.groups import PLAIN, check_outcome, outcome_codes
from tiltlens._rows.roles import Declared
from tiltlens._rows.scores import RowName
from tiltlens.errors import DataError, quoted, quoted_list
from tiltlens.paper.checks import Floats, check_number, check_probability, check_threshold

UNLIKE = 0.5  # of the closed gap: if this much reappears, rows differ from the audited ones
DERIVED = ("multiplier", "audited", "reference", "gap_before", "gap_after", "exempt")


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTilt(Adjustment):
    """The smallest change of the scores, W'_y ∝ W_y·exp(−Σ_c t_c·a_c(x)·[y = y_c]), or of decisions.

    For two outcomes logit W' = logit W − Σ_c t_c·a_c(x); decisions are 1 where W − τ ≥ Σ_c t_c·a_c(x). A constraint has
    a(x) = p0(x)/q0 − p1(x)/q1, where p0 and p1 are the probabilities given x of being a counted member of the audited
    and of the reference group, and q0 and q1 are their means, so no group is needed. Everyone is counted for the mean
    score and decisions, people without the outcome for "fpr", people with it for "fnr". With `use_group`, the
    probabilities of a row's other groups are 0.

    Attributes
    ----------
    metric, threshold
        "mean_score"; "decisions" at a threshold τ; "fpr" or "fnr": mean scores of people without and with the outcome,
        or their decisions at a threshold; "equalized_odds": both.
    max_gap, use_group
        The largest gap allowed, and whether the adjustment uses the group, which the law may restrict.
    classes
        The number of classes of the scores.
    constraints
        One constraint for each audited group, event and class, with its multiplier and the gap before and after.
    nats
        E[KL(W'‖W)] on the audited rows; None for decisions.
    models
        Models of the probabilities p, fitted on all audited rows; the reference's p is 1 minus that of the others. With
        `use_group`, models of the outcome within each group.
    row_index
        Hashes that identify audited rows, and the features that are hashed.
    notes
        Warnings about the fit.
    given, soft
        The conditions that audited rows met, as texts by column (other rows are neither adjusted nor evaluated). For
        unobserved groups, by name, the estimates of the gap before and after.
    favours_low
        Whether low scores are favourable, so that ratios use 1 − score.
    ranges
        The range of each number in the audited rows, from the tenth lowest to the tenth highest value.
    declared
        The features that are declared as categories, or as blocks of columns.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {
    ...     "sex": ["women", "men"] * 100,
    ...     "skill": [0, 1, 1, 2, 2, 2, 3, 3] * 25,
    ...     "score": [0.4, 0.5, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7] * 25,
    ... }
    >>> c = tl.audit(people, "sex", reference="men", scores="score", features="skill", folds=None)["women"]
    >>> tilt = c.repair(max_gap=0.01)
    >>> round(tilt.gap_before, 3), round(tilt.gap_after, 3)
    (-0.05, -0.01)
    >>> tilt.apply({"skill": [0, 3]}, [0.4, 0.7]).round(3).tolist()
    [0.525, 0.695]
    """

    SCHEMA: ClassVar[str] = "tiltlens/_repair/4"
    LEARNT_BY: ClassVar[str] = MEMBERSHIP

    metric: str
    threshold: float | None
    max_gap: float
    use_group: bool
    classes: int
    constraints: tuple[Constraint, ...]
    nats: float | None
    models: tuple[CellModel, ...]
    row_index: AuditedRowIndex
    notes: tuple[str, ...]
    given: Mapping[str, str] = field(default_factory=dict)
    favours_low: bool = False
    soft: Mapping[str, SoftChange] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    declared: Declared = field(default_factory=Declared)

    @property
    def groups(self) -> tuple[str, ...]:
        """The audited groups."""
        return tuple(dict.fromkeys(constraint.audited for constraint in self.constraints))

    @property
    def reference(self) -> str:
        """The group that others are compared with."""
        return self.constraints[0].reference

    @property
    def multiplier(self) -> float | None:
        """The multiplier t of the only constraint; None if there are several."""
        return only(self.constraints, "multiplier")

    @property
    def gap_before(self) -> float | None:
        """The gap of the only constraint on the audited rows before the adjustment; None if there are several."""
        return only(self.constraints, "gap_before")

    @property
    def gap_after(self) -> float | None:
        """The gap of the only constraint on the audited rows after the adjustment; None if there are several."""
        return only(self.constraints, "gap_after")

    @property
    def has_multipliers(self) -> bool:
        """Whether any multiplier differs from 0."""
        return any(constraint.multiplier for constraint in self.constraints)

    @property
    def left_alone(self) -> str:
        """The treatment of rows that do not meet the conditions."""
        return KEEP_SCORES if self.threshold is None else KEEP_DECISIONS

    @property
    def exempt(self) -> tuple[str, ...]:
        """Return the exempt factors that are held equal when the gap is closed."""
        return next((model.model.features for model in self.models if model.event == GIVEN_EXEMPT), ())

    @property
    def _readers(self) -> tuple[CodedFeatures, ...]:
        return tuple(model.model for model in self.models)

    @property
    def _changes_outputs(self) -> bool:
        return self.threshold is not None or self.has_multipliers

    def part(self, fraction: float) -> ScoreTilt:
        """Return a partial adjustment, from none (0) to full (1)."""
        parts = [replace(c, multiplier=fraction * c.multiplier, modelled=None) for c in self.constraints]
        return replace(self, constraints=tuple(parts))

    def apply(
        self,
        data: object,
        scores: object,
        group: object = None,
        out: str | Path | None = None,
    ) -> Any:
        """Return the adjusted scores, or decisions, of the rows of a table.

        Warns about values unseen in the audit (new, rare, missing, infinite), about numbers beyond the audited range,
        and if the group-membership model predicts that half of the gap remains. On Spark, 10,000 rows are checked. Rows
        that do not meet the conditions of the audit keep their scores, with a warning.

        Parameters
        ----------
        data
            A table in memory, files, a lazy frame, a DuckDB relation or a Spark data frame with the features of the
            membership model.
        scores
            The scores to adjust: a column, or one for each of several classes; for a table in memory also an array.
        group
            The column or array of groups, or columns whose intersections are the groups; only with `use_group`.
        out
            A .parquet or .csv file to write: the table with the adjusted scores in a column whose name ends in
            "_repaired". It is written in batches, so files may be larger than memory. An existing file is replaced only
            when the new one is complete.

        Returns
        -------
        An array in the order of the rows; for Spark a data frame with the adjusted column, which the executors compute;
        with `out`, its path.
        """
        if not self.use_group and group is not None:
            raise DataError("This adjustment does not use `group`.", "omit it, or fit one with use_group=True.")
        if self.use_group and group is None:
            raise DataError("An adjustment with use_group=True needs `group`.", "name its column.")
        return apply_repair(self, data, scores, group, out)

    def evaluate(
        self,
        held_out: object,
        scores: object,
        group: object,
        outcome: object = None,
        threshold: float = 0.5,
        confidence: float = 0.95,
        compare_with: ScoreTilt | None = None,
        sample_weight: object = None,
        clusters: object = None,
        audited: str | None = None,
        score_class: int | None = None,
    ) -> RepairEvaluation:
        """Evaluate the score adjustment on held-out data, on which no model was fitted.

        Parameters
        ----------
        held_out
            A table in memory, or files. Rows of other groups, and rows that do not meet the conditions of the audit,
            are left out. Audited rows raise an error.
        scores, group
            The scores before the adjustment, and the groups: columns or arrays; a list of columns for intersections.
        outcome
            The observed outcome, 0 or 1: adds error rates, AUC, accuracy, log-loss and Brier score.
        threshold
            The threshold of decisions, unless the adjustment has one.
        confidence
            The confidence level of the intervals.
        compare_with
            The same adjustment with the group, or without it: adds the cost of not using the group.
        sample_weight, clusters
            Sample weights, and which rows belong together, such as those of one customer: columns or arrays.
        audited
            The group that is compared with the reference, if several were audited; see `evaluate_groups`.
        score_class
            The class whose score is evaluated, if there are several; `outcome` is then whether this class occurred.
        """
        self._check_counterpart(compare_with)
        check_threshold(threshold, below_one=True)
        check_probability("confidence", confidence)
        column = self._score_column(score_class)
        cut = threshold if self.threshold is None else self.threshold
        rows = read_held_out(self, held_out, audited, scores, group, outcome, sample_weight, clusters)
        evaluation, after = self._evaluate(rows, column, cut, confidence)
        if compare_with is None:
            return evaluation
        rows.check_not_audited(compare_with)
        other, other_after = compare_with._evaluate(rows, column, cut, confidence)
        data = EvaluationRows(rows.rows, rows.outcome, cut, self.favours_low)
        with_group, without_group = (after, other_after) if self.use_group else (other_after, after)
        return compare(evaluation, other, measure(data, with_group), measure(data, without_group))

    def _check_counterpart(self, other: object) -> None:
        """Raise if `other` is not the same adjustment with, or without, the group."""
        same = ("groups", "reference", "metric", "threshold", "max_gap", "classes", "exempt", "given")
        if other is not None and (
            not isinstance(other, ScoreTilt)
            or other.use_group is self.use_group
            or any(getattr(other, name) != getattr(self, name) for name in same)
        ):
            raise DataError(
                f"`compare_with` must be the same adjustment with use_group={not self.use_group}, got another.",
                "it has the same groups, metric, threshold, max_gap, exempt factors and conditions.",
            )

    def _score_column(self, score_class: int | None) -> int:
        """Return the class whose score is evaluated."""
        if self.classes == 2 and score_class is None:
            return 1
        classes = range(1, 2) if self.classes == 2 else range(self.classes)
        if score_class is None or score_class not in classes:
            rule = "left out, or 1, for two classes" if self.classes == 2 else f"a class from 0 to {self.classes - 1}"
            raise DataError(
                f"`score_class` must be {rule}, got {score_class!r}.", "the score of one class is evaluated at a time."
            )
        return score_class

    def _evaluate(
        self, rows: HeldOutRows, column: int, threshold: float, confidence: float
    ) -> tuple[RepairEvaluation, Floats]:
        """Return the evaluation on held-out rows of the score of a class, and the adjusted scores."""
        a = self._gradients(self.table(rows.frame), rows.labels if self.use_group else None)
        shift = shift_of(self.constraints, a, self.classes)

        def scores_after(part: float) -> Floats:
            after = repaired(rows.scores, part * shift, self.threshold)
            return after if after.ndim == 1 else after[:, column]

        exempt = exempt_model(self.models)
        factors = None if exempt is None else exempt.columns(exempt.checked_table(rows.frame))
        data = EvaluationRows(rows.rows, rows.outcome, threshold, self.favours_low, self.has_multipliers, factors)
        summary = replace(self.summary(rows.group_name), audited=rows.audited)
        return evaluate_parts(data, scores_after, confidence, summary, rows.notes), scores_after(1.0)

    def evaluate_groups(
        self, held_out: object, scores: object, group: object, **options: Any
    ) -> dict[str, RepairEvaluation]:
        """Return the evaluation of each audited group against the reference; `options` are those of `evaluate`."""
        return {name: self.evaluate(held_out, scores, group, audited=name, **options) for name in self.groups}

    def repair_batch(
        self, frame: pl.DataFrame, scores: Floats, group: Labels | None = None, sums: list[NewRowSums] | None = None
    ) -> Floats:
        """Return the adjusted scores of a clean frame of rows, and append sums over them to `sums`."""
        groups = [*self.groups, self.reference]
        others = [] if group is None else sorted(set(group.tolist()) - set(groups))
        if others:
            raise DataError(
                f"`group` must be {' or '.join(map(quoted, groups))}, got {quoted_list(others)}.",
                "adjust the rows of these groups only.",
            )
        if not self._changes_outputs:
            return scores
        a = self._gradients(self.table(frame), group)
        after = repaired(scores, shift_of(self.constraints, a, self.classes), self.threshold)
        if sums is not None:
            sums.append(replace(self.row_sums(frame), sums=moments(a, after, self.constraints)))
        return after

    def read_scores(self, columns: Sequence[pl.Series], row_name: RowName = "row {}".format) -> Floats:
        """Return the scores to adjust, from clean columns."""
        self.check_score_columns(len(columns))
        return probabilities_of(columns, row_name)

    def read_outcome(self, column: pl.Series) -> Integers:
        """Return the outcome code of each row."""
        codes, meanings = outcome_codes(column, PLAIN)
        check_outcome(meanings, 2)
        return codes

    def check_score_columns(self, count: int) -> None:
        """Raise unless `count` is the number of score columns: one for two classes, else one per class."""
        if count != (1 if self.classes == 2 else self.classes):
            needs = "one column, of W(1|x)" if self.classes == 2 else f"{self.classes} columns, one for each class"
            raise DataError(f"`scores` must be {needs}, got {count}.", "pass the scores of the audited classes.")

    def unadjusted(self, scores: Floats) -> Floats:
        """Return the unadjusted scores, or decisions, of rows that do not meet the conditions."""
        return scores.copy() if self.threshold is None else np.asarray(scores >= self.threshold, dtype=np.float64)

    def row_notes(self, sums: NewRowSums) -> list[Note]:
        """Return notes on rows that differ from the audited ones; also if half of what was closed surely reappears."""
        notes, powers = Adjustment.row_notes(self, sums), sums.sums
        if powers.ndim < 3 or powers[0, 0, 0] < FEW_REPAIRED:
            return notes
        closed = max(abs(constraint.gap_before) for constraint in self.constraints) - self.max_gap
        has_classes = any(constraint.score_class != 1 for constraint in self.constraints)
        for constraint, gap in zip(self.constraints, map(modelled_gap, powers), strict=True):
            audited = gap.value if constraint.modelled is None else constraint.modelled
            if abs(gap.value - audited) > max(SURELY_BEYOND * gap.se, UNLIKE * closed):
                new, old = (100.0 * constraint.sign * value for value in (gap.value, audited))
                return [*notes, Note("gap regained", gap=constraint.describe(has_classes), new=new, old=old)]
        return notes

    def check_whole(self) -> None:
        """Raise if a slope, a level or all constraints are missing, or a number is invalid."""
        for model in self.models:
            model.probability(model.model.blank_row())
        if not self.constraints:
            raise ValueError("no constraints")
        check_max_gap(self.max_gap)
        for constraint in self.constraints:
            check_number("multiplier", constraint.multiplier)

    def _gradients(self, table: Mapping[str, DesignColumn], group: Labels | None) -> Floats:
        probabilities = {model.cell: model.probability(table) for model in self.models}
        members = None if group is None else {name: group == name for name in (*self.groups, self.reference)}
        return gradients(self.constraints, probabilities, members)

    def summary(self, group: str | None = None) -> TiltSummary:
        """Return the adjustment without its models and row hashes; `group` is the name of the group column."""
        names = [each.name for each in fields(TiltSummary) if each.name not in ("group", *self._derived)]
        return TiltSummary(group, **{name: getattr(self, name) for name in names}, **self._derived)

    @property
    def _derived(self) -> Mapping[str, Any]:
        derived = {name: getattr(self, name) for name in DERIVED}
        return derived | {"features": sorted({name for model in self._readers for name in model.features})}

    def __repr__(self) -> str:
        way = "with" if self.use_group else "without"
        groups = ", ".join(map(repr, self.groups))
        return f"ScoreTilt({groups} against {self.reference!r}, {way} the group: {self.metric})"
