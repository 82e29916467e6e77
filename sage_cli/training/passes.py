"""Passes over a model in training: what one is, completions alone, shared prompts, further signals.

A group's rows begin with the same prompt, so TRL computes it once a rollout, eight times over in
the paper's setting, and off Triton its head scores the prompt's positions, too. Here a pass is two:
the distinct prompts fill a cache of keys and values, which is repeated for each row, with its
gradient, and the completions continue from it. Both happen inside one call of the wrapped model, so
that DDP sees one forward. Log-probabilities and gradients are those of rows apart, up to rounding.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import PreTrainedModel

from sage_cli.errors import ConfigurationError
from sage_cli.methods.rollout_batch import RolloutBatch, has_rows, rows_of
from sage_cli.models.loading import causal_of
from sage_cli.models.obstacles import length_obstacles

# the names of Transformers from 5.24 on, and the former ones, which print a notice there
_OF_OUTPUT, _OF_MODEL = BaseModelOutputWithPast.__dataclass_fields__, vars(PreTrainedModel)
CACHE = "cache" if "cache" in _OF_OUTPUT else "past_key_values"
"""The keys and values of earlier tokens, as an argument and in outputs."""
CHECKPOINTS = next(
    name
    for name in ("is_activation_checkpointing", "is_gradient_checkpointing")
    if name in _OF_MODEL
)
"""What says that a model's activations are computed again in the backward pass."""

Keywords = dict[str, Any]
"""The arguments of a model's call, by name."""
Purpose = Literal["loss", "old policy", "reference", "policy"]
"""What a pass is for: the policy in a micro-batch's loss, with gradient; the policy that sampled,
where TRL asks for it; the frozen reference; what a method or a check reads of the policy, on the
batch's rows or other texts."""


@dataclass(frozen=True)
class Pass:
    """What a pass over a model says of the completions' tokens, in nats at sampling's temperature.

    With gradient where the pass was made with one. `tilted` holds the log-probabilities (B, T)
    under the model raised to an exponent and normalised, by exponent. The head are H tokens of each
    state, the likeliest or those that were asked about, with their log-probabilities.
    """

    logps_BT: Tensor
    entropy_BT: Tensor | None = None
    aux_loss: Tensor | None = None
    """The load-balancing loss of a mixture of experts."""
    tilted: Mapping[float, Tensor] = field(default_factory=dict)
    head_ids_BTH: Tensor | None = None
    head_logps_BTH: Tensor | None = None
    measured: Mapping[str, Tensor] = field(default_factory=dict)
    """What the guide's measures say of the tokens (B, T), by signal, without gradient."""


@contextmanager
def completions_alone(
    model: Any, completion: int, *, share: bool = False, names_B: Tensor | None = None
) -> Iterator[None]:
    """Make passes of `model` under TRL's fused head score only the last `completion` tokens.

    With `share` rows of the same prompt share its pass where that `can_share`. Their
    `prompt_names`, in the order in which passes come to the rows, spare each pass a look at them.
    Positions count tokens without padding, where there are `positions_of` the model. Nothing of it
    stays changed.
    """
    causal = causal_of(model)
    if causal.base_model is causal:
        raise ConfigurationError(
            f"a model of the type {causal.config.model_type} has no backbone apart from its head, "
            "so that its completions cannot be scored alone",
            "choose another model",
        )
    names = None if names_B is None else names_B.tolist()
    passes = _Passes(causal, completion, share=share, names=names)
    with (
        causal.register_forward_pre_hook(passes.cut_labels, with_kwargs=True),
        causal.base_model.register_forward_pre_hook(passes.begin, with_kwargs=True),
        causal.base_model.register_forward_hook(passes.end),
    ):
        yield


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
    return not (getattr(causal, CHECKPOINTS) or any(drops))


def positions_of(causal: Any, mask_BX: Tensor) -> Tensor | None:
    """Return the positions (B, X) of texts, from 0 where each begins; 0 on padding before it.

    None where passes of this model may not say each token's position as one number. Without them
    models with learned positions count padding on the left, and read other positions than in
    sampling: GPT-2's log-probabilities were seen 2.8 nats off. Models whose positions have several
    dimensions (`get_rope_index`) compute them from images, others take none.
    """
    backbone = causal.base_model
    if hasattr(causal, "get_rope_index") or hasattr(backbone, "get_rope_index"):
        return None
    if "position_ids" not in inspect.signature(backbone.forward).parameters:
        return None
    return (mask_BX.cumsum(dim=1) - 1).clamp(min=0)


class _Passes:
    """The hooks of `completions_alone`; `_at` is the row at which the next pass begins."""

    def __init__(
        self, causal: Any, completion: int, *, share: bool, names: Sequence[int] | None
    ) -> None:
        self._completion, self._names, self._at = completion, names, 0
        # the last token of a completion predicts nothing, so a single one has nothing to continue
        self._shares = share and completion > 1 and can_share(causal)
        self._causal = causal
        self._last_B1D: Tensor | None = None

    def cut_labels(self, _model: Any, arguments: tuple[Any, ...], keywords: Keywords) -> Any:
        """Pass only the completions' labels to the head."""
        # TRL's head shifts `labels` by one, which would lose a position; `shift_labels` are taken
        # as they are
        labels = keywords.pop("labels")
        return arguments, {**keywords, "shift_labels": labels[:, -self._completion :]}

    def begin(self, backbone: Any, arguments: tuple[Any, ...], keywords: Keywords) -> Any:
        """Compute the distinct prompts, and let the pass continue from them."""
        images = keywords.get("pixel_values") is not None
        ids, mask = keywords["input_ids"], keywords["attention_mask"]
        if not images and (positions := positions_of(self._causal, mask)) is not None:
            keywords = {**keywords, "position_ids": positions}
        # images and router losses belong to whole texts
        if not self._shares or images or keywords.get("output_router_logits"):
            return arguments, keywords
        if any(length_obstacles(backbone.config.get_text_config().to_dict(), ids.shape[1])):
            return arguments, keywords
        cut = ids.shape[1] - self._completion
        if self._names is None:
            names: Sequence[int] = prompt_names(ids[:, :cut], mask[:, :cut]).tolist()
        else:
            names = self._names[self._at : self._at + len(ids)]
            self._at += len(ids)
        first_B = _first_places(names)
        distinct = sorted(set(first_B))
        # nothing is shared: two passes would only cost more than one
        if len(distinct) == len(ids):
            return arguments, keywords
        number = {row: i for i, row in enumerate(distinct)}
        row_B = torch.tensor([number[row] for row in first_B], device=ids.device)
        # the cache keeps its graph: gradients of all rows flow through the repeated keys and values
        # into the one pass over the prompt, where they add up
        shared = {**keywords, "use_cache": True}
        beginning = {"input_ids": ids[distinct, :cut], "attention_mask": mask[distinct, :cut]}
        # the last token of a completion predicts nothing, so it isn't an input
        continuing = {"input_ids": ids[:, cut:-1], "attention_mask": mask[:, :-1]}
        if "position_ids" in keywords:
            # completions continue at their own prompt's length, which the cache doesn't know
            positions = keywords["position_ids"]
            beginning["position_ids"] = positions[distinct, :cut]
            continuing["position_ids"] = positions[:, cut:-1]
        prompt = backbone.forward(*arguments, **shared | beginning)
        # a model of one part of an encoder and a decoder may have no cache, or another kind
        cache = getattr(prompt, CACHE, None)
        layers = getattr(cache, "layers", [None])
        if cache is None or any(type(layer) is not DynamicLayer for layer in layers):
            self._shares = False  # a state or a window can't stand for a prompt
            return arguments, keywords
        # index_select copies each prompt's keys and values once per row: memory as in a pass
        # without sharing, but the computation is done once
        cache.batch_select_indices(row_B)
        # the prompt's last state predicts the completion's first token
        self._last_B1D = prompt.last_hidden_state[row_B, -1:]
        return arguments, {**shared, **continuing, CACHE: cache}

    def end(self, _backbone: Any, _arguments: Any, output: Any) -> Any:
        """Leave the states that predict completions' tokens."""
        last_B1D, self._last_B1D = self._last_B1D, None
        states_BTD = output.last_hidden_state
        output.last_hidden_state = (
            states_BTD[:, -self._completion - 1 : -1]
            if last_B1D is None
            else torch.cat([last_B1D, states_BTD], dim=1)
        )
        # or the cache, whose graph reaches back to the prompt, would live as long as the output
        setattr(output, CACHE, None)
        return output


def prompt_names(ids_BP: Tensor, mask_BP: Tensor) -> Tensor:
    """Return a number (B,) that rows share if their prompts have the same tokens, on the host.

    One copy from the device for all rows: to compare them there would wait for each.
    """
    rows = torch.stack([ids_BP, mask_BP.to(ids_BP)]).cpu().numpy()
    return torch.tensor([hash(ids[mask == 1].tobytes()) for ids, mask in zip(*rows, strict=True)])


def _first_places(names: Sequence[int]) -> list[int]:
    """Return for each row the first one with the same name."""
    first: dict[int, int] = {}
    return [first.setdefault(name, row) for row, name in enumerate(names)]


def regrouped(micro_batches: Sequence[RolloutBatch]) -> list[RolloutBatch]:
    """Return the micro-batches of an optimiser step with rows of one prompt beside one another.

    TRL shuffles rows after generation, so that a micro-batch of 16 among 64 holds seven prompts.
    Every micro-batch keeps its number of rows; prompts stay in the order of their first rows.
    """
    parts: list[dict[str, Any]] = [dict(batch) for batch in micro_batches]
    whole = {
        name: torch.cat([part[name] for part in parts]) if has_rows(value) else value
        for name, value in parts[0].items()
    }
    first_B = _first_places(whole["prompt_names_B"].tolist())
    order = torch.tensor(sorted(range(len(first_B)), key=lambda row: (first_B[row], row)))
    sizes = [len(batch["prompt_ids"]) for batch in micro_batches]
    return [rows_of(whole, part_B) for part_B in torch.split(order, sizes)]
