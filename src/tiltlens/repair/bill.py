"""What a repair costs, on rows that nothing was fitted on: every number before and after, and the change, in pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.estimators.error_rates import UNKNOWN
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.limits import BILL_STEPS, MINIMUM_ROWS, SUPPRESSED_BELOW
from tiltlens.paper.checks import Floats
from tiltlens.repair.quantities import ENDS, Judged, Measured, Quantities, columns, measured, people_with_outcomes

if TYPE_CHECKING:
    from tiltlens.figures import Figure

SUMMARY = "tiltlens/bills/1"
SCHEMA = {
    "quantity": pl.String,
    **{f"{name}{end}": pl.Float64 for name in ("before", "after", "change") for end in ENDS},
}


@dataclass(frozen=True, slots=True, eq=False)
class Bill:
    """What a repair costs.

    Attributes
    ----------
    table
        One row a quantity: before, after and change, each with its interval; changes are of the same rows.
    decisions
        How many people of each group get another decision at the threshold: up, from 0 to 1, and down; None where few
        would be told.
    curve
        Gap, and what it costs, from no repair (0) to the whole (1).
    rows, missing_outcome
        How many rows of each group there are, and of how many the outcome is not known; None where none was given.
    notes
        What to know.
    repair
        Which repair it is of: plain numbers and texts.
    threshold
        Of the decisions that are counted.
    confidence
        Of the intervals.
    beside
        The bill of another repair on the same rows, which uses the group where this one does not, or the reverse.
    price
        The price of blindness, where there are both: one row a quantity, after the repair with the group, after that
        without it, and the second less the first, with an interval of the same rows.
    """

    table: pl.DataFrame
    decisions: dict[str, dict[str, int | None]]
    curve: pl.DataFrame
    rows: dict[str, int]
    notes: tuple[str, ...]
    repair: dict[str, Any]
    threshold: float
    confidence: float
    beside: Bill | None = None
    price: pl.DataFrame | None = None
    missing_outcome: int | None = None

    def __getitem__(self, quantity: str) -> dict[str, Estimate]:
        """Return before, after and change of a quantity."""
        found = self.table.filter(quantity=quantity)
        if found.is_empty():
            raise DataError(
                f"`quantity` must be one of the bill's, got {quantity!r}.", f"see {', '.join(self.table['quantity'])}."
            )
        row = found.row(0, named=True)
        return {name: Estimate(*(row[f"{name}{end}"] for end in ENDS)) for name in ("before", "after", "change")}

    def to_dict(self) -> dict[str, Any]:
        """Return the bill as plain numbers."""
        return {
            "repair": self.repair,
            "threshold": self.threshold,
            "confidence": self.confidence,
            "rows": self.rows,
            "missing_outcome": self.missing_outcome,
            "table": self.table.to_dicts(),
            "decisions": self.decisions,
            "curve": self.curve.to_dicts(),
            "notes": list(self.notes),
            "beside": None if self.beside is None else self.beside.to_dict(),
            "price": None if self.price is None else self.price.to_dicts(),
        }

    def to_json(self, path: str | Path | TextIO) -> None:
        """Write every number of the bill to a JSON file, whole or not at all; or to a file that is open for text."""
        from tiltlens.results.json_file import write_json

        write_json(bills_summary([self]), path)

    def report(self, path: str | Path | TextIO) -> None:
        """Write the page of the bill, one HTML file that needs no network, as `to_json` does."""
        from tiltlens.render.document_page import write_bills

        write_bills(bills_summary([self]), path)

    def plot(self) -> Figure:
        """Return the figure of the curve, from no repair to the whole: its chart, the numbers behind it, and words."""
        from tiltlens.figures import repair_curve

        return repair_curve(self.to_dict())

    def __str__(self) -> str:
        from tiltlens.render.terminal import bills_text

        return bills_text(bills_summary([self]))

    def __repr__(self) -> str:
        return f"Bill({self.repair['audited']!r} against {self.repair['reference']!r}: {len(self.table)} quantities)"


def bills_summary(bills: Iterable[Bill]) -> dict[str, Any]:
    """Return the bills of a repair, one for each audited group, as plain numbers."""
    return {"schema": SUMMARY, "bills": {one.repair["audited"]: one.to_dict() for one in bills}}


def bill_of(
    rows: Rows,
    step: Callable[[float], Floats],
    outcome: Integers | None,
    threshold: float,
    confidence: float,
    notes: tuple[str, ...],
    repair: dict[str, Any],
    factors: Floats | None = None,
) -> Bill:
    """Return the bill of rows; `step` gives the scores after a part of the repair, from 0 to 1."""
    moves = any(one["multiplier"] for one in repair["constraints"])
    judged = Judged(rows, outcome, threshold, repair["favours_low"], moves, factors)
    before, after = step(0.0), step(1.0)
    old, new = (measured(judged, scores) for scores in (before, after))
    parts = np.linspace(0.0, 1.0, BILL_STEPS).tolist()
    curve = [{"part": part} | _values(measured(judged, step(part)).found) for part in parts]
    return Bill(
        pl.DataFrame(_records(old, new, confidence), schema=SCHEMA),
        _changed(rows, before >= threshold, after >= threshold),
        pl.DataFrame(curve),
        {"audited": rows.count0, "reference": rows.count1},
        (*notes, *_few_notes(rows, outcome)),
        repair,
        threshold,
        confidence,
        missing_outcome=None if outcome is None else int((outcome == UNKNOWN).sum()),
    )


def _few_notes(rows: Rows, outcome: Integers | None) -> list[str]:
    """Return what to know where outcomes are missing, or where few people have one of them."""
    if outcome is None:
        return []
    missing, few = int((outcome == UNKNOWN).sum()), people_with_outcomes(rows, outcome).min() < MINIMUM_ROWS
    notes = [f"the outcome of {missing:,} of {outcome.size:,} rows is not known: they count for what needs none"]
    few_note = (
        f"fewer than {MINIMUM_ROWS} people of a group have one of the outcomes: error rates and areas under the curve "
        "of so few are not told"
    )
    return (notes if missing else []) + ([few_note] if few else [])


def price_of_blindness(judged: Judged, aware: Floats, blind: Floats, confidence: float) -> pl.DataFrame:
    """Return what scores repaired without the group differ by from those repaired with it, on the same rows."""
    records = _records(measured(judged, aware), measured(judged, blind), confidence)
    renamed = {"before": "with_group", "after": "without_group", "change": "price"}
    ends = {f"{old}{end}": f"{new}{end}" for old, new in renamed.items() for end in ENDS}
    return pl.DataFrame(records, schema=SCHEMA).rename(ends)


def _records(old: Measured, new: Measured, confidence: float) -> list[dict[str, Any]]:
    """Return a row for each quantity: before, after and change; of decisions the gap is that of decisions already."""
    records = []
    for name, change in new.change(old).items():
        if name == "decision_gap" and new.are_decisions and old.are_decisions:
            continue
        record: dict[str, Any] = {"quantity": name}
        for column, one in (("before", old.law(name)), ("after", new.law(name)), ("change", change)):
            record |= columns(column, one, confidence)
        records.append(record)
    return records


def _values(found: Quantities) -> dict[str, float]:
    return {name: one.value for name, one in found.items()}


def _changed(rows: Rows, before: Booleans, after: Booleans) -> dict[str, dict[str, int | None]]:
    found: dict[str, dict[str, int | None]] = {}
    for name, mine in (("audited", rows.audited), ("reference", ~rows.audited)):
        up, down = int((mine & ~before & after).sum()), int((mine & before & ~after).sum())
        found[name] = {"up": _told(up), "down": _told(down)}
    return found


def _told(count: int) -> int | None:
    return None if 0 < count < SUPPRESSED_BELOW else count
