"""Results in notebooks, as a few lines of HTML."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from html import escape
from importlib.util import find_spec
from typing import TypeVar

from tiltlens.documents.audit_document import audit_document, checks_document, comparison_document
from tiltlens.documents.change_document import change_document
from tiltlens.documents.document import Document, FigureRef
from tiltlens.documents.repair_document import alternatives_document, evaluation_document, repair_document
from tiltlens.documents.rule_document import rule_document
from tiltlens.formats import label
from tiltlens.render.html import blocks_html
from tiltlens.results.audit import Audit

T = TypeVar("T")


def document_html(document: Document) -> str:
    """Return a document as HTML without style."""
    title = f"<p><b>{escape(label(document.title, 200))}</b></p>" if document.title else ""
    return f"<div>{title}{blocks_html(document.blocks, _picture)}</div>"


def _html(build: Callable[[T], Document]) -> Callable[[T], str]:
    """Return a function that returns the document of a result as HTML."""
    return lambda result: document_html(build(result))


def audit_html(audit: Audit) -> str:
    """Return an audit: the first screen with its figure; for several groups a matrix, and each folded."""
    return document_html(audit_document(audit, is_brief=True))


comparison_html, checks_html, change_html = _html(comparison_document), _html(checks_document), _html(change_document)
repair_html, evaluations_html = _html(repair_document), _html(evaluation_document)
alternatives_html, rule_tables_html = _html(alternatives_document), _html(rule_document)


def _picture(reference: FigureRef) -> str:
    """Return a figure as a picture that needs no network; nothing where the packages that draw are missing."""
    if any(find_spec(package) is None for package in ("altair", "vl_convert")):
        return ""
    from tiltlens.figures import draw

    if (figure := draw(reference)) is None:
        return ""
    content = b64encode(figure._repr_mimebundle_()["image/svg+xml"].encode()).decode()
    return f'<img style="max-width: 100%" alt="{escape(figure.description)}" src="data:image/svg+xml;base64,{content}">'
