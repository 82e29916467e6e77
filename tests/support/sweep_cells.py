"""Trials of a sweep as a driver would hand them over, and the state that it leaves."""

import numpy as np

from sage_cli.metrics import Counts
from sage_cli.metrics.ranking import objective_values
from sage_cli.settings.objective import parse_objective
from sage_cli.store.json_files import write_json
from sage_cli.trials.sweep.report import document_of
from sage_cli.trials.sweep.result import Axis, CountedTrial, TrialFailure, sweep_result

P, N = 40, 64
PASS_1 = parse_objective("pass@1")
BOTH = (PASS_1, parse_objective("0.5*pass@1+0.5*pass@64"))
GRID = (Axis("tau", "guide.tau", (0.8, 1.2)), Axis("rho", "guide.rho", (0.1, 0.3)))
MEMORY = TrialFailure(
    "out of memory", "OutOfMemoryError: 2 GiB\nmore", ("step 3", "CUDA: no memory", "")
)


def at(axes, *values):
    """Settings: the axes' values in their order."""
    return dict(zip((axis.key for axis in axes), values, strict=False))


def sweep_document(axes, objectives, trials, provenance, **about):
    return document_of(sweep_result(axes, objectives, trials, **about), provenance)


def drawn(seed, gain):
    """Counts of a policy that is `gain` better (in log-odds) than others on the same problems."""
    logit_P = np.random.default_rng(0).normal(-0.5, 1.5, P) + gain
    c_P = np.random.default_rng(seed).binomial(N, 1 / (1 + np.exp(-logit_P)))
    return Counts(tuple(f"p{i}" for i in range(P)), np.full(P, N), c_P)


def done(settings, seed, gain=0.0, seeds=1, objectives=(PASS_1,)):
    """A measured trial; its runs are named by `seed`."""
    counts = tuple({"dev": drawn(100 * seed + one, gain)} for one in range(seeds))
    values = {
        one.name: float(objective_values(one, [counts]).models[0].mean()) for one in objectives
    }
    runs = tuple(f"rl-{seed}-{one}" for one in range(seeds))
    return CountedTrial(settings, "done", values, runs=runs, counts=counts)


def keep_state(folder, **changes):
    """state.json, with nobody driving."""
    state = {
        "name": folder.name,
        "space": [],
        "sampler": "grid",
        "objectives": ["pass@1"],
        "view": f"{folder.name}/01234567",
        "trials": {"done": 3, "failed": 1, "pruned": 0, "left": 2},
        "best": "tau 1.2, rho 0.1: pass@1 0.451",
    }
    write_json(folder / "state.json", {**state, **changes})
