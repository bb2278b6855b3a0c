"""The page of a change between two audits, in the look of the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiltlens import figures
from tiltlens.documents import change_sentences as change_words
from tiltlens.documents.display_names import with_display_names
from tiltlens.formats import label, simultaneous_words
from tiltlens.render.page import check_name, drawn_data, rendered
from tiltlens.render.sections import PICTURED, Drawing
from tiltlens.results.json_file import Target, write_text
from tiltlens.rows.measures import measure_of, subject


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """One audited group on the page."""

    place: int
    c: dict[str, Any]
    found: list[str]
    quantities: list[change_words.Quantity]
    drawing: Drawing | None


def write_change(summary: dict[str, Any], target: Target) -> None:
    """Write the page of a change, whole or not at all; to an open file, as it is."""
    check_name(target)
    write_text(target, change_page(summary))


def change_page(summary: dict[str, Any]) -> str:
    """Return the page of a change as one HTML text, the largest changes first."""
    summary = with_display_names(summary)
    widest = sorted(summary["comparisons"].values(), key=lambda c: -abs(c["changes"]["gap"]["value"]))
    sections = [_section(summary, place, c) for place, c in enumerate(widest)]
    return rendered(
        "change.html",
        drawn_data(one.drawing for one in sections),
        change=summary,
        sections=sections,
        source_name=change_words.source_name,
        subject=subject(summary),
        measure=measure_of(summary),
        moved=change_words.MOVED,
        simultaneous=simultaneous_words(summary, summary["confidence"]),
    )


def _section(summary: dict[str, Any], place: int, c: dict[str, Any]) -> _Section:
    drawing = None
    if c["features"] and place < PICTURED:
        drawing = Drawing.of(f"change-{place}", figures.change(c, c["materiality"]))
    rows = [row | {"label": label(row["feature"]), "full": label(row["feature"], 200)} for row in c["features"]]
    found = change_words.headline(summary, c)
    return _Section(place, c | {"features": rows}, found, change_words.quantities(summary, c), drawing)
