"""The effect of an adjustment on held-out data: a table of quantities before and after, with their paired changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TextIO

import polars as pl

from tiltlens.errors import DataError
from tiltlens.estimators.estimate import Estimate, HasInterval
from tiltlens.results.codec import to_plain, write_json
from tiltlens.results.outputs import row_estimate
from tiltlens.sources.columns import Record

ENDS = ("", "_low", "_high")
BEFORE_AFTER = ("before", "after", "change")
TABLE_SCHEMA = {"quantity": pl.String, **{f"{name}{end}": pl.Float64 for name in BEFORE_AFTER for end in ENDS}}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation(ABC):
    """The effect of an adjustment on held-out data. A field of a subclass without a default needs a `field()`."""

    SCHEMA: ClassVar[str]

    @property
    @abstractmethod
    def audited(self) -> str:
        """The audited group."""

    @property
    @abstractmethod
    def reference(self) -> str:
        """The group that it is compared with."""

    @property
    @abstractmethod
    def table(self) -> pl.DataFrame:
        """One row per quantity: before, after and change, each with its interval."""

    def __getitem__(self, quantity: str) -> dict[str, Estimate | None]:
        """Return a quantity before and after, and its change; None where it is not defined."""
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
        from tiltlens.render.document_page import write_evaluations

        write_evaluations([self], path)

    def _repr_html_(self) -> str:
        from tiltlens.render.notebook import evaluations_html

        return evaluations_html([self])

    def __str__(self) -> str:
        from tiltlens.render.terminal import evaluations_text

        return evaluations_text([self])

    def __repr__(self) -> str:
        groups = f"{self.audited!r} against {self.reference!r}"
        return f"{type(self).__name__}({groups}: {len(self.table)} quantities)"


def evaluations_summary(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """Return the evaluations of an adjustment, one for each audited group, as plain numbers."""
    by_group = {evaluation.audited: evaluation.to_dict() for evaluation in evaluations}
    return {"schema": evaluations[0].SCHEMA, "evaluations": by_group}


def change_record(name: str, quantities: Sequence[HasInterval | None], confidence: float) -> Record:
    """Return the row of a quantity before and after, and of its change."""
    record: Record = {"quantity": name}
    for column, quantity in zip(BEFORE_AFTER, quantities, strict=True):
        record |= interval_columns(column, quantity, confidence)
    return record


def interval_columns(name: str, quantity: HasInterval | None, confidence: float) -> Record:
    """Return a value and its interval as three columns of a table, None where there is no value."""
    if quantity is None:
        return {f"{name}{end}": None for end in ENDS}
    estimate = quantity.estimate(confidence)
    return dict(zip((f"{name}{end}" for end in ENDS), (estimate.value, estimate.low, estimate.high), strict=True))
