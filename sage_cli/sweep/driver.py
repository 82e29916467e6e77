"""The driver of a sweep: takes cells from the study, has them trained, tells the study their values.

It trains and measures nothing itself and knows no engine: a training is a command that an executor
runs, and whether one is done is read from the store. So it can be killed at any moment; the next
one finds what is done, waits for what still runs elsewhere, and goes on.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sage_cli.config.sweep import SweepSection
from sage_cli.errors import TrainingError
from sage_cli.executors.executor import End, Executor, Fate, Resources
from sage_cli.metrics import Counts
from sage_cli.policies.policy import Policy
from sage_cli.store.lock import is_held
from sage_cli.sweep.cells import Cells, score
from sage_cli.sweep.desk import Desk
from sage_cli.sweep.failures import Failure, Kind, failure
from sage_cli.sweep.herald import Herald
from sage_cli.sweep.replicates import further_seeds
from sage_cli.sweep.space import Cell
from sage_cli.sweep.study import Proposal, Study
from sage_cli.sweep.work import Work, base_measurement, base_work, cell_work

POLL_S = 0.25
"""From one look at what ended to the next."""
AGAIN = (Kind.MEMORY, Kind.TIMEOUT, Kind.KILLED, Kind.ERROR)
"""Failures that another attempt may not meet; the others would only be repeated."""


@dataclass
class Open:
    """A proposal whose trainings `due` aren't settled yet; `found` holds the counts of others."""

    proposal: Proposal
    due: set[int]
    found: dict[int, Sequence[Counts]] = field(default_factory=dict)
    failed: Failure | None = None


class Driver:
    """Drives one sweep to its end, or until it is interrupted or cancelled."""

    def __init__(
        self,
        settings: SweepSection,
        study: Study,
        cells: Cells,
        executor: Executor,
        resources: Resources,
        desk: Desk,
        herald: Herald,
    ) -> None:
        self._settings, self._study, self._cells = settings, study, cells
        self._executor, self._resources = executor, resources
        self._desk, self._herald = desk, herald
        self._due: deque[Work] = deque()
        self._running: dict[str, Work] = {}
        self._open: dict[int, Open] = {}
        self._lost_bases: dict[str, Failure] = {}
        self._tries: Counter[str] = Counter()
        self._counts: dict[CellKey, dict[int, Sequence[Counts]]] = {}

    def run(self, *, detach: bool = False) -> None:
        """Until nothing is left to do; with `detach` until all that can be submitted is."""
        self._take_up()
        try:
            while self._start() or self._running or self._due:
                if detach or self._desk.cancelled:
                    break
                time.sleep(POLL_S)
                for job, end in self._executor.ended().items():
                    self._settle(self._running.pop(job), end)
                self._herald.show(self._running.values())
        finally:
            self._executor.close()
            if not self._executor.outlives:
                self._running.clear()
            self._keep_jobs()

    def _take_up(self) -> None:
        """Go on with what an earlier driver left: its proposals, and jobs that outlived it."""
        base = self._cells.base
        if self._cells.counts(base, self._cells.shared) is None:
            self._due.append(base_measurement(base, self._cells.shared))
        for proposal in self._study.running():
            self._open_up(proposal)
        works = {work.name: work for work in self._due}
        works |= {
            work.base.label: base_work(work.base, work.config)
            for work in self._due
            if work.base is not None and not work.base.exists
        }
        for job, name in self._desk.jobs().items():
            work = works.get(name)
            if work is not None and self._executor.adopt(self._task(work), job):
                self._begin(job, work)

    def _start(self) -> bool:
        """Fill the free places; whether anything was submitted."""
        batch: list[Work] = []
        while len(self._running) + len(batch) < self._executor.places:
            work = self._next({one.name for one in (*batch, *self._running.values())})
            if work is None:
                break
            batch.append(work)
        if batch:
            for job, work in zip(
                self._executor.submit([self._task(work) for work in batch]), batch, strict=True
            ):
                self._begin(job, work)
            self._keep_jobs()
        return bool(batch)

    def _begin(self, job: str, work: Work) -> None:
        if work in self._due:
            self._due.remove(work)
        work.began, work.since_s = work.started, time.monotonic()
        self._running[job] = work

    def _next(self, begun: set[str]) -> Work | None:
        """What to begin now, `begun` being under way; None where all is, or must wait."""
        while True:
            for work in list(self._due):
                if work.name in begun or self._is_elsewhere(work):
                    continue
                base = work.base
                if base is None or base.exists:
                    self._due.remove(work)
                    return work
                if base.label in self._lost_bases:
                    self._due.remove(work)
                    self._give_up(work, self._lost_bases[base.label])
                elif base.label not in begun:
                    return base_work(base, work.config)
            if any(not work.held for work in self._due) or not self._propose():
                return None

    def _is_elsewhere(self, work: Work) -> bool:
        """Whether somebody else works on it; when they have ended, it may be done."""
        if work.run is None:
            return False
        was, work.held = work.held, is_held(work.run.folder)
        if was and not work.held and self._found(work):
            self._due.remove(work)
            return True
        return work.held

    def _propose(self) -> bool:
        """Take a further cell, or a further seed of cells that may still be the best."""
        chosen = len(self._study.proposals())
        full = self._settings.trials is not None and chosen >= self._settings.trials
        proposal = None if full else self._study.propose()
        if proposal is not None:
            self._open_up(proposal)
            return True
        return self._settings.race and not self._running and self._race()

    def _open_up(self, proposal: Proposal) -> None:
        """Make a proposal's trainings due, as far as they aren't in the store."""
        seeds = range(1 if self._settings.race else self._settings.seeds)
        opened = self._open[proposal.number] = Open(proposal, set(seeds))
        for seed in seeds:
            try:
                training = self._cells.training(proposal.cell, seed)
            except SageError as error:  # settings that can't both hold
                opened.due.clear()
                opened.failed = Failure(Kind.REFUSED, error.cause)
                self._close(opened)
                return
            self._expect(cell_work(training, proposal.number))

    def _expect(self, work: Work) -> None:
        """Make a training due unless its result is in the store."""
        if work.training is not None:
            self._desk.note(work.training)
        self._herald.expect()
        if not self._found(work):
            self._due.append(work)

    def _race(self) -> bool:
        """Make further seeds of the cells due that may still be the best."""
        objectives, seeds = self._settings.objectives, self._settings.seeds
        for cell, seed in further_seeds(self._counts, objectives, seeds):
            self._expect(cell_work(self._cells.training(dict(cell), seed)))
        return bool(self._due)

    def _found(self, work: Work) -> bool:
        """Whether a work's result is in the store; the study is told what it waits for."""
        training = work.training
        if training is None:
            return work.base is None and work.run is not None and work.run.finished
        counts = self._cells.trained(training)
        if counts is None:
            return False
        self._counts.setdefault(tuple(training.cell.items()), {})[training.seed] = counts
        self._herald.done(work, score(self._settings.objectives, counts))
        if work.proposal is not None:
            opened = self._open[work.proposal]
            opened.due.discard(training.seed)
            opened.found[training.seed] = counts
            self._close(opened)
        return True

    def _settle(self, work: Work, end: End) -> None:
        """Find what became of a task that ended: a result, another attempt, or a failure."""
        if work.base is not None and work.training is None:
            return  # the base's measurement: without it a row is missing, no more
        if self._found(work) or end.fate is Fate.ENDED:
            return
        manifest = work.run.manifest if work.run and work.started != work.began else {}
        why = failure(end, manifest, self._desk.log(work.name))
        self._tries[work.name] += 1
        again = why.kind in AGAIN and self._tries[work.name] <= self._settings.retries
        self._herald.failed(work, why, again=again)
        if again and work.training is not None:
            self._due.appendleft(work)
        elif not again:
            self._give_up(work, why)

    def _give_up(self, work: Work, why: Failure) -> None:
        """Take a failure for an answer; a base's is that of all cells which need it."""
        if work.training is None:
            self._lost_bases[work.name] = why
        elif work.proposal is not None:
            opened = self._open[work.proposal]
            opened.due.discard(work.training.seed)
            opened.failed = why
            self._close(opened)

    def _close(self, opened: Open) -> None:
        """Tell the study, once all trainings of a proposal are settled."""
        if opened.due:
            return
        del self._open[opened.proposal.number]
        if opened.failed is not None:
            self._study.fail(opened.proposal, opened.failed)
        else:
            scores = [score(self._settings.objectives, one) for one in opened.found.values()]
            means = tuple(sum(of_one) / len(scores) for of_one in zip(*scores, strict=True))
            self._study.tell(opened.proposal, means)

    def _task(self, work: Work) -> Task:
        file = self._desk.task_config(work.name, work.config)
        resources = self._whole if work.training is None else self._share
        return work.task(file, self._desk.log(work.name), resources)

    def _keep_jobs(self) -> None:
        if self._executor.outlives:
            self._desk.keep_jobs({job: work.name for job, work in self._running.items()})
