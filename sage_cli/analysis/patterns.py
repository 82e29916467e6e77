"""How often right solutions show patterns of reasoning (Eq. 13, Table 2)."""

from __future__ import annotations

from collections import Counter

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.answers import Answers
from sage_cli.analysis.detectors import Detector
from sage_cli.analysis.material import Material
from sage_cli.analysis.means import share_gap, share_over_problems
from sage_cli.analysis.pictures import dots
from sage_cli.analysis.tables import long_table, records, tables_with_differences
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.document import Document
from sage_cli.reports.render import Record
from sage_cli.reports.table import Measure


class PatternsData(TypedDict):
    """Frequencies, differences to the first policy, and each pattern's expressions."""

    frequencies: list[Record]
    differences: list[Record]
    detectors: dict[str, list[str]]


def patterns(material: Material) -> Document:
    """Each pattern's frequency per policy, and the paired difference to the first one's."""
    asked, first = material.asked, material.policies[0]
    frequency: dict[str, dict[str, dict[str, Measure]]] = {}
    difference: dict[str, dict[str, dict[str, Measure]]] = {}
    solved = []
    for benchmark, answers in material.answers.items():
        shares = {one.policy: pattern_shares(one, asked.detectors) for one in answers}
        frequency[benchmark] = {
            detector.name: {
                policy: share_over_problems(by_name[detector.name], asked)
                for policy, by_name in shares.items()
            }
            for detector in asked.detectors
        }
        difference[benchmark] = {
            detector.name: {
                policy: share_gap(by_name[detector.name], shares[first][detector.name], asked)
                for policy, by_name in shares.items()
                if policy != first
            }
            for detector in asked.detectors
        }
        solved += [
            f"{one.policy} on {benchmark}: {int((one.counts.c_P > 0).sum())} of "
            f"{len(one.counts)} problems have a right solution, {int(one.counts.c_P.sum())} in all"
            for one in answers
        ]
    note = "on problems that both solve: the frequencies above are over different problems"
    tables = tables_with_differences(
        "frequency of patterns among right solutions",
        "pattern",
        frequency,
        difference,
        first,
        [note],
    )
    return Document(
        name="patterns",
        title="patterns of reasoning",
        provenance=material.provenance,
        data=PatternsData(
            frequencies=records("pattern", frequency, "frequency"),
            differences=records("pattern", difference, "difference"),
            detectors={
                one.name: [expression.pattern for expression in one.expressions]
                for one in asked.detectors
            },
        ),
        tables=tuple(tables),
        sheets={"patterns": long_table("patterns", "pattern", frequency, "frequency")},
        figures=(dots("patterns", frequency, "frequency among right solutions"),),
        notes=(
            "frequency (Eq. 13): mean over problems with a right solution of the share of its "
            "right solutions that show the pattern; detectors are words, not understanding",
            *solved,
        ),
    )


def pattern_shares(answers: Answers, detectors: tuple[Detector, ...]) -> dict[str, FloatArray]:
    """For each pattern, per problem, the share of right solutions that show it; NaN without any."""
    shown: dict[str, Counter[str]] = {detector.name: Counter() for detector in detectors}
    for row in answers.rows():
        if row.right:
            for detector in detectors:
                shown[detector.name][row.problem.id] += detector.shown_by(row.completion.text)
    right_P = answers.counts.c_P
    known_P = np.where(right_P > 0, right_P, 1)
    return {
        name: np.where(
            right_P > 0, np.array([by_problem[id_] for id_ in answers.problems]) / known_P, np.nan
        )
        for name, by_problem in shown.items()
    }


PATTERNS = Analysis(
    "patterns",
    "how often right solutions show patterns of reasoning (Eq. 13, Table 2)",
    patterns,
    PatternsData,
    options=frozenset({"patterns"}),
)
