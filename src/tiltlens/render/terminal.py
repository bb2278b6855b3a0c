"""Documents on a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Concatenate, ParamSpec, TypeVar

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from tiltlens.documents.audit_document import audit_document, checks_document
from tiltlens.documents.change_document import change_document
from tiltlens.documents.document import (
    HEADLINE,
    QUIET,
    WARNING,
    Block,
    Bullets,
    Details,
    Document,
    Heading,
    Paragraph,
    Table,
)
from tiltlens.documents.repair_document import alternatives_document, evaluation_document, repair_document
from tiltlens.documents.rule_document import rule_document
from tiltlens.formats import END, ISOLATE, JOINERS, MINUS, typed
from tiltlens.render.terminal_table import FittedTable
from tiltlens.render.unsplit import Unsplit

KEPT = {*JOINERS, ISOLATE, END}  # invisible letters that words and names need
WIDE = 100  # columns of a terminal whose width is not known
WIDEST = 110  # columns of a page: longer lines are hard to read
STYLES = {HEADLINE: "bold", QUIET: "dim", WARNING: "yellow"}
T = TypeVar("T")
P = ParamSpec("P")


def print_document(document: Document, console: Console) -> None:
    """Print a document."""
    if document.title:
        console.print(Text(_encodable(f"tiltlens: {document.title}", console), "bold"))
    _print_blocks(document.blocks, console)


def _print_blocks(blocks: Iterable[Block], console: Console) -> None:
    above: Block | None = None
    for block in blocks:
        if isinstance(block, Table) and isinstance(above, Paragraph | Table | Bullets):
            console.print()
        above = block
        for part in _renderables(block, lambda text: _encodable(text, console)):
            console.print(part)
        if isinstance(block, Details):
            _print_blocks(block.blocks, console)


def _renderables(block: Block, clean: Callable[[str], str]) -> Iterator[RenderableType]:
    match block:
        case Heading(text):
            yield Text(f"\n{clean(text)}", "bold cyan")
        case Paragraph(text, tone):
            yield Unsplit(clean(text), STYLES.get(tone, ""))
        case Bullets(items):
            grid = RichTable.grid(padding=(0, 1))
            for item in items:
                grid.add_row("•", Unsplit(clean(item)))
            yield grid
        case Table():
            yield FittedTable(block, clean)
        case Details(title):
            yield Text(f"\n{clean(title)}", "bold cyan")


def _encodable(text: str, console: Console) -> str:
    """Return a text that the terminal can show: a hyphen where its encoding has no minus sign."""
    text = printable(text)
    try:
        MINUS.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return typed(text)
    return text


def _printer(build: Callable[Concatenate[T, P], Document]) -> Callable[Concatenate[T, Console, P], None]:
    """Return a function that prints the document of a result."""

    def show(result: T, console: Console, /, *args: P.args, **options: P.kwargs) -> None:
        print_document(build(result, *args, **options), console)

    return show


def _writer(build: Callable[[T], Document]) -> Callable[[T], str]:
    """Return a function that returns the same as plain text, as wide as the terminal."""

    def write(result: T) -> str:
        width = min(get_terminal_size((WIDE, 24)).columns, WIDEST)
        text = io.StringIO()
        console = Console(file=text, width=width, color_system=None, force_terminal=False, force_jupyter=False)
        print_document(build(result), console)
        return text.getvalue().rstrip()

    return write


print_audit, audit_text = _printer(audit_document), _writer(audit_document)
checks_text = _writer(checks_document)
print_change, change_text = _printer(change_document), _writer(change_document)
print_repair, repair_text = _printer(repair_document), _writer(repair_document)
print_evaluations, evaluations_text = _printer(evaluation_document), _writer(evaluation_document)
print_alternatives, print_rule_tables = _printer(alternatives_document), _printer(rule_document)


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[str, float], None]]:
    """Yield a function that moves a bar to a stage and a fraction; the bar is gone once all is done."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0)

        def move(stage: str, fraction: float) -> None:
            bar.update(task, description=printable(stage), completed=fraction)

        yield move


def printable(text: str) -> str:
    """Return a text without control characters: names come from data, not from us."""
    return "".join(letter if letter.isprintable() or letter in KEPT else "�" for letter in text)
