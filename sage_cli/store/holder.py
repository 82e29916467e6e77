"""Who holds a lock, for those whom the kernel's locks don't reach: the processes of other hosts.

On many shared file systems flock ends at the host. So whoever has a lock also keeps a file beside
it that says who that is, and touches it every few seconds. On its own host the kernel's lock
decides and the file is only read for the name; of another host's holder it is the sign of life.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.json_value import json_value
from sage_cli.store.atomic import storing, write_text

BEAT_S, FRESH_S = 5.0, 30.0
"""How often a holder gives a sign of life, and after which silence its lock may be taken over."""
SETTLE_S = 0.3
"""Longer than two hosts need that take over the same lock at the same time to see who was last."""


class HeldError(Exception):
    """Another process has the lock; says which."""


@dataclass(frozen=True)
class Holder:
    """A process that has a lock, by the host and its `boot` (a host's name alone may be common)."""

    host: str
    boot: str
    pid: int
    since: str

    @classmethod
    def this_process(cls) -> Holder:
        """Who we are, from now on."""
        return cls(socket.gethostname(), _boot(), os.getpid(), datetime.now(UTC).isoformat())

    @property
    def is_of_this_host(self) -> bool:
        """Whether the kernel's locks tell if it lives."""
        return (self.host, self.boot) == (socket.gethostname(), _boot())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since[:19].replace('T', ' ')} UTC"


class Hold:
    """The sign of life of a lock that this process has, in the file `path`.

    The file is reached through its folder, wherever that is moved meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._own = path, Holder.this_process()
        self._folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        self._over = threading.Event()

    def take(self) -> None:
        """Write the file. Raises HeldError where a living process of another host has the lock."""
        text = json.dumps(asdict(self._own))
        with storing(self._path.parent):
            try:
                self._create(text)
                return
            except FileExistsError:
                if (other := living_elsewhere(self._path)) is not None:
                    raise HeldError(other) from None
            write_text(self._path, text)
        time.sleep(SETTLE_S)
        if self.lost:
            raise HeldError(f"{_read(self._path) or 'another process'}")

    def _create(self, text: str) -> None:
        """Write the file, which nobody else has. A full disk leaves none behind."""
        with self._path.open("xb", buffering=0) as file:
            try:
                file.write(text.encode())
            except OSError:
                self._path.unlink(missing_ok=True)
                raise

    def beat(self) -> None:
        """Give signs of life until `drop`, or until another process has taken over."""
        while not self._over.wait(BEAT_S):
            with suppress(OSError):  # a file server that is away for the moment
                if self.lost:
                    return
                os.utime(self._path.name, dir_fd=self._folder)

    @property
    def lost(self) -> bool:
        """Whether another process has taken over, since this one was silent for too long."""
        try:
            descriptor = os.open(self._path.name, os.O_RDONLY, dir_fd=self._folder)
        except FileNotFoundError:
            return True
        with os.fdopen(descriptor, "rb") as file:
            return _parsed(file.read()) != self._own

    def require(self) -> None:
        """Raise StoreError where the lock was lost; call it before anything is written."""
        with storing(self._path.parent):
            lost = self.lost
        if lost:
            raise StoreError(
                f"{self._path.parent} was taken over by {_read(self._path) or 'another process'}: "
                f"this process, {self._own}, gave no sign of life for {FRESH_S:.0f} s",
                "let the other one go on; what this one did since it last saved is not kept",
            )

    def drop(self) -> None:
        """End the signs of life, and remove the file if it is still ours."""
        self._over.set()
        with suppress(OSError):  # the lock is let go of all the same
            if not self.lost:
                os.unlink(self._path.name, dir_fd=self._folder)
        os.close(self._folder)


@contextmanager
def sign_of_life(path: Path, until_s: float) -> Iterator[Hold]:
    """Keep the holder's file `path`, of a lock that the kernel has given to this process.

    Raises HeldError where another host's process is alive at `until_s`, by the monotonic clock.
    """
    hold = Hold(path)
    try:
        while True:
            try:
                hold.take()
                break
            except HeldError:
                if time.monotonic() >= until_s:
                    raise
                time.sleep(0.05)
        threading.Thread(target=hold.beat, daemon=True).start()
        yield hold
    finally:
        hold.drop()


def living_elsewhere(path: Path) -> str | None:
    """The holder that the file `path` names, if it is of another host and not silent for long.

    A file that is torn may be one that is being written, which takes less than a beat.
    """
    try:
        with path.open("rb") as file:
            holder, touched_s = _parsed(file.read()), os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return None
    if holder is not None and holder.is_of_this_host:
        return None
    silent_s = max(0.0, now_s(path.parent) - touched_s)
    if silent_s >= (BEAT_S if holder is None else FRESH_S):
        return None
    return f"{holder or 'another process'} (last heard of {silent_s:.0f} s ago)"


def named_holder(path: Path) -> str:
    """Whoever the file `path` names, alive or not."""
    return str(_read(path) or "another process")


def _read(path: Path) -> Holder | None:
    try:
        return _parsed(path.read_bytes())
    except OSError:
        return None


def _parsed(text: bytes) -> Holder | None:
    """What a holder's file says; None where it is torn, or of a release that wrote it otherwise."""
    try:
        return Holder(**json_value(text))
    except (ValueError, TypeError):
        return None


def now_s(folder: Path) -> float:
    """What the clock of the file server shows, which is what files are touched by.

    This host's own clock where nothing may be written.
    """
    probe = folder / f".{secrets.token_hex(4)}.tmp"
    try:
        with probe.open("x") as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _boot() -> str:
    """What tells this run of this kernel from all others, where the system says it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
