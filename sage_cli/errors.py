"""The one exception tree: everything a user can cause is a `SageError`; anything else is a bug."""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Iterable, Mapping
from reprlib import Repr

EXIT_OTHER = 1
"""A check that failed, and, with a traceback, a bug."""
EXIT_USER = 2
EXIT_BUSY = 75
"""Another process writes the same folder, or the machine fails for now (EX_TEMPFAIL of sysexits.h):
the same command may succeed later."""
EXIT_INTERRUPTED = 130

SURROUNDINGS = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "your quota there is used up: make room",
    errno.EFBIG: "raise the limit on the size of a file (`ulimit -f`)",
    errno.EROFS: "that file system is read-only: choose another folder",
    errno.EACCES: "get the right to use it, or choose another folder",
    errno.EPERM: "get the right to use it, or choose another folder",
    errno.EIO: "the disk or the connection to it fails: have it checked",
    errno.EMFILE: "raise the limit on open files (`ulimit -n 4096`)",
    errno.ENFILE: "this machine has too many open files: wait until other programs have ended",
    errno.EAGAIN: "this machine has too many processes: wait until others have ended",
    errno.ENOMEM: "this machine has no memory left: end other programs",
    errno.ESTALE: "the file server has lost the file for now: wait until it is there",
    errno.ETIMEDOUT: "the server doesn't answer: wait until it does",
    errno.ENOTCONN: "the file server is not connected: wait until it is, or mount it again",
    errno.EHOSTDOWN: "the server is down: wait until it is up",
    errno.ENOLCK: "the file server has no locks left: wait until others have ended",
}
"""What to do about errors of a system that no program can prevent, by their numbers."""
_NO_MEMORY = re.compile(
    r"out of memory|OutOfMemory|MemoryError|allocate memory|bad_alloc|oom.kill|"
    r"No available memory for the cache|KV cache is needed|"
    r"less than desired GPU memory utilization",
    re.I,
)
PASSING = frozenset(
    {
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
        errno.ENOMEM,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.ENOLCK,
    }
)
"""Those of them that may be gone when the command is typed again, without anybody's doing."""
_AGAIN = "then type the same command again: what was stored until now is kept"
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 8
_SHORT.maxlevel = 3
NEAR = 0.65
"""Similarity from which a name may be a misspelt one: `taw` and `tau` have 2/3, `adan` and `data` a
half."""


class Interrupted(KeyboardInterrupt):
    """The signal `number` ended the command; `saved` names the saved part, where it is known.

    A KeyboardInterrupt, so that no handler of errors catches it.
    """

    def __init__(self, number: int, saved: str | None = None) -> None:
        by = "the user" if number == signal.SIGINT else signal.Signals(number).name
        super().__init__(f"interrupted by {by}")
        self.exit_code, self.saved = 128 + number, saved


class SageError(Exception):
    """A cause and, where one is known, the next step; shown as one panel, without a traceback.

    `cause` names the fault with the user's words and values; `next_step` says what to type or
    change. `exit_code` is that of a command which ends with it.
    """

    exit_code = EXIT_USER

    def __init__(self, cause: str, next_step: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.next_step = next_step


class ConfigurationError(SageError, ValueError):
    """Settings that are unknown, out of range or contradict each other."""


class DataError(SageError, ValueError):
    """Problems, golds or files of rows that can't be used."""


class AbsentModelError(DataError):
    """A model that is neither on this machine nor on the Hub."""


class StoreError(SageError, RuntimeError):
    """A run directory or sample set that is locked, corrupt or not what it should be."""


class SurroundingsError(StoreError):
    """A disk, a file server or a machine that fails, is full, or doesn't give what was asked."""

    def __init__(self, error: OSError | MemoryError, where: object = None) -> None:
        """`error` is the system's; `where` it was, unless the error itself names a file."""
        if isinstance(error, OSError):
            self.exit_code = EXIT_BUSY if error.errno in PASSING else EXIT_USER
            place = f"{where} can't be written" if where is not None else error.filename
            advice = SURROUNDINGS.get(error.errno or 0, "remove the cause")
            cause = error.strerror or str(error)
        else:
            place, cause = where, f"not enough memory{': ' * bool(str(error))}{error}"
            advice = "end other programs, raise the limit (`ulimit -v`), or ask for less at once"
        super().__init__(f"{place}: {cause}" if place else cause, f"{advice}, {_AGAIN}")


class BusyError(StoreError):
    """A folder that another living process is writing."""

    exit_code = EXIT_BUSY


class SamplingError(SageError, RuntimeError):
    """A sampler that can't start or stopped answering."""


class RefusedPromptsError(SamplingError):
    """Problems of which a sampler refuses samples, with its reasons; all others were sampled."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        shown = [f"{problem}: {reason}" for problem, reason in list(reasons.items())[:5]]
        more = [f"and {len(reasons) - 5} more"] if len(reasons) > 5 else []
        count = "1 problem lacks" if len(reasons) == 1 else f"{len(reasons)} problems lack"
        super().__init__(
            f"{count} samples\n" + "\n".join(shown + more),
            "all other samples are kept, and the same command asks for these again; where a prompt "
            "is too long, shorten it or lower sampling.max_tokens; where a server filters or "
            "breaks off, change that there, or sample with another sampling.backend; or leave "
            "these problems out",
        )
        self.reasons = dict(reasons)


class TrainingError(SageError, RuntimeError):
    """A training that was stopped because it can't continue."""


class OutOfMemoryError(TrainingError):
    """A training that asked for more memory than there is."""


class DivergedError(TrainingError):
    """A training whose loss or gradient is not finite, or that cannot learn with its settings."""


class ExecutorError(SageError, RuntimeError):
    """An executor that can't be reached, or refuses a request."""


class MetricError(SageError, ValueError):
    """A statistic that is undefined, such as pass@k for k > n."""


def is_out_of_memory(error: BaseException | str) -> bool:
    """Return True if an error, or lines of a log, say that memory ran out, of a GPU or otherwise.

    PyTorch on CPUs, the system, vLLM at its start and the kernel have errors of no kind of their
    own: they are known by what they say.
    """
    # torch's class has this name, and isn't imported for it
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return _NO_MEMORY.search(str(error)) is not None


def in_short(value: object) -> str:
    """Return a value as it is written in Python, at most some hundred letters of it."""
    return _SHORT.repr(value)


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return `did you mean tau?` for the nearest of the known names, or an empty text."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(given.lower(), list(by_lower), n=1, cutoff=NEAR)
    return f"did you mean {by_lower[near[0]]}?" if near else ""
