"""Rollouts through vLLM, where TRL leaves something to be wished for: lengths, seeds, pairing."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from trl.generation import vllm_generation

from sage_cli.errors import ConfigurationError
from sage_cli.settings.sections.rollout import LogprobsMode, RolloutSection

_CHANGED = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "VLLM_ENABLE_V1_MULTIPROCESSING",
)  # fmt: skip
"""What the building of a colocated engine changes in the environment."""


def context_length(rollout: RolloutSection, prompts: Iterable[int], positions: int | None) -> int:
    """`max_model_len` for prompts of so many tokens, in a model of so many `positions`.

    Raises ConfigurationError where the longest prompt and a whole completion don't fit.
    """
    longest = max(prompts)
    needed = longest + rollout.max_tokens
    length = rollout.vllm.max_model_len or needed
    room = min(length, positions or length)
    if needed > room:
        whose = "rollout.vllm.max_model_len" if room == length else "the model's context"
        raise ConfigurationError(
            f"the longest prompt has {longest} tokens, and with rollout.max_tokens "
            f"{rollout.max_tokens} that is more than {whose} of {room}",
            f"use --set rollout.max_tokens={room - longest}"
            if room > longest
            else "leave the longest prompts out, or take a model with a longer context",
        )
    return room


@contextmanager
def as_launched() -> Iterator[None]:
    """Take back what TRL and vLLM say in the environment when they build an engine.

    TRL names rank and world size also where no launcher did, and a process that finds them named
    takes itself for launched. vLLM has every further engine live in this process, whose end takes
    the first one's process groups along.
    """
    before = {name: os.environ.get(name) for name in _CHANGED}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def engine_as_asked(seed: int, step: int, logprobs_mode: LogprobsMode) -> Iterator[None]:
    """Inside, TRL's colocated engine is built with our seed and with `logprobs_mode`.

    The seed is of (seed, its rank, first step). TRL passes the rank alone, so that two training
    seeds would sample the same rollouts, and a resumed training those of its beginning. TRL also
    asks for probabilities after truncation, whose ratio with the trainer's is the mass kept. Its
    advice to a server's user to do the same isn't passed on: `require_rollouts` asks the server.
    """
    logger = logging.getLogger("trl.trainer.grpo_trainer")
    logger.addFilter(_not_on_logprobs)
    plain = getattr(vllm_generation, "LLM", None)

    def build(**arguments: Any) -> Any:
        ours = {
            "seed": engine_seed(seed, arguments["seed"], step),
            "logprobs_mode": logprobs_mode,
        }
        return plain(**{**arguments, **ours})  # type: ignore[misc]

    if plain is not None:
        vllm_generation.LLM = build
    try:
        yield
    finally:
        logger.removeFilter(_not_on_logprobs)
        if plain is not None:
            vllm_generation.LLM = plain


def _not_on_logprobs(record: logging.LogRecord) -> bool:
    return "--logprobs-mode" not in record.getMessage()


def engine_seed(seed: int, rank: int, step: int) -> int:
    """31 bits that differ wherever seed, rank or step do."""
    return int(np.random.SeedSequence((seed, rank, step)).generate_state(1)[0] >> 1)


def ask_for_each_row(generation: Any) -> None:
    """Have TRL's `generation` ask a server for one completion of each row's own prompt.

    TRL takes every G-th row of all processes for a prompt with G completions. Rows of a second
    stage come in no such order, nor do those that replace a group which processes share: they
    would be given completions of other prompts. An engine of one's own is asked row by row anyway.
    """
    generate = generation.generate

    def row_by_row(**arguments: Any) -> Any:
        return generate(**{**arguments, "num_generations": 1})

    generation.generate = row_by_row
