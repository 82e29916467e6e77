"""Whether the golds of rows are answers that their judge can compare, checked before they are used.

Rows of files and of unregistered data sets of the Hub are meant; registered sets are known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from sage_cli.counted import agreeing, counted
from sage_cli.errors import DataError
from sage_cli.grading.grades import AnswerTags
from sage_cli.json_value import json_value
from sage_cli.problems.data_set import DataSet
from sage_cli.problems.golds import HASHES, boxed_answers, is_prose
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import find, is_file_name
from sage_cli.problems.values import column_value, has

TOLERATED = 0.01
"""Share of rows whose worked solution may end with another answer than the row's gold."""
LEFT_OUT = 0.05
"""Share of rows without a usable gold that are left out of training; more are refused."""
QUOTED_ROWS = 3
"""Rows that a complaint quotes."""
MATHEMATICS = "math"
"""The judge that compares answers of mathematics."""
KIND_COLUMNS = ("ability", "task_type", "env_class", "dataset", "data_source")
"""Columns that say of what kind a row is, the first that is filled counts."""
_CODE = r"cod(?:e|ing)|program|contests?$|apps|taco|leetcode|humaneval|mbpp|swe|sql"
_INSTRUCTION = r"if$|ifeval|ifbench|instruction|chat|writing|safety|preference|quality"
_FACT = r"search|nq|trivia|hotpot|simpleqa|web|browse"
_ENVIRONMENT = r"tool|agent|game|wordle|env(?:ironment)?$|sudoku|countdown"
_OTHER_KIND = re.compile(
    rf"(?:^|[^a-z])(?:{_CODE}|{_INSTRUCTION}|{_FACT}|{_ENVIRONMENT})", re.IGNORECASE
)
"""Kinds of rows whose golds are tests, rules or facts rather than answers of mathematics."""
_STRUCTURE = re.compile(r"""\s*[\[{].*["'].*[\]}]\s*""", re.DOTALL)
"""JSON with texts in it, as the tests of a program are written."""

Wrong = list[tuple[Problem, str]]
"""Problems, each with an answer that isn't correct by its golds."""


def check_answers(
    name: str, problems: Sequence[Problem], judge: str, tolerance: float | None = None
) -> list[str]:
    """Raise DataError for golds of `name` that `judge` couldn't compare with an answer.

    They are tests of programs and the like, prose, the last of several boxes that differ, or not
    answers to themselves. Returns what should be said: which worked solutions end with another
    answer than their row's gold, if they are few. Other judges read golds as they please, and the
    golds of registered data sets are known to be answers.
    """
    if judge != MATHEMATICS or not is_unregistered(name):
        return []
    _check_kinds(name, problems)
    for unusable in _unusable_golds(name, problems, tolerance):
        raise DataError(unusable.cause, unusable.next_step)
    return _differing(name, problems, tolerance)


def usable_problems(
    name: str, problems: Sequence[Problem], judge: str, tolerance: float | None = None
) -> tuple[list[Problem], list[str]]:
    """Return the problems of a training set whose golds `judge` can compare, and what to say.

    A few rows whose gold is prose, say, would teach nothing, since every answer to them is graded
    wrong: they are left out, counted and quoted. Raises DataError where they are more than
    `LEFT_OUT` of all.
    """
    if judge != MATHEMATICS or not is_unregistered(name):
        return list(problems), []
    _check_kinds(name, problems)
    unusable = list(_unusable_golds(name, problems, tolerance))
    left_out = {problem.id for group in unusable for problem in group.problems}
    if len(left_out) > LEFT_OUT * len(problems):
        raise DataError(unusable[0].cause, unusable[0].next_step)
    kept = [problem for problem in problems if problem.id not in left_out]
    return kept, [f"left out of training: {group.cause}" for group in unusable]


def is_unregistered(name: str) -> bool:
    """Return True for a file and for a data set of the Hub whose columns nobody declared."""
    if is_file_name(name):
        return True
    entry = find(name)
    return isinstance(entry, DataSet) and not entry.question


def _check_kinds(name: str, problems: Sequence[Problem]) -> None:
    kinds = [_kind(problem) for problem in problems]
    counts = Counter(kind for kind, _ in kinds)
    foreign = Counter(kind for kind, is_foreign in kinds if is_foreign)
    if foreign:
        counted = ", ".join(f"{kind} {n:,}" for kind, n in counts.most_common())
        raise DataError(
            f"{name} has rows that aren't mathematics: {', '.join(foreign)}; its rows by kind: "
            f"{counted}",
            "leave these rows out, or name a judge that can grade them with "
            "--set grading.judge=FILE.py:FUNCTION",
        )


def _kind(problem: Problem) -> tuple[str, bool]:
    """Return what a row says that it is, and whether mathematics can't judge that."""
    values = {**problem.meta, **problem.own}
    kind = next((str(column_value(values, key)) for key in KIND_COLUMNS if values.get(key)), "")
    if any(_filled(values, path) for path in ("tools", "info.tools")):
        return f"{kind} with tools".strip(), True
    if kind and _OTHER_KIND.search(kind):
        return kind, True
    if any(_STRUCTURE.fullmatch(gold) for gold in problem.golds) and _is_json(problem.gold):
        return f"{kind} with a gold in JSON".strip(), True
    return kind or "unnamed", False


def _filled(values: dict[str, Any], path: str) -> bool:
    return has(values, path) and bool(column_value(values, path))


def _is_json(text: str) -> bool:
    try:
        return isinstance(json_value(text), dict | list)
    except ValueError:
        return False


@dataclass(frozen=True)
class UnusableGolds:
    """Problems whose golds no answer can be compared with, for one reason."""

    problems: list[Problem]
    cause: str
    next_step: str


def _unusable_golds(
    name: str, problems: Sequence[Problem], tolerance: float | None
) -> Iterator[UnusableGolds]:
    """Yield the problems without a usable gold, by reasons.

    A gold is prose; or it is out of a worked solution with boxes that differ, or isn't graded
    correct as an answer to itself.
    """
    prose = [p for p in problems if any(map(is_prose, p.golds))]
    if prose:
        yield UnusableGolds(
            prose,
            f"{len(prose):,} of {len(problems):,} golds of {name} are prose without a \\boxed{{}} "
            f"or a line that begins with {HASHES}, so that no answer can equal them: "
            f"{_quoted((p, p.gold) for p in prose)}",
            "name the column or the path of the answer alone, remove these rows, or name a judge "
            "that reads them with --set grading.judge=FILE.py:FUNCTION",
        )
    converted = [p for p in problems if p.gold_text is not None]
    boxes = [(p, box) for p in converted for box in boxed_answers(p.gold_text or "")]
    if several := _wrong(boxes, tolerance):
        yield UnusableGolds(
            [p for p, _ in several],
            f"{counted(len(several), 'row')} of {name} {_have(several)} boxes of different "
            f"values, so that nobody can tell the answer: "
            f"{_quoted((p, f'{p.gold} and {box}') for p, box in several)}",
            "remove these rows, or name a column of bare answers",
        )
    if unfit := _wrong([(p, gold) for p in converted for gold in p.golds], tolerance):
        yield UnusableGolds(
            [p for p, _ in unfit],
            f"{counted(len(unfit), 'row')} of {name} {_have(unfit)} a gold out of a worked "
            f"solution that isn't graded correct as an answer to itself: {_quoted(unfit)}",
            "remove these rows, or name a column of bare answers",
        )


def _differing(name: str, problems: Sequence[Problem], tolerance: float | None) -> list[str]:
    """Return a warning if a few worked solutions end otherwise than the gold; else raise."""
    stated = [(p, p.solved) for p in problems if p.solved is not None]
    differing = _wrong(stated, tolerance)
    if not differing:
        return []
    warning = (
        f"{len(differing):,} of {len(stated):,} worked solutions of {name} end with another answer "
        f"than the row's gold: " + _quoted((p, f"{p.gold} against {text}") for p, text in differing)
    )
    if len(differing) > TOLERATED * len(stated):
        raise DataError(
            warning,
            f"correct or remove these rows (at most {TOLERATED:.0%} may differ), or remove the "
            "column of worked solutions",
        )
    return [warning]


def _wrong(pairs: Sequence[tuple[Problem, str]], tolerance: float | None) -> Wrong:
    """Return the problems of which the judge doesn't find an answer correct, with that answer."""
    from sage_cli.grading.grader import Grader  # where nothing is open, none is needed

    open_pairs = [
        (problem, answer) for problem, answer in pairs if not _is_plainly(answer, problem.golds)
    ]
    if not open_pairs:
        return []
    tags = AnswerTags()
    with Grader(judge=MATHEMATICS, tolerance=tolerance) as grader:
        grades = grader.grade_many(
            (problem.gold, f"{tags.open}{answer}{tags.close}") for problem, answer in open_pairs
        )
    wrong: dict[str, tuple[Problem, str]] = {}
    for (problem, answer), grade in zip(open_pairs, grades, strict=True):
        if grade.status != "right":
            wrong.setdefault(problem.id, (problem, answer))
    return list(wrong.values())


def _is_plainly(answer: str, golds: Sequence[str]) -> bool:
    """Return True for a number that is written as one of the golds: no judge is needed."""
    return answer in golds and re.fullmatch(r"-?\d+(?:\.\d+)?", answer) is not None


def _quoted(pairs: Iterable[tuple[Problem, str]]) -> str:
    listed = [f"'{shorten(p.question, 40)}': {shorten(text, 60)}" for p, text in pairs]
    more = f"; and {len(listed) - QUOTED_ROWS:,} more" if len(listed) > QUOTED_ROWS else ""
    return "; ".join(listed[:QUOTED_ROWS]) + more


def _have(problems: Wrong) -> str:
    return agreeing(len(problems), "has", "have")
