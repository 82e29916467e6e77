"""What the store holds of a suite's policies: nothing is drawn, graded, loaded or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sage_cli.config.recipe import EvaluationSpec
from sage_cli.config.schema import SageConfig
from sage_cli.policies.names import checkpoint_steps, named_policies
from sage_cli.policies.policy import Policy
from sage_cli.store.run import Run, Runs

if TYPE_CHECKING:
    from sage_cli.evaluation.benchmarks import Benchmark
    from sage_cli.reports.measurement import Measured

ByBenchmark: TypeAlias = "Mapping[str, tuple[Measured, ...]]"
"""A policy's measurements, one for each evaluation seed."""


class StoredMeasurements:
    """Measurements as the store has them; benchmarks are read once."""

    def __init__(self) -> None:
        self._benchmarks: dict[str, Sequence[Benchmark]] = {}

    def benchmarks(self, config: SageConfig) -> Sequence[Benchmark]:
        """The problems that a configuration measures on."""
        from sage_cli.evaluation.benchmarks import load_benchmarks

        key = config.model_dump_json(include={"evaluation", "data"})
        if key not in self._benchmarks:
            self._benchmarks[key] = load_benchmarks(config.evaluation, config.data)
        return self._benchmarks[key]

    def measured(self, policy: Policy, config: SageConfig) -> ByBenchmark | None:
        """All that `config` measures of a policy; None where some of it is missing.

        Raises SageError where what is stored can't be counted.
        """
        recipe, first = EvaluationSpec.of(config), config.evaluation.seed
        if not policy.is_here:
            return None
        # with numpy and pyarrow, which a plan of what isn't trained doesn't need
        from sage_cli.evaluation.sample_sets import PolicySamples
        from sage_cli.evaluation.stored import stored_measurements

        samples = PolicySamples.of_evaluation(policy, recipe, config.run.root)
        seeds = range(first, first + recipe.evaluation.seeds)
        # before problems are read, which may not be here
        if not all(samples.at(seed, read_only=True).folder.is_dir() for seed in seeds):
            return None
        return stored_measurements(samples, self.benchmarks(config), recipe)

    def checkpoints_are_measured(self, run: Run, config: SageConfig) -> bool:
        """Whether a finished run and all that it keeps of its way are measured."""
        if not run.finished:
            return False
        policies = named_policies(f"{run.id}@all", Runs(run.folder.parent), config.model)
        measured = [self.measured(one, config) is not None for one in policies]
        return all(measured) and len(measured) == len(checkpoint_steps(run)) + 1
