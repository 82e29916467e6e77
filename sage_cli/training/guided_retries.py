"""Problems tried by the policy as it starts, and the failed ones once more with a hint.

Completions and grades are stored as an evaluation's are: an interrupted training resumes from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.specs import RlSpec
from sage_cli.errors import TrainingError
from sage_cli.evaluation.benchmarks import Benchmark, grader_for, judge_of
from sage_cli.evaluation.measure import sample_and_grade
from sage_cli.evaluation.policy_sampler import PolicySampler
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.grading import Grader
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import policy_and_reference
from sage_cli.problems.demonstrations import hinted
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.store.runs.run import Run
from sage_cli.store.samples.completion import Completion
from sage_cli.training.rl_inputs import RlJob
from sage_cli.training.rollouts.order import permutations, training_order
from sage_cli.training.validation import validating

if TYPE_CHECKING:
    from sage_cli.training.callbacks import Watch


@dataclass(frozen=True)
class Attempt:
    """A problem's completions, each text once and in the order of their indices.

    `right` and `wrong` came to their end; `solved` counts right ones that were cut off, too.
    `sampled` completions and `tokens` are all.
    """

    problem: Problem
    solved: bool
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    sampled: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two completions of a question without its hint: `chosen` came with it, and is right."""

    question: str
    chosen: str
    rejected: str


@dataclass(frozen=True)
class Lesson:
    """Questions with right completions of their own, pairs, and how many there were of what.

    The texts of `examples` are in the order of SFT, each as often as it is taken in.
    """

    examples: Sequence[tuple[str, str]]
    pairs: Sequence[Pair]
    counts: Mapping[str, int]


def lesson(
    tried: Sequence[Attempt], retried: Sequence[tuple[Attempt, Attempt]], guided: GuidedDpo,
    seed: int,
) -> Lesson:  # fmt: skip
    """Learn from `tried` problems and from failed ones, each `retried` with its hint.

    A pair holds the next right completion with the hint and the next wrong one without it, as long
    as there are both. Raises TrainingError where no pair comes about.
    """
    pairs = [
        Pair(failed.problem.question, _begun(failed, again, guided) + chosen, rejected)
        for failed, again in retried
        for chosen, rejected in zip(again.right, failed.wrong, strict=False)
    ]
    if not pairs:
        raise _nothing_to_prefer(len(tried), len(retried), guided)
    right = [(attempt.problem.question, text) for attempt in tried for text in attempt.right]
    kept = sorted(permutations(len(right), round(guided.sft_share * len(right)), seed))
    order = permutations(len(kept), guided.sft_epochs * len(kept), seed)
    every = [*tried, *(again for _, again in retried)]
    counts = {
        "problems/tried": len(tried),
        "problems/failed": sum(not attempt.solved for attempt in tried),
        "problems/retried": len(retried),
        "problems/rescued": sum(again.solved for _, again in retried),
        "pairs/found": len(pairs),
        "sft/examples": len(kept),
        "sampled/completions": sum(one.sampled for one in every),
        "sampled/tokens": sum(one.tokens for one in every),
    }
    return Lesson([right[kept[place]] for place in order], pairs, counts)


def _begun(failed: Attempt, again: Attempt, guided: GuidedDpo) -> str:
    """Return the part of its own answer that the policy was given."""
    return again.problem.question.removeprefix(failed.problem.question) if guided.continued else ""


def _nothing_to_prefer(tried: int, retried: int, guided: GuidedDpo) -> TrainingError:
    if retried:
        return TrainingError(
            f"of {retried} failed problems that were retried with the first {guided.hint_lines} "
            "lines of their solutions none gave a right completion to prefer to a wrong one",
            "show more of the solutions (rl.hint_lines), or word the hint so that the "
            "policy heeds it (rl.hint)",
        )
    return TrainingError(
        f"of {tried} problems that were tried none was failed and has a hint: there is nothing to "
        "retry",
        "name harder problems (data.rl.name), try more of them (rl.steps, rl.prompts_per_step), or "
        "each less often (rl.rollouts_per_prompt)",
    )


def train_by_retries(job: RlJob, run: Run, watch: Watch, progress: Progress) -> None:
    """Train on what tries and retries teach, and leave the policy in `run.model`."""
    spec, start, tokenizer = job.spec, job.start, job.start.tokenizer()
    learnt = guided_lesson(job, progress)
    from sage_cli.training.guided import train_guided
    from sage_cli.training.launch.memory_errors import loading, memory_explained

    def load(folder: Path | None) -> Any:
        begun = start if folder is None else Policy(str(folder), start.run, start.pretrained)
        with memory_explained(loading(spec), run):
            return policy_and_reference(spec, begun)[0]

    with validating(job.validation, tokenizer, watch.on_validation) as validator:
        train_guided(spec, learnt, load, tokenizer, run, watch.on_step, validator)


def guided_lesson(job: RlJob, progress: Progress) -> Lesson:
    """Have the start try the problems that a training's steps would take, and learn from it."""
    spec, problems, rl = job.spec, job.problems, job.spec.rl
    assert isinstance(rl, GuidedDpo)
    chosen = [problems[row] for row in dict.fromkeys(training_order(len(problems), rl))]
    samples = PolicySamples.of_rollouts(job.start, spec, job.record.root)
    with (
        PolicySampler(samples, job.sampling, progress) as sampler,
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
