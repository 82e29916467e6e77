"""A study as samplers see it: infeasible trials are the worst of all."""

from __future__ import annotations

import copy
from collections.abc import Container, Sequence

import numpy as np
import optuna
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState

INFEASIBLE = "infeasible"
"""Name of the note of a trial whose own settings made it fail; Optuna has it as pruned."""


class TaughtStudy(optuna.Study):
    """The same study, in which samplers learn from infeasible trials.

    TPE ranks pruned trials behind all others. The other samplers read complete trials only: they
    find infeasible ones complete, with the worst value that was measured of each objective.
    """

    def _get_trials(
        self,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
        use_cache: bool = False,
    ) -> list[FrozenTrial]:
        trials = super()._get_trials(deepcopy, None, use_cache)
        worst = None if isinstance(self.sampler, TPESampler) else _worst(trials)
        seen = [_seen(one, worst) if INFEASIBLE in one.user_attrs else one for one in trials]
        return [one for one in seen if states is None or one.state in states]


def _worst(trials: Sequence[FrozenTrial]) -> list[float] | None:
    """The lowest measured value of each objective; None if nothing is measured."""
    values = [one.values for one in trials if one.state is TrialState.COMPLETE]
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
