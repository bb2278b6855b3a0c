"""Independent pieces of work on all cores, with the same results in the same order whatever their number."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController, threadpool_limits

from tiltmeter.progress import each

FEW_ROWS = 20_000  # below which threads wait for the interpreter more than they work

T = TypeVar("T")
R = TypeVar("R")


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


@contextmanager
def _pool() -> Iterator[ThreadPoolExecutor]:
    """Give one thread a core, in each of which BLAS and OpenMP have one.

    Python's list of warnings to be shown is one for all threads, and scikit-learn swaps it while it bins; so it is put
    back in the end, and what scikit-learn says of a swap in between is not shown.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn.utils.parallel")
        with _libraries().limit(limits=1), ThreadPoolExecutor(os.cpu_count(), initializer=_limit_openmp) as pool:
            yield pool


def _limit_openmp() -> None:
    """Limit OpenMP in this thread: unlike BLAS it has a limit for each."""
    _libraries().limit(limits=1, user_api="openmp")


@cache
def _libraries() -> ThreadpoolController:
    """Return what has threads of its own among numpy, scipy and scikit-learn; looking for it takes milliseconds."""
    import sklearn.utils  # noqa: F401

    return ThreadpoolController()
