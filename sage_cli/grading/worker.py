"""The process that judges untrusted answers.

    python -m sage_cli.grading.worker MB JUDGE MODE EXTRACT FOLDERS...

It imports from FOLDERS what it doesn't find by itself, modules of functions of one's own among it.
One JSON object a line in, one out. It limits its own address space, and the kernel ends it when a
task uses more processor time than it may, so that it doesn't outlive a parent that was killed.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
import time
import warnings
from typing import Any, cast

from sage_cli.errors import SageError
from sage_cli.grading.judges import Judge, find_judge
from sage_cli.settings.judge_names import Extraction

_GRACE_S = 2


def main() -> None:
    """Answer tasks until the pipe closes."""
    # The pipe is duplicated before descriptor 1 is turned away, so that only `_reply` can write to
    # it: even C code that prints goes to stderr.
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints is not a reply
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    megabytes, name, mode, extract, *folders = sys.argv[1:]
    sys.path += [folder for folder in folders if folder not in sys.path]
    judge = find_judge(name, mode, cast(Extraction, extract))
    # Imports and caches are paid for before the limit is set, so that the allowance is what answers
    # may take beyond them.
    judge.warm_up()
    allowance = int(megabytes) << 20
    _limit_address_space(allowance)
    idle = _peak_bytes()
    _reply(replies, {"ready": True})
    for line in sys.stdin:
        task = json.loads(line)
        reply = _judged(judge, task)
        # Memory that Python has freed is rarely returned to the system. A worker that has grown by
        # half its allowance is replaced between two tasks, before a harmless answer fails in it; so
        # is one whose judge raised: after a MemoryError nothing is sure to work.
        spent = reply["judged"] == "error" or _peak_bytes() - idle > allowance / 2
        _reply(replies, {**reply, "spent": spent})


def _judged(judge: Judge, task: dict[str, Any]) -> dict[str, Any]:
    """Return what the judge says, and why a function of one's own says nothing."""
    # The parent kills it by the clock; this is for when the parent is gone. It counts processor
    # time in the kernel, so it also ends a C loop in which no Python handler would ever run.
    # SIGPROF has no handler here, and ends the process.
    signal.setitimer(signal.ITIMER_PROF, task["timeout_s"] + _GRACE_S)
    try:
        deadline = time.monotonic() + task["timeout_s"]
        judged = judge.full(
            task["gold"], task["answer"], task["tolerance"], deadline, task["question"]
        )
        return {"judged": judged}
    except TimeoutError:
        return {"judged": "timeout"}
    except (Exception, RecursionError) as error:  # sympy raises anything; MemoryError among it
        if isinstance(error, SageError):  # names the function of one's own, and the line
            return {"judged": "error", "failure": error.cause[:400]}
        return {"judged": "error"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_address_space(allowance: int) -> None:
    try:
        # The limit applies to address space, of which an interpreter with its libraries maps much
        # more than it uses: the allowance comes on top of what is mapped now.
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123
            size = int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        size = _peak_bytes()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = size + allowance
    # The hard limit of a container can't be exceeded, and `setrlimit` would raise.
    limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def _peak_bytes() -> int:
    # `ru_maxrss` is in bytes on macOS and in KiB on Linux.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _reply(replies: Any, reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
