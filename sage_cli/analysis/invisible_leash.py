"""The figures of The Invisible Leash (Wu et al. 2025): ratios, thresholds, two kinds of entropy."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.answers import Answers
from sage_cli.analysis.entropy import ANSWER, TOKEN, entropies
from sage_cli.analysis.material import Material
from sage_cli.analysis.means import mean_over_problems
from sage_cli.analysis.tables import Results
from sage_cli.errors import DataError
from sage_cli.metrics import Support
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.variety import entropy_of_counts
from sage_cli.reports.table import Measure

NAN = float("nan")


class Ratios(TypedDict):
    """Support retention, novel discovery, their harmonic mean, net change."""

    SRR: float
    NDR: float
    SDS: float
    NSCR: float


def support_ratios(found: Support) -> Ratios:
    """The ratios from kept (P), gained (E) and lost (S) problems; NaN for 0 / 0.

    Support retention P / (P + S), novel discovery E / (P + E), their harmonic mean, and net
    change (E - S) / (P + E + S).
    """
    kept, gained, lost = len(found.kept), len(found.gained), len(found.lost)
    retention, novel = _ratio(kept, kept + lost), _ratio(gained, kept + gained)
    both = retention + novel
    return {
        "SRR": retention,
        "NDR": novel,
        "SDS": 2 * retention * novel / both if both > 0 else (0.0 if both == 0 else NAN),
        "NSCR": _ratio(gained - lost, kept + gained + lost),
    }


def thresholds(k: int, confidence: float) -> dict[str, float]:
    """The success probability that k samples show with this confidence.

    With zeta = 1 - confidence: `exact` 1 - zeta^(1/k), and the paper's -ln(zeta) / k above it.
    """
    zeta = 1 - confidence
    return {"exact": 1 - zeta ** (1 / k), "paper": -math.log(zeta) / k}


def equal_k(answers: Iterable[Answers]) -> int:
    """How many samples each policy has of each problem.

    Raises DataError where they differ: more samples alone solve more problems.
    """
    seen = {one.policy: set(one.counts.n_P.tolist()) for one in answers}
    every = set().union(*seen.values())
    if len(every) != 1:
        numbers = ", ".join(f"{policy} {_range(of)}" for policy, of in seen.items())
        raise DataError(
            f"the policies have unequal numbers of samples a problem ({numbers}), and who has more "
            "solves more",
            "draw the same number of each: `sage passk BASE RUN... --n N`",
        )
    return int(every.pop())


def entropies_of(material: Material) -> Results:
    """Benchmark -> answer entropy, and token entropy where it was read -> policy -> mean."""
    found: dict[str, dict[str, dict[str, Measure]]] = {}
    asked = material.asked
    for benchmark, answers in material.answers.items():
        found[benchmark] = {ANSWER: {}, TOKEN: {}}
        for one in answers:
            token_P, answer_P = entropies(one) if one.readings else (None, answer_entropies(one))
            found[benchmark][ANSWER][one.policy] = mean_over_problems(answer_P, asked)
            if token_P is not None:
                found[benchmark][TOKEN][one.policy] = mean_over_problems(token_P, asked)
    return {name: {k: v for k, v in of.items() if v} for name, of in found.items()}


def answer_entropies(answers: Answers) -> FloatArray:
    """Entropy of the shares of each problem's different answers, none being one more."""
    counted = answers.final_answers().values()
    return np.array([entropy_of_counts(list(one.values())) for one in counted])


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else NAN


def _range(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"
