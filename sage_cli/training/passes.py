"""Passes over a model in training: what one is, completions alone, shared prompts, further signals.

A group's rows begin with the same prompt, so TRL computes it once a rollout, eight times over in
the paper's setting, and off Triton its head scores the prompt's positions, too. Here a pass is two:
the distinct prompts fill a cache of keys and values, which is repeated for each row, with its
gradient, and the completions continue from it. Both happen inside one call of the wrapped model, so
that DDP sees one forward. Log-probabilities and gradients are those of rows apart, up to rounding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.cache_utils import DynamicLayer

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.guides.token_signals import Measure, tilted_temperature
from sage_cli.methods.rollout_batch import RolloutBatch, has_rows, rows_of
from sage_cli.models.loading import causal_of, changes_weights
from sage_cli.models.obstacles import length_obstacles
from sage_cli.training.trl_host import add_fused_lm_head

Keywords = dict[str, Any]
"""The arguments of a model's call, by name."""
Purpose = Literal["loss", "old policy", "reference", "policy"]
"""What a pass is for: the policy in a micro-batch's loss, with gradient; the policy that sampled,
where TRL asks for it; the frozen reference; what a method or a check reads of the policy, on the
batch's rows or other texts."""
_Read = TypeVar("_Read")
TILE_STATES = 256
"""States of which whole vocabularies are there at once (`anchor.estimator=head`)."""
_SCALES = (
    "final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier",
    "logits_scaling",
)  # fmt: skip
"""What configurations call a change of logits that TRL's head knows and ours does not."""


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
    Positions count tokens without padding, where the model `takes_positions`. Nothing of it stays
    changed.
    """
    causal = causal_of(model)
    names = None if names_B is None else names_B.tolist()
    passes = _Passes(causal, completion, share=share, names=names)
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


def takes_positions(causal: Any) -> bool:
    """Return True if passes of this model may say each token's position, as one number.

    Without them models with learned positions count padding on the left, and read other positions
    than in sampling: GPT-2's log-probabilities were seen 2.8 nats off. Models whose positions have
    several dimensions (`get_rope_index`) compute them from images, others take none.
    """
    backbone = causal.base_model
    if hasattr(causal, "get_rope_index") or hasattr(backbone, "get_rope_index"):
        return False
    return "position_ids" in inspect.signature(backbone.forward).parameters


def positions_of(mask_BX: Tensor) -> Tensor:
    """Return the positions (B, X) of texts, from 0 where each begins; 0 on padding before it."""
    return (mask_BX.cumsum(dim=1) - 1).clamp(min=0)


class _Passes:
    """The hooks of `completions_alone`; `_at` is the row at which the next pass begins."""

    def __init__(
        self, causal: Any, completion: int, *, share: bool, names: Sequence[int] | None
    ) -> None:
        self._completion, self._names, self._at = completion, names, 0
        # the last token of a completion predicts nothing, so a single one has nothing to continue
        self._shares = share and completion > 1 and can_share(causal)
        self._counts = takes_positions(causal)
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
        if self._counts and not images:
            keywords = {**keywords, "position_ids": positions_of(mask)}
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
        # the last token of a completion predicts nothing, so it is no input
        continuing = {"input_ids": ids[:, cut:-1], "attention_mask": mask[:, :-1]}
        if "position_ids" in keywords:
            # completions continue at their own prompt's length, which the cache doesn't know
            positions = keywords["position_ids"]
            beginning["position_ids"] = positions[distinct, :cut]
            continuing["position_ids"] = positions[:, cut:-1]
        prompt = backbone.forward(*arguments, **shared | beginning)
        cache = prompt.past_key_values
        if any(type(layer) is not DynamicLayer for layer in cache.layers):
            self._shares = False  # a state or a window can't stand for a prompt
            return arguments, keywords
        # index_select copies each prompt's keys and values once per row: memory as in a pass
        # without sharing, but the computation is done once
        cache.batch_select_indices(row_B)
        # the prompt's last state predicts the completion's first token
        self._last_B1D = prompt.last_hidden_state[row_B, -1:]
        return arguments, {**shared, **continuing, "past_key_values": cache}

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
        output.past_key_values = None
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


def compute_logits_in_float32(causal: Any, temperature: float) -> None:
    """Make the head compute in float32, whatever autocast says, also in TRL's fused passes.

    Raises ConfigurationError for a head that an adapter changes: its own weights alone are read.
    """
    head = causal.get_output_embeddings()
    if changes_weights(head):
        raise ConfigurationError(
            "rl.cast_lm_head_to_fp32 computes with the head's own weights, and the adapter has "
            "others",
            "leave it out, or start from an adapter that leaves the head as it is",
        )

    def forward(states: Tensor) -> Tensor:
        bias = None if head.bias is None else head.bias.float()
        with torch.autocast(states.device.type, enabled=False):
            return torch.nn.functional.linear(states.float(), head.weight.float(), bias)

    head.forward = forward
    outputs = ("log_probs", "entropy")
    add_fused_lm_head(causal, temperature, cast_lm_head_to_fp32=True, outputs=outputs)


class _Head:
    """A causal LM whose backbone's output is given: TRL's fused head reads nothing else of it."""

    def __init__(self, model: Any) -> None:
        self._model, self.config, self.output = model, model.config, None

    def get_output_embeddings(self) -> Any:
        """Return the model's own head."""
        return self._model.get_output_embeddings()

    def base_model(self, *_: Any, **__: Any) -> Any:
        """Return the backbone's output."""
        return self.output

    model = base_model  # its name before transformers 5, for models of images too

    forward = base_model  # until TRL puts its fused head in this place


@contextmanager
def tilting(
    model: Any,
    exponents: Sequence[float],
    temperature: float,
    tilted: dict[float, Tensor],
    *,
    in_float32: bool = False,
) -> Iterator[None]:
    """Collect the tilted log-probabilities of the labels in each fused pass over `model`.

    softmax(z / T)^phi, normalised, is softmax(phi z / T): TRL's fused head at another temperature,
    on the hidden states of the same pass. `tilted` gets those of all passes, below each other.
    `in_float32` computes logits so, as the trainer does.
    """
    causal = causal_of(model)
    heads = {}
    for exponent in exponents:
        # TRL's fused head never holds a whole batch's logits, which for 150,000 tokens would be the
        # largest tensor of the step; the same states go through it once for each exponent
        heads[exponent] = _Head(causal)
        add_fused_lm_head(
            heads[exponent],
            temperature=tilted_temperature(temperature, exponent),
            cast_lm_head_to_fp32=in_float32,
        )

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        for head in heads.values():
            head.output = output

    def score(_module: Any, _inputs: Any, arguments: dict[str, Any], _output: Any) -> None:
        for exponent, head in heads.items():
            # without what a mixture of experts adds to a loss, which nothing reads here
            scored = head.forward(
                shift_labels=arguments["shift_labels"],
                fused_lm_head=True,
                output_router_logits=False,
            )
            head.output = None
            rows = [tilted[exponent]] if exponent in tilted else []
            tilted[exponent] = torch.cat([*rows, scored.log_probs])

    with hooked(
        causal.base_model.register_forward_hook(keep),
        causal.register_forward_hook(score, with_kwargs=True),
    ):
        yield


@dataclass(frozen=True)
class HeadReader:
    """Reads H tokens of each state's distribution, a tile of states at a time, in other passes.

    The output layer alone is computed again, since TRL's fused head keeps no logits.
    """

    tokens: int
    """H."""
    temperature: float
    in_float32: bool

    def require(self, model: Any, reader: str) -> None:
        """Raise TrainingError for a model that changes its logits after the output layer."""
        config = model.config.get_text_config()
        scaled = [name for name in _SCALES if getattr(config, name, None) not in (None, 1, 1.0)]
        if scaled:
            raise TrainingError(
                f"{reader} does not support models that rescale their logits ({scaled[0]})",
                "choose another estimator or guide",
            )

    @contextmanager
    def likeliest(self, model: Any) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """Collect (ids, log-probabilities) (B, T, H) of the likeliest tokens, a pair a pass."""

        def of_tile(hidden_XD: Tensor) -> tuple[Tensor, Tensor]:
            logits_XV = self._logits(model, hidden_XD)
            most = min(self.tokens, logits_XV.shape[-1])
            logits_XH, ids_XH = logits_XV.topk(most, dim=-1)
            return ids_XH, logits_XH - logits_XV.logsumexp(dim=-1, keepdim=True)

        def read(hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
            # a tile at a time: 256 states x 150,000 tokens in float32 are 150 MB; a batch's would
            # be gigabytes
            tiles = map(of_tile, torch.split(hidden_BTD.flatten(0, 1), TILE_STATES))
            ids_XH, logps_XH = (torch.cat(parts) for parts in zip(*tiles, strict=True))
            shape = (*hidden_BTD.shape[:2], -1)
            return ids_XH.reshape(shape), logps_XH.reshape(shape)

        with _listening(model, read) as passes:
            yield passes

    @contextmanager
    def asked(self, model: Any, ids_BTH: Tensor) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """Collect the log-probabilities of `ids_BTH`, with gradient, of one pass over all rows."""

        def of_tile(hidden_XD: Tensor, ids_XH: Tensor) -> Tensor:
            logits_XV = self._logits(model, hidden_XD)
            return logits_XV.gather(1, ids_XH) - logits_XV.logsumexp(dim=-1, keepdim=True)

        def read(hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
            pairs = zip(
                torch.split(hidden_BTD.flatten(0, 1), TILE_STATES),
                torch.split(ids_BTH.flatten(0, 1), TILE_STATES),
                strict=True,
            )
            # a tile's vocabulary is computed again for its gradient, and not kept until then
            tiles = [checkpoint(of_tile, *pair, use_reentrant=False) for pair in pairs]
            return ids_BTH, torch.cat(tiles).reshape(ids_BTH.shape)

        with _listening(model, read) as passes:
            yield passes

    @contextmanager
    def measured(
        self, model: Any, measures: Mapping[str, Measure], chosen_BT: Tensor
    ) -> Iterator[list[dict[str, Tensor]]]:
        """Collect what each measure says of the chosen tokens (B, T), a dictionary a pass.

        `chosen_BT` are the tokens of all passes, in the order in which they come to the rows.
        """
        rest_BT = chosen_BT

        def read(hidden_BTD: Tensor) -> dict[str, Tensor]:
            nonlocal rest_BT
            rows_BT, rest_BT = rest_BT[: len(hidden_BTD)], rest_BT[len(hidden_BTD) :]
            tiles: list[list[Tensor]] = []
            with torch.no_grad():
                pairs = zip(
                    torch.split(hidden_BTD.flatten(0, 1), TILE_STATES),
                    torch.split(rows_BT.flatten(), TILE_STATES),
                    strict=True,
                )
                for hidden_XD, chosen_X in pairs:
                    logits_XV = self._logits(model, hidden_XD)
                    tiles.append([measure(logits_XV, chosen_X) for measure in measures.values()])
            columns = (
                torch.cat(parts).reshape(rows_BT.shape) for parts in zip(*tiles, strict=True)
            )
            return dict(zip(measures, columns, strict=True))

        with _listening(model, read) as passes:
            yield passes

    def _logits(self, model: Any, hidden_XD: Tensor) -> Tensor:
        # autocast would take a head in float32 back to bfloat16
        exact = torch.autocast(hidden_XD.device.type, enabled=False)
        with exact if self.in_float32 else nullcontext():
            logits_XV: Tensor = model.get_output_embeddings()(hidden_XD).float()
        # in place: the logits are this function's own copy (`float()` of bfloat16, or the head's
        # fresh output)
        return logits_XV if self.temperature == 1 else logits_XV.div_(self.temperature)


@contextmanager
def _listening(model: Any, read: Callable[[Tensor], _Read]) -> Iterator[list[_Read]]:
    """Collect what `read` returns for the backbone's states in each pass of `completions_alone`."""
    causal = causal_of(model)
    passes: list[_Read] = []

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        passes.append(read(output.last_hidden_state))

    with hooked(causal.base_model.register_forward_hook(keep)):
        yield passes
