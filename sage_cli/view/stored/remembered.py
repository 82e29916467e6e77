"""Results that the server keeps for a while: the most recent ones, within a bound on their size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """The latest results by key, whose sizes sum to at most `room`; one is kept in any case.

    A key names all that decides the result, such as the sizes and times of the files it is read
    from, so nothing that is kept can be out of date.
    """

    def __init__(self, room: int, size_of: Callable[[T], int] = lambda _: 1) -> None:
        self._room, self._size_of = room, size_of
        self._results: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `key`, made by `make` if it is not kept.

        Threads that ask for one key at the same time may both make it.
        """
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        made = make()
        with self._lock:
            self._results[key] = made
            self._results.move_to_end(key)
            while len(self._results) > 1 and self._size > self._room:
                self._results.popitem(last=False)
        return made

    @property
    def _size(self) -> int:
        return sum(map(self._size_of, self._results.values()))
