"""Locks between processes: the kernel drops them when their holder dies.

Between hosts, where the kernel's locks may end, the holder's signs of life count.
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
from sage_cli.store.holder import (
    FRESH_S,
    HeldError,
    Hold,
    living_elsewhere,
    named_holder,
    now_s,
    sign_of_life,
)

WRITER, LAUNCHER, DRIVER = ".lock", ".launcher", ".driver"
"""The locks of who writes in a folder, of a command whose processes do, of a study's driver."""
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
_LOOK_S = 0.5
_HELD: dict[Path, Hold] = {}
"""What this process holds by `writer`, by the lock's absolute path."""


@contextmanager
def writer(folder: Path, name: str = WRITER) -> Iterator[Hold]:
    """Hold `folder` for writing; raises BusyError with the name of another one who does."""
    path = (folder / name).absolute()
    with _refusing(path, f"{folder} is being written by {{}}", BusyError) as hold:
        _HELD[path] = hold
        try:
            yield hold
        finally:
            del _HELD[path]


@contextmanager
def driver(folder: Path, study: str) -> Iterator[Hold]:
    """Own the study called `study` in its `folder`; a second driver is refused and told whose."""
    refusal = f"{study} is driven by {{}}, and a study has one driver"
    with _refusing(folder / DRIVER, refusal) as hold:
        yield hold


@contextmanager
def _refusing(path: Path, refusal: str, kind: type[StoreError] = StoreError) -> Iterator[Hold]:
    """Hold the lock `path`, or raise a `kind` of error that says in `refusal` who does."""
    with ExitStack() as held:
        try:
            hold = held.enter_context(locked(path, PATIENCE_S))
        except HeldError as error:
            raise kind(
                refusal.format(error),
                "wait until it ends, or stop it; then type the same command again",
            ) from None
        _sweep(path)
        yield hold


def _sweep(own: Path) -> None:
    """Remove what killed processes left in the folder of the lock `own`, which this process holds.

    Signs of life of other locks go where the lock is free, and half-written files once they are
    old: whoever writes without a lock takes a moment.
    """
    for sign in own.parent.glob(".*.holder"):
        if (lock := sign.with_suffix("")) != own:
            with suppress(HeldError, StoreError), locked(lock, 0.0):
                pass  # which ends by removing it
    halves = [half for pattern in (".*.tmp", "*/.*.tmp") for half in own.parent.glob(pattern)]
    old_s = now_s(own.parent) - FRESH_S if halves else 0.0
    for half in halves:
        with suppress(OSError):  # gone meanwhile, a folder, or somebody else's
            if half.stat().st_mtime < old_s:
                half.unlink()


def require_held(folder: Path) -> None:
    """Raise StoreError where this process held `folder` for writing, and was taken over.

    So that a process which was frozen for long doesn't write beside the one that went on.
    """
    if (hold := _HELD.get((folder / WRITER).absolute())) is not None:
        hold.require()


def is_held(folder: Path) -> bool:
    """Whether a living process holds `folder` for writing, or has others do."""
    return is_locked(folder / WRITER) or is_locked(folder / LAUNCHER)


def writer_of(folder: Path) -> str | None:
    """The living process that writes in `folder`, or has others do, in words."""
    return holder_of(folder) or holder_of(folder, LAUNCHER)


def wait_for_writer(folder: Path, say: Callable[[str], None]) -> None:
    """Return when no living process writes in `folder`; `say` is told whom that waits for."""
    if (who := writer_of(folder)) is None:
        return
    say(f"waiting for {folder.name}, which {who}, is writing; Ctrl-C stops waiting")
    while is_held(folder):
        time.sleep(_LOOK_S)


def holder_of(folder: Path, name: str = WRITER) -> str | None:
    """The living process that has the lock `name` of `folder`, in words."""
    return named_holder(_sign(folder / name)) if is_locked(folder / name) else None


@contextmanager
def locked(path: Path, patience_s: float) -> Iterator[Hold]:
    """Hold the lock file `path`, which stays behind.

    Raises HeldError when another process has it for longer than `patience_s`, and StoreError when
    it can't be locked at all: no permission, no space, a file system without locks.
    """
    until_s = time.monotonic() + patience_s
    lock = FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=patience_s)
    except Timeout:
        raise HeldError(named_holder(_sign(path))) from None
    except OSError as error:
        raise _unlockable(path, error) from error
    try:
        with sign_of_life(_sign(path), until_s) as hold:
            yield hold
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock file `path`.

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
    return living_elsewhere(_sign(path)) is not None


def _sign(path: Path) -> Path:
    """Where the holder of the lock file `path` gives its signs of life."""
    return path.with_name(f"{path.name}.holder")


def _unlockable(path: Path, error: OSError) -> StoreError:
    """What the kernel refused, by its error number: never taken for another process's lock."""
    return StoreError(
        f"{path} can't be locked: {error.strerror or error}",
        _ADVICE.get(error.errno or 0, _ELSEWHERE),
    )
