"""What Optuna keeps of a study: its trials as proposals, and every change to one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from sage_cli.sweep.optuna_space import OptunaSpace
from sage_cli.sweep.proposal import Proposal, State
from sage_cli.sweep.space import Cell, cell_key
from sage_cli.sweep.storage import patiently

log = logging.getLogger(__name__)
LOOK, REPEATS, WITHDRAWN = "look at ", "repeats", "withdrawn"
"""Names of what is noted: the objectives at a step, whom a trial repeats, and that it counts as
never asked for."""
_STATES = {
    TrialState.RUNNING: State.RUNNING,
    TrialState.COMPLETE: State.DONE,
    TrialState.PRUNED: State.PRUNED,
    TrialState.FAIL: State.FAILED,
}
Result = TypeVar("Result")


class Trials:
    """The trials of one study; a database that is away for a while is waited for."""

    def __init__(self, place: Path | str, study: optuna.Study, space: OptunaSpace) -> None:
        self._place, self._study, self._space = place, study, space

    def proposals(self) -> list[Proposal]:
        """Every cell once, in the order of their first proposals, with the latest that it led to.

        A result counts more than what failed after it.
        """
        latest: dict[Any, Proposal] = {}
        for trial in self._whole():
            one = self._proposal(trial)
            before = latest.get(cell_key(one.cell))
            if REPEATS not in one.attrs and (before is None or before.state is not State.DONE):
                latest[cell_key(one.cell)] = one
        return list(latest.values())

    def asked(self) -> int:
        """How many trials there are, without those whose values weren't all chosen."""
        return len(self._whole())

    def withdrawn(self) -> list[Cell]:
        """The cells of the trials that count as never asked for."""
        found = (trial for trial in self._all() if WITHDRAWN in trial.user_attrs)
        return [self._space.from_params(trial.params) for trial in found]

    def tidy(self) -> None:
        """Close what a killed driver left that is no proposal: asks that it didn't finish."""
        running = {one.number for one in self.proposals() if one.state is State.RUNNING}
        for trial in self._all():
            if trial.state is TrialState.RUNNING and trial.number not in running:
                self._close(trial.number, None, TrialState.FAIL)

    def enqueued(self) -> bool:
        """Whether somebody enqueued a trial (`study.enqueue_trial`), which `ask` takes up first.

        One whose values the space doesn't hold is closed, and named.
        """
        waiting = (trial for trial in self._all() if trial.state is TrialState.WAITING)
        return bool([trial for trial in waiting if self._fits(trial)])

    def _fits(self, trial: FrozenTrial) -> bool:
        wanted = {**trial.params, **trial.system_attrs.get("fixed_params", {})}
        if not (strange := self._space.strange(wanted)):
            return True
        log.warning(
            "trial %d, which was enqueued, is left out: the space doesn't hold %s",
            trial.number,
            ", ".join(f"{name}={value}" for name, value in strange.items()),
        )
        self._set_state(trial, TrialState.FAIL)
        return False

    def ask(self, sampler: optuna.samplers.BaseSampler) -> Proposal:
        """A running proposal of the sampler's."""
        self._study.sampler = sampler

        def asked() -> Proposal:
            trial = self._study.ask()
            cell = self._space.suggest(trial)
            return Proposal(trial.number, cell, State.RUNNING)

        return self._patiently(asked)

    def begin(self, cell: Cell, attrs: Mapping[str, Any]) -> Proposal:
        """A running proposal of a cell that no sampler chose."""
        number = self._add(cell, attrs, state=TrialState.RUNNING)
        return Proposal(number, cell, State.RUNNING, attrs=dict(attrs))

    def enter(self, cell: Cell, values: Sequence[float], attrs: Mapping[str, Any]) -> None:
        """A proposal that is done already."""
        self._add(cell, attrs, state=TrialState.COMPLETE, values=[float(one) for one in values])

    def note(self, proposal: Proposal, attrs: Mapping[str, Any]) -> None:
        """Keep something about a proposal that has no end yet, in JSON's types."""
        for name, value in attrs.items():
            self._store("set_trial_user_attr", proposal, name, value)

    def report(self, proposal: Proposal, step: int, values: Sequence[float]) -> None:
        """The objectives at a step of the training."""
        self.note(proposal, {f"{LOOK}{step}": [float(one) for one in values]})
        if len(values) == 1:  # where Optuna's samplers and dashboard look for it
            self._store("set_trial_intermediate_value", proposal, step, float(values[0]))

    def complete(self, proposal: Proposal, values: Sequence[float]) -> None:
        """The proposal is done."""
        self._close(proposal.number, [float(one) for one in values], TrialState.COMPLETE)

    def close(self, proposal: Proposal, *, pruned: bool = False) -> None:
        """The proposal has no values, because it failed or was pruned."""
        self._close(proposal.number, None, TrialState.PRUNED if pruned else TrialState.FAIL)

    def importances(self, place: int) -> dict[str, float]:
        """PED-ANOVA of the objective at `place`, by short name."""
        # with a target of one's own Optuna asks what matters to being low
        return self._patiently(
            lambda: optuna.importance.get_param_importances(
                self._study, target=lambda trial: -float(trial.values[place])
            )
        )

    def _all(self) -> list[FrozenTrial]:
        return self._patiently(lambda: self._study.get_trials(deepcopy=False))

    def _whole(self) -> list[FrozenTrial]:
        return [
            trial
            for trial in self._all()
            if trial.state is not TrialState.WAITING
            and WITHDRAWN not in trial.user_attrs
            and self._space.from_params(trial.params) in self._space.space
        ]

    def _proposal(self, trial: FrozenTrial) -> Proposal:
        attrs = dict(trial.user_attrs)
        looks = {
            int(name.removeprefix(LOOK)): tuple(attrs.pop(name))
            for name in list(attrs)
            if name.startswith(LOOK)
        }
        state = _STATES[trial.state]
        values = tuple(trial.values) if state is State.DONE else None
        return Proposal(
            trial.number, self._space.from_params(trial.params), state, values, attrs, looks
        )

    def _add(self, cell: Cell, attrs: Mapping[str, Any], **of_trial: Any) -> int:
        """Enter a trial all at once; its number."""
        params, distributions = self._space.to_params(cell)
        trial = create_trial(
            params=params,
            distributions=distributions,
            user_attrs=dict(attrs),
            **of_trial,
        )
        self._patiently(lambda: self._study.add_trial(trial))
        return self._all()[-1].number

    def _close(self, number: int, values: list[float] | None, state: TrialState) -> None:
        # the answer to an earlier try may have been lost: then it is finished already
        self._patiently(
            lambda: self._study.tell(number, values, state=state, skip_if_finished=True)
        )

    def _set_state(self, trial: FrozenTrial, state: TrialState) -> None:
        """Close a trial that nobody has begun, which `tell` refuses."""
        storage = self._study._storage
        self._patiently(lambda: storage.set_trial_state_values(trial._trial_id, state))

    def _store(self, method: str, proposal: Proposal, *given: Any) -> None:
        """Call a method of Optuna's storage that says something of a trial."""
        storage = self._study._storage

        def stored() -> None:
            study_id = storage.get_study_id_from_name(self._study.study_name)
            trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, proposal.number)
            getattr(storage, method)(trial_id, *given)

        self._patiently(stored)

    def _patiently(self, operation: Callable[[], Result]) -> Result:
        return patiently(self._place, operation)
