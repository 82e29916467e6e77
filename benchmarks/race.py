"""How often a race over seeds finds the best trial, and how many trainings it takes.

    python benchmarks/race.py [--seeds 3] [--searches 4000] [--null 400]

The trials are the points of a surface; a seed adds normal noise with the surface's error. Chosen is
the best mean over the seeds of those that have all of them: of all trials, or of a race's last
rung. At the end, trials that are all equal: how often the race says that its best stands out, which
may be .05.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from bayes import made_up, recorded

from sage_cli.metrics import Counts
from sage_cli.settings.objective import parse_objective
from sage_cli.trials.search.replicates import (
    best_first,
    next_rung,
    rung,
    stands_out,
)


def surfaces() -> dict[str, tuple[np.ndarray, float]]:
    """The true values of the trials and the noise between seeds, by name."""
    known = [*recorded("table6"), *recorded("tiny-5x5"), *made_up()]
    found = {one.name: (one.value_TR.ravel(), one.error) for one in known}
    x, y = np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 1, 5), indexing="ij")
    found["new: plateau with a peak"] = (
        np.exp(-30 * ((x - 0.4) ** 2 + (y - 0.5) ** 2)).ravel(),
        0.4,
    )
    found["new: heavy tail"] = (np.random.default_rng(7).standard_t(3, 40) * 0.1, 0.05)
    return found


def chosen(value_CS: np.ndarray, halve: bool) -> tuple[int, int]:
    """The place of the chosen trial, and the trainings that it took."""
    trials, seeds = value_CS.shape
    left, spent = np.arange(trials), 0
    for seed in range(seeds):
        if halve and seed:
            order = best_first(list(value_CS[left, :seed].mean(axis=1)[:, None]))
            left = left[order[: rung(trials, seed)]]
        spent += len(left)
    return int(left[value_CS[left].mean(axis=1).argmax()]), spent


def said(trials: int, seeds: int, gap: float, generator: np.random.Generator) -> str:
    """Return which trial is said to stand out, if one is: the first is better by `gap`, "" is none.

    A seed moves all problems of a trial by normal noise of .03, 40 problems have 64 samples.
    """
    base_P, objective = generator.beta(2, 3, 40), [parse_objective("pass@1")]
    names = tuple(f"p{one}" for one in range(40))
    measured: dict[int, dict[int, list[Counts]]] = {trial: {} for trial in range(trials)}
    while (rest := next_rung(measured, objective, seeds))[0]:
        for trial, seed in rest[0]:
            ahead = gap if trial == 0 else 0.0
            p_P = np.clip(base_P + ahead + generator.normal(0, 0.03), 0, 1)
            counts = Counts(names, np.full(40, 64), generator.binomial(64, p_P))
            measured[trial][seed] = [counts]
    last = rest[1]
    if not stands_out(measured, objective, last):
        return ""
    means = {one: np.mean([c[0].c_P.mean() for c in measured[one].values()]) for one in last}
    return "first" if max(means, key=lambda one: means[one]) == 0 else "another"


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--searches", type=int, default=4000)
    parser.add_argument("--null", type=int, default=400)
    parser.add_argument("--ends", action="store_true", help="the test at the end alone")
    given = parser.parse_args()
    generator = np.random.default_rng(0)
    if given.ends:
        show_ends(given.seeds, given.null, generator)
        return
    print("| surface | trials | trainings | found by all | by the race | difference |")
    print("|---|---|---|---|---|---|")
    for name, (value_C, error) in surfaces().items():
        hits, spent = np.zeros(2), np.zeros(2)
        for _ in range(given.searches):
            noise_CS = generator.normal(0, error, (len(value_C), given.seeds))
            for way in (0, 1):
                place, cost = chosen(value_C[:, None] + noise_CS, halve=bool(way))
                hits[way] += value_C[place] == value_C.max()
                spent[way] += cost
        found = hits / given.searches
        print(
            f"| {name} | {len(value_C)} | {spent[1] / spent[0]:.2f} | {found[0]:.3f} | "
            f"{found[1]:.3f} | {found[1] - found[0]:+.3f} |",
            flush=True,
        )
    show_ends(given.seeds, given.null, generator)


def show_ends(seeds: int, races: int, generator: np.random.Generator) -> None:
    """Print how often the race says that a trial stands out, by how far the first one is ahead."""
    print("\n| trials | ahead by | the first stands out | another |\n|---|---|---|---|")
    for trials in (9, 25):
        for gap in (0.0, 0.05, 0.1, 0.15, 0.2):
            found = [said(trials, seeds, gap, generator) for _ in range(races)]
            first, other = (
                np.mean([one == name for one in found]) for name in ("first", "another")
            )
            print(f"| {trials} | {gap:.2f} | {first:.3f} | {other:.3f} |", flush=True)


if __name__ == "__main__":
    main()
