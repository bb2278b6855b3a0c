"""The pages of a repair's bill and of alternatives, apart from the report of the audit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tiltlens import figures
from tiltlens.documents import repair_sentences as repair_words
from tiltlens.documents.change_sentences import Quantity
from tiltlens.documents.display_names import with_display_names
from tiltlens.formats import number, percent, points
from tiltlens.render.page import check_name, drawn_data, rendered
from tiltlens.render.sections import PICTURED, Drawing
from tiltlens.results.json_file import Target, write_text

Record = dict[str, Any]
CODES = ["gap", "worth", "part"]  # of a curve's figure: told as texts beside them


@dataclass(frozen=True, slots=True, eq=False)
class _BillSection:
    """One audited group on the page of bills."""

    place: int
    bill: Record
    headline: list[str]
    quantities: list[tuple[Quantity, Record]]
    price: list[tuple[Quantity, Record]]
    price_words: str
    drawing: Drawing | None


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """One audited group on the page of alternatives."""

    place: int
    found: Record
    words: list[str]
    rows: list[tuple[str, Record, Any]]
    drawing: Drawing | None


def write_bills(summary: Record, target: Target) -> None:
    """Write the page of bills, whole or not at all; to an open file, as it is."""
    check_name(target)
    write_text(target, bills_page(summary))


def write_alternatives(summary: Record, target: Target) -> None:
    """Write the page of alternatives, whole or not at all; to an open file, as it is."""
    check_name(target)
    write_text(target, alternatives_page(summary))


def bills_page(summary: Record) -> str:
    """Return the page of bills as one HTML text, the widest gaps first."""
    bills = sorted(with_display_names(summary)["bills"].values(), key=_width)
    sections = [_bill_section(place, bill) for place, bill in enumerate(bills)]
    repair = bills[0]["repair"]
    return rendered(
        "bill.html",
        drawn_data(one.drawing for one in sections),
        bills=bills,
        sections=sections,
        asked=repair_words.asked_words(repair),
        audited_words=repair_words.audited_words(repair),
        sensitive=repair_words.sensitive_lines(bills[0]),
        sentence=repair_words.sentence,
        is_no_finding=repair_words.IS_NO_FINDING,
    )


def _width(bill: Record) -> float:
    return -max((abs(row["before"]) for row in bill["table"] if row["quantity"] == "gap"), default=0.0)


def _bill_section(place: int, bill: Record) -> _BillSection:
    has_price = bill["price"] is not None
    drawing = None
    if place < PICTURED:
        drawn = Drawing.of(f"curve-{place}", figures.repair_curve(bill))
        drawing = replace(drawn, table=None if drawn.table is None else drawn.table.drop(CODES, strict=False))
    return _BillSection(
        place,
        bill,
        repair_words.headline(bill),
        repair_words.quantities(bill, bill["table"]),
        repair_words.quantities(bill, bill["price"]) if has_price else [],
        repair_words.price_words(bill) if has_price else "",
        drawing,
    )


def alternatives_page(summary: Record) -> str:
    """Return the page of alternatives as one HTML text, the widest gaps first."""
    summary = with_display_names(summary)
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
    name = repair_words.accuracy_name(found)
    rows: list[tuple[str, Record, Any]] = [
        (f"{name} of the audited model", found["accuracy"], percent),
        (f"{repair_words.gap_name(found)} of its decision rates, in points", found["gap"], points),
        (f"{repair_words.gap_name(found)} of its mean scores, in points", found["score_gap"], points),
        *([] if found["auc"] is None else [("area under the curve of its scores", found["auc"], number)]),
        (f"{name} of the alternative minus the model's, in points", found["accuracy_change"], points),
        ("size of the model's gap, less that of the alternative's, in points", found["gap_reduction"], points),
    ]
    for what, (own, other), shown in repair_words.rates(found):
        rows += [(f"{what}, audited model", own, shown), (f"{what}, alternative", other, shown)]
    drawing = Drawing.of(f"attained-{place}", figures.attainable(found)) if place < PICTURED else None
    return _Section(place, found, repair_words.verdict_words(found, found), rows, drawing)
