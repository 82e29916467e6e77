"""SampleGrades sample by sample: what two policies that share their random numbers have in common.

Sample i of a problem is drawn with random numbers that are a hash of evaluation seed, problem and
i alone. Policies that were sampled with the same seeds therefore share them, and sample i of one
belongs to sample i of the other.
"""

from __future__ import annotations

import numpy as np

from sage_cli.metrics.counts import BoolArray, Counts


def paired_grades(a: Counts, b: Counts) -> tuple[BoolArray, BoolArray] | None:
    """The verdicts of both, shape (P, N) each, column by column on the same random numbers.

    None where a side's verdicts aren't known sample by sample, or seeds or numbers of samples
    differ. Both must have the same problems in the same order.
    """
    if a.verdicts is None or b.verdicts is None or a.verdicts.seeds != b.verdicts.seeds:
        return None
    if a.verdicts.right_PN.shape != b.verdicts.right_PN.shape:
        return None
    return a.verdicts.right_PN, b.verdicts.right_PN


def grade_correlation(a: Counts, b: Counts) -> float:
    """The correlation of paired verdicts within a problem, over all problems.

    The sum of the problems' covariances over that of the products of their deviations: problems
    that one side solves always or never don't count. NaN where verdicts aren't paired, or none
    varies on both sides.
    """
    pairs = paired_grades(a, b.ordered(a.problem_ids))
    if pairs is None:
        return float("nan")
    a_PN, b_PN = pairs
    a_P, b_P = a_PN.mean(axis=1), b_PN.mean(axis=1)
    together = float(((a_PN & b_PN).mean(axis=1) - a_P * b_P).sum())
    most = float(np.sqrt(a_P * (1 - a_P) * b_P * (1 - b_P)).sum())
    return together / most if most > 0 else float("nan")


def different_seeds(a: Counts, b: Counts) -> bool:
    """Return True if both sides' evaluation seeds are known and they differ."""
    known = a.verdicts is not None and b.verdicts is not None
    return known and a.verdicts.seeds != b.verdicts.seeds  # type: ignore[union-attr]
