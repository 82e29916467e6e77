"""The parts of the reward and their weights: one column for each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor

from sage_cli.config.schema import SageConfig
from sage_cli.errors import TrainingError
from sage_cli.methods.hooks import GradeReward
from sage_cli.methods.method import OnlineMethod
from sage_cli.problems.problem import Problem
from sage_cli.settings.sections.training import GRADE, PLURALITY, are_usual
from sage_cli.training.rewards import CalledReward, Plurality, called_reward, problem_columns


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
    mine = [reward.failure for reward in functions if isinstance(reward, Deferred)]
    failures = [reward for reward in gather_object(mine) if reward is not None] if mine else []
    if failures:
        raise TrainingError(*failures[0])


OVERLONG = "overlong"


@dataclass(frozen=True)
class Paid:
    """What completions are paid: F functions with their names and weights, in one order.

    The grade is always among them, since it is always recorded; its weight is 0 where it isn't
    paid. `graded` is True where rewards may be other than right or wrong and punishments.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...]
    functions: tuple[Callable[..., Any], ...]
    graded: bool

    def weighted(self, raw_BF: Tensor, group: int) -> Tensor:
        """Return the parts of the sum that is maximised, of what the functions say.

        NaN is a part that says nothing of a completion, and counts 0. A completion of which no paid
        part but its length's punishment says anything gets the mean of its group's others: so its
        advantage is 0 where advantages are centred, and it moves nobody else's.
        """
        if not self.graded:
            return raw_BF
        weights_F = torch.tensor(self.weights, dtype=raw_BF.dtype, device=raw_BF.device)
        weighted_BF = (raw_BF * weights_F).nan_to_num(nan=0.0)
        judges = [
            weight != 0 and name != OVERLONG
            for name, weight in zip(self.names, self.weights, strict=True)
        ]
        judges_F = torch.tensor(judges, device=raw_BF.device)
        silent_PN = (raw_BF.isnan() | ~judges_F).all(dim=1).reshape(-1, group)
        if silent_PN.any():
            total_PN = weighted_BF.sum(dim=1).reshape(-1, group)
            said_P1 = (~silent_PN).sum(dim=1, keepdim=True)
            mean_P1 = (total_PN * ~silent_PN).sum(dim=1, keepdim=True) / said_P1.clamp(min=1)
            # any column would do: what is maximised is their sum
            weighted_BF[:, 0] += torch.where(silent_PN, mean_P1 - total_PN, 0.0).flatten()
        return weighted_BF

    def named(self, raw_BF: Tensor) -> list[dict[str, float | None]]:
        """Return what the functions say of each completion, by name; None for NaN.

        Empty without graded rewards, when the grade and the sum say it all.
        """
        rows = raw_BF.tolist() if self.graded else []
        return [
            {
                name: None if math.isnan(value) else value
                for name, value in zip(self.names, row, strict=True)
            }
            for row in rows
        ]

    def record(self, raw_BF: Tensor, weighted_BF: Tensor, group: int) -> dict[str, float]:
        """Return `reward/NAME`, the mean of each part over the completions that have it.

        With graded rewards also the grade's if it is paid, `reward/total`, what is maximised, and
        the share of groups whose totals are equal.
        """
        recorded = [
            name
            for name, weight in zip(self.names, self.weights, strict=True)
            if name != GRADE or (self.graded and weight)
        ]
        record = {}
        for name, values_B in zip(self.names, raw_BF.T, strict=True):
            said_B = ~values_B.isnan()
            if name in recorded and said_B.any():
                some_B = values_B if said_B.all() else values_B[said_B]
                record[f"reward/{name}"] = some_B.mean().item()
        if self.graded:
            total_PN = weighted_BF.sum(dim=1).reshape(-1, group)
            equal_P = (total_PN == total_PN[:, :1]).all(dim=1)
            record["reward/total"] = total_PN.mean().item()
            record["groups/zero_variance"] = equal_P.float().mean().item()
        return record


def paid_rewards(
    config: SageConfig,
    rl: OnlineMethod,
    grade: GradeReward,
    problems: Sequence[Problem],
    punishments: Sequence[Callable[..., Any]],
) -> Paid:
    """Return the rewards of a training; functions of one's own are loaded.

    Raises ConfigurationError for one that can't be imported or takes what there is not.
    """
    columns = problem_columns(problems)
    ours: dict[str, Callable[..., Any]] = {GRADE: grade, PLURALITY: Plurality(grade.grader)}
    parts: list[tuple[str, float, Callable[..., Any]]] = [
        (r.label, r.weight, ours.get(r.name) or Deferred(called_reward(r, config, columns)))
        for r in rl.rewards
    ]
    if GRADE not in (reward.name for reward in rl.rewards):
        parts.append((GRADE, 0.0, grade))
    parts += [(OVERLONG, 1.0, punish) for punish in punishments]
    names, weights, functions = zip(*parts, strict=True)
    graded = not are_usual(rl.rewards) or config.grading.judge is not None
    return Paid(names, weights, functions, graded)
