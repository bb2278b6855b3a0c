"""Documents: what a result says, in blocks that every renderer turns into its own output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiltlens.formats import label, minus, sentence

HEADLINE, QUIET, WARNING = "headline", "quiet", "warning"  # tones of a paragraph
NAME, NUMBER, TEXT = "name", "number", "text"  # kinds of a column


@dataclass(frozen=True, slots=True)
class Heading:
    """A title above the blocks that follow; level 2 begins a section."""

    text: str
    level: int = 3


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A few sentences."""

    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: a text, its confidence interval, and a mark such as the kind of a verdict."""

    text: str
    interval: str = ""
    mark: str = ""
    value: float | None = None  # unrounded, for readers that compute


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Where there is no room, optional columns are left out, the last first."""

    label: str
    kind: str = NUMBER
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `interval` names the intervals in its cells."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    interval: str = ""


@dataclass(frozen=True, slots=True)
class FigureRef:
    """A figure by its name, and what it draws."""

    name: str
    parts: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that most readers do not need; folded where that is possible."""

    title: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Bullets | Table | FigureRef | Details


@dataclass(frozen=True, slots=True)
class Document:
    """A titled list of blocks."""

    title: str
    blocks: tuple[Block, ...]


def pair_heading(audited: str, reference: str) -> Heading:
    """Return the heading of the section on two groups."""
    return Heading(f"{label(audited)} (audited) vs {label(reference)} (reference)", 2)


def warnings(notes: Iterable[str]) -> list[Block]:
    """Return notes as the list of warnings."""
    return bullets([minus(sentence(note)) for note in notes], "Warnings")


def bullets(items: Sequence[str], title: str = "") -> list[Block]:
    """Return a list under its title; nothing where there are no items."""
    head: list[Block] = [Heading(title)] if title else []
    return [*head, Bullets(tuple(items))] if items else []
