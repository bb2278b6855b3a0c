"""Tables on a terminal, in the first layout that fits: nothing is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from tiltlens.documents.document import NAME, NUMBER, Cell, Table
from tiltlens.documents.labels import EVIDENCE
from tiltlens.formats import NOTHING
from tiltlens.render.unsplit import Unsplit

HEAD = 16  # characters of a line above a column of numbers
WHOLE, FOLDED = 30, 10  # characters of a name that a layout keeps on one line
LEAST_TEXT, LEAST_OPTIONAL = 14, 24  # characters of a line of a text
GAP = 3  # characters between columns


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns are shown, whether intervals stand below their values, and how long a name may be."""

    columns: tuple[int, ...]
    is_stacked: bool
    name_width: int


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table as wide as the terminal: intervals stack, optional columns go, names fold; at last it is a list."""

    table: Table
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
        """Return the least width of a column in a layout."""
        column, cells = self.table.columns[index], [row[index] for row in self.table.rows]
        if column.kind == NUMBER:
            heads = wrap(column.label, HEAD)
            if self._is_split(index, layout):
                intervals = [self.table.interval, *(cell.interval for cell in cells)]
                return max(map(len, [*heads, *(cell.text for cell in cells)])) + GAP + max(map(len, intervals))
            return max(map(len, [*heads, *(line for cell in cells for line in self._lines(cell, layout))]))
        texts = [column.label, *(cell.text for cell in cells)]
        longest = max(map(len, texts))
        if column.kind == NAME:
            return min(longest, layout.name_width)
        word = max(len(word) for text in texts for word in text.split() or [""])
        return max(min(longest, LEAST_OPTIONAL if column.is_optional else LEAST_TEXT), min(word, LEAST_OPTIONAL))

    def _is_split(self, index: int, layout: Layout) -> bool:
        """Return whether intervals get a column of their own: if they have a name and no other column has some."""
        with_intervals = {
            other
            for row in self.table.rows
            for other, cell in enumerate(row)
            if cell.interval and other in layout.columns
        }
        return bool(self.table.interval) and not layout.is_stacked and with_intervals == {index}

    def _lines(self, cell: Cell, layout: Layout) -> list[str]:
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
        if column.kind != NUMBER:
            longest = max(len(text) for text in (column.label, *(row[index].text for row in self.table.rows)))
            is_whole = column.kind == NAME and longest <= layout.name_width
            table.add_column(Text(self.clean(column.label)), no_wrap=is_whole, overflow="fold")
            return
        head = Text("\n".join(map(self.clean, wrap(column.label, HEAD))))
        table.add_column(head, justify="right", no_wrap=True)
        if self._is_split(index, layout):
            table.add_column(Text(self.clean(self.table.interval)), justify="right", no_wrap=True)

    def _cells(self, cell: Cell, index: int, layout: Layout) -> Iterator[Text]:
        if self._is_split(index, layout):
            yield from (Text(self.clean(text)) for text in (cell.text, cell.interval or NOTHING))
        else:
            style = "bold" if cell.mark == EVIDENCE else ""
            yield Text("\n".join(map(self.clean, self._lines(cell, layout))), style)

    def _left_out(self, layout: Layout) -> Iterator[Text]:
        """Yield which numbers there was no room for."""
        labels = [
            column.label
            for index, column in enumerate(self.table.columns)
            if index not in layout.columns and column.kind == NUMBER
        ]
        if labels:
            yield Text(f"Not shown at this width: {', '.join(labels)}.", "dim")

    def _list(self) -> Iterator[Unsplit]:
        """Yield each row as a few lines, where columns do not fit beside each other."""
        layout = Layout((), False, FOLDED)
        for row in self.table.rows:
            cells = [*zip(self.table.columns, row, strict=True)]
            words = [cell.text for column, cell in cells if column.kind != NUMBER and cell.text]
            yield Unsplit(self.clean(": ".join(words)), "bold")
            for column, cell in cells:
                if column.kind == NUMBER and cell.text != NOTHING:
                    yield Unsplit(self.clean(f"  {column.label} {self._lines(cell, layout)[0]}"))
