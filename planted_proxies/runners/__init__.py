"""A tool is one file here: a few words about it, and `run(draw)`, which asks it about one table.

    name      what the row is called
    requires  what pip installs for it
    page      the page of its documentation that says how it is used
    asked     what it was asked, in a sentence
    given     what it is given beside the table and the groups: "scores", "model" or "nothing"
    rule      its own rule for calling a feature evidence, or None
    run       Draw → {feature: Answer}; under "group" what it says of direct use, under "(gap)" the gap, with interval

A tool leaves out what it does not answer. `takes_chances = True` says that it takes groups known by probabilities;
others receive the likelier group. Each file is run in an environment of its own, so imports of tools stand in `run`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from planted_proxies.worlds import GROUP, Draw

GAP = "(gap)"
SPECIAL = (GROUP, GAP)


class Answer(NamedTuple):
    """What a tool says of a feature.

    `value` ranks features, in any unit. `low` and `high` are its interval of the part of the gap that goes through the
    feature alone; of "group", of what people alike in all features differ by; of "(gap)", of the gap.
    """

    value: float
    low: float | None = None
    high: float | None = None
    verdict: bool | None = None  # is this evidence, by the tool's own rule?
    word: str = ""  # its own word for it

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Answer:
        """Return an answer from a plain dict."""
        return cls(**found)


class Runner(Protocol):
    """A tool."""

    name: str
    requires: tuple[str, ...]
    page: str
    asked: str
    given: str
    rule: str | None

    def run(self, draw: Draw) -> dict[str, Answer]:
        """Return what the tool says of every feature."""
        ...


def files() -> list[str]:
    """Return the names of the files, tiltlens first."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return sorted(found, key=lambda one: one != "tiltlens")


def runner(file: str) -> Any:
    """Return the tool of a file."""
    return importlib.import_module(f"{__name__}.{file}")


def runners() -> Iterator[tuple[str, Any]]:
    """Yield every file with its tool."""
    yield from ((file, runner(file)) for file in files())
