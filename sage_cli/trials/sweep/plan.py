"""A sweep as it is planned: what it searches, how, and by which tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.load import changed
from sage_cli.config.readers import as_read, is_read
from sage_cli.config.schema import SageConfig
from sage_cli.counted import counted
from sage_cli.errors import ConfigurationError, SageError
from sage_cli.evaluation.benchmarks import Benchmark, check_benchmark_named, check_untrained
from sage_cli.json_value import leaves
from sage_cli.models.facts import evaluation_facts, rl_facts
from sage_cli.models.folders import is_adapter
from sage_cli.models.policy import named_policy
from sage_cli.models.stages import Described, memory_of
from sage_cli.models.start_settings import with_model_of
from sage_cli.problems.load import benchmark_names, is_here
from sage_cli.problems.source_errors import reading
from sage_cli.settings.former_names import hashed_key
from sage_cli.settings.presets import BLOCKS
from sage_cli.settings.section import Section
from sage_cli.settings.sweep import SweepSection
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Runs
from sage_cli.training.checks import RlChecks
from sage_cli.training.run import RlTraining
from sage_cli.trials.cost import cost_left
from sage_cli.trials.stored_results import stored_results
from sage_cli.trials.sweep.folder import SweepFacts, SweepFolder, sweep_folder
from sage_cli.trials.sweep.read_space import read_space
from sage_cli.trials.sweep.sampler_choice import choose_sampler
from sage_cli.trials.sweep.scores import ByBenchmark, mean_scores, pooled_counts, trial_values
from sage_cli.trials.sweep.space import Point, Space, describe_point, point_key
from sage_cli.trials.sweep.study_trial import State
from sage_cli.trials.task import Task, TaskList, left_and_states
from sage_cli.trials.trial import Replicate, Trial

if TYPE_CHECKING:
    from sage_cli.trials.sweep.study import Study


SHOWN_POINTS = 24
"""Points that are listed before a sweep begins."""
TRIALS = 30
"""Trials of a sampler if nothing else is said; a grid has one for each of its points."""
VALIDATIONS = 6
"""How often a run is validated if trials that lag behind are ended."""


def shared_config(config: SageConfig) -> SageConfig:
    """The configuration that all trials share: each is measured once on the validation problems."""
    sweep = config.sweep
    shared: dict[str, Any] = {
        "evaluation.benchmark": sweep.benchmark,
        "evaluation.validation": sweep.benchmark,
        "evaluation.samples": sweep.samples,
        "evaluation.k": f"1..{sweep.samples}:pow2",
        "evaluation.seeds": 1,  # a trial is judged by one sample set
    }
    if sweep.steps:
        shared["rl.steps"] = sweep.steps
    if sweep.prune != "none":
        steps = sweep.steps or config.rl.steps
        shared["evaluation.every"] = config.evaluation.every or max(1, steps // VALIDATIONS)
        shared["evaluation.validation_samples"] = max(
            config.evaluation.validation_samples,
            *(objective.samples_needed for objective in sweep.objectives),
        )
    return changed(config, shared)


def sweep_settings(
    shared: SageConfig, keys: Mapping[str, str], *, as_given: bool = False
) -> dict[str, Any]:
    """The settings that decide the trials' results, by dotted name.

    `keys` maps the parameters' short names to settings. Values, objectives, seeds and samplers are
    not part of it, so they can change without losing a trial. What no trial reads has its default,
    unless `as_given`.
    """
    sections = {}
    for name, section in vars(shared).items():
        if not isinstance(section, Section):
            sections[name] = section
        elif as_given:
            sections[name] = section.determinants()
        else:
            sections[name] = as_read(shared, name, keys.values()).determinants()
    settings = {
        key: value
        for key, value in leaves(sections)
        # what a preset says of methods and guides that no trial has
        if as_given or key.partition(".")[0] not in BLOCKS or is_read(shared, key, keys.values())
    }
    searched = dict.fromkeys(map(hashed_key, keys.values()), "searched")
    return {**settings, **searched}


def sweep_name(shared: SageConfig, keys: Mapping[str, str]) -> str:
    """The sweep's name: its parameters, and eight digits of what decides its results.

    Earlier releases hashed what no trial reads, too. Where there is a sweep under that name, and
    none under today's, it is the same one.
    """
    if shared.sweep.study:
        return shared.sweep.study
    today, formerly = (
        f"{'-'.join(keys)}-{identity_of('sweep', settings)[:8]}"
        for settings in (sweep_settings(shared, keys), sweep_settings(shared, keys, as_given=True))
    )
    folders = {name: sweep_folder(shared.run.root, name).is_dir() for name in (today, formerly)}
    return formerly if folders[formerly] and not folders[today] else today


def point_config(shared: SageConfig, point: Mapping[str, Any], seed: int = 0) -> SageConfig:
    """The configuration of a point's `seed`-th replicate."""
    config = changed(shared, point)
    return changed(config, {"rl.seed": config.rl.seed + seed}) if seed else config


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
    size: int | None
    folder: SweepFolder
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

    def check_same(self) -> None:
        """Raise ConfigurationError if the folder belongs to a sweep with other results."""
        searched = self.space.keys.values()
        self.folder.check_same(self.determinants, lambda key: is_read(self.shared, key, searched))

    @property
    def initial(self) -> Replicate:
        """The initial policy of the shared configuration."""
        return Replicate("initial policy", 0, self.shared, is_initial=True)

    def trial(self, point: Point) -> Trial:
        """The trial of a point, with a replicate for each seed.

        Raises SageError if the point's settings contradict each other.
        """
        title, group = describe_point(point), {**point, "tracking.group": self.folder.name}
        replicates = (
            Replicate(
                title + (f", seed {self.shared.rl.seed + seed}" if seed else ""),
                seed,
                point_config(self.shared, group, seed),
            )
            for seed in range(self.config.sweep.seeds)
        )
        return Trial(title, point, tuple(replicates))

    def trainings(self, point: Point) -> list[Task]:
        """The tasks that train and measure the trial's replicates."""
        return [self.tasks.training(replicate) for replicate in self.trial(point).replicates]

    @property
    def benchmarks(self) -> Sequence[Benchmark]:
        """The problems that settings are chosen by, read once."""
        with reading(self.config, "evaluation", "sweep.benchmark"):
            return self.tasks.benchmarks.load(self.shared)

    def known_tasks(self) -> list[Task]:
        """The trainings of all points of a grid; [] where a sampler chooses the points."""
        points = self.space.points() if self.sampler == "grid" else ()
        return [task for point in points for task in self.trainings(point)]

    @property
    def fewer_trials(self) -> str:
        """Return why there are fewer trials than were asked for; empty where there aren't."""
        asked = self.config.sweep.trials
        if self.sampler == "grid" or asked is None or self.total >= asked:
            return ""
        return f"the space has only {counted(self.total, 'point')}, fewer than --trials {asked}"

    @property
    def announcement(self) -> str:
        """Return the points that are tried, a line each, or who chooses them."""
        if self.sampler != "grid":
            names = ", ".join(key.rsplit(".", 1)[-1] for key in self.space.keys)
            fewer = f" ({self.fewer_trials})" if self.fewer_trials else ""
            return f"{self.total} trials{fewer}: {self.sampler} chooses {names}"
        points = map(describe_point, islice(self.space.points(), SHOWN_POINTS))
        rest = [f"and {self.total - SHOWN_POINTS} more"] if self.total > SHOWN_POINTS else []
        return "\n  ".join([f"{self.total} trials:", *points, *rest])

    def initial_task(self) -> Task:
        """Measure the shared initial policy as the trials are, for comparison."""
        return self.tasks.measurement(self.initial)

    def results(self, replicate: Replicate) -> ByBenchmark | None:
        """The results of a replicate by benchmark; None unless all of them are stored.

        Raises SageError if what is stored cannot be read.
        """
        measured = stored_results(replicate.policy, replicate.config, self.tasks.benchmarks)
        return None if measured is None else pooled_counts(measured)

    def facts(self, study: Study) -> SweepFacts:
        """The content of the sweep's state besides its counts."""
        return {
            "name": self.folder.name,
            "space": self.space.plain(),
            "sampler": self.sampler,
            "objectives": list(self.config.sweep.objective),
            "view": study.name,
        }

    def open_study(self) -> Study:
        """The view of the study that the space, sampler, objectives and seeds make.

        A new view starts with the results of earlier ones.
        """
        # these import Optuna, which a dry run does not need
        from sage_cli.trials.sweep.samplers import pruner
        from sage_cli.trials.sweep.study import Study

        settings = self.config.sweep
        study = Study.open(
            self.folder.path,
            self.folder.name,
            self.space,
            self.sampler,
            settings.seed,
            settings.objective,
            {"seeds": settings.seeds, "prune": settings.prune},
            pruner(settings.prune, self.shared.evaluation.every or 1, self.shared.rl.steps),
        )
        self._learn(study)
        return study

    def _learn(self, study: Study) -> None:
        """Enter stored results of listed runs that the study does not know, as of another view."""
        # the result of a trial that failed may have been made since, by hand or by another sweep
        ended = (State.DONE, State.RUNNING)
        known_points = {point_key(trial.point) for trial in study.trials() if trial.state in ended}
        self.folder.runs.repair()
        points = {point_key(entry.point): entry.point for entry in self.folder.runs.entries()}
        for key, point in points.items():
            if key in known_points or point not in self.space:
                continue
            results = [self.results(replicate) for replicate in self.trial(point).replicates]
            measured = [result for result in results if result is not None]
            if len(measured) == len(results):
                scores = [trial_values(self.config.sweep.objectives, result) for result in measured]
                study.known(point, mean_scores(scores), source="an earlier view of this sweep")


def trial_count(config: SageConfig) -> int:
    """Return the number of trials of a sweep that none are infeasible in."""
    section, space = config.sweep, read_space(config.sweep.space, config)
    sampler = choose_sampler(section.sampler, space, section.objective)
    return _total_and_size(section, space, sampler)[0]


def _total_and_size(section: SweepSection, space: Space, sampler: str) -> tuple[int, int | None]:
    """Return the number of trials, and of points, None if there are too many to list."""
    points = list(space.points()) if sampler == "grid" else space.listed()
    trials = None if sampler == "grid" else section.trials or TRIALS
    size = None if points is None else len(points)
    return min(count for count in (trials, size) if count is not None), size


def prepare_sweep(config: SageConfig) -> Sweep:
    """The sweep of a configuration, after every check that needs neither training nor rows."""
    check_benchmark_named(config, "sweep.benchmark")
    settings, space = config.sweep, read_space(config.sweep.space, config)
    sampler = choose_sampler(settings.sampler, space, settings.objective)
    shared = shared_config(config)
    name = sweep_name(shared, space.keys)
    tasks = TaskList(config, training=("--set", f"run.sweep={name}"))
    total, size = _total_and_size(settings, space, sampler)
    return Sweep(
        config,
        space,
        sampler,
        total,
        shared,
        size,
        SweepFolder(sweep_folder(config.run.root, name)),
        tasks,
    )


def start_from(init: str, config: SageConfig) -> SageConfig:
    """Return `config` with the model called `init` as every trial's initial policy, without SFT.

    Raises ConfigurationError for an adapter, which the configuration of a trial can't name.
    """
    runs = Runs(config.run.root)
    policy = named_policy(init, runs, config.model)
    policy.require_weights()
    if is_adapter(Path(policy.path)):
        raise ConfigurationError(
            f"--init {init} is a LoRA adapter, and the trials of a sweep start from whole models",
            f"write it as one with `sage export {init} FOLDER`, and give --init FOLDER",
        )
    started = with_model_of(policy.path, config)
    return changed(started, {"model.path": policy.path, "sft.enabled": False})


def check_sweep(search: Sweep, *, offline: bool = False) -> str:
    """Raise what refuses a sweep, or every trial of it, before a model is loaded.

    Returns a note on rows that only the Hub has, which `offline` leaves unread.
    """
    checks, data = RlChecks(search.shared), search.config.data
    note = checks.check(offline=offline)
    names = benchmark_names(search.config.sweep.benchmark)
    if not offline or (checks.is_here and all(is_here(name, data) for name in names)):
        check_untrained(search.benchmarks, data, "sweep.benchmark")
    return note


def _without_searched(facts: Mapping[str, Any], search: Sweep) -> dict[str, Any]:
    """Return the facts of the shared settings, in which no searched setting has a value.

    A fact depends on a parameter if it is another one under another of its values.
    """
    shown = dict(facts)
    shared = dict(leaves(search.shared.model_dump(mode="json")))
    for name, parameter in search.space.parameters.items():
        others = []
        for value in parameter.examples:
            with suppress(SageError):  # a value may need another parameter's
                others.append(rl_facts(changed(search.shared, {parameter.key: value})))
        for key, text in shown.items():
            if all(other.get(key) == facts[key] for other in others):
                continue
            written = f"{parameter.key.rpartition('.')[2]} {shared.get(parameter.key)}"
            shown[key] = (
                text.replace(written, f"{name} is searched")
                if isinstance(text, str) and written in text
                else f"depends on {name}, which is searched"
            )
    return shown


def plan_sweep(config: SageConfig, gpu: int | None = None) -> list[Described]:
    """The stages of a sweep: its initial policy, what its trials share, and every task.

    `gpu` is the GB of a GPU, against which memory of the shared settings is laid.
    """
    search = prepare_sweep(config)
    config, shared = search.shared, search.shared
    shared_facts = _without_searched(rl_facts(config), search)
    shared_facts["problems"] += check_sweep(search, offline=True)
    tasks = search.known_tasks()
    left, states = left_and_states(tasks)
    done = len(tasks) - len(left)
    runs = search.total * config.sweep.seeds
    if not tasks:  # a sampler chooses the points: each costs what the shared settings do
        left = [search.tasks.training(Replicate("trial", 0, shared))] * runs
    facts: dict[str, Any] = {
        "folder": str(search.folder.path),
        "sampler": search.sampler,
        "space": "; ".join(search.space.in_words.values()),
        "trials": search.total,
        **({"fewer trials": search.fewer_trials} if search.fewer_trials else {}),
        "runs": f"{runs} ({done} finished)",
        "objectives": " and ".join(config.sweep.objective),
        "left": cost_left(left).describe(),
        **evaluation_facts(shared),
        **states,
    }
    trial = RlTraining.of(shared, measure=gpu is not None)  # whose memory is asked for
    return [
        trial.start.describe(),
        Described("RL, shared by all trials", shared_facts),
        Described("sweep", facts),
        *memory_of(trial.stages, gpu),
    ]
