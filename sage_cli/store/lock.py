"""Locks between processes: the kernel drops them when their holder dies."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sage_cli.errors import StoreError
from sage_cli.store.atomic import storing

WRITER, LAUNCHER = ".lock", ".launcher"
"""The locks of who writes in a folder, and of a command whose processes do."""
PATIENCE_S = 0.5
"""Longer than anybody's look at a lock, so that a look never refuses a writer."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_ELSEWHERE = "choose another folder of runs, with --runs or $SAGE_RUNS"
_ADVICE = {
    errno.EACCES: f"you may not write there: {_ELSEWHERE}",
    errno.EPERM: f"you may not write there: {_ELSEWHERE}",
    errno.EROFS: f"that file system is read-only: {_ELSEWHERE}",
    errno.ENOSPC: "make room there, then type the same command again",
    errno.EDQUOT: "your quota there is used up: make room, then type the same command again",
    **dict.fromkeys(_NO_LOCKS, f"that file system has no locks (flock): {_ELSEWHERE}"),
}


@contextmanager
def writer(folder: Path, name: str = WRITER) -> Iterator[None]:
    """Hold `folder` for writing; a second writer is refused with the first one's name."""
    holder = folder / f"{name}.holder"
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder / name, PATIENCE_S))
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
    """Whether a living process holds `folder` for writing, or has others do; creates nothing."""
    return is_locked(folder / WRITER) or is_locked(folder / LAUNCHER)


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
    """What the kernel refused, by its error number: never taken for another process's lock."""
    return StoreError(
        f"{path} can't be locked: {error.strerror or error}",
        _ADVICE.get(error.errno or 0, _ELSEWHERE),
    )
