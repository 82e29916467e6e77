"""The confirmation of a sweep's best trials: fresh seeds, measured on the reported benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.trials.search.prepared import Sweep, measured_benchmarks
from sage_cli.trials.search.shared import point_config
from sage_cli.trials.stored import StoredMeasurements
from sage_cli.trials.task import Task
from sage_cli.trials.tasks import TaskList
from sage_cli.trials.trial import Replicate

if TYPE_CHECKING:
    from sage_cli.trials.search.space.space import Point

FRESH = 1000
"""The first fresh seed, counted from rl.seed: a search has those below."""


@dataclass(frozen=True)
class Confirmation:
    """The trials `points` by their places in the report, and so many fresh `seeds` of each."""

    sweep: Sweep
    points: Mapping[int, Point]
    seeds: int

    @cached_property
    def config(self) -> SageConfig:
        """The configuration of the search's trials, measured as `evaluation` says."""
        given, shared = self.sweep.config, self.sweep.shared
        largest = max(one.samples_needed for one in given.sweep.objectives)
        samples = max(given.evaluation.samples, largest)
        measured = {
            "evaluation.benchmark": given.evaluation.benchmark,
            "evaluation.samples": samples,
            "evaluation.k": f"1..{samples}:pow2",
            "evaluation.seeds": given.evaluation.seeds,
            "evaluation.every": given.evaluation.every,
        }
        return changed(shared, measured)

    @cached_property
    def benchmarks(self) -> Sequence[Benchmark]:
        """The reported problems."""
        return measured_benchmarks(self.config, self.sweep.config.sweep)

    @cached_property
    def stored(self) -> StoredMeasurements:
        """The measurements on the reported problems."""
        return StoredMeasurements(self.benchmarks)

    def replicates(self, place: int) -> list[Replicate]:
        """Return the trainings of a trial with fresh seeds."""
        point = self.points[place]
        return [
            self.sweep.replicate(self.config, point, FRESH + i, f", fresh seed {i + 1}")
            for i in range(self.seeds)
        ]

    def initial(self, place: int) -> Replicate:
        """Return the initial policy from which a trial starts."""
        config = point_config(self.config, self.points[place])
        return Replicate("initial policy", 0, config, is_initial=True)

    def tasks(self) -> list[Task]:
        """Return every task: the measurements of initial policies, then trainings, each once."""
        name = self.sweep.folder.name
        tasks = TaskList(self.config, self.stored, training=("--set", f"run.sweep={name}"))
        initial = [tasks.measurement(self.initial(place)) for place in self.points]
        every = [one for place in self.points for one in self.replicates(place)]
        trained = [tasks.training(one) for one in every]
        return list({task.name: task for task in (*initial, *trained)}.values())

    def require_fresh(self, searched: Sequence[str]) -> None:
        """Raise ConfigurationError if a run of the search has a seed that is to be fresh.

        `searched` are the runs of its report; its list of runs has those of earlier searches.
        """
        entries = self.sweep.folder.runs.entries()
        known = {*searched, *(entry.run for entry in entries if entry.seed < FRESH)}
        runs = [one.policy.label for place in self.points for one in self.replicates(place)]
        seeds = self.sweep.config.sweep.seeds
        if seeds > FRESH or (used := [run for run in runs if run in known]):
            which = f"{seeds} seeds per trial" if seeds > FRESH else f"the run {used[0]}"
            first = self.sweep.config.rl.seed + FRESH
            raise ConfigurationError(
                f"the search has {which}, and seeds from rl.seed + {FRESH} = {first} confirm it: "
                "they would not be fresh",
                f"search with at most {FRESH} seeds, under another name with --study",
            )
