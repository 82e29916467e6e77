"""Stored measurements of trials: nothing is sampled, graded, loaded or written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec
from sage_cli.models.policies.names import checkpoint_steps, named_policies
from sage_cli.models.policies.policy import Policy
from sage_cli.store.runs.run import Run, Runs

if TYPE_CHECKING:
    from sage_cli.evaluation.benchmarks import Benchmark
    from sage_cli.trials.task import Measurements


class StoredMeasurements:
    """Reads the measurements of policies from the store.

    With `benchmarks` all of them are on these problems; otherwise each configuration's are read.
    """

    def __init__(self, benchmarks: Sequence[Benchmark] | None = None) -> None:
        self._given = benchmarks
        self._benchmarks: dict[str, Sequence[Benchmark]] = {}

    def benchmarks(self, config: SageConfig) -> Sequence[Benchmark]:
        """The problems that a configuration measures on."""
        if self._given is not None:
            return self._given
        from sage_cli.evaluation.benchmarks import load_benchmarks

        key = config.model_dump_json(include={"evaluation", "data"})
        if key not in self._benchmarks:
            self._benchmarks[key] = load_benchmarks(config.evaluation, config.data)
        return self._benchmarks[key]

    def measured(self, policy: Policy, config: SageConfig) -> Measurements | None:
        """All that `config` measures of a policy; None if some of it is missing.

        Raises SageError if stored samples cannot be counted.
        """
        recipe, first = EvaluationSpec.of(config), config.evaluation.seed
        if not policy.is_here:
            return None
        # import numpy and pyarrow, which a dry run before any training does not need
        from sage_cli.evaluation.sample_sets import PolicySamples
        from sage_cli.evaluation.stored import stored_measurements

        samples = PolicySamples.of_evaluation(policy, recipe, config.run.root)
        seeds = range(first, first + recipe.evaluation.seeds)
        # before problems are read, which may not be on this machine
        if not all(samples.at(seed, read_only=True).folder.is_dir() for seed in seeds):
            return None
        return stored_measurements(samples, self.benchmarks(config), recipe)

    def checkpoints_are_measured(self, run: Run, config: SageConfig) -> bool:
        """Return True if a finished run and all its checkpoints are measured."""
        if not run.finished:
            return False
        policies = named_policies(f"{run.id}@all", Runs(run.folder.parent), config.model)
        measured = [self.measured(one, config) is not None for one in policies]
        return all(measured) and len(measured) == len(checkpoint_steps(run)) + 1
