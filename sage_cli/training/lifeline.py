"""What ties launched processes to the command that launched them.

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.store.lock import LAUNCHER, is_locked, writer

VARIABLE = "SAGE_LIFELINE"
"""Tells a launched process the folder that its command holds."""
LOOK_S = 0.1
_STOP = ".stop"


@contextmanager
def lifeline(folder: Path) -> Iterator[None]:
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


def follow() -> None:
    """In a launched process: from now on end with whom it was launched by, a command or a launcher.

    It stops as well when a command of ours passes a signal on.
    """
    folder = os.environ.get(VARIABLE)
    if folder is not None:
        follower = threading.Thread(target=_follow, args=(Path(folder),), daemon=True)
    else:
        follower = threading.Thread(target=_follow_parent, args=(os.getppid(),), daemon=True)
    follower.start()


def is_followed() -> bool:
    """Whether this process was launched by a command that waits for it."""
    return VARIABLE in os.environ


def _follow(folder: Path) -> None:
    passed_on = False
    while _lives(folder):
        if not passed_on and (number := _stop_signal(folder)):
            passed_on = True
            os.kill(os.getpid(), number)
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _follow_parent(parent: int) -> None:
    while os.getppid() == parent:
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
