"""How often each problem was solved: what grading produces and every statistic consumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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
    """Which samples are right, shape (P, N): for each evaluation seed a block of its n samples.

    Column i of a block is sample i of that seed.
    """

    seeds: tuple[int, ...]
    right_PN: BoolArray


@dataclass(frozen=True, eq=False)
class Counts:
    """n samples and c right ones per problem, of one model on one benchmark with one seed.

    `n_P` and `c_P` may differ from problem to problem. `verdicts` tell the right samples one by
    one, where that is known of all of them. Raises MetricError where a problem is named twice or c
    lies outside 0..n.
    """

    problem_ids: tuple[str, ...]
    n_P: IntArray
    c_P: IntArray
    verdicts: SampleGrades | None = None

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
        repeated = [id_ for id_, times in Counter(self.problem_ids).items() if times > 1]
        if repeated:
            raise MetricError(f"problem '{repeated[0]}' is counted twice")
        bad = np.flatnonzero((self.c_P < 0) | (self.c_P > self.n_P))
        if bad.size:
            id_, n, c = self.problem_ids[bad[0]], self.n_P[bad[0]], self.c_P[bad[0]]
            raise MetricError(f"problem '{id_}': {c} right of {n} samples is impossible")

    def __len__(self) -> int:
        return len(self.problem_ids)

    @classmethod
    def from_grades(cls, verdicts: Iterable[tuple[str, bool]]) -> Counts:
        """Count (problem id, right or not) pairs; problems in order of first appearance."""
        n: dict[str, int] = {}
        c: dict[str, int] = {}
        for id_, right in verdicts:
            n[id_] = n.get(id_, 0) + 1
            c[id_] = c.get(id_, 0) + bool(right)
        return cls(tuple(n), np.array(list(n.values()), int), np.array(list(c.values()), int))

    def ordered(self, problem_ids: Sequence[str]) -> Counts:
        """The same counts in the order of `problem_ids`, which must name exactly these problems.

        A problem that is missing on either side is an error: a mean over what happens to be
        there is a mean over other problems.
        """
        if tuple(problem_ids) == self.problem_ids:
            return self
        place = {id_: index for index, id_ in enumerate(self.problem_ids)}
        differing = set(problem_ids) ^ set(self.problem_ids)
        if differing:
            raise MetricError(
                f"the problems differ: {len(differing)} are on one side only, "
                f"first '{min(differing)}'",
                "measure both on the same problems (same benchmark, same --limit)",
            )
        index_P = np.array([place[id_] for id_ in problem_ids], int)
        verdicts = self.verdicts
        if verdicts is not None:
            verdicts = SampleGrades(verdicts.seeds, verdicts.right_PN[index_P])
        return Counts(tuple(problem_ids), self.n_P[index_P], self.c_P[index_P], verdicts)


def pooled(counts: Sequence[Counts]) -> Counts:
    """Several seeds of one model as one: n and c added up per problem."""
    ids = counts[0].problem_ids
    same = [one.ordered(ids) for one in counts]
    known = [one.verdicts for one in same if one.verdicts is not None]
    return Counts(
        ids,
        np.sum([one.n_P for one in same], axis=0),
        np.sum([one.c_P for one in same], axis=0),
        _joined(known) if len(known) == len(same) else None,
    )


def _joined(verdicts: Sequence[SampleGrades]) -> SampleGrades:
    """Those of several seeds, side by side."""
    seeds = tuple(seed for one in verdicts for seed in one.seeds)
    return SampleGrades(seeds, np.concatenate([one.right_PN for one in verdicts], axis=1))


def whole(values: Any, name: str) -> IntArray:
    """`values` as integers; fractions are a MetricError."""
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iub":
        fits = given.dtype.kind == "f" and bool(np.isfinite(given).all())
        if not fits or not np.array_equal(given, np.trunc(given)):
            raise MetricError(f"{name} must be whole numbers, not {values!r}")
    return given.astype(np.int64)
