"""Stages of a command, which describe themselves for a dry run before they are carried out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Described:
    """A stage in words: its title, and its facts by name."""

    title: str
    facts: dict[str, Any]


class Stage(ABC):
    """One part of a command's work. Each kind carries itself out with what it needs for that."""

    @abstractmethod
    def describe(self) -> Described:
        """Describe what the stage would do, and what of it is done; loads and writes nothing."""

    def memory(self, gpu_gb: int) -> Described | None:  # noqa: ARG002
        """Lay the stage's memory against GPUs of so many GB; None if it computes nothing."""
        return None


def plan_of(stages: Sequence[Stage], gpu_gb: int | None = None) -> list[Described]:
    """Describe the stages of a command, and their memory on GPUs of so many GB."""
    return [*(stage.describe() for stage in stages), *memory_of(stages, gpu_gb)]


def memory_of(stages: Sequence[Stage], gpu_gb: int | None) -> list[Described]:
    """Describe the memory that each stage takes on GPUs of so many GB; empty without one."""
    described = (stage.memory(gpu_gb) for stage in stages if gpu_gb is not None)
    return [memory for memory in described if memory is not None]
