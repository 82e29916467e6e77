"""The engine that samples rollouts: chosen or refused, seeded, and given merged weights."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from peft.tuners.lora import LoraLayer
from peft.utils.other import TrainableTokensWrapper
from torch import Tensor
from trl.generation import vllm_generation

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.models.folders import model_config
from sage_cli.models.loading import changes_weights
from sage_cli.settings.sampling import Backend, LogprobsMode, RolloutSection
from sage_cli.training.launch import holds_all_weights

_INSTEAD = "use --set rollout.backend=transformers"


def settled_engine(rollout: RolloutSection, processes: int) -> RolloutSection:
    """`rollout` with the backend that samples here: `auto` is decided.

    Raises ConfigurationError where vLLM is asked for and can't run in so many `processes`, or the
    sampler and a launcher spreads the weights.
    """
    obstacle = _obstacle()
    backend = rollout.backend
    if backend == "auto":
        backend = _without_vllm() if obstacle else "vllm"
    if backend == "sampler" and not holds_all_weights():
        raise ConfigurationError(
            "rollout.backend 'sampler' needs all weights in each process, and the launcher spreads "
            "them over several",
            _INSTEAD,
        )
    if backend == "vllm":
        if obstacle:
            raise ConfigurationError(f"rollout.backend 'vllm' {obstacle[0]}", obstacle[1])
        _require_groups(rollout, processes)
        if problem := rollout.correction_problem():
            raise ConfigurationError(f"rollout.{problem[0]}", problem[1])
    return rollout.model_copy(update={"backend": backend})


def is_colocated(rollout: RolloutSection) -> bool:
    """Return True if the training processes hold a vLLM engine of their own."""
    uses_vllm = rollout.backend == "vllm" or (rollout.backend == "auto" and _obstacle() is None)
    return uses_vllm and rollout.vllm.mode == "colocate"


def require_heads(rollout: RolloutSection, heads: int | None) -> None:
    """Raise ConfigurationError where a model's attention heads can't be dealt out to an engine."""
    parts = rollout.vllm.tensor_parallel
    if rollout.backend == "vllm" and heads is not None and heads % parts:
        fitting = [str(n) for n in range(1, parts) if heads % n == 0]
        raise ConfigurationError(
            f"rollout.vllm.tensor_parallel {parts} doesn't divide the model's {heads} "
            "attention heads",
            f"use one of {', '.join(fitting)}: --set rollout.vllm.tensor_parallel={fitting[-1]}",
        )


def _require_groups(rollout: RolloutSection, processes: int) -> None:
    parts = rollout.vllm.tensor_parallel
    if rollout.vllm.mode == "colocate" and processes % parts:
        raise ConfigurationError(
            f"rollout.vllm.tensor_parallel {parts} doesn't divide the training's {processes} "
            f"process{'es' if processes > 1 else ''}, which hold the engine on a GPU each",
            f"use --processes {-(-processes // parts) * parts}, or a smaller tensor_parallel",
        )


def _without_vllm() -> Backend:
    """Return the backend without vLLM; on GPUs the speed of `sampler` has not been measured."""
    whole = holds_all_weights() and not torch.cuda.is_available()
    return "sampler" if whole else "transformers"


def _obstacle() -> tuple[str, str] | None:
    """Return why vLLM cannot sample rollouts here and the remedy, or None."""
    if not torch.cuda.is_available():
        return (
            "needs a GPU, and this machine has none: on CPUs the weights can't be handed from the "
            "trainer to the engine",
            _INSTEAD,
        )
    if find_spec("vllm") is None:
        return "needs vLLM, which isn't installed", f"pip install 'sage-rlvr[vllm]', or {_INSTEAD}"
    return None


_CHANGED = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "VLLM_ENABLE_V1_MULTIPROCESSING",
)  # fmt: skip
"""What the building of a colocated engine changes in the environment."""


def context_length(rollout: RolloutSection, prompts: Iterable[int], positions: int | None) -> int:
    """Return the context for prompts of so many tokens, in a model of so many `positions`.

    Raises ConfigurationError where the longest prompt and a whole completion don't fit.
    """
    longest = max(prompts)
    needed = longest + rollout.max_tokens
    limit = rollout.vllm.max_model_len if rollout.backend == "vllm" else None
    length = limit or needed
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
        ours = {"seed": engine_seed(seed, arguments["seed"], step), "logprobs_mode": logprobs_mode}
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
    """Return 31 bits that differ wherever seed, rank or step do."""
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


_BEFORE = "base_model.model."
_IN_PLACE = ("merge_adapter", "unmerge_adapter")


def merge_beside(generation: Any) -> None:
    """Have TRL's `generation` hand over merged weights without touching those of its model.

    Raises TrainingError for an adapter that isn't plain LoRA, for one whose weights aren't all
    handed over, and for a TRL that does it elsewise.
    """
    model = generation.model
    if not hasattr(model, "peft_config"):
        return
    source = inspect.getsource(type(generation)._iter_named_params)
    if not all(f"model.{name}()" in source for name in _IN_PLACE):
        raise TrainingError(
            "this release of TRL hands a LoRA policy's weights to vLLM in a way that isn't known "
            "to leave them as they are",
            "install the release that constraints.txt pins",
        )
    layers = adapted_layers(model)
    theirs = generation._iter_named_params

    def named_weights() -> Iterator[tuple[str, Tensor]]:
        unsent = set(layers)
        with torch.no_grad(), _untouched(model):
            for name, weight in theirs():
                if "modules_to_save." in name:  # the reference's: TRL has renamed the policy's
                    continue
                layer = layers.get(name)
                unsent.discard(name)
                yield name, weight if layer is None else merged(weight, layer)
        if unsent:
            raise _unfit(min(unsent))

    generation._iter_named_params = named_weights


def adapted_layers(model: Any) -> dict[str, LoraLayer]:
    """Return the layers with an adapter, by the name that their weight has without it.

    A layer of stacked experts has several adapters, one within the other.
    """
    layers, special = {}, []
    for path, layer in model.named_modules():
        name = path.removeprefix(_BEFORE).replace(".base_layer", "")
        if isinstance(layer, LoraLayer):
            layers[f"{name}.{getattr(layer, 'parameter_name', 'weight')}"] = layer
            if layer.lora_variant or any(layer.lora_bias.values()):
                special.append(name)
        elif isinstance(layer, TrainableTokensWrapper):
            special.append(name)
    whole = model.get_base_model()
    config, ends = whole.config, (whole.get_input_embeddings(), whole.get_output_embeddings())
    entries = model_config(whole.name_or_path).get("vocab_size")
    if entries not in (None, config.get_text_config().vocab_size):
        special.append("another vocabulary than its base's")
    if config.tie_word_embeddings and any(map(changes_weights, ends)):
        special.append("one of the embedding and the head that share their weights")
    if special or not layers:
        raise _unfit(special[0] if special else "no LoRA layer")
    return layers


def _unfit(why: str) -> TrainingError:
    return TrainingError(
        f"vLLM's rollouts take an adapter of plain LoRA, and the policy's is another ({why})",
        "use --set rollout.backend=transformers, or train from what `sage export` makes of it",
    )


def merged(weight: Tensor, layer: LoraLayer) -> Tensor:
    """Return W + s B A of the active adapter as a new tensor of W's type, never sharded."""
    for adapter in layer.active_adapters:
        delta = layer.get_delta_weight(adapter)
        whole = delta.full_tensor() if hasattr(delta, "full_tensor") else delta
        weight = (weight.float() + whole.to(weight.device).float()).to(weight.dtype)
    return weight


@contextmanager
def _untouched(model: Any) -> Iterator[None]:
    """Inside, nobody merges in place."""
    for name in _IN_PLACE:
        setattr(model, name, _nothing)
    try:
        yield
    finally:
        for name in _IN_PLACE:
            delattr(model, name)


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing: the work is done elsewhere."""
