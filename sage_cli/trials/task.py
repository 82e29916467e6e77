"""A task: a command that a person could type, what it gets, and where its result will be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.consent import typed_again
from sage_cli.config.schema import SageConfig
from sage_cli.executors.executor import Command, Resources
from sage_cli.store.run import Run


@dataclass(eq=False)
class Task:
    """`words` of a `sage` command line under `config`, due until `done` finds its result stored.

    `done` raises SageError if the stored result cannot be read; the task is then not repeated.

    `name` is that of its files, and of `run` if it trains one; tasks of one name are the same.
    `needs` is done before. The queue sets the rest: `began` is when the run had been started
    before this task, `since_s` when the task was submitted.
    """

    name: str
    title: str
    words: tuple[str, ...]
    config: SageConfig
    done: Callable[[], bool]
    resources: Resources
    run: Run | None = None
    needs: Task | None = None
    began: str | None = None
    since_s: float | None = None

    def command(self, file: Path, log: Path) -> Command:
        """The command line; `file` holds the configuration except services, which are typed."""
        root = str(self.config.run.root.resolve())
        again = typed_again(self.config)
        words = (*self.words, "--config", str(file.resolve()), *again, "--runs", root)
        return Command(self.name, (sys.executable, "-m", "sage_cli", *words), log, self.resources)

    @property
    def started(self) -> str | None:
        """When its run was last started or resumed, by any process."""
        return self.run.known.get("started") if self.run else None
