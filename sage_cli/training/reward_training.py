"""A policy trained on rollouts whose rewards are grades."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from sage_cli.evaluation.benchmarks import grader_for
from sage_cli.grading import Grade
from sage_cli.models.planned import policy_and_reference
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.store.run import Run
from sage_cli.training.rl_inputs import RlInputs, RlJob
from sage_cli.training.rollouts import reference_completions, sampled_rollouts
from sage_cli.training.validation import validating

if TYPE_CHECKING:
    from sage_cli.training.callbacks import Watch


def train(job: RlJob, run: Run, watch: Watch | None, _progress: Progress) -> None:
    """Train on rewarded rollouts, alone or as one of several processes.

    Of several only the first has a `watch`. Leaves the policy in `run.model`.
    """
    from sage_cli.training.memory_errors import LOADING, memory_explained
    from sage_cli.training.rl import train_rl

    spec, record, start = job.spec, job.record, job.start
    tokenizer = start.tokenizer()
    template = PromptTemplate.from_section(spec.prompt, tokenizer)
    with memory_explained(LOADING, run):
        model, reference = policy_and_reference(spec, start)
    with ExitStack() as held:
        grader = held.enter_context(grader_for(spec.data.rl.name, spec.grading, spec.prompt))
        on_sampled = watch.on_validation if watch else _nobody
        validator = held.enter_context(validating(job.validation, tokenizer, on_sampled))

        def grades(golds: Sequence[str], completions: Sequence[str]) -> list[Grade]:
            return grader.grade_many(list(zip(golds, completions, strict=True)))

        inputs = RlInputs(
            model=model,
            reference=reference,
            tokenizer=tokenizer,
            prompts=[(template.render(problem.question), problem) for problem in job.problems],
            grader=grades,
            reference_completions=reference_completions(job),
            validator=validator,
            sample=sampled_rollouts(spec.rollout, spec.rl.seed, tokenizer),
        )
        train_rl(spec, inputs, record.tracking, run, watch.on_step if watch else _nobody)


def _nobody(*_: Any) -> None:
    """Hears the steps and validations of a process that isn't watched."""
