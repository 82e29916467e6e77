"""The columns of a policy's stored samples, by which they are filtered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.evaluation.stored_grades import seed_counts
from sage_cli.metrics.counts import SeedCounts
from sage_cli.store.annotations import GradedSet
from sage_cli.store.inventory import Integers, Mask, tally_of
from sage_cli.view.stored_runs import LineStyle, LruCache, MeasuredPolicy, stamp_of

_RIGHT = "right"
MOST_SAMPLES = 10_000_000
"""Samples whose columns are kept in memory: some forty bytes each."""


@dataclass(frozen=True)
class Filters:
    """Conditions on stored columns; None for any."""

    problems: tuple[str, ...] | None = None
    grade: str | None = None
    truncated: bool | None = None
    shortest: int | None = None
    longest: int | None = None
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Columns:
    """A policy's graded sets on a benchmark, one for each evaluation seed.

    `problems` are the benchmark's ids in its order. A sample is named by its set and its row.
    """

    problems: tuple[str, ...]
    sets: tuple[GradedSet, ...]
    seeds: tuple[int, ...]
    _measured: dict[tuple[int, int], SeedCounts] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return sum(map(len, self.sets))

    @cached_property
    def _rows_by_problem(self) -> tuple[Integers, ...]:
        """Return for each set the rows of the benchmark's samples, problem after problem."""
        number_by_id = {id_: i for i, id_ in enumerate(self.problems)}
        ordered = []
        for stored in self.sets:
            inventory = stored.inventory
            at_P = np.array(
                [number_by_id.get(id_, -1) for id_ in inventory.problem_ids], dtype=np.int64
            )
            problem_S = at_P[inventory.problem_S] if len(stored) else np.zeros(0, np.int64)
            rows = np.flatnonzero((problem_S >= 0) & ~inventory.repeats_S)
            order = np.lexsort((inventory.index_S[rows], problem_S[rows]))
            ordered.append(rows[order].astype(np.int32))
        return tuple(ordered)

    def select(self, filters: Filters) -> list[tuple[int, Integers]]:
        """Return for each set its number and the rows that fit, problem after problem."""
        return [
            (number, rows[self._fits(number, rows, filters)])
            for number, rows in enumerate(self._rows_by_problem)
            if filters.seed in (None, self.seeds[number])
        ]

    def grades(self, selected: Sequence[tuple[int, Integers]]) -> dict[str, int]:
        """Return how many of the selected samples have each grade; `ungraded` for none."""
        counted: dict[str, int] = {}
        for number, rows in selected:
            names = [*self.sets[number].statuses, "ungraded"]
            counts = np.bincount(self.sets[number].status_S[rows] + 1, minlength=len(names))
            for name, count in zip(["ungraded", *names[:-1]], counts.tolist(), strict=False):
                counted[name] = counted.get(name, 0) + count
        return {name: count for name, count in counted.items() if count}

    def measurement(self, policy: str, benchmark: str, number: int, n: int) -> SeedCounts:
        """Return the counts of one seed's first `n` samples of each problem, made once."""
        if (number, n) not in self._measured:
            self._measured[number, n] = self._measure(policy, benchmark, number, n)
        return self._measured[number, n]

    def _measure(self, policy: str, benchmark: str, number: int, n: int) -> SeedCounts:
        stored = self.sets[number]
        tally = tally_of(stored.inventory, stored.status_S, stored.statuses, self.problems, n)
        return seed_counts(policy, benchmark, stored.samples, tally)

    def graded(self, number: int, rows: Integers) -> tuple[Integers, Integers]:
        """Return those of a set's rows that have a grade, and the correct ones among them."""
        stored = self.sets[number]
        graded = rows[stored.status_S[rows] >= 0]
        return graded, graded[stored.status_S[graded] == _code(stored.statuses, _RIGHT)]

    def per_problem(self, number: int, rows: Integers) -> Any:
        """Return how many of the rows each of the benchmark's problems has (P,)."""
        inventory = self.sets[number].inventory
        counted = np.bincount(inventory.problem_S[rows], minlength=len(inventory.problem_ids))
        count_by_id = dict(zip(inventory.problem_ids, counted.tolist(), strict=True))
        return np.array([count_by_id.get(id_, 0) for id_ in self.problems], dtype=np.int64)

    @cached_property
    def longest(self) -> int:
        """Return the most tokens of a sample."""
        return max((int(stored.tokens_S.max(initial=0)) for stored in self.sets), default=0)

    def _fits(self, number: int, rows: Integers, filters: Filters) -> Mask:
        stored = self.sets[number]
        fits: Mask = np.ones(len(rows), dtype=bool)
        if filters.problems is not None:
            chosen = set(filters.problems)
            held_P = np.array([id_ in chosen for id_ in stored.inventory.problem_ids], dtype=bool)
            fits &= held_P[stored.inventory.problem_S[rows]] if len(rows) else fits
        if filters.grade is not None:
            code = -1 if filters.grade == "ungraded" else _code(stored.statuses, filters.grade)
            fits &= stored.status_S[rows] == code
        if filters.truncated is not None:
            fits &= stored.truncated_S[rows] == filters.truncated
        if filters.shortest is not None:
            fits &= stored.tokens_S[rows] >= filters.shortest
        if filters.longest is not None:
            fits &= stored.tokens_S[rows] <= filters.longest
        return fits


ShownPolicy = tuple[MeasuredPolicy, Columns]


class Absent(TypedDict):
    """A policy that can't be shown, and why."""

    policy: str
    why: str


@dataclass(frozen=True)
class ShownPolicies:
    """The policies that can be shown on a benchmark, all benchmarks, and the looks of all runs."""

    pairs: list[ShownPolicy]
    benchmarks: list[str]
    absent: list[Absent]
    looks: dict[str, LineStyle]

    @property
    def benchmark(self) -> str | None:
        """Return the benchmark's name; None without a policy."""
        return self.pairs[0][0].benchmark.name if self.pairs else None


class StoredColumns:
    """Columns by policy and benchmark, read again where a file of them has changed."""

    def __init__(self) -> None:
        self._kept: LruCache[Columns] = LruCache(MOST_SAMPLES, len)

    def read(self, measured: MeasuredPolicy) -> Columns:
        """Return the columns of a policy on a benchmark."""
        key = (measured.benchmark.name, tuple(measured.benchmark.golds), _stamps(measured))
        return self._kept.get(key, lambda: _read(measured))


def _stamps(measured: MeasuredPolicy) -> tuple[Any, ...]:
    """Return folder and stamp of each seed's set, which change as parts or grades are added."""
    evaluation, grader = measured.config.evaluation, measured.grader_key
    seeds = range(evaluation.seed, evaluation.seed + evaluation.seeds)
    folders = [measured.samples.at(seed, read_only=True).folder for seed in seeds]
    return tuple(
        (str(folder), stamp_of([folder, folder / "grades" / grader])) for folder in folders
    )


def _read(measured: MeasuredPolicy) -> Columns:
    sets, seeds = [], []
    for samples, grades in measured.stored():
        sets.append(GradedSet.from_store(samples, grades))
        seeds.append(samples.identity.seed)
    return Columns(tuple(measured.benchmark.golds), tuple(sets), tuple(seeds))


def _code(statuses: Sequence[str], grade: str) -> int:
    return statuses.index(grade) if grade in statuses else -2
