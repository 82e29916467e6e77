"""The verifiable reward: 1 for a right answer, 0 for anything else, verdicts kept and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class HasStatus(Protocol):
    """What grading says of one completion."""

    @property
    def status(self) -> str:
        """One of `sage_cli.grading.verdict.STATUSES`."""
        ...


GradeCompletions = Callable[[Sequence[str], Sequence[str]], Sequence[HasStatus]]
"""(golds, completions) -> what is said of each pair."""


class VerdictReward:
    """TRL's reward function around a grader.

    `completions` and `statuses` are the last batch's, in its order, `record` what else there is to
    say of it. Completions graded while groups are replaced are asked about again: a grader
    remembers.
    """

    __name__ = "verdict"

    def __init__(self, grader: GradeCompletions) -> None:
        self.grader = grader
        self.completions: list[str] = []
        self.statuses: list[str] = []
        self.record: dict[str, float] = {}

    def grade(self, golds: Sequence[str], completions: Sequence[str]) -> list[str]:
        """The status of each completion."""
        return [grade.status for grade in self.grader(golds, completions)]

    def __call__(self, *, completions: list[str], gold: list[str], **_: Any) -> list[float]:
        """Rewards for TRL: 1.0 where the status is right, else 0.0."""
        self.completions = completions
        self.statuses = self.grade(gold, completions)
        return [float(status == "right") for status in self.statuses]
