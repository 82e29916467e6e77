"""A sweep: what it searches and how, its trials, their tasks, and what is stored of them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks
from sage_cli.settings.sections.sweep import SweepSection
from sage_cli.store.identity import identity_of
from sage_cli.trials.search.folder import SweepFacts, SweepFolder
from sage_cli.trials.search.scores import (
    ByBenchmark,
    describe,
    mean_scores,
    results_of,
    score,
    stored_results,
)
from sage_cli.trials.search.shared import (
    point_config,
    shared_config,
    sweep_folder,
    sweep_name,
    sweep_settings,
)
from sage_cli.trials.search.space.read import read_space
from sage_cli.trials.search.space.space import Point, Space, point_key
from sage_cli.trials.search.study.sampler_choice import choose_sampler
from sage_cli.trials.search.study.study_trial import State
from sage_cli.trials.stored import StoredMeasurements
from sage_cli.trials.task import Task
from sage_cli.trials.tasks import TaskList
from sage_cli.trials.trial import Replicate, Trial

if TYPE_CHECKING:
    from sage_cli.trials.search.study.study import Study

TRIALS = 30
"""Trials of a sampler if nothing else is said; a grid has one for each of its points."""


@dataclass(frozen=True)
class Sweep:
    """Space, sampler, number of trials, and where the sweep's memory is.

    `shared` is the configuration that all trials have in common; `size` is the number of points,
    None if there are too many to list.
    """

    config: SageConfig
    space: Space
    sampler: str
    total: int
    shared: SageConfig
    benchmarks: Sequence[Benchmark]
    size: int | None
    folder: SweepFolder
    stored: StoredMeasurements
    tasks: TaskList

    @property
    def settings(self) -> SweepSection:
        """The sweep's section with the number of trials; a grid ends by itself."""
        trials = None if self.sampler == "grid" else self.total
        return self.config.sweep.model_copy(update={"trials": trials})

    def wanted(self, infeasible: int) -> int:
        """The number of trials in all if so many of them are infeasible, which do not count."""
        count = self.total + infeasible
        return count if self.size is None else min(count, self.size)

    @property
    def determinants(self) -> dict[str, Any]:
        """The settings that decide the trials' results, without those that are searched."""
        return sweep_settings(self.shared, self.space.keys)

    @property
    def initial(self) -> Replicate:
        """The initial policy of the shared configuration."""
        return Replicate("initial policy", 0, self.shared, is_initial=True)

    def trial(self, point: Point) -> Trial:
        """The trial of a point, with a replicate for each seed.

        Raises SageError if the point's settings contradict each other.
        """
        title, group = describe(point), {**point, "tracking.group": self.folder.name}
        replicates = (
            Replicate(
                title + (f", seed {seed + 1}" if seed else ""),
                seed,
                point_config(self.shared, group, seed),
            )
            for seed in range(self.config.sweep.seeds)
        )
        return Trial(title, point, tuple(replicates))

    def trainings(self, point: Point) -> list[Task]:
        """The tasks that train and measure the trial's replicates."""
        return [self.tasks.training(one) for one in self.trial(point).replicates]

    def known_tasks(self) -> list[Task]:
        """The trainings of all points of a grid; [] where a sampler chooses the points."""
        points = self.space.points() if self.sampler == "grid" else ()
        return [task for point in points for task in self.trainings(point)]

    def initial_task(self) -> Task:
        """Measure the shared initial policy as the trials are, for comparison."""
        return self.tasks.measurement(self.initial)

    def results_of(self, task: Task) -> ByBenchmark:
        """The results of a training that is done."""
        if task.measured is not None:  # read when it was asked if it is done
            return results_of(task.measured)
        assert task.replicate is not None  # a training has one
        found = self.results(task.replicate)
        if found is None:
            raise StoreError(
                f"what was measured of {task.name} is gone", "type the command again to measure it"
            )
        return found

    def results(self, one: Replicate) -> ByBenchmark | None:
        """The results of a replicate by benchmark; None unless all of them are stored.

        Raises SageError if what is stored cannot be read.
        """
        return stored_results(self.stored, one)

    def facts(self, study: Study) -> SweepFacts:
        """The content of the sweep's state besides its counts."""
        return {
            "name": self.folder.name,
            "space": self.space.plain(),
            "sampler": self.sampler,
            "objectives": list(self.config.sweep.objective),
            "storage": self.config.sweep.storage,
            "view": study.name,
        }

    def open_study(self) -> Study:
        """The view of the study that the space, sampler, objectives and seeds make.

        A new view starts with the results of earlier ones. It has to be closed.
        """
        from sage_cli.trials.search.lease import (
            Owner,  # imports Optuna, which a dry run does not need
        )
        from sage_cli.trials.search.study.samplers import pruner
        from sage_cli.trials.search.study.study import Study

        settings, folder = self.config.sweep, self.folder
        recipe = identity_of("sweep", self.determinants)[:8]
        owner = Owner(folder.mark(), str(folder.path.resolve()), recipe, socket.gethostname())
        study = Study.open(
            settings.storage or folder.path,
            folder.name,
            self.space,
            self.sampler,
            settings.seed,
            settings.objective,
            {"seeds": settings.seeds, "prune": settings.prune},
            owner,
            pruner(settings.prune, self.shared.evaluation.every or 1, self.shared.rl.steps),
        )
        self._learn(study)
        return study

    def _learn(self, study: Study) -> None:
        """Tell the study what the list of runs leads to and it does not know."""
        ended = (State.DONE, State.RUNNING)  # of others somebody may have made the result since
        known = {point_key(one.point) for one in study.trials() if one.state in ended}
        self.folder.runs.mend()
        points = {point_key(entry.point): entry.point for entry in self.folder.runs.entries()}
        for key, point in points.items():
            if key in known or point not in self.space:
                continue
            found = [self.results(one) for one in self.trial(point).replicates]
            scores = [score(self.config.sweep.objectives, one) for one in found if one is not None]
            if len(scores) == len(found):
                study.known(point, mean_scores(scores), source="an earlier view of this sweep")


def measured_benchmarks(config: SageConfig, sweep: SweepSection) -> list[Benchmark]:
    """Return the problems on which the objectives are measured.

    Raises ConfigurationError where a gain is to be measured on one problem.
    """
    benchmarks = load_benchmarks(config.evaluation, config.data, config.grading.judge)
    gains = _gains(sweep)
    few = [one.name for one in benchmarks if len(one.problems) < 2]
    if gains and few:
        raise ConfigurationError(
            f"objective {gains[0]} needs two problems or more, and {few[0]} has one",
            "raise evaluation.limit, or search for exact@k",
        )
    return benchmarks


def _gains(sweep: SweepSection) -> list[str]:
    return [one.name for one in sweep.objectives if one.measure == "gain"]


def _refuse_unread_temperatures(sweep: SweepSection) -> None:
    """Raise ConfigurationError for temperatures that no objective reads.

    Runs that were stored when the setting had another default hold some, so not when one is read.
    """
    if sweep.temperatures and not _gains(sweep):
        over = ", ".join(f"{one:g}" for one in sweep.temperatures)
        raise ConfigurationError(
            f"sweep.temperatures {over} would do nothing: gain@k alone reads them, and the "
            f"objective is {' and '.join(sweep.objective)}",
            "add --objective gain@256, or leave them out",
        )


def prepared(config: SageConfig) -> Sweep:
    """The sweep of a configuration, after every check that needs no training."""
    settings, space = config.sweep, read_space(config.sweep.space, config)
    _refuse_unread_temperatures(settings)
    sampler = choose_sampler(settings.sampler, space, settings.objective)
    shared = shared_config(config)
    name = sweep_name(shared, space.keys)
    benchmarks = measured_benchmarks(shared, settings)
    stored = StoredMeasurements(benchmarks)
    known = list(space.points()) if sampler == "grid" else space.listed()
    wanted = None if sampler == "grid" else settings.trials or TRIALS
    counts = (wanted, None if known is None else len(known))
    return Sweep(
        config,
        space,
        sampler,
        min(count for count in counts if count is not None),
        shared,
        benchmarks,
        None if known is None else len(known),
        SweepFolder(sweep_folder(config.run.root, name)),
        stored,
        TaskList(config, stored, training=("--set", f"run.sweep={name}")),
    )
