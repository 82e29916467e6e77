"""How often intervals hold the truth, how wide they are, how often tests err and find: simulated.

    python benchmarks/coverage.py
        [bands|differences|rare|detectable|clusters|crossings ...]
        [methods|paired|stopping|base|pooled|sweeps ...] [--repetitions 1000]

Prints a table each, in Markdown. Every repetition draws new problems, new policies and 256 samples
per problem (fewer where a row says so), and goes through what `sage passk` and `sage compare` call;
many repetitions are columns of one call, as the ks of a curve are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from simulated import (
    AGAINST_A_BASE,
    CHANGES,
    DETECTED,
    GROWING,
    PAIRED,
    PAIRS,
    POPULATIONS,
    RARE,
    SHARES,
    SPREADS_OF_SEEDS,
    STORIES,
    UNPAIRED,
    Array,
    Beta,
    Change,
    Generator,
    Growing,
    N,
    Training,
    counted,
    in_step,
    rare_losses,
    runs_of,
    seed_effects,
    solved,
)

from sage_cli.metrics import Crossing, curve_ks, find_crossing, pass_at_k
from sage_cli.metrics.differences import Difference, gap_interval, gap_intervals
from sage_cli.metrics.error_sources import ErrorSources, error_over
from sage_cli.metrics.intervals import Interval, Resampling, gaffke, two_sided_reach
from sage_cli.metrics.power import Precision
from sage_cli.metrics.ranking import ObjectiveValues, SeedNoise, rank

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
                "population": beta,
                "problems": problems,
                "k": k,
                "pass@k": truth,
                "covers": np.mean((low <= truth) & (truth <= high)),
                "too high": np.mean(low > truth),
                "too low": np.mean(high < truth),
                "width": np.mean(high - low),
                "width / oracle": _oracle(low, mean, high),
            }


def _band(beta: Beta, problems: int, generator: Generator, seed: int) -> tuple[Array, Interval]:
    pass_PBK = pass_at_k(N, generator.binomial(N, beta.draw((problems, BATCH), generator)), KS)
    columns = pass_PBK.reshape(problems, -1)
    found = gaffke(columns, (0, 1), Resampling(resamples=RESAMPLES, seed=seed))
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
                    "change": name,
                    "population": beta,
                    "problems": problems,
                    "k": k,
                    "difference": truth,
                    "covers": np.mean((low <= truth) & (truth <= high)),
                    "p at most .05": np.mean(p_RK[:, place] <= 0.05),
                    "width": np.mean(high - low),
                    "width / oracle": _oracle(low, mean, high),
                }


def _gap(
    beta: Beta, problems: int, change: Change, generator: Generator, seed: int
) -> tuple[Array, Interval]:
    base_PB = beta.draw((problems, BATCH), generator)
    a_PBK, b_PBK = (
        pass_at_k(N, generator.binomial(N, p_PB), KS)
        for p_PB in (change(base_PB, generator), base_PB)
    )
    columns = (a_PBK - b_PBK).reshape(problems, -1)
    found = gap_interval(columns, Resampling(resamples=RESAMPLES, seed=seed))
    return columns.mean(axis=0), found


def rare(
    repetitions: int, populations: Sequence[tuple[Beta, int]] = RARE
) -> Iterator[dict[str, object]]:
    """Mean difference 0 with 3 % of the problems lost altogether, at k = 1: how the tests err."""
    for shared in (False, True):
        for beta, problems in populations:
            generator = np.random.default_rng(4)
            found: list[tuple[Interval, Interval]] = []
            for seed in range(repetitions // BATCH):
                base_PR = beta.draw((problems, BATCH), generator)
                a_PR = rare_losses(base_PR, generator)
                both = (
                    in_step(a_PR, base_PR, generator)
                    if shared
                    else (generator.binomial(N, a_PR), generator.binomial(N, base_PR))
                )
                found.append(
                    gap_intervals(
                        (both[0] - both[1]) / N, Resampling(resamples=RESAMPLES, seed=seed)
                    )
                )
            p_R, safe_R = (np.concatenate([pair[i].p_K for pair in found]) for i in (0, 1))
            width_R, wide_R = (
                np.concatenate([pair[i].high_K - pair[i].low_K for pair in found]) for i in (0, 1)
            )
            yield {
                "random numbers": "shared" if shared else "apart",
                "population": beta,
                "problems": problems,
                "p at most .05": np.mean(p_R <= 0.05),
                "safe": np.mean(safe_R <= 0.05),
                "warned, of these": np.mean((safe_R > 0.05)[p_R <= 0.05]),
                "safe width / width": np.mean(wide_R) / np.mean(width_R),
            }


def detectable(
    repetitions: int, populations: Sequence[tuple[Beta, int]] = DETECTED
) -> Iterator[dict[str, object]]:
    """The paired test's power where the true difference is the one stated as detectable.

    A change grows until the median of what 100 comparisons state is its true difference; the
    power is that of other comparisons. Both sides share their random numbers.
    """
    for beta, problems in populations:
        for name, (change, most) in GROWING.items():
            for k in (1, 8, 256):
                low, high = 0.0, most
                for _ in range(13):
                    middle = (low + high) / 2
                    stated_R, _, _ = _stated(beta, problems, k, change, middle, 100, 5)
                    larger = np.nanmedian(stated_R) > _true(beta, k, change, middle)
                    low, high = (middle, high) if larger else (low, middle)
                if high > 0.999 * most:  # nothing that large exists
                    continue
                _, student_R, p_R = _stated(beta, problems, k, change, high, repetitions, 6)
                yield {
                    "population": beta,
                    "problems": problems,
                    "change": name,
                    "k": k,
                    "detectable": _true(beta, k, change, high),
                    "power": np.mean(p_R <= 0.05),
                    "t + t standard errors": np.nanmedian(student_R),
                }


def _stated(
    beta: Beta, problems: int, k: int, change: Growing, by: float, repetitions: int, seed: int
) -> tuple[Array, Array, Array]:
    """What comparisons state, what Student's errors alone would, and their p-values, (R,)."""
    generator = np.random.default_rng(seed)
    base_PR = beta.draw((problems, repetitions), generator)
    estimate_C = pass_at_k(np.full(N + 1, N), np.arange(N + 1), k)
    a_PR, b_PR = in_step(change(base_PR, by, generator), base_PR, generator)
    gap_PR = estimate_C[a_PR] - estimate_C[b_PR]
    found = gap_interval(gap_PR, Resampling(resamples=RESAMPLES, seed=seed))
    sources = ErrorSources(gap_PR.var(axis=0, ddof=1)[None] / problems, np.array([problems - 1.0]))
    exact = Precision(gap_PR.mean(axis=0), sources, gap_PR)
    difference = Difference(
        (k,), exact.mean_K, found.low_K, found.high_K, found.p_K, 0.95, problems
    )
    return exact.detectable(difference), exact.smallest(), found.p_K


def _true(beta: Beta, k: int, change: Growing, by: float) -> float:
    generator = np.random.default_rng(0)
    base_M = beta.draw(50_000, generator)
    return abs(float(np.mean((1 - base_M) ** k - (1 - change(base_M, by, generator)) ** k)))


def clusters(repetitions: int) -> Iterator[dict[str, object]]:
    """Two models on problems that are told alike, at pass@1: coverage by problems and by clusters.

    The second model is better by .3 logits on average, with a deviation of .7 between problems.
    """
    truth = solved(0.3, 0.7) - solved(0.0, 0.0)
    for stories, sizes in STORIES.items():
        names = np.repeat(np.arange(len(sizes)), sizes)
        ids = [f"{place:04}" for place in range(len(names))]
        of_cluster = dict(zip(ids, map(str, names), strict=True))
        for share in SHARES:
            generator, found = np.random.default_rng(7), []
            for seed in range(repetitions // BATCH):
                base_PB, effect_PB = (
                    share**0.5 * generator.standard_normal((len(sizes), BATCH))[names]
                    + (1 - share) ** 0.5 * generator.standard_normal((len(names), BATCH))
                    for _ in range(2)
                )
                logits = (-1 + 1.5 * base_PB, -1 + 1.5 * base_PB + 0.3 + 0.7 * effect_PB)
                before_PB, after_PB = (
                    generator.binomial(N, 1 / (1 + np.exp(-logit_PB))) / N for logit_PB in logits
                )
                gap_PB = after_PB - before_PB
                drawn = Resampling(resamples=RESAMPLES, seed=seed, clusters=of_cluster)
                by = (
                    gap_interval(gap_PB, replace(drawn, clusters=None)),
                    gap_interval(drawn.drawn_units(gap_PB, ids), drawn),
                )
                found.append([[one.low_K, one.high_K] for one in by])
            low_2R, high_2R = np.concatenate(found, axis=2).swapaxes(0, 1)
            covers_2 = np.mean((low_2R <= truth) & (truth <= high_2R), axis=1)
            width_2 = np.mean(high_2R - low_2R, axis=1)
            yield {
                "clusters": stories,
                "share": share,
                "by problems: covers": covers_2[0],
                "by clusters: covers": covers_2[1],
                "width / by problems": width_2[1] / width_2[0],
            }


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
                found.append(find_crossing(a, b, ks, Resampling(resamples=RESAMPLES, seed=seed)))
            told = [one for one in found if one.established]
            yield {
                "pair": name,
                "problems": problems,
                "crossing": truth,
                "established": len(told) / repetitions,
                "median of these": float(np.median([one.k for one in told] or [np.nan])),
                "covers": _coverage(found, truth),
                "covers when established": _coverage(told, truth),
            }


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


CHUNK = 1000
"""Repetitions that are simulated at once."""
LEVELS = (0.05, 0.01, 0.001)


def methods(
    repetitions: int, trainings: Sequence[Training] = UNPAIRED, problems: int = 100
) -> Iterator[dict[str, object]]:
    """Two methods with seeds of their own, at pass@1: the test's level, and power at 0.5 logits."""
    for training in trainings:
        yield {
            "seeds": "{} v {}".format(*training.seeds),
            "deviations": "{:g}, {:g}".format(*training.sds),
            **_levels(repetitions, training, problems, paired=False),
            "power": np.mean(_p_values(repetitions, training, problems, 0.5, paired=False) <= 0.05),
        }


def paired(
    repetitions: int, trainings: Sequence[Training] = PAIRED, problems: int = 100
) -> Iterator[dict[str, object]]:
    """Two methods on the same training seeds: the paired test's level, and power at 0.15 logits.

    The power is of what is printed, whose interval contains that of the models at hand as well.
    """
    for training in trainings:
        power = {
            words: np.mean(
                _p_values(repetitions, training, problems, 0.15, paired=is_paired) <= 0.05
            )
            for words, is_paired in (("power", True), ("power, unpaired", False))
        }
        yield {
            "seeds": training.seeds[0],
            "correlation": training.correlation,
            **_levels(repetitions, training, problems, paired=True),
            **power,
        }


def _levels(
    repetitions: int, training: Training, problems: int, *, paired: bool
) -> dict[str, object]:
    p_R = _p_values(repetitions, training, problems, 0.0, paired=paired, models=False)
    return {f"p at most {level:g}": f"{np.mean(p_R <= level):.4f}" for level in LEVELS}


def _p_values(
    repetitions: int,
    training: Training,
    problems: int,
    gain: float,
    *,
    paired: bool,
    models: bool = True,
) -> Array:
    """p-values of studies in which the first method is better by `gain` logits, shape (R,).

    With gain 0 the methods' true means differ only by the spread of their seeds, which is taken
    off. With `models` a paired p is that of the models at hand where that is larger, as printed.
    """
    generator, p_values = np.random.default_rng(3), []
    truth = 0.0
    if not gain:
        mean_a, mean_b = (
            solved(0.0, float(np.hypot(sd, training.problem_sd))) for sd in training.sds
        )
        truth = mean_a - mean_b
    for start in range(0, repetitions, CHUNK):
        count = min(CHUNK, repetitions - start)
        logit_PR = generator.normal(-1, 1.5, (problems, count))
        effects = seed_effects(
            max(training.seeds), training.sds, training.correlation, count, generator
        )
        a_IPR, b_IPR = (
            runs_of(
                logit_PR + shift, effect[:seeds], training.problem_sd, training.samples, generator
            )
            for shift, effect, seeds in zip((gain, 0.0), effects, training.seeds, strict=True)
        )
        gap_PR = a_IPR.mean(axis=0) - b_IPR.mean(axis=0)
        p_R = error_over([(a_IPR, b_IPR)], paired=paired).p(gap_PR.mean(axis=0) - truth)
        p_R = np.where(np.isnan(p_R), 1, p_R)
        if paired and models:
            at_hand = gap_interval(gap_PR, Resampling(resamples=RESAMPLES, seed=start))
            p_R = np.maximum(p_R, at_hand.p_K)
        p_values.append(p_R)
    return np.concatenate(p_values)


def stopping(repetitions: int, most: int = 6, problems: int = 100) -> Iterator[dict[str, object]]:
    """Seeds are added from two a side until p is at most .05: how often equal methods differ."""
    for correlation in (0.0, 0.9):
        generator = np.random.default_rng(6)
        found_R = np.zeros(repetitions, bool)
        logit_PR = generator.normal(-1, 1.5, (problems, repetitions))
        effects = seed_effects(most, (0.2, 0.2), correlation, repetitions, generator)
        a_IPR, b_IPR = (runs_of(logit_PR, one, 0.3, 64, generator) for one in effects)
        for seeds in range(2, most + 1):
            a, b = a_IPR[:seeds], b_IPR[:seeds]
            gap_R = a.mean(axis=(0, 1)) - b.mean(axis=(0, 1))
            found_R |= error_over([(a, b)], paired=correlation > 0).p(gap_R) <= 0.05
            yield {
                "seeds": "paired" if correlation else "unpaired",
                "up to": seeds,
                "p at most .05 at some look": np.mean(found_R),
            }


def base(
    repetitions: int, cases: Sequence[tuple[int, Training]] = AGAINST_A_BASE
) -> Iterator[dict[str, object]]:
    """A method's runs against one base, at pass@1: coverage for the method, 0.5 logits better.

    The interval is `error_over`'s alone; what is printed contains that of the models as well.
    """
    for problems, training in cases:
        generator, (seeds, _), (sd, _) = np.random.default_rng(4), training.seeds, training.sds
        logit_PR = generator.normal(-1, 1.5, (problems, repetitions))
        # what the method does to a problem is common to its runs
        own_PR = logit_PR + 0.5 + generator.normal(0, training.problem_sd, logit_PR.shape)
        (effect,) = seed_effects(seeds, (sd,), 0.0, repetitions, generator)
        a_IPR = runs_of(own_PR, effect, 0.0, training.samples, generator)
        b_IPR = runs_of(logit_PR, np.zeros((1, 1, 1)), 0.0, training.samples, generator)
        truth = solved(0.5, float(np.hypot(sd, training.problem_sd))) - solved(0.0, 0.0)
        gap_PR = a_IPR.mean(axis=0) - b_IPR[0]
        missed_R = np.abs(gap_PR.mean(axis=0) - truth)
        models_R = gap_PR.std(axis=0, ddof=1) / np.sqrt(problems)
        reach_R = error_over([(a_IPR, b_IPR)]).reach(0.05)
        own_R = two_sided_reach(0.05, np.array(problems - 1.0)) * models_R
        yield {
            "problems": problems,
            "of problems": training.problem_sd,
            "seeds": seeds,
            "of seeds": sd,
            "covers": np.mean(missed_R <= reach_R),
            "width": np.mean(2 * reach_R),
            "models at hand: covers": np.mean(missed_R <= own_R),
            "models at hand: width": np.mean(2 * own_R),
        }


def pooled(
    repetitions: int, arms: int = 6, seeds: int = 3, problems: int = 60
) -> Iterator[dict[str, object]]:
    """The seeds' variance pooled over a suite's arms, also where they don't vary alike."""
    for name, (sd_a, sd_b, sd_others) in SPREADS_OF_SEEDS.items():
        for correlation in (0.0, 0.9):
            generator = np.random.default_rng(5)
            sds = (sd_a, sd_b, *[sd_others] * (arms - 2))
            logit_PR = generator.normal(-1, 1.5, (problems, repetitions))
            effects = seed_effects(seeds, sds, correlation, repetitions, generator)
            suite = [runs_of(logit_PR, effect, 0.3, N, generator) for effect in effects]
            one_base = runs_of(logit_PR, np.zeros((1, 1, 1)), 0.0, N, generator)
            mean_a, mean_b = (solved(0.0, float(np.hypot(sd, 0.3))) for sd in (sd_a, sd_b))
            pool = [[runs_IPR] for runs_IPR in suite]
            for against, (b_IPR, truth) in {
                "another arm": (suite[1], mean_a - mean_b),
                "the base": (one_base, mean_a - solved(0.0, 0.0)),
            }.items():
                missed_R = np.abs(suite[0].mean(axis=(0, 1)) - b_IPR.mean(axis=(0, 1)) - truth)
                row: dict[str, object] = {
                    "deviations of the seeds": name,
                    "correlation": correlation,
                    "against": against,
                }
                for words, over in {"own seeds": None, "pooled": pool}.items():
                    sources = error_over(
                        [(suite[0], b_IPR)], paired=against == "another arm", arms=over
                    )
                    reach_R = sources.reach(0.05)
                    row[f"{words}: covers"] = np.mean(missed_R <= reach_R)
                    row[f"{words}: width"] = np.mean(2 * reach_R)
                yield row


class UnknownSeeds(ObjectiveValues):
    """The same values where nobody knows that models have their seeds in common."""

    @property
    def noise_of_gaps(self) -> SeedNoise | None:
        """The noise with what a seed does to all models."""
        return self.noise


def sweeps(
    repetitions: int, sizes: Sequence[tuple[int, int]] = ((2, 2), (3, 2), (9, 2), (9, 3))
) -> Iterator[dict[str, object]]:
    """A sweep's trials on common seeds: how often equal ones are told apart, and others found.

    Found is the share of trials that are told apart from one that is better by 0.3 logits.
    """
    for (trials, seeds), correlation in product(sizes, (0.0, 0.5, 0.9)):
        row: dict[str, object] = {"trials": trials, "seeds": seeds, "correlation": correlation}
        for words, kind in (("", ObjectiveValues), (", seeds unknown", UnknownSeeds)):
            equal = _told_apart(repetitions, kind, trials, seeds, correlation, 0.0)
            better = _told_apart(repetitions, kind, trials, seeds, correlation, 0.3)
            row[f"equal told apart{words}"] = np.mean(equal > 0)
            row[f"found{words}"] = np.mean(better / (trials - 1))
        yield row


def _told_apart(
    repetitions: int,
    kind: type[ObjectiveValues],
    trials: int,
    seeds: int,
    correlation: float,
    gain: float,
) -> Array:
    """Trials told apart from the best, shape (R,), where the first is better by `gain` logits."""
    generator, told = np.random.default_rng(7), []
    for _ in range(repetitions):
        logit_P1 = generator.normal(-1, 1.5, (100, 1))
        effects = seed_effects(seeds, (0.2,) * trials, correlation, 1, generator)
        runs = [
            runs_of(logit_P1 + gain * (place == 0), effect, 0.3, 64, generator)[..., 0]
            for place, effect in enumerate(effects)
        ]
        told.append(trials - len(rank(kind(tuple(runs), 1.0)).indistinguishable))
    return np.array(told)


TABLES = {
    "bands": bands,
    "differences": differences,
    "rare": rare,
    "detectable": detectable,
    "clusters": clusters,
    "crossings": crossings,
    "methods": methods,
    "paired": paired,
    "stopping": stopping,
    "base": base,
    "pooled": pooled,
    "sweeps": sweeps,
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
