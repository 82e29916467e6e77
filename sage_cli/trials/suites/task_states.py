"""state.json of a suite: its tasks and how each ended, for readers while the suite runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from typing_extensions import TypedDict

from sage_cli.store.atomic import write_json
from sage_cli.store.json_files import TornError, read_object
from sage_cli.trials.task import Task

FILE = "state.json"


class TaskState(TypedDict):
    """A task: its command, the task that it needs, and its state when that was last noted."""

    name: str
    title: str
    command: str
    needs: str | None
    state: str


class TaskStates:
    """The tasks of the suite in `folder`; each change is written at once."""

    def __init__(self, folder: Path, tasks: Sequence[Task]) -> None:
        self._file = folder / FILE
        self._tasks: dict[str, TaskState] = {
            task.name: {
                "name": task.name,
                "title": task.title,
                "command": task.typed,
                "needs": task.needs.name if task.needs else None,
                "state": task.state,
            }
            for task in tasks
        }
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
