"""A step's record on its way: into the run's files, to whoever shows it, past the safeguards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sage_cli.settings.sections.records import TrackingSection
from sage_cli.store.runs.run import Run
from sage_cli.training.callbacks import OnStep
from sage_cli.training.checkpoints.safeguards import Safeguards


class StepWriter:
    """Writes `run`'s metrics and some rollouts of every `tracking.rollouts_every` steps.

    The safeguards remember the steps that the run has already.
    """

    def __init__(
        self, run: Run, tracking: TrackingSection, on_step: OnStep, *, stop_when_stuck: bool
    ) -> None:
        self.run, self.tracking, self.on_step = run, tracking, on_step
        self.safeguards = Safeguards(stop=stop_when_stuck)
        for earlier in run.metrics.read():
            self.safeguards.count(earlier)

    def write(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Called in the main process alone."""
        if (record["step"] - 1) % self.tracking.rollouts_every == 0:
            wanted = self.tracking.rollouts
            for row in rollouts if wanted == "all" else rollouts[:wanted]:
                self.run.rollouts.append({"step": record["step"], **row})
        self.run.metrics.append(record)  # last: who finds the step here finds its rollouts there
        self.on_step(record)

    def check(self, record: Mapping[str, Any]) -> None:
        """Called in every process, so that all of them stop; raises TrainingError."""
        self.safeguards.check(record)
