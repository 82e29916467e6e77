"""Problems tried by the policy as it starts, and the failed ones once more with a hint.

Completions and verdicts are stored as an evaluation's are: whoever is interrupted goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.recipe import RlRecipe
from sage_cli.config.sampling import SamplingSection
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import Benchmark, grader_for, judge_of
from sage_cli.evaluation.development import looking
from sage_cli.evaluation.drawing import Drawing
from sage_cli.evaluation.measure import draw_and_grade
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.grading import Grader
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import policy_and_reference
from sage_cli.problems.hints import hinted
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.store.runs.run import Run
from sage_cli.store.samples.completion import Completion
from sage_cli.training.lesson import Attempt, Lesson, lesson
from sage_cli.training.order import training_order
from sage_cli.training.preferences import guided

if TYPE_CHECKING:
    from sage_cli.training.watch import Watch


def train_by_retries(
    config: SageConfig,
    start: Policy,
    problems: Sequence[Problem],
    run: Run,
    watch: Watch,
    progress: Progress,
) -> None:
    """Train from `start` on what its tries and retries teach; leaves the policy in `run.model`."""
    recipe, tokenizer = RlRecipe.of(config), start.tokenizer()
    learnt = guided_lesson(recipe, start, problems, config.run.root, config.sampling, progress)
    from sage_cli.training.guided import train_guided
    from sage_cli.training.memory_errors import loading, memory_explained

    def load(folder: Path | None) -> Any:
        begun = start if folder is None else Policy(str(folder), start.run, start.pretrained)
        with memory_explained(loading(recipe), run):
            return policy_and_reference(recipe, begun)[0]

    with looking(config, tokenizer, watch.on_look) as looks:
        train_guided(recipe, learnt, load, tokenizer, run, watch.on_step, looks)


def guided_lesson(
    recipe: RlRecipe,
    start: Policy,
    problems: Sequence[Problem],
    root: Path,
    sampling: SamplingSection,
    progress: Progress,
) -> Lesson:
    """Have `start` try the problems that a training's steps would take, and learn from it."""
    rl = guided(recipe)
    chosen = [problems[row] for row in dict.fromkeys(training_order(len(problems), rl))]
    samples = PolicySamples.of_rollouts(start, recipe, root)
    with (
        Drawing(samples, sampling, progress) as drawing,
        grader_for(recipe.data.rl.name, recipe.grading, recipe.prompt) as grader,
    ):
        tried = attempts(chosen, recipe, drawing, grader)
        failed = [attempt for attempt in tried if not attempt.solved]
        asked = [(attempt, again) for attempt in failed if (again := hinted(attempt.problem, rl))]
        retried = attempts([again for _, again in asked], recipe, drawing, grader)
    pairs = [(attempt, again) for (attempt, _), again in zip(asked, retried, strict=True)]
    return lesson(tried, pairs, rl, rl.seed)


def attempts(
    problems: Sequence[Problem], recipe: RlRecipe, drawing: Drawing, grader: Grader
) -> list[Attempt]:
    """Each problem's `rl.rollouts_per_prompt` completions, drawn and graded as far as they lack."""
    name, seed, n = recipe.data.rl.name, recipe.rl.seed, recipe.rl.rollouts_per_prompt
    if not problems:
        return []
    benchmark = Benchmark(name, tuple(problems), *judge_of(name))
    verdicts = draw_and_grade(drawing, benchmark, grader, seed, n)
    found: defaultdict[str, list[tuple[Completion, str]]] = defaultdict(list)
    for completion, status, _ in verdicts.stream(benchmark.golds, n):
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
        drawn=len(rows),
        tokens=sum(row.tokens for row, _ in rows),
    )
