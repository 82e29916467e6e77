"""The driver of a sweep: starts the study's trials, and tells the study their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sage_cli.errors import SageError
from sage_cli.progress import Progress
from sage_cli.store.runs.run import Run
from sage_cli.trials.executors.executor import Executor
from sage_cli.trials.failures import Failure, Kind
from sage_cli.trials.queue import TaskQueue
from sage_cli.trials.search.blame import Streak, is_own
from sage_cli.trials.search.prepared import Sweep
from sage_cli.trials.search.scores import (
    ByBenchmark,
    describe,
    mean_scores,
    score,
    validations,
)
from sage_cli.trials.search.space.space import Point
from sage_cli.trials.search.study.study_trial import State, StudyTrial
from sage_cli.trials.search.sweep_progress import SweepProgress
from sage_cli.trials.task import Task

if TYPE_CHECKING:
    from sage_cli.trials.search.study.study import Study


@dataclass
class Pending:
    """A trial that waits for the tasks `due`; `results` are those of the measured replicates."""

    trial: StudyTrial
    due: set[str]
    results: dict[int, ByBenchmark] = field(default_factory=dict)
    failed: Failure | None = None


class Driver:
    """Drives one sweep to its end, or until it is interrupted or cancelled.

    It trains and measures nothing itself. `lost` are done trials of whose replicates the store has
    not all any more.
    """

    def __init__(
        self,
        sweep: Sweep,
        study: Study,
        executor: Executor,
        progress: Progress,
        lost: Sequence[StudyTrial] = (),
    ) -> None:
        self._sweep, self._study, self._lost = sweep, study, lost
        self._settings = sweep.settings
        self._shown = SweepProgress(progress, sweep, study, lost)
        self._queue = TaskQueue(executor, sweep.folder.tasks, self._settings.retries, self)
        self._pending: dict[str, Pending] = {}  # by the names of due tasks
        self._streak = Streak(self._settings.stop_after, self._fail)
        self._initial = sweep.initial_task()
        self._initial_failed = False
        self._exhausted = False
        self._validated: dict[int, int] = {}  # trial -> the last step that the study knows

    def run(self, *, detach: bool = False) -> None:
        """Drive until nothing is left; with `detach` until all that is possible is submitted."""
        self._shown.write_state()
        try:
            self._queue.add(self._initial)
            for trial in self._study.running():
                self._start(trial)
            for trial in self._lost:
                self._expect(trial.point)
            self._queue.run(
                self._shown,
                further=self._propose,
                enough=lambda: (
                    detach or self._sweep.folder.cancelled or self.stopped_by is not None
                ),
                check=self._end_pruned,
            )
        finally:
            self._queue.close()
            self._shown.close()
        if self.stopped_by is not None:
            for failed, why in self._streak.members:
                self._study.withdraw(failed, why.kind, why.reason)
        else:
            self._streak.end()
        self._shown.write_state(self.under_way)

    @property
    def stopped_by(self) -> Failure | None:
        """The last of `stop_after` failures of one kind in a row, which stop the sweep."""
        return self._streak.stops

    @property
    def under_way(self) -> frozenset[int]:
        """The trials that are trained: after `run`, by jobs that outlive the driver."""
        names = (task.name for task in self._queue.running)
        return frozenset(
            self._pending[name].trial.number for name in names if name in self._pending
        )

    def done(self, task: Task) -> None:
        """A task's result is stored: the study is told once its trial is complete."""
        if task.replicate is None:
            return
        seed, results = task.replicate.seed, self._sweep.results_of(task)
        self._shown.scored(task, score(self._settings.objectives, results))
        if (pending := self._pending.pop(task.name, None)) is not None:
            pending.results[seed] = results
            if self._prunes and not seed and task.run is not None:
                list(self._report(pending.trial, task.run))  # others are judged by these
            self._settle(pending, task)

    def failed(self, task: Task, why: Failure, log: Path, *, again: bool) -> None:
        """A task left no result."""
        self._shown.failed(task, why, log, again=again)
        if again:
            return
        if self._initial.needs is not None and task.name == self._initial.needs.name:
            self._initial_failed = True
        if (pending := self._pending.pop(task.name, None)) is not None:
            if pending.failed is None or not self._is_own(pending.failed):
                pending.failed = why
            self._settle(pending, task)

    def waits(self, task: Task, who: str) -> None:
        """Another process does the task."""
        self._shown.waits(task, who)

    def _propose(self) -> bool:
        """Start a further trial; False if there is none."""
        if self.stopped_by is not None or self._exhausted:
            return False
        trial = None if self._full() else self._study.propose()
        if trial is None:
            self._exhausted = True  # the points that are left only become fewer
            return False
        self._start(trial)
        return True

    def _full(self) -> bool:
        """Return True if the sweep has as many trials as it may, feasible or not."""
        wanted, waiting = self._settings.trials, {one.number for one in self._study.failed}
        if wanted is None:
            return False
        # one that failed for an earlier driver is proposed again, and is no further trial
        trials = [one for one in self._study.trials() if one.number not in waiting]
        infeasible = sum(one.state is State.INFEASIBLE for one in trials)
        return wanted <= len(trials) - infeasible or self._settings.infeasible_limit <= infeasible

    def _start(self, trial: StudyTrial) -> None:
        """Make a trial's tasks due, as far as their results are not stored."""
        if (why := self._expect(trial.point, trial)) is not None:
            self._fail(trial, why)
            self._shown.write_state()

    def _expect(self, point: Point, trial: StudyTrial | None = None) -> Failure | None:
        """Make the tasks of a point due; the reason if its settings contradict each other."""
        try:
            tasks = self._sweep.trainings(point)
        except SageError as error:
            why = Failure(Kind.REFUSED, error.cause)
            self._shown.refused(describe(point), why, self._settings.seeds)
            return why
        if trial is not None:
            names = {task.name for task in tasks}
            self._pending |= dict.fromkeys(names, Pending(trial, names))
        for task in tasks:
            self._add(point, task)
        return None

    def _add(self, point: Point, task: Task) -> None:
        if task.replicate is not None:
            self._sweep.folder.remember(point, task.replicate.seed, task.name)
        self._shown.expect(task)
        self._queue.add(task)

    @property
    def _prunes(self) -> bool:
        return self._settings.prune != "none"

    def _report(self, trial: StudyTrial, run: Run) -> Iterator[int]:
        """Tell the study the validations that it does not know; yields the step of each."""
        if trial.number not in self._validated:  # an earlier driver may have reported some
            self._validated[trial.number] = self._study.last_report(trial)
        for step, value in validations(run, self._settings.objectives[0]):
            if step > self._validated[trial.number]:
                self._validated[trial.number] = step
                self._study.report(trial, step, value)
                yield step

    def _end_pruned(self) -> None:
        """Report new validations of running trials, and end those that Optuna's pruner names."""
        if not self._prunes:
            return
        for task in self._queue.running:
            pending, run, one = self._pending.get(task.name), task.run, task.replicate
            if pending is None or run is None or one is None or one.seed:
                continue
            for step in self._report(pending.trial, run):
                if step >= one.config.rl.steps:
                    break  # all of it is spent: only its measurement is left
                if self._study.should_prune(pending.trial):
                    self._end_trial(pending, task, step)
                    break

    def _end_trial(self, pending: Pending, task: Task, step: int) -> None:
        """End a trial's tasks; what they saved stays, and `sage rl` would resume it.

        A training that finished meanwhile, unseen or while it was ended, is kept.
        """
        if task.run is None or task.run.finished:
            return
        ended = self._queue.cancel(lambda one: one.name in pending.due)
        if task.run.finished:
            for one in ended:
                self._queue.add(one)
            return
        for name in pending.due:
            del self._pending[name]
        reason = f"by Optuna's rule {self._settings.prune} at step {step}"
        for one in ended:
            if one.run is not None:
                one.run.prune(reason)
        self._study.prune(pending.trial, reason, step)
        self._shown.pruned(task, reason, len(pending.due))
        self._shown.write_state()

    def _settle(self, pending: Pending, task: Task) -> None:
        """Tell the study, once all tasks of a trial have ended.

        Failures that may have one cause outside the trials wait for the next trial's end.
        """
        pending.due.discard(task.name)
        if pending.due:
            return
        why = pending.failed
        if why is None:
            self._streak.end()
            scores = [score(self._settings.objectives, one) for one in pending.results.values()]
            self._study.tell(pending.trial, mean_scores(scores))
        elif self._is_own(why):
            self._study.note(pending.trial, lines=list(why.lines))
            self._study.rule_out(pending.trial, why.kind, why.reason)
        else:
            self._streak.add(pending.trial, why)
        self._shown.write_state()

    def _is_own(self, why: Failure) -> bool:
        """Return True if a trial's own settings made it fail, not the policy that all share."""
        return not self._initial_failed and is_own(why, self._sweep.space.keys.values())

    def _fail(self, trial: StudyTrial, why: Failure) -> None:
        self._study.note(trial, lines=list(why.lines))
        self._study.fail(trial, why.kind, why.reason)
