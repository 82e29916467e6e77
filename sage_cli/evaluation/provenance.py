"""What a report says about where its measurements came from."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import grading_of
from sage_cli.evaluation.measurement import Measured
from sage_cli.reports.provenance import (
    BenchmarkUsed,
    GraderUsed,
    PolicyUsed,
    Provenance,
    SamplesUsed,
)
from sage_cli.store.surroundings import surroundings


def provenance_of(config: SageConfig, measured: Sequence[Measured]) -> Provenance:
    """The provenance of measurements under `config`, as far as they tell it themselves."""
    around = surroundings()
    problems = {one.benchmark: len(one.counts) for one in measured}
    samples = {
        one.sample_set: SamplesUsed(one.sample_set, one.policy, one.seed) for one in measured
    }
    return Provenance(
        policies=tuple(map(PolicyUsed, dict.fromkeys(one.policy for one in measured))),
        benchmarks=tuple(
            BenchmarkUsed(name, count, grader=_grader(config, name))
            for name, count in problems.items()
        ),
        samples=tuple(samples.values()),
        sampling=config.sampling.model_dump(mode="json"),
        seeds=tuple(sorted({one.seed for one in measured})),
        versions=around["versions"],
        commit=around["commit"],
        command=around["command"],
    )


def _grader(config: SageConfig, benchmark: str) -> GraderUsed:
    judge, tolerance = grading_of(benchmark)
    configured = config.grading.tolerance
    return GraderUsed(config.grading.mode, judge, tolerance if configured is None else configured)
