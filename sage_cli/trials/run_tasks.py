"""Do a list of tasks and show how far they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sage_cli.progress import Progress
from sage_cli.trials.executors.executor import Executor
from sage_cli.trials.failures import Failure
from sage_cli.trials.progress import TaskProgress
from sage_cli.trials.queue import TaskQueue
from sage_cli.trials.task import Task


def run_tasks(
    tasks: Sequence[Task],
    executor: Executor,
    folder: Path,
    retries: int,
    progress: Progress,
    *,
    enough: Callable[[], bool] = lambda: False,
    ended: Callable[[str, str], None] = lambda *_: None,
) -> dict[str, Failure]:
    """Do all tasks, or until `enough`; return by name why some were given up.

    `folder` holds their configurations and logs. `ended` is told each task's name and its end.
    """
    shown = TaskProgress(progress, len(tasks), ended)
    queue = TaskQueue(executor, folder, retries, shown)
    try:
        for task in tasks:
            shown.expect(task)
            queue.add(task)
        queue.run(shown, enough=enough)
    finally:
        queue.close()
        shown.close()
    return shown.failures
