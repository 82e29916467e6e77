"""A task that is due: what it needs, who says that it is done, and the command that does it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.consent import typed_again
from sage_cli.config.schema import SageConfig
from sage_cli.executors.executor import Resources, Task
from sage_cli.store.runs.run import Run


@dataclass(eq=False)
class Work:
    """`words` of a `sage` command line under `config`, until `done` finds its result in the store.

    `done` raises SageError where what the store has can't be read: it isn't done again over that.

    `name` is that of its files, and of `run` where it trains one; two works of one name are the
    same. `needs` is done before. `began` is when the run had been begun or taken up before this
    task, `since_s` when the task was submitted.
    """

    name: str
    title: str
    words: tuple[str, ...]
    config: SageConfig
    done: Callable[[], bool]
    resources: Resources
    run: Run | None = None
    needs: Work | None = None
    began: str | None = None
    since_s: float | None = None

    def task(self, file: Path, log: Path) -> Task:
        """The command line; `file` holds the configuration, but for services, which are typed."""
        root = str(self.config.run.root.resolve())
        again = typed_again(self.config)
        words = (*self.words, "--config", str(file.resolve()), *again, "--runs", root)
        return Task(self.name, (sys.executable, "-m", "sage_cli", *words), log, self.resources)

    @property
    def started(self) -> str | None:
        """When its run was last begun or taken up, by whomever."""
        return self.run.known.get("started") if self.run else None
