"""What a policy answered on a benchmark: a stream of (problem, completion, grade)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.stored import counts_of
from sage_cli.grading.status import Grade
from sage_cli.metrics import Counts, pooled
from sage_cli.metrics.majority import RIGHT
from sage_cli.problems.problem import Problem
from sage_cli.store.completion import Completion
from sage_cli.store.readings import ReadingStore
from sage_cli.store.verdicts import VerdictStore


class GradedSample(NamedTuple):
    """One stored sample of a problem with its verdict."""

    problem: Problem
    completion: Completion
    grade: Grade

    @property
    def right(self) -> bool:
        """Whether it was graded right."""
        return self.grade.status == "right"

    @property
    def final_answer(self) -> str | None:
        """RIGHT, or a wrong answer's text without blanks and case; None where there is no answer.

        Two spellings of one wrong answer count as two: only the gold is compared as mathematics.
        """
        if self.right:
            return RIGHT
        extracted = self.grade.extracted
        if self.grade.status == "unparseable" or extracted is None:
            return None
        return "= " + "".join(extracted.split()).casefold()


class Reading(NamedTuple):
    """Mean surprisal and entropy of a completion's `length` tokens under a model, in nats."""

    surprisal: float
    entropy: float
    length: int


@dataclass(frozen=True, eq=False)
class Answers:
    """The first `n` samples of each of a benchmark's problems, with a store per evaluation seed.

    Samples of several seeds are draws from one policy: they are taken together. `readings` hold
    what a model says of them, a store per seed, where an analysis needs it.
    """

    policy: str
    benchmark: Benchmark
    n: int
    verdicts: tuple[VerdictStore, ...]
    readings: tuple[ReadingStore, ...] = ()

    @cached_property
    def problems(self) -> dict[str, Problem]:
        """Problems by id, in the benchmark's order."""
        return {problem.id: problem for problem in self.benchmark.problems}

    def rows(self, problem_ids: Collection[str] | None = None) -> Iterator[GradedSample]:
        """Every sample with its verdict, as they are stored; in memory is one part at a time."""
        for store in self.verdicts:
            for completion, status, extracted in store.stream(problem_ids or self.problems, self.n):
                problem = self.problems[completion.problem_id]
                yield GradedSample(problem, completion, Grade(status, extracted))

    def final_answers(self) -> dict[str, Counter[str | None]]:
        """Problem id -> how often each final answer was given, None being one more."""
        counted: dict[str, Counter[str | None]] = {id_: Counter() for id_ in self.problems}
        for row in self.rows():
            counted[row.problem.id][row.final_answer] += 1
        return counted

    def read_rows(self) -> Iterator[tuple[GradedSample, Reading]]:
        """The same with what the model said of each, which must have been asked of all."""
        for verdicts, readings in zip(self.verdicts, self.readings, strict=True):
            graded, read = (store.count(self.problems, self.n) for store in (verdicts, readings))
            if graded != read:
                raise ValueError(f"{graded - read} samples have a verdict and no reading")
        rows = self.rows()
        for store in self.readings:
            for _, *values in store.stream(self.problems, self.n):
                yield next(rows), Reading(*values)

    @cached_property
    def counts(self) -> Counts:
        """Samples and right ones of each problem, over all seeds; no text is read."""
        ids = tuple(self.problems)
        return pooled([counts_of(one.tally(ids, self.n), one.seed) for one in self.verdicts])
