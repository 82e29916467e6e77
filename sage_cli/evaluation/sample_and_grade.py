"""Sample with one engine for all benchmarks and seeds, and grade meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from sage_cli.config.schema import SageConfig
from sage_cli.errors import RefusedPromptsError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.policy_sampler import PolicySampler
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.stored_grades import seed_counts
from sage_cli.metrics.counts import SeedCounts
from sage_cli.progress import Progress
from sage_cli.store.annotations import GradeStore
from sage_cli.store.completion import Completion

if TYPE_CHECKING:
    from sage_cli.grading.grader import Grader
    from sage_cli.grading.grades import Grade

Measurements = Mapping[tuple[str, str], tuple[SeedCounts, ...]]
"""(benchmark, policy's label) -> one measurement per evaluation seed."""


def measure(
    policies: Sequence[PolicySamples],
    benchmarks: Sequence[Benchmark],
    config: SageConfig,
    progress: Progress,
) -> Measurements:
    """Measure every policy on every benchmark with every seed; a policy is loaded at most once.

    What is stored among its samples is neither sampled nor graded again. Raises
    RefusedPromptsError where prompts could not be answered, after all others.
    """
    measured: dict[tuple[str, str], tuple[SeedCounts, ...]] = {}
    refused: dict[str, str] = {}
    evaluation = config.evaluation
    seeds = range(evaluation.seed, evaluation.seed + evaluation.seeds)
    with ExitStack() as open_graders:
        graders = [  # kept for all policies: their workers take a second to start
            open_graders.enter_context(benchmark.grader(config.grading, config.prompt))
            for benchmark in benchmarks
        ]
        for samples in policies:
            with PolicySampler(samples, config.sampling, progress) as sampler:
                for benchmark, grader in zip(benchmarks, graders, strict=True):
                    by_seed = []
                    for seed in seeds:
                        try:
                            by_seed.append(
                                _measure_seed(sampler, benchmark, grader, seed, evaluation.samples)
                            )
                        except RefusedPromptsError as error:
                            refused |= error.reasons
                    measured[benchmark.name, sampler.label] = tuple(by_seed)
    if refused:
        raise RefusedPromptsError(refused)
    labels = [samples.policy.label for samples in policies]
    return {(b.name, label): measured[b.name, label] for b in benchmarks for label in labels}


def _measure_seed(
    sampler: PolicySampler, benchmark: Benchmark, grader: Grader, seed: int, n: int
) -> SeedCounts:
    """Fill a sample set, grade it as far as it isn't, and count it."""
    samples = sampler.samples.at(seed)
    grades = sample_and_grade(sampler, benchmark, grader, seed, n)
    tally = grades.tally(list(benchmark.golds), n)
    if tally.lacking:
        raise StoreError(
            f"{tally.lacking} samples of {samples.folder} have no grade: another process is "
            "changing the set",
            "run the same command again",
        )
    return seed_counts(sampler.label, benchmark.name, samples, tally)


def sample_and_grade(
    sampler: PolicySampler, benchmark: Benchmark, grader: Grader, seed: int, n: int
) -> GradeStore:
    """Sample and grade what a sample set lacks, and return its grades."""
    grades = GradeStore(sampler.samples.at(seed), grader.identity.mapping())
    opened = sampler.samples.template.opened
    graded = partial(grade_rows, benchmark=benchmark, grader=grader, opened=opened)
    with ExitStack() as grading:
        with _BackgroundGrading(grades, graded) as background:
            sampler.sample(seed, benchmark.problems, n, background.submit)
            doing = sampler.progress.doing(f"grading {sampler.label} on {benchmark.name}")
            grading.enter_context(doing)
        for rows in grades.missing(benchmark.golds, n):
            _store(grades, rows, graded(rows))
        grades.flush()
    return grades


def grade_rows(
    rows: Sequence[Completion], benchmark: Benchmark, grader: Grader, opened: str | None
) -> list[Grade]:
    """The grades of a benchmark's completions; `opened` is the template's."""
    return grader.grade_many(
        [(benchmark.golds[row.problem_id], f"{opened or ''}{row.text}") for row in rows],
        [benchmark.questions[row.problem_id] for row in rows],
    )


def _store(store: GradeStore, rows: Sequence[Completion], grades: Sequence[Grade]) -> None:
    graded = zip(rows, grades, strict=True)
    store.add([(row, grade.status, grade.extracted) for row, grade in graded])


class _BackgroundGrading:
    """Grades completions in a thread while others are sampled, and stores the grades."""

    def __init__(
        self, grades: GradeStore, graded: Callable[[list[Completion]], list[Grade]]
    ) -> None:
        self._grades, self._graded = grades, graded
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
        future = self._thread.submit(self._graded, rows)
        self._pending.append((rows, future))
        while self._pending and self._pending[0][1].done():
            self._store_first()

    def _store_first(self) -> None:
        rows, future = self._pending.popleft()
        _store(self._grades, rows, future.result())
