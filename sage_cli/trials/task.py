"""A task: a command that a person could type, what it gets, and where its result will be."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import TypedDict

from sage_cli.config.consent import typed_again
from sage_cli.config.schema import SageConfig
from sage_cli.errors import SageError
from sage_cli.models.policies.planned import state
from sage_cli.store.atomic import write_json
from sage_cli.store.json_files import TornError, read_object
from sage_cli.store.runs.run import Run
from sage_cli.trials.executors.executor import Command, Resources
from sage_cli.trials.trial import Replicate

if TYPE_CHECKING:
    from sage_cli.reports.measurement import Measured

Measurements: TypeAlias = "Mapping[str, tuple[Measured, ...]]"
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
    training has its `replicate`, and once it is done its measurements. The queue sets the rest:
    `began` is when the run had been started before this task, `since_s` when the task was
    submitted.
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
            found = state(self.run)
            return "trained, to be measured" if found == "finished" else found
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
        write_json(self._file, {"tasks": list(self._tasks.values())})


def stored_states(folder: Path) -> list[TaskState]:
    """Return the tasks as they were last noted; none if the file is missing or torn."""
    try:
        tasks: list[TaskState] = read_object(folder / FILE, "run the suite again")["tasks"]
    except (FileNotFoundError, TornError, KeyError):
        return []
    return tasks
