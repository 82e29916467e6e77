"""A sweep: what it searches and how, its trials, their tasks, its folder, and all sweeps."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from typing_extensions import TypedDict

from sage_cli.config.consent import own_files, set_words
from sage_cli.config.load import changed, with_layers
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark, refuse_unnamed
from sage_cli.json_value import leaves
from sage_cli.problems.source_errors import reading
from sage_cli.settings.presets import read_layer
from sage_cli.settings.runs import Objective, Sampler, SweepSection
from sage_cli.store.files import identity_of, read_object, write_json, write_object
from sage_cli.store.locks import DRIVER, holder_of
from sage_cli.store.run import Run, full_name
from sage_cli.store.run_facts import Entry, SweepRuns, Value
from sage_cli.trials.search.read_space import read_space
from sage_cli.trials.search.space import Point, Space, State, point_key
from sage_cli.trials.task import Measurements, Replicate, Task, TaskList, Trial, stored_results

if TYPE_CHECKING:
    from sage_cli.metrics import Counts
    from sage_cli.reports.sweep_report import SweepResult
    from sage_cli.trials.search.study import Study


STATE, TASKS = "state.json", "tasks"
"""The driver's state for readers, and the folder of configurations and logs."""
CONFIG, SETTINGS = "config.json", "settings.json"
REPORT, PAGE = "sweep.json", "sweep.html"
AGAIN = "remove it and type the same command again"
"""The remedy for a torn file."""
OTHER_VERSION = (
    "read the sweep with the version that wrote it, or type it again: this version begins a sweep "
    "of its own. The runs are listed by `sage runs list`"
)
"""The next step for a sweep whose files this version can't read."""


class SweepFacts(TypedDict):
    """The space and how it is searched; `view` is the study's name in its journal."""

    name: str
    space: list[dict[str, Any]]
    sampler: str
    objectives: list[str]
    view: str


class SweepState(SweepFacts):
    """state.json: how many trials ended how, and the best one."""

    trials: dict[str, int]
    best: str | None


class SweepFolder:
    """The files of `runs/sweeps/<name>/`.

    config.json is the configuration, settings.json what decides the trials' results, state.json how
    far the sweep is, runs.jsonl which run belongs to which trial; tasks/ has a configuration and
    a log for each task, and the jobs that outlive their driver.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = SweepRuns(path)

    @property
    def name(self) -> str:
        """Name of the sweep."""
        return self.path.name

    def require_same(self, settings: Mapping[str, Any]) -> None:
        """Write what decides the trials' results, unless the folder holds other settings.

        `settings` is `sweep_settings`. Raises ConfigurationError with what differs.
        """
        stored = self._held(SETTINGS)
        if stored is not None and stored != settings:
            names = sorted({*stored, *settings})
            differing = [name for name in names if stored.get(name) != settings.get(name)]
            changes = [
                f"{name} was {stored.get(name)}, is {settings.get(name)}" for name in differing[:5]
            ]
            more = f", and {len(differing) - 5} more" if len(differing) > 5 else ""
            raise ConfigurationError(
                f"the study {self.name} belongs to another sweep: {'; '.join(changes)}{more}",
                "give this sweep another name with --study, or leave the option out",
            )
        write_object(self.path / SETTINGS, dict(settings))

    def keep_config(self, config: SageConfig) -> None:
        """Write the configuration with which the sweep is resumed."""
        write_json(self.path / CONFIG, with_layers(config))

    @property
    def tasks(self) -> Path:
        """The folder of configurations and logs."""
        return self.path / TASKS

    def write_state(self, state: SweepState) -> None:
        """Write how far the sweep is."""
        write_object(self.path / STATE, state)

    def remember(self, point: Mapping[str, Value], seed: int, run: str) -> None:
        """Enter a replicate's run in the list, unless it is there."""
        if run not in {entry.run for entry in self.runs.entries()}:
            self.runs.append(Entry(dict(point), seed, run))

    @property
    def state(self) -> dict[str, Any]:
        """The last state.json: space, sampler, objectives, counts of trials, the best one."""
        return read_object(self.path / STATE, AGAIN)

    @property
    def driven_by(self) -> str | None:
        """A phrase that names the process that drives it now; None if there is none."""
        return holder_of(self.path, DRIVER)

    @property
    def result(self) -> SweepResult | None:
        """Its last report; None before there is one.

        Raises StoreError if it is torn, or of a version of sage that wrote it otherwise.
        """
        from sage_cli.reports.sweep_report import from_data

        data = self._held(REPORT)
        try:
            return None if data is None else from_data(data)
        except (AttributeError, KeyError, TypeError) as error:
            raise StoreError(
                f"{self.path / REPORT} was written by another version of sage, or edited: "
                f"{type(error).__name__}: {error}",
                OTHER_VERSION,
            ) from None

    @property
    def provenance(self) -> dict[str, Any]:
        """The provenance of its last report."""
        return (self._held(REPORT) or {}).get("provenance") or {}

    def commands(self, result: SweepResult) -> dict[str, str]:
        """Return the `sage rl` that leads to each trial's first run, by the trial's number."""
        functions = set_words(own_files(read_layer(self.path / CONFIG)))
        return {
            str(number): shlex.join(
                ("sage", "rl", "--config", str(self._config_of(trial.runs[0])), *functions)
            )
            for number, trial in enumerate(result.trials, 1)
            if trial.runs
        }

    def _config_of(self, run: str) -> Path:
        """Return a run's task file, or its own configuration if no driver here began it."""
        task = self.tasks / f"{run}.json"
        return task if task.is_file() else self.path.parent.parent / run / CONFIG

    @property
    def page(self) -> Path:
        """The page of its last report."""
        return self.path / PAGE

    def _held(self, name: str) -> dict[str, Any] | None:
        """The content of a file; None if it is not there."""
        file = self.path / name
        return read_object(file, AGAIN) if file.is_file() else None


class Sweeps:
    """All sweeps below a folder of runs."""

    def __init__(self, root: Path) -> None:
        self.root = root / "sweeps"

    def all(self) -> list[SweepFolder]:
        """Every sweep, the latest at the end."""
        paths = sorted(self.root.glob(f"[!.]*/{STATE}"), key=lambda path: path.stat().st_mtime)
        return [SweepFolder(path.parent) for path in paths]

    def find(self, name: str) -> SweepFolder:
        """The sweep called `name`: its name, an unambiguous part of it, or its folder."""
        if (Path(name) / STATE).is_file():
            return SweepFolder(Path(name))
        by_name = {sweep.name: sweep for sweep in self.all()}
        return by_name[full_name(name, by_name, "sweep", f"in {self.root}", "`sage sweep list`")]


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


def sweep_settings(shared: SageConfig, keys: Mapping[str, str]) -> dict[str, Any]:
    """The settings that decide the trials' results, by dotted name.

    `keys` maps the parameters' short names to settings. Values, objectives, seeds and samplers are
    not part of it, so they can change without losing a trial.
    """
    sections = {
        name: section.determinants() if hasattr(section, "determinants") else section
        for name, section in vars(shared).items()
    }
    searched = dict.fromkeys(keys.values(), "searched")
    return {**dict(leaves(sections)), **searched}


def sweep_name(shared: SageConfig, keys: Mapping[str, str]) -> str:
    """The sweep's name: its parameters, and eight digits of what decides its results."""
    identity = identity_of("sweep", sweep_settings(shared, keys))
    return shared.sweep.study or f"{'-'.join(keys)}-{identity[:8]}"


def sweep_folder(root: Path, name: str) -> Path:
    """The folder of a sweep, below the folder of runs."""
    return root / "sweeps" / name


def point_config(shared: SageConfig, point: Mapping[str, Any], seed: int = 0) -> SageConfig:
    """The configuration of a point's `seed`-th replicate."""
    config = changed(shared, point)
    return changed(config, {"rl.seed": config.rl.seed + seed}) if seed else config


ByBenchmark = Mapping[str, "Counts"]
"""The results of a policy on each benchmark."""


def counts_of(measured: Measurements) -> ByBenchmark:
    """Return the counts of a policy by benchmark, evaluation seeds pooled."""
    from sage_cli.metrics import pooled

    return {name: pooled([seed.counts for seed in seeds]) for name, seeds in measured.items()}


def score(objectives: Sequence[Objective], results: ByBenchmark) -> tuple[float, ...]:
    """Each objective's value; it is averaged over problems, then over benchmarks."""
    from sage_cli.metrics.ranking import by_problem

    return tuple(
        sum(float(by_problem(objective, result).mean()) for result in results.values())
        / len(results)
        for objective in objectives
    )


def mean_scores(scores: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean of each objective over replicates."""
    return tuple(sum(of_one) / len(scores) for of_one in zip(*scores, strict=True))


def validations(run: Run, objective: Objective) -> Iterator[tuple[int, float]]:
    """The objective at each step at which a training was measured on the validation problems."""
    names = set(objective.terms.values())
    for record in run.metrics.read():
        if all(f"eval/{name}" in record for name in names):
            measured = {name: float(record[f"eval/{name}"]) for name in names}
            yield int(record["step"]), objective.value(measured)


def describe(point: Mapping[str, object]) -> str:
    """The point's values by short name: `tau 0.465, rho 0.775`."""
    return ", ".join(
        f"{key.rsplit('.', 1)[-1]} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in point.items()
    )


_ALL_AT_ONCE = ("qmc", "gp", "cmaes")
"""Samplers that model all parameters at once, and sample those that some points lack at random."""


def choose_sampler(name: str | None, space: Space, objectives: Sequence[str]) -> str:
    """Return `name`, or where it is None `grid` for lists of values and `tpe` for ranges.

    Raises ConfigurationError if that sampler can't search `space`, with those that can.
    """
    chosen = name or ("tpe" if space.ranges else "grid")
    reason = _reason_against(chosen, space, objectives)
    if reason:
        names = get_args(Sampler)
        able = [name for name in names if not _reason_against(name, space, objectives)]
        remedy = f"choose --sampler {', '.join(able)}"
        if chosen == "grid":
            remedy = f"write values, for example {space.ranges[0]}=0.1|0.2|0.3, or {remedy}"
        raise ConfigurationError(f"the sampler {chosen} {reason}", remedy)
    return chosen


def _reason_against(sampler: str, space: Space, objectives: Sequence[str]) -> str | None:
    """Return why a sampler can't search `space`; None if it can."""
    if sampler == "grid" and space.ranges:
        return f"needs a list of values for {' and '.join(space.ranges)}, not a range"
    if sampler in _ALL_AT_ONCE and space.conditional:
        return f"needs every parameter in every point, but some points lack {space.conditional[0]}"
    if sampler != "cmaes":
        return None
    if len(objectives) > 1:
        return f"takes one objective, not {len(objectives)}: {', '.join(objectives)}"
    if words := [name for name, values in space.lists.items() if not values.numeric]:
        return f"searches numbers only, and {' and '.join(words)} has words or switches"
    return "needs at least two parameters" if len(space.parameters) < 2 else None


TRIALS = 30
"""Trials of a sampler if nothing else is said; a grid has one for each of its points."""


SHOWN_POINTS = 24
"""Points that are listed before a sweep begins."""


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
    def announcement(self) -> str:
        """Return the points that are tried, a line each, or who chooses them."""
        if self.sampler != "grid":
            names = ", ".join(key.rsplit(".", 1)[-1] for key in self.space.keys)
            return f"{self.total} trials: {self.sampler} chooses {names}"
        points = map(describe, islice(self.space.points(), SHOWN_POINTS))
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
        return None if measured is None else counts_of(measured)

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
        from sage_cli.trials.search.study import Study, pruner

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
                scores = [score(self.config.sweep.objectives, result) for result in measured]
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


def prepared(config: SageConfig) -> Sweep:
    """The sweep of a configuration, after every check that needs neither training nor rows."""
    refuse_unnamed(config, "sweep.benchmark")
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
