"""One thread a core: what is made of many items comes back in their order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

MOST_THREADS = 8  # each holds an item: a hundred cores would hold a hundred batches

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def made_in_order(function: Callable[[T], R], items: Iterable[T]) -> Generator[R]:
    """Yield function(item) for each item in turn, a few of them in work at a time.

    Items are taken by the caller's thread. Where one fails, or the caller stops, those not begun are dropped.
    """
    threads = min(cores(), MOST_THREADS)
    waiting: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(threads)
    with threadpool_limits(limits=1, user_api="blas"):  # its threads would wait for ours
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
