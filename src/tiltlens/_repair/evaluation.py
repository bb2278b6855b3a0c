"""The effect of an adjustment on held-out data: quantities before and after with paired changes, here of scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import interval_columns, interval_schema
from tiltlens._estimators.error_rates import UNKNOWN
from tiltlens._estimators.estimate import Estimate, HasInterval
from tiltlens._estimators.influence import Booleans, Integers, Rows
from tiltlens._limits import MINIMUM_ROWS, SUPPRESSED_BELOW
from tiltlens._notes import Note
from tiltlens._repair.constraints import TiltSummary
from tiltlens._repair.quantities import EvaluationRows, Measurements, are_decisions, measure, people_with_outcomes
from tiltlens._results.codec import to_plain, write_json
from tiltlens._results.outputs import DocumentView, row_estimate
from tiltlens._sources.tables import Record
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats

if TYPE_CHECKING:
    from tiltlens.figures import Figure

EVALUATION_STEPS = 11  # partial adjustments, from none to full
BEFORE_AFTER = ("before", "after", "change")
TABLE_SCHEMA = {"quantity": pl.String} | interval_schema(*BEFORE_AFTER)


class Evaluation(DocumentView, ABC):
    """The effect of an adjustment on held-out data; the subclasses are dataclasses.

    Their `table` has one row per quantity: before, after and change, each with its interval.
    """

    __slots__ = ()

    SCHEMA: ClassVar[str]

    table: pl.DataFrame
    rows: dict[str, int]

    @property
    @abstractmethod
    def audited(self) -> str:
        """The audited group."""

    @property
    @abstractmethod
    def reference(self) -> str:
        """The group that it is compared with."""

    def __getitem__(self, quantity: str) -> dict[str, Estimate | None]:
        """Return a quantity before and after, and its change; each is None if it is not defined."""
        selected = self.table.filter(quantity=quantity)
        if selected.is_empty():
            names = ", ".join(self.table["quantity"])
            raise DataError(f"The evaluation has no quantity {quantity!r}.", f"choose one of {names}.")
        row = selected.row(0, named=True)
        return {name: row_estimate(row, name) for name in BEFORE_AFTER}

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as plain numbers."""
        return dict(to_plain(self))

    def to_json(self, path: str | Path | TextIO) -> None:
        """Write the evaluation to a JSON file, or to a file that is open for text."""
        write_json(evaluations_summary([self]), path)

    def report(self, path: str | Path | TextIO) -> None:
        """Write the evaluation as one HTML page that needs no network."""
        from tiltlens._render.page import write_report

        write_report([self], path)

    def __repr__(self) -> str:
        groups = f"{self.audited!r} against {self.reference!r}"
        return f"{type(self).__name__}({groups}: {len(self.table)} quantities)"


def evaluations_summary(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """Return the evaluations of an adjustment, one per audited group, as plain numbers."""
    by_group = {evaluation.audited: evaluation.to_dict() for evaluation in evaluations}
    return {"schema": evaluations[0].SCHEMA, "evaluations": by_group}


def change_record(name: str, quantities: Sequence[HasInterval | None], confidence: float) -> Record:
    """Return the row of a quantity before and after, and of its change."""
    record: Record = {"quantity": name}
    for column, quantity in zip(BEFORE_AFTER, quantities, strict=True):
        record |= interval_columns(column, None if quantity is None else quantity.estimate(confidence))
    return record


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RepairEvaluation(Evaluation):
    """The effect of a score adjustment on held-out data.

    Attributes
    ----------
    table
        One row per quantity: before, after and change, each with its interval; changes are paired.
    decisions
        By group, the number of decisions at the threshold that change: "up", from 0 to 1, and "down"; None if the count
        is suppressed.
    curve
        The quantities after partial adjustments, from none (0) to full (1).
    rows, missing_outcome
        The number of rows of each group, and of rows without an outcome; None if no outcome was given.
    notes
        Warnings about the rows.
    repair
        The adjustment, without its models.
    threshold, confidence
        The threshold of decisions, and the confidence level of the intervals.
    compared_with
        The evaluation of the same adjustment with the group, or without it, on the same rows.
    cost_of_blindness
        The cost of not using the group, if both adjustments are evaluated: one row per quantity, after the adjustment
        with the group, after the one without it, and the difference ("cost") with its paired interval.
    """

    SCHEMA: ClassVar[str] = "tiltlens/evaluations/2"

    table: pl.DataFrame
    decisions: dict[str, dict[str, int | None]]
    curve: pl.DataFrame
    rows: dict[str, int]
    notes: tuple[str, ...]
    repair: TiltSummary
    threshold: float
    confidence: float
    missing_outcome: int | None = None
    compared_with: RepairEvaluation | None = None
    cost_of_blindness: pl.DataFrame | None = None

    @property
    def audited(self) -> str:
        """The audited group."""
        return str(self.repair.audited)

    @property
    def reference(self) -> str:
        """The group that it is compared with."""
        return self.repair.reference

    def plot(self) -> Figure:
        """Return the figure of partial adjustments, from none to full."""
        from tiltlens.figures import repair_curve

        return repair_curve(self)


def evaluate_parts(
    data: EvaluationRows,
    scores_after: Callable[[float], Floats],
    confidence: float,
    repair: TiltSummary,
    notes: tuple[str, ...] = (),
) -> RepairEvaluation:
    """Return the evaluation of an adjustment; `scores_after` returns the scores after a fraction of it, from 0 to 1."""
    rows = data.rows
    parts = np.linspace(0.0, 1.0, EVALUATION_STEPS).tolist()
    steps = [measure(data, scores_after(part)) for part in parts]
    curve = [
        {"part": part} | {name: quantity.estimate.value for name, quantity in step.quantities.items()}
        for part, step in zip(parts, steps, strict=True)
    ]
    before, after = steps[0], steps[-1]
    missing, outcome_notes = (None, []) if data.outcome is None else _missing_outcomes(rows, data.outcome)
    return RepairEvaluation(
        table=pl.DataFrame(_records(before, after, confidence), schema=TABLE_SCHEMA),
        decisions=_changed_decisions(rows, before.scores >= data.threshold, after.scores >= data.threshold),
        curve=pl.DataFrame(curve),
        rows={"audited": rows.count0, "reference": rows.count1},
        notes=(*notes, *outcome_notes),
        repair=repair,
        threshold=data.threshold,
        confidence=confidence,
        missing_outcome=missing,
    )


def compare(
    evaluation: RepairEvaluation, other: RepairEvaluation, with_group: Measurements, without_group: Measurements
) -> RepairEvaluation:
    """Return an evaluation with that of its counterpart, and the cost of not using the group."""
    names = {"before": "with_group", "after": "without_group", "change": "cost"}
    renamed = dict(zip(interval_schema(*names), interval_schema(*names.values()), strict=True))
    records = _records(with_group, without_group, evaluation.confidence)
    cost = pl.DataFrame(records, schema=TABLE_SCHEMA).rename(renamed)
    return replace(evaluation, compared_with=other, cost_of_blindness=cost)


def _missing_outcomes(rows: Rows, outcome: Integers) -> tuple[int, list[Note]]:
    """Return the number of rows without an outcome, with notes on them and on outcomes that too few people have."""
    notes, missing = [], int((outcome == UNKNOWN).sum())
    if missing:
        notes.append(Note("rows without outcome", missing=missing, rows=outcome.size))
    if people_with_outcomes(rows, outcome).min() < MINIMUM_ROWS:
        notes.append(Note("few people with an outcome", minimum=MINIMUM_ROWS))
    return missing, notes


def _records(old: Measurements, new: Measurements, confidence: float) -> list[Record]:
    """Return one record per quantity; the decision gap is omitted if all scores are decisions."""
    is_gap_itself = are_decisions(new.scores) and are_decisions(old.scores)
    return [
        change_record(name, (old.quantities[name].law, new.quantities[name].law, change), confidence)
        for name, change in new.change(old).items()
        if not (is_gap_itself and name == "decision_gap")
    ]


def _changed_decisions(rows: Rows, before: Booleans, after: Booleans) -> dict[str, dict[str, int | None]]:
    moved = {"up": ~before & after, "down": before & ~after}
    groups = {"audited": rows.audited, "reference": ~rows.audited}
    counts = {name: {way: int((group & own).sum()) for way, own in moved.items()} for name, group in groups.items()}
    return {
        name: {way: None if 0 < count < SUPPRESSED_BELOW else count for way, count in own.items()}
        for name, own in counts.items()
    }
