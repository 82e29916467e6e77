"""How many trials diverge if samplers are told of it, and if they are not.

    python benchmarks/diverging.py [--trials 30] [--seeds 20] [--samplers tpe,gp,cmaes,nsga2,random]

Two settings are searched: a learning rate, logarithmic over four decades, and another one over
[0, 1]. The value rises with the learning rate up to a cliff, beyond which trainings diverge, so the
best trials lie beside it. `--cliff` is its place over the decades: .4 lets 55 to 65 % of the space
diverge. `before`: a diverged trial is closed as failed. `after`: it is ruled out.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import optuna

from sage_cli.trials.sweep.samplers import OptunaSpace, ordered_lists
from sage_cli.trials.sweep.space import Range, Space
from sage_cli.trials.sweep.study import Study

SPACE = Space(
    parameters={
        "lr": Range(key="rl.learning_rate", range=(1e-6, 1e-2), log=True),
        "beta": Range(key="anchor.beta", range=(0.0, 1.0)),
    }
)
NOISE = 0.01


def in_memory(sampler: str, seed: int) -> Study:
    """A study that is stored nowhere."""
    optuna_study = optuna.create_study(direction="maximize")
    about = {"space": SPACE.plain(), "sampler": sampler, "seed": seed, "objectives": ["pass@1"]}
    about["ordered"] = ordered = ordered_lists(SPACE, sampler)
    for name, value in about.items():
        optuna_study.set_user_attr(name, value)
    return Study("memory", optuna_study, OptunaSpace(SPACE, ordered))


def search(sampler: str, seed: int, trials: int, cliff: float, *, told: bool) -> tuple[int, float]:
    """The number of diverged trials of `trials`, and the best value without noise; NaN if none."""
    study, generator = in_memory(sampler, seed), np.random.default_rng(seed)
    diverged, best = 0, np.nan
    for _ in range(trials):
        trial = study.propose()
        if trial is None:  # gp, untaught, proposes the same point until it is no longer asked
            break
        height = (np.log10(trial.point["rl.learning_rate"]) + 6) / 4
        beta = float(trial.point["anchor.beta"])
        if height > cliff + 0.1 * (beta - 0.5):
            diverged += 1
            (study.rule_out if told else study.fail)(trial, "diverged", "loss nan")
        else:
            value = 0.3 + 0.2 * height - 0.1 * (beta - 0.6) ** 2
            best = np.fmax(best, value)
            study.tell(trial, [value + NOISE * generator.normal()])
    return diverged, best


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--samplers", default="tpe,gp,cmaes,nsga2,random")
    parser.add_argument("--cliff", type=float, default=0.4)
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    began = time.process_time()
    print("| sampler | diverged before | after | best before | after |\n|---|---|---|---|---|")
    for sampler in given.samplers.split(","):
        cells = []
        for told in (False, True):
            found = [
                search(sampler, seed, given.trials, given.cliff, told=told)
                for seed in range(given.seeds)
            ]
            cells.append(np.array(found))
        diverged = " | ".join(f"{one[:, 0].mean():.1f}" for one in cells)
        best = " | ".join(f"{np.nanmean(one[:, 1]):.3f}" for one in cells)
        print(f"| {sampler} | {diverged} | {best} |", flush=True)
    print(f"\n{given.seeds} seeds, {time.process_time() - began:.0f} processor seconds")


if __name__ == "__main__":
    main()
