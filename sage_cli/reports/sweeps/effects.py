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
    done = [one for one in trials if one.state == "done" and one.values is not None]
    columns = {axis.name: _column(axis, done) for axis in axes}
    found = {}
    for objective in objectives:
        value_M = np.array([trial.values[objective] for trial in done if trial.values is not None])
        finite_M = np.isfinite(value_M)
        varied = {name: column_MA[finite_M] for name, column_MA in columns.items()}
        if seen := effects(varied, value_M[finite_M]):
            found[objective] = seen
    return found


def trials_needed(axes: Sequence[Axis]) -> int:
    """Return the number of measured trials that the effects of these parameters need."""
    return fewest_trials(sum(map(_width, axes)))


def _column(axis: Axis, trials: Sequence[SweepTrial]) -> FloatArray:
    """Return a parameter's columns: a number's line and square, else indicators."""
    values = [trial.settings.get(axis.key, ABSENT) for trial in trials]
    if not axis.is_number or ABSENT in values:
        return category_column(values)
    numbers = [float(value) for value in values]
    return numeric_column([log(one) for one in numbers] if axis.log else numbers)


def _width(axis: Axis) -> int:
    """Return the number of columns of an axis all of whose values are there."""
    count = len(axis.values) if axis.values is not None else 3
    return min(2, count - 1) if axis.is_number else count - 1
