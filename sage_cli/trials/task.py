"""Tasks: commands that a person could type, made for the trials of suites and sweeps.

Each says what it gets, where its result will be, and what of it is stored.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from sage_cli.config.consent import typed_again
from sage_cli.config.schema import SageConfig
from sage_cli.errors import SageError
from sage_cli.models.facts import state
from sage_cli.models.shipped_base import shipped_source
from sage_cli.store.json_files import (
    CorruptFileError,
    read_object,
    warn_of_corrupt_file,
    write_object,
)
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Run
from sage_cli.trials.executors.build import local_places, task_resources
from sage_cli.trials.executors.executor import Command, Resources
from sage_cli.trials.stored_results import (
    BenchmarkCache,
    MeasuredSeeds,
    checkpoints_are_measured,
    stored_results,
)
from sage_cli.trials.trial import Replicate

DONE, TO_DO, FAILED = "done", "to do", "failed"
STATES_FILE = "state.json"


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
    measured: MeasuredSeeds | None = None
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
        return self.run.try_manifest().get("started") if self.run else None

    @property
    def state(self) -> str:
        """`done`, how far the task is, or why that cannot be told."""
        try:
            if self.done():
                return DONE
        except SageError as error:
            return f"refused: {error.cause}"
        if self.run is not None and self.run.has_begun():
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
        self._file = folder / STATES_FILE
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
    """Return the tasks as they were last noted; none if the file is missing, or corrupt (named)."""
    try:
        tasks: list[TaskState] = read_object(folder / STATES_FILE, "run the suite again")["tasks"]
    except (FileNotFoundError, KeyError):
        return []
    except CorruptFileError as error:
        warn_of_corrupt_file(error)
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
        if policy.run is None or shipped_source(policy.run) is not None:
            return None
        words = replicate.words.read_by("sft", replicate.config)
        return self._add(
            policy.label,
            f"initial policy {policy.label}",
            SFT,
            ("sft",),
            replicate,
            lambda: policy.exists,
            words.about(*_OF_SFT),
            run=policy.run,
            resources=self._alone,
        )

    def training(self, replicate: Replicate, *, measure: bool = True) -> Task:
        """Train a replicate, and measure it by the same command."""
        policy, run = replicate.policy, _run(replicate)
        if policy.label in self.tasks:
            return self.tasks[policy.label]

        def is_done() -> bool:
            if not measure:
                return run.is_finished()
            # kept, so that a sweep's driver need not count the samples again
            task.measured = stored_results(policy, replicate.config, self.benchmarks)
            return run.is_finished() and task.measured is not None

        words = ("rl", *(("--measure",) if measure else ()), *self._training)
        task = self._add(
            policy.label,
            replicate.title,
            RL,
            words,
            replicate,
            is_done,
            replicate.words.all,
            run=run,
            needs=self.initial(replicate),
            measures=measure,
            trains=replicate,
        )
        return task

    def measurement(self, replicate: Replicate) -> Task:
        """Measure the policy of a replicate, unless its training does."""
        policy, config = replicate.policy, replicate.config
        training, key = self.tasks.get(policy.label), _key(config)
        if training is not None and training.measures and _key(training.config) == key:
            return training
        alone = replicate.is_initial and self.measures_initial_first
        return self._evaluation(
            replicate,
            f"{policy.label}-on-{key}",
            policy.word,
            EVALUATE,
            lambda: stored_results(policy, config, self.benchmarks) is not None,
            alone=alone,
            resources=self._alone if alone else self._share,
        )

    def checkpoints(self, replicate: Replicate) -> Task:
        """Measure all that a training keeps on its way."""
        run, config = _run(replicate), replicate.config
        return self._evaluation(
            replicate,
            f"{run.id}-checkpoints-{_key(config)}",
            f"{run.id}@all",
            CHECKPOINTS,
            lambda: checkpoints_are_measured(run, config, self.benchmarks),
            checkpoints=True,
        )

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
            name,
            f"{policy} on {replicate.config.evaluation.benchmark}",
            kind,
            ("eval", policy),
            replicate,
            done,
            replicate.words.about(*_OF_MEASUREMENTS),
            needs=needs,
            measures=True,
            **further,
        )

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
                name,
                title,
                words,
                replicate.config,
                done,
                **{"resources": self._share, **further},
                kind=kind,
                options=(*options, *self._flags),
                replicate=trains,
            )
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
