"""Stored measurements of trials: nothing is sampled, graded, loaded or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec
from sage_cli.models.policies.names import checkpoint_steps, named_policies
from sage_cli.models.policies.policy import Policy
from sage_cli.store.runs.run import Run, Runs

if TYPE_CHECKING:
    from sage_cli.evaluation.benchmarks import Benchmark
    from sage_cli.evaluation.exact.chances import Chances
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

        key = config.model_dump_json(include={"evaluation", "data", "grading"})
        if key not in self._benchmarks:
            judge = config.grading.judge
            self._benchmarks[key] = load_benchmarks(config.evaluation, config.data, judge)
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

    def chances(
        self, policy: Policy, config: SageConfig, temperatures: Sequence[float]
    ) -> Mapping[str, Chances] | None:
        """By benchmark the exact chances of a policy's right texts; None if some are missing.

        Raises DataError for a benchmark whose right texts nothing lists.
        """
        if not policy.is_here:
            return None
        from sage_cli.evaluation.exact.chances import exact_reader
        from sage_cli.evaluation.sample_sets import PolicySamples

        own = PolicySamples.of_evaluation(policy, EvaluationSpec.of(config), config.run.root)
        readers = {
            one.name: exact_reader(own, one, config.data, temperatures)
            for one in self.benchmarks(config)
        }
        found = {name: reader.stored() for name, reader in readers.items()}
        whole = {name: chances for name, chances in found.items() if chances is not None}
        return whole if len(whole) == len(found) else None

    def chances_are_read(
        self, policy: Policy, config: SageConfig, temperatures: Sequence[float], all_of_it: bool
    ) -> bool:
        """Return True if exact chances are stored, with `all_of_it` those of checkpoints too."""
        if not policy.exists:
            return False
        policies = self.on_the_way(policy.run, config) if all_of_it else [policy]
        return all(self.chances(one, config, temperatures) is not None for one in policies)

    def on_the_way(self, run: Run | None, config: SageConfig) -> list[Policy]:
        """Return the checkpoints of a finished training that are there, and its end last."""
        if run is None or not run.finished:
            return []
        return named_policies(f"{run.id}@all", Runs(run.folder.parent), config.model)

    def checkpoints_are_measured(self, run: Run, config: SageConfig) -> bool:
        """Return True if a finished run and all its checkpoints are measured."""
        policies = self.on_the_way(run, config)
        measured = [self.measured(one, config) is not None for one in policies]
        return all(measured) and len(measured) == len(checkpoint_steps(run)) + 1
