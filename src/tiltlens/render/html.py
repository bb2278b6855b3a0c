"""Documents as HTML, for pages and notebooks. Names come from data: every text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from tiltlens.documents.document import (
    HEADLINE,
    NAME,
    NUMBER,
    TEXT,
    Block,
    Bullets,
    Cell,
    Column,
    Details,
    FigureRef,
    Heading,
    Paragraph,
    Table,
)
from tiltlens.documents.labels import NOTHING
from tiltlens.render.unsplit import unsplit

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
    return f'<th scope="col"{kind}>{escape(column.label)}{level}</th>'


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
