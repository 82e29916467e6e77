"""The problems that one model gained or lost against another, beyond the effect of sampling.

The random numbers of sample i of a problem are a hash of evaluation seed, problem and i alone, so
policies that were sampled with the same seeds share them, and their samples i are paired.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import Counts
from sage_cli.metrics.estimators import BoolArray, FloatArray, IntArray
from sage_cli.metrics.intervals import fair_binomial, holm, hypergeometric


def paired_grades(a: Counts, b: Counts) -> tuple[BoolArray, BoolArray] | None:
    """The grades of both, shape (P, N) each, column by column on the same random numbers.

    None where the grades of a side's samples aren't known, or seeds or numbers of samples differ.
    An unknown seed equals no other. Both must have the same problems in the same order.
    """
    if a.grades is None or b.grades is None or a.grades.seeds != b.grades.seeds:
        return None
    if None in a.grades.seeds:
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
    if a.grades is None or b.grades is None or None in (*a.grades.seeds, *b.grades.seeds):
        return False
    return a.grades.seeds != b.grades.seeds


def null_counts(base: Counts, run: Counts) -> Iterator[tuple[IntArray, FloatArray]]:
    """For each problem the base's possible counts of correct samples and their probabilities.

    The correct samples of both are given. Paired grades of one model could as well be swapped, so
    the base has each correct one of the pairs that differ with probability 1/2 (McNemar's test).
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


@dataclass(frozen=True)
class Support:
    """Problems by whether the base and the run solve more than a share `delta`, after Def. 4.1.

    `gained_by_chance` and `lost_by_chance` are the numbers to expect if nothing had changed.
    `surely_gained` and `surely_lost` hold with the asked confidence, over all problems together.
    `visible` is the success probability that the samples would have shown with that confidence:
    an unsolved problem may still lie below it. `paired` says that grades were compared sample by
    sample, because both sides share their random numbers.
    """

    gained: tuple[str, ...]
    lost: tuple[str, ...]
    kept: tuple[str, ...]
    absent: tuple[str, ...]
    gained_by_chance: float
    lost_by_chance: float
    surely_gained: tuple[str, ...]
    surely_lost: tuple[str, ...]
    visible: float
    confidence: float
    delta: float = 0.0
    paired: bool = False


def compare_support(
    base: Counts, run: Counts, *, confidence: float = 0.95, delta: float = 0.0
) -> Support:
    """Support gained and lost by `run` against `base`, on the same problems.

    The null hypothesis is `null_counts`. The probability that the base got as few
    correct ones as it did, or fewer, is the one-sided p-value of McNemar's or Fisher's exact test;
    Holm's procedure over all problems makes the sure ones hold together.
    """
    run = run.ordered(base.problem_ids)
    base_P, run_P = _above(base.c_P, base.n_P, delta), _above(run.c_P, run.n_P, delta)
    gain_P, loss_P = ~base_P & run_P, base_P & ~run_P
    gained, lost = np.zeros(len(base)), np.zeros(len(base))
    fewer, more = np.ones(len(base)), np.ones(len(base))
    for problem, (count_C, chance_C) in enumerate(null_counts(base, run)):
        run_C = base.c_P[problem] + run.c_P[problem] - count_C
        in_base_C = _above(count_C, base.n_P[problem], delta)
        in_run_C = _above(run_C, run.n_P[problem], delta)
        gained[problem] = chance_C[~in_base_C & in_run_C].sum()
        lost[problem] = chance_C[in_base_C & ~in_run_C].sum()
        fewer[problem] = chance_C[count_C <= base.c_P[problem]].sum()
        more[problem] = chance_C[count_C >= base.c_P[problem]].sum()
    level = 1 - confidence

    def ids(mask_P: BoolArray) -> tuple[str, ...]:
        return tuple(base.problem_ids[row] for row in np.flatnonzero(mask_P))

    return Support(
        gained=ids(gain_P),
        lost=ids(loss_P),
        kept=ids(base_P & run_P),
        absent=ids(~base_P & ~run_P),
        gained_by_chance=float(gained.sum()),
        lost_by_chance=float(lost.sum()),
        # problems that were not gained are tests, too, with p = 1: the family is all problems,
        # which was fixed before the data were seen
        surely_gained=ids(gain_P & (holm(np.where(gain_P, fewer, 1.0)) <= level)),
        surely_lost=ids(loss_P & (holm(np.where(loss_P, more, 1.0)) <= level)),
        # the success probability p of which n samples miss all with probability 1 - confidence: (1
        # - p)^n = level
        visible=float(1 - level ** (1 / min(base.n_P.min(), run.n_P.min()))),
        confidence=confidence,
        delta=delta,
        paired=paired_grades(base, run) is not None,
    )


def _above(c: IntArray, n: IntArray, delta: float) -> BoolArray:
    """True where the share of correct samples exceeds `delta`, whatever is rounded."""
    above: BoolArray = c > delta * n + 1e-9
    return above
