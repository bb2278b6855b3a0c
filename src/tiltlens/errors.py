"""Errors of tiltlens, the parts of their messages, and the rule that no output replaces an input or another output.

A message states what happened and why, with the value; a line *Hint:* states what to do.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class TiltlensError(ValueError):
    """An invalid argument or invalid data; the parent of all errors of tiltlens.

    Examples
    --------
    >>> import tiltlens as tl
    >>> try:
    ...     tl.audit({"sex": ["women", "men"], "score": [40, 60]}, "sex", scores="score")
    ... except tl.TiltlensError as mistake:
    ...     print(str(mistake).splitlines()[0])  # the next line is a hint
    `scores` must give scores between 0 and 1, got 40.0 in row 0.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\nHint: {hint}" if hint else message)


class DistributionError(TiltlensError):
    """An argument is not a valid probability distribution, channel or set of scores."""


class WeightsError(TiltlensError):
    """The weights λ, or row weights, are negative, not finite or all zero."""


class SupportError(TiltlensError):
    """A quantity is infinite, or a solution does not exist, because the groups differ in support."""


class NotSmoothError(TiltlensError):
    """The objective has no derivative at the audited group's distribution."""


class NotBinaryError(TiltlensError, AttributeError):
    """A quantity of the paper that is only defined for two outcomes was requested for another model."""


class ConvergenceError(TiltlensError):
    """A solver stopped before its solution met the tolerance."""


class DataError(TiltlensError):
    """Rows, columns or files are not suitable for the analysis."""


class NothingToDrawError(DataError):
    """A result has none of the numbers that a figure shows."""


class MissingExtraError(TiltlensError, ImportError):
    """A feature needs packages that a plain installation does not include."""

    def __init__(self, message: str, hint: str = "", *, extra: str | None = None) -> None:
        install = "" if extra is None else f"in the clone of tiltlens run pip install '.[{extra}]'"
        super().__init__(message, f"{install}{hint}")


def import_extra(package: str, purpose: str, extra: str | None = None) -> Any:
    """Return an optional package; raise, with the command to install it or the `extra`, if it is missing."""
    try:
        return import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        hint = "" if extra is not None else f"pip install {name}"
        raise MissingExtraError(f"{purpose} requires {name}, which is not installed.", hint, extra=extra) from None


class NeedsRowsError(DataError, AttributeError):
    """A method of a saved audit needs the rows, which only an audit in memory has."""


SHOWN_CHARACTERS = 60  # of a value in a message, so that it fits on a line
SHOWN_NAMES = 20  # in a message, followed by "and 12 more"
SECRET = re.compile(r"://[^\s/@]*@|password=\S+", re.IGNORECASE)
Errors = type[Exception] | tuple[type[Exception], ...]


def quoted(value: object) -> str:
    """Return a value for a message: quoted, and shortened to less than a line."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 2] + "…" + text[-1]


def quoted_list(values: Sequence[object]) -> str:
    """Return values for a message: the first ones, and the number of the others."""
    text = ", ".join(quoted(value) for value in values[:SHOWN_NAMES])
    return text if len(values) <= SHOWN_NAMES else f"{text} and {len(values) - SHOWN_NAMES} more"


def texts_of(argument: str, value: object) -> list[str]:
    """Return one text, or several, as a list; an empty list for None."""
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    if not isinstance(value, Iterable):
        example = "for example 'age', or ['age', 'income']."
        raise DataError(f"`{argument}` must be a text or a list of texts, got {quoted(value)}.", example)
    return list(value)


def names_in(value: object) -> list[str] | None:
    """Return one text, or a list of texts, as a list; None for anything else, such as an array."""
    entries = value if isinstance(value, (list, tuple)) else [value]
    names = [entry for entry in entries if isinstance(entry, str)]
    return names if len(names) == len(entries) else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without passwords from database URLs."""
    lines = str(error).strip().splitlines() or [""]
    return SECRET.sub("…", lines[0])[:200]


@contextmanager
def wrap_errors(problem: str, hint: str, *, kinds: Errors = Exception, hide_cause: bool = False) -> Iterator[None]:
    """Convert errors of other code, such as a user's query or a library, to a DataError with their first line.

    `problem` says what cannot be done. Errors of tiltlens pass as they are. `hide_cause` hides the original error in
    the traceback, because it may contain a password or is not useful.
    """
    try:
        yield
    except TiltlensError:
        raise
    except kinds as error:
        message = f"{problem}. {type(error).__name__}: {first_line(error)}"
        raise DataError(message, hint) from (None if hide_cause else error)


def nearest_name(name: object, names: Sequence[str]) -> str | None:
    """Return the closest name, ignoring letter case, or None if there is no close one."""
    folded = {candidate.casefold()[:200]: candidate for candidate in reversed(names)}
    close = get_close_matches(str(name).casefold()[:200], list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def check_columns(argument: str, wanted: Iterable[str], names: Sequence[str], what: str = "column") -> None:
    """Raise for the first wanted column that does not exist, with the closest name that does."""
    existing = set(names)
    for name in wanted:
        if name not in existing:
            nearest = nearest_name(name, names)
            suggestion = f"did you mean {quoted(nearest)}? " if nearest is not None else ""
            raise DataError(
                f"{what.capitalize()} {quoted(name)} not found (`{argument}`).",
                f"{suggestion}available {what}s: {quoted_list(names)}." if names else f"no {what} is listed.",
            )


def check_case(wanted: Sequence[str], names: Sequence[str]) -> None:
    """Raise if a wanted column has a name that differs from another only in case, which some engines ignore."""
    twins: dict[str, list[str]] = {}
    for name in names:
        twins.setdefault(name.casefold(), []).append(name)
    for name in wanted:
        if len(twins[name.casefold()]) > 1:
            raise DataError(
                f"Column names differ in letter case only: {quoted_list(twins[name.casefold()])}.", "rename one."
            )


def checked_names(names: Sequence[object]) -> list[str]:
    """Return the names of columns; raise unless they are distinct texts and not patterns."""
    if not names:
        raise DataError("`data` has no columns.", "look at what was selected before.")
    for name in names:
        if not isinstance(name, str):
            raise DataError(
                f"Column names must be text, got {quoted(name)} ({type(name).__name__}).",
                "rename the columns, for example data.columns = data.columns.map(str).",
            )
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise DataError(
            f"{names.count(repeated)} columns have the name {quoted(repeated)}.", "rename or drop the copies."
        )
    texts = [str(name) for name in names]
    for name in texts:
        if name == "*" or (name.startswith("^") and name.endswith("$")):  # Polars would select all matching columns
            raise DataError(f"Column name {quoted(name)} is a pattern that may match other columns.", "rename it.")
        if "\0" in name:  # reserved for columns that tiltlens adds
            raise DataError(f"Column name {quoted(name)} contains a null character.", "rename it.")
    return texts


READ: dict[str, Input] = {}  # all inputs that this process has read, by absolute name
TABLES: set[Path] = set()  # tables that `apply` wrote in this process
TABLE = "table"


class Input(NamedTuple):
    """A file, folder or pattern that is read, with the name given by the user."""

    name: str
    files: tuple[Path, ...]
    would_read: Callable[[Path], bool] = lambda _: False  # whether a new file would be read too
    schema: str | None = None  # of a file that tiltlens wrote; results of the same schema may replace it

    @classmethod
    def file(cls, path: str | os.PathLike[str], schema: str | None = None) -> Input:
        """Return the input of a single file."""
        return cls(os.fspath(path), (Path(path).absolute(),), schema=schema)

    def holds(self, path: Path) -> bool:
        """Return whether writing `path` would replace one of these files or add one; links are followed."""
        return self.would_read(path) or (
            path.exists() and any(file.exists() and path.samefile(file) for file in self.files)
        )


def remember(*inputs: Input) -> None:
    """Record inputs, because results in Python do not know the files that they come from."""
    for source in inputs:
        is_own = TABLES.issuperset(Path(os.path.realpath(file)) for file in source.files)
        READ[str(Path(source.name).absolute())] = source._replace(schema=TABLE) if is_own else source


def check_unread(path: Path, schema: str | None) -> None:
    """Raise if writing would replace a file that was read, except by a newer result with the same schema."""
    inputs = [source for source in list(READ.values()) if schema is None or source.schema != schema]
    check_outputs([("The output", path)], inputs)


def check_outputs(outputs: Iterable[tuple[str, str | Path | None]], inputs: Iterable[Input]) -> None:
    """Raise if an output, given with its option, would replace an input or another output."""
    taken: dict[tuple[Path, str], str] = {}
    for option, target in outputs:
        path = Path(os.path.realpath(target or "-"))
        if target in (None, "-") or not (path.is_file() or path.is_dir() or not path.exists()):
            continue  # standard output, a pipe or a device
        read = next((source for source in inputs if source.holds(path)), None)
        # Some file systems treat "A.json" and "a.json", or two encodings of "é", as one file.
        key = path.parent, unicodedata.normalize("NFC", path.name).casefold()
        if read is not None:
            why = f"it is part of the input {read.name!r}"
        elif key in taken:
            why = f"{taken[key]} is written there"
        else:
            taken[key] = option
            continue
        raise DataError(f"{option} cannot be written to {str(target)!r} because {why}.", "choose another name.")


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of an existing file; raise if it does not exist."""
    if not isinstance(path, str | os.PathLike):
        raise DataError(f"`path` must be the name of a file, got {quoted(path)}.", "for example 'model.onnx'.")
    file = Path(path)
    if not file.is_file():
        raise _missing_file(file)
    if any("\ud800" <= letter <= "\udfff" for letter in str(file)):
        raise DataError(f"{str(file)!r} cannot be opened: its name is not valid UTF-8.", "rename the file.")
    return file


def _missing_file(file: Path) -> DataError:
    given = repr(str(file))  # in full, because the end of a long path is most informative
    if file.is_dir():
        return DataError(f"{given} is a folder, not a file.", "name one file.")
    if file.is_symlink():
        return DataError(f"{given} is a link to {str(file.readlink())!r}, which does not exist.", "mend the link.")
    neighbours = sorted(entry.name for entry in file.parent.iterdir()) if file.parent.is_dir() else []
    stems = {Path(name).stem: name for name in reversed(neighbours)}  # compared without endings, which are often equal
    nearest = stems.get(nearest_name(file.stem, list(stems)) or "")
    hint = (
        f"did you mean {quoted(nearest)}?"
        if nearest is not None
        else f"it was looked for in {os.path.realpath(file.parent)}."
    )
    return DataError(f"File not found: {given}.", hint)
