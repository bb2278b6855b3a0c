"""Independent pieces of work on all cores, with the same results in the same order; and the progress of an audit.

What is to run beside others takes products of long rows with `np.dot`: where the result is small, `@` keeps the
interpreter to itself until it is done.

The listener is kept in a context variable. Every audit sets its own, and other threads have none.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from tiltlens.errors import TiltlensError

LIBRARIES = 0.05  # approximate share of the time of the fits
MOST_THREADS = 8  # a hundred cores would need the memory of a hundred batches of rows
THREADED_ROWS = 8_000  # with fewer rows, threads wait for the GIL more than they work
T = TypeVar("T")
R = TypeVar("R")
LOCK, LIMITS = Lock(), list[ExitStack]()  # for each context that limits threads, the stack that restores their number
STARTED: set[int] = set()  # the processes in which Polars may have started threads


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Return the number of threads: one per core, but limited because each needs memory for its batch."""
    return min(cores(), MOST_THREADS)


def check_threads() -> None:
    """Raise in a process that was forked after its parent used Polars, whose threads are missing, so it would hang."""
    if STARTED and os.getpid() not in STARTED:
        raise TiltlensError(
            "tiltlens cannot run in this process because it was forked after its parent had run tiltlens.",
            'start processes anew, for example with multiprocessing.get_context("spawn").Pool(), or use joblib.',
        )
    STARTED.add(os.getpid())


@contextmanager
def one_thread(is_fitting: bool = False) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread, since on busy cores they wait for their own threads.

    Set `is_fitting` if scikit-learn is used inside, because its OpenMP must be loaded before it can be limited.

    The limit applies to the whole process, as does Python's list of warning filters, which scikit-learn replaces while
    it bins in several threads. Both are restored when the last context exits, and warnings of scikit-learn about this
    are hidden.
    """
    if is_fitting and "sklearn.utils" not in sys.modules:
        with stage(0.0, LIBRARIES, "loading libraries"):  # it takes seconds
            import sklearn.utils  # noqa: F401
    with LOCK:
        LIMITS.append(LIMITS[0] if LIMITS else ExitStack())
        if len(LIMITS) == 1:
            LIMITS[0].enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", module="sklearn.utils.parallel")
            LIMITS[0].enter_context(_libraries("sklearn.utils" in sys.modules).limit(limits=1))
    try:
        yield
    finally:
        with LOCK:
            stack = LIMITS.pop()
            if not LIMITS:
                stack.close()


def in_threads(work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
    """Return `work` of each item, in order; if the items use many rows, with one thread per core."""
    if rows < THREADED_ROWS:
        return [work(item) for item in items]
    with _pool() as pool:
        return list(pool.map(work, items))


def steps_in_threads(work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
    """Return the same as `in_threads`; each item is an equal step of the current stage."""
    if rows < THREADED_ROWS:
        return [work(item) for item in each(items)]
    with _pool() as pool:
        return [result for _, result in zip(each(items), pool.map(work, items), strict=True)]


def map_in_order(function: Callable[[T], R], items: Iterable[T]) -> Generator[R]:
    """Yield function(item) for each item in order, with a few of them in progress at a time.

    The caller's thread takes the items. If one fails, or the caller stops, those not yet started are cancelled.
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
    """Yield a pool with one thread per core, each of which limits BLAS and OpenMP to one thread."""
    with one_thread(is_fitting):
        pool = ThreadPoolExecutor(threads(), initializer=_limit_openmp)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def _limit_openmp() -> None:
    """Limit OpenMP in this thread, because its limit applies per thread, unlike that of BLAS."""
    _libraries("sklearn.utils" in sys.modules).limit(limits=1, user_api="openmp")


@cache
def _libraries(has_sklearn: bool) -> ThreadpoolController:
    """Return the controller of the thread pools of loaded libraries, cached because the search takes milliseconds."""
    return ThreadpoolController()


Listener = Callable[[str, float], object]  # receives the name of a stage and the fraction of all work done


# Receives the names of the stages inside the current one, and the fraction of its work that is done.
_Tell = Callable[[tuple[str, ...], float], None]
_current: ContextVar[_Tell | None] = ContextVar("stage", default=None)


@contextmanager
def report_to(listener: Listener | None) -> Iterator[None]:
    """Report all stages of the work in this context to `listener`, unless it is None; the fraction never decreases."""
    highest = 0.0

    def tell(names: tuple[str, ...], fraction: float) -> None:  # work of unknown length may restart its steps
        nonlocal highest
        if names and listener is not None:
            highest = max(highest, fraction)
            listener(": ".join(names), highest)

    with _reporting_to(None if listener is None else tell):
        yield
    if listener is not None:
        listener("done", 1.0)


@contextmanager
def stage(low: float, high: float, name: str = "") -> Iterator[None]:
    """Mark work as a stage from `low` to `high` of the enclosing stage."""
    outer = _current.get()
    if outer is None:
        yield
        return

    def tell(names: tuple[str, ...], part: float) -> None:
        outer((name, *names) if name else names, low + part * (high - low))

    tell((), 0.0)
    with _reporting_to(tell):
        yield
    tell((), 1.0)


@contextmanager
def _reporting_to(tell: _Tell | None) -> Iterator[None]:
    token = _current.set(tell)
    try:
        yield
    finally:
        _current.reset(token)


def each(items: Sequence[T]) -> Iterator[T]:
    """Yield the items, each of which is an equal step of the current stage."""
    for done, item in enumerate(items, start=1):
        yield item
        tell = _current.get()
        if tell is not None:
            tell((), done / len(items))
