"""Trials of a sweep as a driver would hand them over, with counts that were drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sage_cli.metrics import Counts
from sage_cli.metrics.ranking import objective_values
from sage_cli.reports.document import Document, Provenance
from sage_cli.reports.sweep_report import (
    Axis,
    CountedTrial,
    SweepTrial,
    TrialFailure,
    Value,
    document_of,
    sweep_result,
)
from sage_cli.settings.sections.runs import Objective, parse_objective

P, N = 40, 64
PASS_1 = parse_objective("pass@1")
BOTH = (PASS_1, parse_objective("0.5*pass@1+0.5*pass@64"))
GRID = (Axis("tau", "guide.tau", (0.8, 1.2)), Axis("rho", "guide.rho", (0.1, 0.3)))
RANGES = (
    Axis("tau", "guide.tau", low=0.2, high=0.8),
    Axis("lr", "rl.learning_rate", low=1e-6, high=1e-3, log=True),
)
MEMORY = TrialFailure(
    "out of memory", "OutOfMemoryError: 2 GiB\nmore", ("step 3", "CUDA: no memory", "")
)


def at(axes: Sequence[Axis], *values: Value) -> dict[str, Value]:
    """Settings: the axes' values in their order."""
    return dict(zip((axis.key for axis in axes), values, strict=False))


def sweep_document(
    axes: Sequence[Axis],
    objectives: Sequence[Objective],
    trials: Sequence[SweepTrial],
    provenance: Provenance,
    **about: Any,
) -> Document:
    return document_of(sweep_result(axes, objectives, trials, **about), provenance)


def drawn(seed: int, gain: float) -> Counts:
    """Counts of a policy that is `gain` better (in log-odds) than others on the same problems."""
    logit_P = np.random.default_rng(0).normal(-0.5, 1.5, P) + gain
    c_P = np.random.default_rng(seed).binomial(N, 1 / (1 + np.exp(-logit_P)))
    return Counts(tuple(f"p{i}" for i in range(P)), np.full(P, N), c_P)


def done(
    settings: dict[str, Value],
    seed: int,
    gain: float = 0.0,
    seeds: int = 1,
    objectives: Sequence[Objective] = (PASS_1,),
) -> CountedTrial:
    """A measured trial; its runs are named by `seed`."""
    counts = tuple({"dev": drawn(100 * seed + one, gain)} for one in range(seeds))
    values = {
        one.name: float(objective_values(one, [counts]).models[0].mean()) for one in objectives
    }
    runs = tuple(f"rl-{seed}-{one}" for one in range(seeds))
    return CountedTrial(settings, "done", values, runs=runs, counts=counts)
