"""Results in notebooks, as a few lines of HTML."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from html import escape
from importlib.util import find_spec
from typing import Any

from tiltlens.documents.audit_document import audit_document, checks_document, comparison_document
from tiltlens.documents.change_document import change_document
from tiltlens.documents.document import Document, FigureRef
from tiltlens.documents.repair_document import alternatives_document, evaluation_document, repair_document
from tiltlens.documents.rule_document import rule_document
from tiltlens.errors import NothingToDrawError
from tiltlens.formats import label
from tiltlens.render.html import blocks_html

Record = dict[str, Any]


def document_html(document: Document) -> str:
    """Return a document as HTML without style."""
    title = f"<p><b>{escape(label(document.title, 200))}</b></p>" if document.title else ""
    return f"<div>{title}{blocks_html(document.blocks, _picture)}</div>"


def audit_html(summary: Record) -> str:
    """Return an audit: the first screen with its figure; of several groups a matrix, and each folded."""
    return document_html(audit_document(summary, is_brief=True))


def comparison_html(c: Record) -> str:
    """Return a comparison with a figure of its contributions."""
    return document_html(comparison_document(c))


def _html(build: Callable[[Record], Document]) -> Callable[[Record], str]:
    """Return a function that returns the document of a result as HTML."""
    return lambda summary: document_html(build(summary))


rule_tables_html, change_html, repair_html = map(_html, (rule_document, change_document, repair_document))
evaluations_html, alternatives_html = map(_html, (evaluation_document, alternatives_document))
checks_html = _html(checks_document)


def _picture(reference: FigureRef) -> str:
    """Return a figure as a picture that needs no network; nothing where the packages that draw are missing."""
    if any(find_spec(package) is None for package in ("altair", "vl_convert")):
        return ""
    from tiltlens.figures.registry import DOCUMENT_FIGURES

    try:
        figure = DOCUMENT_FIGURES[reference.name](reference.summary)
    except NothingToDrawError:
        return ""
    content = b64encode(figure._repr_mimebundle_()["image/svg+xml"].encode()).decode()
    return f'<img alt="{escape(figure.description)}" src="data:image/svg+xml;base64,{content}">'
