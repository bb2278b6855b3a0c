"""Numbers and names as text, formatted alike on the terminal, on pages, in figures and in notebooks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from html import escape
from typing import Any
from unicodedata import bidirectional

import numpy as np

from tiltlens._limits import EXACT_WHOLE

NOTHING = "–"
POWERS = range(-12, 13)  # of ten, among which is the smallest number that a format does not round to 0
LONGEST = 60
MOST_ENTRIES = 12  # maximum number of entries of a list in one cell
MINUS = "\u2212"
HYPHEN = re.compile(r"(?<![\w.)-])-(?=[$¢-¥₠-⃏]?\.?\d)")  # a currency sign such as € may follow the minus
COMPARISONS = ("<", ">", "≤", "≥")  # first characters of bins' labels
ISOLATE, END = "\u2068", "\u2069"  # isolate a name whose direction must not affect the text around it
JOINERS = "\u200c\u200d"  # not printable on their own, but part of words and emoji

Shown = Callable[[float | None], str]


def minus(text: str) -> str:
    """Return a text with minus signs for negative numbers; hyphens between letters and digits are kept."""
    return HYPHEN.sub(MINUS, text)


def capitalised(text: str) -> str:
    """Return a text with a capital first letter; the others stay."""
    return text[:1].upper() + text[1:]


def enumerate_words(texts: Sequence[str]) -> str:
    """Return texts as a list for a sentence: "a, b and c"."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def sentence(note: str) -> str:
    """Return a note as a sentence; a first word that is code keeps its case."""
    first, *_ = note.split(maxsplit=1) or [""]
    text = note if "_" in first or "=" in first else capitalised(note)
    return text if text.endswith(".") else f"{text}."


def typed(text: str) -> str:
    """Return a text with hyphens, which every terminal can display, instead of minus signs."""
    return text.replace(MINUS, "-")


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with `digits` decimals, or with none from 100 on."""
    if value is None:
        return NOTHING
    return minus(f"{value:,.0f}" if abs(value) >= 100 else f"{value:z.{digits}f}")


def short_number(value: float | None) -> str:
    """Return a number with three decimals, for figures and indices."""
    return number(value, 3)


def ratio(value: float | None) -> str:
    """Return a ratio of two rates."""
    return number(value, 2)


def points(value: float | None) -> str:
    """Return a difference in percentage points, with a sign if it is negative."""
    return NOTHING if value is None else minus(f"{100 * value:z.2f}")


def size(value: float, *beside: float) -> str:
    """Return the absolute size of a difference in points, with the same decimals as those `beside` it."""
    least = min(abs(100 * other) for other in (value, *beside))
    return f"{abs(100 * value):.{2 if least < 1 else 1}f}"


def percent(value: float | None) -> str:
    """Return a share as a percentage with one decimal."""
    return NOTHING if value is None else minus(f"{100 * value:z.1f}%")


def brief_percent(value: float | None) -> str:
    """Return a share as in a sentence: with one decimal, but 0 as "0%" and less than that decimal as "< 0.1%"."""
    text = percent(value)
    if value is None or not is_zero(text):
        return text
    return "0%" if value == 0.0 else "< 0.1%" if value > 0.0 else f"> {MINUS}0.1%"


def whole_percent(value: float | None) -> str:
    """Return a share as a whole percentage."""
    return NOTHING if value is None else minus(f"{100 * value:z.0f}%")


def whole(value: float | None) -> str:
    """Return an estimated count as a whole number with a thousands separator."""
    return NOTHING if value is None else minus(f"{value:z,.0f}")


def interval(low: float | None, high: float | None, write: Shown = number) -> str:
    """Return "low to high", each formatted by `shown`; a dash if there is no interval."""
    if low is None and high is None:
        return NOTHING
    write = within(low, high, write)
    return " to ".join("no limit" if end is None else write(end) for end in (low, high))


def within(low: float | None, high: float | None, write: Shown) -> Shown:
    """Return the format of numbers in an interval: if it excludes 0, none is rounded to 0, but written "< 0.01"."""
    if not ((low is not None and low > 0.0) or (high is not None and high < 0.0)):
        return write

    def write_bounded(value: float | None) -> str:
        text = write(value)
        if not value or not is_zero(text):
            return text
        steps = (math.copysign(10.0**power, value) for power in POWERS)
        least = next(step for step in map(write, steps) if not is_zero(step))
        return f"{'<' if value > 0.0 else '>'} {least}"

    return write_bounded


def is_zero(text: str) -> bool:
    """Return whether a number is written as 0."""
    return not any(digit in text for digit in "123456789")


def with_interval(
    value: float | None, low: float | None, high: float | None, write: Shown = number, name: str = "", unit: str = ""
) -> str:
    """Return a value with its interval in brackets: "−12.9 points (95% CI −19.9 to −6.0)".

    `name` precedes the interval, and `unit` follows the value. Without an interval, only the value is returned.
    """
    text = f"{within(low, high, write)(value)} {unit}".rstrip()
    if low is None and high is None:
        return text
    return f"{text} ({f'{name} ' if name else ''}{interval(low, high, write)})"


def interval_name(confidence: float | None, kind: str = "CI") -> str:
    """Return the name of an interval, with its level if one is given."""
    return kind if confidence is None else f"{100 * confidence:g}% {kind}"


def brief_points(*values: float | None) -> Shown:
    """Return a format in points: one decimal if a value is at least a point and none would be shown as 0, else two."""
    largest = max(abs(100 * value) for value in values if value is not None)
    is_hidden = any(value and 0.005 <= abs(100 * value) < 0.05 for value in values)  # with one decimal
    digits = 1 if largest >= 1 and not is_hidden else 2

    def write(value: float | None) -> str:
        text = number(None if value is None else 100 * value, digits)
        return "0" if value is not None and is_zero(text) else text

    return write


@dataclass(frozen=True, slots=True)
class Display:
    """The format of an estimate: its unit, the format of its numbers, and the level of its interval.

    Without a format, numbers are shown in points. For a range, only its two ends are shown.
    """

    unit: str = ""
    write: Shown | None = number
    confidence: float | None = None
    is_range: bool = False
    kind: str = "CI"  # kind of interval

    def text(self, value: float, low: float | None, high: float | None) -> str:
        """Return an estimate as text: "−12.9 points (95% CI −19.9 to −6.0)"."""
        write = brief_points(value, low, high) if self.write is None else self.write
        if self.is_range:
            return f"{interval(low, high, write)} {self.unit}".rstrip()
        return with_interval(value, low, high, write, interval_name(self.confidence, self.kind), self.unit)


def count(value: float | None) -> str:
    """Return a count of people; "fewer than 10" if it is suppressed."""
    return "fewer than 10" if value is None else f"{value:,.0f}"


def p_value(value: float | None) -> str:
    """Return a p-value in words."""
    if value is None:
        return NOTHING
    return "p < 0.001" if value < 0.001 else f"p = {value:.{3 if value < 0.01 else 2}f}"


def label(name: object, longest: int = LONGEST) -> str:
    """Return a name for display: no control characters, long ones shortened in the middle, direction isolated."""
    text = str(name).replace(ISOLATE, "").replace(END, "")
    if len(text) > longest:
        text = f"{text[: longest // 2].rstrip()}…{text[len(text) - (longest - 1) // 2 :].lstrip()}"
    text = "".join(letter if letter.isprintable() or letter in JOINERS else "�" for letter in text)
    is_from_right = any(bidirectional(letter) in ("R", "AL") for letter in text)
    return f"{ISOLATE}{text}{END}" if is_from_right else text


def value_of(name: object, value: object) -> str:
    """Return a value with the name of its column: "Sex = Female", "PriorCounts > 3"."""
    text = str(value)
    if text[:1] in COMPARISONS:
        return f"{name} {text[0]} {text[1:].lstrip()}"
    return f"{name} = {text}"


class FieldTable:
    """A result that notebooks show as a table of its fields, with small counts suppressed."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return field_table(self)


def field_table(result: Any) -> str:
    """Return a dataclass or named tuple as an HTML table; if it has a method `disclosed`, the result of that."""
    visible = result.disclosed() if hasattr(result, "disclosed") else result
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in _public(visible))
    return f"<table><caption>{type(result).__name__}</caption><tbody>{rows}</tbody></table>"


def _public(result: Any) -> Iterable[tuple[str, Any]]:
    """Return the fields that are also saved, in order."""
    is_record = is_dataclass(result)
    names = (
        [item.name for item in fields(result) if item.metadata.get("key", "") is not None]
        if is_record
        else result._fields
    )
    return ((name, getattr(result, name)) for name in names if not name.startswith("_"))


def _cell(value: Any) -> str:
    """Return a value as HTML: frames as tables, nested results by field, numbers as text."""
    if hasattr(value, "get_column"):  # a frame
        return str(value._repr_html_())
    if (is_dataclass(value) or hasattr(value, "_fields")) and not isinstance(value, float):
        return "; ".join(f"{escape(name)}: {_cell(part)}" for name, part in _public(value))
    if isinstance(value, Mapping):
        return "; ".join(f"{escape(str(name))}: {_cell(part)}" for name, part in value.items()) or "–"
    if isinstance(value, tuple | list):
        more = f"; {len(value) - MOST_ENTRIES} more" if len(value) > MOST_ENTRIES else ""
        return "; ".join(map(_cell, value[:MOST_ENTRIES])) + more or "–"
    if type(value) is float:
        return f"{value:.4g}"
    return "–" if value is None or value == "" else escape(str(value))


def text_of(value: object) -> str:
    """Return a value as people write it: 1.0 as "1", True as "True", midnight as a date only."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_WHOLE:
        return str(int(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix(" 00:00:00")
    return str(value)
