"""A time limit on Python code of others, in the main thread of a process."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNAL = signal.SIGVTALRM
"""Sent to the main thread alone. SIGALRM stays free: Math-Verify, for one, sets its own."""


class _TimeIsUp(BaseException):
    """Not an Exception, so that code which catches all of those doesn't swallow it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError from the block after `seconds`.

    A call into compiled code is interrupted when it returns. Outside the main thread the block ends
    by itself, and TimeoutError comes afterwards.
    """
    began = time.monotonic()
    try:
        with _interruption(seconds):
            yield
    except _TimeIsUp:
        raise TimeoutError from None
    if time.monotonic() - began > seconds:
        raise TimeoutError


@contextmanager
def _interruption(seconds: float) -> Iterator[None]:
    thread = threading.current_thread()
    if thread is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise _TimeIsUp

    before = signal.signal(_SIGNAL, interrupt)
    timer = threading.Timer(seconds, signal.pthread_kill, (thread.ident, _SIGNAL))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # a signal that is under way arrives while there is somebody to hear it
        signal.signal(_SIGNAL, signal.SIG_IGN if before == signal.SIG_DFL else before)
