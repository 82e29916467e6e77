"""A model whose attention goes through a memory of ours, and what such a model can't be.

Transformers lets a caller name the attention function that its models run
(https://huggingface.co/docs/transformers/attention_interface), and beside it the function that
makes their masks. Ours makes none: it lets pass what hides nothing from a text so short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import causal_mask_function

from sage_cli.errors import SamplingError
from sage_cli.sampling.architecture import obstacles
from sage_cli.sampling.memory import AttentionMemory

NAME = "sage_memory"
_UNKNOWN_TO_IT = ("softcap", "s_aux", "indices", "block_indices", "position_bias")


class MemoryModel:
    """A causal model that attends, in each forward pass, through the memory it is given.

    `reach` is how many tokens the longest text will have been read of. Raises SamplingError, which
    names what stands in the way, for a model that isn't plain causal attention over such texts.
    """

    def __init__(self, model: Any, reach: int) -> None:
        self._model, self._reach = model, reach
        whole = model.get_base_model() if hasattr(model, "peft_config") else model
        self.device, self.name = model.device, type(whole).__name__
        self.layers = int(model.config.get_text_config().num_hidden_layers)
        self._takes = frozenset(signature(whole.forward).parameters)
        for obstacle in obstacles(whole, reach):
            raise self.unfit(obstacle)
        if "position_ids" not in self._takes:
            raise self.unfit("takes no position_ids")

    @contextmanager
    def attending(self) -> Iterator[MemoryModel]:
        """Replace the model's attention for the length of the block."""
        before = self._model.config._attn_implementation
        self._model.set_attn_implementation(NAME)
        try:
            yield self
        finally:
            self._model.set_attn_implementation(before)

    def logits(self, memory: AttentionMemory, ids_BT: Tensor, **inputs: Any) -> Tensor:
        """The logits (B, V) after each row's last token, by one forward pass through `memory`."""
        if "logits_to_keep" in self._takes:
            inputs["logits_to_keep"] = 1
        now = _NOW.set((self, memory))
        try:
            output = self._model(input_ids=ids_BT, use_cache=False, **inputs)
        except (TypeError, AttributeError) as error:  # a mask or a cache that it can't do without
            raise self.unfit(f"can't attend otherwise than it does ({error})") from error
        finally:
            _NOW.reset(now)
        logits_BV: Tensor = output.logits[:, -1]
        return logits_BV

    def unfit(self, reason: str) -> SamplingError:
        """The error for a model that the decoding loop can't compute."""
        return SamplingError(
            f"the transformers backend can't sample from {self.name}: it {reason}",
            "use --set sampling.backend=vllm or server for this architecture",
        )

    def require_plain(self, mask_function: Callable[..., Tensor], window: int | None) -> None:
        """Raise SamplingError where a mask hides an earlier token of a text, or shows a later one.

        `mask_function` tells by (batch, head, query, key) what is seen.
        """
        if mask_function is causal_mask_function:
            return
        all_T = torch.arange(self._reach, device=self.device)
        zero = all_T[0]
        last_sees_all = bool(mask_function(zero, zero, all_T[-1], all_T).all())
        first_sees_itself_alone = not mask_function(zero, zero, zero, all_T[1:]).any()
        if last_sees_all and first_sees_itself_alone:
            return
        if window is None:
            raise self.unfit("attends through masks that aren't plainly causal")
        raise self._too_short(f"windows or chunks of {window} tokens")

    def require_no_window(self, window: int | None) -> None:
        """The same for a model that tells its attention function of a sliding window."""
        if window is not None and window < self._reach:
            raise self._too_short(f"windows of {window} tokens")

    def _too_short(self, what: str) -> SamplingError:
        return self.unfit(f"attends in {what}, and a text may have {self._reach}")


_NOW: ContextVar[tuple[MemoryModel, AttentionMemory]] = ContextVar("the running forward pass")


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **extras: Any,
) -> tuple[Tensor, None]:
    model, memory = _NOW.get()
    model.require_no_window(sliding_window)
    if attention_mask is not None:
        raise model.unfit("makes attention masks of its own")
    for name in _UNKNOWN_TO_IT:
        if extras.get(name) is not None:
            raise model.unfit(f"attends with '{name}'")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return memory.attend(module.layer_idx, query * scale, key, value), None


def _no_mask(
    *, mask_function: Callable[..., Tensor], local_size: int | None = None, **_: Any
) -> None:
    _NOW.get()[0].require_plain(mask_function, local_size)


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, _no_mask)
