"""A fork server: a process that loads libraries once, and forks commands under process guards.

    python -m sage_cli.trials.executors.fork_server < SOCKET

Standard input is a socket whose other end the owner holds (warm_process.py); the server ends when
the owner does. Each message is a command with four descriptors: the pipe of the guard's owner, that
of its report, one that the watcher alone holds open, and the log. The watcher writes `started`, a
space and its process into the report before anything else, and from then on everything is as in
process_guard.py, except that the guard's child is a fork of this process instead of a new program.

Signals, session, environment, folder and descriptors of the fork are those of a command that was
started by itself. Two things differ: its libraries are loaded, and Python's hashes of strings are
the same in all forks.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sage_cli.trials.executors import process_guard

REFUSED = 3
"""The exit code of a server that must not fork, because of what its libraries did when loaded."""
MESSAGE = 1 << 16
"""Bytes of the longest message."""
UNGUARDED = "unguarded"
"""The last line of a report whose guard was killed."""
SAFE_THREADS = ("jemalloc_bg_thd",)
"""Threads that their library ends and starts again around a fork."""
_SETTLE_S = 1.0


def serve(modules: Sequence[str] = ()) -> tuple[str, ...] | None:
    """Load `modules`, then fork a process for each command that the owner sends.

    Returns None when the owner is gone; in a forked process its command line.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    control = _control()
    for name in modules:
        if _is_gone(control):
            return None
        importlib.import_module(name)
    if why := obstacle():
        os.write(2, f"tasks are not forked from a warm process: {why}\n".encode())
        os._exit(REFUSED)
    temporary = [one for one in gc.get_objects() if isinstance(one, TemporaryDirectory)]
    gc.collect()
    gc.freeze()  # the forks share these objects' pages
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE, 4)
        if not message:
            return None
        asked = json.loads(message)
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork() == 0:
            control.close()
            _hold(asked, descriptors)  # returns in the command's process alone
            _renew(temporary)
            return tuple(asked["words"])
        for descriptor in descriptors:
            os.close(descriptor)


def execute(words: Sequence[str]) -> None:
    """Replace this process by a program, as a guard would have started it."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        os.execvp(words[0], list(words))
    except OSError as error:
        os.write(2, f"cannot run {words[0]}: {error.strerror}\n".encode())
        os._exit(process_guard.CANNOT_RUN)


def obstacle() -> str | None:
    """Return why this process must not fork commands, or None if it may.

    A fork has one thread: what others held locked stays locked in it, and pools that they were in
    (OpenMP's) hang. An accelerator that was looked at cannot be used in a fork.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.accelerator.is_available():
        return "the libraries see an accelerator"
    if (first := os.fork()) == 0:  # OpenBLAS ends its threads at a fork
        os._exit(0)
    os.waitpid(first, 0)
    deadline = time.monotonic() + _SETTLE_S
    while threads := _threads():
        if time.monotonic() > deadline:
            return f"loading the libraries started threads: {', '.join(threads)}"
        time.sleep(0.01)
    return None


def _control() -> socket.socket:
    """The socket to the owner, with /dev/null in its place as standard input."""
    control = socket.socket(fileno=os.dup(0))
    _close_input()
    return control


def _close_input() -> None:
    """Put /dev/null in the place of standard input."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _is_gone(control: socket.socket) -> bool:
    """Return True if the owner has closed its end."""
    poll = select.poll()
    poll.register(control, select.POLLRDHUP)
    return bool(poll.poll(0))


def _threads() -> list[str]:
    """The names of this process's other threads, except those that survive a fork."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) != os.getpid():
            with suppress(OSError):
                names.append((task / "comm").read_text().strip())
    return [name for name in names if name not in SAFE_THREADS]


def _reap(*_: object) -> None:
    """Reap watchers that ended; so their processor time counts as this process's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _hold(asked: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Become watcher, guard and command; only the command's process returns from here."""
    owner, report, alive, log = descriptors
    os.setsid()
    for source, target in ((owner, 0), (report, 1), (log, 2)):
        os.dup2(source, target)
        os.close(source)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _say(f"started {os.getpid()}")
    if guard := os.fork():
        try:
            if process_guard.watch(guard) < 0:
                _say(UNGUARDED)
        finally:
            os._exit(0)
    os.close(alive)
    process_guard.adopt_orphans()
    heard = process_guard.hear_signals()
    if process_guard.wait(heard, 0.0):  # its end was asked for before it began
        _say(f"ended {-signal.SIGTERM}")
        os._exit(0)
    if command := os.fork():
        try:
            limit_s = asked["limit_s"]
            limits = inf if limit_s is None else limit_s, asked["grace_s"]
            end, _ = process_guard.hold(command, heard, *limits)
            _say(end)
        finally:
            os._exit(0)
    _become(asked["words"], heard)


def _say(line: str) -> None:
    """Write a line into the report, whose reader may be gone."""
    with suppress(OSError):
        os.write(1, f"{line}\n".encode())


def _become(words: Sequence[str], heard: int) -> None:
    """Undo what makes this process a guard."""
    os.close(signal.set_wakeup_fd(-1))
    os.close(heard)
    for number in (signal.SIGCHLD, *process_guard.STOPS):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _close_input()
    os.dup2(2, 1)
    _name(words)


def _renew(temporary: Sequence[TemporaryDirectory[str]]) -> None:
    """Give this process what libraries made for themselves when they were loaded.

    Temporary folders are the server's to remove. Python seeds `random` again at a fork by itself;
    numpy's global generator is left to us.
    """
    for folder in temporary:
        folder._finalizer.detach()  # type: ignore[attr-defined]
        folder.__init__()  # type: ignore[misc]
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    importlib.invalidate_caches()


def _name(words: Sequence[str]) -> None:
    """Show the command line in `ps`, as long as the server's own has room for it.

    The kernel reads it from this process's memory, at the addresses 48 and 49 of proc_pid_stat(5).
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        line = b"\0".join(map(os.fsencode, words))[: end - start - 1]
        ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    if (line := serve()) is not None:
        execute(line)
