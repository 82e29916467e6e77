"""Pages of stored samples: filtered on columns, searched in texts, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import TypedDict

from sage_cli.store.samples.inventory import Integers
from sage_cli.view.stored.columns import Columns, Filters
from sage_cli.view.stored.policies import Measured

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
