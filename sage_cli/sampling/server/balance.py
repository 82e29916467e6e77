"""The choice of the next server among several."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

REST_S = 5.0


class Balance:
    """Chooses the server with the fewest open requests; a failed one rests for a while.

    Safe to use from many threads. `clock` returns seconds.
    """

    def __init__(self, servers: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.servers, self._clock = tuple(servers), clock
        self._open = dict.fromkeys(self.servers, 0)
        self._rests_until_s = dict.fromkeys(self.servers, 0.0)
        self._asked_until_s = dict.fromkeys(self.servers, 0.0)
        self._lock = threading.Lock()

    @contextmanager
    def chosen(self) -> Iterator[str]:
        """Yield a server for one request, which counts as open until the block ends."""
        with self._lock:
            server = min(self.servers, key=self._rank)
            self._open[server] += 1
        try:
            yield server
        finally:
            with self._lock:
                self._open[server] -= 1

    def failed(self, server: str, asked_s: float = 0.0) -> None:
        """Let a server rest, so that others are asked if there are any.

        `asked_s` is the pause that it requests.
        """
        with self._lock:
            now_s = self._clock()
            self._rests_until_s[server] = now_s + max(REST_S, asked_s)
            self._asked_until_s[server] = now_s + asked_s

    def all_rest(self) -> bool:
        """Return True if every server has failed recently."""
        with self._lock:
            return min(self._rests_until_s.values()) > self._clock()

    def asked_s(self) -> float:
        """Return the seconds until one of the servers may be asked, as they have requested."""
        with self._lock:
            return max(0.0, min(self._asked_until_s.values()) - self._clock())

    def _rank(self, server: str) -> tuple[float, int]:
        rest_s = max(0.0, self._rests_until_s[server] - self._clock())
        return rest_s, self._open[server]
