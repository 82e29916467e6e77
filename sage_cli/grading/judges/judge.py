"""The interface of a judge."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sage_cli.grading.grades import Judged


class Judge(ABC):
    """Compares an answer with a gold, both stripped plain text of at most 2,000 characters.

    It says a status, or the share in [0, 1] of the answer that is right: 1 counts as right.

    Judges are made without arguments and hold no state, because `full` runs in another process,
    which finds the judge by name.
    """

    @abstractmethod
    def quick(self, gold: str, answer: str, tolerance: float | None) -> Judged | None:
        """Return the status if any text allows it in well under a millisecond, else None.

        `tolerance` is relative and None where answers must be exact.
        """

    @abstractmethod
    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Judged:
        """Return the status, at whatever cost; the process is killed after `deadline`.

        `deadline` is of time.monotonic. TimeoutError counts as `timeout`, any other as `error`.
        """

    def warm_up(self) -> None:  # noqa: B027
        """Load what `full` needs: once in each worker, before its memory and time are bounded."""
