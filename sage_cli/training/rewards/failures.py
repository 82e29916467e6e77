"""Failures of rewards, told to all processes: otherwise the others fail as they wait for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from accelerate.utils import gather_object

from sage_cli.errors import TrainingError
from sage_cli.training.rewards.called import CalledReward


class Deferred:
    """A reward that keeps its failure, and says nothing of that batch."""

    def __init__(self, reward: CalledReward) -> None:
        self.reward, self.__name__ = reward, reward.__name__
        self.failure: tuple[str, str | None] | None = None

    def __call__(self, **given: Any) -> Sequence[float | None]:
        """Return the rewards of a batch, None for each completion where that fails."""
        try:
            return self.reward(**given)
        except TrainingError as error:
            self.failure = (error.cause, error.next_step)
            return [None] * len(given["completions"])


def raise_failures(functions: Sequence[Callable[..., Any]]) -> None:
    """Raise TrainingError, in every process, if a reward has failed in one of them."""
    mine = [one.failure for one in functions if isinstance(one, Deferred)]
    failures = [one for one in gather_object(mine) if one is not None] if mine else []
    if failures:
        raise TrainingError(*failures[0])
