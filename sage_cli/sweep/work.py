"""What a sweep has to have done, each a command that a person could type."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.schema import SageConfig
from sage_cli.executors.executor import Resources, Task
from sage_cli.policies.policy import Policy
from sage_cli.store.run import Run
from sage_cli.sweep.cells import Training, in_words


@dataclass(eq=False)
class Work:
    """A task that is due: a base's training or measurement, or a cell's training.

    `name` is that of its run, and of its files; `base` what must be trained before.
    `began` is when its run had been begun or taken up before this task. It is `held` while another process, none of this sweep's, works on its run.
    """

    name: str
    title: str
    words: tuple[str, ...]
    config: SageConfig
    run: Run | None
    base: Policy | None = None
    proposal: int | None = None
    training: Training | None = None
    began: str | None = None
    held: bool = False
    since_s: float = 0.0

    def task(self, file: Path, log: Path, resources: Resources) -> Task:
        """The command line; `file` holds the configuration."""
        root = str(self.config.run.root.resolve())
        words = (*self.words, "--config", str(file.resolve()), "--runs", root)
        return Task(self.name, (sys.executable, "-m", "sage_cli", *words), log, resources)

    @property
    def started(self) -> str | None:
        """When its run was last begun or taken up, by whomever."""
        return self.run.manifest.get("started") if self.run else None


def base_work(base: Policy, config: SageConfig) -> Work:
    """Training a base."""
    return Work(base.label, f"base {base.label}", ("sft",), config, base.run)


def base_measurement(base: Policy, config: SageConfig) -> Work:
    """Measuring a base as the cells are, to lay them beside it."""
    place = str(base.run.folder.resolve()) if base.run else base.path
    title = f"measuring {base.label}"
    return Work(f"{base.label}-measured", title, ("eval", place), config, None, base)


def cell_work(training: Training, proposal: int | None = None) -> Work:
    """Training a cell once, and measuring what came of it; a race's has no proposal of its own."""
    seed = f", seed {training.seed + 1}" if training.seed else ""
    return Work(
        name=training.run.id,
        title=in_words(training.cell) + seed,
        words=("rl", "--measure"),
        config=training.config,
        run=training.run,
        base=training.base,
        proposal=proposal,
        training=training,
    )
