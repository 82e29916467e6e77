"""The connection to a Ray cluster's head.

Ray itself waits for a lost head for a minute, silently, and then ends the process.
"""

from __future__ import annotations

import socket
import time

from sage_cli.errors import ExecutorError

AWAY_S = 20.0
"""How long a head may be silent, as during a restart; far below Ray's minute."""
_CONNECT_S = 2.0


class RayHead:
    """The head at `address` (HOST:PORT), which answered a moment ago."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._silent_s: float | None = None

    def answers(self) -> bool:
        """Return True if it answers now. Raises ExecutorError once it was silent for AWAY_S."""
        if self.reached():
            self._silent_s = None
            return True
        now = time.monotonic()
        if self._silent_s is None:
            self._silent_s = now
        if now >= self._silent_s + AWAY_S:
            raise self.gone(f"its head hasn't answered for {AWAY_S:g} s")
        return False

    def reached(self) -> bool:
        """Return True if it answers now."""
        try:
            connect(self._address, _CONNECT_S)
        except OSError:
            return False
        return True

    def gone(self, why: str) -> ExecutorError:
        """The error that ends the driver: no task is to blame, and none can start."""
        return ExecutorError(
            f"the Ray cluster at {self._address} is gone: {why}",
            "start it again (`ray start --head`), or choose another --address or --executor, and "
            "type the same command again: it resumes from what is stored, and tasks that ran "
            "do not count as failed",
        )


def connect(address: str, timeout_s: float) -> None:
    """Connect to HOST:PORT and hang up. Raises OSError, and ValueError for an invalid address."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()
