"""Locks between processes: the kernel drops them when their holder dies."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sage_cli.errors import StoreError
from sage_cli.store.atomic import storing

PATIENCE_S = 0.5
"""Longer than anybody's look at a lock, so that a look never refuses a writer."""


@contextmanager
def writer(folder: Path) -> Iterator[None]:
    """Hold `folder` for writing; a second writer is refused with the first one's name."""
    holder = folder / ".lock.holder"
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder / ".lock", PATIENCE_S))
        except HeldError:
            raise StoreError(
                f"{folder} is being written by {_text(holder) or 'another process'}",
                "wait until it ends, or stop it; then type the same command again",
            ) from None
        with storing(folder):
            holder.write_text(this_process(), encoding="utf-8")
        held.callback(holder.unlink, missing_ok=True)
        yield


def is_held(folder: Path) -> bool:
    """Whether a living process holds `folder` for writing; creates nothing."""
    return is_locked(folder / ".lock")


class HeldError(Exception):
    """Another process has the lock."""


@contextmanager
def locked(path: Path, patience_s: float) -> Iterator[None]:
    """Hold the lock file `path`, which stays behind.

    Raises HeldError when another process has it for longer than `patience_s`, and StoreError when
    it can't be locked at all: no permission, no space, a file system without locks.
    """
    lock = FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=patience_s)
    except Timeout:
        raise HeldError(path) from None
    except OSError as error:
        raise _unlockable(path, error) from error
    try:
        yield
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock file `path`; creates nothing.

    Looks with a shared lock, so that it needs no right to write and two looks don't meet.
    """
    try:
        with path.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        raise _unlockable(path, error) from error
    return False


def this_process() -> str:
    """How a holder is named to others."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _unlockable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} can't be locked: {error.strerror or error}",
        "it must be on a file system with locks (flock), with space left, where you may write",
    )
