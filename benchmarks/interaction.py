"""How often the intervals of an interaction hold the truth: simulated suites of three methods.

    python benchmarks/interaction.py [--repetitions 1000] [--problems 200]

Prints a table in Markdown. In every repetition each method has two trained policies per initial
policy, with the change and without it. A problem's log-odds are normal; each policy adds a shift of
its own, which is the noise of its training, and noise for each problem. Initial policies shift all
of their policies and stretch the change's gain. The truth is an integral of pass@k over the normal
distributions, by quadrature: over problems and noise for these policies, over all of it for others.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from sage_cli.metrics.comparisons.over_initial_policies import Interactions, interactions
from sage_cli.metrics.intervals.interval import Resampling

Array = NDArray[np.float64]

CHANGE_M = np.array([0.2, 0.2, 0.5])
"""What the change adds to log-odds with each method: the second has no interaction."""
LEVEL, SPREAD = -4.0, 2.5
"""Mean and deviation of problems' log-odds."""
OF_PROBLEM, OF_TRAINING, OF_POLICY, OF_GAIN = 0.5, 0.1, 0.4, 0.15
"""Deviations of noise: of a policy on a problem, of a training, of initial policies and gains."""
RESAMPLES = 799
NODES_X, WEIGHT_X = np.polynomial.hermite_e.hermegauss(80)
SHOWN = {1: "gain, second", 3: "gain, mean", 4: "interaction, none", 5: "interaction", 6: "mean"}
"""Columns of `interactions` that are counted."""


@dataclass(frozen=True)
class Case:
    """Initial policies, whether they share their problems, and k."""

    policies: int
    shared: bool
    k: int


def passed(logit: Array, k: int) -> Array:
    """Return pass@k of a problem with these log-odds of a right completion."""
    # log(1 - p) = log of the logistic function of -logit, which no large logit takes to -inf
    return np.asarray(-np.expm1(k * log_expit(-logit)))


def mean_passed(shift: Array, deviation: float, k: int) -> Array:
    """Return the mean pass@k over log-odds around `LEVEL` plus the shift."""
    logit = LEVEL + shift[..., None] + deviation * NODES_X
    return np.asarray(passed(logit, k) @ WEIGHT_X / WEIGHT_X.sum())


def columns(gain_M: Array) -> Array:
    """Return what `interactions` estimates, from true gains (..., M)."""
    beyond = gain_M[..., 1:] - gain_M[..., :1]
    means = [one.mean(axis=-1, keepdims=True) for one in (gain_M, beyond)]
    return np.concatenate([gain_M, means[0], beyond, means[1]], axis=-1)


def repetition(
    case: Case, problems: int, generator: np.random.Generator, seed: int
) -> tuple[Interactions, Array]:
    """Return the estimates of one simulated suite, and the truth about its policies."""
    Z, M = case.policies, len(CHANGE_M)
    policy_Z = generator.normal(0, OF_POLICY, Z)
    gain_Z = generator.normal(0, OF_GAIN, Z)
    training_ZMA = generator.normal(0, OF_TRAINING, (Z, M, 2))
    change_ZMA = np.zeros((Z, M, 2))
    change_ZMA[..., 0] = CHANGE_M + gain_Z[:, None]
    shift_ZMA = policy_Z[:, None, None] + training_ZMA + change_ZMA
    size = (1 if case.shared else Z, 1, 1, problems)
    problem = np.broadcast_to(generator.normal(0, SPREAD, size), (Z, 1, 1, problems))
    noise = generator.normal(0, OF_PROBLEM, (Z, M, 2, problems))
    pass_ZMAP = passed(LEVEL + shift_ZMA[..., None] + problem + noise, case.k)
    gain_ZMP = pass_ZMAP[:, :, 0] - pass_ZMAP[:, :, 1]
    gains = {f"{m}": gain_ZMP[:, m] for m in range(M)}
    how = Resampling(resamples=RESAMPLES, seed=seed)
    found = interactions(gains, how, shared=case.shared)
    mean_ZMA = mean_passed(shift_ZMA, float(np.hypot(SPREAD, OF_PROBLEM)), case.k)
    return found, columns(mean_ZMA[..., 0] - mean_ZMA[..., 1]).mean(axis=0)


def truth(k: int) -> Array:
    """Return what holds over other initial policies, problems and trainings."""
    without = np.sqrt(SPREAD**2 + OF_PROBLEM**2 + OF_TRAINING**2 + OF_POLICY**2)
    with_change = float(np.hypot(without, OF_GAIN))
    gain_M = mean_passed(CHANGE_M, with_change, k) - mean_passed(np.zeros(1), float(without), k)
    return columns(gain_M)


def row(case: Case, repetitions: int, problems: int) -> list[str]:
    """Return coverage and median half-width for each shown column, both intervals."""
    generator = np.random.default_rng(case.policies)
    wanted = list(SHOWN)
    of_all = truth(case.k)
    held: list[NDArray[np.bool_]] = []
    half: list[Array] = []
    for seed in range(repetitions):
        found, of_these = repetition(case, problems, generator, seed)
        pairs = ((found.these, of_these), (found.others, of_all))
        held.append(np.stack([(i.low_K <= t) & (t <= i.high_K) for i, t in pairs])[:, wanted])
        half.append(np.stack([(i.high_K - i.low_K) / 2 for i, _ in pairs])[:, wanted])
    covers, widths = np.mean(held, axis=0), np.median(half, axis=0)
    cells = [str(case.policies), "shared" if case.shared else "own", str(case.k)]
    for side in range(2 if case.policies > 1 else 1):
        cells += [f"{c:.3f} ({w:.3f})" for c, w in zip(covers[side], widths[side], strict=True)]
    return cells + ["–"] * (len(wanted) if case.policies == 1 else 0)


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--policies", type=int, nargs="+", default=[1, 2, 4, 8])
    given = parser.parse_args()
    began = time.process_time()
    every = [f"{side}: {name}" for side in ("these", "others") for name in SHOWN.values()]
    heads = ["initial policies", "problems", "k", *every]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for policies in given.policies:
        for shared in (False, True) if policies > 1 else (False,):
            for k in (1, 256):
                found = row(Case(policies, shared, k), given.repetitions, given.problems)
                print(f"| {' | '.join(found)} |", flush=True)
    print(f"\n{given.repetitions} repetitions, {time.process_time() - began:.0f} processor seconds")


if __name__ == "__main__":
    main()
