"""The pages of a repair's bill and of alternatives, apart from the report of the audit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tiltlens.views import figures, repair_words
from tiltlens.views.formats import number, percent, points
from tiltlens.views.json_file import Target, write_text
from tiltlens.views.repair_text import named_alternatives
from tiltlens.views.report.page import check_name, drawn_data, rendered
from tiltlens.views.report.sections import PICTURED, Drawing

Record = dict[str, Any]
CODES = ["gap", "worth", "part"]  # of a curve's figure: told as texts beside them


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """One audited group on the page of alternatives."""

    place: int
    found: Record
    words: list[str]
    rows: list[tuple[str, Record, Any]]
    drawing: Drawing | None


def write_bill(bill: Record, target: Target) -> None:
    """Write the page of a bill, whole or not at all; to an open file, as it is."""
    check_name(target)
    write_text(target, bill_page(bill))


def write_alternatives(summary: Record, target: Target) -> None:
    """Write the page of alternatives, whole or not at all; to an open file, as it is."""
    check_name(target)
    write_text(target, alternatives_page(summary))


def bill_page(bill: Record) -> str:
    """Return the page of a bill as one HTML text."""
    bill = repair_words.named_bill(bill)
    drawing = Drawing.of("curve-drawn", figures.repair_curve(bill))
    drawing = replace(drawing, table=None if drawing.table is None else drawing.table.drop(CODES, strict=False))
    return rendered(
        "bill.html",
        drawn_data([drawing]),
        bill=bill,
        asked=repair_words.asked_words(bill["repair"]),
        headline=repair_words.headline(bill),
        quantities=repair_words.quantities(bill, bill["table"]),
        price=None if bill["price"] is None else repair_words.quantities(bill, bill["price"]),
        price_words=None if bill["price"] is None else repair_words.price_words(bill),
        sensitive=repair_words.sensitive_lines(bill),
        sentence=repair_words.sentence,
        is_no_finding=repair_words.IS_NO_FINDING,
        drawing=drawing,
    )


def alternatives_page(summary: Record) -> str:
    """Return the page of alternatives as one HTML text, the widest gaps first."""
    summary = named_alternatives(summary)
    widest = sorted(summary["comparisons"].values(), key=lambda found: -abs(found["gap"]["value"]))
    sections = [_section(place, found) for place, found in enumerate(widest)]
    return rendered(
        "alternatives.html",
        drawn_data(one.drawing for one in sections),
        summary=summary,
        sections=sections,
        of_rules=repair_words.OF_RULES,
        of_what_ifs=repair_words.OF_WHAT_IFS,
        sentence=repair_words.sentence,
    )


def _section(place: int, found: Record) -> _Section:
    rows: list[tuple[str, Record, Any]] = [
        ("right decisions of the audited model", found["accuracy"], percent),
        ("gap of its decision rates, in points", found["gap"], points),
        ("gap of its mean scores, in points", found["score_gap"], points),
        *([] if found["auc"] is None else [("area under the curve of its scores", found["auc"], number)]),
        ("right decisions of the alternative, less the model's, in points", found["accuracy_change"], points),
        ("by how much its gap is smaller, in points", found["gap_reduction"], points),
    ]
    drawing = Drawing.of(f"attained-{place}", figures.attainable(found)) if place < PICTURED else None
    return _Section(place, found, repair_words.verdict_words(found, found), rows, drawing)
