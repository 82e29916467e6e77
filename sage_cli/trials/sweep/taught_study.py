"""What a sampler is told of a study: values of trials, the worst one for those that failed."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Container, Sequence

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import (
    TPESampler,
)
from optuna.trial import FrozenTrial, TrialState

INFEASIBLE = "infeasible"
"""Name of the note of a trial whose own settings made it fail; Optuna has it as pruned."""


class TaughtStudy(optuna.Study):
    """The same study, in which samplers learn from infeasible trials.

    TPE ranks pruned trials behind all others. The other samplers read complete trials only: they
    find infeasible ones complete, with the worst value that was measured of each objective.
    """

    # Nothing public of Optuna does this. A trial that is told the worst value stays told: later
    # trials may be worse, and reports would show a value that nobody measured. `constraints_func`
    # takes a trial that has values. Asking a copy of the study, filled by `add_trial`, would lose
    # what samplers note in the study's storage, such as the place in Sobol's sequence, and with it
    # the same proposals after a restart.

    def _get_trials(
        self,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
        use_cache: bool = False,
    ) -> list[FrozenTrial]:
        # all states, since an infeasible trial is shown under another state than it is stored with
        trials = super()._get_trials(deepcopy, None, use_cache)
        worst = None if isinstance(self.sampler, TPESampler) else _worst(trials)
        seen = [
            _seen(trial, worst) if INFEASIBLE in trial.user_attrs else trial for trial in trials
        ]
        return [trial for trial in seen if states is None or trial.state in states]


def _worst(trials: Sequence[FrozenTrial]) -> list[float] | None:
    """The lowest measured value of each objective; None if nothing is measured."""
    values = [trial.values for trial in trials if trial.state is TrialState.COMPLETE]
    return [float(value) for value in np.min(values, axis=0)] if values else None


def _seen(infeasible: FrozenTrial, worst: list[float] | None) -> FrozenTrial:
    if infeasible.state is not TrialState.PRUNED:
        return infeasible
    seen = copy.copy(infeasible)
    seen.intermediate_values = {}  # Optuna would rank it by how far it came
    if worst is not None:
        seen.state = TrialState.COMPLETE
        seen.values = worst
    return seen


optuna.logging.set_verbosity(optuna.logging.ERROR)


warnings.filterwarnings("ignore", category=ExperimentalWarning)  # names of objectives
