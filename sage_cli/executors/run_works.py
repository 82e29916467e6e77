"""Several works done to their end, at once as far as there are places for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sage_cli.executors.executor import Executor
from sage_cli.executors.failures import Failure
from sage_cli.executors.work import Work
from sage_cli.executors.work_progress import WorkProgress
from sage_cli.executors.work_queue import WorkQueue
from sage_cli.progress import Progress

POLL_S = 0.25
"""From one look at what ended to the next."""


def run_works(
    works: Sequence[Work], executor: Executor, folder: Path, retries: int, progress: Progress
) -> dict[str, Failure]:
    """Have all works done; why some were given up, by name, when all others are done.

    `folder` holds their configurations and logs.
    """
    shown = WorkProgress(progress, len(works))
    queue = WorkQueue(executor, folder, retries, shown)
    try:
        for work in works:
            shown.expect(work)
            queue.add(work)
        run_until_idle(queue, shown)
    finally:
        queue.close()
        shown.close()
    return shown.failures


def run_until_idle(
    queue: WorkQueue,
    progress: WorkProgress,
    *,
    further: Callable[[], bool] = lambda: False,
    enough: Callable[[], bool] = lambda: False,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Advance the queue until nothing is left, or until `enough` says so.

    Where a place is free, `further` may add works, and says whether it did. `look` is called from
    time to time while works are under way.
    """
    while True:
        queue.advance()
        while queue.has_room and further():
            queue.advance()
        if queue.idle or enough():
            return
        look()
        progress.show(queue.running, queue.places)
        time.sleep(POLL_S)
