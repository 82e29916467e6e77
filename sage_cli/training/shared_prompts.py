"""Scores completions alone: heads skip prompts, and rows of one prompt share its forward pass.

A group's rows begin with the same prompt, so TRL computes it once a rollout, eight times over in
the paper's setting, and off Triton its head scores the prompt's positions, too. Here a pass is two:
the distinct prompts fill a cache of keys and values, which is repeated for each row, with its
gradient, and the completions continue from it. Both happen inside one call of the wrapped model, so
that DDP sees one forward. Log-probabilities and gradients are those of rows apart, up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from sage_cli.methods.hooks import Batch, has_rows, rows_of
from sage_cli.models.loading import causal_of
from sage_cli.sampling.sampler import length_obstacles


@contextmanager
def completions_alone(
    model: Any, completion: int, prompts: Sequence[int] | None = None
) -> Iterator[None]:
    """Have passes of `model` under TRL's fused head score the last `completion` tokens alone.

    `prompts` names each row's prompt, in the order in which passes come to the rows; rows with the
    same name share its pass where that `can_share`. Nothing of the model stays changed.
    """
    causal = causal_of(model)
    passes = _Passes(causal, completion, prompts)
    with hooked(
        causal.register_forward_pre_hook(passes.cut_labels, with_kwargs=True),
        causal.base_model.register_forward_pre_hook(passes.begin, with_kwargs=True),
        causal.base_model.register_forward_hook(passes.end),
    ):
        yield


@contextmanager
def hooked(*hooks: Any) -> Iterator[None]:
    """Remove a model's hooks after the block."""
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def can_share(causal: Any) -> bool:
    """Return True if a prompt's cache may stand for its rows in a pass of this model as it is now.

    It may not where layers attend in windows or keep a state instead of a cache, where
    checkpointing drops the cache, and where dropout gives each row its own noise. Nor may it where
    a text's length changes how its beginning is read, which `begin` asks for each pass.
    """
    config = causal.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    windows = bool(getattr(config, "sliding_window", None)) and not kinds
    if windows or kinds - {"full_attention"} or not hasattr(config, "num_attention_heads"):
        return False
    if not causal.training:
        return True
    drops = (isinstance(module, torch.nn.Dropout) and module.p > 0 for module in causal.modules())
    return not (causal.is_gradient_checkpointing or any(drops))


class _Passes:
    """The hooks of `completions_alone`; `_at` is the row at which the next pass begins."""

    def __init__(self, causal: Any, completion: int, prompts: Sequence[int] | None) -> None:
        self._completion, self._at = completion, 0
        # the last token of a completion predicts nothing, so a single one has nothing to continue
        shares = prompts is not None and completion > 1 and can_share(causal)
        self._prompts = prompts if shares else None
        self._last_B1D: Tensor | None = None

    def cut_labels(self, _model: Any, arguments: tuple[Any, ...], keywords: Batch) -> Any:
        """Give the head the completions' labels alone."""
        labels = keywords.pop("labels")
        return arguments, {**keywords, "shift_labels": labels[:, -self._completion :]}

    def begin(self, backbone: Any, arguments: tuple[Any, ...], keywords: Batch) -> Any:
        """Compute the distinct prompts, and let the pass continue from them."""
        if self._prompts is None:
            return None
        ids, mask = keywords["input_ids"], keywords["attention_mask"]
        names = self._prompts[self._at : self._at + len(ids)]
        self._at += len(ids)
        places = _first_places(names)
        distinct = sorted(places.values())
        images = keywords.get("pixel_values") is not None
        if len(distinct) == len(ids) or images or keywords.get("output_router_logits"):
            return None
        if any(length_obstacles(backbone.config.get_text_config().to_dict(), ids.shape[1])):
            return None
        number = {row: i for i, row in enumerate(distinct)}
        row_B = torch.tensor([number[places[name]] for name in names], device=ids.device)
        cut = ids.shape[1] - self._completion
        prompt_2BT = torch.stack([ids, mask.to(ids)])[:, :, :cut]
        if not torch.equal(prompt_2BT[:, distinct][:, row_B], prompt_2BT):
            return None  # an environment of TRL's has added to the data's prompt
        shared = {**keywords, "use_cache": True}
        prompt = backbone.forward(
            *arguments,
            **shared | {"input_ids": ids[distinct, :cut], "attention_mask": mask[distinct, :cut]},
        )
        cache = prompt.past_key_values
        if any(type(layer) is not DynamicLayer for layer in cache.layers):
            self._prompts = None  # a state or a window can't stand for a prompt
            return None
        cache.batch_select_indices(row_B)
        self._last_B1D = prompt.last_hidden_state[row_B, -1:]
        return arguments, {
            **shared,
            "input_ids": ids[:, cut:-1],
            "attention_mask": mask[:, :-1],
            "past_key_values": cache,
        }

    def end(self, _backbone: Any, _arguments: Any, output: Any) -> Any:
        """Leave the states that predict completions' tokens."""
        last_B1D, self._last_B1D = self._last_B1D, None
        states_BTD = output.last_hidden_state
        output.last_hidden_state = (
            states_BTD[:, -self._completion - 1 : -1]
            if last_B1D is None
            else torch.cat([last_B1D, states_BTD], dim=1)
        )
        output.past_key_values = None
        return output


def prompt_names(inputs: Sequence[Batch]) -> list[int]:
    """Return a number for each row that rows of the same prompt share, within this process."""
    return [hash(str(row.get("prompt"))) for row in inputs]


def regrouped(micro_batches: Sequence[Batch]) -> list[Batch]:
    """Return the micro-batches of an optimiser step with rows of one prompt beside one another.

    TRL shuffles rows after generation, so that a micro-batch of 16 among 64 holds seven prompts.
    Every micro-batch keeps its number of rows; prompts stay in the order of their first rows.
    """
    names = [name for batch in micro_batches for name in batch["prompt_names_B"].tolist()]
    first = _first_places(names)
    order = torch.tensor(sorted(range(len(names)), key=lambda row: (first[names[row]], row)))
    sizes = [len(batch["prompt_names_B"]) for batch in micro_batches]
    whole = {
        key: torch.cat([batch[key] for batch in micro_batches]) if has_rows(value) else value
        for key, value in micro_batches[0].items()
    }
    return [rows_of(whole, part_B) for part_B in torch.split(order, sizes)]


def _first_places(names: Sequence[int]) -> dict[int, int]:
    """Return where each name stands first."""
    return {name: row for row, name in reversed(list(enumerate(names)))}
