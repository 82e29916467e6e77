"""The life cycle of a training: found or refused, trained and evaluated, put in its place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from sage_cli.config.consent import consents
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.evaluate import Evaluation, EvaluationStage
from sage_cli.models.compatibility import note_weights, require_childless
from sage_cli.models.policy import Policy
from sage_cli.models.stages import Stage
from sage_cli.progress import Progress
from sage_cli.store.manifest import Origin
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.run import Run, Runs, current, settled, stage_replacement
from sage_cli.training.callbacks import Watch, watched
from sage_cli.training.launch import is_followed


@dataclass(frozen=True, kw_only=True)
class TrainingRun(Stage):
    """A run that a command trains, once: the same command resumes it, or finds it finished.

    `evaluation` is made of what the training leaves.
    """

    kind: ClassVar[Literal["sft", "rl"]]
    shown: ClassVar[Mapping[str, str]]
    """Metrics by name, and what they are called beside the progress bar."""
    called: ClassVar[str]
    """The name of the result in messages."""

    config: SageConfig
    evaluation: Evaluation | None = None

    @cached_property
    @abstractmethod
    def planned(self) -> Run:
        """The run that the settings and the parent name, whether it exists or not."""

    @property
    def stages(self) -> list[Stage]:
        """The stages of the command, in order."""
        if self.evaluation is None:
            return [self]
        return [self, EvaluationStage(self.evaluation, [self._policy_of(self.planned)])]

    def carry_out(
        self, progress: Progress, *, fresh: bool = False, replace_parent: bool = False
    ) -> Run:
        """Train the run, resume it, or find it finished. Refusals come before anything is written.

        `fresh` trains it again, beside the one that is there until the new one is finished; a run
        that others grew from only with `replace_parent`. Raises SageError for what stands against
        the training, and Interrupted where a signal ended it.
        """
        require_mirrors(self.config.tracking)
        if (run := self.join()) is not None:
            return run
        if self.evaluation is not None:
            self.evaluation.require()
        with progress.doing(f"reading what the {self.called} is made from"):
            run = self.planned
        if not fresh:
            run = current(run)
        elif not replace_parent:
            require_childless(run, Runs(self.config.run.root))
        if run.finished and not fresh:
            self.found(run, progress)
            self.measure(run, progress)
            return run
        train = self.prepare(None if fresh else run, progress)
        if fresh:  # from here on nothing is known to be against it
            run = stage_replacement(run)
        train(run)
        return run if is_followed() else settled(run)

    def join(self) -> Run | None:
        """Train beside the process that records, if one of several was launched; else None."""
        return None

    @abstractmethod
    def found(self, run: Run, progress: Progress) -> None:
        """Say that `run` was finished before."""

    @abstractmethod
    def prepare(self, resumed: Run | None, progress: Progress) -> Callable[[Run], None]:
        """Raise SageError for what refuses the training; return the function that trains.

        `resumed` is the run as it is; None where a fresh one will be trained.
        """

    def train_here(
        self, run: Run, origin: Origin, train: Callable[[Run, Watch], None], progress: Progress
    ) -> None:
        """Train in this process (and those launched with it), recording and mirroring the run."""
        from sage_cli.training.hardware import release_memory

        with watched(run, self.config.tracking, self.kind, progress, self.shown) as watch:
            with run.recording(self.config.model_dump(mode="json"), **origin):
                train(run, watch)
                note_weights(run)
            if self.evaluation is not None:
                release_memory()
                self.evaluation.measure([self._policy_of(run)], progress, watch.mirrors)

    def measure(self, run: Run, progress: Progress) -> None:
        """Measure a run whose mirrors are closed, if that is asked for."""
        if self.evaluation is not None:
            self.evaluation.measure([self._policy_of(run)], progress)

    def _policy_of(self, run: Run) -> Policy:
        return Policy.of_run(run, consent=consents(self.config.model))
