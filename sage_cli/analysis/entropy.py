"""Answer-level beside token-level entropy, per problem (The Invisible Leash, Wu et al. 2025).

A policy may be unsure of its words and sure of its answer, and the reverse.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.answers import Answers
from sage_cli.analysis.material import Material
from sage_cli.analysis.means import mean_over_problems
from sage_cli.analysis.per_sample import by_problem
from sage_cli.analysis.pictures import scatters
from sage_cli.analysis.tables import PerProblem, per_problem, tables_with_differences
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.variety import entropy_of_counts
from sage_cli.reports.document import Document
from sage_cli.reports.table import Column, Measure, Row, Table

TOKEN, ANSWER = "token entropy (nats)", "answer entropy (nats)"


def entropy(material: Material) -> Document:
    """Both entropies per policy, paired differences to the first, and every problem's values."""
    asked, first = material.asked, material.policies[0]
    found: dict[str, dict[str, dict[str, Measure]]] = {}
    gaps: dict[str, dict[str, dict[str, Measure]]] = {}
    points: dict[str, dict[str, tuple[FloatArray, FloatArray]]] = {}
    rows: list[Row] = []
    for benchmark, answers in material.answers.items():
        of = {one.policy: entropies(one) for one in answers}
        points[benchmark] = of
        for place, name in enumerate((TOKEN, ANSWER)):
            found.setdefault(benchmark, {})[name] = {
                policy: mean_over_problems(pair[place], asked) for policy, pair in of.items()
            }
            gaps.setdefault(benchmark, {})[name] = {
                policy: mean_over_problems(pair[place] - of[first][place], asked, signed=True)
                for policy, pair in of.items()
                if policy != first
            }
        rows += [
            Row((benchmark, id_, one.policy, *(Measure(float(v)) for v in values)))
            for one in answers
            for id_, *values in zip(one.problems, *of[one.policy], strict=True)
        ]
    sheet = Table(
        "entropies problem by problem",
        tuple(map(Column, ("benchmark", "problem", "policy", TOKEN, ANSWER))),
        tuple(rows),
    )
    tables = tables_with_differences("entropies, mean over problems", "entropy", found, gaps, first)
    return Document(
        name="entropy",
        title="entropy of tokens and of answers",
        provenance=material.provenance,
        data=per_problem("entropy", found, gaps, sheet),
        tables=tuple(tables),
        sheets={"entropy": sheet},
        figures=(scatters("entropy", points, (TOKEN, ANSWER)),),
        notes=(
            "token entropy: that of the policy's whole distribution (Eq. 12) at the sampling "
            "temperature, mean over a completion's tokens, then over completions, then over "
            "problems; a training's log averages over all tokens instead",
            "answer entropy: of the shares of a problem's different answers, none being one more",
        ),
    )


def entropies(answers: Answers) -> tuple[FloatArray, FloatArray]:
    """Token-level and answer-level entropy of each problem."""
    counted: dict[str, Counter[str | None]] = {id_: Counter() for id_ in answers.problems}
    tokens = []
    for row, reading in answers.read_rows():
        counted[row.problem.id][row.final_answer] += 1
        tokens.append((row.problem.id, reading.entropy))
    _, token_P = by_problem(list(answers.problems), tokens)
    answer_P = np.array([entropy_of_counts(list(one.values())) for one in counted.values()])
    return token_P, answer_P


ENTROPY = Analysis(
    "entropy",
    "answer-level beside token-level entropy, per problem",
    entropy,
    PerProblem,
    reader="itself",
)
