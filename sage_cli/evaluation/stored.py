"""What is stored of a policy on a benchmark: nothing is drawn, graded, loaded or written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.evaluation.benchmarks import Benchmark, grader_for
from sage_cli.evaluation.counted import counts_of
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.metrics import Counts
from sage_cli.models.policies.policy import Policy
from sage_cli.reports.measurement import Measured
from sage_cli.store.samples.annotations import GradeStore
from sage_cli.store.samples.sample_set import SampleSet


def stored_verdicts(
    samples: PolicySamples, benchmark: Benchmark, recipe: EvaluationRecipe
) -> Iterator[tuple[SampleSet, GradeStore]]:
    """For each evaluation seed its sample set, and the verdicts of the recipe's grader on it."""
    evaluation = recipe.evaluation
    with grader_for(benchmark.name, recipe.grading, recipe.prompt) as grader:
        for seed in range(evaluation.seed, evaluation.seed + evaluation.seeds):
            stored = samples.at(seed, read_only=True)
            yield stored, GradeStore(stored, grader.identity.mapping())


def stored_measurements(
    samples: PolicySamples, benchmarks: Sequence[Benchmark], recipe: EvaluationRecipe
) -> dict[str, tuple[Measured, ...]] | None:
    """By benchmark a measurement for each evaluation seed; None unless all of it is stored."""
    n, label = recipe.evaluation.samples, samples.policy.label
    found: dict[str, tuple[Measured, ...]] = {}
    for benchmark in benchmarks:
        ids, seeds = tuple(benchmark.golds), []
        for stored, verdicts in stored_verdicts(samples, benchmark, recipe):
            tally = verdicts.tally(ids, n)
            if tally.lacking:
                return None
            identity, counts = stored.identity, counts_of(tally, verdicts.seed)
            seeds.append(
                Measured(
                    label, benchmark.name, identity.seed, counts, tally.statuses, tally.truncated,
                    identity.key,
                )
            )  # fmt: skip
        found[benchmark.name] = tuple(seeds)
    return found


def stored_counts(
    policy: Policy,
    benchmark: Benchmark,
    recipe: EvaluationRecipe,
    root: Path,
    ns: Sequence[int],
) -> dict[int, list[Counts]]:
    """For each n of `ns`, the right ones among each problem's first n samples, a Counts per seed.

    Only samples with a verdict are counted, so that `n_P` is below n where some are missing.
    `root` is the folder of runs.
    """
    samples = PolicySamples.of_evaluation(policy, recipe, root)
    ids = tuple(benchmark.golds)
    found: dict[int, list[Counts]] = {n: [] for n in ns}
    for _, verdicts in stored_verdicts(samples, benchmark, recipe):
        for n, of_seeds in found.items():
            tally = verdicts.tally(ids, n)
            of_seeds.append(counts_of(tally, verdicts.seed))
    return found
