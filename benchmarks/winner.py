"""How a sweep's statements about its best trial hold, by simulation.

    python benchmarks/winner.py [--repeats 400]

A trial's value of a problem in a run is the surface's value, the problem's own (shared by all), the
trial's on that problem, the run's (its seed) and the samples'. Surfaces are those of
benchmarks/surfaces with their errors as deviations between seeds, those of `bayes.py` that are made
up, a tenth as high, and equal trials; the latter two have `--seed-sd`.

The first table: the true optimism (the best value less its trial's true one, the problems' shared
luck taken out), the estimate, and for one seed its bounds and what the residuals of a quadratic fit
over the space would say. The second: how often 95 % intervals of the best trial's difference from
the initial policy hold the true one: the search's own, and that of a second sweep, from
fresh seeds and fresh problems.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from bayes import made_up, recorded

from sage_cli.metrics.comparisons.objective import ObjectiveValues
from sage_cli.metrics.comparisons.winner import gap_over_base, optimism

SHARED, ON_PROBLEM, OF_SAMPLES = 0.3, 0.04, 0.08
"""Deviations of problems, of a trial on a problem, and of samples."""
TOP = 3
"""Trials that are confirmed."""


@dataclass(frozen=True)
class Case:
    """True values of trials on a grid, and the deviation between seeds."""

    name: str
    value_TR: np.ndarray
    seed_sd: float


def cases(seed_sd: float) -> Iterator[Case]:
    """Yield recorded and made-up surfaces, and equal trials."""
    yield Case("equal 3 x 3", np.zeros((3, 3)), seed_sd)
    yield Case("equal 5 x 5", np.zeros((5, 5)), seed_sd)
    for one in (*recorded("table6"), *recorded("tiny-5x5")):
        yield Case(one.name, one.value_TR, one.error)
    for one in made_up():
        yield Case(one.name, one.value_TR / 10, seed_sd)


def drawn(
    true_Z: np.ndarray, seeds: int, sd: float, problems: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return values of trials, shape (Z, I, P), and of a fixed policy whose true value is 0."""
    shape = (len(true_Z), seeds, problems)
    shared_P = generator.normal(0, SHARED, problems)
    values_ZIP = (
        true_Z[:, None, None]
        + generator.normal(0, ON_PROBLEM, (shape[0], 1, problems))
        + generator.normal(0, sd, (*shape[:2], 1))
        + generator.normal(0, OF_SAMPLES, shape)
    )
    base_P = generator.normal(0, np.hypot(ON_PROBLEM, OF_SAMPLES), problems)
    return values_ZIP + shared_P, base_P + shared_P


def fitted(case: Case, mean_Z: np.ndarray, generator: np.random.Generator) -> float:
    """Return the optimism if the residuals of a quadratic surface were the noise."""
    ends = [np.linspace(-1, 1, count) for count in case.value_TR.shape]
    x_Z, y_Z = (axis.ravel() for axis in np.meshgrid(*ends, indexing="ij"))
    terms_ZW = np.stack([x_Z**0, x_Z, y_Z, x_Z**2, y_Z**2, x_Z * y_Z], axis=1)
    surface_Z = terms_ZW @ np.linalg.lstsq(terms_ZW, mean_Z, rcond=None)[0]
    sd = np.sqrt(((mean_Z - surface_Z) ** 2).sum() / (len(mean_Z) - terms_ZW.shape[1]))
    noise_RZ = generator.normal(0, sd, (400, len(mean_Z)))
    chosen_R = (surface_Z + noise_RZ).argmax(axis=1)
    return float(noise_RZ[np.arange(400), chosen_R].mean())


def optimism_row(case: Case, seeds: int, given: argparse.Namespace) -> list[str]:
    """Return the true optimism, its standard error, and the means of the estimates."""
    generator, true_Z = np.random.default_rng(given.seed), case.value_TR.ravel()
    true, found, fits = [], [], []
    for _ in range(given.repeats):
        values_ZIP, _ = drawn(true_Z, seeds, case.seed_sd, given.problems, generator)
        mean_Z = values_ZIP.mean(axis=(1, 2))
        best = int(mean_Z.argmax())
        # the mean noise of all trials is the problems' shared luck, and besides 0 on average
        noise_Z = mean_Z - true_Z
        true.append(noise_Z[best] - noise_Z.mean())
        found.append(optimism(ObjectiveValues(tuple(values_ZIP), 1.0), resamples=400))
        fits.append(fitted(case, mean_Z, generator) if seeds == 1 else np.nan)
    error = np.std(true, ddof=1) / np.sqrt(given.repeats)
    numbers = [
        np.mean([np.nan if one.estimate is None else one.estimate for one in found]),
        np.mean([one.least for one in found]),
        np.mean([one.most for one in found]),
        np.mean(fits),
    ]
    shown = ["" if np.isnan(number) else f"{number:.4f}" for number in numbers]
    return [case.name, str(seeds), f"{np.mean(true):.4f} ± {error:.4f}", *shown]


def coverage_row(case: Case, fresh: int, given: argparse.Namespace) -> list[str]:
    """Return how often the intervals of the search and of the confirmation hold the truth."""
    generator, true_Z = np.random.default_rng(given.seed), case.value_TR.ravel()
    own, confirmed, width = [], [], []
    for _ in range(given.repeats):
        search, base_P = drawn(true_Z, given.search, case.seed_sd, given.problems, generator)
        order = search.mean(axis=(1, 2)).argsort()[::-1][:TOP]
        gap = gap_over_base(ObjectiveValues(tuple(search), 1.0), int(order[0]), base_P)
        own.append(gap.low <= true_Z[order[0]] <= gap.high)
        again, base_P = drawn(true_Z[order], fresh, case.seed_sd, given.problems, generator)
        gap = gap_over_base(ObjectiveValues(tuple(again), 1.0), 0, base_P)
        confirmed.append(gap.low <= true_Z[order[0]] <= gap.high)
        width.append(gap.high - gap.low)
    means = [f"{np.mean(one):.3f}" for one in (own, confirmed, width)]
    return [case.name, f"{given.search}", f"{fresh}", *means]


def table(head: str, rows: Iterator[list[str]]) -> None:
    """Print a table in Markdown, each row as it is known."""
    print(f"| {head.replace(', ', ' | ')} |\n|{'---|' * len(head.split(', '))}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--fresh", type=int, nargs="+", default=[1, 2, 3, 5])
    parser.add_argument("--search", type=int, default=3, help="seeds of the search")
    parser.add_argument("--seed-sd", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    every = list(cases(given.seed_sd))
    table(
        "surface, seeds, true, estimate, at least, at most, quadratic fit",
        (optimism_row(case, seeds, given) for case in every for seeds in given.seeds),
    )
    table(
        "surface, seeds of the search, fresh seeds, search holds, confirmed holds, confirmed width",
        (coverage_row(case, fresh, given) for case in every for fresh in given.fresh),
    )


if __name__ == "__main__":
    main()
