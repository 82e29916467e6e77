"""Attention by memory of our own: a prompt's keys and values once, for all rows that continue it.

A cache of Transformers holds the prompt once a row. Here a model attends through `MemoryModel` to
the memories of `token_memory` instead, or on a GPU to `graphs.FixedMemory`; `obstacles` names the
models for which that would be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import causal_mask_function

from sage_cli.errors import SamplingError
from sage_cli.models.loading import causal_of
from sage_cli.models.obstacles import length_obstacles
from sage_cli.sampling.token_memory import AttentionMemory

_NAME = "sage_memory"
_UNKNOWN_TO_IT = ("softcap", "s_aux", "indices", "block_indices", "position_bias")


class MemoryModel:
    """A causal model that attends through a given memory in each forward pass.

    `reach` is the number of tokens of the longest text. Raises SamplingError, which names the
    obstacle, for a model that is not plain causal attention over such texts.
    """

    def __init__(self, model: Any, reach: int) -> None:
        self._model, self.reach = model, reach
        whole = causal_of(model)
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
        self._model.set_attn_implementation(_NAME)
        try:
            yield self
        finally:
            self._model.set_attn_implementation(before)

    def logits(
        self,
        memory: AttentionMemory,
        ids_BT: Tensor,
        lengths: Sequence[int] | None = None,
        **inputs: Any,
    ) -> Tensor:
        """Return the logits (B, V) after each row's last token, by a forward pass with `memory`.

        `lengths` are the rows' numbers of tokens, if not all have T; what follows is padding.
        """
        keeps, last_B = "logits_to_keep" in self._takes, [length - 1 for length in lengths or ()]
        if keeps and lengths is None:
            inputs["logits_to_keep"] = 1
        elif keeps:
            # logits of a large vocabulary are the largest tensor of a prefill: only positions at
            # which some row ends are computed
            kept = sorted({*last_B})
            inputs["logits_to_keep"] = torch.tensor(kept, device=self.device)
            last_B = [kept.index(last) for last in last_B]
        # a context variable, because Transformers calls attention functions by name, without a
        # place for our own argument
        now = _NOW.set((self, memory))
        try:
            output = self._model(input_ids=ids_BT, use_cache=False, **inputs)
        except (TypeError, AttributeError) as error:  # it needs a mask or a cache
            raise self.unfit(f"can't attend otherwise than it does ({error})") from error
        finally:
            _NOW.reset(now)
        logits_BV: Tensor = (
            output.logits[:, -1] if lengths is None else output.logits[range(len(last_B)), last_B]
        )
        return logits_BV

    def unfit(self, reason: str) -> SamplingError:
        """Return the error for a model that the decoding loop cannot compute."""
        return SamplingError(
            f"sage's own decoder can't sample from {self.name}: it {reason}",
            "use --set sampling.backend=vllm or server for this architecture",
        )

    def require_plain(self, mask_function: Callable[..., Tensor], window: int | None) -> None:
        """Raise SamplingError if a mask hides an earlier token of a text or shows a later one.

        `mask_function(batch, head, query, key)` is True for keys that a query sees. The last query
        and the first one decide: what hides nothing from these hides nothing from the others.
        """
        # a step that is recorded as a CUDA graph was run and checked before
        recorded = self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if mask_function is causal_mask_function or recorded:
            return
        all_T = torch.arange(self.reach, device=self.device)
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
        if window is not None and window < self.reach:
            raise self._too_short(f"windows of {window} tokens")

    def _too_short(self, windows: str) -> SamplingError:
        return self.unfit(f"attends in {windows}, and a text may have {self.reach}")


def obstacles(model: Any, reach: int) -> Iterator[str]:
    """Yield reasons why `model` cannot be sampled token by token, as the predicate of "it".

    Its texts depend on more than the keys and values of earlier tokens: on a recurrent state, or on
    the text's length by its positions. Changes beyond `reach` tokens are not an obstacle.
    """
    if getattr(model, "_is_stateful", False):
        yield "keeps a recurrent state beside its attention"
    yield from length_obstacles(model.config.get_text_config().to_dict(), reach)


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
    # arguments that change the attention's result: a model that passes one would be computed
    # wrongly without any error
    for name in _UNKNOWN_TO_IT:
        if extras.get(name) is not None:
            raise model.unfit(f"attends with '{name}'")
    # queries are scaled once, instead of the scores of each memory
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if not torch.is_autocast_enabled(query.device.type):
        return memory.attend(module.layer_idx, query * scale, key, value), None
    # products of half precision would round scores, which a training's attention keeps
    with torch.autocast(query.device.type, enabled=False):
        q, k, v = (states.float() for states in (query * scale, key, value))
        return memory.attend(module.layer_idx, q, k, v), None


def _no_mask(
    *, mask_function: Callable[..., Tensor], local_size: int | None = None, **_: Any
) -> None:
    _NOW.get()[0].require_plain(mask_function, local_size)


AttentionInterface.register(_NAME, _attend)


AttentionMaskInterface.register(_NAME, _no_mask)
