"""Which problems a run gained or lost against another, beyond what sampling alone would show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import Counts, FloatArray, IntArray
from sage_cli.metrics.estimator import pass_at_k
from sage_cli.metrics.multiplicity import holm


@dataclass(frozen=True)
class Support:
    """Problems by whether the base and the run solved them at least once, after Def. 4.1.

    `gained_by_chance` and `lost_by_chance` are the numbers to expect if nothing had changed.
    `surely_gained` and `surely_lost` are those that hold with the confidence asked for, over all
    problems together. `visible` is the success probability that the samples would have shown
    with that confidence: an unsolved problem may still lie below it.
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


def compare_support(base: Counts, run: Counts, *, confidence: float = 0.95) -> Support:
    """Support gained and lost by `run` against `base`, on the same problems.

    If nothing changed, the m right samples of a problem fall among the base's and the run's
    samples as drawn from one urn. The chance that the base got none of them is hypergeometric:
    1 - pass@m with n = all samples and c = the base's. It is also Fisher's exact one-sided
    p-value for such a problem; Holm's procedure makes the sure ones sure together.
    """
    run = run.ordered(base.problem_ids)
    right_P = base.c_P + run.c_P
    gain_P, loss_P = (base.c_P == 0) & (run.c_P > 0), (base.c_P > 0) & (run.c_P == 0)
    none_in_base_P = _none_of(right_P, base.n_P, run.n_P)
    none_in_run_P = _none_of(right_P, run.n_P, base.n_P)
    some_P = right_P > 0
    level = 1 - confidence

    def named(mask_P: np.ndarray) -> tuple[str, ...]:
        return tuple(base.problem_ids[place] for place in np.flatnonzero(mask_P))

    return Support(
        gained=named(gain_P),
        lost=named(loss_P),
        kept=named((base.c_P > 0) & (run.c_P > 0)),
        absent=named(~some_P),
        gained_by_chance=float(none_in_base_P[some_P].sum()),
        lost_by_chance=float(none_in_run_P[some_P].sum()),
        surely_gained=named(holm(np.where(gain_P, none_in_base_P, 1.0)) <= level),
        surely_lost=named(holm(np.where(loss_P, none_in_run_P, 1.0)) <= level),
        visible=float(1 - level ** (1 / min(base.n_P.min(), run.n_P.min()))),
        confidence=confidence,
    )


def _none_of(right_P: IntArray, own_P: IntArray, other_P: IntArray) -> FloatArray:
    """The chance that none of `right` samples, scattered over both, is among the own ones."""
    chance_P = np.ones(len(right_P))
    for own, other in {(int(own), int(other)) for own, other in zip(own_P, other_P, strict=True)}:
        here_P = (own_P == own) & (other_P == other) & (right_P > 0)
        chance_P[here_P] = 1 - pass_at_k(own + other, own, right_P[here_P])
    return chance_P
