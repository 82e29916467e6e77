"""Why a task failed, by its log and its run."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sage_cli import errors
from sage_cli.store.json_files import CorruptFileError, read_object, write_object
from sage_cli.trials.executors.executor import End, Fate

LINES = 12
"""How many of a log's last lines are shown."""
_TAIL_BYTES = 8192
_MARKUP = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[╭╮╰╯│─]")


class Kind(StrEnum):
    """The classes of failures."""

    MEMORY = "out of memory"
    TIMEOUT = "timeout"
    DIVERGED = "diverged"
    KILLED = "killed"
    REFUSED = "refused"
    ERROR = "error"


@dataclass(frozen=True)
class Failure:
    """A class, a sentence, and the last lines of the log."""

    kind: Kind
    reason: str
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


def failure(end: End, manifest: Mapping[str, Any], log: Path) -> Failure:
    """Return the failure of a task from its executor, its run's manifest and its log.

    `manifest` is {} if the task did not start or resume its run.
    """
    lines = last_lines(log)
    reason = str(manifest.get("reason") or "")
    kind = _kind(end, manifest, lines)
    if kind is Kind.TIMEOUT:
        return Failure(kind, "it took longer than executor.minutes allows", lines)
    if kind is Kind.KILLED:
        return Failure(kind, _killed(end), lines)
    return Failure(kind, reason or _last_message(lines) or f"exit code {end.code}", lines)


def _kind(end: End, manifest: Mapping[str, Any], lines: Sequence[str]) -> Kind:
    raised = getattr(errors, str(manifest.get("error")), None)
    if end.fate is Fate.TIMEOUT:
        return Kind.TIMEOUT
    if manifest.get("status") == "failed" and raised is errors.DivergedError:
        return Kind.DIVERGED
    if raised is errors.TrainingError:
        return Kind.ERROR
    if raised is errors.OutOfMemoryError or errors.is_out_of_memory("\n".join(lines)):
        return Kind.MEMORY
    if end.fate in (Fate.KILLED, Fate.LOST, Fate.ENDED):
        return Kind.KILLED
    return Kind.REFUSED if end.code == errors.EXIT_USER else Kind.ERROR


def _killed(end: End) -> str:
    if end.fate is Fate.LOST:
        return "its end is unknown: the node or the process that ran it is gone"
    if end.fate is Fate.ENDED:
        return "it was ended from outside"
    number = -end.code if end.code is not None and end.code < 0 else (end.code or 0) - 128
    name = signal.Signals(number).name if number in set(signal.Signals) else "a signal"
    short = " (so does the kernel where memory is short)" if name == "SIGKILL" else ""
    return f"{name} ended it from outside{short}"


def last_lines(log: Path) -> tuple[str, ...]:
    """The last lines of a log that are not empty, without colours and frames."""
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = handle.read().decode(errors="replace")
    except OSError:
        return ()
    plain = (_MARKUP.sub("", line).strip() for line in text.splitlines())
    return tuple(line for line in plain if line)[-LINES:]


def _last_message(lines: Sequence[str]) -> str:
    """The text of the last error panel, or the last line."""
    titles = [number for number, line in enumerate(lines) if line == "error"]
    return " ".join(lines[titles[-1] + 1 :]) if titles else (lines[-1] if lines else "")


def all_failed(reasons: Iterable[str], logs: Path) -> errors.TrainingError:
    """The error of a suite or a sweep without a result: every trial failed for these reasons."""
    return errors.TrainingError(
        "\n".join(["every trial failed", *dict.fromkeys(reasons)]),
        f"read the logs in {logs}; the same command tries again",
    )


def write_failures(file: Path, failures: Mapping[str, Failure]) -> None:
    """Write by task why it was given up."""
    write_object(file, {name: asdict(why) for name, why in failures.items()})


def stored_failures(file: Path) -> dict[str, str]:
    """Return the stored failures by task; {} if the file is missing or corrupt."""
    try:
        return {
            name: f"{why['kind']}: {why['reason']}" for name, why in read_object(file, "").items()
        }
    except (OSError, CorruptFileError, TypeError, KeyError):
        return {}
