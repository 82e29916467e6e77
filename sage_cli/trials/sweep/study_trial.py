"""A trial as the study stores it: a point, its state and its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sage_cli.trials.sweep.space import Point


class State(StrEnum):
    """The states of a trial; one is infeasible if its own settings made it fail."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    PRUNED = "pruned"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True)
class StudyTrial:
    """A point under its number in the study.

    `values` are its objectives if it is done. `attrs` are notes: `failure` and `reason` if it
    failed or is infeasible, `reason` and `step` if it was pruned, `source` if its values came from
    elsewhere.
    """

    number: int
    point: Point
    state: State
    values: tuple[float, ...] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
