"""Errors of tiltlens. A message says what happened and why, with the value; a line *Hint:* says what to do."""

from __future__ import annotations

from importlib import import_module
from typing import Any


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
    """A probability distribution, a channel or a set of scores is not one."""


class WeightsError(TiltlensError):
    """The weights λ, or row weights, are negative, not finite or all zero."""


class SupportError(TiltlensError):
    """A quantity is infinite, or no solution exists, because of where the groups have no mass."""


class NotSmoothError(TiltlensError):
    """The objective has no derivative at the audited group's distribution."""


class NotBinaryError(TiltlensError, AttributeError):
    """A quantity of the paper that exists for two outcomes only was requested for another model."""


class ConvergenceError(TiltlensError):
    """A solver stopped before it could prove its answer."""


class DataError(TiltlensError):
    """Rows, columns or files are not what the analysis needs."""


class NothingToDrawError(DataError):
    """A result has none of the numbers that a figure shows."""


class MissingExtraError(TiltlensError, ImportError):
    """A feature needs packages that a plain installation leaves out."""

    def __init__(self, message: str, hint: str = "", *, extra: str | None = None) -> None:
        install = "" if extra is None else f"in the clone of tiltlens run pip install '.[{extra}]'"
        super().__init__(message, f"{install}{hint}")


def import_extra(package: str, purpose: str, extra: str | None = None) -> Any:
    """Return a package that a plain installation leaves out; `extra` of tiltlens brings it, or pip alone."""
    try:
        return import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        hint = "" if extra is not None else f"pip install {name}"
        raise MissingExtraError(f"{purpose} requires {name}, which is not installed.", hint, extra=extra) from None


class NeedsRowsError(DataError, AttributeError):
    """A saved audit was asked for something that needs the rows, which only an audit in memory has."""
