"""The pass@k of a guess without a model, as the baseline that every table may have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sage_cli.errors import ConfigurationError
from sage_cli.metrics import Curve
from sage_cli.metrics.counts import FloatArray
from sage_cli.problems.problem import Problem
from sage_cli.settings.own_code import OwnFunction, blamed, names_code


def guess_label(name: str) -> str:
    """Return what a table calls the guess of FILE.py:FUNCTION."""
    return f"guess ({OwnFunction.parse(name).name})"


def guess_curve(
    name: str, problems: Sequence[Problem], ks: Sequence[int], confidence: float = 0.95
) -> Curve:
    """Return pass@k of independent guesses, without a band.

    FILE.py:FUNCTION takes a problem's question and gold, and returns the probability p that one
    guess is the gold; pass@k of a problem is 1 - (1 - p)^k. Raises ConfigurationError for what is
    no such function, with the problem.
    """
    if not names_code(name):
        raise ConfigurationError(
            f"--guess '{name}' is not FILE.py:FUNCTION",
            "give a Python function of question and gold that returns the probability that a "
            "guess is correct, for example examples/smollm2/one_operation.py:chance",
        )
    written = OwnFunction.parse(name)
    function = written.load()
    chance_P = np.array([_chance(written, function, problem) for problem in problems], float)
    pass_KP: FloatArray = -np.expm1(np.log1p(-chance_P.clip(0, 1 - 1e-16)) * np.array(ks)[:, None])
    mean_K, unknown_K = pass_KP.mean(axis=1), np.full(len(ks), np.nan)
    return Curve(tuple(ks), mean_K, unknown_K, unknown_K, confidence, len(problems))


def _chance(written: OwnFunction, function: object, problem: Problem) -> float:
    """Return the function's probability of one problem."""
    assert callable(function)
    step = "correct the function"
    with blamed(f"--guess {written}", written.module, f"failed on problem {problem.id}", step):
        chance = function(problem.question, problem.gold)
    # NaN is in no order
    if not isinstance(chance, int | float) or not 0 <= chance <= 1:
        raise ConfigurationError(
            f"--guess {written} returned {chance!r} for problem {problem.id}",
            "return the probability that one guess is correct, a number from 0 to 1",
        )
    return float(chance)
