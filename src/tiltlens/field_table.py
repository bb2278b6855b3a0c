"""Results as tables in notebooks: one row per field, for results without a document of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

MOST_ENTRIES = 12  # of a list in one cell


class FieldTable:
    """A result that a notebook shows as a table of its fields, with small counts suppressed."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return field_table(self)


def field_table(result: Any) -> str:
    """Return a dataclass or named tuple as an HTML table; of a result with `disclosed` what that returns."""
    shown = result.disclosed() if hasattr(result, "disclosed") else result
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in _public(shown))
    return f"<table><caption>{type(result).__name__}</caption><tbody>{rows}</tbody></table>"


def _public(result: Any) -> Iterable[tuple[str, Any]]:
    names = [item.name for item in fields(result)] if is_dataclass(result) else result._fields
    return ((name, getattr(result, name)) for name in names if not name.startswith("_"))


def _cell(value: Any) -> str:
    """Return a value as HTML: frames as tables, parts with their fields, numbers as results print them."""
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
