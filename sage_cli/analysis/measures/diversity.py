"""The numbers of different answers and ways of solving in a policy's samples, per problem."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from sage_cli.analysis.analysis import Analysis, Inputs
from sage_cli.analysis.graded_samples import Answers, skeleton
from sage_cli.analysis.policy_tables import PolicyMeans
from sage_cli.metrics.counts import FloatArray, distinct_of, entropy_of_counts
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import draw_dot_plot
from sage_cli.reports.tables import Column, Estimate, Row, Table, columns

RIGHT_SAMPLED = 8
"""Right solutions among which skeletons are counted: with more, there would be more skeletons."""
ANSWERS, ENTROPY = "different answers", "answer entropy (nats)"
SKELETONS = f"skeletons of {RIGHT_SAMPLED} right"
MEASURES = (ANSWERS, ENTROPY, SKELETONS)


@dataclass(frozen=True, eq=False)
class Variety:
    """Final answers of each problem's samples, and skeletons of the right ones, counted."""

    answers: Mapping[str, Counter[str | None]]
    skeletons: Mapping[str, Counter[bytes]]

    def values(self, measure: str) -> FloatArray:
        """Return one of MEASURES for each problem; NaN with too few right solutions."""
        if measure == SKELETONS:
            counters = self.skeletons.values()
            return np.array([distinct_of(list(c.values()), RIGHT_SAMPLED) for c in counters])
        counts = [list(answers.values()) for answers in self.answers.values()]
        if measure == ANSWERS:
            return np.array([len(numbers) for numbers in counts], float)
        return np.array([entropy_of_counts(numbers) for numbers in counts])


def variety(answers: Answers) -> Variety:
    """Count the answers of all samples (none counts as one) and the skeletons of right ones."""
    counted: dict[str, Counter[str | None]] = {id_: Counter() for id_ in answers.problems}
    skeletons: dict[str, Counter[bytes]] = {id_: Counter() for id_ in answers.problems}
    for row in answers.rows():
        counted[row.problem.id][row.final_answer] += 1
        if row.right:
            bare = skeleton(row.completion.text).encode()
            skeletons[row.problem.id][hashlib.blake2b(bare, digest_size=8).digest()] += 1
    return Variety(counted, skeletons)


def diversity(inputs: Inputs) -> Document:
    """Return each measure per policy, the paired differences, and every problem's values."""
    means = PolicyMeans("measure", inputs.options, shares=False)
    rows: list[Row] = []
    compared = []
    for benchmark, answers in inputs.answers.items():
        counted = {graded.policy: variety(graded) for graded in answers}
        for measure in MEASURES:
            values = {policy: counts.values(measure) for policy, counts in counted.items()}
            shared_P = np.all(np.isfinite(np.stack(list(values.values()))), axis=0)
            means.add(benchmark, measure, {name: of_P[shared_P] for name, of_P in values.items()})
        compared.append(f"{int(shared_P.sum())} of {len(answers[0].problems)} on {benchmark}")
        rows += [row for graded in answers for row in _problem_rows(graded, counted[graded.policy])]
    heads = columns("benchmark, problem, policy, share right")
    sheet = Table("diversity problem by problem", (*heads, *map(Column, MEASURES)), tuple(rows))
    panels = {
        measure: {benchmark: items[measure] for benchmark, items in means.means.items()}
        for measure in MEASURES
    }
    figure = Figure("diversity", partial(draw_dot_plot, panels, "mean over problems"))
    return Document(
        name="diversity",
        title="diversity of answers and solutions",
        data=means.per_problem(sheet),
        tables=means.tables("diversity, mean over problems"),
        sheets={"diversity": sheet},
        figures=(figure,),
        notes=(
            "answers: right ones are one answer, wrong ones differ by their text, completions "
            "without an answer are one more; the entropy is that of the shares of a problem's "
            "samples, low by about (answers - 1) / 2n",
            f"skeletons: how many to expect among {RIGHT_SAMPLED} right solutions of a problem "
            "(Hurlbert 1971), on problems where every policy has as many "
            f"({', '.join(compared)}); a skeleton is a solution without its words and numbers",
        ),
    )


def _problem_rows(answers: Answers, counted: Variety) -> list[Row]:
    values = [answers.right_shares, *(counted.values(measure) for measure in MEASURES)]
    return [
        Row((answers.benchmark.name, id_, answers.policy, *map(Estimate, map(float, numbers))))
        for id_, *numbers in zip(answers.problems, *values, strict=True)
    ]


DIVERSITY = Analysis(
    "diversity",
    "how many different answers and ways of solving there are, per problem",
    diversity,
)
