"""How often a sweep's importance names a parameter without effect, and finds one with an effect.

    python benchmarks/importance.py

Random, grid or TPE sweeps over two to three parameters with normal seed noise; beside it Optuna's
PED-ANOVA, which names a most important parameter always.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product
from statistics import NormalDist

import numpy as np
import optuna

from sage_cli.metrics.importance import effects, numeric_column

GRIDS = {9: 3, 25: 5}
KINDS = ("grid", "random", "tpe")


def sweep(kind: str, trials: int, effect: float, parameters: int, seed: int) -> optuna.Study:
    """A sweep whose first parameter moves the value by `effect` deviations of the noise."""
    generator = np.random.default_rng(seed)
    names = [f"x{i}" for i in range(parameters)]
    samplers = optuna.samplers
    sampler = samplers.TPESampler if kind == "tpe" else samplers.RandomSampler
    study = optuna.create_study(direction="maximize", sampler=sampler(seed=seed))
    if kind == "grid":
        for point in product(np.linspace(0, 1, GRIDS[trials]).tolist(), repeat=parameters):
            study.enqueue_trial(dict(zip(names, point, strict=True)))
    for _ in range(trials):
        trial = study.ask()
        x = [trial.suggest_float(name, 0, 1) for name in names]
        study.tell(trial, effect * x[0] + generator.normal())
    return study


def ours(study: optuna.Study) -> str | None:
    """The most important parameter among those that are seen; None if none is."""
    trials = study.get_trials()
    names = sorted(trials[0].params)
    columns = {name: numeric_column([one.params[name] for one in trials]) for name in names}
    found = effects(columns, np.array([one.value for one in trials]))
    seen = {name: one.share for name, one in found.items() if one.seen}
    return max(seen, key=lambda name: seen[name], default=None)


def optunas(study: optuna.Study) -> str:
    """The most important parameter by PED-ANOVA, for being among the best."""
    shares = optuna.importance.get_param_importances(
        study, target=lambda one: -float(one.values[0])
    )
    return max(shares, key=lambda name: shares[name])


def oracle(kind: str, trials: int, effect: float, sweeps: int = 20000) -> float:
    """How often the best test names x0: it knows that effects are lines, and the deviation 1.

    Two-sided at .05 for both parameters together; x0 is named if it is seen more clearly than x1.
    """
    generator = np.random.default_rng(0)
    if kind == "grid":
        ends = np.linspace(0, 1, GRIDS[trials]).tolist()
        x_SMP = np.broadcast_to(list(product(ends, repeat=2)), (sweeps, trials, 2))
    else:
        x_SMP = generator.random((sweeps, trials, 2))
    value_SM = effect * x_SMP[..., 0] + generator.normal(size=(sweeps, trials))
    design_SMA = np.concatenate([np.ones((sweeps, trials, 1)), x_SMP], axis=-1)
    inverse_SAA = np.linalg.inv(np.einsum("sma,smb->sab", design_SMA, design_SMA))
    slope_SA = np.einsum("sab,smb,sm->sa", inverse_SAA, design_SMA, value_SM)[:, 1:]
    z_SA = np.abs(slope_SA) / np.sqrt(np.einsum("saa->sa", inverse_SAA)[:, 1:])
    named_S = (z_SA[:, 0] > NormalDist().inv_cdf(1 - 0.05 / 4)) & (z_SA[:, 0] > z_SA[:, 1])
    return float(named_S.mean())


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=400)
    parser.add_argument("--tpe-sweeps", type=int, default=200)
    parser.add_argument("--oracle", action="store_true", help="only what could be seen at best")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    if given.oracle:
        for kind, trials in (("grid", 25), ("random", 25), ("random", 60)):
            print(f"{kind}, {trials} trials: at most {oracle(kind, trials, 2.0):.2f} at effect 2")
        return
    began = time.process_time()
    print("| sweep | trials | effect | x0 named | another named | none | PED-ANOVA: another |")
    print(f"|{'---|' * 7}")
    for kind in KINDS:
        for trials in (9, 25) if kind == "grid" else (9, 25, 60):
            for effect in (0.0, 2.0, 2 * 2**0.5):
                count = given.tpe_sweeps if kind == "tpe" else given.sweeps
                studies = [sweep(kind, trials, effect, 2, seed) for seed in range(count)]
                named = [ours(study) for study in studies]
                theirs = [optunas(study) for study in studies]
                shares = [
                    np.mean([one == "x0" for one in named]),
                    np.mean([one == "x1" for one in named]),
                    np.mean([one is None for one in named]),
                    np.mean([one == "x1" for one in theirs]),
                ]
                cells = " | ".join(f"{share:.3f}" for share in shares)
                print(f"| {kind} | {trials} | {effect:.1f} | {cells} |", flush=True)
    print(f"\n{given.sweeps} sweeps a line, {time.process_time() - began:.0f} processor seconds")


if __name__ == "__main__":
    main()
