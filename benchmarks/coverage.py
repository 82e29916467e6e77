"""How often intervals hold the truth, how wide they are, how often tests err and find: simulated.

    python benchmarks/coverage.py [bands|differences|crossings|methods ...] [--repetitions 1000]

Prints a table each, in Markdown. Every repetition draws new problems, new policies and 256 samples
per problem (fewer where a row says so), and goes through what `sage passk` and `sage compare` call;
many repetitions are columns of one call, as the ks of a curve are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from simulated import (
    CHANGES,
    PAIRS,
    POPULATIONS,
    TRAININGS,
    Array,
    Beta,
    Change,
    Generator,
    N,
    Training,
    counted,
    runs_of,
)

from sage_cli.metrics import Crossing, curve_ks, find_crossing, pass_at_k
from sage_cli.metrics.comparison import gap_interval
from sage_cli.metrics.gaffke import gaffke
from sage_cli.metrics.interval import Interval
from sage_cli.metrics.methods import error_of
from sage_cli.metrics.student import two_sided_p

KS = (1, 64, 256)
RESAMPLES = 799
"""Fewer than the default of 2,000; so many that tails of 2.5 % are whole draws."""
BATCH = 20
"""Repetitions that share their resamples."""
LARGE = 400_000
"""Problems that stand for a population where its mean has no closed form."""


def bands(
    repetitions: int, populations: Sequence[tuple[Beta, int]] = POPULATIONS
) -> Iterator[dict[str, object]]:
    """The band of one policy's curve, against the population's pass@k."""
    for beta, problems in populations:
        generator = np.random.default_rng(0)
        mean_RK, low_RK, high_RK, _ = _stacked(
            _band(beta, problems, generator, seed) for seed in range(repetitions // BATCH)
        )
        for place, k in enumerate(KS):
            truth = beta.pass_at(k)
            low, mean, high = low_RK[:, place], mean_RK[:, place], high_RK[:, place]
            yield {
                "population": beta, "problems": problems, "k": k, "pass@k": truth,
                "covers": np.mean((low <= truth) & (truth <= high)),
                "too high": np.mean(low > truth), "too low": np.mean(high < truth),
                "width": np.mean(high - low), "width / oracle": _oracle(low, mean, high),
            }  # fmt: skip


def _band(beta: Beta, problems: int, generator: Generator, seed: int) -> tuple[Array, Interval]:
    pass_PBK = pass_at_k(N, generator.binomial(N, beta.draw((problems, BATCH), generator)), KS)
    columns = pass_PBK.reshape(problems, -1)
    found = gaffke(columns, (0, 1), confidence=0.95, resamples=RESAMPLES, seed=seed)
    return columns.mean(axis=0), found


def _stacked(batches: Iterable[tuple[Array, Interval]]) -> Array:
    """Means, low and high ends and p-values, shape (4, R, K)."""
    parts = [[mean, found.low_K, found.high_K, found.p_K] for mean, found in batches]
    return np.concatenate(np.reshape(parts, (len(parts), 4, BATCH, len(KS))), axis=1)


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
            mean_RK, low_RK, high_RK, p_RK = _stacked(
                _gap(beta, problems, change, generator, seed)
                for seed in range(repetitions // BATCH)
            )
            for place, k in enumerate(KS):
                truth = float(np.mean((1 - base_M) ** k - (1 - changed_M) ** k))
                low, mean, high = low_RK[:, place], mean_RK[:, place], high_RK[:, place]
                yield {
                    "change": name, "population": beta, "problems": problems, "k": k,
                    "difference": truth, "covers": np.mean((low <= truth) & (truth <= high)),
                    "p at most .05": np.mean(p_RK[:, place] <= 0.05), "width": np.mean(high - low),
                    "width / oracle": _oracle(low, mean, high),
                }  # fmt: skip


def _gap(
    beta: Beta, problems: int, change: Change, generator: Generator, seed: int
) -> tuple[Array, Interval]:
    base_PB = beta.draw((problems, BATCH), generator)
    a_PBK, b_PBK = (
        pass_at_k(N, generator.binomial(N, p_PB), KS)
        for p_PB in (change(base_PB, generator), base_PB)
    )
    columns = (a_PBK - b_PBK).reshape(problems, -1)
    found = gap_interval(columns, confidence=0.95, resamples=RESAMPLES, seed=seed)
    return columns.mean(axis=0), found


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
            logit_PR = generator.normal(-1, 1.5, (problems, repetitions))
            a_TPR = runs_of(logit_PR + gain, training, training.sd_a, generator)
            b_TPR = runs_of(logit_PR, training, training.sd_b, generator)
            gap_R = a_TPR.mean(axis=(0, 1)) - b_TPR.mean(axis=(0, 1))
            error_R, freedom_R = error_of(a_TPR, b_TPR)
            t_R = np.divide(gap_R, error_R, out=np.zeros_like(gap_R), where=error_R > 0)
            rates.append(np.mean(two_sided_p(t_R, freedom_R) <= 0.05))
            rates.append(np.mean(_pooled_t(a_TPR.mean(axis=1), b_TPR.mean(axis=1)) <= 0.05))
        yield {
            "seeds": training.seeds, "samples": training.samples,
            "deviations of the seeds": f"{training.sd_a:g}, {training.sd_b:g}",
            "of problems": training.problem_sd,
            "type-I error": rates[0], "power": rates[2],
            "type-I error, t over runs": rates[1], "power, t over runs": rates[3],
        }  # fmt: skip


def _pooled_t(a_TR: Array, b_TR: Array) -> Array:
    """p of Student's two-sample t over the runs' pass@1 alone: about these problems, not others."""
    freedom = len(a_TR) + len(b_TR) - 2
    square_R = (len(a_TR) * a_TR.var(axis=0) + len(b_TR) * b_TR.var(axis=0)) / freedom
    error_R = np.sqrt(np.maximum(square_R, 1e-12) * (1 / len(a_TR) + 1 / len(b_TR)))
    t_R = (a_TR.mean(axis=0) - b_TR.mean(axis=0)) / error_R
    return two_sided_p(t_R, np.full_like(t_R, float(freedom)))


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
