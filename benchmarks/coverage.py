"""How often intervals hold the truth, how wide they are, how often tests err and find: simulated.

    python benchmarks/coverage.py [bands|differences|crossings|methods ...] [--repetitions 1000]

Prints a table each, in Markdown. Every repetition draws new problems, new policies and 256 samples
per problem (fewer where a row says so), and calls what `sage passk` and `sage compare` call.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence

import numpy as np
from simulated import (
    CHANGES,
    PAIRS,
    POPULATIONS,
    TRAININGS,
    Array,
    Beta,
    N,
    Training,
    counted,
    runs_of,
)

from sage_cli.metrics import (
    Counts,
    Crossing,
    curve,
    curve_ks,
    find_crossing,
    method_difference,
    paired_difference,
)
from sage_cli.metrics.student import two_sided_p

KS = (1, 64, 256)
RESAMPLES = 799
"""Fewer than the default of 2,000; so many that tails of 2.5 % are whole draws."""
LARGE = 400_000
"""Problems that stand for a population where its mean has no closed form."""


def bands(
    repetitions: int, populations: Sequence[tuple[Beta, int]] = POPULATIONS
) -> Iterator[dict[str, object]]:
    """The band of one policy's curve, against the population's pass@k."""
    for beta, problems in populations:
        generator = np.random.default_rng(0)
        found = [
            curve(
                counted(beta.draw(problems, generator), generator),
                KS,
                resamples=RESAMPLES,
                seed=seed,
            )
            for seed in range(repetitions)
        ]
        for place, k in enumerate(KS):
            truth = beta.pass_at(k)
            low, mean, high = (
                np.array([getattr(one, name)[place] for one in found])
                for name in ("low_K", "mean_K", "high_K")
            )
            yield {
                "population": beta, "problems": problems, "k": k, "pass@k": truth,
                "covers": np.mean((low <= truth) & (truth <= high)),
                "too high": np.mean(low > truth), "too low": np.mean(high < truth),
                "width": np.mean(high - low), "width / oracle": _oracle(low, mean, high),
            }  # fmt: skip


def _oracle(low: Array, mean: Array, high: Array) -> float:
    """Mean width in units of what a normal interval with the true standard error would have."""
    spread = mean.std()
    return float(np.mean(high - low) / (2 * 1.96 * spread)) if spread > 1e-6 else float("nan")


def differences(
    repetitions: int, populations: Sequence[tuple[Beta, int]] = POPULATIONS
) -> Iterator[dict[str, object]]:
    """The paired difference of two policies on the same problems, and the test beside it."""
    for name, change in CHANGES.items():
        for beta, problems in populations:
            generator = np.random.default_rng(0)
            base_M = beta.draw(LARGE, generator)
            changed_M = change(base_M, generator)
            found = []
            for seed in range(repetitions):
                base_P = beta.draw(problems, generator)
                a, b = (counted(p_P, generator) for p_P in (change(base_P, generator), base_P))
                found.append(paired_difference(a, b, KS, resamples=RESAMPLES, seed=seed))
            for place, k in enumerate(KS):
                truth = float(np.mean((1 - base_M) ** k - (1 - changed_M) ** k))
                low, mean, high, p = (
                    np.array([getattr(one, name)[place] for one in found])
                    for name in ("low_K", "mean_K", "high_K", "p_K")
                )
                yield {
                    "change": name, "population": beta, "problems": problems, "k": k,
                    "difference": truth, "covers": np.mean((low <= truth) & (truth <= high)),
                    "p at most .05": np.mean(p <= 0.05), "width": np.mean(high - low),
                    "width / oracle": _oracle(low, mean, high),
                }  # fmt: skip


def crossings(repetitions: int, sizes: Sequence[int] = (60, 300)) -> Iterator[dict[str, object]]:
    """The crossing of two curves, and how often it is announced where there is none."""
    ks = curve_ks(N)
    for name, pair in PAIRS.items():
        trained_M, base_M = pair(LARGE, np.random.default_rng(1))
        gap_K = np.array([np.mean((1 - base_M) ** k - (1 - trained_M) ** k) for k in KS])
        truth = _crossing(trained_M, base_M) if gap_K[0] > 0 > gap_K[-1] + 1e-6 else float("nan")
        for problems in sizes:
            generator = np.random.default_rng(2)
            found = []
            for seed in range(repetitions):
                a, b = (counted(p_P, generator) for p_P in pair(problems, generator))
                found.append(find_crossing(a, b, ks, resamples=RESAMPLES, seed=seed))
            told = [one for one in found if one.established]
            yield {
                "pair": name, "problems": problems, "crossing": truth,
                "established": len(told) / repetitions,
                "median of these": float(np.median([one.k for one in told] or [np.nan])),
                "covers": _coverage(found, truth),
                "covers when established": _coverage(told, truth),
            }  # fmt: skip


def _coverage(found: Sequence[Crossing], truth: float) -> float:
    if np.isnan(truth) or not found:
        return float("nan")
    return float(np.mean([one.low <= truth <= one.high for one in found]))


def _crossing(trained_M: Array, base_M: Array) -> float:
    """The k, a fraction, at which the population's curves meet: bisection in log k."""
    low, high = 0.0, 8.0
    for _ in range(25):
        middle = (low + high) / 2
        ahead = np.mean((1 - base_M) ** 2**middle - (1 - trained_M) ** 2**middle) > 0
        low, high = (middle, high) if ahead else (low, middle)
    return float(2**low)


def methods(
    repetitions: int, trainings: Sequence[Training] = TRAININGS, problems: int = 60
) -> Iterator[dict[str, object]]:
    """Two methods over training seeds, at pass@1: type-I error, and power at 0.5 logits."""
    for training in trainings:
        rates = []
        for gain in (0.0, 0.5):
            generator = np.random.default_rng(3)
            p, pooled = [], []
            for _ in range(repetitions):
                logit_P = generator.normal(-1, 1.5, problems)
                sides = [
                    runs_of(logit_P + shift, training, sd, generator)
                    for shift, sd in ((gain, training.sd_a), (0.0, training.sd_b))
                ]
                p.append(method_difference(sides[0], sides[1], (1,)).p_K[0])
                pooled.append(_pooled_t(sides[0], sides[1]))
            rates.append((np.mean(np.array(p) <= 0.05), np.mean(np.array(pooled) <= 0.05)))
        yield {
            "seeds": training.seeds, "samples": training.samples,
            "deviations of the seeds": f"{training.sd_a:g}, {training.sd_b:g}",
            "of problems": training.problem_sd,
            "type-I error": rates[0][0], "power": rates[1][0],
            "type-I error, t over runs": rates[0][1], "power, t over runs": rates[1][1],
        }  # fmt: skip


def _pooled_t(a_runs: list[list[Counts]], b_runs: list[list[Counts]]) -> float:
    """Student's two-sample t over the runs' pass@1 alone: about these problems, not others."""
    a_T, b_T = (
        np.array([r[0].c_P.mean() / r[0].n_P[0] for r in runs]) for runs in (a_runs, b_runs)
    )
    freedom = len(a_T) + len(b_T) - 2
    square = (len(a_T) * a_T.var() + len(b_T) * b_T.var()) / freedom
    error = np.sqrt(square * (1 / len(a_T) + 1 / len(b_T)))
    t = np.array([(a_T.mean() - b_T.mean()) / error])
    return float(two_sided_p(t, np.array([float(freedom)]))[0])


TABLES = {
    "bands": bands,
    "differences": differences,
    "crossings": crossings,
    "methods": methods,
}


def main() -> None:
    """Print the tables that were asked for, all of them without a name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], metavar="table")
    parser.add_argument("--repetitions", type=int, default=1000)
    given = parser.parse_args()
    for name in given.tables or TABLES:
        began = time.process_time()
        print(f"\n## {name}\n")
        for place, row in enumerate(TABLES[name](given.repetitions)):
            if place == 0:
                print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
            cells = (
                f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row.values()
            )
            print(f"| {' | '.join(cells)} |", flush=True)
        took_s = time.process_time() - began
        print(f"\n{given.repetitions} repetitions, {took_s:.0f} processor seconds")


if __name__ == "__main__":
    main()
