"""How the benchmarks take time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def best_of(runs: int, function: Callable[[], Any]) -> float:
    """Return the shortest of several runs in seconds: the one least disturbed by anything else."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)
