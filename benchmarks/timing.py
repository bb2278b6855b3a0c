"""How the benchmarks take time, and how they say whether a limit holds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


def best_of(runs: int, function: Callable[[], Any]) -> float:
    """Return the shortest of several runs in seconds: the one least disturbed by anything else."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


class Row(NamedTuple):
    """What was measured, beside its limit if it has one; NaN is not measured."""

    what: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None
    detail: str = ""

    @property
    def is_miss(self) -> bool:
        """Whether the number is outside its limit."""
        is_over = self.most is not None and self.value > self.most
        return is_over or (self.least is not None and self.value < self.least)

    def __str__(self) -> str:
        value = "not measured" if math.isnan(self.value) else f"{self.value:,.4g} {self.unit}"
        limit = "" if self.most is None else f", at most {self.most:,g}"
        limit += "" if self.least is None else f", at least {self.least:,g}"
        detail = f" ({self.detail})" if self.detail else ""
        return f"{'MISS  ' if self.is_miss else '      '}{self.what}: {value}{limit}{detail}"


def printed(rows: Iterable[Row]) -> int:
    """Print each row as soon as it is measured, and return how many miss their limit."""
    missed = 0
    for row in rows:
        print(row, flush=True)
        missed += row.is_miss
    return missed
