"""Read stored samples and grades of a policy on a benchmark. Nothing is sampled or written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.specs import EvaluationSpec
from sage_cli.evaluation.benchmarks import Benchmark, grader_for
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.metrics import Counts
from sage_cli.metrics.counts import SampleGrades
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.reports.measurement import Measured
from sage_cli.store.samples.annotations import GradeStore
from sage_cli.store.samples.completion import Completion
from sage_cli.store.samples.inventory import Tally
from sage_cli.store.samples.sample_set import SampleSet


@dataclass(frozen=True)
class Missing:
    """One policy on one benchmark, over all evaluation seeds: samples wanted, held, graded.

    `sample_sets` are the keys of the sets, none for a policy that isn't trained yet.
    """

    policy: str
    benchmark: str
    wanted: int
    held: int
    graded: int
    sample_sets: tuple[str, ...] = ()


def missing(
    policies: Sequence[Policy],
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
    root: Path,
) -> list[Missing]:
    """Count which samples of a measurement are stored, for each policy and benchmark."""
    evaluation, n = spec.evaluation, spec.evaluation.samples
    found = []
    for policy in policies:
        samples = PolicySamples.of_evaluation(policy, spec, root) if policy.exists else None
        for benchmark in benchmarks:
            each = n * len(benchmark.problems)
            wanted = each * evaluation.seeds
            if samples is None:
                found.append(Missing(policy.label, benchmark.name, wanted, 0, 0))
                continue
            held, graded, keys = 0, 0, []
            for stored, grades in stored_grades(samples, benchmark, spec):
                tally = grades.tally(list(benchmark.golds), n)
                held += each - stored.inventory().count_missing(list(benchmark.golds), n)
                graded += each - tally.lacking
                keys.append(stored.identity.key)
            found.append(Missing(policy.label, benchmark.name, wanted, held, graded, tuple(keys)))
    return found


def counts_of(tally: Tally, seed: int) -> Counts:
    """The counts of one evaluation seed, with each grade where none is missing."""
    grades = None if tally.lacking else SampleGrades((seed,), tally.right_PN)
    return Counts(tally.problem_ids, tally.n_P, tally.right_P, grades)


def stored_grades(
    samples: PolicySamples, benchmark: Benchmark, spec: EvaluationSpec
) -> Iterator[tuple[SampleSet, GradeStore]]:
    """For each evaluation seed its sample set, and the grades of the configured grader on it."""
    evaluation = spec.evaluation
    with grader_for(benchmark.name, spec.grading, spec.prompt) as grader:
        for seed in range(evaluation.seed, evaluation.seed + evaluation.seeds):
            stored = samples.at(seed, read_only=True)
            yield stored, GradeStore(stored, grader.identity.mapping())


def stored_measurements(
    samples: PolicySamples, benchmarks: Sequence[Benchmark], spec: EvaluationSpec
) -> dict[str, tuple[Measured, ...]] | None:
    """The measurements by benchmark, one for each evaluation seed; None if a sample is missing."""
    n, label = spec.evaluation.samples, samples.policy.label
    found: dict[str, tuple[Measured, ...]] = {}
    for benchmark in benchmarks:
        ids, seeds = tuple(benchmark.golds), []
        for stored, grades in stored_grades(samples, benchmark, spec):
            tally = grades.tally(ids, n)
            if tally.lacking:
                return None
            identity, counts = stored.identity, counts_of(tally, grades.seed)
            seeds.append(
                Measured(
                    label, benchmark.name, identity.seed, counts, tally.statuses, tally.truncated,
                    identity.key,
                )
            )  # fmt: skip
        found[benchmark.name] = tuple(seeds)
    return found


def stored_counts(
    policy: Policy,
    benchmark: Benchmark,
    spec: EvaluationSpec,
    root: Path,
    ns: Sequence[int],
) -> dict[int, list[Counts]]:
    """For each n of `ns`, the right ones among each problem's first n samples, a Counts per seed.

    Only samples with a grade are counted, so that `n_P` is below n where some are missing.
    `root` is the folder of runs.
    """
    samples = PolicySamples.of_evaluation(policy, spec, root)
    ids = tuple(benchmark.golds)
    found: dict[int, list[Counts]] = {n: [] for n in ns}
    for _, grades in stored_grades(samples, benchmark, spec):
        for n, of_seeds in found.items():
            tally = grades.tally(ids, n)
            of_seeds.append(counts_of(tally, grades.seed))
    return found


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
    spec: EvaluationSpec,
    problem_ids: Sequence[str],
    n: int,
) -> Iterator[StoredAnswer]:
    """The graded ones among the first `n` samples of these problems, seed after seed."""
    problems = {problem.id: problem for problem in benchmark.problems}
    for stored, grades in stored_grades(samples, benchmark, spec):
        for completion, status, extracted in grades.stream(problem_ids, n):
            yield StoredAnswer(
                problems[completion.problem_id], completion, status, extracted, stored.identity.seed
            )
