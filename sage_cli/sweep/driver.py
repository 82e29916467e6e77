"""The driver of a sweep: takes cells from the study, has them trained, tells it their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sage_cli.config.sweep import SweepSection
from sage_cli.errors import SageError
from sage_cli.executors.executor import Executor
from sage_cli.sweep.cells import ByBenchmark, Training, in_words, looks, mean_scores, score
from sage_cli.sweep.folder import SweepFolder
from sage_cli.sweep.proposal import Proposal, State
from sage_cli.sweep.pruning import reason_to_prune
from sage_cli.sweep.replicates import missing_replicates
from sage_cli.sweep.space import Cell, cell_key
from sage_cli.sweep.sweep_progress import SweepProgress
from sage_cli.sweep.works import TrialTask, TrialTasks
from sage_cli.trials.failures import Failure, Kind
from sage_cli.trials.queue import TaskQueue
from sage_cli.trials.task import Task

if TYPE_CHECKING:
    from sage_cli.sweep.study import Study


OWN = (Kind.DIVERGED, Kind.MEMORY)
"""Failures that a cell's settings are to blame for, however many there are in a row."""


@dataclass
class Pending:
    """A proposal that waits for its trainings `due`; `counts` are those of the measured ones."""

    proposal: Proposal
    due: set[int]
    counts: dict[int, ByBenchmark] = field(default_factory=dict)
    failed: Failure | None = None


class Driver:
    """Drives one sweep to its end, or until it is interrupted or cancelled.

    It trains and measures nothing itself and knows no engine.
    """

    def __init__(
        self,
        settings: SweepSection,
        study: Study,
        tasks: TrialTasks,
        executor: Executor,
        folder: SweepFolder,
        progress: SweepProgress,
    ) -> None:
        self._settings, self._study, self._works = settings, study, tasks
        self._folder, self._progress = folder, progress
        self._queue = TaskQueue(executor, folder.cells, settings.retries, self)
        self._pending: dict[int, Pending] = {}
        self._failed: set[int] = set()
        self._streak: list[tuple[Proposal, Failure]] = []
        self._exhausted = False
        self._raced: set[str] = set()
        self._reported: dict[int, int] = {}

    def run(self, lost: Sequence[Proposal] = (), *, detach: bool = False) -> None:
        """Until nothing is left to do; with `detach` until all that can be submitted is.

        `lost` are done proposals of whose trainings the store has not all any more.
        """
        try:
            self._queue.add(self._works.base_measurement())
            for proposal in self._study.running():
                self._start(proposal)
            for proposal in lost:
                self._expect_cell(proposal.cell)
            self._queue.run(
                self._progress,
                further=self._propose,
                enough=lambda: detach or self._folder.cancelled or self.stopped_by is not None,
                check=self._prune,
            )
        finally:
            self._queue.close()
        if self.stopped_by is not None:
            for proposal, why in self._streak:
                self._study.withdraw(proposal, why.kind, why.reason)
        else:
            self._end_streak()
        if self._folder.cancelled:
            self._progress.cancelled(self._queue.running)

    @property
    def stopped_by(self) -> Failure | None:
        """The latest of so many failures of one kind in a row that more trainings were in vain."""
        most = self._settings.stop_after
        return self._streak[-1][1] if most is not None and len(self._streak) >= most else None

    @property
    def under_way(self) -> frozenset[int]:
        """The proposals that are being trained: after `run`, by jobs that outlive the driver."""
        tasks = (task for task in self._queue.running if isinstance(task, TrialTask))
        return frozenset(task.proposal for task in tasks if task.proposal is not None)

    def done(self, task: Task) -> None:
        """A task's result is in the store: the study is told what it waits for."""
        if not isinstance(task, TrialTask):
            return
        training, counts = task.training, task.counts
        assert counts is not None  # that is what done means
        self._progress.scored(task, score(self._settings.objectives, counts))
        if (pending := self._pending_of(task)) is not None:
            pending.counts[training.seed] = counts
            if self._settings.prune != "none" and not training.seed:
                list(self._report(pending, training))  # what the rule judges others by
            self._settle(pending, training.seed)

    def failed(self, task: Task, why: Failure, log: Path, *, again: bool) -> None:
        """A task left no result."""
        self._progress.failed(task, why, log, again=again)
        if again or not isinstance(task, TrialTask):
            return
        if (pending := self._pending_of(task)) is not None:
            pending.failed = why
            self._settle(pending, task.training.seed)

    def waits(self, task: Task, who: str) -> None:
        """Another process does the task."""
        self._progress.waits(task, who)

    def _propose(self) -> bool:
        """Take a further cell, or further seeds of the cells that may still be the best."""
        if self.stopped_by is not None:
            return False
        if not self._exhausted:
            proposal = None if self._full() else self._study.propose()
            if proposal is not None:
                self._start(proposal)
                return True
            self._exhausted = True  # cells only ever become fewer
        return self._settings.race and self._queue.idle and self._race()

    def _full(self) -> bool:
        """Whether as many cells were chosen as the sweep may try."""
        # one that failed for an earlier driver is proposed again, and isn't another cell
        return self._settings.trials is not None and self._settings.trials <= sum(
            one.state is not State.FAILED or one.number in self._failed
            for one in self._study.proposals()
        )

    @property
    def _seeds(self) -> range:
        """The trainings that every cell has."""
        return range(1 if self._settings.race else self._settings.seeds)

    def _start(self, proposal: Proposal) -> None:
        """Make a proposal's trainings due, as far as they aren't in the store."""
        self._pending[proposal.number] = Pending(proposal, set(self._seeds))
        if (why := self._expect_cell(proposal.cell, proposal.number)) is not None:
            del self._pending[proposal.number]
            self._fail(proposal, why)

    def _expect_cell(self, cell: Cell, number: int | None = None) -> Failure | None:
        """Make a cell's trainings due; why not, where its settings can't all hold."""
        try:
            tasks = [self._works.cell(cell, seed, number) for seed in self._seeds]
        except SageError as error:
            why = Failure(Kind.REFUSED, error.cause)
            self._progress.refused(in_words(cell), why, len(self._seeds))
            return why
        for task in tasks:
            self._expect(task)
        return None

    def _expect(self, task: TrialTask) -> None:
        self._folder.remember(task.training)
        self._progress.expect(task)
        self._queue.add(task)

    def _race(self) -> bool:
        """Make further seeds of the cells due that may still be the best; whether there are any."""
        seeds, objectives = self._settings.seeds, self._settings.objectives
        tasks = {
            cell_key(one.cell): [self._works.cell(one.cell, seed) for seed in range(seeds)]
            for one in self._study.proposals()
            if one.state is State.DONE
        }
        measured = {
            key: {
                seed: tuple(task.counts.values())
                for seed, task in enumerate(of_cell)
                if task.done() and task.counts is not None
            }
            for key, of_cell in tasks.items()
        }
        wanted = missing_replicates(measured, objectives, seeds, race=True)
        further = [
            tasks[key][seed] for key, seed in wanted if tasks[key][seed].name not in self._raced
        ]
        for task in further:
            self._raced.add(task.name)
            self._expect(task)
        return bool(further)

    def _prune(self) -> None:
        """Report new looks at running trainings, and end those that the rule says lag behind."""
        if self._settings.prune == "none":
            return
        for task in self._queue.running:
            pending = self._pending_of(task) if isinstance(task, TrialTask) else None
            if pending is None or not isinstance(task, TrialTask) or task.training.seed:
                continue
            for step in self._report(pending, task.training):
                if step >= task.training.config.rl.steps:
                    break  # all of it is spent: what is left is to measure it
                if reason := self._reason_to_prune(pending.proposal.number):
                    self._end_cell(pending, task, reason, step)
                    break

    def _report(self, pending: Pending, training: Training) -> Iterator[int]:
        """Tell the study the looks at a training that it doesn't know; each one's step."""
        number = pending.proposal.number
        for step, values in looks(training.run, self._settings.objectives):
            if step > self._reported.get(number, 0):
                self._reported[number] = step
                self._study.report(pending.proposal, step, values)
                yield step

    def _reason_to_prune(self, number: int) -> str | None:
        proposals = {one.number: one for one in self._study.proposals()}
        others = [one for one in proposals.values() if one.number != number]
        names = self._settings.objective
        return reason_to_prune(self._settings.prune, proposals[number], others, names)

    def _end_cell(self, pending: Pending, task: TrialTask, reason: str, step: int) -> None:
        """End a proposal's trainings; what they saved stays, and `sage rl` would go on with it.

        A training that has finished meanwhile, unseen or while it was being ended, is kept.
        """
        if task.training.run.finished:
            return
        number = pending.proposal.number
        ended = self._queue.cancel(
            lambda one: isinstance(one, TrialTask) and one.proposal == number
        )
        if task.training.run.finished:
            for one in ended:
                self._queue.add(one)
            return
        del self._pending[number]
        for one in ended:
            if one.run is not None:
                one.run.prune(reason)
        self._study.prune(pending.proposal, reason, step)
        self._progress.pruned(task, reason, len(pending.due))

    def _pending_of(self, task: TrialTask) -> Pending | None:
        return self._pending.get(task.proposal) if task.proposal is not None else None

    def _settle(self, pending: Pending, seed: int) -> None:
        """Tell the study, once all trainings of a proposal are settled.

        Failures that may have one cause outside the cells wait for what becomes of the next cell.
        """
        pending.due.discard(seed)
        if pending.due:
            return
        del self._pending[pending.proposal.number]
        why = pending.failed
        if why is None or why.kind in OWN or why.kind not in {w.kind for _, w in self._streak}:
            self._end_streak()
        if why is None:
            scores = [score(self._settings.objectives, one) for one in pending.counts.values()]
            self._study.tell(pending.proposal, mean_scores(scores))
        elif why.kind in OWN:
            self._fail(pending.proposal, why)
        else:
            self._failed.add(pending.proposal.number)
            self._streak.append((pending.proposal, why))

    def _end_streak(self) -> None:
        """What failed in a row is the cells' own, since another one came to another end."""
        for proposal, why in self._streak:
            self._fail(proposal, why)
        self._streak.clear()

    def _fail(self, proposal: Proposal, why: Failure) -> None:
        self._failed.add(proposal.number)
        self._study.note(proposal, lines=list(why.lines))
        self._study.fail(proposal, why.kind, why.reason)
