"""One problem, several policies, side by side (Appendix H)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.answers import Answers, GradedSample
from sage_cli.analysis.material import Material
from sage_cli.analysis.skeleton import skeleton
from sage_cli.reports import table as tables
from sage_cli.reports.document import Document
from sage_cli.reports.table import Column, Measure, Table

VERDICTS = {True: "right", False: "not right"}


@dataclass(frozen=True)
class Case:
    """A completion that stands for others of a policy: those of its verdict and skeleton.

    `alike` of `of` completions with this verdict have its skeleton.
    """

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


def cases(material: Material) -> Document:
    """The problem of each benchmark on which policies differ most, and what they write there."""
    found, listed = [], []
    data: list[CaseJson] = []
    for benchmark, answers in material.answers.items():
        id_ = most_different(answers)
        problem = answers[0].problems[id_]
        rows = []
        for one in answers:
            place = one.counts.problem_ids.index(id_)
            share = Measure(float(one.counts.c_P[place] / one.counts.n_P[place]))
            for right, case in typical(one, id_).items():
                share_alike = f"{case.alike} of {case.of}"
                text = case.row.completion.text
                rows.append(tables.Row((one.policy, share, VERDICTS[right], share_alike, text),
                                       one.policy))  # fmt: skip
                data.append(
                    {"benchmark": benchmark, "problem": id_, "question": problem.question,
                     "gold": problem.gold, "policy": one.policy, "share_right": share.value,
                     "status": case.row.grade.status, "extracted": case.row.grade.extracted,
                     "sample": case.row.completion.index, "alike": case.alike, "of": case.of,
                     "text": text}
                )  # fmt: skip
        names = ("policy", "share right", "verdict", "alike", "completion")
        title = f"{problem.question}  (gold {problem.gold}; problem {id_} of {benchmark})"
        found.append(Table(title, tuple(map(Column, names)), tuple(rows)))
        listed += [tables.Row((benchmark, id_, *row.cells)) for row in rows]
    return Document(
        name="cases",
        title="cases",
        provenance=material.provenance,
        data=CasesData(cases=data),
        tables=tuple(found),
        sheets={
            "cases": Table(
                "cases",
                tuple(map(Column, ("benchmark", "problem", "policy", "share right", "verdict",
                                   "alike", "completion"))),
                tuple(listed),
            )
        },
        notes=(
            "of each policy the first completion with the commonest skeleton among its right "
            "ones, and among the others; chosen by counting, not by reading: a case is an "
            "illustration, and proves nothing of how often it happens",
        ),
    )  # fmt: skip


def most_different(answers: tuple[Answers, ...]) -> str:
    """The problem whose share of right samples differs most between policies; the first such.

    Of a single policy the problem nearest to one half.
    """
    share_MP = np.stack([one.counts.c_P / one.counts.n_P for one in answers])
    spread_P = np.ptp(share_MP, axis=0) if len(answers) > 1 else -np.abs(share_MP[0] - 0.5)
    return answers[0].counts.problem_ids[int(np.argmax(spread_P))]


def typical(answers: Answers, problem_id: str) -> Mapping[bool, Case]:
    """Whether right -> the case that stands for most; what doesn't occur is left out."""
    rows = sorted(answers.rows([problem_id]), key=lambda row: row.completion.index)
    found = {}
    for right in (True, False):
        bare = {
            row.completion.index: skeleton(row.completion.text)
            for row in rows
            if row.right == right
        }
        if bare:
            commonest, alike = Counter(bare.values()).most_common(1)[0]
            first = next(
                row for row in rows
                if row.right == right and bare[row.completion.index] == commonest
            )  # fmt: skip
            found[right] = Case(first, alike, len(bare))
    return found


CASES = Analysis(
    "cases",
    "one problem, several policies, side by side (Appendix H); see --problem",
    cases,
    CasesData,
)
