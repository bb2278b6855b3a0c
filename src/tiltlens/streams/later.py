"""What is worked out when someone asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Later(Generic[T]):
    """A result that is made once, when it is first asked for or pickled; what makes it is then let go."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: list[T] = []

    @classmethod
    def of(cls, made: T) -> Later[T]:
        """Return a result that there is already."""
        later = cls(lambda: made)
        later()
        return later

    def __call__(self) -> T:
        """Return the result."""
        make = self._make
        if make is not None:
            self._made, self._make = [make()], None
        return self._made[0]

    def __reduce__(self) -> tuple[Callable[[T], Later[T]], tuple[T]]:
        return Later.of, (self(),)
