"""What a measurement would find and would still have to draw; loads nothing, writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.in_words import Stage, evaluation_facts
from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import stored_verdicts
from sage_cli.models.policies.policy import Policy
from sage_cli.planning.hours import hours_fact


@dataclass(frozen=True)
class Missing:
    """One policy on one benchmark, over all evaluation seeds: samples wanted, held, graded.

    `sample_sets` are the keys of the sets, none for a policy that isn't trained yet.
    """

    policy: str
    benchmark: str
    wanted: int
    held: int
    graded: int
    sample_sets: tuple[str, ...] = ()


def missing(
    policies: Sequence[Policy],
    benchmarks: Sequence[Benchmark],
    recipe: EvaluationRecipe,
    root: Path,
) -> list[Missing]:
    """What is stored of what a measurement counts, for each policy and benchmark."""
    evaluation, n = recipe.evaluation, recipe.evaluation.samples
    found = []
    for policy in policies:
        samples = PolicySamples.of_evaluation(policy, recipe, root) if policy.exists else None
        for benchmark in benchmarks:
            each = n * len(benchmark.problems)
            wanted = each * evaluation.seeds
            if samples is None:
                found.append(Missing(policy.label, benchmark.name, wanted, 0, 0))
                continue
            held, graded, keys = 0, 0, []
            for stored, verdicts in stored_verdicts(samples, benchmark, recipe):
                tally = verdicts.tally(list(benchmark.golds), n)
                held += each - stored.inventory().count_missing(list(benchmark.golds), n)
                graded += each - tally.lacking
                keys.append(stored.identity.key)
            found.append(Missing(policy.label, benchmark.name, wanted, held, graded, tuple(keys)))
    return found


def plan_measurement(config: SageConfig, policies: Sequence[Policy]) -> Stage:
    """The measurement of policies, trained or not yet."""
    recipe = EvaluationRecipe.of(config)
    benchmarks = load_benchmarks(recipe.evaluation, recipe.data)
    found = missing(policies, benchmarks, recipe, config.run.root)
    left = sum(one.wanted - one.held for one in found)
    hours = hours_fact(config.model, sampled=left * recipe.sampling.max_tokens)
    stored = {
        f"{one.policy} on {one.benchmark}": f"{one.wanted - one.held:,} of {one.wanted:,} samples "
        f"to draw, {one.wanted - one.graded:,} to grade"
        + (f"; samples/{', '.join(one.sample_sets)}" if one.sample_sets else "")
        for one in found
    }
    return Stage("measure", {**evaluation_facts(recipe), **stored, **hours})
