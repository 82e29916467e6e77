"""The trials of a study as Optuna stores them, and every change to one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from sage_cli.trials.search.space.space import Point, point_key
from sage_cli.trials.search.study.optuna_space import OptunaSpace
from sage_cli.trials.search.study.samplers import INFEASIBLE, TaughtStudy
from sage_cli.trials.search.study.storage import patiently
from sage_cli.trials.search.study.study_trial import State, StudyTrial

log = logging.getLogger(__name__)
REPEATS, WITHDRAWN = "repeats", "withdrawn"
"""Names of notes: the trial that a trial repeats, and that it does not count."""
_STATES = {
    TrialState.RUNNING: State.RUNNING,
    TrialState.COMPLETE: State.DONE,
    TrialState.PRUNED: State.PRUNED,
    TrialState.FAIL: State.FAILED,
}
Result = TypeVar("Result")


class StoredTrials:
    """The trials of one study; a database that is away for a while is waited for."""

    def __init__(self, place: Path | str, study: optuna.Study, space: OptunaSpace) -> None:
        self._place, self._study, self._space = place, study, space

    def trials(self) -> list[StudyTrial]:
        """Every point once, in the order of their first trials, with its latest trial.

        A result counts more than a failure after it.
        """
        latest: dict[Any, StudyTrial] = {}
        for frozen in self._whole():
            one = self._trial(frozen)
            before = latest.get(point_key(one.point))
            if REPEATS not in one.attrs and (before is None or before.state is not State.DONE):
                latest[point_key(one.point)] = one
        return list(latest.values())

    def asked(self) -> int:
        """The number of trials without those whose values were not all chosen."""
        return len(self._whole())

    def withdrawn(self) -> list[Point]:
        """The points of the trials that do not count."""
        found = (frozen for frozen in self._all() if WITHDRAWN in frozen.user_attrs)
        return [self._space.from_params(frozen.params) for frozen in found]

    def tidy(self) -> None:
        """Close what a killed driver left that is no trial yet: unfinished asks."""
        running = {one.number for one in self.trials() if one.state is State.RUNNING}
        for frozen in self._all():
            if frozen.state is TrialState.RUNNING and frozen.number not in running:
                self._close(frozen.number, None, TrialState.FAIL)

    def enqueued(self) -> bool:
        """Return True if a trial is enqueued (`study.enqueue_trial`), which `ask` takes first.

        One whose values are not in the space is closed with a warning.
        """
        waiting = (frozen for frozen in self._all() if frozen.state is TrialState.WAITING)
        return bool([frozen for frozen in waiting if self._fits(frozen)])

    def _fits(self, frozen: FrozenTrial) -> bool:
        wanted = {**frozen.params, **frozen.system_attrs.get("fixed_params", {})}
        if not (strange := self._space.strange(wanted)):
            return True
        log.warning(
            "trial %d, which was enqueued, is left out: the space does not hold %s",
            frozen.number,
            ", ".join(f"{name}={value}" for name, value in strange.items()),
        )
        self._set_state(frozen, TrialState.FAIL)
        return False

    def ask(self, sampler: optuna.samplers.BaseSampler) -> StudyTrial:
        """A running trial that the sampler chose, which learns from infeasible ones too."""
        self._study.sampler = sampler
        study = TaughtStudy(self._study.study_name, self._study._storage, sampler)

        def asked() -> StudyTrial:
            asked_trial = study.ask()
            point = self._space.suggest(asked_trial)
            return StudyTrial(asked_trial.number, point, State.RUNNING)

        return self._patiently(asked)

    def begin(self, point: Point, attrs: Mapping[str, Any]) -> StudyTrial:
        """A running trial of a point that no sampler chose."""
        number = self._add(point, attrs, state=TrialState.RUNNING)
        return StudyTrial(number, point, State.RUNNING, attrs=dict(attrs))

    def enter(self, point: Point, values: Sequence[float], attrs: Mapping[str, Any]) -> None:
        """Enter a trial that is done already."""
        self._add(point, attrs, state=TrialState.COMPLETE, values=[float(one) for one in values])

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
        frozen = self._frozen(trial)
        return self._patiently(lambda: self._study.pruner.prune(self._study, frozen))

    def complete(self, trial: StudyTrial, values: Sequence[float]) -> None:
        """End a trial with its values."""
        self._close(trial.number, [float(one) for one in values], TrialState.COMPLETE)

    def end(self, trial: StudyTrial, *, pruned: bool = False) -> None:
        """End a trial without values, because it failed or was pruned."""
        self._close(trial.number, None, TrialState.PRUNED if pruned else TrialState.FAIL)

    def _all(self) -> list[FrozenTrial]:
        return self._patiently(lambda: self._study.get_trials(deepcopy=False))

    def _whole(self) -> list[FrozenTrial]:
        return [
            frozen
            for frozen in self._all()
            if frozen.state is not TrialState.WAITING
            and WITHDRAWN not in frozen.user_attrs
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
            params=params,
            distributions=distributions,
            user_attrs=dict(attrs),
            **of_frozen,
        )
        self._patiently(lambda: self._study.add_trial(frozen))
        return self._all()[-1].number

    def _close(self, number: int, values: list[float] | None, state: TrialState) -> None:
        # the answer to an earlier try may have been lost: then it is finished already
        self._patiently(
            lambda: self._study.tell(number, values, state=state, skip_if_finished=True)
        )

    def _set_state(self, frozen: FrozenTrial, state: TrialState) -> None:
        """Close a trial that nobody has begun, which `tell` refuses."""
        storage = self._study._storage
        self._patiently(lambda: storage.set_trial_state_values(frozen._trial_id, state))

    def _store(self, method: str, trial: StudyTrial, *given: Any) -> None:
        """Call a method of Optuna's storage that says something of a trial."""
        storage = self._study._storage

        def stored() -> None:
            study_id = storage.get_study_id_from_name(self._study.study_name)
            trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, trial.number)
            getattr(storage, method)(trial_id, *given)

        self._patiently(stored)

    def _patiently(self, operation: Callable[[], Result]) -> Result:
        return patiently(self._place, operation)
