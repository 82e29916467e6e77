"""The verifiable reward: 1 for a right answer, 0 for anything else, verdicts kept and counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

STATUSES = ("right", "wrong", "unparseable", "timeout", "error")


class Verdict(Protocol):
    """What a grader says of one completion."""

    @property
    def status(self) -> str:
        """One of STATUSES."""
        ...


Grader = Callable[[Sequence[str], Sequence[str]], Sequence[Verdict]]
"""(golds, completions) -> verdicts, one for each pair."""


class VerdictReward:
    """TRL's reward function around a grader.

    The verdicts of the batch at hand are remembered, so that a completion graded while groups
    are being replaced isn't graded again; `completions` and `statuses` are the last batch's, in
    its order, and `seconds` what grading has taken since `begin`.
    """

    __name__ = "verdict"

    def __init__(self, grader: Grader) -> None:
        self.grader = grader
        self.completions: list[str] = []
        self.statuses: list[str] = []
        self.seconds = 0.0
        self._known: dict[tuple[str, str], str] = {}

    def begin(self) -> None:
        """Forget the batch before."""
        self._known.clear()
        self.seconds = 0.0

    def grade(self, golds: Sequence[str], completions: Sequence[str]) -> list[str]:
        """The status of each completion; pairs that were seen in this batch aren't graded again."""
        began = time.perf_counter()
        pairs = list(zip(golds, completions, strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if new:
            verdicts = self.grader([gold for gold, _ in new], [text for _, text in new])
            self._known |= {
                pair: verdict.status for pair, verdict in zip(new, verdicts, strict=True)
            }
        self.seconds += time.perf_counter() - began
        return [self._known[pair] for pair in pairs]

    def __call__(self, *, completions: list[str], gold: list[str], **_: Any) -> list[float]:
        """Rewards for TRL: 1.0 where the status is right, else 0.0."""
        self.completions = completions
        self.statuses = self.grade(gold, completions)
        return [float(status == "right") for status in self.statuses]
