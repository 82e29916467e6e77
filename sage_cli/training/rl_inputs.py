"""What an RL training is made from: by a command, and by the trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sage_cli.config.specs import RecordSpec, RlSpec
from sage_cli.methods.hooks import GradeCompletions
from sage_cli.models.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.settings.sections.sampling import SamplingSection
from sage_cli.store.run import Run
from sage_cli.store.sample_parts import Completion

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
class RlJob:
    """What RL trains from: its settings, the policy as it starts, and the problems.

    `record` says where results go, `sampling` how completions are sampled beforehand; `validation`
    measures the policy in training.
    """

    spec: RlSpec
    record: RecordSpec
    start: Policy
    problems: Sequence[Problem]
    sampling: SamplingSection
    validation: Validation | None


def train(job: RlJob, run: Run, watch: Watch | None, progress: Progress) -> None:
    """Train the policy by the module that the method names, and leave it in `run.model`.

    Of several processes only the first has a `watch`.
    """
    import_module(job.spec.rl.trained_by).train(job, run, watch, progress)


@dataclass(frozen=True)
class RlInputs:
    """A policy, what holds it, and problems with somebody who grades their answers.

    `model` is trained in place. `reference` is the folder of the frozen reference; None where there
    is no anchor, or where the policy is a LoRA adapter and finds it in itself. `prompts` are prompt
    texts with their problems. `reference_completions`, by problem id, are what `anchor.kl: forward`
    is computed on, or what a method has `samples_beforehand` for. `validator` changes nothing about
    the training. `sample` is used under `rollout.backend: sampler`; otherwise TRL samples.
    """

    model: Any
    reference: Path | None
    tokenizer: Any
    prompts: Sequence[tuple[str, Problem]]
    grader: GradeCompletions
    reference_completions: Mapping[str, Sequence[Completion]] | None = None
    validator: Validator | None = None
    sample: SampleRollouts | None = None
