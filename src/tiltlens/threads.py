"""Independent pieces of work on all cores, with the same results in the same order whatever their number.

What is to run beside others takes products of long rows with `np.dot`: where the result is small, `@` keeps the
interpreter to itself until it is done.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from tiltlens.errors import TiltlensError
from tiltlens.progress import each, stage

LIBRARIES = 0.05  # of the time of the fits, about
MOST_THREADS = 8  # a hundred cores would hold a hundred batches of rows
THREADED_ROWS = 8_000  # below which threads wait for the interpreter more than they work
T = TypeVar("T")
R = TypeVar("R")
STARTED: set[int] = set()  # the process in which Polars may have threads


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Return how many threads there are: one a core, but each holds what it works on."""
    return min(cores(), MOST_THREADS)


def check_threads() -> None:
    """Raise in a process forked after its parent used Polars: its threads are gone, and it would wait for ever."""
    if STARTED and os.getpid() not in STARTED:
        raise TiltlensError(
            "tiltlens cannot run in this process because it was forked after its parent had run tiltlens.",
            'start processes anew, for example with multiprocessing.get_context("spawn").Pool(), or use joblib.',
        )
    STARTED.add(os.getpid())


@contextmanager
def one_thread(is_fitting: bool = False) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread: on busy cores they wait for their own threads.

    Pass `is_fitting` where scikit-learn will be used inside: its OpenMP must be loaded before it can be limited.

    The limit holds for the whole process, as does Python's list of warnings to be shown, which scikit-learn swaps while
    it bins in several threads. Both are put back by whoever leaves last, and what scikit-learn says of a swap is not
    shown.
    """
    if is_fitting and "sklearn.utils" not in sys.modules:
        with stage(0.0, LIBRARIES, "loading libraries"):  # it takes seconds
            import sklearn.utils  # noqa: F401
    with LIMIT.lock:
        LIMIT.depth += 1
        if LIMIT.depth == 1:
            LIMIT.stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", module="sklearn.utils.parallel")
            LIMIT.stack.enter_context(_libraries().limit(limits=1))
    try:
        yield
    finally:
        with LIMIT.lock:
            LIMIT.depth -= 1
            if LIMIT.depth == 0:
                LIMIT.stack.close()


class _Limit:
    """How many have asked for one thread, and what puts everything back."""

    def __init__(self) -> None:
        self.lock, self.depth, self.stack = Lock(), 0, ExitStack()


LIMIT = _Limit()


def in_threads(work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
    """Return `work` of each item, in their order; one thread a core where the items look at many rows."""
    if rows < THREADED_ROWS:
        return [work(item) for item in items]
    with _pool() as pool:
        return list(pool.map(work, items))


def steps_in_threads(work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
    """Return the same as `in_threads`; the items are equal steps of the stage."""
    if rows < THREADED_ROWS:
        return [work(item) for item in each(items)]
    with _pool() as pool:
        return [result for _, result in zip(each(items), pool.map(work, items), strict=True)]


def made_in_order(function: Callable[[T], R], items: Iterable[T]) -> Generator[R]:
    """Yield function(item) for each item in turn, a few of them in work at a time.

    Items are taken by the caller's thread. Where one fails, or the caller stops, those not begun are dropped.
    """
    waiting: deque[Future[R]] = deque()
    with _pool(is_fitting=False) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def _pool(is_fitting: bool = True) -> Iterator[ThreadPoolExecutor]:
    """Give one thread a core, in each of which BLAS and OpenMP have one."""
    with one_thread(is_fitting):
        pool = ThreadPoolExecutor(threads(), initializer=_limit_openmp)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def _limit_openmp() -> None:
    """Limit OpenMP in this thread: unlike BLAS it has a limit for each."""
    _libraries().limit(limits=1, user_api="openmp")


def _libraries() -> ThreadpoolController:
    """Return what has threads of its own among numpy, scipy and scikit-learn."""
    return _find_libraries("sklearn.utils" in sys.modules)


@cache
def _find_libraries(has_sklearn: bool) -> ThreadpoolController:
    """Return the libraries that are loaded; looking for them takes milliseconds, so once before scikit-learn is."""
    return ThreadpoolController()
