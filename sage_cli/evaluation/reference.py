"""Forward KL's samples: completions of the frozen reference, drawn once as rollouts are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from sage_cli.config.recipe import RlRecipe
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.policies.policy import Policy
from sage_cli.policies.reference import reference_policy
from sage_cli.problems.problem import Problem
from sage_cli.store.completion import Completion


def reference_samples(recipe: RlRecipe, start: Policy, root: Path) -> PolicySamples:
    """Where the completions are that hold a training from `start`, drawn or not.

    They are of the model that `anchor.reference` means; their seed is `rl.seed`.
    """
    return PolicySamples.of_rollouts(reference_policy(start, recipe), recipe, root)


def reference_completions(
    recipe: RlRecipe, samples: PolicySamples, problems: Sequence[Problem]
) -> dict[str, list[Completion]]:
    """The stored completions of each problem, in the order of their indices."""
    found: defaultdict[str, list[Completion]] = defaultdict(list)
    wanted = [problem.id for problem in problems]
    stored = samples.at(recipe.rl.seed)
    for completion in stored.completions(wanted, recipe.anchor.reference_samples):
        found[completion.problem_id].append(completion)
    return {id_: sorted(rows, key=lambda row: row.index) for id_, rows in found.items()}
