"""Results of suites without a training: arms of a shipped suite, and counts made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sage_cli.metrics import Counts
from sage_cli.reports.measurement import Measured
from sage_cli.suite.arms import Overrides, arms_of
from sage_cli.suite.declaration import Suite
from sage_cli.suite.results import MethodResult, PartResult

Right = Mapping[str, Sequence[Sequence[int]]]
"""Benchmark -> for each training seed the right ones of n samples, problem by problem."""


def measured(policy: str, benchmark: str, right: Sequence[int], n: int) -> Measured:
    ids = tuple(f"{benchmark}-{place}" for place in range(len(right)))
    counts = Counts(ids, np.full(len(right), n), np.array(right))
    statuses = {"right": sum(right), "wrong": n * len(right) - sum(right)}
    return Measured(policy, benchmark, 0, counts, statuses, 0, f"set-{policy}")


def result(
    suite: Suite, right: Mapping[str, Right], n: int = 4, sets: Sequence[str] = ()
) -> PartResult:
    """Methods that `right` doesn't name have failed; a method may have fewer seeds than others."""
    seeds = max((len(next(iter(by.values()))) for by in right.values()), default=1)
    arms = arms_of(suite, Overrides(("tiny",), (f"evaluation.samples={n}", *sets), seeds))
    methods = []
    for label in suite.methods:
        own = [arm for arm in arms if arm.label == label]
        by_seed = [
            {
                name: (measured(arm.policy.label, name, of_seeds[arm.seed], n),)
                for name, of_seeds in right[label].items()
            }
            for arm in own
            if label in right and arm.seed < len(next(iter(right[label].values())))
        ]
        why = None if label in right else "out of memory: the GPU is full"
        methods.append(MethodResult(label, own, by_seed, why))
    return PartResult(suite, methods, {})
