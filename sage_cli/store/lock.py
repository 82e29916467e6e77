"""Locks between processes: the kernel drops a lock when its process dies.

Between hosts, where the kernel's locks may not reach, the heartbeat of a lease decides.
"""

from __future__ import annotations

import errno
import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from sage_cli.errors import BusyError, StoreError
from sage_cli.store.lease import (
    EXPIRY_S,
    HeldError,
    Lease,
    foreign_holder,
    holder_name,
    leased,
    now_s,
)

WRITER, LAUNCHER, DRIVER = ".lock", ".launcher", ".driver"
"""Locks of a folder's writer, of a command whose processes write there, of a study's driver."""
PATIENCE_S = 0.5
"""Longer than any test of a lock, so that a test never makes a writer fail."""
_ELSEWHERE = "choose another folder of runs, with --runs or $SAGE_RUNS"
_ADVICE = {
    errno.EACCES: f"you may not write there: {_ELSEWHERE}",
    errno.EPERM: f"you may not write there: {_ELSEWHERE}",
    errno.EROFS: f"that file system is read-only: {_ELSEWHERE}",
    errno.ENOSPC: "make room there, then run the same command again",
    errno.EDQUOT: "your quota there is used up: make room, then run the same command again",
    **dict.fromkeys(
        (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP),
        f"that file system has no locks (flock): {_ELSEWHERE}",
    ),
}
_POLL_S = 0.5


@contextmanager
def writer(folder: Path, name: str = WRITER) -> Iterator[Lease]:
    """Lock `folder` for writing. Raises BusyError, which names the process that has the lock."""
    with _owned(folder / name, f"{folder} is being written by {{}}", BusyError) as lease:
        yield lease


@contextmanager
def driver(folder: Path, study: str) -> Iterator[Lease]:
    """Own the study called `study` in its `folder`. Raises StoreError if it has a driver."""
    message = f"{study} is driven by {{}}, and a study has one driver"
    with _owned(folder / DRIVER, message, StoreError) as lease:
        yield lease


@contextmanager
def _owned(path: Path, message: str, kind: type[StoreError]) -> Iterator[Lease]:
    """Lock `path` and clean its folder. Raises a `kind` of error with the holder in `message`."""
    with ExitStack() as stack:  # so that a HeldError of the caller's block passes
        try:
            lease = stack.enter_context(locked(path, PATIENCE_S))
        except HeldError as error:
            raise kind(
                message.format(error),
                "wait until it ends, or stop it; then run the same command again",
            ) from None
        _sweep(path)
        yield lease


def _sweep(own: Path) -> None:
    """Remove what killed processes left in the folder of the lock `own`, which this process has.

    The leases of other locks go if the lock is free, half-written files once they are old: a
    process that writes without a lock takes a moment.
    """
    for lease in own.parent.glob(".*.lease"):
        if (lock := lease.with_suffix("")) != own:
            with suppress(HeldError, StoreError), locked(lock, 0.0):
                pass  # which ends by removing it
    halves = [half for pattern in (".*.tmp", "*/.*.tmp") for half in own.parent.glob(pattern)]
    old_s = now_s(own.parent) - EXPIRY_S if halves else 0.0
    for half in halves:
        with suppress(OSError):  # removed meanwhile, a folder, or another user's
            if half.stat().st_mtime < old_s:
                half.unlink()


def is_held(folder: Path) -> bool:
    """Return True if a living process writes in `folder`, or has others that do."""
    return is_locked(folder / WRITER) or is_locked(folder / LAUNCHER)


def writer_of(folder: Path) -> str | None:
    """Return the living process that writes in `folder`, or that has others do so."""
    return holder_of(folder) or holder_of(folder, LAUNCHER)


def wait_for_writer(folder: Path, say: Callable[[str], None]) -> None:
    """Return when no living process writes in `folder`; `say` gets a line about the wait."""
    if (holder := writer_of(folder)) is None:
        return
    say(f"waiting for {folder.name}, which {holder}, is writing; Ctrl-C stops waiting")
    while is_held(folder):
        time.sleep(_POLL_S)


def holder_of(folder: Path, name: str = WRITER) -> str | None:
    """Return the living process that has the lock `name` of `folder`."""
    return holder_name(_lease(folder / name)) if is_locked(folder / name) else None


@contextmanager
def locked(path: Path, patience_s: float) -> Iterator[Lease]:
    """Hold the lock file `path`, which stays behind.

    Raises HeldError if another process has it for longer than `patience_s`, and StoreError if it
    cannot be locked at all: no permission, no space, a file system without locks.
    """
    until_s = time.monotonic() + patience_s
    lock = FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=patience_s)
    except Timeout:
        raise HeldError(holder_name(_lease(path))) from None
    except OSError as error:
        raise _unlockable(path, error) from error
    try:
        with leased(_lease(path), until_s) as lease:
            yield lease
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Return True if a living process holds the lock file `path`.

    The test is a shared lock: it needs no right to write, and two tests do not block each other.
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
    return foreign_holder(_lease(path)) is not None


def _lease(path: Path) -> Path:
    return path.with_name(f"{path.name}.lease")


def _unlockable(path: Path, error: OSError) -> StoreError:
    """Return the error for a refusal of the kernel, with advice by its error number."""
    return StoreError(
        f"{path} can't be locked: {error.strerror or error}",
        _ADVICE.get(error.errno or 0, _ELSEWHERE),
    )
