"""The attention function that hands queries, keys and values to a memory of ours.

Transformers lets a caller name the attention function that its models run
(https://huggingface.co/docs/transformers/attention_interface), and passes unknown arguments of
the forward call on to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers import AttentionInterface

from sage_cli.errors import SamplingError
from sage_cli.sampling.memory import AttentionMemory

NAME = "sage_memory"
_UNKNOWN_TO_IT = ("sliding_window", "softcap", "s_aux")


@contextmanager
def memory_attention(model: Any) -> Iterator[None]:
    """Let `model` attend through the memory that its forward call is given as `memory=`."""
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    memory: AttentionMemory,
    **extras: Any,
) -> tuple[Tensor, None]:
    for name in _UNKNOWN_TO_IT:
        if extras.get(name) is not None:
            raise SamplingError(
                f"the transformers backend can't compute {type(module).__name__} with '{name}'",
                "use --set sampling.backend=vllm or server for this architecture",
            )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return memory.attend(module.layer_idx, query * scale, key, value), None


AttentionInterface.register(NAME, _attend)
