"""The effects of a sweep's parameters on its objectives."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.importance import (
    Effect,
    category_column,
    effects,
    fewest_trials,
    numeric_column,
)
from sage_cli.reports.sweeps.data import Axis, SweepTrial

ABSENT = "without"
"""The category of trials that do not have a parameter."""


def parameter_effects(
    axes: Sequence[Axis], trials: Sequence[SweepTrial], objectives: Sequence[str]
) -> dict[str, dict[str, Effect]]:
    """Return by objective the effect of each parameter, by short name, on the measured trials.

    An objective is left out if the trials are too few or their values equal.
    """
    done = measured(trials)
    if not done:
        return {}
    columns = design(axes, done)
    found = {}
    for place, objective in enumerate(objectives):
        value_M = np.array([trial.values[place] for trial in done if trial.values is not None])
        finite_M = np.isfinite(value_M)
        varied = {name: column_MA[finite_M] for name, column_MA in columns.items()}
        if seen := effects(varied, value_M[finite_M]):
            found[objective] = seen
    return found


def trials_needed(axes: Sequence[Axis], trials: Sequence[SweepTrial]) -> int:
    """Return the number of measured trials that the effects of these parameters need."""
    full = {axis.name: np.zeros((1, _width(axis))) for axis in axes}
    done = measured(trials)
    return fewest_trials(design(axes, done) if len(done) > 2 else full)


def measured(trials: Sequence[SweepTrial]) -> list[SweepTrial]:
    """Return the trials that have values."""
    return [one for one in trials if one.state == "done" and one.values is not None]


def design(axes: Sequence[Axis], trials: Sequence[SweepTrial]) -> dict[str, FloatArray]:
    """Return the columns of each parameter: numbers by their line and square, else categories."""
    return {axis.name: _column(axis, trials) for axis in axes}


def _column(axis: Axis, trials: Sequence[SweepTrial]) -> FloatArray:
    values = [trial.settings.get(axis.key, ABSENT) for trial in trials]
    if not axis.is_number or ABSENT in values:
        return category_column(values)
    numbers = [float(value) for value in values]
    return numeric_column([log(one) for one in numbers] if axis.log else numbers)


def _width(axis: Axis) -> int:
    """Return the number of columns of an axis all of whose values are there."""
    count = len(axis.values) if axis.values is not None else 3
    return min(2, count - 1) if axis.is_number else count - 1
