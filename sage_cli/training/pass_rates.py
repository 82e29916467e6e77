"""Problems chosen by the pass rates that a rollout log or stored samples have of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.benchmarks import gradable_problems, grader_for
from sage_cli.models.policy import Policy, named_policy
from sage_cli.problems.load import load_training_problems
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import trained_on
from sage_cli.sampling.sampler import DISTRIBUTION
from sage_cli.store.result_hash import key_of
from sage_cli.store.run import Run, Runs


@dataclass(frozen=True)
class PassRates:
    """The correct and all graded completions of problems, by id; `source` says whose they are."""

    right: Mapping[str, int]
    n: Mapping[str, int]
    source: str

    def rate(self, problem: Problem) -> float:
        """Return the pass rate of a problem that has one."""
        return self.right[problem.id] / self.n[problem.id]

    def among(self, problems: Sequence[Problem]) -> list[Problem]:
        """Return the problems that have a pass rate."""
        return [problem for problem in problems if self.n.get(problem.id)]


def stored_rates(config: SageConfig, root: Path, problems: Sequence[Problem]) -> PassRates:
    """Return the pass rates that the model `data.rl.solved_by` has on some of the problems.

    Raises StoreError if it has none.
    """
    name, runs = str(config.data.rl.solved_by), Runs(root)
    policy = named_policy(name, runs, config.model)
    rates = None
    if policy.run is not None and policy.checkpoint is None:
        rates = _ledger_rates(policy.run)
    if rates is None:
        rates = _sample_rates(policy, config, root, problems)
    if rates.among(problems):
        return rates
    rollout, source = config.rollout, config.data.rl.name
    sets = " ".join(f"--set sampling.{key}={getattr(rollout, key):g}" for key in DISTRIBUTION)
    raise StoreError(
        f"{rates.source} has no graded completion of a problem of {source} "
        f"(data.rl.solved_by is {name})",
        "name a run of RL on these problems, whose rollout log counts, or sample a model as "
        f"rollouts are: `sage passk {name} --benchmark {trained_on(source)} {sets}`",
    )


def _ledger_rates(run: Run) -> PassRates | None:
    """Return the pass rates of all completions of a training; None if it has no ledger."""
    rows = run.ledger.read()
    if not len(rows):
        return None
    right, n = Counter[str](), Counter[str]()
    for problem, right_n, all_n in zip(
        *(rows[name].to_pylist() for name in ("problem", "right", "n")), strict=True
    ):
        right[problem] += right_n
        n[problem] += all_n
    return PassRates(right, n, f"the rollout log of {run.id}")


def _sample_rates(
    policy: Policy, config: SageConfig, root: Path, problems: Sequence[Problem]
) -> PassRates:
    """Return the pass rates of all seeds' samples that were sampled as rollouts are."""
    from sage_cli.evaluation.policy_samples import PolicySamples
    from sage_cli.store.annotations import GradeStore
    from sage_cli.store.sample_set import SampleSet, stored_seeds

    ids, right, n = [problem.id for problem in problems], Counter[str](), Counter[str]()
    identity = PolicySamples.for_rollouts(policy, config, root).at(0, read_only=True).identity
    with grader_for(config.data.rl.name, config.grading, config.prompt) as grader:
        for of_seed in stored_seeds(root, identity):
            stored = SampleSet(root, of_seed, read_only=True)
            most = int(stored.inventory().index_S.max(initial=-1)) + 1
            tally = GradeStore(stored, grader.identity.mapping()).tally(ids, most)
            right.update(dict(zip(ids, tally.right_P.tolist(), strict=True)))
            n.update(dict(zip(ids, tally.n_P.tolist(), strict=True)))
    return PassRates(right, n, f"what is stored of {policy.label}")


def training_problems(config: SageConfig, root: Path) -> list[Problem]:
    """Return the problems that a training takes, in their source's order.

    Warns of rows that are left out because no answer can be compared with their gold. Raises
    DataError where these are many, ConfigurationError if no problem is left, and StoreError without
    stored pass rates of them.
    """
    problems = gradable_problems(config, load_training_problems(config.data))
    source = config.data.rl
    if source.solved_by is None:
        return problems

    rates = stored_rates(config, root, problems)
    rated = rates.among(problems)
    low, high = source.solved_range
    chosen = [problem for problem in rated if low <= rates.rate(problem) <= high]
    if not chosen:
        values = [rates.rate(problem) for problem in rated]
        raise ConfigurationError(
            f"no problem of {source.name} has a pass rate in {source.solved}: {rates.source} has "
            f"{min(values):.3g} to {max(values):.3g} on {len(rated):,}",
            "widen data.rl.solved",
        )
    return chosen


def pool_identity(config: SageConfig, root: Path) -> dict[str, Any] | None:
    """Return what decides the choice, pass rates by content; None without a pool."""
    source = config.data.rl
    if source.solved_by is None:
        return None

    problems = load_training_problems(config.data)
    rates = stored_rates(config, root, problems)
    counted = sorted(
        (problem.id, rates.right[problem.id], rates.n[problem.id])
        for problem in rates.among(problems)
    )
    return {"solved": list(source.solved_range), "rates": key_of({"counted": counted})}


def pool_facts(config: SageConfig, root: Path) -> dict[str, str]:
    """Describe for a dry run how many problems are left; empty without a pool."""
    source = config.data.rl
    if source.solved_by is None:
        return {}

    problems = load_training_problems(config.data)
    rates, left = stored_rates(config, root, problems), training_problems(config, root)
    rated = rates.among(problems)
    mean_n = sum(rates.n[problem.id] for problem in rated) / len(rated)
    unrated = len(problems) - len(rated)
    return {
        "problems": f"{source.name}, {len(left):,} of {len(problems):,}: pass rate "
        f"{source.solved}, by {rates.source}, {mean_n:.3g} completions each"
        + (f"; {unrated:,} have none" if unrated else "")
    }
