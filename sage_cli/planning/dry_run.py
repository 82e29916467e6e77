"""The stages of a command: described by its dry run, carried out by the command itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sage_cli.planning.gpus import Gpu, gpu_named


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

    def memory(self, gpu: Gpu) -> Described | None:  # noqa: ARG002
        """Describe the GPU memory that the stage takes on `gpu`; None if it computes nothing."""
        return None


def plan_of(stages: Sequence[Stage], gpu: str | None = None) -> list[Described]:
    """Describe the stages of a command, and their memory on the GPU named `gpu`."""
    return [*(stage.describe() for stage in stages), *memory_of(stages, gpu)]


def memory_of(stages: Sequence[Stage], gpu: str | None) -> list[Described]:
    """Describe the memory that each stage takes on the GPU named `gpu`; empty without a name."""
    if gpu is None:
        return []
    named = gpu_named(gpu)
    found = (stage.memory(named) for stage in stages)
    return [one for one in found if one is not None]
