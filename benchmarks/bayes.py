"""How many trials samplers take to find a trial as good as the best, on recorded surfaces.

    python benchmarks/bayes.py [SURFACE ...] [--seeds 20] [--noise 1] [--tolerance 0.1]
    python benchmarks/bayes.py table6 --chosen 10,20,30 --samplers tpe --noise 1 --seeds 300

With `--chosen`: the true value of the trial with the best noisy value, which is what a user gets.

A surface is a file of benchmarks/surfaces/, or `tuning` for the made-up ones on which the samplers'
settings were chosen. Samplers search the whole rectangle between its outermost trials, on which
values are interpolated bilinearly, so no point is higher than the best trial. What a sampler is
told is the value plus normal noise: `--noise` times the surface's error. A trial has arrived
where its value without noise is at most `--tolerance` of the surface's span below the best trial.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import optuna

from sage_cli.trials.sweep.samplers import OptunaSpace, sampler
from sage_cli.trials.sweep.space import Range, Space

SURFACES = Path(__file__).parent / "surfaces"
SAMPLERS = ("random", "qmc", "tpe", "gp", "cmaes")


@dataclass(frozen=True)
class Surface:
    """An objective on a grid of tau and rho, and the standard error of a trial's."""

    name: str
    tau_T: np.ndarray
    rho_R: np.ndarray
    value_TR: np.ndarray
    error: float
    tolerance: float = 0.1

    @property
    def space(self) -> Space:
        """All between the outermost trials."""
        ends = {"tau": self.tau_T, "rho": self.rho_R}
        return Space(
            parameters={
                name: Range(key=f"guide.{name}", range=(float(all_[0]), float(all_[-1])))
                for name, all_ in ends.items()
            }
        )

    def at(self, tau: float, rho: float) -> float:
        """Interpolated between the four trials around."""
        along_T = [np.interp(rho, self.rho_R, row_R) for row_R in self.value_TR]
        return float(np.interp(tau, self.tau_T, along_T))

    @property
    def enough(self) -> float:
        """The least value that has arrived."""
        return float(self.value_TR.max() - self.tolerance * np.ptp(self.value_TR))

    @property
    def share(self) -> float:
        """The share of the rectangle that has arrived."""
        taus = np.linspace(self.tau_T[0], self.tau_T[-1], 201)
        rhos = np.linspace(self.rho_R[0], self.rho_R[-1], 201)
        return float(np.mean([[self.at(t, r) >= self.enough for r in rhos] for t in taus]))


def recorded(name: str) -> list[Surface]:
    """The surfaces of a file, one for each of its objectives."""
    file = json.loads((SURFACES / f"{name}.json").read_text())
    axes = np.array(file["tau"]), np.array(file["rho"])
    return [
        Surface(f"{name} {key}", *axes, np.array(values), file["error"][key])
        for key, values in file.items()
        if key.startswith("pass@")
    ]


def made_up() -> list[Surface]:
    """Surfaces that are reported nowhere: a hill, a ridge, two hills, a rough plain."""
    x_N = np.linspace(0, 1, 5)
    x, y = np.meshgrid(x_N, x_N, indexing="ij")
    two = np.exp(-20 * ((x - 0.2) ** 2 + (y - 0.2) ** 2))
    shapes = {
        "hill": -((x - 0.7) ** 2) - (y - 0.3) ** 2,
        "ridge": -np.abs(x + y - 1) - 0.2 * (x - 0.25) ** 2,
        "two hills": two + 0.8 * np.exp(-20 * ((x - 0.8) ** 2 + (y - 0.7) ** 2)),
        "rough": np.random.default_rng(5).random((5, 5)),
    }
    return [
        Surface(f"tuning: {name}", x_N, x_N, shape / np.ptp(shape), 0.2)
        for name, shape in shapes.items()
    ]


def arrival(surface: Surface, name: str, seed: int, most: int, noise: float) -> int:
    """The number of the first trial that arrives; most + 1 where none does."""
    study = optuna.create_study(direction="maximize")
    space, generator = OptunaSpace(surface.space, ()), np.random.default_rng(seed)
    for number in range(most):
        study.sampler = sampler(name, seed, number, space)
        trial = study.ask()
        point = space.suggest(trial)
        value = surface.at(*point.values())
        if value >= surface.enough:
            return number + 1
        study.tell(trial, value + noise * surface.error * generator.normal())
    return most + 1


def row(surface: Surface, seeds: range, most: Mapping[str, int], noise: float) -> list[str]:
    """The median over seeds for each sampler, in trials, and its share of random's."""
    medians = {
        name: float(np.median([arrival(surface, name, s, most[name], noise) for s in seeds]))
        for name in most
    }
    cells = [
        f"{median:g}{'+' if median > most[name] else ''} ({median / medians['random']:.2f})"
        for name, median in medians.items()
    ]
    return [surface.name, f"{noise:g}", f"{surface.share:.3f}", *cells]


def chosen(surface: Surface, name: str, seed: int, after: list[int], noise: float) -> list[float]:
    """The true values of the trials with the best noisy value after so many trials."""
    study = optuna.create_study(direction="maximize")
    space, generator = OptunaSpace(surface.space, ()), np.random.default_rng(seed)
    true, told = [], []
    for number in range(max(after)):
        study.sampler = sampler(name, seed, number, space)
        trial = study.ask()
        true.append(surface.at(*space.suggest(trial).values()))
        told.append(true[-1] + noise * surface.error * generator.normal())
        study.tell(trial, told[-1])
    return [true[int(np.argmax(told[:count]))] for count in after]


def print_chosen(
    surface: Surface, names: list[str], seeds: range, typed: str, noise: float
) -> None:
    """Print a row for each sampler: the mean over seeds after so many trials, and its error."""
    after = [int(count) for count in typed.split(",")]
    for name in names:
        values_SA = np.array([chosen(surface, name, s, after, noise) for s in seeds])
        error_A = values_SA.std(axis=0, ddof=1) / np.sqrt(len(seeds))
        cells = [f"{m:.4f} ± {e:.4f}" for m, e in zip(values_SA.mean(axis=0), error_A, strict=True)]
        best = f"{surface.value_TR.max():.3f}"
        print(f"| {surface.name} | {noise:g} | {name} | {' | '.join(cells)} | {best} |", flush=True)


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("surfaces", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--noise", type=float, action="append")
    parser.add_argument("--tolerance", type=float, default=0.1)
    parser.add_argument("--samplers", default=",".join(SAMPLERS))
    parser.add_argument("--chosen", help="numbers of trials, as 10,20,30")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    names = given.surfaces or sorted(path.stem for path in SURFACES.glob("*.json"))
    surfaces = [
        one for name in names for one in (made_up() if name == "tuning" else recorded(name))
    ]
    samplers = list(dict.fromkeys(["random", *given.samplers.split(",")]))
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    if given.chosen:
        for surface in surfaces:
            for noise in given.noise or [1.0]:
                print_chosen(surface, samplers, seeds, given.chosen, noise)
        return
    print(f"| surface | noise | share | {' | '.join(samplers)} |\n|{'---|' * (3 + len(samplers))}")
    began = time.process_time()
    for surface in (replace(one, tolerance=given.tolerance) for one in surfaces):
        for noise in given.noise or [0.0, 1.0]:
            cells = row(surface, seeds, dict.fromkeys(samplers, given.most), noise)
            print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\n{given.seeds} seeds, {time.process_time() - began:.0f} processor seconds")


if __name__ == "__main__":
    main()
