"""A cell that was proposed, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sage_cli.sweep.space import Cell


class State(StrEnum):
    """What became of a proposal."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    PRUNED = "pruned"


@dataclass(frozen=True)
class Proposal:
    """A cell under its number in the study.

    `values` are its objectives where it is done. `attrs` is what was noted of it: among it
    `failure` and `reason` where it failed, `reason` and `step` where it was pruned, `source` where
    its values were known from elsewhere. `looks` are its objectives while it was trained, by step.
    """

    number: int
    cell: Cell
    state: State
    values: tuple[float, ...] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    looks: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
