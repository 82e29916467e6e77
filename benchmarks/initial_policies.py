"""How often an estimate over initial policies holds the truth, and how often it errs: simulated.

    python benchmarks/initial_policies.py [--repetitions 2000] [--seed 0]

Prints two tables in Markdown. Every repetition draws new initial policies, each with problems of
its own, and two training seeds of a method and of three anchors; each policy is a curve over six
temperatures. The difference goes through what `sage suite` calls: the best anchor at equal pass@1,
the mean over seeds, Student's t over initial policies. Policies differ in how hard their problems
are, in what the method gains, and in how noisy training is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sage_cli.metrics.comparisons.hull import Curve, gap_over_temperatures
from sage_cli.metrics.comparisons.over_initial_policies import over_initial_policies

Array: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, int], Array]

TEMPERATURES = np.array([0.7, 0.85, 1.0, 1.1, 1.25, 1.5, 2.0])
AT = 2
PROBLEMS, SEEDS, K, CHUNK = 300, 2, 256, 250
SIZES = (4, 8, 16)
ANCHORS = (1.0, 0.93, 1.07)
"""The heat of an anchor like the method's, of a weaker and of a stronger one."""

GAINS: Mapping[str, Draw] = {
    "none": lambda _, n: np.zeros(n),
    "the same": lambda _, n: np.full(n, 0.15),
    "normal": lambda rng, n: rng.normal(0.15, 0.2, n),
    "Student's t, 4": lambda rng, n: 0.15 + 0.15 * rng.standard_t(4, n),
    "one in four has it": lambda rng, n: 0.6 * (rng.random(n) < 0.25),
    "exponential": lambda rng, n: rng.exponential(0.2, n),
}
"""What the method adds to the log-odds of hard problems, over initial policies."""


def differences(rng: np.random.Generator, n: int, gain: Draw, anchors: Sequence[float]) -> Array:
    """Return the method less the first anchor and less the best one, (n, SEEDS, 2).

    `anchors` are their heats. All lie on one curve, as far as noise and the method's gain let them.
    """
    hardness_n1 = rng.normal(-2.0, 0.5, (n, 1))
    odds_nP = hardness_n1 + rng.normal(0, rng.uniform(1.5, 2.5, (n, 1)), (n, PROBLEMS))
    noise_n1, gain_n1 = rng.uniform(0.05, 0.3, (n, 1)), gain(rng, n)[:, None]
    found = []
    for _ in range(SEEDS):
        moved = [
            rng.normal(0, 0.02, (n, 1)) + noise_n1 * rng.normal(size=(n, PROBLEMS))
            for _ in range(1 + len(anchors))
        ]
        heat = [heat + rng.normal(0, 0.05, (n, 1)) for heat in (1.0, *anchors)]
        # what a guide keeps is on problems that are hardly ever solved
        own = curve(odds_nP + moved[0] + gain_n1 * (odds_nP < hardness_n1 - 2), heat[0])
        others = [curve(odds_nP + moved[j], heat[j]) for j in range(1, len(heat))]
        families = [others[:1], others]
        gaps = [gap_over_temperatures(own, family, AT).difference_R for family in families]
        found.append(np.stack(gaps, axis=-1))
    return np.stack(found, axis=1)


def curve(odds_nP: Array, heat_n1: Array) -> Curve:
    """Return mean pass@1 and pass@K at each temperature, which flattens and lowers log-odds.

    A policy of more `heat` is what another one is at a higher temperature.
    """
    points = []
    for temperature in TEMPERATURES:
        own_n1 = temperature * heat_n1
        p_nP = 1 / (1 + np.exp(-odds_nP / own_n1 + 2 * (own_n1 - 1)))
        points.append((p_nP.mean(axis=1), -np.expm1(K * np.log1p(-p_nP)).mean(axis=1)))
    first, passed = (np.stack(each, axis=1) for each in zip(*points, strict=True))
    return first, passed


def repeated(
    rng: np.random.Generator, repetitions: int, gain: Draw, anchors: Sequence[float]
) -> Array:
    """Return (repetitions, initial policies, SEEDS, 2) differences."""
    n = repetitions * SIZES[-1]
    parts = [differences(rng, CHUNK, gain, anchors) for _ in range(-(-n // CHUNK))]
    return np.concatenate(parts)[:n].reshape(repetitions, SIZES[-1], SEEDS, -1)


def main() -> None:
    """Print coverage by what the method gains, and level where it gains nothing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    typed = parser.parse_args()
    began = time.perf_counter()
    print("| gain | mean | between policies | between seeds | 4 | 8 | 16 |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, gain in GAINS.items():
        draws = np.random.default_rng(typed.seed)
        values = repeated(draws, typed.repetitions, gain, ANCHORS)[..., 1]
        truth, spread = values.mean(), values.mean(axis=2).std()
        seeds = np.sqrt(values.var(axis=2, ddof=1).mean())
        held = [coverage(values[:, :size], truth) for size in SIZES]
        cells = " | ".join(f"{share:.3f}, ±{width:.4f}" for share, width in held)
        print(f"| {name} | {truth:+.4f} | {spread:.4f} | {seeds:.4f} | {cells} |")
    print("\n| no gain, less | mean | 4: p ≤ .05, for the method | 8 | 16 |")
    print("|---|--:|--:|--:|--:|")
    draws = np.random.default_rng(typed.seed + 1)
    values = repeated(draws, typed.repetitions, GAINS["none"], ANCHORS)
    for what, of in LESS.items():
        shares = [rejected(of(values[:, :size])) for size in SIZES]
        cells = " | ".join(f"{every:.3f}, {up:.3f}" for every, up in shares)
        print(f"| {what} | {of(values).mean():+.4f} | {cells} |")
    print(f"\n{time.perf_counter() - began:.0f} s, {typed.repetitions:,} repetitions")


LESS: Mapping[str, Callable[[Array], Array]] = {
    "one anchor": lambda values: values[..., 0],
    "the best of three anchors in each replicate": lambda values: values[..., 1],
}


def coverage(values: Array, truth: float) -> tuple[float, float]:
    """Return the share of 95 % intervals that hold the truth, and their mean half width."""
    found = [over_initial_policies(list(each), [0.0], 0.95) for each in values]
    held = np.mean([one.low <= truth <= one.high for one in found])
    return float(held), float(np.mean([one.high - one.low for one in found]) / 2)


def rejected(values: Array) -> tuple[float, float]:
    """Return the shares with p at most .05, in all and in the method's favour."""
    found = [over_initial_policies(list(each), [0.0], 0.95) for each in values]
    low = np.array([one.p <= 0.05 for one in found])
    up = np.array([one.difference > 0 for one in found])
    return float(low.mean()), float((low & up).mean())


if __name__ == "__main__":
    main()
