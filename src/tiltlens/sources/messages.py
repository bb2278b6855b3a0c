"""What messages are made of: values, names and lists as a line can show them, and the checks of names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

import numpy as np

from tiltlens.errors import DataError
from tiltlens.limits import EXACT_WHOLE, SHOWN_CHARACTERS, SHOWN_NAMES


def shown(value: object) -> str:
    """Return a value as a message may print it: quoted, and not longer than a line."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 2] + "…" + text[-1]


def listed(values: Sequence[object]) -> str:
    """Return values as a message may print them: the first few, then how many more."""
    text = ", ".join(shown(value) for value in values[:SHOWN_NAMES])
    return text if len(values) <= SHOWN_NAMES else f"{text} and {len(values) - SHOWN_NAMES} more"


def texts_of(argument: str, value: Any) -> list[str]:
    """Return one text, or several, as a list; None is none."""
    try:
        return [] if value is None else [value] if isinstance(value, str) else list(value)
    except TypeError:
        example = "for example 'age', or ['age', 'income']."
        raise DataError(f"`{argument}` must be a text or a list of texts, got {shown(value)}.", example) from None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, which is all that a message of ours repeats."""
    lines = str(error).strip().splitlines() or [""]
    return lines[0][:200]


def text_of(value: Any) -> str:
    """Return a value as people write it: 1.0 is "1", True is "True", midnight is only its date."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_WHOLE:
        return str(int(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix(" 00:00:00")
    return str(value)


def nearest_name(name: object, names: Sequence[str]) -> str | None:
    """Return the name that was probably meant, if one is close; letter case does not count."""
    folded = {candidate.casefold()[:200]: candidate for candidate in reversed(names)}
    close = get_close_matches(str(name).casefold()[:200], list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def check_columns(argument: str, wanted: Iterable[str], names: Sequence[str], what: str = "columns") -> None:
    """Raise for the first wanted column that the table does not have, with the nearest name that it has."""
    existing = set(names)
    for name in wanted:
        if name not in existing:
            rule = "must have the columns asked for, but has no" if argument == "data" else f"must name {what}, got"
            nearest = nearest_name(name, names)
            suggestion = f"did you mean {shown(nearest)}? " if nearest is not None else ""
            raise DataError(f"`{argument}` {rule} {shown(name)}.", f"{suggestion}the {what} are {listed(names)}.")


def check_case(wanted: Sequence[str], names: Sequence[str]) -> None:
    """Raise where a wanted column has a twin: engines disagree on whether "Age" and "age" are one name."""
    twins: dict[str, list[str]] = {}
    for name in names:
        twins.setdefault(name.casefold(), []).append(name)
    for name in wanted:
        if len(twins[name.casefold()]) > 1:
            raise DataError(
                f"column names must differ in more than letter case, got {listed(twins[name.casefold()])}.",
                "rename one of them.",
            )


def checked_names(names: list[Any]) -> list[str]:
    """Return names of columns, which must be distinct strings."""
    if not names:
        raise DataError("`data` must have columns, got a table without any.", "look at what was selected before.")
    strangers = [name for name in names if not isinstance(name, str)]
    if strangers:
        raise DataError(
            f"column names must be text, got {shown(strangers[0])} ({type(strangers[0]).__name__}).",
            "rename the columns, for example data.columns = data.columns.map(str).",
        )
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(
                f"column names must be distinct, got {shown(name)} {names.count(name)} times.",
                "rename or drop the copies.",
            )
        seen.add(name)
    return names
