"""Independent pieces of work on all cores, with the same results in the same order whatever their number."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController, threadpool_limits

from tiltmeter.progress import each

MOST_THREADS = 8  # a hundred cores would hold a hundred batches of rows
FEW_ROWS = 20_000  # below which threads wait for the interpreter more than they work

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Return how many threads there are: one a core, but each holds what it works on."""
    return min(cores(), MOST_THREADS)


def one_thread() -> threadpool_limits:
    """Return the limit of one thread for BLAS and OpenMP: on busy cores they wait for their own threads."""
    import sklearn.utils  # noqa: F401  its OpenMP can be limited only once it is loaded

    return threadpool_limits(limits=1)


def in_threads(work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
    """Return `work` of each item, in their order; one thread a core where the items look at many rows."""
    if rows < FEW_ROWS:
        return [work(item) for item in items]
    with _pool() as pool:
        return list(pool.map(work, items))


def steps_in_threads(work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
    """Return the same as `in_threads`; the items are equal steps of the stage."""
    if rows < FEW_ROWS:
        return [work(item) for item in each(items)]
    with _pool() as pool:
        return [result for _, result in zip(each(items), pool.map(work, items), strict=True)]


def made_in_order(function: Callable[[T], R], items: Iterable[T]) -> Generator[R]:
    """Yield function(item) for each item in turn, a few of them in work at a time.

    Items are taken by the caller's thread. Where one fails, or the caller stops, those not begun are dropped.
    """
    waiting: deque[Future[R]] = deque()
    with _pool() as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def _pool() -> Iterator[ThreadPoolExecutor]:
    """Give one thread a core, in each of which BLAS and OpenMP have one.

    Python's list of warnings to be shown is one for all threads, and scikit-learn swaps it while it bins; so it is put
    back in the end, and what scikit-learn says of a swap in between is not shown.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn.utils.parallel")
        with _libraries().limit(limits=1):
            pool = ThreadPoolExecutor(threads(), initializer=_limit_openmp)
            try:
                yield pool
            finally:
                pool.shutdown(cancel_futures=True)


def _limit_openmp() -> None:
    """Limit OpenMP in this thread: unlike BLAS it has a limit for each."""
    _libraries().limit(limits=1, user_api="openmp")


@cache
def _libraries() -> ThreadpoolController:
    """Return what has threads of its own among numpy, scipy and scikit-learn; looking for it takes milliseconds."""
    import sklearn.utils  # noqa: F401

    return ThreadpoolController()
