"""A benchmark's problems, and one problem as several policies answer it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.errors import StoreError
from sage_cli.view.stored_runs import Look, look_of
from sage_cli.view.stored_samples import (
    Absent,
    Columns,
    Filters,
    Found,
    SampleRow,
    Shown,
    Wanted,
    samples_view,
)

QUESTION = 300
"""Characters of a question in the table of problems."""


class ProblemRow(TypedDict):
    """A problem of a benchmark, with the right samples and all samples of each policy."""

    problem: str
    question: str
    right: dict[str, int]
    samples: dict[str, int]


class ProblemsView(TypedDict):
    """The problems of a benchmark and how policies answered them."""

    benchmark: str | None
    benchmarks: list[str]
    policies: list[str]
    looks: dict[str, Look]
    problems: list[ProblemRow]
    absent: list[Absent]


class PolicyAnswers(TypedDict):
    """One policy's samples of a problem: counts by grade, answers by how often, completions."""

    policy: str
    look: Look
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


def problems_view(found: Found) -> ProblemsView:
    """Return the problems of the policies' benchmark with the right samples of each policy."""
    shown = found.shown
    right = {measured.label: _counted(columns) for measured, columns in shown}
    problems = shown[0][0].benchmark.problems if shown else ()
    rows: list[ProblemRow] = [
        {
            "problem": problem.id,
            "question": problem.question[:QUESTION],
            "right": {label: of[problem.id][0] for label, of in right.items() if problem.id in of},
            "samples": {
                label: of[problem.id][1] for label, of in right.items() if problem.id in of
            },
        }
        for problem in problems
    ]
    return {
        "benchmark": found.benchmark,
        "benchmarks": found.benchmarks,
        "policies": list(right),
        "looks": {label: look_of(label, found.looks) for label in right},
        "problems": rows,
        "absent": found.absent,
    }


def problem_view(found: Found, problem_id: str, wanted: Wanted) -> ProblemView:
    """Return a problem with each policy's samples that fit.

    Raises StoreError for a problem that none of the policies' benchmarks has.
    """
    problems = {p.id: (m.benchmark.name, p) for m, _ in found.shown for p in m.benchmark.problems}
    if problem_id not in problems:
        raise StoreError(f"no policy that was named was measured on a problem '{problem_id}'")
    benchmark, problem = problems[problem_id]
    return {
        "benchmark": benchmark,
        "problem": problem.id,
        "question": problem.question,
        "gold": problem.gold,
        "about": {str(key): value for key, value in problem.meta.items()},
        "policies": [_answers(one, problem_id, wanted, found.looks) for one in found.shown],
        "absent": found.absent,
    }


def _answers(
    shown: Shown, problem_id: str, wanted: Wanted, looks: dict[str, Look]
) -> PolicyAnswers:
    measured, columns = shown
    of_problem = Filters(problems=(problem_id,))
    every = columns.select(of_problem)
    page = samples_view(measured, columns, [], wanted)
    return {
        "policy": measured.label,
        "look": look_of(measured.label, looks),
        "samples": sum(len(one) for _, one in every),
        "grades": columns.grades(every),
        "answers": _final_answers(columns, problem_id),
        "total": page["total"],
        "rows": page["rows"],
    }


def _final_answers(columns: Columns, problem_id: str, most: int = 12) -> dict[str, int]:
    """Return the most frequent extracted answers of a problem with their counts."""
    counted: Counter[str] = Counter()
    for number, rows in columns.select(Filters(problems=(problem_id,))):
        extracted = columns.sets[number].extracted(rows)
        counted.update(text[:QUESTION] for text in extracted if text is not None)
    return dict(counted.most_common(most))


def _counted(columns: Columns) -> dict[str, tuple[int, int]]:
    """Return problem id -> right and graded samples."""
    counted: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for number, rows in columns.select(Filters()):
        one = columns.sets[number]
        names = one.inventory.problem_ids
        graded = rows[one.status_S[rows] >= 0]
        code = one.statuses.index("right") if "right" in one.statuses else -2
        for counter, some in ((counted, graded), (right, graded[one.status_S[graded] == code])):
            counts = np.bincount(one.inventory.problem_S[some], minlength=len(names))
            counter.update({name: c for name, c in zip(names, counts.tolist(), strict=True) if c})
    return {name: (right[name], count) for name, count in counted.items()}
