"""Documents as HTML: blocks, and what notebooks show."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable
from html import escape
from importlib.util import find_spec
from typing import TypeVar

from tiltlens.documents.audit_document import audit_document, checks_document, comparison_document
from tiltlens.documents.document import (
    HEADLINE,
    NAME,
    NOTHING,
    NUMBER,
    TEXT,
    Block,
    Bullets,
    Cell,
    Column,
    Details,
    Document,
    FigureRef,
    Heading,
    Paragraph,
    Table,
)
from tiltlens.documents.result_documents import (
    alternatives_document,
    change_document,
    evaluation_document,
    repair_document,
)
from tiltlens.documents.rule_document import rule_document
from tiltlens.formats import label
from tiltlens.render.terminal import unsplit
from tiltlens.results.audit import Audit

CLASSES = {HEADLINE: "answer"}
Draw = Callable[[FigureRef], str]
Name = Callable[[int, Cell], str]


def blocks_html(blocks: Iterable[Block], draw: Draw) -> str:
    """Return blocks as HTML; `draw` returns a figure."""
    return "\n".join(_block(block, draw) for block in blocks)


def _block(block: Block, draw: Draw) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Paragraph(text, tone):
            kind = CLASSES.get(tone, tone)
            text = escape(unsplit(text))
            return f'<p class="{kind}">{text}</p>' if kind else f"<p>{text}</p>"
        case Bullets(items):
            return f'<ul class="notes">{"".join(f"<li>{escape(unsplit(item))}</li>" for item in items)}</ul>'
        case Table():
            return table_html(block)
        case FigureRef():
            return draw(block)
        case Details(title, blocks):
            return f"<details><summary>{escape(title)}</summary>{blocks_html(blocks, draw)}</details>"


def table_html(table: Table, name: Name | None = None, split: int | None = None) -> str:
    """Return a table.

    `name` returns the first cell of a row, by its index. Rows from `split` on are hidden until the page's script shows
    them.
    """
    heads = "".join(_head(table, index, column) for index, column in enumerate(table.columns))
    rows = [_row(table, index, row, name) for index, row in enumerate(table.rows)]
    body = f"<tbody>{''.join(rows[:split])}</tbody>"
    if split is not None and len(rows) > split:
        body += f'<tbody class="more" hidden>{"".join(rows[split:])}</tbody>'
    title = escape(table.name.replace("-", " ").capitalize())
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{title}"><table class="{table.name} reflow">'
        f"<thead><tr>{heads}</tr></thead>{body}</table></div>"
    )


def _head(table: Table, index: int, column: Column) -> str:
    has_intervals = table.interval and any(row[index].interval for row in table.rows)
    level = f" <small>{escape(table.interval)}</small>" if has_intervals else ""
    kind = ' class="number"' if column.kind == NUMBER else ""
    label = escape(column.label).replace("_", "_<wbr>")  # long names of columns end a line here
    return f'<th scope="col"{kind}>{label}{level}</th>'


def _row(table: Table, index: int, row: tuple[Cell, ...], name: Name | None) -> str:
    cells = []
    for column, cell in zip(table.columns, row, strict=True):
        if column.kind == NAME:
            text = escape(cell.text) if name is None else name(index, cell)
            cells.append(f'<th scope="row">{text}</th>')
        else:
            cells.append(_cell(column, cell))
    is_immaterial = any(
        cell.mark == NOTHING for column, cell in zip(table.columns, row, strict=True) if column.kind == TEXT
    )
    kind = ' class="immaterial"' if is_immaterial else ""
    return f"<tr{kind}>{''.join(cells)}</tr>"


def _cell(column: Column, cell: Cell) -> str:
    label, text = escape(column.label), escape(cell.text)
    if column.kind != NUMBER:
        text = f'<span class="verdict {cell.mark}">{text}</span>' if cell.mark else text
        return f'<td class="{"judged" if cell.mark else "words"}" data-name="{label}">{text}</td>'
    value = "" if cell.value is None else f' data-value="{cell.value}"'
    ends = f" <small>{escape(cell.interval)}</small>" if cell.interval else ""
    kind = f"number {cell.mark}" if cell.mark else "number"
    return f'<td class="{kind}" data-name="{label}"{value}>{text}{ends}</td>'


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
