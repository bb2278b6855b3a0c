"""Documents on the terminal: tables fitted to its width, and lines that do not split intervals."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from shutil import get_terminal_size
from textwrap import wrap

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from tiltlens._documents import document as doc
from tiltlens._documents.result_documents import document_of
from tiltlens._formats import END, ISOLATE, JOINERS, MINUS, NOTHING, typed

INTERVAL = re.compile(r"\([^()]* to [^()]*\)")
SHORT = re.compile(r"\d+% CIs?|\S+ [<=≤] \S+|\S*\d\S* to \S*\d\S*")  # "p < 0.001", "2 to 5%"
LONGEST = 36  # characters of an interval that fit a line on a phone
NO_BREAK = "\u00a0"
JOINED = "\u2060"  # prevents a line break between a minus sign and a currency
GLUE = "\ue000"  # placeholder for a no-break space, at which Rich would break lines


def unsplit(text: str) -> str:
    """Return a text in which intervals, such as "(95% CI −$6.0 to $19.9)", are not broken across lines."""
    return re.sub(rf"{MINUS}(?=[^\d\s])", MINUS + JOINED, _glued(text, NO_BREAK))


def _glued(text: str, glue: str) -> str:
    for pattern in (INTERVAL, SHORT):
        text = pattern.sub(lambda part: part[0].replace(" ", glue) if len(part[0]) <= LONGEST else part[0], text)
    return text


@dataclass(frozen=True, slots=True)
class Unsplit:
    """A paragraph on a terminal in one style, without line breaks inside intervals."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines of the paragraph."""
        for line in Text(_glued(self.text, GLUE)).wrap(console, options.max_width):
            yield Text(line.plain.rstrip().replace(GLUE, " "), self.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the minimum and maximum width of the paragraph."""
        return Measurement.get(console, options, Text(_glued(self.text, GLUE)))


HEAD = 16  # characters per line of the head of a number column
WHOLE, FOLDED = 30, 10  # maximum number of characters of a name on one line in the two kinds of layout
LEAST_TEXT, LEAST_OPTIONAL = 14, 24  # minimum width of a text column, if required and if optional
GAP = 3  # characters between columns


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns shown, whether intervals are placed below their values, and the maximum width of a name."""

    columns: tuple[int, ...]
    is_stacked: bool
    name_width: int


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table fitted to the terminal: intervals stack, optional columns drop out, names fold; if need be, a list."""

    table: doc.Table
    clean: Callable[[str], str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table in the first layout that fits."""
        for layout in self._layouts():
            widths = [self._width(index, layout) for index in layout.columns]
            if sum(widths) + GAP * (len(widths) - 1) <= options.max_width:
                yield self._laid_out(layout)
                yield from self._left_out(layout)
                return
        yield from self._list()

    def _layouts(self) -> Iterator[Layout]:
        for name_width in (WHOLE, FOLDED):
            columns = tuple(range(len(self.table.columns)))
            yield from (Layout(columns, is_stacked, name_width) for is_stacked in (False, True))
            for index in reversed(range(len(self.table.columns))):
                if self.table.columns[index].is_optional:
                    columns = tuple(other for other in columns if other != index)
                    yield from (Layout(columns, is_stacked, name_width) for is_stacked in (False, True))

    def _width(self, index: int, layout: Layout) -> int:
        """Return the minimum width of a column in a layout."""
        column, cells = self.table.columns[index], [row[index] for row in self.table.rows]
        if column.kind == doc.NUMBER:
            heads = wrap(column.label, HEAD)
            if self._is_split(index, layout):
                intervals = [self.table.interval, *(cell.interval for cell in cells)]
                return max(map(len, [*heads, *(cell.text for cell in cells)])) + GAP + max(map(len, intervals))
            return max(map(len, [*heads, *(line for cell in cells for line in self._lines(cell, layout))]))
        texts = [column.label, *(cell.text for cell in cells)]
        longest = max(map(len, texts))
        if column.kind == doc.NAME:
            return min(longest, layout.name_width)
        word = max(len(word) for text in texts for word in text.split() or [""])
        return max(min(longest, LEAST_OPTIONAL if column.is_optional else LEAST_TEXT), min(word, LEAST_OPTIONAL))

    def _is_split(self, index: int, layout: Layout) -> bool:
        """Return whether intervals get their own column: if they have a name and only this column has some."""
        with_intervals = {
            other
            for row in self.table.rows
            for other, cell in enumerate(row)
            if cell.interval and other in layout.columns
        }
        return bool(self.table.interval) and not layout.is_stacked and with_intervals == {index}

    def _lines(self, cell: doc.Cell, layout: Layout) -> list[str]:
        if not cell.interval:
            return [cell.text]
        if layout.is_stacked:
            return [cell.text, cell.interval]
        return [f"{cell.text} ({cell.interval})"]

    def _laid_out(self, layout: Layout) -> RichTable:
        table = RichTable(show_edge=False, pad_edge=False, header_style="bold")
        for index in layout.columns:
            self._add_column(table, index, layout)
        for row in self.table.rows:
            table.add_row(*(cell for index in layout.columns for cell in self._cells(row[index], index, layout)))
        return table

    def _add_column(self, table: RichTable, index: int, layout: Layout) -> None:
        column = self.table.columns[index]
        if column.kind != doc.NUMBER:
            longest = max(len(text) for text in (column.label, *(row[index].text for row in self.table.rows)))
            is_whole = column.kind == doc.NAME and longest <= layout.name_width
            table.add_column(Text(self.clean(column.label)), no_wrap=is_whole, overflow="fold")
            return
        head = Text("\n".join(map(self.clean, wrap(column.label, HEAD))))
        table.add_column(head, justify="right", no_wrap=True)
        if self._is_split(index, layout):
            table.add_column(Text(self.clean(self.table.interval)), justify="right", no_wrap=True)

    def _cells(self, cell: doc.Cell, index: int, layout: Layout) -> Iterator[Text]:
        if self._is_split(index, layout):
            yield from (Text(self.clean(text)) for text in (cell.text, cell.interval or NOTHING))
        else:
            style = "bold" if cell.mark == doc.EVIDENCE else ""
            yield Text("\n".join(map(self.clean, self._lines(cell, layout))), style)

    def _left_out(self, layout: Layout) -> Iterator[Text]:
        """Yield a note on the number columns that are not shown."""
        labels = [
            column.label
            for index, column in enumerate(self.table.columns)
            if index not in layout.columns and column.kind == doc.NUMBER
        ]
        if labels:
            yield Text(f"Not shown at this width: {', '.join(labels)}.", "dim")

    def _list(self) -> Iterator[Unsplit]:
        """Yield each row as a few lines, for terminals too narrow for columns."""
        layout = Layout((), False, FOLDED)
        for row in self.table.rows:
            cells = [*zip(self.table.columns, row, strict=True)]
            words = [cell.text for column, cell in cells if column.kind != doc.NUMBER and cell.text]
            yield Unsplit(self.clean(": ".join(words)), "bold")
            for column, cell in cells:
                if column.kind == doc.NUMBER and cell.text != NOTHING:
                    yield Unsplit(self.clean(f"  {column.label} {self._lines(cell, layout)[0]}"))


KEPT = {*JOINERS, ISOLATE, END}  # invisible characters that words and names need
WIDE = 100  # width of a terminal whose width is unknown
WIDEST = 110  # maximum width of a page, since longer lines are hard to read
STYLES = {doc.HEADLINE: "bold", doc.QUIET: "dim", doc.WARNING: "yellow"}


def print_document(document: doc.Document, console: Console) -> None:
    """Print a document."""
    if document.title:
        console.print(Text(_encodable(f"tiltlens: {document.title}", console), "bold"))
    _print_blocks(document.blocks, console)


def _print_blocks(blocks: Iterable[doc.Block], console: Console) -> None:
    above: doc.Block | None = None
    for block in blocks:
        if isinstance(block, doc.Table) and isinstance(above, doc.Paragraph | doc.Table | doc.Bullets):
            console.print()
        above = block
        for part in _renderables(block, lambda text: _encodable(text, console)):
            console.print(part)
        if isinstance(block, doc.Details):
            _print_blocks(block.blocks, console)


def _renderables(block: doc.Block, clean: Callable[[str], str]) -> Iterator[RenderableType]:
    match block:
        case doc.Heading(text):
            yield Text(f"\n{clean(text)}", "bold cyan")
        case doc.Paragraph(text, tone):
            yield Unsplit(clean(text), STYLES.get(tone, ""))
        case doc.Bullets(items):
            grid = RichTable.grid(padding=(0, 1))
            for item in items:
                grid.add_row("•", Unsplit(clean(item)))
            yield grid
        case doc.Table():
            yield FittedTable(block, clean)
        case doc.Details(title):
            yield Text(f"\n{clean(title)}", "bold cyan")


def _encodable(text: str, console: Console) -> str:
    """Return a text that the terminal can display; without a minus sign in its encoding, with hyphens."""
    text = printable(text)
    try:
        MINUS.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return typed(text)
    return text


def print_result(result: object, console: Console, **options: bool | str) -> None:
    """Print the document of a result; the options are those of its document."""
    print_document(document_of(result, **options), console)


def result_text(result: object) -> str:
    """Return the document of a result as plain text, as wide as the terminal."""
    width = min(get_terminal_size((WIDE, 24)).columns, WIDEST)
    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    print_result(result, console)
    return text.getvalue().rstrip()


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[str, float], None]]:
    """Yield a function that moves a progress bar to a stage and fraction; the bar disappears at the end."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0)

        def move(stage: str, fraction: float) -> None:
            bar.update(task, description=printable(stage), completed=fraction)

        yield move


def printable(text: str) -> str:
    """Return a text without control characters, since names come from the data."""
    return "".join(letter if letter.isprintable() or letter in KEPT else "�" for letter in text)
