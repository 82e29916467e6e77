"""The provenance of measurements, as reports give it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sage_cli.config.specs import EvaluationSpec
from sage_cli.evaluation.benchmarks import Benchmark, grader_for
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.prompting import known_sampling
from sage_cli.reports.provenance import (
    BenchmarkUsed,
    GraderUsed,
    PolicyUsed,
    Provenance,
    SamplesUsed,
)
from sage_cli.settings.sections.judging import IMPORTED_JUDGE
from sage_cli.store.surroundings import surroundings


def provenance_of(
    samples: Sequence[PolicySamples], benchmarks: Sequence[Benchmark], spec: EvaluationSpec
) -> Provenance:
    """Models by weights, benchmarks by content, sample sets by key, and how all was graded."""
    evaluation = spec.evaluation
    seeds = tuple(range(evaluation.seed, evaluation.seed + evaluation.seeds))
    sets = {
        stored.identity.key: SamplesUsed(
            stored.identity.key, own.policy.label, seed, stored.identity.template, stored.engine
        )
        for own in samples
        for seed in seeds
        for stored in [own.at(seed)]
    }
    configured = configured_provenance(benchmarks, spec)
    runs = [own.policy.run for own in samples if own.policy.imported]
    if runs and len(runs) == len(samples):  # what is configured is not how they were sampled
        said = [known_sampling(run) for run in runs if run is not None]
        alike = all(one == said[0] for one in said)
        configured = replace(configured, sampling=said[0] if alike else None)
    return replace(
        configured,
        policies=tuple(_policy(one.policy) for one in samples),
        samples=tuple(sets.values()),
        seeds=seeds,
    )


def configured_provenance(benchmarks: Sequence[Benchmark], spec: EvaluationSpec) -> Provenance:
    """The part that doesn't depend on which policies are measured."""
    return replace(
        Provenance.here(surroundings()),
        benchmarks=tuple(
            BenchmarkUsed(
                one.name, len(one.problems), tuple(one.origins) or None, _grader(one, spec)
            )
            for one in benchmarks
        ),
        sampling=spec.sampling.model_dump(mode="json", exclude={"servers"}),
    )


def _policy(policy: Policy) -> PolicyUsed:
    run = policy.run
    base = str(run.manifest["parent"]) if run and run.manifest.get("parent") else None
    return PolicyUsed(policy.label, policy.place, policy.fingerprint, run.id if run else None, base)


def _grader(benchmark: Benchmark, spec: EvaluationSpec) -> GraderUsed:
    with grader_for(benchmark.name, spec.grading, spec.prompt) as grader:
        used = grader.identity
    mode = IMPORTED_JUDGE if used.judge == IMPORTED_JUDGE else used.mode
    return GraderUsed(mode, used.judge, used.tolerance, used.version)
