"""What a training takes: configuration, policy and problems in their order; loads no library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sage_cli.config.schema import SageConfig
from sage_cli.methods.method import Method
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
    """Measures the policy every `interval` steps and after the last; one process does, all wait.

    `validate` maps the model as it stands to figures for the step's record.
    """

    interval: int
    validate: Callable[[Any], Mapping[str, float]]


SampleRollouts = Callable[[Any, Sequence[Ids], str, int], list[Ids]]
"""(model, prompts' ids, batch, sampled) -> a completion's ids for each prompt, in order.

`batch` names the generation batch and the process, `sampled` says how many completions this process
has sampled for it before: both with the training's seed decide what is sampled."""


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


def training_order(population: int, rl: Method) -> list[int]:
    """Return the order of prompts in the whole training: each pass has a permutation of its own."""
    # one long epoch: a sampler that shuffles again each epoch forgets on resume which epoch it is
    # in
    generations = -(-rl.steps // rl.steps_per_batch)
    count = generations * rl.prompts_per_batch
    return permutations(population, count, rl.seed)


def rows_seen(population: int, rl: Method) -> list[int]:
    """Return the prompts that a training comes to; all where some may be replaced."""
    if rl.replaces_prompts:
        return list(range(population))
    return sorted(set(training_order(population, rl)))


def permutations(population: int, count: int, seed: int) -> list[int]:
    """Return the first `count` of permutations of `population`, one after the other."""
    from numpy.random import default_rng  # which a plan does without

    order: list[int] = []
    for epoch in range(-(-count // population) if count else 0):
        order += default_rng((seed, epoch)).permutation(population).tolist()
    return order[:count]
