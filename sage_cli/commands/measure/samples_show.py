"""`sage samples show`: stored completions with their problems and grades."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import StoredAnswer, stored_answers
from sage_cli.grading.grades import STATUSES
from sage_cli.models.policies.names import named_policy
from sage_cli.store.runs.run import Runs


def samples_show(
    evaluation: Evaluation, name: str, problem: str | None, grade: str | None, limit: int
) -> list[StoredAnswer]:
    """Return at most `limit` stored completions of a policy, in order of problems and samples.

    `problem` is a prefix of an id. Raises StoreError if no such completion is stored.
    """
    if grade is not None and grade not in STATUSES:
        raise ConfigurationError(f"there is no grade '{grade}'", f"there are {', '.join(STATUSES)}")
    spec, benchmarks = evaluation.spec, evaluation.benchmarks
    policy = named_policy(name, Runs(evaluation.root), spec.model)
    samples = evaluation.samples(policy)
    ids = {one.name: _ids(one, problem) for one in benchmarks}
    if not any(ids.values()):
        raise DataError(
            f"no problem of {spec.evaluation.benchmark} has an id that begins with '{problem}'",
            "the CSV of `sage passk` and of suites lists them",
        )
    answers = list(islice(_wanted(samples, benchmarks, spec, ids, grade), limit))
    if not answers:
        graded = f"{grade} " if grade else ""
        raise StoreError(
            f"no {graded}completion of {policy.label} on {spec.evaluation.benchmark} is stored "
            "under these settings",
            f"`sage passk {name}` samples what is missing",
        )
    return answers


def _wanted(
    samples: PolicySamples,
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
    ids: dict[str, list[str]],
    grade: str | None,
) -> Iterator[StoredAnswer]:
    """Yield completions problem after problem, so that the first come before all are read."""
    for benchmark in benchmarks:
        for id_ in ids[benchmark.name]:
            answers = stored_answers(samples, benchmark, spec, [id_], spec.evaluation.samples)
            for answer in sorted(answers, key=lambda one: (one.seed, one.completion.index)):
                if grade in (None, answer.status):
                    yield answer


def _ids(benchmark: Benchmark, prefix: str | None) -> list[str]:
    return [id_ for id_ in benchmark.golds if id_.startswith(prefix or "")]
