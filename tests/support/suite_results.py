"""Results of suites without a training: trials of a shipped suite, and counts made up."""

import numpy as np

from sage_cli.metrics import Counts
from sage_cli.metrics.comparison import TrainingSeed
from sage_cli.metrics.counts import SeedCounts
from sage_cli.trials.suites.plan import Overrides, trials_of, with_controls
from sage_cli.trials.suites.results import MethodResult, PartResult


def measured(policy, benchmark, right, n):
    ids = tuple(f"{benchmark}-{place}" for place in range(len(right)))
    counts = Counts(ids, np.full(len(right), n), np.array(right))
    statuses = {"right": sum(right), "wrong": n * len(right) - sum(right)}
    return SeedCounts(policy, benchmark, 0, counts, statuses, 0, f"set-{policy}")


def result(suite, right, n=4, sets=(), *, paired=True):
    """Methods that `right` doesn't name have failed; a method may have fewer seeds than others.

    It has by method and benchmark, for each training seed, the right ones of n samples by problem.
    Runs of one seed began alike if `paired`.
    """
    seeds = max((len(next(iter(by.values()))) for by in right.values()), default=1)
    overrides = Overrides(("tiny",), (f"evaluation.samples={n}", *sets), seeds)
    methods = []
    trials = trials_of(suite, overrides)
    for trial in trials:
        by_benchmark = right.get(trial.label)
        by_seed = [
            {
                name: (measured(one.policy.label, name, of_seeds[one.seed], n),)
                for name, of_seeds in by_benchmark.items()
            }
            for one in trial.replicates
            if by_benchmark and one.seed < len(next(iter(by_benchmark.values())))
        ]
        why = None if by_benchmark is not None else "out of memory: the GPU is full"
        began = [
            None if trial.is_initial else TrainingSeed(one.seed + 1, "start", one.policy.label)
            for one in trial.replicates[: len(by_seed)]
        ]
        methods.append(MethodResult(trial, by_seed, why, began if paired else ()))
    return PartResult(with_controls(suite, trials), methods, {})
