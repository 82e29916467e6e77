"""Measurements of runs find their way into the runs' folders, and from there to the mirrors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.config.records import TrackingSection
from sage_cli.errors import StoreError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.measure import Measurements
from sage_cli.metrics import parse_ks
from sage_cli.metrics.intervals.bands import pass_matrix
from sage_cli.models.policies.policy import Policy
from sage_cli.reports.measurement import Measured
from sage_cli.store.lock import writer
from sage_cli.store.mirrors.follower import Follower, mirrors_of
from sage_cli.store.runs.evaluations import record_evaluation

log = logging.getLogger(__name__)


def keep_evaluations(
    policies: Sequence[Policy],
    benchmarks: Sequence[Benchmark],
    measured: Measurements,
    recipe: EvaluationRecipe,
    tracking: TrackingSection,
    mirrors: Sequence[Follower] = (),
) -> None:
    """Keep what was measured of runs' final models; `measured` is by benchmark and policy's label.

    Checkpoints and models that came from no run are passed over. The mirrors of a run whose figures
    are new show them: `mirrors`, where those of the one policy's run are open already. Never raises
    for a folder that can't be written: the report is elsewhere.
    """
    content = {benchmark.name: benchmark.content for benchmark in benchmarks}
    for policy in policies:
        run = policy.run
        if run is None or policy.checkpoint is not None:
            continue
        try:
            with writer(run.folder):
                changed = [
                    record_evaluation(
                        run, benchmark, figures(seeds, recipe), content.get(benchmark)
                    )
                    for (benchmark, label), seeds in measured.items()
                    if label == policy.label
                ]
                for mirror in (mirrors or mirrors_of(tracking, run)) if any(changed) else ():
                    mirror.show_evaluations()
        except (OSError, StoreError) as error:
            log.warning("%s doesn't keep what was measured: %s", run.id, error)


def figures(seeds: Sequence[Measured], recipe: EvaluationRecipe) -> dict[str, Any]:
    """Mean pass@k at the powers of two, and what it was measured with."""
    n = recipe.evaluation.samples
    ks = parse_ks(f"1..{n}:pow2", n)
    mean_K = pass_matrix([seed.counts for seed in seeds], ks).mean(axis=0)
    return {
        **{f"pass@{k}": float(mean) for k, mean in zip(ks, mean_K, strict=True)},
        "problems": len(seeds[0].counts),
        "samples": n,
        "seeds": len(seeds),
        "temperature": recipe.sampling.temperature,
        "grading": recipe.grading.mode,
    }
