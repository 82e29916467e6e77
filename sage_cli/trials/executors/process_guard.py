"""A process guard: runs a command, which does not outlive it, and does not outlive its owner.

    python process_guard.py LIMIT_S GRACE_S COMMAND... 2>>LOG

The owner holds the other end of standard input. A byte in it asks for the end: the command gets
SIGTERM, and SIGKILL after GRACE_S. When the pipe closes, because the owner died in whatever way,
everything is killed at once. Processes that the command leaves behind are killed when it has ended,
on Linux also those in sessions of their own.

The guard is two processes, one watched by the other, so that nothing leaks if either is killed:
Ray, for example, kills the children of a worker together with the worker.

The last line on standard output says how the command ended: `ended` (on the owner's request),
`timeout`, `killed` or `exited`; and the exit code, or minus the signal's number.

The file is run by itself and imports the standard library alone, so it starts quickly. A plain
subprocess with a session of its own and Linux's PR_SET_PDEATHSIG does not replace it: the signal
reaches the command alone, so that `test_what_is_left_behind_ends_with_the_command`,
`test_end_leaves_nothing` and `test_a_driver_that_is_killed` (tests/support/executor_contract.py)
find processes that the command started in a session of their own still running.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path

LINUX = sys.platform == "linux"
OWNER = 0  # standard input
GONE = "gone"
_SUBREAPER = 36  # of Linux's prctl
_PASSES, _PASS_S = 100, 0.05
CANNOT_RUN = 127
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(limit_s: float, grace_s: float, command: Sequence[str]) -> str:
    """Run `command` and end all that it started; returns the line that tells how it ended."""
    _adopt_orphans()
    heard = _hear_signals()
    try:
        # never polled: the object would reap the process, and its exit code would be lost here
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2, stderr=2)
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
        return f"exited {CANNOT_RUN}"
    fate, limit_at, kill_at = "", time.monotonic() + limit_s, inf
    while (code := _code(child.pid)) is None:
        request = _wait(heard, min(limit_at, kill_at))
        now = time.monotonic()
        # repeated until the child has ended: a process that is being forked may escape one pass
        if request == GONE or now >= kill_at:
            _kill_all(child.pid)
            time.sleep(_PASS_S)
        elif not fate and (request or now >= limit_at):
            fate, limit_at, kill_at = request or "timeout", inf, now + grace_s
            os.kill(child.pid, signal.SIGTERM)
    child.returncode = code
    _end_all()
    return f"{fate or ('exited' if code >= 0 else 'killed')} {code}"


def watch(guard: int) -> int:
    """Wait for the guard, and end what it left if it was killed; returns its exit code.

    The code is minus the signal's number if a signal ended it.
    """
    _adopt_orphans()
    for number in STOPS:
        signal.signal(number, lambda number, _: os.kill(guard, number))
    code = os.waitstatus_to_exitcode(os.waitpid(guard, 0)[1])
    _end_all()
    return code


def _hear_signals() -> int:
    """A pipe to which signals write their numbers, to be waited for beside the owner."""
    heard, writing = os.pipe()
    # `set_wakeup_fd` demands it: a handler that waits for room in the pipe would hang. A lost
    # number does no harm, since one suffices to wake `select`.
    os.set_blocking(writing, False)
    # the number is written as soon as the signal arrives, so that `select` also wakes for one that
    # comes just before it is called
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGCHLD, *STOPS):
        signal.signal(number, lambda *_: None)
    return heard


def _wait(heard: int, until: float) -> str:
    """The request: `ended` or GONE by the owner, `killed` by a signal, or nothing."""
    wait_s = None if until == inf else max(0.0, until - time.monotonic())
    ready, _, _ = select.select([OWNER, heard], [], [], wait_s)
    numbers = set(os.read(heard, 64)) if heard in ready else set()
    if OWNER in ready:
        return "ended" if os.read(OWNER, 1) else GONE
    return "killed" if numbers - {signal.SIGCHLD} else ""


def _code(leader: int = 0) -> int | None:
    """The leader's exit code, once it has one; other ended children are reaped as well."""
    code = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == leader:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def _end_all() -> None:
    """Kill until nothing is left, except what cannot be killed, as in a hanging mount."""
    for _ in range(_PASSES):
        if not _kill_all():
            break
        time.sleep(_PASS_S)
    _code()


def _kill_all(leader: int | None = None) -> bool:
    """Send SIGKILL to every descendant (not on Linux: to `leader`); True if there was any."""
    living = _descendants() if LINUX else [leader] if leader else []
    for process in living:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
    return bool(living)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            # behind the last parenthesis: a process may have any name, ") S 1" included
            state, parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state not in b"ZX":
                children.setdefault(int(parent), []).append(int(folder.name))
    descendants = list(children.get(os.getpid(), ()))
    for process in descendants:
        descendants += children.get(process, ())
    return descendants


def _adopt_orphans() -> None:
    """Make descendants whose parents end children of this process, which so finds them."""
    if LINUX:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    if guard := os.fork():
        code = watch(guard)
        if code < 0:
            os.kill(os.getpid(), -code)
    else:
        end = main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
        with suppress(BrokenPipeError):
            os.write(1, end.encode())
    if not LINUX:  # orphans cannot be found, but most are in the group that this process leads
        os.killpg(0, signal.SIGKILL)
