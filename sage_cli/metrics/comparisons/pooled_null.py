"""The null hypothesis that two models are one: their grades sample by sample, their counts pooled.

The random numbers of sample i of a problem are a hash of evaluation seed, problem and i alone.
Policies that were sampled with the same seeds therefore share them, and sample i of one is paired
with sample i of the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sage_cli.metrics.counts import BoolArray, Counts, FloatArray, IntArray
from sage_cli.metrics.intervals.distributions import fair_binomial, hypergeometric


def paired_grades(a: Counts, b: Counts) -> tuple[BoolArray, BoolArray] | None:
    """The grades of both, shape (P, N) each, column by column on the same random numbers.

    None where the grades of a side's samples aren't known, or seeds or numbers of samples differ.
    Both must have the same problems in the same order.
    """
    if a.grades is None or b.grades is None or a.grades.seeds != b.grades.seeds:
        return None
    if a.grades.right_PN.shape != b.grades.right_PN.shape:
        return None
    return a.grades.right_PN, b.grades.right_PN


def grade_correlation(a: Counts, b: Counts) -> float:
    """The correlation of paired grades within a problem, over all problems.

    The sum of the problems' covariances over that of the products of their deviations: problems
    that one side solves always or never don't count. NaN where grades aren't paired, or none
    varies on both sides.
    """
    pairs = paired_grades(a, b.ordered(a.problem_ids))
    if pairs is None:
        return float("nan")
    a_PN, b_PN = pairs
    a_P, b_P = a_PN.mean(axis=1), b_PN.mean(axis=1)
    covariance = float(((a_PN & b_PN).mean(axis=1) - a_P * b_P).sum())
    most = float(np.sqrt(a_P * (1 - a_P) * b_P * (1 - b_P)).sum())
    return covariance / most if most > 0 else float("nan")


def different_seeds(a: Counts, b: Counts) -> bool:
    """Return True if both sides' evaluation seeds are known and they differ."""
    return a.grades is not None and b.grades is not None and a.grades.seeds != b.grades.seeds


def null_counts(base: Counts, run: Counts) -> Iterator[tuple[IntArray, FloatArray]]:
    """For each problem the base's possible counts of right samples and their probabilities.

    The right samples of both are given. Paired grades of one model could as well be swapped, so
    the base has each right one of the pairs that differ with probability 1/2 (McNemar's test).
    Unpaired samples are independent: the base's n are drawn from all samples of the problem
    (hypergeometric, Fisher's test). Both must have the same problems in the same order.
    """
    pairs = paired_grades(base, run)
    if pairs is not None:
        base_PN, run_PN = pairs
        both_P, differing_P = (base_PN & run_PN).sum(axis=1), (base_PN ^ run_PN).sum(axis=1)
        for both, differing in zip(both_P.tolist(), differing_P.tolist(), strict=True):
            count_C, chance_C = fair_binomial(differing)
            yield both + count_C, chance_C
        return
    columns = (base.n_P, base.c_P, run.n_P, run.c_P)
    for n, c, run_n, run_c in zip(*(column.tolist() for column in columns), strict=True):
        yield hypergeometric(n, run_n, c + run_c)
