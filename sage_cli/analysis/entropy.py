"""Answer-level beside token-level entropy, per problem (The Invisible Leash, Wu et al. 2025).

A policy may be uncertain of its words and certain of its answer, and the reverse.
"""

from __future__ import annotations

from functools import partial

from sage_cli.analysis.analysis import Analysis, Inputs, PolicyMeans, by_problem
from sage_cli.analysis.graded_samples import Answers
from sage_cli.metrics.estimators import FloatArray
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.panels import draw_points
from sage_cli.reports.tables import Row, Table, columns

TOKEN, ANSWER = "token entropy (nats)", "answer entropy (nats)"


def entropy(inputs: Inputs) -> Document:
    """Return both entropies per policy, paired differences, and every problem's values."""
    means = PolicyMeans("entropy", inputs.options, shares=False)
    points: dict[str, dict[str, tuple[FloatArray, FloatArray]]] = {}
    rows: list[Row] = []
    for benchmark, answers in inputs.answers.items():
        points[benchmark] = {graded.policy: entropies(graded) for graded in answers}
        for index, name in enumerate((TOKEN, ANSWER)):
            values = {policy: pair[index] for policy, pair in points[benchmark].items()}
            means.add(benchmark, name, values)
        rows += [
            Row((benchmark, id_, graded.policy, *(Estimate(float(value)) for value in pair)))
            for graded in answers
            for id_, *pair in zip(graded.problems, *points[benchmark][graded.policy], strict=True)
        ]
    heads = columns(f"benchmark, problem, policy, {TOKEN}, {ANSWER}")
    sheet = Table("entropies problem by problem", heads, tuple(rows))
    return Document(
        name="entropy",
        title="entropy of tokens and of answers",
        data=means.per_problem(sheet),
        tables=means.tables("entropies, mean over problems"),
        sheets={"entropy": sheet},
        figures=(Figure("entropy", partial(draw_points, points, (TOKEN, ANSWER))),),
        notes=(
            "token entropy: that of the policy's whole distribution (Eq. 12) at the sampling "
            "temperature, mean over a completion's tokens, then over completions, then over "
            "problems; the log of a training run averages over all tokens instead",
            "answer entropy: of the shares of a problem's different answers, none being one more",
        ),
    )


def entropies(answers: Answers) -> tuple[FloatArray, FloatArray]:
    """Return token-level and answer-level entropy of each problem."""
    tokens = ((row.problem.id, score.entropy) for row, score in answers.scored_rows())
    _, token_P = by_problem(list(answers.problems), tokens)
    return token_P, answers.answer_entropies()


ENTROPY = Analysis(
    "entropy", "answer-level and token-level entropy, per problem", entropy, scorer="self"
)
