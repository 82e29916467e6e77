"""What is stored of a trial's measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sage_cli.config.schema import SageConfig
from sage_cli.models.policy import Policy, checkpoint_steps, named_policies
from sage_cli.store.run import Run, Runs

if TYPE_CHECKING:
    from sage_cli.evaluation.benchmarks import Benchmark
    from sage_cli.metrics.counts import SeedCounts


class BenchmarkCache:
    """The problems that configurations measure on, read once for all that measure on the same."""

    def __init__(self) -> None:
        self._by_settings: dict[str, Sequence[Benchmark]] = {}

    def load(self, config: SageConfig) -> Sequence[Benchmark]:
        """Return the problems that a configuration measures on."""
        from sage_cli.evaluation.benchmarks import load_benchmarks

        key = config.model_dump_json(include={"evaluation", "data", "grading"})
        if key not in self._by_settings:
            judge = config.grading.judge
            self._by_settings[key] = load_benchmarks(config.evaluation, config.data, judge)
        return self._by_settings[key]


def stored_results(
    policy: Policy, config: SageConfig, benchmarks: BenchmarkCache
) -> MeasuredSeeds | None:
    """Return all that `config` measures of a policy; None if some of it is not stored.

    Raises SageError if stored samples cannot be counted.
    """
    if not policy.is_here:
        return None
    # import numpy and pyarrow, which a dry run before any training does not need
    from sage_cli.evaluation.policy_samples import PolicySamples
    from sage_cli.evaluation.stored_grades import stored_measurements

    samples = PolicySamples.from_config(policy, config, config.run.root)
    first = config.evaluation.seed
    seeds = range(first, first + config.evaluation.seeds)
    # before problems are read, which may not be on this machine
    if not all(samples.at(seed, read_only=True).folder.is_dir() for seed in seeds):
        return None
    return stored_measurements(samples, benchmarks.load(config), config)


def checkpoints_are_measured(run: Run, config: SageConfig, benchmarks: BenchmarkCache) -> bool:
    """Return True if a finished run and all its checkpoints are measured."""
    if not run.is_finished():
        return False
    policies = named_policies(f"{run.id}@all", Runs(run.folder.parent), config.model)
    # a checkpoint whose weights were deleted is in the run's list alone
    return len(policies) == len(checkpoint_steps(run)) + 1 and all(
        stored_results(policy, config, benchmarks) is not None for policy in policies
    )


MeasuredSeeds: TypeAlias = "Mapping[str, tuple[SeedCounts, ...]]"
"""By benchmark the measurements of a policy, one for each evaluation seed."""
