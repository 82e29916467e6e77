"""Several works done to their end, at once as far as there are places for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sage_cli.executors.crew import Crew
from sage_cli.executors.executor import Executor
from sage_cli.executors.failures import Failure
from sage_cli.executors.herald import Herald
from sage_cli.executors.work import Work
from sage_cli.progress import Progress

POLL_S = 0.25
"""From one look at what ended to the next."""


class _Together:
    """Hears what becomes of the works, and keeps why some were given up."""

    def __init__(self, herald: Herald) -> None:
        self.herald, self.failures = herald, dict[str, Failure]()

    def done(self, work: Work) -> None:
        self.herald.done(work)

    def failed(self, work: Work, why: Failure, log: Path, *, again: bool) -> None:
        self.herald.failed(work, why, log, again=again)
        if not again:
            self.failures[work.name] = why


def do_together(
    works: Sequence[Work], executor: Executor, folder: Path, retries: int, progress: Progress
) -> dict[str, Failure]:
    """Have all works done; why some were given up, by name, when all others are done.

    `folder` holds their configurations and logs.
    """
    hearing = _Together(herald := Herald(progress, len(works)))
    crew = Crew(executor, folder, retries, hearing)
    try:
        for work in works:
            herald.expect(work)
            crew.expect(work)
        tend(crew, herald)
    finally:
        crew.close()
        herald.close()
    return hearing.failures


def tend(
    crew: Crew,
    herald: Herald,
    *,
    further: Callable[[], bool] = lambda: False,
    enough: Callable[[], bool] = lambda: False,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Tend the crew until nothing is left, or until `enough` says so.

    Where a place is free, `further` may make more due, and says whether it did. `look` is called
    from time to time while works are under way.
    """
    while True:
        crew.tend()
        while crew.hungry and further():
            crew.tend()
        if crew.idle or enough():
            return
        look()
        herald.show(crew.running, crew.places)
        time.sleep(POLL_S)
