"""Samples and right samples per problem: the result of grading, the input of every statistic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_cli.errors import MetricError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SampleGrades:
    """Right or not for each sample, shape (P, N): a block of n columns per evaluation seed.

    Column i of a block is sample i of that seed.
    """

    seeds: tuple[int, ...]
    right_PN: BoolArray


@dataclass(frozen=True, eq=False)
class Counts:
    """n samples and c right ones per problem, of one model on one benchmark with one seed.

    `n_P` and `c_P` may differ from problem to problem. `grades` are those of the single samples,
    where all of them are known. Raises MetricError where a problem is named twice or c lies
    outside 0..n.
    """

    problem_ids: tuple[str, ...]
    n_P: IntArray
    c_P: IntArray
    grades: SampleGrades | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "problem_ids", tuple(self.problem_ids))
        for name in ("n_P", "c_P"):
            values_P = whole(getattr(self, name), name).copy()
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
            raise MetricError(f"problem '{id_}': {c} right of {n} samples is impossible")

    def __len__(self) -> int:
        return len(self.problem_ids)

    def ordered(self, problem_ids: Sequence[str]) -> Counts:
        """The same counts in the order of `problem_ids`, which must name exactly these problems.

        A problem that is missing on either side is a MetricError: the mean over the remaining ones
        is a mean over other problems.
        """
        if tuple(problem_ids) == self.problem_ids:
            return self
        if differing := set(problem_ids) ^ set(self.problem_ids):
            raise MetricError(
                f"the problems differ: {len(differing)} are on one side only, "
                f"first '{min(differing)}'",
                "measure both on the same problems (same benchmark, same --limit)",
            )
        place = {id_: index for index, id_ in enumerate(self.problem_ids)}
        index_P = np.array([place[id_] for id_ in problem_ids], int)
        grades = self.grades and SampleGrades(self.grades.seeds, self.grades.right_PN[index_P])
        return Counts(tuple(problem_ids), self.n_P[index_P], self.c_P[index_P], grades)


Evaluations = Counts | Sequence[Counts]
"""The counts of one model: of one evaluation, or one for each evaluation seed."""


def each_seed(counts: Evaluations) -> list[Counts]:
    """The counts of each evaluation seed."""
    return [counts] if isinstance(counts, Counts) else list(counts)


def pooled(counts: Sequence[Counts]) -> Counts:
    """Several seeds of one model as one: n and c added up per problem."""
    ids = counts[0].problem_ids
    seeds = [seed.ordered(ids) for seed in counts]
    known = [seed.grades for seed in seeds if seed.grades is not None]
    grades = None
    if len(known) == len(seeds):
        names = tuple(name for block in known for name in block.seeds)
        grades = SampleGrades(names, np.concatenate([block.right_PN for block in known], axis=1))
    n_P, c_P = (np.sum([getattr(seed, name) for seed in seeds], axis=0) for name in ("n_P", "c_P"))
    return Counts(ids, n_P, c_P, grades)


def whole(values: Any, name: str) -> IntArray:
    """`values` as integers; fractions are a MetricError."""
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iub":
        finite = given.dtype.kind == "f" and bool(np.isfinite(given).all())
        if not finite or not np.array_equal(given, np.trunc(given)):
            raise MetricError(f"{name} must be whole numbers, not {values!r}")
    return given.astype(np.int64)
