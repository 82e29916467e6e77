"""Counts of correct samples per problem, with the statistic that sides are compared by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.estimators import (
    BoolArray,
    FloatArray,
    IntArray,
    Votes,
    all_right_at_k,
    curve_ks,
    g_pass_at_k,
    maj_at_k,
    pass_at_k,
    powers_up_to,
    whole_numbers,
)

HALF = 0.5


@dataclass(frozen=True)
class Statistic:
    """What is computed of each problem's counts, and how it is called in reports.

    `values` goes from counts to a number in [0, 1] for each of P problems and each k, shape (P, K).
    With `of_answers` it reads the counts' `votes`. Its curve then has only the powers of two and
    the ks that are asked for, because each k of a majority is computed by drawing samples.
    """

    name: str
    meaning: str
    values: Callable[[Counts, Sequence[int]], FloatArray]
    of_answers: bool = False

    def curve_ks(self, n: int, asked: Sequence[int]) -> tuple[int, ...]:
        """Return the ks of a curve over n samples."""
        return tuple(sorted({*powers_up_to(n), *asked})) if self.of_answers else curve_ks(n, asked)


@dataclass(frozen=True, eq=False)
class SampleGrades:
    """Correct or not for each sample, shape (P, N): a block of n columns per evaluation seed.

    Column i of a block is sample i of that seed. A seed of None is unknown, as those of samples
    that another program took.
    """

    seeds: tuple[int | None, ...]
    right_PN: BoolArray


@dataclass(frozen=True, eq=False)
class Counts:
    """n samples and c correct ones per problem, of one model on one benchmark with one seed.

    `n_P` and `c_P` may differ from problem to problem. `grades` are those of the single samples,
    where all of them are known, and `votes` the final answers of each problem. Curves, differences,
    intervals and tables of the counts are those of their `statistic`. Raises MetricError where a
    problem is named twice or c lies outside 0..n.
    """

    problem_ids: tuple[str, ...]
    n_P: IntArray
    c_P: IntArray
    grades: SampleGrades | None = None
    votes: tuple[Votes, ...] | None = None
    statistic: Statistic = field(default_factory=lambda: STATISTICS["pass"])

    def __post_init__(self) -> None:
        object.__setattr__(self, "problem_ids", tuple(self.problem_ids))
        for name in ("n_P", "c_P"):
            values_P = whole_numbers(getattr(self, name), name).copy()
            values_P.flags.writeable = False
            object.__setattr__(self, name, values_P)
            if values_P.shape != (len(self.problem_ids),):
                raise MetricError(
                    f"{len(self.problem_ids)} problems, but {name} has shape {values_P.shape}"
                )
        if repeated := [id_ for id_, times in Counter(self.problem_ids).items() if times > 1]:
            raise MetricError(f"problem '{repeated[0]}' is counted twice")
        bad = np.flatnonzero((self.c_P < 0) | (self.c_P > self.n_P))
        if bad.size:
            id_, n, c = self.problem_ids[bad[0]], self.n_P[bad[0]], self.c_P[bad[0]]
            raise MetricError(f"problem '{id_}': {c} correct of {n} samples is impossible")

    def __len__(self) -> int:
        return len(self.problem_ids)

    @classmethod
    def of(cls, by_problem: Mapping[str, tuple[int, int]]) -> Counts:
        """Return the counts of problem id -> n and c."""
        n_P, c_P = np.array([*by_problem.values()], np.int64).reshape(-1, 2).T
        return cls(tuple(by_problem), n_P, c_P)

    def ordered(self, problem_ids: Sequence[str]) -> Counts:
        """The same counts in the order of `problem_ids`, which must name exactly these problems.

        A problem that is missing on either side is a MetricError: the mean over the remaining ones
        is a mean over other problems.
        """
        if tuple(problem_ids) == self.problem_ids:
            return self
        if differing := set(problem_ids) ^ set(self.problem_ids):
            raise MetricError(
                f"the sides have different problems: {len(differing)} are on one side "
                f"only, for example '{min(differing)}'",
                "measure both on the same problems (same benchmark, same --limit)",
            )
        return self.select(problem_ids)

    def select(self, problem_ids: Sequence[str]) -> Counts:
        """Return the counts of these problems, in their order."""
        row_of = {id_: index for index, id_ in enumerate(self.problem_ids)}
        rows = [row_of[id_] for id_ in problem_ids]
        index_P = np.array(rows, int)
        grades = self.grades and SampleGrades(self.grades.seeds, self.grades.right_PN[index_P])
        votes = None if self.votes is None else tuple(self.votes[row] for row in rows)
        n_P, c_P = self.n_P[index_P], self.c_P[index_P]
        return Counts(tuple(problem_ids), n_P, c_P, grades, votes, self.statistic)

    def values_at(self, ks: Sequence[int]) -> FloatArray:
        """Return the statistic of each problem at each k: (P, K)."""
        return self.statistic.values(self, ks)


Evaluations = Counts | Sequence[Counts]
"""The counts of one model: of one evaluation, or one for each evaluation seed."""


def each_seed(counts: Evaluations) -> list[Counts]:
    """The counts of each evaluation seed."""
    return [counts] if isinstance(counts, Counts) else list(counts)


def pooled(counts: Sequence[Counts]) -> Counts:
    """Several seeds of one model as one: n and c added up per problem."""
    ids = counts[0].problem_ids
    seeds = [seed.ordered(ids) for seed in counts]
    graded = [seed.grades for seed in seeds if seed.grades is not None]
    grades = None
    if len(graded) == len(seeds):
        names = tuple(name for block in graded for name in block.seeds)
        grades = SampleGrades(names, np.concatenate([block.right_PN for block in graded], axis=1))
    voted = [seed.votes for seed in seeds if seed.votes is not None]
    votes: tuple[Votes, ...] | None = None
    if len(voted) == len(seeds):
        votes = tuple(sum(map(Counter, of_one), Counter()) for of_one in zip(*voted, strict=True))
    n_P, c_P = (np.sum([getattr(seed, name) for seed in seeds], axis=0) for name in ("n_P", "c_P"))
    return Counts(ids, n_P, c_P, grades, votes, counts[0].statistic)


def majority_values(counts: Counts, ks: Sequence[int]) -> FloatArray:
    """Return maj@k of each problem, shape (P, K). Raises MetricError without its answers."""
    if counts.votes is None:
        raise MetricError(
            "maj@k is a vote of final answers, and only correct and wrong samples were counted",
            "give runs, models, or files of completions that sage's judge grades "
            "(--set grading.judge=math)",
        )
    return np.stack([maj_at_k(votes, ks) for votes in counts.votes])


@dataclass(frozen=True)
class SeedCounts:
    """One policy on one benchmark with one evaluation seed.

    `statuses` counts grades over all completions, `truncated` those that hit the token limit,
    `right_truncated` the correct ones among them.
    """

    policy: str
    benchmark: str
    seed: int
    counts: Counts
    statuses: Mapping[str, int]
    truncated: int
    sample_set: str
    right_truncated: int = 0


STATISTICS: Mapping[str, Statistic] = {
    "pass": Statistic(
        "pass@k",
        "at least one of k samples is correct",
        lambda counts, ks: pass_at_k(counts.n_P, counts.c_P, ks),
    ),
    "pass-all": Statistic(
        "pass^k",
        "all of k samples are correct",
        lambda counts, ks: all_right_at_k(counts.n_P, counts.c_P, ks),
    ),
    "g-pass": Statistic(
        "G-Pass@k",
        "at least half of k samples are correct",
        lambda counts, ks: g_pass_at_k(counts.n_P, counts.c_P, ks, HALF),
    ),
    "maj": Statistic(
        "maj@k",
        "the most frequent answer of k samples is correct",
        majority_values,
        of_answers=True,
    ),
}
"""The statistics that two sides can be compared by, by the name that `--statistic` takes."""
