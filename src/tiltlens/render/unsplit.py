"""Texts whose intervals and numbers stay on one line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from tiltlens.formats import MINUS

INTERVAL = re.compile(r"\([^()]* to [^()]*\)")
SHORT = re.compile(r"\d+% CIs?|\S+ [<=≤] \S+|\S*\d\S* to \S*\d\S*")  # "p < 0.001", "2 to 5%"
LONGEST = 36  # characters of an interval that fit on a line of a phone
NO_BREAK = "\u00a0"
JOINED = "\u2060"  # no line ends here: between a minus sign and a currency
GLUE = "\ue000"  # Rich ends lines at no-break spaces too, so a letter of private use stands for them


def unsplit(text: str) -> str:
    """Return a text whose intervals, such as "(95% CI −$6.0 to $19.9)", and their numbers stay on one line."""
    return re.sub(rf"{MINUS}(?=[^\d\s])", MINUS + JOINED, _glued(text, NO_BREAK))


def _glued(text: str, glue: str) -> str:
    for pattern in (INTERVAL, SHORT):
        text = pattern.sub(lambda part: part[0].replace(" ", glue) if len(part[0]) <= LONGEST else part[0], text)
    return text


@dataclass(frozen=True, slots=True)
class Unsplit:
    """A paragraph on a terminal, in one style."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield its lines."""
        for line in Text(_glued(self.text, GLUE)).wrap(console, options.max_width):
            yield Text(line.plain.rstrip().replace(GLUE, " "), self.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return its least and its greatest width."""
        return Measurement.get(console, options, Text(_glued(self.text, GLUE)))
