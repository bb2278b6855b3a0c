"""What a repair costs, on rows that nothing was fitted on: every number before and after, and the change, in pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.estimators import error_rates, outputs
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.feature_gap import cell_sums_of
from tiltlens.estimators.influence import (
    Booleans,
    InfluenceEstimate,
    Integers,
    Rows,
    combined,
    overall_mean,
    summed_by_cluster,
)
from tiltlens.limits import BILL_STEPS, SMALLEST_SHARE, SUPPRESSED_BELOW
from tiltlens.paper.checks import Floats

if TYPE_CHECKING:
    from tiltlens.views.figures import Figure

SUMMARY = "tiltlens/bill/1"
Quantities = dict[str, InfluenceEstimate]
SCHEMA = {
    "quantity": pl.String,
    **{f"{name}{end}": pl.Float64 for name in ("before", "after", "change") for end in ("", "_low", "_high")},
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

    def __getitem__(self, quantity: str) -> dict[str, Estimate]:
        """Return before, after and change of a quantity."""
        found = self.table.filter(quantity=quantity)
        if found.is_empty():
            raise DataError(
                f"`quantity` must be one of the bill's, got {quantity!r}.", f"see {', '.join(self.table['quantity'])}."
            )
        row = found.row(0, named=True)
        ends = ("", "_low", "_high")
        return {name: Estimate(*(row[f"{name}{end}"] for end in ends)) for name in ("before", "after", "change")}

    def to_dict(self) -> dict[str, Any]:
        """Return the bill as plain numbers."""
        return {
            "schema": SUMMARY,
            "repair": self.repair,
            "threshold": self.threshold,
            "confidence": self.confidence,
            "rows": self.rows,
            "table": self.table.to_dicts(),
            "decisions": self.decisions,
            "curve": self.curve.to_dicts(),
            "notes": list(self.notes),
            "beside": None if self.beside is None else self.beside.to_dict(),
            "price": None if self.price is None else self.price.to_dicts(),
        }

    def to_json(self, path: str | Path | TextIO) -> None:
        """Write every number of the bill to a JSON file, whole or not at all; or to a file that is open for text."""
        from tiltlens.views.json_file import write_json

        write_json(self.to_dict(), path)

    def report(self, path: str | Path | TextIO) -> None:
        """Write the page of the bill, one HTML file that needs no network, as `to_json` does."""
        from tiltlens.views.report.repair_page import write_bill

        write_bill(self.to_dict(), path)

    def plot(self) -> Figure:
        """Return the figure of the curve, from no repair to the whole: its chart, the numbers behind it, and words."""
        from tiltlens.views.figures import repair_curve

        return repair_curve(self.to_dict())

    def __str__(self) -> str:
        from tiltlens.views.repair_text import bill_text

        return bill_text(self.to_dict())

    def __repr__(self) -> str:
        return f"Bill({self.repair['audited']!r} against {self.repair['reference']!r}: {len(self.table)} quantities)"


def bill_of(
    rows: Rows,
    step: Callable[[float], Floats],
    outcome: Integers | None,
    threshold: float,
    confidence: float,
    notes: tuple[str, ...],
    repair: dict[str, Any],
) -> Bill:
    """Return the bill of rows; `step` gives the scores after a part of the repair, from 0 to 1."""
    before, after = step(0.0), step(1.0)
    old, new = (quantities(rows, scores, outcome, threshold) for scores in (before, after))
    records = [_record(name, old[name], new[name], confidence) for name in old if name in new]
    parts = np.linspace(0.0, 1.0, BILL_STEPS).tolist()
    curve = [{"part": part} | _values(quantities(rows, step(part), outcome, threshold)) for part in parts]
    return Bill(
        pl.DataFrame(records, schema=SCHEMA),
        _changed(rows, before >= threshold, after >= threshold),
        pl.DataFrame(curve),
        {"audited": rows.count0, "reference": rows.count1},
        notes,
        repair,
        threshold,
        confidence,
    )


def price_of_blindness(
    rows: Rows, aware: Floats, blind: Floats, outcome: Integers | None, threshold: float, confidence: float
) -> pl.DataFrame:
    """Return what scores repaired without the group differ by from those repaired with it, on the same rows."""
    seeing, unseeing = (quantities(rows, scores, outcome, threshold) for scores in (aware, blind))
    records = [_record(name, seeing[name], unseeing[name], confidence) for name in seeing if name in unseeing]
    renamed = {"before": "with_group", "after": "without_group", "change": "price"}
    ends = {f"{old}{end}": f"{new}{end}" for old, new in renamed.items() for end in ("", "_low", "_high")}
    return pl.DataFrame(records, schema=SCHEMA).rename(ends)


def quantities(rows: Rows, scores: Floats, outcome: Integers | None, threshold: float) -> Quantities:
    """Return what is on a bill, with influence functions; what is not defined is left out."""
    one = outputs.Scores.of(rows, scores)
    found = {"gap": outputs.gap(rows, one)} | _ratio(rows, one)
    if outcome is None:
        return found
    sums = cell_sums_of(rows, scores, outcome, 3)
    has_both = bool((sums.people[:, : error_rates.UNKNOWN] > 0).all())
    if has_both:
        found["fpr_difference"] = error_rates.false_positive_rate(rows, scores, outcome, sums).influence
        found["fnr_difference"] = error_rates.false_negative_rate(rows, scores, outcome, sums).influence
        found["calibration_difference"] = error_rates.calibration_in_the_large(rows, scores, outcome, sums).influence
    return found | _accuracy(rows, scores, outcome, threshold)


def _accuracy(rows: Rows, scores: Floats, outcome: Integers, threshold: float) -> Quantities:
    """Return accuracy at the threshold; of scores also the AUC of all and of each group, log-loss and Brier score."""
    known, y = outcome != error_rates.UNKNOWN, (outcome == error_rates.WITH).astype(np.float64)
    found = {"accuracy": _mean(rows, ((scores >= threshold) == y).astype(np.float64), known)}
    if np.isin(scores, (0.0, 1.0)).all():
        return found
    share = rows.weights / rows.weights.sum()
    _, place = np.unique(scores, return_inverse=True)
    for name, own in (("auc", share), ("auc_audited", rows.audited_share), ("auc_reference", rows.reference_share)):
        if all(float(own[outcome == code].sum()) > 0.0 for code in (error_rates.WITHOUT, error_rates.WITH)):
            area, influence = error_rates.area_under_curve(place, own, outcome)
            found[name] = InfluenceEstimate(area, (summed_by_cluster(rows.clusters, own * influence),))
    safe = np.clip(scores, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
    found["log_loss"] = _mean(rows, -np.where(y > 0, np.log(safe), np.log1p(-safe)), known)
    found["brier"] = _mean(rows, (scores - y) ** 2, known)
    return found


def _mean(rows: Rows, x: Floats, chosen: Booleans) -> InfluenceEstimate:
    """Return the mean over chosen rows of both groups."""
    return overall_mean(np.where(chosen, rows.weights, 0.0), x, rows.clusters)


def _ratio(rows: Rows, one: outputs.Scores) -> Quantities:
    p, p1 = (outputs.group_rate(rows, one, who) for who in (True, False))
    if p1.value <= SMALLEST_SHARE:
        return {}
    ratio = p.value / p1.value
    return {"impact_ratio": combined(ratio, [(1.0 / p1.value, p), (-ratio / p1.value, p1)])}


def _record(name: str, old: InfluenceEstimate, new: InfluenceEstimate, confidence: float) -> dict[str, Any]:
    change = combined(new.value - old.value, [(1.0, new), (-1.0, old)])
    record: dict[str, Any] = {"quantity": name}
    for column, one in (("before", old), ("after", new), ("change", change)):
        found = one.normal().estimate(confidence)
        record |= {column: found.value, f"{column}_low": found.low, f"{column}_high": found.high}
    return record


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
