"""The problems of a benchmark, with how policies answered them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.errors import StoreError
from sage_cli.store.inventory import Integers
from sage_cli.view.sample_columns import Absent, Columns, Filters, ShownPolicies, ShownPolicy
from sage_cli.view.samples_view import QUESTION_CHARACTERS, PageQuery, SampleRow, samples_view
from sage_cli.view.stored_runs import LineStyle, look_of


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
        question = problem.question[:QUESTION_CHARACTERS]
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
        counted.update(text[:QUESTION_CHARACTERS] for text in extracted if text is not None)
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
