"""`sage samples show`: stored completions with their problems and verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.evaluation.answers import StoredAnswer, stored_answers
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.grading.grades import STATUSES
from sage_cli.models.policies.names import named_policy
from sage_cli.store.runs.run import Runs


def samples_show(
    config: SageConfig, name: str, problem: str | None, verdict: str | None, limit: int
) -> list[StoredAnswer]:
    """Return at most `limit` stored completions of a policy, in order of problems and samples.

    `problem` is a prefix of an id. Raises StoreError if no such completion is stored.
    """
    if verdict is not None and verdict not in STATUSES:
        raise ConfigurationError(
            f"there is no verdict '{verdict}'", f"there are {', '.join(STATUSES)}"
        )
    policy = named_policy(name, Runs(config.run.root), config.model)
    recipe = EvaluationRecipe.of(config)
    samples = PolicySamples.of_evaluation(policy, recipe, config.run.root)
    benchmarks = load_benchmarks(recipe.evaluation, recipe.data)
    ids = {one.name: _ids(one, problem) for one in benchmarks}
    if not any(ids.values()):
        raise DataError(
            f"no problem of {recipe.evaluation.benchmark} has an id that begins with '{problem}'",
            "the CSV of `sage passk` and of suites lists them",
        )
    answers = list(islice(_wanted(samples, benchmarks, recipe, ids, verdict), limit))
    if not answers:
        graded = f"{verdict} " if verdict else ""
        raise StoreError(
            f"no {graded}completion of {policy.label} on {recipe.evaluation.benchmark} is stored "
            "under these settings",
            f"`sage passk {name}` samples what is missing",
        )
    return answers


def _wanted(
    samples: PolicySamples,
    benchmarks: Sequence[Benchmark],
    recipe: EvaluationRecipe,
    ids: dict[str, list[str]],
    verdict: str | None,
) -> Iterator[StoredAnswer]:
    """Yield completions problem after problem, so that the first come before all are read."""
    for benchmark in benchmarks:
        for id_ in ids[benchmark.name]:
            answers = stored_answers(samples, benchmark, recipe, [id_], recipe.evaluation.samples)
            for answer in sorted(answers, key=lambda one: (one.seed, one.completion.index)):
                if verdict in (None, answer.status):
                    yield answer


def _ids(benchmark: Benchmark, prefix: str | None) -> list[str]:
    return [id_ for id_ in benchmark.golds if id_.startswith(prefix or "")]
