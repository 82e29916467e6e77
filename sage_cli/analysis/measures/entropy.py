"""Answer-level beside token-level entropy, per problem, and ratios and thresholds of support.

All are of The Invisible Leash (Wu et al. 2025). A policy may be uncertain of its words and certain
of its answer, and the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

from sage_cli.analysis.analysis import Analysis, Inputs
from sage_cli.analysis.graded_samples import Answers
from sage_cli.analysis.policy_tables import PolicyMeans, by_problem
from sage_cli.errors import DataError
from sage_cli.metrics import Support
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import draw_points
from sage_cli.reports.tables import Estimate, Row, Table, columns

TOKEN, ANSWER = "token entropy (nats)", "answer entropy (nats)"


def entropy(inputs: Inputs) -> Document:
    """Return both entropies per policy, paired differences, and every problem's values."""
    means = PolicyMeans("entropy", inputs.options, shares=False)
    points: dict[str, dict[str, tuple[FloatArray, FloatArray]]] = {}
    rows: list[Row] = []
    for benchmark, answers in inputs.answers.items():
        points[benchmark] = {graded.policy: entropies(graded) for graded in answers}
        for place, name in enumerate((TOKEN, ANSWER)):
            values = {policy: pair[place] for policy, pair in points[benchmark].items()}
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
            "problems; a training's log averages over all tokens instead",
            "answer entropy: of the shares of a problem's different answers, none being one more",
        ),
    )


def entropies(answers: Answers) -> tuple[FloatArray, FloatArray]:
    """Return token-level and answer-level entropy of each problem."""
    tokens = ((row.problem.id, score.entropy) for row, score in answers.scored_rows())
    _, token_P = by_problem(list(answers.problems), tokens)
    return token_P, answers.answer_entropies()


ENTROPY = Analysis(
    "entropy",
    "answer-level beside token-level entropy, per problem",
    entropy,
    scorer="self",
)


NAN = float("nan")


def support_ratios(support: Support) -> dict[str, float]:
    """Return the ratios from kept (P), gained (E) and lost (S) problems; NaN for 0 / 0.

    Support retention P / (P + S), novel discovery E / (P + E), their harmonic mean, and net
    change (E - S) / (P + E + S).
    """
    kept, gained, lost = len(support.kept), len(support.gained), len(support.lost)
    retention, novel = _ratio(kept, kept + lost), _ratio(gained, kept + gained)
    both = retention + novel
    return {
        "SRR": retention,
        "NDR": novel,
        "SDS": 2 * retention * novel / both if both > 0 else (0.0 if both == 0 else NAN),
        "NSCR": _ratio(gained - lost, kept + gained + lost),
    }


def thresholds(k: int, confidence: float) -> dict[str, float]:
    """Return the success probability that k samples detect with this confidence.

    With zeta = 1 - confidence: `exact` 1 - zeta^(1/k), and the paper's -ln(zeta) / k above it.
    """
    zeta = 1 - confidence
    return {"exact": 1 - zeta ** (1 / k), "paper": -math.log(zeta) / k}


def equal_k(answers: Iterable[Answers]) -> int:
    """Return the number of samples of each policy and problem.

    Raises DataError if they differ: more samples alone solve more problems.
    """
    numbers = {graded.policy: set(graded.counts.n_P.tolist()) for graded in answers}
    distinct = set().union(*numbers.values())
    if len(distinct) != 1:
        ranges = ", ".join(f"{policy} {_range(counted)}" for policy, counted in numbers.items())
        raise DataError(
            f"the policies have unequal numbers of samples per problem ({ranges}), and more "
            "samples solve more problems",
            "sample the same number for each: `sage passk BASE RUN... --n N`",
        )
    return int(distinct.pop())


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else NAN


def _range(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"
