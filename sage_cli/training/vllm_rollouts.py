"""Rollouts through vLLM: refused where they can't run, seeded where TRL doesn't seed them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from trl.generation import vllm_generation

from sage_cli.config.training import RolloutSection
from sage_cli.errors import ConfigurationError


def require_rollouts(rollout: RolloutSection) -> None:
    """Raise ConfigurationError where the configured rollouts can't run on this machine."""
    if rollout.backend == "transformers":
        return
    instead = "use --set rollout.backend=transformers"
    if not torch.cuda.is_available():
        raise ConfigurationError(
            f"rollout.backend '{rollout.backend}' needs a GPU, and this machine has none: on CPUs "
            "the weights can't be handed from the trainer to the engine",
            instead,
        )
    if find_spec("vllm") is None:
        raise ConfigurationError(
            f"rollout.backend '{rollout.backend}' needs vLLM, which isn't installed",
            f"pip install 'sage-rlvr[vllm]', or {instead}",
        )


@contextmanager
def seeded_engine(seed: int, step: int) -> Iterator[None]:
    """Inside, TRL's colocated engine is built with a seed of (seed, its rank, first step).

    TRL passes the rank alone, so that two training seeds would draw the same rollouts, and a
    resumed training those of its beginning.
    """
    plain = getattr(vllm_generation, "LLM", None)
    if plain is None:
        yield
        return

    def build(**arguments: Any) -> Any:
        return plain(**{**arguments, "seed": engine_seed(seed, arguments["seed"], step)})

    vllm_generation.LLM = build
    try:
        yield
    finally:
        vllm_generation.LLM = plain


def engine_seed(seed: int, rank: int, step: int) -> int:
    """31 bits that differ wherever seed, rank or step do."""
    return int(np.random.SeedSequence((seed, rank, step)).generate_state(1)[0] >> 1)
