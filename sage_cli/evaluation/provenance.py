"""What a report says about where its measurements came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.evaluation.benchmarks import Benchmark, grader_for
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.policies.policy import Policy
from sage_cli.reports.measurement import Measured
from sage_cli.reports.provenance import (
    BenchmarkUsed,
    GraderUsed,
    PolicyUsed,
    Provenance,
    SamplesUsed,
)
from sage_cli.store.surroundings import surroundings


def provenance_of(
    samples: Sequence[PolicySamples],
    benchmarks: Sequence[Benchmark],
    measured: Iterable[Measured],
    recipe: EvaluationRecipe,
) -> Provenance:
    """Models by weights, benchmarks by content, sample sets by key, and how all was judged."""
    around, evaluation = surroundings(), recipe.evaluation
    by_label = {one.policy.label: one for one in samples}
    sets = {
        one.sample_set: SamplesUsed(
            one.sample_set, one.policy, one.seed, template=own.template.hash,
            engine=own.at(one.seed).engine,
        )
        for one in measured
        for own in [by_label[one.policy]]
    }  # fmt: skip
    return Provenance(
        policies=tuple(_policy(one.policy) for one in samples),
        benchmarks=tuple(
            BenchmarkUsed(
                one.name, len(one.problems), tuple(one.origins) or None, _grader(one, recipe)
            )
            for one in benchmarks
        ),
        samples=tuple(sets.values()),
        sampling=recipe.sampling.model_dump(mode="json"),
        seeds=tuple(range(evaluation.seed, evaluation.seed + evaluation.seeds)),
        versions=around["versions"],
        commit=around["commit"],
        command=around["command"],
    )


def _policy(policy: Policy) -> PolicyUsed:
    run = policy.run
    base = str(run.manifest["parent"]) if run and run.manifest.get("parent") else None
    return PolicyUsed(policy.label, policy.path, policy.fingerprint, run.id if run else None, base)


def _grader(benchmark: Benchmark, recipe: EvaluationRecipe) -> GraderUsed:
    with grader_for(benchmark.name, recipe.grading, recipe.prompt) as grader:
        version = grader.identity.key
    return GraderUsed(recipe.grading.mode, benchmark.judge, grader.tolerance, version)
