"""Parts of messages: values, names and lists as a line can show them, errors of other code, and checks of names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches

import numpy as np

from tiltlens.errors import DataError, TiltlensError
from tiltlens.limits import EXACT_WHOLE

SHOWN_CHARACTERS = 60  # of a value in a message: it stays on its line
SHOWN_NAMES = 20  # in a message, before "and 12 more"
SECRET = re.compile(r"://[^\s/@]*@|password=\S+", re.IGNORECASE)
Errors = type[Exception] | tuple[type[Exception], ...]


def shown(value: object) -> str:
    """Return a value as a message may print it: quoted, and not longer than a line."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 2] + "…" + text[-1]


def listed(values: Sequence[object]) -> str:
    """Return values as a message may print them: the first few, then how many more."""
    text = ", ".join(shown(value) for value in values[:SHOWN_NAMES])
    return text if len(values) <= SHOWN_NAMES else f"{text} and {len(values) - SHOWN_NAMES} more"


def texts_of(argument: str, value: object) -> list[str]:
    """Return one text, or several, as a list; None is none."""
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    if not isinstance(value, Iterable):
        example = "for example 'age', or ['age', 'income']."
        raise DataError(f"`{argument}` must be a text or a list of texts, got {shown(value)}.", example)
    return list(value)


def names_in(value: object) -> list[str] | None:
    """Return one text, or a list of them, as a list; None where it is something else, such as an array."""
    entries = value if isinstance(value, (list, tuple)) else [value]
    names = [entry for entry in entries if isinstance(entry, str)]
    return names if len(names) == len(entries) else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without passwords that the URL of a database may hold."""
    lines = str(error).strip().splitlines() or [""]
    return SECRET.sub("…", lines[0])[:200]


@contextmanager
def wrap_errors(problem: str, hint: str, *, kinds: Errors = Exception, hide_cause: bool = False) -> Iterator[None]:
    """Raise what other code raises, such as a user's query or a library, as a DataError with the first line of it.

    Parameters
    ----------
    problem, hint
        What cannot be done because of the error; and what to do.
    kinds
        The errors to wrap. Errors of tiltlens pass as they are.
    hide_cause
        Whether the traceback must not show the original error, which may hold a password, or nothing of use.
    """
    try:
        yield
    except TiltlensError:
        raise
    except kinds as error:
        message = f"{problem}. {type(error).__name__}: {first_line(error)}"
        raise DataError(message, hint) from (None if hide_cause else error)


def text_of(value: object) -> str:
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


def check_columns(argument: str, wanted: Iterable[str], names: Sequence[str], what: str = "column") -> None:
    """Raise for the first wanted column that is not there, with the nearest name that is."""
    existing = set(names)
    for name in wanted:
        if name not in existing:
            nearest = nearest_name(name, names)
            suggestion = f"did you mean {shown(nearest)}? " if nearest is not None else ""
            raise DataError(
                f"{what.capitalize()} {shown(name)} not found (`{argument}`).",
                f"{suggestion}available {what}s: {listed(names)}.",
            )


def check_case(wanted: Sequence[str], names: Sequence[str]) -> None:
    """Raise where a wanted column has a twin: engines disagree on whether "Age" and "age" are one name."""
    twins: dict[str, list[str]] = {}
    for name in names:
        twins.setdefault(name.casefold(), []).append(name)
    for name in wanted:
        if len(twins[name.casefold()]) > 1:
            raise DataError(
                f"Column names differ in letter case only: {listed(twins[name.casefold()])}.", "rename one."
            )


def checked_names(names: Sequence[object]) -> list[str]:
    """Return names of columns, which must be distinct strings."""
    if not names:
        raise DataError("`data` has no columns.", "look at what was selected before.")
    for name in names:
        if not isinstance(name, str):
            raise DataError(
                f"Column names must be text, got {shown(name)} ({type(name).__name__}).",
                "rename the columns, for example data.columns = data.columns.map(str).",
            )
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise DataError(
            f"{names.count(repeated)} columns have the name {shown(repeated)}.", "rename or drop the copies."
        )
    texts = [str(name) for name in names]
    for name in texts:
        if name == "*" or (name.startswith("^") and name.endswith("$")):  # Polars selects every column that matches
            raise DataError(f"Column name {shown(name)} is a pattern that may match other columns.", "rename it.")
        if "\0" in name:  # as in the names of columns that tiltlens adds
            raise DataError(f"Column name {shown(name)} contains a null character.", "rename it.")
    return texts
