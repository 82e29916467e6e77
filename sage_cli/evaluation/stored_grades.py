"""Count what is stored of a measurement, without sampling or grading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.final_answers import count_answers
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.metrics import Counts
from sage_cli.metrics.counts import SampleGrades, SeedCounts
from sage_cli.models.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.store.annotations import GradeStore
from sage_cli.store.completion import Completion
from sage_cli.store.inventory import Tally
from sage_cli.store.run import IMPORTED
from sage_cli.store.sample_set import SampleIdentity, SampleSet


@dataclass(frozen=True)
class Missing:
    """One policy on one benchmark, over all evaluation seeds: samples needed, stored, graded.

    `sample_sets` are the keys of the sets, none for a policy that isn't trained yet.
    """

    policy: str
    benchmark: str
    needed: int
    stored: int
    graded: int
    sample_sets: tuple[str, ...] = ()


def missing(
    policies: Sequence[Policy], benchmarks: Sequence[Benchmark], config: SageConfig, root: Path
) -> list[Missing]:
    """Count which samples of a measurement are stored, for each policy and benchmark."""
    evaluation, n = config.evaluation, config.evaluation.samples
    rows = []
    for policy in policies:
        samples = PolicySamples.from_config(policy, config, root) if policy.exists else None
        for benchmark in benchmarks:
            per_seed = n * len(benchmark.problems)
            needed = per_seed * evaluation.seeds
            if samples is None:
                rows.append(Missing(policy.label, benchmark.name, needed, 0, 0))
                continue
            stored_n, graded, keys = 0, 0, []
            for stored, grades in stored_grades(samples, benchmark, config):
                tally = grades.tally(list(benchmark.golds), n)
                stored_n += per_seed - stored.inventory().count_missing(list(benchmark.golds), n)
                graded += per_seed - tally.lacking
                keys.append(stored.identity.key)
            rows.append(
                Missing(policy.label, benchmark.name, needed, stored_n, graded, tuple(keys))
            )
    return rows


def counts_of(tally: Tally, seed: int | None) -> Counts:
    """The counts of one evaluation seed, with each grade where none is missing.

    The seed of samples that another program took is unknown: None.
    """
    grades = None if tally.lacking else SampleGrades((seed,), tally.right_PN)
    return Counts(tally.problem_ids, tally.n_P, tally.right_P, grades)


def with_votes(
    seeds: Sequence[Counts], samples: PolicySamples, benchmark: Benchmark, config: SageConfig
) -> list[Counts]:
    """Return the counts of each evaluation seed with the final answers of each problem.

    Raises ConfigurationError where samples were graded without an answer.
    """
    ids, n = tuple(benchmark.golds), config.evaluation.samples
    return [
        replace(counts.ordered(ids), votes=count_answers(grades, ids, n))
        for counts, (_, grades) in zip(
            seeds, stored_grades(samples, benchmark, config), strict=True
        )
    ]


def known_seed(identity: SampleIdentity) -> int | None:
    """The seed that a set's samples were drawn with; None for those of another program."""
    return None if identity.template == IMPORTED else identity.seed


def seed_counts(label: str, benchmark: str, samples: SampleSet, tally: Tally) -> SeedCounts:
    """A tally of a policy's samples as the measurement of their evaluation seed."""
    identity = samples.identity
    counts = counts_of(tally, known_seed(identity))
    return SeedCounts(
        label,
        benchmark,
        identity.seed,
        counts,
        tally.statuses,
        tally.truncated,
        identity.key,
        tally.right_truncated,
    )


def stored_grades(
    samples: PolicySamples, benchmark: Benchmark, config: SageConfig
) -> Iterator[tuple[SampleSet, GradeStore]]:
    """For each evaluation seed its sample set, and the grades of the configured grader on it."""
    evaluation = config.evaluation
    with benchmark.grader(config.grading, config.prompt) as grader:
        for seed in range(evaluation.seed, evaluation.seed + evaluation.seeds):
            stored = samples.at(seed, read_only=True)
            yield stored, GradeStore(stored, grader.identity.mapping())


def stored_measurements(
    samples: PolicySamples, benchmarks: Sequence[Benchmark], config: SageConfig
) -> dict[str, tuple[SeedCounts, ...]] | None:
    """The measurements by benchmark, one for each evaluation seed; None if a sample is missing."""
    n, label = config.evaluation.samples, samples.policy.label
    measured: dict[str, tuple[SeedCounts, ...]] = {}
    for benchmark in benchmarks:
        ids, seeds = tuple(benchmark.golds), []
        for stored, grades in stored_grades(samples, benchmark, config):
            tally = grades.tally(ids, n)
            if tally.lacking:
                return None
            seeds.append(seed_counts(label, benchmark.name, stored, tally))
        measured[benchmark.name] = tuple(seeds)
    return measured


def stored_counts(
    policy: Policy, benchmark: Benchmark, config: SageConfig, root: Path, ns: Sequence[int]
) -> dict[int, list[Counts]]:
    """For each n of `ns`, the correct ones among each problem's first n samples, a Counts per seed.

    Only samples with a grade are counted, so that `n_P` is below n where some are missing.
    `root` is the folder of runs.
    """
    samples = PolicySamples.from_config(policy, config, root)
    ids = tuple(benchmark.golds)
    counts: dict[int, list[Counts]] = {n: [] for n in ns}
    for stored, grades in stored_grades(samples, benchmark, config):
        seed = known_seed(stored.identity)
        for n, by_seed in counts.items():
            by_seed.append(counts_of(grades.tally(ids, n), seed))
    return counts


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
    config: SageConfig,
    problem_ids: Sequence[str],
    n: int,
) -> Iterator[StoredAnswer]:
    """The graded ones among the first `n` samples of these problems, seed after seed."""
    problems = {problem.id: problem for problem in benchmark.problems}
    for stored, grades in stored_grades(samples, benchmark, config):
        for completion, status, extracted in grades.stream(problem_ids, n):
            yield StoredAnswer(
                problems[completion.problem_id], completion, status, extracted, stored.identity.seed
            )
