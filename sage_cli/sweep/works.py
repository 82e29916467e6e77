"""What a sweep has to have done: bases, the base's measurement, and the trainings of cells."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.config.schema import SageConfig
from sage_cli.executors.executor import Resources
from sage_cli.policies.policy import Policy
from sage_cli.sweep.cells import ByBenchmark, Cells, Training, in_words
from sage_cli.sweep.space import Cell
from sage_cli.trials.task import Task


@dataclass(eq=False, kw_only=True)
class TrialTask(Task):
    """A cell's training and its measurement; `counts` are there once it is done.

    `proposal` is the study's number of the cell; None for a further seed of one that is settled.
    """

    training: Training
    proposal: int | None = None
    counts: ByBenchmark | None = None


class TrialTasks:
    """The tasks of a sweep, by its name; `alone` is what a base gets, for which all cells wait."""

    def __init__(self, cells: Cells, sweep: str, share: Resources, alone: Resources) -> None:
        self._cells, self._sweep, self._share, self._alone = cells, sweep, share, alone

    def base(self, base: Policy, config: SageConfig) -> Task | None:
        """Training a base; None for a model that is taken as it is."""
        if base.run is None:
            return None
        return Task(
            base.label, f"base {base.label}", ("sft",), config,
            lambda: base.exists, self._alone, base.run,
        )  # fmt: skip

    def base_measurement(self) -> Task:
        """Measuring the shared base as the cells are, to lay it beside them."""
        base, config = self._cells.base, self._cells.shared
        return Task(
            f"{base.label}-measured",
            f"measuring {base.label}",
            ("eval", str(base.run.folder.resolve()) if base.run else base.path),
            config,
            lambda: self._cells.counts(base, config) is not None,
            self._share,
            needs=self.base(base, config),
        )

    def cell(self, cell: Cell, seed: int, proposal: int | None = None) -> TrialTask:
        """The `seed`-th training of a cell. Raises ConfigurationError where it can't be had."""
        training = self._cells.training(cell, seed)

        def is_done() -> bool:
            task.counts = self._cells.trained(training)
            return task.counts is not None

        task = TrialTask(
            training.run.id,
            in_words(cell) + (f", seed {seed + 1}" if seed else ""),
            ("rl", "--measure", "--set", f"run.sweep={self._sweep}"),
            training.config,
            is_done,
            self._share,
            training.run,
            self.base(training.base, training.config),
            training=training,
            proposal=proposal,
        )
        return task
