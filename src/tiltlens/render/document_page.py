"""Pages of changes, evaluations and alternatives: their documents in the look of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tiltlens.documents.change_document import change_document, provenance_blocks
from tiltlens.documents.document import Block, Document, Heading
from tiltlens.documents.repair_document import alternatives_document, evaluation_document
from tiltlens.formats import label
from tiltlens.render.page import check_name, draw_blocks, drawn_data, rendered, write_page
from tiltlens.render.sections import Drawing
from tiltlens.repair.alternatives import AlternativesByGroup
from tiltlens.repair.evaluation import Evaluation
from tiltlens.results.change import Change
from tiltlens.results.codec import Target

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Section:
    """The blocks from one heading of level 2 to the next."""

    element: str
    title: str
    body: Any


def change_page(change: Change) -> str:
    """Return the page of a change."""
    return _page(change_document(change), "Two audits compared", provenance_blocks(change))


def evaluations_page(evaluations: Sequence[Evaluation]) -> str:
    """Return the page of an evaluation."""
    return _page(evaluation_document(evaluations), "Mitigation, separate from the audit that it acts on")


def alternatives_page(search: AlternativesByGroup) -> str:
    """Return the page of alternatives."""
    return _page(alternatives_document(search), "Other rules of the same features, compared on the same people")


def _writer(build: Callable[[T], str]) -> Callable[[T, Target], None]:
    """Return a function that writes a page, whole or not at all; to an open file, as it is."""

    def write(result: T, target: Target) -> None:
        check_name(target)
        write_page(build(result), target)

    return write


write_change, write_evaluations = _writer(change_page), _writer(evaluations_page)
write_alternatives = _writer(alternatives_page)


def _page(document: Document, lead: str, more: Iterable[Block] = ()) -> str:
    drawings: list[Drawing] = []
    sections = []
    for index, (first, *others) in enumerate(_parts([*document.blocks, *more])):
        body, drawn = draw_blocks(others, len(drawings))
        drawings += drawn
        title = first.text if isinstance(first, Heading) else ""
        sections.append(_Section("words" if index == 0 else f"c{index}", title, body))
    data = drawn_data(drawings)
    return rendered("document.html", data, title=label(document.title, 200), lead=lead, sections=sections)


def _parts(blocks: Iterable[Block]) -> list[list[Block]]:
    """Return blocks by section; those before the first heading come with it."""
    parts: list[list[Block]] = []
    before: list[Block] = []
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            parts.append([block, *before])
            before = []
        else:
            (parts[-1] if parts else before).append(block)
    return parts
