"""Print the modules and functions that a small audit in memory, and its printing, run through: a map for readers."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import polars as pl

import tiltlens as tl

ROWS = 400


def people() -> pl.DataFrame:
    """Return people of two groups with a number, a category and a score."""
    random = np.random.default_rng(0)
    audited = random.random(ROWS) < 0.4
    income = random.normal(50 - 5 * audited, 10)
    city = np.where(random.random(ROWS) < 0.3 + 0.3 * audited, "North", "South")
    score = 1 / (1 + np.exp(-(income - 50) / 10 - 0.4 * (city == "North")))
    return pl.DataFrame({"group": np.where(audited, "A", "B"), "income": income, "city": city, "score": score})


def touched_by(action: Callable[[], object]) -> dict[str, set[str]]:
    """Run an action under a profiler that only takes names, and return the functions of each module."""
    touched: dict[str, set[str]] = defaultdict(set)

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("tiltlens.") and frame.f_code.co_name != "<module>":
            touched[name].add(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return touched


def measure() -> Iterator[tuple[str, dict[str, set[str]]]]:
    """Yield what the second of two audits runs through, and its printing: the first imports modules."""
    data = people()
    audits: list[tl.Audit] = []

    def audit() -> None:
        audits.append(tl.audit(data, "group", reference="B", scores="score"))

    audit()
    str(audits[0])
    yield "tl.audit", touched_by(audit)
    yield "print(audit)", touched_by(lambda: str(audits[-1]))


def main() -> None:
    """Print the modules and functions of an audit and of its printing."""
    for heading, touched in measure():
        for name in sorted(touched):
            print(f"{name:40} {len(touched[name]):4}")
        print(f"{heading}: {len(touched)} modules, {sum(map(len, touched.values()))} functions\n")


if __name__ == "__main__":
    main()
