"""Leases of locks, for processes that the kernel's locks do not reach: those of other hosts.

On many shared file systems flock is local to the host. A process that has a lock therefore keeps a
lease beside it: a file that names the process and is touched every few seconds. On the same host
the kernel's lock decides, and the file only gives the name; for other hosts the heartbeat decides.

Clocks may jump, the file server's too, and a living process seem silent: it finds that another has
taken over before its next write, and stops.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from sage_cli.errors import EXIT_BUSY, PASSING, SURROUNDINGS, BusyError, StoreError
from sage_cli.json_value import json_value
from sage_cli.store.files import storing, sweep, write_text

HEARTBEAT_S, EXPIRY_S = 5.0, 30.0
"""Interval of heartbeats, and the silence after which another host may take the lock over."""
_SETTLE_S = 0.3
"""Longer than two hosts that take over one lock at the same time need to see who was last."""
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


class HeldError(Exception):
    """Another process has the lock; the message names it."""


@dataclass(frozen=True)
class Holder:
    """The process that has a lock. `boot` identifies the host's kernel: host names may repeat."""

    host: str
    boot: str
    pid: int
    since: str

    @classmethod
    def this_process(cls) -> Holder:
        """Return this process as a holder from now on."""
        return cls(socket.gethostname(), _boot(), os.getpid(), datetime.now(UTC).isoformat())

    @property
    def is_of_this_host(self) -> bool:
        """Return True if the kernel's locks tell whether it lives."""
        return (self.host, self.boot) == (socket.gethostname(), _boot())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since[:19].replace('T', ' ')} UTC"


class Lease:
    """The lease of a lock that this process has, in the file `path`.

    The file is reached through its folder's descriptor, which stays valid when the folder moves.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._holder = path, Holder.this_process()
        # a descriptor instead of a path: if the folder is renamed while it is written, the
        # heartbeat must not touch a new folder that has taken its name
        self._folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        self._ended = threading.Event()

    def take(self) -> None:
        """Write the file. Raises HeldError if a living process of another host has the lock."""
        text = json.dumps(asdict(self._holder))
        with storing(self._path.parent):
            try:
                self._create(text)
                return
            except FileExistsError:
                if (holder := foreign_holder(self._path)) is not None:
                    raise HeldError(holder) from None
            write_text(self._path, text)
        time.sleep(_SETTLE_S)  # if two hosts took over together, the last to write has the lock
        if self.lost:
            raise HeldError(holder_name(self._path))

    def _create(self, text: str) -> None:
        """Create the file, or leave none behind if the disk is full."""
        # exclusive creation is atomic on NFS, too, where flock may be local to a host: of two hosts
        # one gets FileExistsError. Unbuffered, so that a full disk fails here and not when the file
        # is closed.
        with self._path.open("xb", buffering=0) as file:
            try:
                file.write(text.encode())
            except OSError:
                self._path.unlink(missing_ok=True)
                raise

    def beat(self) -> None:
        """Touch the file until `drop`, or until another process has taken over."""
        while not self._ended.wait(HEARTBEAT_S):
            with suppress(OSError):  # the file server may be away for a moment
                if self.lost:
                    return
                os.utime(self._path.name, dir_fd=self._folder)

    @property
    def lost(self) -> bool:
        """Return True if another process has taken over after this one was silent for too long."""
        try:
            # opened anew each time: an open handle would show the old file after another host has
            # replaced it (and NFS revalidates its cache on open)
            descriptor = os.open(self._path.name, os.O_RDONLY, dir_fd=self._folder)
        except FileNotFoundError:
            return True
        with os.fdopen(descriptor, "rb") as file:
            return _parsed(file.read()) != self._holder

    def require(self) -> None:
        """Raise StoreError if the lock was lost. Call it before every write."""
        with storing(self._path.parent):
            lost = self.lost
        if lost:
            raise StoreError(
                f"{self._path.parent} was taken over by {holder_name(self._path)}: "
                f"this process, {self._holder}, sent no heartbeat for {EXPIRY_S:.0f} s",
                "let the other process continue; what this one did since its last save is lost",
            )

    def drop(self) -> None:
        """End the heartbeat, and remove the file if it is still this process's."""
        self._ended.set()
        with suppress(OSError):  # the lock is released in any case
            if not self.lost:
                # only if it is still ours: the successor's lease would go otherwise, and with it
                # the sign that it lives
                os.unlink(self._path.name, dir_fd=self._folder)
        os.close(self._folder)


@contextmanager
def leased(path: Path, until_s: float) -> Iterator[Lease]:
    """Keep the lease `path` of a lock that the kernel has given to this process.

    Raises HeldError if a process of another host is still alive at `until_s` (monotonic clock).
    """
    lease = Lease(path)
    try:
        while True:
            try:
                lease.take()
                break
            except HeldError:
                if time.monotonic() >= until_s:
                    raise
                time.sleep(0.05)
        # a daemon, so that it doesn't keep the process alive; a process that is killed leaves its
        # lease, which expires
        threading.Thread(target=lease.beat, daemon=True).start()
        yield lease
    finally:
        lease.drop()


def foreign_holder(path: Path) -> str | None:
    """Return the holder in the lease `path` if it is of another host and alive, else None.

    A corrupt file may be one that is being written, which takes less than a heartbeat. One from the
    future was touched before the file server's clock was set back: the next heartbeat mends that.
    """
    try:
        holder, touched_s = _read(path)
    except FileNotFoundError:
        return None
    if holder is not None and holder.is_of_this_host:
        return None
    # both times are the file server's: the clocks of two hosts may differ by more than the expiry
    silent_s = now_s(path.parent) - touched_s
    if not -HEARTBEAT_S < silent_s < (HEARTBEAT_S if holder is None else EXPIRY_S):
        return None
    return f"{holder or 'another process'} (last heartbeat {max(0.0, silent_s):.0f} s ago)"


def _read(path: Path) -> tuple[Holder | None, float]:
    """Return the holder in a lease, None if it is corrupt, and when it was touched last."""
    with path.open("rb") as file:
        return _parsed(file.read()), os.fstat(file.fileno()).st_mtime


def holder_name(path: Path) -> str:
    """Return the holder that the lease `path` names, alive or not."""
    try:
        return str(_parsed(path.read_bytes()) or "another process")
    except OSError:
        return "another process"


def _parsed(text: bytes) -> Holder | None:
    """Return the holder in a lease's text; None if the text is corrupt."""
    try:
        return Holder(**json_value(text))
    except (ValueError, TypeError):
        return None


def now_s(folder: Path) -> float:
    """Return the file server's time, by which files are touched, or the host's if read-only."""
    probe = folder / f".{secrets.token_hex(4)}.tmp"
    try:
        # the time of a file that was just created is the server's present time; there is no other
        # way to ask it
        with probe.open("x") as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _boot() -> str:
    """Return the id of this boot of the kernel, empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@contextmanager
def writer(folder: Path, name: str = WRITER) -> Iterator[Lease]:
    """Lock `folder` for writing. Raises BusyError, which names the process that has the lock."""
    with _owned(folder / name, f"{folder} is being written by {{}}", BusyError) as lease:
        yield lease


@contextmanager
def driver(folder: Path, study: str) -> Iterator[Lease]:
    """Own the study called `study` in its `folder`. Raises StoreError if it has a driver."""
    message = f"{study} is run by {{}}, and only one process can run a sweep"
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


def _sweep(lock_path: Path) -> None:
    """Remove what killed processes left beside the lock `lock_path`, which this process has.

    The leases of other locks go if the lock is free, what is half-written or half-deleted once it
    is old: a process that writes without a lock takes a moment.
    """
    # a killed process leaves its lease; whoever gets the lock without waiting knows that nobody has
    # it, and leaving the block removes the file
    for lease in lock_path.parent.glob(".*.lease"):
        if (lock := lease.with_suffix("")) != lock_path:
            with suppress(HeldError, StoreError), locked(lock, 0.0):
                pass  # which ends by removing it
    patterns = (".*.tmp", ".*.old", "*/.*.tmp", "*/.*.old")
    if halves := [half for pattern in patterns for half in lock_path.parent.glob(pattern)]:
        sweep(halves, now_s(lock_path.parent))


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
    # not thread-local: the lock is released by whichever thread ends the block. No soft fallback: a
    # lock file that merely exists would outlive a killed process.
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
            # released when the handle closes, a moment later; PATIENCE_S is longer than that, so
            # that the test never makes a writer fail
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        raise _unlockable(path, error) from error
    # the kernel has said that no process of this host has it; the lease tells of other hosts
    return foreign_holder(_lease(path)) is not None


def _lease(path: Path) -> Path:
    return path.with_name(f"{path.name}.lease")


def _unlockable(path: Path, error: OSError) -> StoreError:
    """Return the error for a refusal of the kernel, with advice by its error number.

    What may pass by itself has the exit code that says so.
    """
    number = error.errno or 0
    advice = {**SURROUNDINGS, **_ADVICE}[number] if number in PASSING else _ADVICE.get(number)
    refused = StoreError(f"{path} can't be locked: {error.strerror or error}", advice or _ELSEWHERE)
    if number in PASSING and number not in _ADVICE:
        refused.exit_code = EXIT_BUSY
    return refused
