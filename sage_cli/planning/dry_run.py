"""The stages of a command, described by its dry run for a GPU, and carried out by the command."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from sage_cli.errors import ConfigurationError

GIB = 2**30
USABLE = 0.95
"""Share of a GPU's memory that tensors can have: the CUDA context and gaps have the rest."""


@dataclass(frozen=True)
class Gpu:
    """A GPU by name: gigabytes of 10^9 bytes, and whether it multiplies in bfloat16."""

    name: str
    memory_gb: int
    bfloat16: bool = True

    @property
    def bytes(self) -> int:
        """The bytes that tensors may take."""
        return int(USABLE * self.memory_gb * 10**9)


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("t4-16g", 16, bfloat16=False),
        Gpu("v100-16g", 16, bfloat16=False),
        Gpu("v100-32g", 32, bfloat16=False),
        Gpu("l4-24g", 24),
        Gpu("a10-24g", 24),
        Gpu("rtx3090-24g", 24),
        Gpu("rtx4090-24g", 24),
        Gpu("rtx5090-32g", 32),
        Gpu("a40-48g", 48),
        Gpu("a6000-48g", 48),
        Gpu("l40s-48g", 48),
        Gpu("a100-40g", 40),
        Gpu("a100-80g", 80),
        Gpu("h100-80g", 80),
        Gpu("h200-141g", 141),
        Gpu("b200-180g", 180),
    )
}
"""NVIDIA's data sheets, each named by generation and memory. They round: `nvidia-smi` may show up
to 7 % more, which a plan leaves free."""


def gpu_named(name: str) -> Gpu:
    """The GPU called `name`; ConfigurationError with the nearest names for another."""
    found = GPUS.get(name.lower())
    if found is None:
        close = get_close_matches(name.lower(), GPUS, n=1, cutoff=0.4)
        raise ConfigurationError(
            f"no GPU '{name}' is known" + (f" (did you mean {close[0]}?)" if close else ""),
            f"known are {', '.join(GPUS)}; name one of the same memory",
        )
    return found


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
