"""Computes a model in float32 for a while, whole or its first layers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from sage_cli.models.loading import causal_of
from sage_cli.sampling.resources import free_bytes

SHARE = 0.5
"""How much of the free memory the weights in float32 may take; passes need the rest."""


@contextmanager
def in_float32(
    model: Any, free: float, forward: Callable[..., Any] | None = None
) -> Iterator[tuple[int, int] | None]:
    """Compute `model` in float32 for the block, without autocast; afterwards it is as it was.

    `forward` is the model's own, where accelerate has wrapped it into an autocast.

    Every weight of fewer digits is replaced by a copy that has more. If the copies don't fit into
    `free` bytes, only those of the first layers are made, and the other layers are left out.
    Yields how many layers are computed and how many there are; None, without a change, where no
    layer fits or weights are quantized, so that they have no copy in float32.
    """
    causal = causal_of(model)
    layers = _layers_of(causal)
    total = len(layers) if layers is not None else 1
    kept = total
    while kept and _bytes(_coarse(model, layers, kept)) > free:
        # without a list of layers there is nothing to leave out
        kept = kept - 1 if layers is not None else 0
    if not kept or getattr(causal, "is_quantized", False):
        yield None
        return
    with ExitStack() as stack:
        for tensor in _coarse(model, layers, kept):
            stack.callback(setattr, tensor, "data", tensor.data)
            tensor.data = tensor.data.float()
        if layers is not None:
            stack.callback(setattr, layers, "_modules", layers._modules)
            layers._modules = dict(list(layers._modules.items())[:kept])
        if forward is not None:
            stack.callback(setattr, model, "forward", model.forward)
            model.forward = forward
        attention = causal.config._attn_implementation
        if attention and "flash" in attention:  # these kernels have no float32
            stack.callback(causal.set_attn_implementation, attention)
            causal.set_attn_implementation("sdpa")
        stack.callback(
            torch.set_float32_matmul_precision, torch.get_float32_matmul_precision()
        )  # TensorFloat-32 has ten binary digits
        torch.set_float32_matmul_precision("highest")
        stack.enter_context(torch.autocast(model.device.type, enabled=False))
        yield kept, total


def bytes_for_copies(device: torch.device) -> float:
    """Return how many bytes of a device's free memory a copy of weights may take; 0 if unknown."""
    return SHARE * (free_bytes(device) or 0)


def _layers_of(causal: Any) -> torch.nn.ModuleList | None:
    """Return the list of a backbone's layers, if it has one list of all of them."""
    count = getattr(causal.config.get_text_config(), "num_hidden_layers", None)
    lists = (m for m in causal.base_model.modules() if isinstance(m, torch.nn.ModuleList))
    return next((layers for layers in lists if len(layers) == count), None)


def _coarse(model: Any, layers: torch.nn.ModuleList | None, kept: int) -> list[Tensor]:
    """Return the tensors of fewer digits than float32, without those of layers left out."""
    left_out = set(map(id, _tensors(layers[kept:]))) if layers is not None else set()
    return [
        tensor
        for tensor in _tensors(model)
        if tensor.is_floating_point() and tensor.itemsize < 4 and id(tensor) not in left_out
    ]


def _tensors(module: Any) -> Iterator[Tensor]:
    return chain(module.parameters(), module.buffers())


def _bytes(tensors: list[Tensor]) -> int:
    return sum(4 * tensor.numel() for tensor in tensors)
