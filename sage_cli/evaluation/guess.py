"""The pass@k of a guess, as the baseline that every table may have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.counted_files import CountedFile, read_counted_files, shared_problems
from sage_cli.metrics import Counts, Curve
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import Resampling, curve
from sage_cli.problems.problem import Problem
from sage_cli.settings.own_code import OwnFunction, blamed, names_code


def guess_label(name: str) -> str:
    """Return what a table calls the guess of FILE.py:FUNCTION or of a file of samples."""
    return f"guess ({OwnFunction.parse(name).name if names_code(name) else Path(name).stem})"


def guess_curve(
    name: str, problems: Sequence[Problem], ks: Sequence[int], confidence: float = 0.95
) -> Curve:
    """Return pass@k of guesses on the problems.

    FILE.py:FUNCTION takes a problem's question and gold, and returns the probability p that one
    guess is the gold. Guesses are independent, so that pass@k of a problem is 1 - (1 - p)^k,
    without a band. Another file has sampled guesses, and is read as every file of samples or
    counts: its curve has a band, and is unknown (NaN) at each k above its smallest number of
    samples. Raises ConfigurationError for another name, for something other than such a function,
    and for a file that lacks a problem.
    """
    if names_code(name):
        return _curve_of_chances(name, problems, ks, confidence)
    if not Path(name).is_file():
        raise ConfigurationError(
            f"--guess '{name}' is neither FILE.py:FUNCTION nor a file of samples",
            "give a Python function of question and gold that returns the probability that a "
            "guess is correct, for example examples/smollm2/one_operation.py:chance, or the file "
            "of a baseline's samples",
        )
    counts = _sampled_guesses(name, problems)
    known_K = np.array(ks) <= counts.n_P.min()
    values_3K = np.full((3, len(ks)), np.nan)
    if known_K.any():
        band = curve([counts], np.array(ks)[known_K], Resampling(confidence))
        values_3K[:, known_K] = band.mean_K, band.low_K, band.high_K
    mean_K, low_K, high_K = values_3K
    return Curve(tuple(ks), mean_K, low_K, high_K, confidence, len(problems))


def _curve_of_chances(
    name: str, problems: Sequence[Problem], ks: Sequence[int], confidence: float
) -> Curve:
    written = OwnFunction.parse(name)
    function = written.load()
    chance_P = np.array([_chance(written, function, problem) for problem in problems], float)
    pass_KP: FloatArray = -np.expm1(np.log1p(-chance_P.clip(0, 1 - 1e-16)) * np.array(ks)[:, None])
    mean_K, unknown_K = pass_KP.mean(axis=1), np.full(len(ks), np.nan)
    return Curve(tuple(ks), mean_K, unknown_K, unknown_K, confidence, len(problems))


def _sampled_guesses(name: str, problems: Sequence[Problem]) -> Counts:
    """Return a file's counts on the problems, which are matched by question or id."""
    (file,) = read_counted_files([name])
    asked = CountedFile(
        Path("the table"),
        Counts.of({problem.id: (0, 0) for problem in problems}),
        {problem.id: problem for problem in problems},
    )
    (_, counts), _, _ = shared_problems([asked, file])
    if len(counts) < len(problems):
        raise ConfigurationError(
            f"--guess {name} has {len(counts):,} of the {len(problems):,} problems of the table",
            "give a file with samples of every problem",
        )
    return counts


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
