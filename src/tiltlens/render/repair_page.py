"""The pages of a repair's evaluation and of alternatives, apart from the report of the audit."""

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
class _EvaluationSection:
    """One audited group on the page of evaluations."""

    place: int
    evaluation: Record
    headline: list[str]
    quantities: list[tuple[Quantity, Record]]
    cost_of_blindness: list[tuple[Quantity, Record]]
    cost_words: str
    drawing: Drawing | None


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """One audited group on the page of alternatives."""

    place: int
    found: Record
    words: list[str]
    rows: list[tuple[str, Record, Any]]
    drawing: Drawing | None


def write_evaluations(summary: Record, target: Target) -> None:
    """Write the page of evaluations, whole or not at all; to an open file, as it is."""
    check_name(target)
    write_text(target, evaluations_page(summary))


def write_alternatives(summary: Record, target: Target) -> None:
    """Write the page of alternatives, whole or not at all; to an open file, as it is."""
    check_name(target)
    write_text(target, alternatives_page(summary))


def evaluations_page(summary: Record) -> str:
    """Return the page of evaluations as one HTML text, the widest gaps first."""
    evaluations = sorted(with_display_names(summary)["evaluations"].values(), key=_width)
    sections = [_evaluation_section(place, evaluation) for place, evaluation in enumerate(evaluations)]
    repair = evaluations[0]["repair"]
    return rendered(
        "evaluation.html",
        drawn_data(one.drawing for one in sections),
        evaluations=evaluations,
        sections=sections,
        asked=repair_words.asked_words(repair),
        audited_words=repair_words.audited_words(repair),
        sensitive=repair_words.sensitive_lines(evaluations[0]),
        sentence=repair_words.sentence,
        is_no_finding=repair_words.IS_NO_FINDING,
    )


def _width(evaluation: Record) -> float:
    return -max((abs(row["before"]) for row in evaluation["table"] if row["quantity"] == "gap"), default=0.0)


def _evaluation_section(place: int, evaluation: Record) -> _EvaluationSection:
    has_cost = evaluation["cost_of_blindness"] is not None
    drawing = None
    if place < PICTURED:
        drawn = Drawing.of(f"curve-{place}", figures.repair_curve(evaluation))
        drawing = replace(drawn, table=None if drawn.table is None else drawn.table.drop(CODES, strict=False))
    return _EvaluationSection(
        place,
        evaluation,
        repair_words.headline(evaluation),
        repair_words.quantities(evaluation, evaluation["table"]),
        repair_words.quantities(evaluation, evaluation["cost_of_blindness"]) if has_cost else [],
        repair_words.cost_of_blindness_words(evaluation) if has_cost else "",
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
