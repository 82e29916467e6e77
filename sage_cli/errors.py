"""The one exception tree: everything a user can cause is a `SageError`; anything else is a bug."""

from __future__ import annotations

import signal
from collections.abc import Mapping

EXIT_OTHER = 1
"""A question that was answered with no, and, with a traceback, a bug."""
EXIT_USER = 2
EXIT_INTERRUPTED = 130


class Interrupted(KeyboardInterrupt):
    """The signal `number` ended the work; `saved` says what was kept of it, where that is known.

    A KeyboardInterrupt, so that nothing that handles errors takes it for one.
    """

    def __init__(self, number: int, saved: str | None = None) -> None:
        by = "the user" if number == signal.SIGINT else signal.Signals(number).name
        super().__init__(f"interrupted by {by}")
        self.exit_code, self.saved = 128 + number, saved


class SageError(Exception):
    """A cause and, where one is known, the next step; shown as one panel, without a traceback.

    `cause` says what is wrong with the user's words and values in it; `next_step` says what to
    type or change.
    """

    def __init__(self, cause: str, next_step: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.next_step = next_step


class ConfigurationError(SageError, ValueError):
    """Settings that are unknown, out of range or contradict each other."""


class DataError(SageError, ValueError):
    """Problems, golds or files of rows that can't be used."""


class StoreError(SageError, RuntimeError):
    """A run directory or sample set that is locked, torn or not what it should be."""


class SamplingError(SageError, RuntimeError):
    """A sampler that can't start or stopped answering."""


class RefusedPromptsError(SamplingError):
    """Prompts that a sampler can't answer, with its reasons; all others were drawn."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        shown = [f"{problem}: {reason}" for problem, reason in list(reasons.items())[:5]]
        more = [f"and {len(reasons) - 5} more"] if len(reasons) > 5 else []
        super().__init__(
            f"{len(reasons)} problems have no samples\n" + "\n".join(shown + more),
            "shorten these prompts or lower sampling.max_tokens, or leave the problems out; the "
            "samples of all others are kept",
        )
        self.reasons = dict(reasons)


class TrainingError(SageError, RuntimeError):
    """A training that was stopped because going on would be pointless or impossible."""


class OutOfMemoryError(TrainingError):
    """A training that asked for more memory than there is."""


class DivergedError(TrainingError):
    """A training whose loss or gradient stopped being a number, or that can't learn any more."""


class ExecutorError(SageError, RuntimeError):
    """A place where tasks run that can't be reached, or refuses what it is asked for."""


class MetricError(SageError, ValueError):
    """A statistic asked for where it is undefined, as pass@k for k > n."""
