"""Counts of what is stored already: nothing is drawn, graded or loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.evaluation.benchmarks import Benchmark, grader_for
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.metrics import Counts
from sage_cli.policies.policy import Policy
from sage_cli.store.verdicts import VerdictStore


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
    evaluation, ids = recipe.evaluation, tuple(benchmark.golds)
    found: dict[int, list[Counts]] = {n: [] for n in ns}
    with grader_for(benchmark.name, recipe.grading, recipe.prompt) as grader:
        for seed in range(evaluation.seed, evaluation.seed + evaluation.seeds):
            verdicts = VerdictStore(samples.at(seed), grader.identity.mapping())
            for n, of_seeds in found.items():
                tally = verdicts.tally(ids, n)
                of_seeds.append(Counts(ids, tally.n_P, tally.right_P))
    return found
