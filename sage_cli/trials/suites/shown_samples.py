"""The completions on a suite's page: a few of each policy, right and wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from sage_cli.config.specs import EvaluationSpec
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import StoredAnswer, stored_answers
from sage_cli.json_value import json_value
from sage_cli.metrics import pooled
from sage_cli.reports.page import ShownSample, ShownToken
from sage_cli.store.runs.run import Run
from sage_cli.trials.suites.planned import PlannedSuite
from sage_cli.trials.suites.results import MethodResult, PartResult

PROBLEMS, OF_EACH_GRADE, READ = 8, 1, 32
"""Problems of a benchmark, completions of a grade, samples of a problem that are read."""


def shown_samples(plan: PlannedSuite, found: Sequence[PartResult]) -> list[ShownSample]:
    """One completion of each grade on some problems, for every method."""
    return [sample for result in found for one in result.there for sample in _of(one, result, plan)]


def _of(method: MethodResult, result: PartResult, plan: PlannedSuite) -> Iterator[ShownSample]:
    """Those of the first replicate, on problems from the rarest to the surest of the base."""
    replicate = next((one for one in method.replicates if one.policy.exists), None)
    if replicate is None:  # its measurements are published ones, which hold no texts
        return
    recipe, reference = EvaluationSpec.of(replicate.config), result.base or result.there[0]
    samples = PolicySamples.of_evaluation(replicate.policy, recipe, replicate.config.run.root)
    guided = _guided(replicate.policy.run)
    for benchmark in plan.stored.benchmarks(replicate.config):
        counts = pooled(reference.side(benchmark.name).counts)
        order = np.argsort(counts.c_P / counts.n_P, kind="stable")
        places = np.unique(np.linspace(0, len(order) - 1, PROBLEMS).round().astype(int))
        ids = [counts.problem_ids[order[place]] for place in places]
        ids += [id_ for id_ in guided if id_ in benchmark.golds and id_ not in ids]
        seen: Counter[tuple[str, str]] = Counter()
        n = min(READ, recipe.evaluation.samples)
        answers = stored_answers(samples, benchmark, recipe, ids, n)
        for answer in sorted(answers, key=lambda one: ids.index(one.problem.id)):
            key = (answer.problem.id, answer.status)
            seen[key] += 1
            if seen[key] <= OF_EACH_GRADE:
                first = answer.completion.index == 0 and answer.seed == recipe.evaluation.seed
                tokens = guided.get(answer.problem.id, ()) if first else ()
                yield _shown(answer, replicate.title, result.suite.name, benchmark.name, tokens)


def _shown(
    answer: StoredAnswer,
    policy: str,
    chapter: str,
    benchmark: str,
    tokens: tuple[ShownToken, ...],
) -> ShownSample:
    problem = answer.problem
    return ShownSample(
        chapter, policy, benchmark, problem.id, problem.question, problem.gold, answer.status,
        answer.extracted, answer.completion.text, tokens,
    )  # fmt: skip


def _guided(run: Run | None) -> dict[str, tuple[ShownToken, ...]]:
    """Problem -> the tokens of its first sample, if the token report of the guide is stored."""
    try:
        held = json_value(run.guide.read_bytes()) if run else {}
        return {
            one["problem_id"]: tuple(
                ShownToken(*each)
                for each in zip(
                    one["tokens"], one["values"]["q_T"], one["values"]["entropy_T"], strict=True
                )
            )
            for one in held.get("completions", ())
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # a report that is torn
