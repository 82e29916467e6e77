"""A policy's stored samples, filtered, searched and a page at a time; a benchmark's problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.errors import StoreError
from sage_cli.evaluation.samples import seed_counts
from sage_cli.metrics.counts import SeedCounts
from sage_cli.problems.problem import Problem
from sage_cli.store.annotations import GradedSet
from sage_cli.store.inventory import Integers, Mask, tally_of
from sage_cli.view.stored_runs import LineStyle, LruCache, MeasuredPolicy, look_of, stamp_of

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


_SHOWN_CHARACTERS = 20_000
"""Characters of a text that a page is sent; the rest is sent when it is asked for."""
_MOST_ROWS = 200
MOST_SEARCHED = 50_000
"""Samples that one search reads; a search within a problem and a policy reads them all."""
_READ_AT_ONCE = 2_048

Location = tuple[int, int]
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


_QUESTION = 300
"""Characters of a question where it stands beside others."""


class AskedProblem(TypedDict):
    """A problem's question, cut at a limit, and its gold."""

    question: str
    gold: str


def asked_problems(problems: Iterable[Problem], ids: Collection[str]) -> dict[str, AskedProblem]:
    """Return the problems of these ids, by id, without those that are not there."""
    return {
        problem.id: {"question": problem.question[:_QUESTION], "gold": problem.gold[:_QUESTION]}
        for problem in problems
        if problem.id in ids
    }


class SamplesView(TypedDict):
    """A page of the samples that fit the filters, `total` of them; `problems` has theirs by id.

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
    problems: dict[str, AskedProblem]
    rows: list[SampleRow]


@dataclass(frozen=True)
class PageQuery:
    """A page: conditions, the text that samples contain (without case), and which rows of them."""

    filters: Filters
    text: str = ""
    offset: int = 0
    limit: int = 25


def samples_view(
    measured: MeasuredPolicy, columns: Columns, benchmarks: list[str], page_query: PageQuery
) -> SamplesView:
    """Return a page of a policy's samples on a benchmark."""
    selected = columns.select(page_query.filters)
    candidates = total = searched = sum(len(rows) for _, rows in selected)
    first, last = page_query.offset, page_query.offset + min(page_query.limit, _MOST_ROWS)
    if page_query.text:
        searched = min(candidates, MOST_SEARCHED)
        matching = list(
            _containing(columns, _locations(selected, 0, searched), page_query.text.casefold())
        )
        total, page = len(matching), matching[first:last]
    else:
        page = _locations(selected, first, last)
    rows = sample_rows(measured.label, columns, page)
    return {
        "policy": measured.label,
        "benchmark": measured.benchmark.name,
        "benchmarks": benchmarks,
        "total": total,
        "candidates": candidates,
        "searched": searched,
        "offset": page_query.offset,
        "grades": columns.grades(selected),
        "longest": columns.longest,
        "problems": asked_problems(measured.benchmark.problems, {row["problem"] for row in rows}),
        "rows": rows,
    }


def sample_rows(
    policy: str,
    columns: Columns,
    locations: Sequence[Location],
    characters: int = _SHOWN_CHARACTERS,
) -> list[SampleRow]:
    """Return samples with their texts, in the order of `places`."""
    row_by_location: dict[Location, SampleRow] = {}
    for number in sorted({number for number, _ in locations}):
        stored = columns.sets[number]
        rows = np.array([row for of_set, row in locations if of_set == number], dtype=np.int32)
        texts, extracted = stored.texts(rows), stored.extracted(rows)
        for row, answer in zip(rows.tolist(), extracted, strict=True):
            status, inventory = int(stored.status_S[row]), stored.inventory
            row_by_location[number, row] = {
                "policy": policy,
                "problem": inventory.problem_ids[inventory.problem_S[row]],
                "seed": columns.seeds[number],
                "index": int(inventory.index_S[row]),
                "grade": stored.statuses[status] if status >= 0 else None,
                "extracted": answer if answer is None else answer[:characters],
                "tokens": int(stored.tokens_S[row]),
                "truncated": bool(stored.truncated_S[row]),
                "text": texts[row][:characters],
                "characters": len(texts[row]),
            }
    return [row_by_location[location] for location in locations]


def location_of(columns: Columns, problem: str, seed: int, index: int) -> Location | None:
    """Return the place of a sample; None if it is not stored."""
    for number, rows in columns.select(Filters(problems=(problem,), seed=seed)):
        matching = rows[columns.sets[number].inventory.index_S[rows] == index]
        if len(matching):
            return number, int(matching[0])
    return None


def _locations(selected: Sequence[tuple[int, Integers]], first: int, last: int) -> list[Location]:
    """Return the selected samples from `first` to before `last`."""
    locations: list[Location] = []
    for number, rows in selected:
        locations += [(number, row) for row in rows[max(first, 0) : max(last, 0)].tolist()]
        first, last = first - len(rows), last - len(rows)
    return locations


def _containing(columns: Columns, locations: Sequence[Location], text: str) -> Iterator[Location]:
    """Yield the places whose texts contain `text`, a bounded number of texts in memory."""
    for start in range(0, len(locations), _READ_AT_ONCE):
        some = locations[start : start + _READ_AT_ONCE]
        texts = {
            number: columns.sets[number].texts(
                np.array([row for of_set, row in some if of_set == number], dtype=np.int32)
            )
            for number in {number for number, _ in some}
        }
        yield from (
            location for location in some if text in texts[location[0]][location[1]].casefold()
        )


class ProblemRow(TypedDict):
    """A problem of a benchmark, with the correct samples and all samples of each policy."""

    problem: str
    question: str
    right: dict[str, int]
    samples: dict[str, int]


class ProblemsView(TypedDict):
    """The problems of a benchmark and how policies answered them."""

    benchmark: str | None
    benchmarks: list[str]
    policies: list[str]
    looks: dict[str, LineStyle]
    problems: list[ProblemRow]
    absent: list[Absent]


class PolicyAnswers(TypedDict):
    """One policy's samples of a problem: counts by grade, answers by how often, completions."""

    policy: str
    look: LineStyle
    samples: int
    grades: dict[str, int]
    answers: dict[str, int]
    total: int
    rows: list[SampleRow]


class ProblemView(TypedDict):
    """A problem: question, gold, what its source says of it, and what policies answered."""

    benchmark: str
    problem: str
    question: str
    gold: str
    about: dict[str, Any]
    policies: list[PolicyAnswers]
    absent: list[Absent]


def problems_view(policies: ShownPolicies) -> ProblemsView:
    """Return the problems of the policies' benchmark with the correct samples of each policy."""
    rows: dict[str, ProblemRow] = {}
    for problem in policies.pairs[0][0].benchmark.problems if policies.pairs else ():
        question = problem.question[:_QUESTION]
        rows[problem.id] = {"problem": problem.id, "question": question, "right": {}, "samples": {}}
    for measured, columns in policies.pairs:
        for id_, (right, n) in _counted(columns).items():
            if id_ in rows:  # the policies' runs may have measured different parts of a benchmark
                rows[id_]["right"][measured.label] = right
                rows[id_]["samples"][measured.label] = n
    labels = [measured.label for measured, _ in policies.pairs]
    return {
        "benchmark": policies.benchmark,
        "benchmarks": policies.benchmarks,
        "policies": labels,
        "looks": {label: look_of(label, policies.looks) for label in labels},
        "problems": list(rows.values()),
        "absent": policies.absent,
    }


def problem_view(policies: ShownPolicies, problem_id: str, page: PageQuery) -> ProblemView:
    """Return a problem with each policy's samples that fit.

    Raises StoreError for a problem that none of the policies' benchmarks has.
    """
    problems = {
        p.id: (m.benchmark.name, p) for m, _ in policies.pairs for p in m.benchmark.problems
    }
    if problem_id not in problems:
        raise StoreError(f"no policy that was named was measured on a problem '{problem_id}'")
    benchmark, problem = problems[problem_id]
    return {
        "benchmark": benchmark,
        "problem": problem.id,
        "question": problem.question,
        "gold": problem.gold,
        "about": {str(key): value for key, value in problem.meta.items()},
        "policies": [_answers(pair, problem_id, page, policies.looks) for pair in policies.pairs],
        "absent": policies.absent,
    }


def _answers(
    pair: ShownPolicy, problem_id: str, page: PageQuery, looks: dict[str, LineStyle]
) -> PolicyAnswers:
    measured, columns = pair
    selected = columns.select(Filters(problems=(problem_id,)))
    samples = samples_view(measured, columns, [], page)
    return {
        "policy": measured.label,
        "look": look_of(measured.label, looks),
        "samples": sum(len(rows) for _, rows in selected),
        "grades": columns.grades(selected),
        "answers": _final_answers(columns, selected),
        "total": samples["total"],
        "rows": samples["rows"],
    }


def _final_answers(
    columns: Columns, selected: Sequence[tuple[int, Integers]], most: int = 12
) -> dict[str, int]:
    """Return the most frequent extracted answers of these samples with their counts."""
    counted: Counter[str] = Counter()
    for number, rows in selected:
        extracted = columns.sets[number].extracted(rows)
        counted.update(text[:_QUESTION] for text in extracted if text is not None)
    return dict(counted.most_common(most))


def _counted(columns: Columns) -> dict[str, tuple[int, int]]:
    """Return problem id -> right and graded samples, without problems that have none."""
    right_P, graded_P = np.zeros((2, len(columns.problems)), dtype=np.int64)
    for number, rows in columns.select(Filters()):
        graded, right = columns.graded(number, rows)
        graded_P += columns.per_problem(number, graded)
        right_P += columns.per_problem(number, right)
    counts = zip(columns.problems, right_P.tolist(), graded_P.tolist(), strict=True)
    return {id_: (right, n) for id_, right, n in counts if n}
