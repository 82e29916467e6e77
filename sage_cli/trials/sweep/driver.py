"""The driver of a sweep: starts the study's trials, tells it their values, reports the outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sage_cli.errors import SageError
from sage_cli.progress import Progress
from sage_cli.store.run import Run
from sage_cli.trials.executors.executor import Executor
from sage_cli.trials.failures import Failure, Kind
from sage_cli.trials.queue import TaskQueue
from sage_cli.trials.sweep.plan import Sweep
from sage_cli.trials.sweep.scores import (
    ByBenchmark,
    mean_scores,
    pooled_counts,
    trial_values,
    validations,
)
from sage_cli.trials.sweep.space import Point, describe_point
from sage_cli.trials.sweep.study_trial import State, StudyTrial
from sage_cli.trials.task import Task
from sage_cli.trials.task_progress import TaskProgress

if TYPE_CHECKING:
    from sage_cli.trials.sweep.study import Study


_MEMORY_SECTIONS = ("model.", "prompt.", "data.", "rollout.vllm.")
_MEMORY_SETTINGS = frozenset(
    {
        "sft.batch_size",
        "sft.micro_batch",
        "sft.max_length",
        "sft.optimizer",
        "sft.loss",
        "sft.gradient_checkpointing",
        "rl.algo",
        "rl.prompts_per_step",
        "rl.rollouts_per_prompt",
        "rl.micro_batch",
        "rl.optimizer",
        "rl.gradient_checkpointing",
        "rl.processes",
        "rl.steps_per_generation",
        "rl.dynamic_sampling",
        "rl.max_extra_generations",
        "rl.most_rollouts",
        "rollout.backend",
        "rollout.max_tokens",
        "anchor.kl",
        "anchor.reference",
        "anchor.reference_samples",
        "guide.name",
    }
)


def changes_memory(keys: Iterable[str]) -> bool:
    """Return True if one of these settings can change how much memory a training takes."""
    return any(key in _MEMORY_SETTINGS or key.startswith(_MEMORY_SECTIONS) for key in keys)


def is_own(why: Failure, keys: Iterable[str]) -> bool:
    """Return True if a trial's own settings made it fail; `keys` are the searched settings.

    A lack of memory is the machine's if no searched setting changes how much is taken.
    """
    return why.kind is Kind.DIVERGED or (why.kind is Kind.MEMORY and changes_memory(keys))


@dataclass
class Pending:
    """A trial that waits for the tasks `due`; `results` are those of the measured replicates."""

    trial: StudyTrial
    due: set[str]
    results: dict[int, ByBenchmark] = field(default_factory=dict)
    failed: Failure | None = None


class Driver(TaskProgress):
    """Drives one sweep to its end, or until it is interrupted; it trains and measures nothing.

    Tasks are counted for the terminal, and trials for state.json. `lost` are done trials that are
    trained again, since the store has not all of their replicates any more.
    """

    def __init__(
        self,
        sweep: Sweep,
        study: Study,
        executor: Executor,
        progress: Progress,
        lost: Sequence[StudyTrial] = (),
    ) -> None:
        seeds = sweep.settings.seeds
        super().__init__(progress, seeds * sweep.total)
        self._sweep, self._study, self._lost = sweep, study, lost
        self._settings = sweep.settings
        # lost results are trained again, so they don't count as done
        earlier = [trial.state for trial in study.trials() if trial not in lost]
        self.done_count = seeds * earlier.count(State.DONE)
        self.pruned_count = seeds * earlier.count(State.PRUNED)
        self.failed_count = seeds * earlier.count(State.INFEASIBLE)
        self._queue = TaskQueue(executor, sweep.folder.tasks, self._settings.retries, self)
        self._pending: dict[str, Pending] = {}  # by the names of due tasks
        self._initial = sweep.initial_task()
        self._initial_failed = False
        self._exhausted = False
        self._validated: dict[int, int] = {}  # trial -> the last step that the study knows

    def run(self, *, detach: bool = False) -> None:
        """Drive until nothing is left; with `detach` until all that is possible is submitted."""
        self.write_state()
        try:
            self._queue.add(self._initial)
            for trial in self._study.running():
                self._start(trial)
            for trial in self._lost:
                self._expect(trial.point)
            self._queue.run(
                self, further=self._propose, enough=lambda: detach, check=self._end_pruned
            )
        finally:
            self._queue.close()
            self.close()
        self.write_state()

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
        assert task.measured is not None  # read when the queue asked if it is done
        seed, results = task.replicate.seed, pooled_counts(task.measured)
        self.scored(task, results)
        if (pending := self._pending.pop(task.name, None)) is not None:
            pending.results[seed] = results
            # only the first seed's validations are reported: a pruner compares values at equal
            # steps, and several seeds would give several values for one
            if self._prunes and not seed and task.run is not None:
                list(self._report(pending.trial, task.run))  # others are judged by these
            self._settle(pending, task)

    def failed(self, task: Task, why: Failure, log: Path, *, again: bool) -> None:
        """A task left no result."""
        super().failed(task, why, log, again=again)
        if again:
            return
        if self._initial.needs is not None and task.name == self._initial.needs.name:
            self._initial_failed = True
        if (pending := self._pending.pop(task.name, None)) is not None:
            if pending.failed is None or not self._is_own(pending.failed):
                pending.failed = why
            self._settle(pending, task)

    def scored(self, task: Task, results: ByBenchmark) -> None:
        """A replicate was trained and measured. Warn if it is the first and nothing is correct."""
        self._count(task, self._valued(trial_values(self._settings.objectives, results)))
        if self.done_count == 1 and not any(counts.c_P.any() for counts in results.values()):
            line = f"no sample of the first trial is correct on {', '.join(results)}"
            advice = "check that the trials train on this task and that it is graded correctly"
            self._say("yellow", "warning", f"{line}: {advice}")

    def write_state(self) -> None:
        """Write how many trials ended how, and the best one."""
        trials, folder = self._study.trials(), self._sweep.folder
        done = [(trial.values, trial.point) for trial in trials if trial.values is not None]
        if done:
            values, point = max(done, key=lambda scored: scored[0][0])
            self.best = f"{describe_point(point)}: {self._valued(values)}"
        states = Counter(trial.state for trial in trials)
        ended = {
            "done": states[State.DONE],
            "failed": states[State.FAILED] + states[State.INFEASIBLE],
            "pruned": states[State.PRUNED],
        }
        total = self._sweep.wanted(states[State.INFEASIBLE])
        self._total = self._settings.seeds * total
        counts = {**ended, "left": max(0, total - sum(ended.values()))}
        facts = self._sweep.facts(self._study)
        folder.write_state({**facts, "trials": counts, "best": self.best})

    def _valued(self, values: Sequence[float]) -> str:
        names = self._settings.objective
        return ", ".join(f"{name} {value:.3f}" for name, value in zip(names, values, strict=True))

    def _propose(self) -> bool:
        """Start a further trial; False if there is none."""
        if self._exhausted:
            return False
        trial = None if self._full() else self._study.propose()
        if trial is None:
            self._exhausted = True  # the points that are left only become fewer
            return False
        self._start(trial)
        return True

    def _full(self) -> bool:
        """Return True if the sweep has as many trials as it may, feasible or not."""
        limit, waiting = self._settings.trials, {trial.number for trial in self._study.failed}
        if limit is None:
            return False
        # one that failed for an earlier driver is proposed again, and is not a further trial
        trials = [trial for trial in self._study.trials() if trial.number not in waiting]
        infeasible = sum(trial.state is State.INFEASIBLE for trial in trials)
        return limit <= len(trials) - infeasible or self._settings.infeasible_limit <= infeasible

    def _start(self, trial: StudyTrial) -> None:
        """Make a trial's tasks due, as far as their results are not stored."""
        if (why := self._expect(trial.point, trial)) is not None:
            self._fail(trial, why)
            self.write_state()

    def _expect(self, point: Point, trial: StudyTrial | None = None) -> Failure | None:
        """Make the tasks of a point due; the reason if its settings contradict each other."""
        try:
            tasks = self._sweep.trainings(point)
        except SageError as error:
            why = Failure(Kind.REFUSED, error.cause)
            self.refused(describe_point(point), why, self._settings.seeds)
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
        self.expect(task)
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
            pending, run, replicate = self._pending.get(task.name), task.run, task.replicate
            if pending is None or run is None or replicate is None or replicate.seed:
                continue
            for step in self._report(pending.trial, run):
                if step >= replicate.config.rl.steps:
                    break  # all of it is spent: only its measurement is left
                if self._study.should_prune(pending.trial):
                    self._end_trial(pending, task, step)
                    break

    def _end_trial(self, pending: Pending, task: Task, step: int) -> None:
        """End a trial's tasks; what they saved stays, and `sage rl` would resume it.

        A training that finished meanwhile, unseen or while it was ended, is kept.
        """
        if task.run is None or task.run.is_finished():
            return
        # ending takes a while, in which the training may finish: its result is then worth more than
        # the pruner's verdict, which is about a forecast
        ended = self._queue.cancel(lambda queued: queued.name in pending.due)
        if task.run.is_finished():
            for cancelled in ended:
                self._queue.add(cancelled)
            return
        for name in pending.due:
            del self._pending[name]
        reason = f"by Optuna's rule {self._settings.prune} at step {step}"
        for cancelled in ended:
            if cancelled.run is not None:
                cancelled.run.prune(reason)
        self._study.prune(pending.trial, reason, step)
        self.pruned(task, reason, len(pending.due))
        self.write_state()

    def _settle(self, pending: Pending, task: Task) -> None:
        """Tell the study, once all tasks of a trial have ended."""
        pending.due.discard(task.name)
        if pending.due:
            return
        why = pending.failed
        if why is None:
            scores = [
                trial_values(self._settings.objectives, results)
                for results in pending.results.values()
            ]
            # once, when all seeds are there: Optuna takes one value for each trial, the mean over
            # its seeds
            self._study.tell(pending.trial, mean_scores(scores))
        elif self._is_own(why):
            self._study.note(pending.trial, lines=list(why.lines))
            self._study.rule_out(pending.trial, why.kind, why.reason)
        else:
            self._fail(pending.trial, why)
        self.write_state()

    def _is_own(self, why: Failure) -> bool:
        """Return True if a trial's own settings made it fail, not the policy that all share."""
        return not self._initial_failed and is_own(why, self._sweep.space.keys.values())

    def _fail(self, trial: StudyTrial, why: Failure) -> None:
        self._study.note(trial, lines=list(why.lines))
        self._study.fail(trial, why.kind, why.reason)
