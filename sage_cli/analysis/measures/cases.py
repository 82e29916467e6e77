"""One problem, several policies, side by side (Appendix H)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis, Inputs
from sage_cli.analysis.answers import Answers, GradedSample
from sage_cli.analysis.texts import skeleton
from sage_cli.reports.document import Document
from sage_cli.reports.tables.table import Measure, Row, Table, columns

GRADES = {True: "right", False: "not right"}


@dataclass(frozen=True)
class Case:
    """A typical completion: `alike` of the `of` with its grade have its skeleton."""

    row: GradedSample
    alike: int
    of: int


class CaseJson(TypedDict):
    """A policy's typical completion of a problem: `alike` of its `of` such ones are like it."""

    benchmark: str
    problem: str
    question: str
    gold: str
    policy: str
    share_right: float
    status: str
    extracted: str | None
    sample: int
    alike: int
    of: int
    text: str


class CasesData(TypedDict):
    """The cases, policy after policy."""

    cases: list[CaseJson]


def cases(inputs: Inputs) -> Document:
    """Return each benchmark's problem on which policies differ most, with their completions."""
    tables, sheet = [], []
    data: list[CaseJson] = []
    names = "policy, share right, grade, alike, completion"
    for benchmark, answers in inputs.answers.items():
        id_ = most_different(answers)
        problem = answers[0].problems[id_]
        rows = []
        for own in answers:
            share = Measure(float(own.right_shares[own.counts.problem_ids.index(id_)]))
            for right, case in typical(own, id_).items():
                completion, grade = case.row.completion, case.row.grade
                alike = f"{case.alike} of {case.of}"
                rows.append(
                    Row((own.policy, share, GRADES[right], alike, completion.text), own.policy)
                )
                data.append(
                    CaseJson(
                        benchmark=benchmark,
                        problem=id_,
                        question=problem.question,
                        gold=problem.gold,
                        policy=own.policy,
                        share_right=share.value,
                        status=grade.status,
                        extracted=grade.extracted,
                        sample=completion.index,
                        alike=case.alike,
                        of=case.of,
                        text=completion.text,
                    )
                )
        title = f"{problem.question}  (gold {problem.gold}; problem {id_} of {benchmark})"
        tables.append(Table(title, columns(names), tuple(rows)))
        sheet += [Row((benchmark, id_, *row.cells)) for row in rows]
    return Document(
        name="cases",
        title="cases",
        data=CasesData(cases=data),
        tables=tuple(tables),
        sheets={"cases": Table("cases", columns(f"benchmark, problem, {names}"), tuple(sheet))},
        notes=(
            "of each policy the first completion with the commonest skeleton among its right "
            "ones, and among the others; chosen by counting, not by reading: a case is an "
            "illustration, and proves nothing of how often it happens",
        ),
    )


def most_different(answers: tuple[Answers, ...]) -> str:
    """Return the first problem whose share of right samples differs most between policies.

    With a single policy, it is the problem nearest to one half.
    """
    share_MP = np.stack([own.right_shares for own in answers])
    range_P = np.ptp(share_MP, axis=0) if len(answers) > 1 else -np.abs(share_MP[0] - 0.5)
    return answers[0].counts.problem_ids[int(np.argmax(range_P))]


def typical(answers: Answers, problem_id: str) -> Mapping[bool, Case]:
    """Return whether right -> the case that stands for most completions; none for no completion."""
    rows = sorted(answers.rows([problem_id]), key=lambda row: row.completion.index)
    cases = {}
    for right in (True, False):
        skeletons = [(skeleton(row.completion.text), row) for row in rows if row.right == right]
        if skeletons:
            commonest, alike = Counter(bare for bare, _ in skeletons).most_common(1)[0]
            first = next(row for bare, row in skeletons if bare == commonest)
            cases[right] = Case(first, alike, len(skeletons))
    return cases


CASES = Analysis(
    "cases",
    "one problem, several policies, side by side (Appendix H); see --problem",
    cases,
    CasesData,
)
