"""The watchdog that ends launched processes together with the command that launched them.

The command holds a lock for as long as it lives, however it ends; a process that finds it free ends
at once, so that nobody goes on writing whom nobody watches. Between them is a launcher, which hands
down neither pipes nor signals in time; hence files. Where somebody else typed the launcher
(torchrun, srun, accelerate), a process ends with that, its parent.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.store.lock import LAUNCHER, is_locked, writer

VARIABLE = "SAGE_WATCHDOG"
"""Tells a launched process the folder that its command holds."""
LOOK_S = 0.1
_STOP = ".stop"


@contextmanager
def command_lock(folder: Path) -> Iterator[None]:
    """Hold `folder` as the command whose processes train in it; only one may."""
    with writer(folder, LAUNCHER):
        stop = folder / _STOP
        stop.unlink(missing_ok=True)
        try:
            yield
        finally:
            stop.unlink(missing_ok=True)


def ask_to_stop(folder: Path, number: int) -> None:
    """Pass the signal `number` on to the processes that train in `folder`."""
    (folder / _STOP).write_text(str(number))


def follow() -> Callable[[], bool]:
    """In a launched process: from now on end with whom it was launched by, a command or a launcher.

    It stops as well when a command of ours passes a signal on. Returns the question whether whom it
    was launched by still lives.
    """
    held, parent = os.environ.get(VARIABLE), os.getppid()
    folder = Path(held) if held is not None else None

    def lives() -> bool:
        return os.getppid() == parent if folder is None else _lives(folder)

    threading.Thread(target=_follow, args=(lives, folder), daemon=True).start()
    return lives


@contextmanager
def ended_with(lives: Callable[[], bool]) -> Iterator[None]:
    """End what fails in here without a word when whom it was launched by is gone.

    What a process meets then is the death of the others, which may have looked a moment earlier;
    it says nothing of the training.
    """
    try:
        yield
    except BaseException:
        if not lives():
            os.kill(os.getpid(), signal.SIGKILL)
        raise


def is_followed() -> bool:
    """Return True if this process was launched by a command that waits for it."""
    return VARIABLE in os.environ


def _follow(lives: Callable[[], bool], folder: Path | None) -> None:
    passed_on = False
    while lives():
        if folder is not None and not passed_on and (number := _stop_signal(folder)):
            passed_on = True
            os.kill(os.getpid(), number)
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _lives(folder: Path) -> bool:
    try:
        return is_locked(folder / LAUNCHER)
    except StoreError:  # a file system that fails for the moment says nothing
        return True


def _stop_signal(folder: Path) -> int:
    """The signal that was passed on; 0 while there is none, or it is being written."""
    try:
        return int((folder / _STOP).read_text())
    except (OSError, ValueError):
        return 0
