"""One writer per directory, by an advisory lock that the kernel drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sage_cli.errors import StoreError


@contextmanager
def writer(folder: Path) -> Iterator[None]:
    """Hold `folder` for writing; a second writer is refused with the first one's name."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            raise StoreError(
                f"{folder} is being written by {handle.read().strip() or 'another process'}",
                "wait until it ends, or stop it; then type the same command again",
            ) from None
        handle.seek(0)
        handle.truncate()
        handle.write(f"process {os.getpid()} on {socket.gethostname()}")
        handle.flush()
        yield


def is_held(folder: Path) -> bool:
    """Whether a living process holds `folder` for writing."""
    try:
        with (folder / ".lock").open("r", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
