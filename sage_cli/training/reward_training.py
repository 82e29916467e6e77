"""A policy trained on rollouts whose rewards are grades."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from sage_cli.config.specs import RecordSpec, RlSpec
from sage_cli.evaluation.benchmarks import grader_for
from sage_cli.grading import Grade
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import policy_and_reference, replay_source, teacher_policy
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.sections.model import trained_dtype
from sage_cli.store.runs.run import Run, Runs
from sage_cli.training.rollouts.policy_rollouts import sampled_rollouts
from sage_cli.training.rollouts.reference_samples import (
    problems_held,
    reference_completions,
    reference_samples,
    samples_beforehand,
)
from sage_cli.training.validation import Validation, validating

if TYPE_CHECKING:
    from sage_cli.training.callbacks import Watch


def train_by_rewards(
    spec: RlSpec,
    record: RecordSpec,
    start: Policy,
    problems: Sequence[Problem],
    validation: Validation | None,
    run: Run,
    watch: Watch | None = None,
) -> None:
    """Train from `start` on rewarded rollouts, alone or as one of several processes.

    Of several only the first has a `watch`. `validation` measures the policy in training.
    Leaves the policy in `run.model`.
    """
    from sage_cli.training.launch.memory_errors import loading, memory_explained
    from sage_cli.training.rl import train_rl
    from sage_cli.training.rl_inputs import RlInputs

    tokenizer = start.tokenizer()
    template = PromptTemplate.from_section(spec.prompt, tokenizer)
    with memory_explained(loading(spec), run):
        model, reference = policy_and_reference(spec, start)
        teacher = teacher_policy(spec.guide, Runs(record.root), spec.model)
        source = replay_source(spec.rl, Runs(record.root))
        frozen = None if teacher is None else teacher.model(dtype=trained_dtype(spec.model))
    with ExitStack() as held:
        grader = held.enter_context(grader_for(spec.data.rl.name, spec.grading, spec.prompt))
        on_sampled = watch.on_validation if watch else _nobody
        validator = held.enter_context(validating(validation, tokenizer, on_sampled))

        def grades(golds: Sequence[str], completions: Sequence[str]) -> list[Grade]:
            return grader.grade_many(list(zip(golds, completions, strict=True)))

        inputs = RlInputs(
            model=model,
            reference=reference,
            tokenizer=tokenizer,
            prompts=[(template.render(problem.question), problem) for problem in problems],
            grader=grades,
            reference_completions=reference_completions(
                spec,
                reference_samples(spec, start, record.root),
                problems_held(problems, spec),
            )
            if samples_beforehand(spec)
            else None,
            validator=validator,
            teacher=frozen,
            replayed=None if source is None else source.completions().read(),
            sample=sampled_rollouts(spec.rollout, spec.rl.seed, tokenizer),
        )
        train_rl(spec, inputs, record.tracking, run, watch.on_step if watch else _nobody)


def _nobody(*_: Any) -> None:
    """Hears the steps and validations of a process that isn't watched."""
