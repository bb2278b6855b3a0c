"""What changed between two audits, in words: the same on the terminal and on the page."""

from __future__ import annotations

from typing import Any, NamedTuple

from tiltlens.documents.error_rates import auc_difference
from tiltlens.documents.ratios import ratio_name
from tiltlens.formats import label, number, points, signed, with_interval
from tiltlens.results.change import ChangeVerdict
from tiltlens.rows.measures import Measure, measure_of

MOVED = (ChangeVerdict.MORE, ChangeVerdict.LESS, ChangeVerdict.TURNED)  # the verdicts that say so for sure
Record = dict[str, Any]


class Quantity(NamedTuple):
    """A quantity of both audits: what it is called, its key, and how it and its change are written."""

    name: str
    key: str
    shown: Any
    changed: Any


def quantities(summary: Record, c: Record) -> list[Quantity]:
    """Return the quantities that both audits have."""
    measure = measure_of(summary)
    told, unit = measure.difference, measure.unit
    every = [
        Quantity(f"{_gap_name(c)}, in {unit}", "gap", told, told),
        Quantity(f"linear estimate, in {unit}", "linear_gap", told, told),
        Quantity(f"{measure.rate}, audited{measure.among}", "audited_rate", measure.level, told),
        Quantity(f"{measure.rate}, reference{measure.among}", "reference_rate", measure.level, told),
        Quantity(ratio_name(summary), "impact_ratio", number, signed),
        Quantity("standardised difference", "standardised_difference", number, signed),
        Quantity("through exempt factors", "through_exempt", told, told),
        Quantity("at equal exempt factors", "at_equal_exempt", told, told),
        Quantity(f"unexplained, in {unit}", "unexplained", told, told),
        Quantity("false positive rates, in points", "fpr_difference", points, points),
        Quantity("false negative rates, in points", "fnr_difference", points, points),
        Quantity("area under the curve, difference", "auc_difference", auc_difference, auc_difference),
        Quantity("calibration, in points", "calibration_difference", points, points),
    ]
    told_already = f"{c['criterion']}_difference"  # it is the gap
    return [one for one in every if c["changes"][one.key] is not None and one.key != told_already]


def source_name(side: Record) -> str:
    """Return what an audit is called: its model, its scores, or when it was made."""
    asked, stated = side["provenance"]["question"], side["provenance"]["stated"]
    made = (side["provenance"]["created"] or "no date")[:10]
    name = stated.get("model") or asked.get("scores") or asked.get("model")
    return f"{label(name, 40)}, {made}" if name else made


def headline(summary: Record, c: Record) -> list[str]:
    """Return what happened to the gap, how sure that is, and which features made it."""
    old, new, moved = (c["old"]["gap"], c["new"]["gap"], c["changes"]["gap"])
    audited, reference, measure = label(c["audited"]), label(c["reference"]), measure_of(summary)
    ends = [measure.difference(one["value"]) for one in (old, new)]
    lines = [
        f"The {_gap_name(c)} of {audited} against {reference}{_of_rates(measure)} went from {ends[0]} to {ends[1]} "
        f"{measure.unit}, by {with_interval(**moved, shown=measure.difference)}: {_how(moved, old, c)}."
    ]
    made = [row for row in c["features"] if row["verdict"] in MOVED]
    if made:
        told = measure.difference
        parts = [f"{label(row['feature'])} {row['verdict']} ({told(row['gap_change'])})" for row in made[:5]]
        more = f", and {len(made) - 5} more" if len(made) > 5 else ""
        lines.append("; ".join(parts) + more + ".")
    elif c["features"]:
        lines.append("No feature can be said to carry materially more or less than before.")
    return lines


def _gap_name(c: Record) -> str:
    return "gap" if c["new"]["linear_gap"] is None else "weighted gap"


def _of_rates(measure: Measure) -> str:
    return f" in the {measure.output}" if measure.among else ""


def _how(moved: Record, old: Record, c: Record) -> str:
    low, high, materiality, measure = moved["low"], moved["high"], c["materiality"], measure_of(c)
    if low is None or high is None:
        return "a change without an interval"
    if -materiality <= low and high <= materiality:
        return f"no material change, less than {measure.size(materiality)} {measure.unit}"
    if low <= 0.0 <= high:
        return "a change that may be none"
    wider = moved["value"] * old["value"] >= 0.0 or abs(moved["value"]) > 2 * abs(old["value"])
    return "it became wider" if wider else "it became narrower"
