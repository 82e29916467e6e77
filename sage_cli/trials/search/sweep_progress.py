"""Progress of a sweep: that of its tasks, with scores, the best trial, and state.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sage_cli.progress import Progress
from sage_cli.trials.progress import TaskProgress
from sage_cli.trials.search.prepared import Sweep
from sage_cli.trials.search.scores import describe
from sage_cli.trials.search.study.study_trial import State, StudyTrial
from sage_cli.trials.task import Task

if TYPE_CHECKING:
    from sage_cli.trials.search.study.study import Study


class SweepProgress(TaskProgress):
    """Counts tasks for the terminal, and trials for state.json.

    `lost` are done trials that are trained again, since the store has not all of them any more.
    """

    def __init__(
        self, progress: Progress, sweep: Sweep, study: Study, lost: Sequence[StudyTrial] = ()
    ) -> None:
        self._each = each = sweep.settings.seeds
        super().__init__(progress, each * sweep.total)
        self._sweep, self._study = sweep, study
        earlier = [one.state for one in study.trials() if one not in lost]
        self.done_count = each * earlier.count(State.DONE)
        self.pruned_count = each * earlier.count(State.PRUNED)
        self.failed_count = each * earlier.count(State.INFEASIBLE)

    def scored(self, task: Task, values: Sequence[float]) -> None:
        """A replicate was trained and measured."""
        self.done(task, self._valued(values))

    def write_state(self, under_way: Collection[int] | None = None) -> None:
        """Write how many trials ended how, and the best one.

        Once the driver ends, `under_way` are the trials that run on by themselves.
        """
        trials, folder = self._study.trials(), self._sweep.folder
        done = [(one.values, one.point) for one in trials if one.values is not None]
        if done:
            values, point = max(done, key=lambda one: one[0][0])
            self.best = f"{describe(point)}: {self._valued(values)}"
        states = Counter(one.state for one in trials)
        ended = {
            "done": states[State.DONE],
            "failed": states[State.FAILED] + states[State.INFEASIBLE],
            "pruned": states[State.PRUNED],
        }
        wanted = self._sweep.wanted(states[State.INFEASIBLE])
        self._total = self._each * wanted
        stops = under_way is not None and folder.cancelled
        cancelled = states[State.RUNNING] - len(under_way or ()) if stops else 0
        left = max(0, wanted - sum(ended.values()) - cancelled)
        counts = {**ended, "cancelled": cancelled, "left": left}
        facts = self._sweep.facts(self._study)
        folder.write_state({**facts, "trials": counts, "best": self.best})
        if cancelled:
            trials_ = f"{cancelled} trial" + ("" if cancelled == 1 else "s")
            self._say("yellow", "cancelled", f"{trials_}; run the same command again to resume")

    def _valued(self, values: Sequence[float]) -> str:
        names = self._sweep.settings.objective
        return ", ".join(f"{name} {value:.3f}" for name, value in zip(names, values, strict=True))
