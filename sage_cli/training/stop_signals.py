"""SIGINT (Ctrl-C) and SIGTERM (a cluster's notice), heard without stopping at once."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

from sage_cli.errors import Interrupted

STOPPING = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """While it is entered, `number` is the first signal that asked to stop, 0 without one.

    A training stops after a multiple of `period` steps; `done` tells where it is.
    A second signal raises Interrupted at once. Under a launcher (`patient`) it doesn't: there one
    notice arrives several times, from the terminal, the launcher and the cluster; and a process
    that was asked to stop goes on not to hear them, so that it ends in order.
    """

    def __init__(self, *, patient: bool, period: int = 1) -> None:
        self.number, self.patient, self.period = 0, patient, period
        self._left = period
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if not (self.number and self.patient):
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def done(self, step: int, steps: int) -> None:
        """Note that `step` steps are done, of a training of so many."""
        self._left = min(self.period - step % self.period, max(1, steps - step))

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        again, self.number = self.number, self.number or number
        if self.patient:
            return
        if again:
            raise Interrupted(number)
        when = "after this step"
        if self._left > 1:
            when = f"in {self._left} steps, at the end of their generation batch"
        notice = f"\n{signal.Signals(number).name}: saving {when}; a second one ends at once\n"
        with suppress(OSError):  # a terminal that is gone
            os.write(2, notice.encode())  # safe in a handler, as the console isn't
