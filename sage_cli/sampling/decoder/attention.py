"""A model whose attention is computed by a memory of sage, and the models for which it cannot be.

Transformers lets a caller register the attention function of its models and the function that makes
their masks (https://huggingface.co/docs/transformers/attention_interface). Ours makes no masks: it
accepts those that hide no token of a text of the given length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import causal_mask_function

from sage_cli.errors import SamplingError
from sage_cli.sampling.decoder.memory import AttentionMemory

NAME = "sage_memory"
_UNKNOWN_TO_IT = ("softcap", "s_aux", "indices", "block_indices", "position_bias")


class MemoryModel:
    """A causal model that attends through a given memory in each forward pass.

    `reach` is the number of tokens of the longest text. Raises SamplingError, which names the
    obstacle, for a model that is not plain causal attention over such texts.
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
        """Replace the model's attention while the block runs."""
        before = self._model.config._attn_implementation
        self._model.set_attn_implementation(NAME)
        try:
            yield self
        finally:
            self._model.set_attn_implementation(before)

    def logits(self, memory: AttentionMemory, ids_BT: Tensor, **inputs: Any) -> Tensor:
        """Return the logits (B, V) after each row's last token, by a forward pass with `memory`."""
        if "logits_to_keep" in self._takes:
            inputs["logits_to_keep"] = 1
        now = _NOW.set((self, memory))
        try:
            output = self._model(input_ids=ids_BT, use_cache=False, **inputs)
        except (TypeError, AttributeError) as error:  # it needs a mask or a cache
            raise self.unfit(f"can't attend otherwise than it does ({error})") from error
        finally:
            _NOW.reset(now)
        logits_BV: Tensor = output.logits[:, -1]
        return logits_BV

    def unfit(self, reason: str) -> SamplingError:
        """Return the error for a model that the decoding loop cannot compute."""
        return SamplingError(
            f"the transformers backend can't sample from {self.name}: it {reason}",
            "use --set sampling.backend=vllm or server for this architecture",
        )

    def require_plain(self, mask_function: Callable[..., Tensor], window: int | None) -> None:
        """Raise SamplingError if a mask hides an earlier token of a text or shows a later one.

        `mask_function(batch, head, query, key)` is True for keys that a query sees. The last query
        and the first one decide: what hides nothing from these hides nothing from the others.
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
        """Raise SamplingError if the attention function has a sliding window below the reach."""
        if window is not None and window < self._reach:
            raise self._too_short(f"windows of {window} tokens")

    def _too_short(self, what: str) -> SamplingError:
        return self.unfit(f"attends in {what}, and a text may have {self._reach}")


def obstacles(model: Any, reach: int) -> Iterator[str]:
    """Yield reasons why `model` cannot be sampled token by token, as the predicate of "it".

    Its texts depend on more than the keys and values of earlier tokens: on a recurrent state, or on
    the text's length by its positions. Changes beyond `reach` tokens are no obstacle.
    """
    config = model.config.get_text_config()
    if getattr(model, "_is_stateful", False):
        yield "keeps a recurrent state beside its attention"
    for rope in _rotary_settings(config):
        kind = rope.get("rope_type")
        if kind not in ("dynamic", "longrope"):
            continue
        # beyond this length the encoding of all positions changes, also of stored keys
        unchanged = config.max_position_embeddings
        if kind == "longrope":
            unchanged = rope.get("original_max_position_embeddings", unchanged)
        if reach > unchanged:
            yield (
                f"encodes positions by '{kind}' RoPE, which changes beyond {unchanged} tokens, and "
                f"a text may have {reach}"
            )
    scale = getattr(config, "floor_scale", None)
    if scale is not None and getattr(config, "attn_temperature_tuning", False) and reach >= scale:
        yield f"scales queries beyond {scale} tokens, and a text may have {reach}"


def _rotary_settings(config: Any) -> list[Mapping[str, Any]]:
    """Return the settings of RoPE, one for each kind of layer that has its own."""
    rope = getattr(config, "rope_parameters", None) or {}
    by_layer = all(isinstance(settings, Mapping) for settings in rope.values())
    return list(rope.values()) if by_layer else [rope]


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
