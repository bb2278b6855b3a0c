"""The progress of an audit: stages within stages, reported to a listener.

The listener is kept in a context variable. Every audit sets its own, and other threads have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Listener = Callable[[str, float], object]  # called with the name of a stage and the share of all work that is done
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Stage:
    listener: Listener
    name: str
    low: float
    high: float

    def tell(self, part: float) -> None:
        if self.name:
            self.listener(self.name, self.low + part * (self.high - self.low))

    def within(self, low: float, high: float, name: str) -> _Stage:
        width = self.high - self.low
        names = [part for part in (self.name, name) if part]
        return _Stage(self.listener, ": ".join(names), self.low + low * width, self.low + high * width)


_current: ContextVar[_Stage | None] = ContextVar("stage", default=None)


@contextmanager
def report_to(listener: Listener | None) -> Iterator[None]:
    """Report every stage of the work inside to `listener`, unless it is None; the fraction never falls."""
    highest = 0.0

    def rise(name: str, fraction: float) -> None:  # work of unknown length may begin its steps anew
        nonlocal highest
        highest = max(highest, fraction)
        if listener is not None:
            listener(name, highest)

    token = _current.set(None if listener is None else _Stage(rise, "", 0.0, 1.0))
    try:
        yield
    finally:
        _current.reset(token)
    if listener is not None:
        listener("done", 1.0)


@contextmanager
def stage(low: float, high: float, name: str = "") -> Iterator[None]:
    """Mark work that takes from `low` to `high` of the stage around it."""
    outer = _current.get()
    if outer is None:
        yield
        return
    inner = outer.within(low, high, name)
    inner.tell(0.0)
    token = _current.set(inner)
    try:
        yield
    finally:
        _current.reset(token)
    inner.tell(1.0)


def each(items: Sequence[T]) -> Iterator[T]:
    """Yield the items, equal steps of the stage they are in."""
    for done, item in enumerate(items, start=1):
        yield item
        here = _current.get()
        if here is not None:
            here.tell(done / len(items))
