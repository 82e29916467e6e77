"""A page of a policy's samples, filtered and searched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import TypedDict

from sage_cli.problems.problem import Problem
from sage_cli.store.inventory import Integers
from sage_cli.view.sample_columns import Columns, Filters
from sage_cli.view.stored_runs import MeasuredPolicy

_SHOWN_CHARACTERS = 20_000
"""Characters of a text that a page is sent; the rest is sent when it is asked for."""
_MOST_ROWS = 200
MOST_SEARCHED = 50_000
"""Samples that one search reads; a search within a problem and a policy reads them all."""
_READ_AT_ONCE = 2_048
QUESTION_CHARACTERS = 300
"""Characters of a question that is shown beside others."""
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


class AskedProblem(TypedDict):
    """A problem's question, cut at a limit, and its gold."""

    question: str
    gold: str


def asked_problems(problems: Iterable[Problem], ids: Collection[str]) -> dict[str, AskedProblem]:
    """Return the problems of these ids, by id, without those that are not there."""
    return {
        problem.id: {
            "question": problem.question[:QUESTION_CHARACTERS],
            "gold": problem.gold[:QUESTION_CHARACTERS],
        }
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
