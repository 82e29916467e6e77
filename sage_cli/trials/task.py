"""Tasks: commands that a person could type, made for the trials of suites and sweeps.

Each says what it gets, where its result will be, what of it is stored, and what it costs at most.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import TypedDict

from sage_cli.config.consent import consents, typed_again
from sage_cli.config.load import not_read
from sage_cli.config.schema import SageConfig
from sage_cli.errors import DataError, SageError
from sage_cli.methods.method import batch_of
from sage_cli.models.planned import planned_base, rl_run, state
from sage_cli.models.policy import Policy, checkpoint_steps, named_policies
from sage_cli.models.shipped_base import source_of
from sage_cli.problems.data_set import DataSet, Group
from sage_cli.problems.load import benchmark_names, is_here, load_problems
from sage_cli.problems.registry import find, is_file_name
from sage_cli.settings.inputs import DataSection
from sage_cli.store.files import TornError, identity_of, name_once, read_object, write_object
from sage_cli.store.run import Run, Runs
from sage_cli.trials.executors.build import local_places, task_resources
from sage_cli.trials.executors.executor import Command, Resources

if TYPE_CHECKING:
    from sage_cli.evaluation.benchmarks import Benchmark
    from sage_cli.metrics.counts import SeedCounts


@dataclass(frozen=True)
class Words:
    """The words of a command line that make a configuration: presets, flags and `--set`."""

    presets: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    sets: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """The words of a training."""
        flags = [part for name, value in self.flags.items() for part in (f"--{name}", value)]
        return (*self.about(""), *flags)

    def about(self, *sections: str) -> tuple[str, ...]:
        """The presets, and each `--set` whose key begins with one of these sections."""
        sets = [assignment for assignment in self.sets if assignment.startswith(sections)]
        options = [
            *(("--preset", word) for word in self.presets),
            *(("--set", word) for word in sets),
        ]
        return tuple(part for option in options for part in option)

    def read_by(self, command: str, config: SageConfig) -> Words:
        """Return the words without each `--set` that `sage command` would refuse as idle."""
        names = {text: text.partition("=")[0] for text in self.sets}
        sets = [text for text, name in names.items() if not not_read(command, name, config)]
        return replace(self, sets=tuple(sets))


@dataclass(frozen=True, eq=False)
class Replicate:
    """One training of a trial, the `seed`-th from 0, or the initial policy itself.

    Its parent, its run and its policy are known before anything runs.
    """

    title: str
    seed: int
    config: SageConfig
    words: Words = Words()
    is_initial: bool = False

    @cached_property
    def initial(self) -> Policy:
        """The initial policy, from which RL starts."""
        return planned_base(self.config, Runs(self.config.run.root))

    @cached_property
    def policy(self) -> Policy:
        """The policy that is measured, trained or not yet."""
        if self.is_initial:
            return self.initial
        config, runs = self.config, Runs(self.config.run.root)
        pool = None
        if config.data.rl.solved_by is not None:
            # reads stored counts, whose libraries no other plan loads
            from sage_cli.training.pass_rates import pool_identity

            pool = pool_identity(config, runs.root)
        run = rl_run(config, self.initial, runs, config.rl.processes, pool)
        return Policy.of_run(run, consent=consents(config.model))


@dataclass(frozen=True, eq=False)
class Trial:
    """A point, by setting or by what a suite says of it, and its replicates over seeds."""

    label: str
    point: Mapping[str, Any]
    replicates: tuple[Replicate, ...]

    @property
    def config(self) -> SageConfig:
        """The configuration of the first replicate."""
        return self.replicates[0].config

    @property
    def is_initial(self) -> bool:
        """Return True if it is the initial policy, which RL does not train."""
        return self.replicates[0].is_initial


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
) -> Measurements | None:
    """Return all that `config` measures of a policy; None if some of it is not stored.

    Raises SageError if stored samples cannot be counted.
    """
    if not policy.is_here:
        return None
    # import numpy and pyarrow, which a dry run before any training does not need
    from sage_cli.evaluation.samples import PolicySamples, stored_measurements

    samples = PolicySamples.from_config(policy, config, config.run.root)
    first = config.evaluation.seed
    seeds = range(first, first + config.evaluation.seeds)
    # before problems are read, which may not be on this machine
    if not all(samples.at(seed, read_only=True).folder.is_dir() for seed in seeds):
        return None
    return stored_measurements(samples, benchmarks.load(config), config)


def checkpoints_are_measured(run: Run, config: SageConfig, benchmarks: BenchmarkCache) -> bool:
    """Return True if a finished run and all its checkpoints are measured."""
    if not run.finished:
        return False
    policies = named_policies(f"{run.id}@all", Runs(run.folder.parent), config.model)
    # a checkpoint whose weights were deleted is in the run's list alone
    return len(policies) == len(checkpoint_steps(run)) + 1 and all(
        stored_results(policy, config, benchmarks) is not None for policy in policies
    )


Measurements: TypeAlias = "Mapping[str, tuple[SeedCounts, ...]]"
"""By benchmark the measurements of a policy, one for each evaluation seed."""
DONE, TO_DO, FAILED = "done", "to do", "failed"
FILE = "state.json"


class TaskState(TypedDict):
    """A task: its command, the task that it needs, and its state when that was last noted."""

    name: str
    title: str
    command: str
    needs: str | None
    state: str


@dataclass(eq=False)
class Task:
    """`words` of a `sage` command line under `config`, due until `done` finds its result stored.

    `done` raises SageError if the stored result cannot be read; the task is then not repeated.

    `name` is that of its files, and of `run` if it trains one; tasks of one name are the same.
    `needs` is done before. `options` make `config` on a command line; `wanted_by` are the suites
    that want the task. One that `measures` may be about the `checkpoints` of a training, too. A
    training has its `replicate`, and once it is done its measurements. One that is `alone` has the
    cores of all: it starts where nothing runs, and nothing starts beside it.

    The queue sets the rest: `began` is when the run had been started before this task, `since_s`
    when the task was submitted.
    """

    name: str
    title: str
    words: tuple[str, ...]
    config: SageConfig
    done: Callable[[], bool]
    resources: Resources
    run: Run | None = None
    needs: Task | None = None
    kind: str = ""
    options: tuple[str, ...] = ()
    measures: bool = False
    checkpoints: bool = False
    alone: bool = False
    wanted_by: list[str] = field(default_factory=list)
    replicate: Replicate | None = None
    measured: Measurements | None = None
    began: str | None = None
    since_s: float | None = None

    @property
    def typed(self) -> str:
        """The command as a person would type it."""
        return shlex.join(("sage", *self.words, *self.options))

    def command(self, file: Path, log: Path) -> Command:
        """The command line; `file` holds the configuration except services, which are typed."""
        root = str(self.config.run.root.resolve())
        again = typed_again(self.config)
        words = (*self.words, "--config", str(file.resolve()), *again, "--runs", root)
        return Command(self.name, (sys.executable, "-m", "sage_cli", *words), log, self.resources)

    @property
    def started(self) -> str | None:
        """Return when the task's run was last started or resumed, by any process."""
        return self.run.known.get("started") if self.run else None

    @property
    def state(self) -> str:
        """`done`, how far the task is, or why that cannot be told."""
        try:
            if self.done():
                return DONE
        except SageError as error:
            return f"refused: {error.cause}"
        if self.run is not None and self.run.begun:
            run_state = state(self.run)
            return "trained, to be measured" if run_state == "finished" else run_state
        return TO_DO

    def as_json(self) -> TaskState:
        """Return its command, the task that it needs, and its state."""
        return {
            "name": self.name,
            "title": self.title,
            "command": self.typed,
            "needs": self.needs.name if self.needs else None,
            "state": self.state,
        }


def left_and_states(tasks: Sequence[Task]) -> tuple[list[Task], dict[str, str]]:
    """Return the tasks that are not done, and by title the name and state of each task."""
    stated = [(task, task.state) for task in tasks]
    left = [task for task, state in stated if state != DONE]
    return left, {task.title: f"{task.name}: {state}" for task, state in stated}


class TaskStates:
    """The tasks of the suite in `folder`; each change is written at once."""

    def __init__(self, folder: Path, tasks: Sequence[Task]) -> None:
        self._file = folder / FILE
        self._tasks = {task.name: task.as_json() for task in tasks}
        self._write()

    def note(self, name: str, state: str) -> None:
        """Note how a task ended; one that is not of the suite is passed over."""
        if name in self._tasks:
            self._tasks[name]["state"] = state
            self._write()

    def _write(self) -> None:
        write_object(self._file, {"tasks": list(self._tasks.values())})


def stored_states(folder: Path) -> list[TaskState]:
    """Return the tasks as they were last noted; none if the file is missing, or torn (named)."""
    try:
        tasks: list[TaskState] = read_object(folder / FILE, "run the suite again")["tasks"]
    except (FileNotFoundError, KeyError):
        return []
    except TornError as error:
        name_once(error)
        return []
    return tasks


_OF_SFT = ("model.", "prompt.", "data.", "sft.")
_OF_MEASUREMENTS = ("model.", "prompt.", "data.", "evaluation.", "sampling.", "grading.")
"""Sections that the commands read which train an initial policy, and which measure."""
_SAMPLED = ("benchmark", "fields", "samples", "seeds", "seed", "limit")

SFT, RL, EVALUATE, CHECKPOINTS = "sft", "rl", "eval", "checkpoints"


class TaskList:
    """The tasks of trials, each once: trials may share trainings and measurements.

    `flags` are options of every command line as a person types it, `training` further words of
    every training.
    """

    def __init__(
        self, config: SageConfig, flags: tuple[str, ...] = (), training: tuple[str, ...] = ()
    ) -> None:
        section, processes = config.executor, config.rl.processes
        self._share = task_resources(section, processes)
        # all tasks wait for the initial policy, which may have the threads of all on this machine
        places = local_places(section, processes) if section.name == "local" else 1
        self._alone = replace(self._share, threads=self._share.threads * places)
        # trainings of a small model can't use several cores, and sampling from it can: where cores
        # are all there is, it is measured first, by all of them, so that none idles at the end
        self.measures_initial_first = section.name == "local" and not self._share.gpus
        self._flags, self._training = flags, training
        self.benchmarks = BenchmarkCache()
        self.tasks: dict[str, Task] = {}

    def initial(self, replicate: Replicate) -> Task | None:
        """Train the initial policy; None if it is a model as it is, or comes with `sage`."""
        policy = replicate.initial
        if policy.run is None or source_of(policy.run) is not None:
            return None
        words = replicate.words.read_by("sft", replicate.config)
        return self._add(
            policy.label, f"initial policy {policy.label}", SFT, ("sft",), replicate,
            lambda: policy.exists, words.about(*_OF_SFT), run=policy.run, resources=self._alone,
        )  # fmt: skip

    def training(self, replicate: Replicate, *, measure: bool = True) -> Task:
        """Train a replicate, and measure it by the same command."""
        policy, run = replicate.policy, _run(replicate)
        if policy.label in self.tasks:
            return self.tasks[policy.label]

        def is_done() -> bool:
            if not measure:
                return run.finished
            # kept, so that a sweep's driver need not count the samples again
            task.measured = stored_results(policy, replicate.config, self.benchmarks)
            return run.finished and task.measured is not None

        words = ("rl", *(("--measure",) if measure else ()), *self._training)
        task = self._add(
            policy.label, replicate.title, RL, words, replicate, is_done, replicate.words.all,
            run=run, needs=self.initial(replicate), measures=measure, trains=replicate,
        )  # fmt: skip
        return task

    def measurement(self, replicate: Replicate) -> Task:
        """Measure the policy of a replicate, unless its training does."""
        policy, config = replicate.policy, replicate.config
        training, key = self.tasks.get(policy.label), _key(config)
        if training is not None and training.measures and _key(training.config) == key:
            return training
        alone = replicate.is_initial and self.measures_initial_first
        return self._evaluation(
            replicate, f"{policy.label}-on-{key}", policy.word, EVALUATE,
            lambda: stored_results(policy, config, self.benchmarks) is not None,
            alone=alone, resources=self._alone if alone else self._share,
        )  # fmt: skip

    def checkpoints(self, replicate: Replicate) -> Task:
        """Measure all that a training keeps on its way."""
        run, config = _run(replicate), replicate.config
        return self._evaluation(
            replicate, f"{run.id}-checkpoints-{_key(config)}", f"{run.id}@all", CHECKPOINTS,
            lambda: checkpoints_are_measured(run, config, self.benchmarks), checkpoints=True,
        )  # fmt: skip

    def _evaluation(
        self,
        replicate: Replicate,
        name: str,
        policy: str,
        kind: str,
        done: Callable[[], bool],
        **further: Any,
    ) -> Task:
        """`sage eval` of a policy or of a run's checkpoints."""
        needs = self.tasks.get(replicate.policy.label)
        if needs is None and replicate.is_initial:
            needs = self.initial(replicate)
        return self._add(
            name, f"{policy} on {replicate.config.evaluation.benchmark}", kind, ("eval", policy),
            replicate, done, replicate.words.about(*_OF_MEASUREMENTS), needs=needs, measures=True,
            **further,
        )  # fmt: skip

    def _add(
        self,
        name: str,
        title: str,
        kind: str,
        words: tuple[str, ...],
        replicate: Replicate,
        done: Callable[[], bool],
        options: tuple[str, ...],
        *,
        trains: Replicate | None = None,
        **further: Any,
    ) -> Task:
        """Return the task of that name, made if it is not in the list."""
        if name not in self.tasks:
            self.tasks[name] = Task(
                name, title, words, replicate.config, done, **{"resources": self._share, **further},
                kind=kind, options=(*options, *self._flags), replicate=trains,
            )  # fmt: skip
        return self.tasks[name]


def _run(replicate: Replicate) -> Run:
    """Return the run that trains a replicate, which is not the initial policy."""
    run = replicate.policy.run
    assert run is not None  # RL leads to one
    return run


def _key(config: SageConfig) -> str:
    """Eight digits of what decides the samples of a policy and their grades."""
    sampled = config.evaluation.model_dump(mode="json", include=set(_SAMPLED))
    settings = [sampled, config.sampling.determinants(), config.grading.determinants()]
    return identity_of("measurement", {"settings": settings})[:8]


@dataclass(frozen=True)
class Cost:
    """The cost of one task or several; `unknown` names what cannot be counted and is left out."""

    steps: int = 0
    completions: int = 0
    tokens: int = 0
    unknown: tuple[str, ...] = ()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.steps + other.steps,
            self.completions + other.completions,
            self.tokens + other.tokens,
            tuple(dict.fromkeys((*self.unknown, *other.unknown))),
        )

    def describe(self) -> str:
        """The cost in words; what is not counted at the end."""
        amounts = [f"{self.steps:,} steps", f"{self.completions:,} completions"]
        amounts.append(f"{self.tokens:,} tokens at most")
        return "; ".join([*amounts, *(f"not counted: {subject}" for subject in self.unknown)])


def cost(tasks: Iterable[Task]) -> Cost:
    """The cost of `tasks` from the beginning, whatever is stored of them."""
    return sum(map(cost_of, tasks), Cost())


def cost_of(task: Task) -> Cost:
    """The cost of a task; demonstrations are not counted, since their data would be read."""
    return training_cost(task) + measuring_cost(task)


def cost_left(tasks: Iterable[Task]) -> Cost:
    """The cost that is left of `tasks` that are not done; a finished training costs nothing."""
    return sum(map(_left, tasks), Cost())


def _left(task: Task) -> Cost:
    trained = task.run is not None and task.run.finished
    return measuring_cost(task) if trained else cost_of(task)


def training_cost(task: Task) -> Cost:
    """The cost of the training that a task does."""
    config = task.config
    if task.kind == SFT:
        steps = config.sft.steps
        return Cost(steps=steps) if steps else Cost(unknown=("the steps of SFT",))
    if task.kind != RL:
        return Cost()
    completions = config.rl.steps * batch_of(config.rl, config.rl.processes).completions
    tokens = completions * config.rollout.max_tokens
    return Cost(config.rl.steps, completions, tokens)


def measuring_cost(task: Task) -> Cost:
    """The cost of the measurement that a task does."""
    if not task.measures:
        return Cost()
    config = task.config
    evaluation = config.evaluation
    problems, unknown = _problems(config)
    problems *= _kept(task) if task.checkpoints else 1
    completions = problems * evaluation.samples * evaluation.seeds
    tokens = completions * config.sampling.max_tokens
    return Cost(0, completions, tokens, unknown)


def _problems(config: SageConfig) -> tuple[int, tuple[str, ...]]:
    """Return the number of problems that are measured, and what is unknown of it."""
    evaluation = config.evaluation
    names = benchmark_names(evaluation.benchmark)
    counts = {name: problem_count(name, config.data) for name in names}
    problems = sum(
        min(count, evaluation.limit or count) for count in counts.values() if count is not None
    )
    unknown = tuple(f"the problems of {name}" for name, count in counts.items() if count is None)
    return problems, unknown


def problem_count(name: str, data: DataSection) -> int | None:
    """The number of a benchmark's problems; None if its data, which are not here, tell it."""
    entry = None if is_file_name(name) else find(name)
    if isinstance(entry, DataSet | Group) and entry.count is not None:
        return entry.count
    return _counted(name, data.model_dump_json())


@cache
def _counted(name: str, data_json: str) -> int | None:
    """The number of problems by reading them, without the Hub."""
    data = DataSection.model_validate_json(data_json)
    try:
        return len(load_problems(name, data)) if is_here(name, data) else None
    except DataError:
        return None


def _kept(task: Task) -> int:
    """The number of a run's policies, now or at its end: its checkpoints, and the last one."""
    rl, needs = task.config.rl, task.needs
    if needs is not None and needs.run is not None and needs.run.finished:
        return len(checkpoint_steps(needs.run)) + 1
    most = rl.steps // rl.save_every
    return 1 + (most if rl.keep_checkpoints is None else min(most, rl.keep_checkpoints))
