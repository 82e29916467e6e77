"""Problems that a run gained or lost against another, beyond the effect of sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.comparisons.pooled_null import null_counts, paired_grades
from sage_cli.metrics.counts import BoolArray, Counts, FloatArray, IntArray
from sage_cli.metrics.intervals.distributions import holm


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

    The null hypothesis is `pooled_null.null_counts`. The probability that the base got as few
    right ones as it did, or fewer, is the one-sided p-value of McNemar's or Fisher's exact test;
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
        return tuple(base.problem_ids[place] for place in np.flatnonzero(mask_P))

    return Support(
        gained=ids(gain_P),
        lost=ids(loss_P),
        kept=ids(base_P & run_P),
        absent=ids(~base_P & ~run_P),
        gained_by_chance=float(gained.sum()),
        lost_by_chance=float(lost.sum()),
        surely_gained=ids(gain_P & (holm(np.where(gain_P, fewer, 1.0)) <= level)),
        surely_lost=ids(loss_P & (holm(np.where(loss_P, more, 1.0)) <= level)),
        visible=float(1 - level ** (1 / min(base.n_P.min(), run.n_P.min()))),
        confidence=confidence,
        delta=delta,
        paired=paired_grades(base, run) is not None,
    )


NEVER, SOMETIMES, OFTEN = "never", "sometimes", "often"
STATES = (NEVER, SOMETIMES, OFTEN)
"""A problem is solved in no sample, in some, or in at least half of them."""


@dataclass(frozen=True, eq=False)
class Transitions:
    """The numbers of problems that went from a state (row) to a state (column), as in STATES.

    `by_chance` are the numbers to expect if nothing had changed.
    """

    seen: FloatArray
    by_chance: FloatArray


def transitions(base: Counts, run: Counts) -> Transitions:
    """From the base's states to the run's, seen and expected, each of shape (3, 3)."""
    run = run.ordered(base.problem_ids)
    seen, by_chance = np.zeros((3, 3)), np.zeros((3, 3))
    np.add.at(seen, (states(base.c_P, base.n_P), states(run.c_P, run.n_P)), 1)
    for problem, (count_C, chance_C) in enumerate(null_counts(base, run)):
        run_C = base.c_P[problem] + run.c_P[problem] - count_C
        cells = states(count_C, base.n_P[problem]), states(run_C, run.n_P[problem])
        np.add.at(by_chance, cells, chance_C)
    return Transitions(seen, by_chance)


def states(c: IntArray, n: IntArray) -> IntArray:
    """The place in STATES of c right ones among n samples."""
    state: IntArray = (c > 0).astype(int) + (2 * c >= n)
    return state


def _above(c: IntArray, n: IntArray, delta: float) -> BoolArray:
    """True where the share of right samples exceeds `delta`, free of rounding where they agree."""
    above: BoolArray = c > delta * n + 1e-9
    return above
