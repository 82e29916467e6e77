"""The study: its trials as Optuna stores them, what became of each, the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from numpy.random import default_rng
from optuna.pruners import (
    BasePruner,
    NopPruner,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from sage_cli.store.result_hash import identity_of
from sage_cli.trials.sweep.journal import open_journal
from sage_cli.trials.sweep.samplers import OptunaSpace, ordered_lists, sampler
from sage_cli.trials.sweep.space import Point, Space, point_key
from sage_cli.trials.sweep.study_trial import State, StudyTrial
from sage_cli.trials.sweep.taught_study import INFEASIBLE, TaughtStudy

REPEATS = "repeats"
"""Name of a note: the trial that a trial repeats."""
_STATES = {
    TrialState.RUNNING: State.RUNNING,
    TrialState.COMPLETE: State.DONE,
    TrialState.PRUNED: State.PRUNED,
    TrialState.FAIL: State.FAILED,
}
_PATIENCE = 25
"""How often in a row a sampler may propose a known point before it is no longer asked."""


class Study:
    """One view of a sweep, kept by Optuna. One driver writes at a time; anybody may read.

    `name` is `<sweep>/<8 hex>`; `failed` are the trials that failed for an earlier driver and wait
    to be repeated.
    """

    def __init__(self, study: optuna.Study, space: OptunaSpace) -> None:
        self._study, self._space = study, space
        about = study.user_attrs
        self.name = study.study_name
        self.space = space.space
        self.objectives: tuple[str, ...] = tuple(about["objectives"])
        self.sampler: str = about["sampler"]
        self.seed: int = about["seed"]
        self.failed: list[StudyTrial] = []

    @classmethod
    def open(
        cls,
        folder: Path,
        sweep: str,
        space: Space,
        sampler: str,
        seed: int,
        objectives: Sequence[str],
        determinants: Mapping[str, Any] | None = None,
        pruner: BasePruner | None = None,
    ) -> Study:
        """Return the driver's own, in the sweep's folder.

        The view is named by all arguments but `folder`; `determinants` are whatever else decides
        the values. Trials that an earlier driver left running still run; points that failed for it
        are proposed before any other.
        """
        about = {
            "space": space.plain(),
            "sampler": sampler,
            "seed": seed,
            "objectives": list(objectives),
        }
        ordered = ordered_lists(space, sampler)
        if ordered:  # the trials of others have values in them
            about["ordered"] = ordered
        identity = identity_of("study", {**about, "determinants": determinants or {}})
        study = optuna.create_study(
            study_name=f"{sweep}/{identity[:8]}",
            storage=open_journal(folder),
            pruner=pruner or NopPruner(),
            directions=["maximize"] * len(objectives),
            load_if_exists=True,
        )
        for name in about.keys() - study.user_attrs.keys():
            study.set_user_attr(name, about[name])
        if study.metric_names is None:
            study.set_metric_names(list(objectives))
        opened_study = cls(study, OptunaSpace(space, ordered))
        opened_study._tidy()
        trials = opened_study.trials()
        opened_study.failed = [trial for trial in trials if trial.state is State.FAILED]
        return opened_study

    def trials(self) -> list[StudyTrial]:
        """Every point once, in the order of their first trials, with its latest trial.

        A result counts more than a failure after it.
        """
        latest: dict[Any, StudyTrial] = {}
        for frozen in self._whole():
            trial = self._trial(frozen)
            before = latest.get(point_key(trial.point))
            if REPEATS not in trial.attrs and (before is None or before.state is not State.DONE):
                latest[point_key(trial.point)] = trial
        return list(latest.values())

    def running(self) -> list[StudyTrial]:
        """The trials that have not ended, of this driver or an earlier one."""
        return [trial for trial in self.trials() if trial.state is State.RUNNING]

    def propose(self) -> StudyTrial | None:
        """The next new trial, now running; None if no point is left, or none was found.

        If a sampler proposes a known point, it is told the result and asked again. After PATIENCE
        such proposals a random one of the points that are left is taken.
        """
        if self.failed:
            failed = self.failed.pop(0)
            return self.begin(failed.point, {"again": failed.number})
        met = {point_key(trial.point): trial for trial in self.trials()}
        left = self._left(met)
        if left == []:
            return None
        if left and self.sampler == "grid":
            return self.begin(left[0], {})
        for _ in range(_PATIENCE):
            if (proposed := self._asked(met)) is not None:
                return proposed
        if left is None:
            return None
        return self.begin(left[default_rng([self.seed, len(met)]).integers(len(left))], {})

    def begin(self, point: Point, attrs: Mapping[str, Any]) -> StudyTrial:
        """A running trial of a point that no sampler chose."""
        number = self._add(point, attrs, state=TrialState.RUNNING)
        return StudyTrial(number, point, State.RUNNING, attrs=dict(attrs))

    def note(self, trial: StudyTrial, **attrs: Any) -> None:
        """Store something about a trial that has not ended yet, in JSON's types."""
        for name, value in attrs.items():
            self._store("set_trial_user_attr", trial, name, value)

    def report(self, trial: StudyTrial, step: int, value: float) -> None:
        """Store the objective at a step of the training; Optuna takes no more than one."""
        self._store("set_trial_intermediate_value", trial, step, float(value))

    def last_report(self, trial: StudyTrial) -> int:
        """Return the last step at which a trial's objective is stored; 0 without one."""
        return self._frozen(trial).last_step or 0

    def should_prune(self, trial: StudyTrial) -> bool:
        """Return True if the study's pruner would end the trial at its last report."""
        return self._study.pruner.prune(self._study, self._frozen(trial))

    def tell(self, trial: StudyTrial, values: Sequence[float]) -> None:
        """End a trial with these values of the objectives."""
        if len(values) != len(self.objectives) or not all(map(math.isfinite, values)):
            raise ValueError(f"{', '.join(self.objectives)} cannot be {list(values)}")
        self._study.tell(trial.number, list(map(float, values)), state=TrialState.COMPLETE)

    def fail(self, trial: StudyTrial, failure: str, reason: str) -> None:
        """End a trial without values: the class of its failure, and what happened."""
        self._end(trial, failure=failure, reason=reason)

    def rule_out(self, trial: StudyTrial, failure: str, reason: str) -> None:
        """End a trial that its own settings made fail: samplers learn to stay away from it."""
        self._end(trial, pruned=True, **{INFEASIBLE: True}, failure=failure, reason=reason)

    def prune(self, trial: StudyTrial, reason: str, step: int) -> None:
        """End a trial at a step because it lags behind."""
        self._end(trial, pruned=True, reason=reason, step=step)

    def known(self, point: Point, values: Sequence[float], source: str, **attrs: Any) -> bool:
        """Enter a result from elsewhere, so that samplers learn from it; `source` says from where.

        Returns False, and enters nothing, if the point is not in the space, or the study has its
        result or waits for it.
        """
        states = {point_key(trial.point): trial.state for trial in self.trials()}
        if point not in self.space or states.get(point_key(point)) in (State.DONE, State.RUNNING):
            return False
        measured = list(map(float, values))
        self._add(point, {"source": source, **attrs}, state=TrialState.COMPLETE, values=measured)
        self.failed = [trial for trial in self.failed if point_key(trial.point) != point_key(point)]
        return True

    def _end(self, trial: StudyTrial, *, pruned: bool = False, **notes: Any) -> None:
        self.note(trial, **notes)
        state = TrialState.PRUNED if pruned else TrialState.FAIL
        self._study.tell(trial.number, state=state)

    def _left(self, met: Mapping[Any, StudyTrial]) -> list[Point] | None:
        """The points without a trial; None if there are too many to list."""
        points = list(self.space.points()) if self.sampler == "grid" else self.space.listed()
        return points and [point for point in points if point_key(point) not in met]

    def _asked(self, met: Mapping[Any, StudyTrial]) -> StudyTrial | None:
        """The sampler's proposal; None if the point is known, whose result the sampler learns.

        The sampler learns from infeasible trials, too.
        """
        ruled_out = sum(trial.state is State.INFEASIBLE for trial in self.trials())
        chooses = sampler(self.sampler, self.seed, len(self._whole()), self._space, ruled_out)
        self._study.sampler = chooses
        asked = TaughtStudy(self.name, self._study._storage, chooses).ask()
        proposed = StudyTrial(asked.number, self._space.suggest(asked), State.RUNNING)
        earlier = met.get(point_key(proposed.point))
        if earlier is None:
            return proposed
        self.note(proposed, **{REPEATS: earlier.number})
        # the repeated point gets the known result: a sampler that is told nothing would propose it
        # again and again
        state = TrialState.FAIL if earlier.values is None else TrialState.COMPLETE
        self._study.tell(proposed.number, earlier.values, state=state)
        return None

    def _tidy(self) -> None:
        """Close the trials that a killed driver had asked for but not yet filled with a point."""
        running = {trial.number for trial in self.running()}
        for frozen in self._all():
            if frozen.state is TrialState.RUNNING and frozen.number not in running:
                # such a trial has no parameters, or only some, and no task would ever end it
                self._study.tell(frozen.number, state=TrialState.FAIL)

    def _all(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _whole(self) -> list[FrozenTrial]:
        return [
            frozen
            for frozen in self._all()
            if frozen.state is not TrialState.WAITING
            and self._space.from_params(frozen.params) in self._space.space
        ]

    def _frozen(self, trial: StudyTrial) -> FrozenTrial:
        return self._all()[trial.number]

    def _trial(self, frozen: FrozenTrial) -> StudyTrial:
        attrs = dict(frozen.user_attrs)
        state = State.INFEASIBLE if INFEASIBLE in attrs else _STATES[frozen.state]
        values = tuple(frozen.values) if state is State.DONE else None
        point = self._space.from_params(frozen.params)
        return StudyTrial(frozen.number, point, state, values, attrs)

    def _add(self, point: Point, attrs: Mapping[str, Any], **of_frozen: Any) -> int:
        """Enter a trial all at once; its number."""
        params, distributions = self._space.to_params(point)
        frozen = create_trial(
            params=params, distributions=distributions, user_attrs=dict(attrs), **of_frozen
        )
        self._study.add_trial(frozen)
        return self._all()[-1].number

    def _store(self, method: str, trial: StudyTrial, *given: Any) -> None:
        """Call a method of Optuna's storage that says something of a trial."""
        # `optuna.Trial` has these methods, too, but `ask` alone gives one: a driver that takes up
        # the trials of another can only make one by its number in the storage, which would ask the
        # sampler for the trial's values once more
        getattr(self._study._storage, method)(self._frozen(trial)._trial_id, *given)
