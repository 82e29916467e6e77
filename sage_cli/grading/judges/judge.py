"""What a judge is."""

from __future__ import annotations

from typing import Protocol

from sage_cli.grading.verdict import Status


class Judge(Protocol):
    """Compares an answer with a gold, both plain text that isn't empty.

    Judges hold no state, because `full` runs in another process, which finds the judge by name.
    """

    def quick(self, gold: str, answer: str, tolerance: float | None) -> Status | None:
        """The verdict if it can be had in well under a millisecond for any text, else None."""

    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Status:
        """The verdict, at whatever cost; `deadline` is of time.monotonic."""
