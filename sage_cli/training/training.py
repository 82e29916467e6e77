"""RL as it is handed from a command to whatever trains it; no library is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from sage_cli.config.schema import SageConfig
from sage_cli.models.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.store.run import Run

if TYPE_CHECKING:
    from sage_cli.training.callbacks import Watch
    from sage_cli.training.validation import Validation

Ids = list[int]


@dataclass(frozen=True)
class Validator:
    """Measures the policy every so many steps and after the last; one process does, all wait.

    `validate` maps the model as it stands to figures for the step's record.
    """

    every: int
    validate: Callable[[Any], Mapping[str, float]]


class SampleRollouts(Protocol):
    """Samples rollouts from the policy as it stands."""

    def __call__(self, model: Any, prompts: Sequence[Ids], batch: str, sampled: int) -> list[Ids]:
        """A completion's token ids for each prompt's, in order.

        `batch` names the generation batch and the process, `sampled` says how many completions this
        process has sampled for it before: both with the training's seed decide what is sampled.
        """
        ...


@dataclass(frozen=True)
class Training:
    """What RL trains from: the configuration, the policy as it starts, and the problems.

    `validation` measures the policy in training.
    """

    config: SageConfig
    start: Policy
    problems: Sequence[Problem]
    validation: Validation | None


def train(training: Training, run: Run, watch: Watch | None, progress: Progress) -> None:
    """Train the policy by the module that the method names, and leave it in `run.model`.

    Of several processes only the first has a `watch`.
    """
    import_module(training.config.rl.trained_by).train(training, run, watch, progress)
