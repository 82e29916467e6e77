"""The frequency of patterns of reasoning among correct solutions (Eq. 13, Table 2)."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from sage_cli.analysis.analysis import Analysis, Inputs, PolicyMeans
from sage_cli.analysis.graded_samples import Answers, Detector
from sage_cli.metrics.estimators import FloatArray
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.dots import draw_dot_plot


def patterns(inputs: Inputs) -> Document:
    """Return each pattern's frequency per policy, and the paired differences to the first."""
    detectors = inputs.options.detectors
    means = PolicyMeans("pattern", inputs.options)
    solved = []
    for benchmark, answers in inputs.answers.items():
        shares = {graded.policy: pattern_shares(graded, detectors) for graded in answers}
        for detector in detectors:
            values = {policy: by_name[detector.name] for policy, by_name in shares.items()}
            means.add(benchmark, detector.name, values)
        solved += [
            f"{graded.policy} on {benchmark}: {int((graded.counts.c_P > 0).sum())} of "
            f"{len(graded.counts)} problems have a correct solution, "
            f"{int(graded.counts.c_P.sum()):,} in all"
            for graded in answers
        ]
    note = "over the problems that both solve; the frequencies above are over different problems"
    axis = "frequency among correct solutions"
    return Document(
        name="patterns",
        title="patterns of reasoning",
        data={
            "frequencies": means.records("frequency"),
            "differences": means.difference_records(),
            "detectors": {
                detector.name: [expression.pattern for expression in detector.expressions]
                for detector in detectors
            },
        },
        tables=means.tables("frequency of patterns among correct solutions", [note]),
        sheets={"patterns": means.sheet("frequency")},
        figures=(Figure("patterns", partial(draw_dot_plot, means.means, axis)),),
        notes=(
            "frequency (Eq. 13): the share of a problem's correct solutions that show the "
            "pattern, mean over problems with a correct solution; a detector looks for words and "
            "does not judge what they mean",
            *solved,
        ),
    )


def pattern_shares(answers: Answers, detectors: tuple[Detector, ...]) -> dict[str, FloatArray]:
    """Return pattern -> share of each problem's correct solutions that show it; NaN for none."""
    counters: dict[str, Counter[str]] = {detector.name: Counter() for detector in detectors}
    for row in answers.rows():
        if row.right:
            for detector in detectors:
                counters[detector.name][row.problem.id] += detector.shown_by(row.completion.text)
    right_P = answers.counts.c_P
    known_P = np.where(right_P > 0, right_P, 1)
    return {
        name: np.where(right_P > 0, [by_problem[id_] for id_ in answers.problems] / known_P, np.nan)
        for name, by_problem in counters.items()
    }


PATTERNS = Analysis(
    "patterns",
    "how often correct solutions show patterns of reasoning (Eq. 13, Table 2)",
    patterns,
    options=frozenset({"patterns"}),
)
