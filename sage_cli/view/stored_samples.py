"""A policy's stored samples: filtered on columns, searched in texts, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.metrics import Counts
from sage_cli.reports.provenance import SeedCounts
from sage_cli.store.annotations import GradedSet
from sage_cli.store.sample_parts import Integers, Mask
from sage_cli.view.stored_runs import Look, Measured, Remembered, stamp_of

RIGHT = "right"
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
        place = {id_: i for i, id_ in enumerate(self.problems)}
        found = []
        for one in self.sets:
            inventory = one.inventory
            at_P = np.array([place.get(id_, -1) for id_ in inventory.problem_ids], dtype=np.int64)
            problem_S = at_P[inventory.problem_S] if len(one) else np.zeros(0, np.int64)
            rows = np.flatnonzero((problem_S >= 0) & ~inventory.repeats_S)
            order = np.lexsort((inventory.index_S[rows], problem_S[rows]))
            found.append(rows[order].astype(np.int32))
        return tuple(found)

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
        one, rows = self.sets[number], self._rows_by_problem[number]
        graded = rows[(one.inventory.index_S[rows] < n) & (one.status_S[rows] >= 0)]
        right = graded[one.status_S[graded] == _code(one.statuses, RIGHT)]
        statuses = np.bincount(one.status_S[graded], minlength=len(one.statuses)).tolist()
        n_P, right_P = (self._per_problem(number, some) for some in (graded, right))
        return SeedCounts(
            policy,
            benchmark,
            self.seeds[number],
            Counts(self.problems, n_P, right_P),
            {name: count for name, count in zip(one.statuses, statuses, strict=True) if count},
            int(one.truncated_S[graded].sum()),
            one.samples.identity.key,
        )

    def _per_problem(self, number: int, rows: Integers) -> Any:
        """Return how many of the rows each of the benchmark's problems has (P,)."""
        inventory = self.sets[number].inventory
        counted = np.bincount(inventory.problem_S[rows], minlength=len(inventory.problem_ids))
        of = dict(zip(inventory.problem_ids, counted.tolist(), strict=True))
        return np.array([of.get(id_, 0) for id_ in self.problems], dtype=np.int64)

    @cached_property
    def longest(self) -> int:
        """Return the most tokens of a sample."""
        return max((int(one.tokens_S.max(initial=0)) for one in self.sets), default=0)

    def _fits(self, number: int, rows: Integers, filters: Filters) -> Mask:
        one = self.sets[number]
        fits: Mask = np.ones(len(rows), dtype=bool)
        if filters.problems is not None:
            wanted = set(filters.problems)
            held_P = np.array([id_ in wanted for id_ in one.inventory.problem_ids], dtype=bool)
            fits &= held_P[one.inventory.problem_S[rows]] if len(rows) else fits
        if filters.grade is not None:
            code = -1 if filters.grade == "ungraded" else _code(one.statuses, filters.grade)
            fits &= one.status_S[rows] == code
        if filters.truncated is not None:
            fits &= one.truncated_S[rows] == filters.truncated
        if filters.shortest is not None:
            fits &= one.tokens_S[rows] >= filters.shortest
        if filters.longest is not None:
            fits &= one.tokens_S[rows] <= filters.longest
        return fits


Shown = tuple[Measured, Columns]


class Absent(TypedDict):
    """A policy that can't be shown, and why."""

    policy: str
    why: str


@dataclass(frozen=True)
class Found:
    """The policies that can be shown on a benchmark, all benchmarks, and the looks of all runs."""

    shown: list[Shown]
    benchmarks: list[str]
    absent: list[Absent]
    looks: dict[str, Look]

    @property
    def benchmark(self) -> str | None:
        """Return the benchmark's name; None without a policy."""
        return self.shown[0][0].benchmark.name if self.shown else None


class StoredColumns:
    """Columns by policy and benchmark, read again where a file of them has changed."""

    def __init__(self) -> None:
        self._kept: Remembered[Columns] = Remembered(MOST_SAMPLES, len)

    def of(self, measured: Measured) -> Columns:
        """Return the columns of a policy on a benchmark."""
        key = (measured.benchmark.name, tuple(measured.benchmark.golds), _stamps(measured))
        return self._kept.get(key, lambda: _read(measured))


def _stamps(measured: Measured) -> tuple[Any, ...]:
    """Return folder and stamp of each seed's set, which change as parts or grades are added."""
    evaluation, grader = measured.config.evaluation, measured.grader_key
    seeds = range(evaluation.seed, evaluation.seed + evaluation.seeds)
    folders = [measured.samples.at(seed, read_only=True).folder for seed in seeds]
    return tuple((str(one), stamp_of([one, one / "grades" / grader])) for one in folders)


def _read(measured: Measured) -> Columns:
    sets, seeds = [], []
    for samples, grades in measured.stored():
        sets.append(GradedSet.of(samples, grades))
        seeds.append(samples.identity.seed)
    return Columns(tuple(measured.benchmark.golds), tuple(sets), tuple(seeds))


def _code(statuses: Sequence[str], grade: str) -> int:
    return statuses.index(grade) if grade in statuses else -2


SHOWN_CHARACTERS = 20_000
"""Characters of a text that a page is sent; the rest is sent when it is asked for."""
MOST_ROWS = 200
MOST_SEARCHED = 50_000
"""Samples that one search reads; a search within a problem and a policy reads them all."""
READ_AT_ONCE = 2_048

Place = tuple[int, int]
"""A sample by the number of its set and its row."""


class SampleRow(TypedDict):
    """A stored completion with its grade.

    `text` is cut at a limit; `characters` is its whole length.
    """

    policy: str
    problem: str
    seed: int
    index: int
    grade: str | None
    extracted: str | None
    tokens: int
    truncated: bool
    text: str
    characters: int


class SamplesView(TypedDict):
    """A page of the samples that fit the filters, `total` of them.

    With a search for text `total` counts those found so far if `searched` is below `candidates`,
    the number of samples that fit the other filters.
    """

    policy: str
    benchmark: str
    benchmarks: list[str]
    total: int
    candidates: int
    searched: int
    offset: int
    grades: dict[str, int]
    longest: int
    rows: list[SampleRow]


@dataclass(frozen=True)
class Wanted:
    """A page: conditions, the text that samples contain (without case), and which rows of them."""

    filters: Filters
    text: str = ""
    offset: int = 0
    limit: int = 25


def samples_view(
    measured: Measured, columns: Columns, benchmarks: list[str], wanted: Wanted
) -> SamplesView:
    """Return a page of a policy's samples on a benchmark."""
    selected = columns.select(wanted.filters)
    candidates = total = searched = sum(len(rows) for _, rows in selected)
    first, last = wanted.offset, wanted.offset + min(wanted.limit, MOST_ROWS)
    if wanted.text:
        searched = min(candidates, MOST_SEARCHED)
        found = list(_containing(columns, _places(selected, 0, searched), wanted.text.casefold()))
        total, page = len(found), found[first:last]
    else:
        page = _places(selected, first, last)
    return {
        "policy": measured.label,
        "benchmark": measured.benchmark.name,
        "benchmarks": benchmarks,
        "total": total,
        "candidates": candidates,
        "searched": searched,
        "offset": wanted.offset,
        "grades": columns.grades(selected),
        "longest": columns.longest,
        "rows": rows_of(measured.label, columns, page),
    }


def rows_of(
    policy: str, columns: Columns, places: Sequence[Place], characters: int = SHOWN_CHARACTERS
) -> list[SampleRow]:
    """Return samples with their texts, in the order of `places`."""
    shown: dict[Place, SampleRow] = {}
    for number in sorted({number for number, _ in places}):
        one = columns.sets[number]
        rows = np.array([row for of, row in places if of == number], dtype=np.int32)
        texts, extracted = one.texts(rows), one.extracted(rows)
        for row, answer in zip(rows.tolist(), extracted, strict=True):
            status, inventory, text = int(one.status_S[row]), one.inventory, texts[row]
            shown[number, row] = {
                "policy": policy,
                "problem": inventory.problem_ids[inventory.problem_S[row]],
                "seed": columns.seeds[number],
                "index": int(inventory.index_S[row]),
                "grade": one.statuses[status] if status >= 0 else None,
                "extracted": answer if answer is None else answer[:characters],
                "tokens": int(one.tokens_S[row]),
                "truncated": bool(one.truncated_S[row]),
                "text": text[:characters],
                "characters": len(text),
            }
    return [shown[place] for place in places]


def place_of(columns: Columns, problem: str, seed: int, index: int) -> Place | None:
    """Return the place of a sample; None if it is not stored."""
    for number, rows in columns.select(Filters(problems=(problem,), seed=seed)):
        found = rows[columns.sets[number].inventory.index_S[rows] == index]
        if len(found):
            return number, int(found[0])
    return None


def _places(selected: Sequence[tuple[int, Integers]], first: int, last: int) -> list[Place]:
    """Return the selected samples from `first` to before `last`."""
    places: list[Place] = []
    for number, rows in selected:
        places += [(number, row) for row in rows[max(first, 0) : max(last, 0)].tolist()]
        first, last = first - len(rows), last - len(rows)
    return places


def _containing(columns: Columns, places: Sequence[Place], text: str) -> Iterator[Place]:
    """Yield the places whose texts contain `text`, a bounded number of texts in memory."""
    for start in range(0, len(places), READ_AT_ONCE):
        some = places[start : start + READ_AT_ONCE]
        texts = {
            number: columns.sets[number].texts(
                np.array([row for of, row in some if of == number], dtype=np.int32)
            )
            for number in {number for number, _ in some}
        }
        yield from (place for place in some if text in texts[place[0]][place[1]].casefold())
