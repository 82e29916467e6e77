"""Problems tried by the policy as it starts, and the failed ones once more with a hint.

Completions and grades are stored as an evaluation's are: an interrupted training resumes from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.specs import RlSpec
from sage_cli.evaluation.benchmarks import Benchmark, grader_for, judge_of
from sage_cli.evaluation.measure import sample_and_grade
from sage_cli.evaluation.policy_sampler import PolicySampler
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.grading import Grader
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import policy_and_reference
from sage_cli.problems.hints import hinted
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.settings.sections.sampling import SamplingSection
from sage_cli.store.runs.run import Run
from sage_cli.store.samples.completion import Completion
from sage_cli.training.preference_data import Attempt, Lesson, lesson
from sage_cli.training.rollouts.order import training_order
from sage_cli.training.validation import Validation, validating

if TYPE_CHECKING:
    from sage_cli.training.callbacks import Watch


def train_by_retries(
    spec: RlSpec,
    root: Path,
    sampling: SamplingSection,
    start: Policy,
    problems: Sequence[Problem],
    validation: Validation | None,
    run: Run,
    watch: Watch,
    progress: Progress,
) -> None:
    """Train from `start` on what its tries and retries teach, and leave the policy in `run.model`.

    `root` is the folder of runs. `sampling` says how the tries are sampled, `validation` measures
    the policy in training.
    """
    tokenizer = start.tokenizer()
    learnt = guided_lesson(spec, start, problems, root, sampling, progress)
    from sage_cli.training.guided import train_guided
    from sage_cli.training.launch.memory_errors import loading, memory_explained

    def load(folder: Path | None) -> Any:
        begun = start if folder is None else Policy(str(folder), start.run, start.pretrained)
        with memory_explained(loading(spec), run):
            return policy_and_reference(spec, begun)[0]

    with validating(validation, tokenizer, watch.on_validation) as validator:
        train_guided(spec, learnt, load, tokenizer, run, watch.on_step, validator)


def guided_lesson(
    spec: RlSpec,
    start: Policy,
    problems: Sequence[Problem],
    root: Path,
    sampling: SamplingSection,
    progress: Progress,
) -> Lesson:
    """Have `start` try the problems that a training's steps would take, and learn from it."""
    rl = spec.rl
    assert isinstance(rl, GuidedDpo)
    chosen = [problems[row] for row in dict.fromkeys(training_order(len(problems), rl))]
    samples = PolicySamples.of_rollouts(start, spec, root)
    with (
        PolicySampler(samples, sampling, progress) as sampler,
        grader_for(spec.data.rl.name, spec.grading, spec.prompt) as grader,
    ):
        tried = attempts(chosen, spec, sampler, grader)
        failed = [attempt for attempt in tried if not attempt.solved]
        asked = [
            (attempt, again)
            for attempt in failed
            if (again := hinted(attempt.problem, rl, rl.hint_lines))
        ]
        retried = attempts([again for _, again in asked], spec, sampler, grader)
    pairs = [(attempt, again) for (attempt, _), again in zip(asked, retried, strict=True)]
    return lesson(tried, pairs, rl, rl.seed)


def attempts(
    problems: Sequence[Problem], spec: RlSpec, sampler: PolicySampler, grader: Grader
) -> list[Attempt]:
    """Each problem's `rl.rollouts_per_prompt` completions, stored or sampled now, with grades."""
    name, seed, n = spec.data.rl.name, spec.rl.seed, spec.rl.rollouts_per_prompt
    if not problems:
        return []
    benchmark = Benchmark(name, tuple(problems), *judge_of(name, spec.grading.judge))
    grades = sample_and_grade(sampler, benchmark, grader, seed, n)
    found: defaultdict[str, list[tuple[Completion, str]]] = defaultdict(list)
    for completion, status, _ in grades.stream(benchmark.golds, n):
        found[completion.problem_id].append((completion, status))
    return [_attempt(problem, found[problem.id]) for problem in problems]


def _attempt(problem: Problem, graded: list[tuple[Completion, str]]) -> Attempt:
    rows = sorted(graded, key=lambda pair: pair[0].index)

    def texts(*statuses: str) -> tuple[str, ...]:
        ended = (
            row.text for row, status in rows if row.finish_reason == "stop" and status in statuses
        )
        return tuple(dict.fromkeys(ended))

    return Attempt(
        problem,
        solved=any(status == "right" for _, status in rows),
        right=texts("right"),
        wrong=texts("wrong", "unparseable"),
        sampled=len(rows),
        tokens=sum(row.tokens for row, _ in rows),
    )
