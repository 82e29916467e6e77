"""How many different answers and ways of solving a policy's samples show, problem by problem."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.answers import Answers
from sage_cli.analysis.material import Material
from sage_cli.analysis.means import mean_over_problems
from sage_cli.analysis.pictures import dots
from sage_cli.analysis.skeleton import skeleton
from sage_cli.analysis.tables import PerProblem, per_problem, tables_with_differences
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.variety import distinct_of, entropy_of_counts
from sage_cli.reports.document import Document
from sage_cli.reports.table import Column, Measure, Row, Table

RIGHT_DRAWN = 8
"""Right solutions among which skeletons are counted, so that who has more of them doesn't win."""
ANSWERS, ENTROPY = "different answers", "answer entropy (nats)"
SKELETONS = f"skeletons of {RIGHT_DRAWN} right"
MEASURES = (ANSWERS, ENTROPY, SKELETONS)


@dataclass(frozen=True, eq=False)
class Variety:
    """What was counted of each problem's samples: answers, and skeletons of the right ones."""

    answers: Mapping[str, Counter[str | None]]
    skeletons: Mapping[str, Counter[bytes]]

    def of(self, measure: str) -> FloatArray:
        """One of MEASURES for each problem; NaN where it has too few right solutions."""
        if measure == SKELETONS:
            return np.array([_distinct(list(of.values())) for of in self.skeletons.values()])
        counts = [list(of.values()) for of in self.answers.values()]
        if measure == ANSWERS:
            return np.array([len(one) for one in counts], float)
        return np.array([entropy_of_counts(one) for one in counts])


def variety(answers: Answers) -> Variety:
    """Count the answers of all samples, none being one more, and the skeletons of right ones."""
    counted: dict[str, Counter[str | None]] = {id_: Counter() for id_ in answers.problems}
    skeletons: dict[str, Counter[bytes]] = {id_: Counter() for id_ in answers.problems}
    for row in answers.rows():
        counted[row.problem.id][row.final_answer] += 1
        if row.right:
            bare = skeleton(row.completion.text).encode()
            skeletons[row.problem.id][hashlib.blake2b(bare, digest_size=8).digest()] += 1
    return Variety(counted, skeletons)


def diversity(material: Material) -> Document:
    """Each measure per policy, the paired difference to the first, and every problem's values."""
    asked, first = material.asked, material.policies[0]
    found: dict[str, dict[str, dict[str, Measure]]] = {}
    gaps: dict[str, dict[str, dict[str, Measure]]] = {}
    rows: list[Row] = []
    compared = []
    for benchmark, answers in material.answers.items():
        seen = {one.policy: variety(one) for one in answers}
        for measure in MEASURES:
            of_P = {policy: one.of(measure) for policy, one in seen.items()}
            shared_P = np.all(np.isfinite(np.stack(list(of_P.values()))), axis=0)
            found.setdefault(benchmark, {})[measure] = {
                policy: mean_over_problems(value_P[shared_P], asked)
                for policy, value_P in of_P.items()
            }
            gaps.setdefault(benchmark, {})[measure] = {
                policy: mean_over_problems((value_P - of_P[first])[shared_P], asked, signed=True)
                for policy, value_P in of_P.items()
                if policy != first
            }
        compared.append(f"{int(shared_P.sum())} of {len(answers[0].problems)} on {benchmark}")
        rows += [row for one in answers for row in _problem_rows(one, seen[one.policy])]
    columns = tuple(map(Column, ("benchmark", "problem", "policy", "share right", *MEASURES)))
    sheet = Table("diversity problem by problem", columns, tuple(rows))
    tables = tables_with_differences("diversity, mean over problems", "measure", found, gaps, first)
    panels = {
        measure: {benchmark: items[measure] for benchmark, items in found.items()}
        for measure in MEASURES
    }
    return Document(
        name="diversity",
        title="diversity of answers and solutions",
        provenance=material.provenance,
        data=per_problem("measure", found, gaps, sheet),
        tables=tuple(tables),
        sheets={"diversity": sheet},
        figures=(dots("diversity", panels, "mean over problems"),),
        notes=(
            "answers: right ones are one answer, wrong ones differ by their text, completions "
            "without an answer are one more; the entropy is that of the shares of a problem's "
            "samples, low by about (answers - 1) / 2n",
            f"skeletons: how many to expect among {RIGHT_DRAWN} right solutions of a problem "
            "(Hurlbert 1971), on problems where every policy has as many "
            f"({', '.join(compared)}); a skeleton is a solution without its words and numbers",
        ),
    )


def _distinct(counts: list[int]) -> float:
    return distinct_of(counts, RIGHT_DRAWN) if counts else float("nan")


def _problem_rows(answers: Answers, seen: Variety) -> list[Row]:
    share_P = answers.counts.c_P / answers.counts.n_P
    values = [seen.of(measure) for measure in MEASURES]
    return [
        Row((answers.benchmark.name, id_, answers.policy, Measure(float(share_P[place])),
             *(Measure(float(value_P[place])) for value_P in values)))
        for place, id_ in enumerate(answers.problems)
    ]  # fmt: skip


DIVERSITY = Analysis(
    "diversity",
    "how many different answers and ways of solving there are, per problem",
    diversity,
    PerProblem,
)
