"""How often the intervals at equal pass@1 hold the truth: simulated policies with exact chances.

    python benchmarks/equal_accuracy.py [TABLE ...] [--repetitions 1000] [--problems 40]

Prints a table each, in Markdown. A policy is a chance of being right on each problem at each
temperature or step; the truth is the difference over 400,000 problems.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sage_cli.metrics.comparisons.equal_accuracy import (
    EqualAccuracy,
    Points,
    equal_accuracy,
)
from sage_cli.metrics.intervals.interval import Resampling

Array = np.ndarray
Generator = np.random.Generator
Drawn = Callable[[Generator, int], list[Array]]
"""Draws that many problems: each policy's chances (P, X), or (S, P, X) of several seeds."""

KS = (8, 64, 256, 4096)
SIZES = (40, 150, 600, 1500)
LARGE = 400_000
RESAMPLES = 399
GRID = np.array([0.85, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
AT = 1


def policy(
    hard_P: Array, gain: float, own_sd: float, temperatures: Array, generator: Generator
) -> Array:
    """Return chances that sharpen and fall with temperature as `tiny`'s do, shape (P, T)."""
    log_odds_P1 = (hard_P + gain + generator.normal(0, own_sd, hard_P.shape))[:, None]
    return 1 / (1 + np.exp(-log_odds_P1 / temperatures + 2.5 * (temperatures - 1)))


def two(own_sd: float, gain: float = 0.6, temperatures: Array = GRID) -> Drawn:
    """Return policies whose log-odds differ by `gain` and by noise of SD `own_sd` a problem each.

    Problems' own log-odds have the SD 3, so the two correlate by 9 / (9 + own_sd^2).
    """

    def drawn(generator: Generator, problems: int) -> list[Array]:
        hard_P = generator.normal(-3.2, 3, problems)
        return [policy(hard_P, by, own_sd, temperatures, generator) for by in (0.0, gain)]

    return drawn


def three(generator: Generator, problems: int) -> list[Array]:
    """A policy and two others, of which the second is nearly as good as the first."""
    hard_P = generator.normal(-3.2, 3, problems)
    return [policy(hard_P, by, 0.5, GRID, generator) for by in (0.0, 0.5, 0.6)]


def along_steps(generator: Generator, problems: int) -> list[Array]:
    """Two trainings from one start: the chances of a problem move at a speed of its own."""
    hard_P = generator.normal(-3.2, 3, problems)
    progress_X = np.sqrt(np.linspace(0, 1, 11))
    found = []
    for gain in (0.7, 1.0):
        goal_P = hard_P * (1 + 0.1 * gain) + gain + generator.normal(0, 0.7, problems)
        log_odds_PX = hard_P[:, None] + (goal_P - hard_P)[:, None] * progress_X
        jitter_X = generator.normal(0, 0.01, len(progress_X))  # a step's own ups and downs
        found.append(1 / (1 + np.exp(-log_odds_PX - jitter_X)))
    return found


def seeds(count: int, seed_sd: float) -> Drawn:
    """Return pairs of runs of two methods; a seed moves all of its run's log-odds."""

    def drawn(generator: Generator, problems: int) -> list[Array]:
        hard_P = generator.normal(-3.2, 3, problems)
        pairs = []
        for gain in (0.0, 0.6):
            method_P = hard_P + generator.normal(0, 0.4, problems)
            runs = []
            for _ in range(count):
                sharper = 1 + generator.normal(0, seed_sd)
                runs.append(policy(method_P * sharper, gain, 0.3, GRID, generator))
            pairs.append(np.stack(runs))
        return pairs

    return drawn


def points_of(p: Array, k: int) -> Points:
    """Return exact chances as the points of a policy."""
    return Points.of(p, -np.expm1(k * np.log1p(-p)))


def truth_of(drawn: Drawn, at: int | None, k: int, runs: int = 1) -> float:
    """Return the difference over a large population, whose means stand for two equal problems.

    `runs` populations are averaged where the truth is over runs, too.
    """
    found = []
    for seed in range(runs):
        policies = []
        for p in drawn(np.random.default_rng(10_000 + seed), LARGE // runs):
            one = points_of(p, k)
            means = [
                part.mean(axis=1, keepdims=True) for part in (one.accuracy_SPX, one.pass_k_SPX)
            ]
            policies.append(Points(*(mean_S1X.repeat(2, axis=1) for mean_S1X in means)))
        few = Resampling(resamples=19)
        gap = equal_accuracy(policies[0], policies[1:], np.arange(99.0), at, few)
        assert isinstance(gap, EqualAccuracy), gap
        found.append(gap.difference)
    return float(np.mean(found))


def row(
    drawn: Drawn, at: int | None, k: int, problems: int, repetitions: int, truth: float
) -> dict[str, object]:
    """Return how often the interval holds the truth, and its width, over repetitions."""
    generator, held, widths, refused = np.random.default_rng(k), [], [], 0
    for seed in range(repetitions):
        own, *others = (points_of(p, k) for p in drawn(generator, problems))
        how = Resampling(resamples=RESAMPLES, seed=seed)
        found = equal_accuracy(own, others, np.arange(99.0), at, how)
        if not isinstance(found, EqualAccuracy):
            refused += 1
            continue
        held.append(found.low <= truth <= found.high)
        widths.append(found.high - found.low)
    return {
        "k": k, "problems": problems, "truth": truth, "covers": float(np.mean(held or [np.nan])),
        "median width": float(np.median(widths or [np.nan])),
        "refused": refused / repetitions,
    }  # fmt: skip


def pairs(repetitions: int, sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    """Two policies that correlate closely, as of one initial policy, or less."""
    for own_sd in (0.3, 1.0):
        for k in KS:
            truth = truth_of(two(own_sd), AT, k)
            for problems in sizes:
                found = row(two(own_sd), AT, k, problems, repetitions, truth)
                yield {"correlation": 9 / (9 + own_sd**2), **found}


def edge(repetitions: int, sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    """The target lies near the end of the temperatures, which end at 1.3."""
    for k in (8, 256, 4096):
        drawn = two(0.5, 0.6, GRID[:5])
        truth = truth_of(drawn, AT, k)
        for problems in sizes:
            yield row(drawn, AT, k, problems, repetitions, truth)


def hull(repetitions: int, sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    """A policy against the better of two nearly equal ones."""
    for k in (8, 256):
        truth = truth_of(three, AT, k)
        for problems in sizes:
            yield row(three, AT, k, problems, repetitions, truth)


def steps(repetitions: int, sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    """Two trainings, along eleven checkpoints."""
    for k in (8, 256):
        truth = truth_of(along_steps, None, k, runs=200)
        for problems in sizes:
            yield row(along_steps, None, k, problems, repetitions, truth)


def several_seeds(repetitions: int, sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    """Pairs of runs of two methods: the interval is about other problems and other seeds."""
    for count, seed_sd in ((2, 0.0), (2, 0.03), (4, 0.03), (8, 0.03)):
        truth = truth_of(seeds(count, seed_sd), AT, 256, runs=1600 // count)
        for problems in sizes:
            found = row(seeds(count, seed_sd), AT, 256, problems, repetitions, truth)
            yield {"seeds": count, "their SD": seed_sd, **found}


TABLES = {"pairs": pairs, "edge": edge, "hull": hull, "steps": steps, "seeds": several_seeds}


def main() -> None:
    """Print the tables that were asked for, all of them without a name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], metavar="table")
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--problems", type=int, nargs="+", default=SIZES)
    given = parser.parse_args()
    for name in given.tables or TABLES:
        began = time.process_time()
        print(f"\n## {name}\n")
        for place, one in enumerate(TABLES[name](given.repetitions, given.problems)):
            if place == 0:
                print(f"| {' | '.join(one)} |\n|{'---|' * len(one)}")
            cells = (f"{c:.4f}" if isinstance(c, float) else str(c) for c in one.values())
            print(f"| {' | '.join(cells)} |", flush=True)
        took_s = time.process_time() - began
        print(f"\n{given.repetitions} repetitions, {took_s:.0f} processor seconds")


if __name__ == "__main__":
    main()
