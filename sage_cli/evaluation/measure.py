"""Policies x benchmarks x seeds: sample what is missing, grade what is new, count it all."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import RefusedPromptsError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark, grader_for
from sage_cli.evaluation.policy_sampler import PolicySampler
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import counts_of
from sage_cli.grading import Grade, Grader
from sage_cli.progress import Progress
from sage_cli.reports.measurement import Measured
from sage_cli.store.samples.annotations import GradeStore
from sage_cli.store.samples.completion import Completion

Measurements = Mapping[tuple[str, str], tuple[Measured, ...]]
"""(benchmark, policy's label) -> one measurement per evaluation seed."""


def measure(
    policies: Sequence[PolicySamples],
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
    progress: Progress,
) -> Measurements:
    """Measure every policy on every benchmark with every seed; a policy is loaded at most once.

    What is stored among its samples is neither sampled nor graded again. Raises
    RefusedPromptsError where prompts could not be answered, after all others.
    """
    found: dict[tuple[str, str], list[Measured]] = {}
    refused: dict[str, str] = {}
    evaluation = spec.evaluation
    seeds = range(evaluation.seed, evaluation.seed + evaluation.seeds)
    with ExitStack() as open_graders:
        graders = [  # kept for all policies: their workers take a second to start
            open_graders.enter_context(grader_for(one.name, spec.grading, spec.prompt))
            for one in benchmarks
        ]
        for samples in policies:
            with PolicySampler(samples, spec.sampling, progress) as sampler:
                for benchmark, grader in zip(benchmarks, graders, strict=True):
                    of_seeds = found[benchmark.name, sampler.label] = []
                    for seed in seeds:
                        try:
                            of_seeds.append(
                                _measure_seed(sampler, benchmark, grader, seed, evaluation.samples)
                            )
                        except RefusedPromptsError as error:
                            refused |= error.reasons
    if refused:
        raise RefusedPromptsError(refused)
    return {
        (benchmark.name, samples.policy.label): tuple(found[benchmark.name, samples.policy.label])
        for benchmark in benchmarks
        for samples in policies
    }


def _measure_seed(
    sampler: PolicySampler, benchmark: Benchmark, grader: Grader, seed: int, n: int
) -> Measured:
    """Fill a sample set, grade it as far as it isn't, and count it."""
    samples = sampler.samples_at(seed)
    grades = sample_and_grade(sampler, benchmark, grader, seed, n)
    tally = grades.tally(list(benchmark.golds), n)
    if tally.lacking:
        raise StoreError(
            f"{tally.lacking} samples of {samples.folder} have no grade: another process is "
            "changing the set",
            "type the same command again",
        )
    return Measured(
        sampler.label,
        benchmark.name,
        seed,
        counts_of(tally, seed),
        tally.statuses,
        tally.truncated,
        samples.identity.key,
    )


def sample_and_grade(
    sampler: PolicySampler, benchmark: Benchmark, grader: Grader, seed: int, n: int
) -> GradeStore:
    """Sample and grade what a sample set lacks, and return its grades."""
    grades = GradeStore(sampler.samples_at(seed), grader.identity.mapping())
    with ExitStack() as grading:
        with _BackgroundGrading(grades, benchmark, grader) as background:
            sampler.sample(seed, benchmark.problems, n, background.submit)
            doing = sampler.progress.doing(f"grading {sampler.label} on {benchmark.name}")
            grading.enter_context(doing)
        for rows in grades.missing(benchmark.golds, n):
            grades.add(_with_grades(rows, grade_rows(rows, benchmark, grader)))
        grades.flush()
    return grades


def grade_rows(rows: Sequence[Completion], benchmark: Benchmark, grader: Grader) -> list[Grade]:
    """The grades of a benchmark's completions."""
    return grader.grade_many([(benchmark.golds[row.problem_id], row.text) for row in rows])


def _with_grades(
    rows: Sequence[Completion], grades: Sequence[Grade]
) -> list[tuple[Completion, str, str | None]]:
    """Completions with their grades, as they are stored."""
    return [(row, grade.status, grade.extracted) for row, grade in zip(rows, grades, strict=True)]


class _BackgroundGrading:
    """Grades completions in a thread while others are sampled, and stores the grades."""

    def __init__(self, grades: GradeStore, benchmark: Benchmark, grader: Grader) -> None:
        self._grades, self._benchmark, self._grader = grades, benchmark, grader
        self._pending: deque[tuple[list[Completion], Future[list[Grade]]]] = deque()
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> _BackgroundGrading:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        while self._pending:
            self._store_first()
        self._grades.flush()

    def submit(self, rows: list[Completion]) -> None:
        """Grade `rows` too. An error in the thread is raised by a later call or at the end."""
        future = self._thread.submit(grade_rows, rows, self._benchmark, self._grader)
        self._pending.append((rows, future))
        while self._pending and self._pending[0][1].done():
            self._store_first()

    def _store_first(self) -> None:
        rows, future = self._pending.popleft()
        self._grades.add(_with_grades(rows, future.result()))
