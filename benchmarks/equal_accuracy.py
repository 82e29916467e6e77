"""How often the intervals at equal pass@1 hold the truth: simulated policies.

    python benchmarks/equal_accuracy.py [TABLE ...] [--repetitions 1000] [--problems 40]

Prints a table each, in Markdown. A policy is a chance of being right on each problem at each
temperature; the truth is the difference over 400,000 problems.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sage_cli.metrics.equal_accuracy import EqualAccuracy, Points, equal_accuracy
from sage_cli.metrics.intervals import Resampling

Array = np.ndarray
Generator = np.random.Generator
Drawn = Callable[[Generator, int], list[Array]]
"""Draws that many problems: each policy's chances (P, T)."""

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


def points_of(p: Array, k: int) -> Points:
    """Return chances as the points of a policy."""
    return Points(p, -np.expm1(k * np.log1p(-p)))


def truth_of(drawn: Drawn, k: int) -> float:
    """Return the difference over a large population, whose means stand for two equal problems."""
    policies = []
    for p in drawn(np.random.default_rng(10_000), LARGE):
        one = points_of(p, k)
        means = [part.mean(axis=0, keepdims=True) for part in (one.accuracy_PT, one.pass_k_PT)]
        policies.append(Points(*(mean_1T.repeat(2, axis=0) for mean_1T in means)))
    gap = equal_accuracy(*policies, GRID, AT, Resampling(resamples=19))
    assert isinstance(gap, EqualAccuracy), gap
    return gap.difference


def row(drawn: Drawn, k: int, problems: int, repetitions: int, truth: float) -> dict[str, object]:
    """Return how often the interval holds the truth, and its width, over repetitions."""
    generator, held, widths, refused = np.random.default_rng(k), [], [], 0
    for seed in range(repetitions):
        own, other = (points_of(p, k) for p in drawn(generator, problems))
        how = Resampling(resamples=RESAMPLES, seed=seed)
        found = equal_accuracy(own, other, GRID, AT, how)
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
            truth = truth_of(two(own_sd), k)
            for problems in sizes:
                found = row(two(own_sd), k, problems, repetitions, truth)
                yield {"correlation": 9 / (9 + own_sd**2), **found}


def edge(repetitions: int, sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    """The target lies near the end of the temperatures, which end at 1.3."""
    for k in (8, 256, 4096):
        drawn = two(0.5, 0.6, GRID[:5])
        truth = truth_of(drawn, k)
        for problems in sizes:
            yield row(drawn, k, problems, repetitions, truth)


TABLES = {"pairs": pairs, "edge": edge}


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
