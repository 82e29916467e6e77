"""Learning curves for a sweep's report, from the records of runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from sage_cli.reports.sweeps.data import LearningCurve
from sage_cli.store.runs.run import Run

POINTS = 40
"""The most points of a curve: longer ones are means over equal numbers of steps."""
SHOWN = ("eval/pass@1", "eval/exact@1", "reward")
"""The records that a curve may have, the first that a run has."""


def learning_curve(run: Run | None) -> LearningCurve | None:
    """Return a run's pass@1 on validation problems, or its reward; None without either.

    The reward of a long run is averaged over windows, each at its last step.
    """
    if run is None or not run.metrics.path.is_file():
        return None
    records = run.metrics.read()
    for key in SHOWN:
        points = [(int(one["step"]), float(one[key])) for one in records if _has(one, key)]
        if points:
            return LearningCurve(key, _thinned(points))
    return None


def _has(record: dict[str, Any], key: str) -> bool:
    value = record.get(key)
    return isinstance(value, int | float) and not isnan(value)


def _thinned(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Return `POINTS` windows' last steps and means, or the points if they are not more."""
    size = -(-len(points) // POINTS)
    windows = [points[start : start + size] for start in range(0, len(points), size)]
    return tuple((one[-1][0], sum(value for _, value in one) / len(one)) for one in windows)
