"""A policy's graded samples on a benchmark as a stream, and features of their texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.final_answers import count_answers, final_answer
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.stored_grades import counts_of, stored_grades
from sage_cli.grading.grades import Grade
from sage_cli.metrics import Counts, pooled
from sage_cli.metrics.estimators import FloatArray, entropy_of_counts
from sage_cli.problems.problem import Problem
from sage_cli.settings.shipped import shipped
from sage_cli.settings.yaml_files import read_yaml
from sage_cli.store.annotations import Annotations, GradeStore
from sage_cli.store.completion import Completion

_TAGGED = re.compile(r"<[^<>\s]+>")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}")
_LEFT_OUT = re.compile(r"[\s.,;!?'\"`$]+|\*\*|\\[\[\]()]")


class GradedSample(NamedTuple):
    """A stored sample of a problem with its grade."""

    problem: Problem
    completion: Completion
    grade: Grade

    @property
    def right(self) -> bool:
        """Return True if it was graded correct."""
        return self.grade.status == "right"

    @property
    def final_answer(self) -> str | None:
        """Return the answer by which samples are distinguished, as `final_answer` makes it."""
        return final_answer(self.grade.status, self.grade.extracted)


class Score(NamedTuple):
    """Mean surprisal and entropy of a completion's `length` tokens under a model, in nats."""

    surprisal: float
    entropy: float
    length: int

    @property
    def log_probability(self) -> float:
        """Return the log-probability of the whole completion, in nats."""
        return -self.surprisal * self.length if self.length else 0.0


@dataclass(frozen=True, eq=False)
class Answers:
    """The first `n` samples of each of a benchmark's problems, with a store per evaluation seed.

    Samples of several seeds are from one policy and are pooled. `scores` are a model's surprisal
    and entropy, a store per seed, if an analysis needs them.
    """

    policy: str
    benchmark: Benchmark
    n: int
    grades: tuple[GradeStore, ...]
    scores: tuple[Annotations, ...] = ()

    @classmethod
    def from_samples(
        cls, samples: PolicySamples, benchmark: Benchmark, config: SageConfig
    ) -> Answers:
        """Return a policy's answers on a benchmark, under the evaluation's settings."""
        stores = tuple(store for _, store in stored_grades(samples, benchmark, config))
        return cls(samples.policy.label, benchmark, config.evaluation.samples, stores)

    @cached_property
    def problems(self) -> dict[str, Problem]:
        """Return problems by id, in the benchmark's order."""
        return {problem.id: problem for problem in self.benchmark.problems}

    def rows(self, problem_ids: Collection[str] | None = None) -> Iterator[GradedSample]:
        """Yield each sample with its grade in stored order, one part in memory at a time."""
        for store in self.grades:
            for completion, status, extracted in store.stream(problem_ids or self.problems, self.n):
                problem = self.problems[completion.problem_id]
                yield GradedSample(problem, completion, Grade(status, extracted))

    def final_answers(self) -> dict[str, Counter[str | None]]:
        """Return problem id -> how often each final answer was given; None counts as one."""
        counted: dict[str, Counter[str | None]] = {id_: Counter() for id_ in self.problems}
        for row in self.rows():
            counted[row.problem.id][row.final_answer] += 1
        return counted

    def votes(self) -> Counts:
        """Return the counts with the final answers of each problem. Raises ConfigurationError."""
        ids, seeds = tuple(self.problems), []
        for store in self.grades:
            counts = counts_of(store.tally(ids, self.n), store.seed)
            seeds.append(replace(counts, votes=count_answers(store, ids, self.n)))
        return pooled(seeds)

    def scored_rows(self) -> Iterator[tuple[GradedSample, Score]]:
        """Yield each sample with its score. Raises ValueError if a graded sample has none."""
        for sample, values in self.annotated(self.scores):
            yield sample, Score(*values)

    def annotated(self, *kinds: Sequence[Annotations]) -> Iterator[tuple[Any, ...]]:
        """Yield each sample with its values of each of `kinds`, which has a store per seed.

        Raises ValueError if a graded sample has none.
        """
        for graded, *others in zip(self.grades, *kinds, strict=True):
            count = graded.count(self.problems, self.n)
            for store in others:
                if lacking := count - store.count(self.problems, self.n):
                    raise ValueError(f"{lacking} samples have a grade and no values")
        yield from zip(self.rows(), *map(self._values, kinds), strict=True)

    def _values(self, stores: Sequence[Annotations]) -> Iterator[list[Any]]:
        for store in stores:
            for _, *values in store.stream(self.problems, self.n):
                yield values

    @cached_property
    def counts(self) -> Counts:
        """Return samples and correct samples of each problem over all seeds; no text is read."""
        ids = tuple(self.problems)
        return pooled([counts_of(store.tally(ids, self.n), store.seed) for store in self.grades])

    @property
    def right_shares(self) -> FloatArray:
        """Return the share of correct samples of each problem."""
        return self.counts.c_P / self.counts.n_P

    def answer_entropies(self) -> FloatArray:
        """Return the entropy of each problem's final answers in nats; None counts as one."""
        counted = self.final_answers().values()
        return np.array([entropy_of_counts(list(answers.values())) for answers in counted])


def skeleton(text: str) -> str:
    r"""Return a solution without its words and numbers: signs, LaTeX commands, single letters.

    Each number is `#`; tags, words of two letters and more, blanks and punctuation are left out:
    `S: 47*60=2820; then 47*3=141` is `S:#*#=##*#=#`. Two solutions with one skeleton calculate in
    the same way; rewording does not change it, renaming variables does.
    """
    bare = _WORD.sub("", _TAGGED.sub("", text))
    return _LEFT_OUT.sub("", _NUMBER.sub("#", bare))


@dataclass(frozen=True)
class Detector:
    """A pattern of reasoning: a text shows it if any of the `expressions` is found."""

    name: str
    expressions: tuple[re.Pattern[str], ...]

    def shown_by(self, text: str) -> bool:
        """Return True if the text shows the pattern."""
        return any(expression.search(text) for expression in self.expressions)


def read_detectors(path: Path | None = None) -> tuple[Detector, ...]:
    """Return the detectors of a YAML file, by default the paper's three patterns.

    The file has lists of expressions by name; case is ignored. Raises ConfigurationError for a file
    that is not of this form.
    """
    path = path or shipped("configs/analyses") / "patterns.yaml"
    detectors = []
    for name, expressions in read_yaml(path).items():
        if not (isinstance(expressions, list) and expressions):
            raise ConfigurationError(
                f"{path}: pattern '{name}' must be a list of expressions, not {expressions!r}",
                "write each expression on its own line, for example `- 'of the form'`",
            )
        detectors.append(
            Detector(name, tuple(_compiled(path, name, expression) for expression in expressions))
        )
    if not detectors:
        raise ConfigurationError(
            f"{path} contains no patterns", "write `name:` and its expressions"
        )
    return tuple(detectors)


def _compiled(path: Path, name: str, expression: object) -> re.Pattern[str]:
    try:
        return re.compile(str(expression), re.IGNORECASE)
    except re.error as error:
        raise ConfigurationError(
            f"{path}: pattern '{name}' can't be read: {expression} ({error})",
            "fix the expression (Python's `re` syntax)",
        ) from None
