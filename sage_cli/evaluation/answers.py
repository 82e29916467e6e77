"""Stored completions with their problems and verdicts, for people to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import stored_verdicts
from sage_cli.problems.problem import Problem
from sage_cli.store.samples.completion import Completion


@dataclass(frozen=True)
class StoredAnswer:
    """A problem, a completion, and what a grader found of it."""

    problem: Problem
    completion: Completion
    status: str
    extracted: str | None
    seed: int


def stored_answers(
    samples: PolicySamples,
    benchmark: Benchmark,
    recipe: EvaluationRecipe,
    problem_ids: Sequence[str],
    n: int,
) -> Iterator[StoredAnswer]:
    """The graded ones among the first `n` samples of these problems, seed after seed."""
    problems = {problem.id: problem for problem in benchmark.problems}
    for stored, verdicts in stored_verdicts(samples, benchmark, recipe):
        for completion, status, extracted in verdicts.stream(problem_ids, n):
            yield StoredAnswer(
                problems[completion.problem_id], completion, status, extracted, stored.identity.seed
            )
