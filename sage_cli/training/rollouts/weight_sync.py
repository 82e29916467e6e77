"""A LoRA policy's way to the rollout engine: merged beside its frozen weights, never in them.

TRL adds the adapter to the base in place, hands the sums over and subtracts it again. In bfloat16
that moves the base: after 1,000 steps by a quarter of the adapter. Here the sums are new tensors,
one layer at a time, rounded once.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from torch import Tensor

from sage_cli.errors import TrainingError

_BEFORE = "base_model.model."
_IN_PLACE = ("merge_adapter", "unmerge_adapter")


def merge_beside(generation: Any) -> None:
    """Have TRL's `generation` hand over merged weights without touching those of its model.

    Raises TrainingError for an adapter that isn't plain LoRA, and for a TRL that does it elsewise.
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
        with torch.no_grad(), _untouched(model):
            for name, weight in theirs():
                layer = layers.get(name)
                yield name, weight if layer is None else merged(weight, layer)

    generation._iter_named_params = named_weights


def adapted_layers(model: Any) -> dict[str, LoraLayer]:
    """The layers with an adapter, by the name that their weight has without it."""
    found = {
        f"{name.removeprefix(_BEFORE)}.weight": layer
        for name, layer in model.named_modules()
        if isinstance(layer, LoraLayer)
    }
    special = [name for name, layer in found.items() if layer.lora_variant or _has_bias(layer)]
    if special or not found:
        raise TrainingError(
            "vLLM's rollouts take an adapter of plain LoRA, and the policy's is another "
            f"({special[0] if special else 'no LoRA layer'})",
            "use --set rollout.backend=transformers",
        )
    return found


def merged(weight: Tensor, layer: LoraLayer) -> Tensor:
    """W + s B A of the active adapter in a new tensor of W's type, whole where it is sharded."""
    for adapter in layer.active_adapters:
        delta = layer.get_delta_weight(adapter)
        whole = delta.full_tensor() if hasattr(delta, "full_tensor") else delta
        weight = (weight.float() + whole.to(weight.device).float()).to(weight.dtype)
    return weight


def _has_bias(layer: LoraLayer) -> bool:
    return any(layer.lora_bias.values())


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
