"""Passes over a model in training: of completions alone, and for signals beyond TRL's.

Heads skip prompts, and rows of one prompt share its forward pass.

A group's rows begin with the same prompt, so TRL computes it once a rollout, eight times over in
the paper's setting, and off Triton its head scores the prompt's positions, too. Here a pass is two:
the distinct prompts fill a cache of keys and values, which is repeated for each row, with its
gradient, and the completions continue from it. Both happen inside one call of the wrapped model, so
that DDP sees one forward. Log-probabilities and gradients are those of rows apart, up to rounding.

Signals are what guides ask for, and the likeliest tokens of each state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.cache_utils import DynamicLayer
from trl.trainer.utils import add_fused_lm_head

from sage_cli.errors import TrainingError
from sage_cli.guides.divergences import head_kl, log_ratio
from sage_cli.guides.guide import ROW_SIGNALS, Guide, Known, Signals
from sage_cli.methods.hooks import Batch, has_rows, rows_of
from sage_cli.models.loading import causal_of
from sage_cli.models.signals import tilted_temperature
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


Tilted = dict[float, Tensor]
"""Exponent -> log-probabilities (B, T) under the model raised to it and normalised."""
TILE_STATES = 256
"""States of which whole vocabularies are there at once (`anchor.estimator=head`)."""


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
    tilted: Tilted,
    *,
    in_float32: bool = False,
) -> Iterator[None]:
    """Have each fused pass over `model` leave the tilted log-probabilities of its labels, too.

    softmax(z / T)^phi, normalised, is softmax(phi z / T): TRL's fused head at another temperature,
    on the hidden states of the same pass. `tilted` gets those of all passes, below each other.
    `in_float32` computes logits so, as the trainer does.
    """
    causal = causal_of(model)
    heads = {}
    for exponent in exponents:
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


def whole_texts(batch: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Return ids and mask of prompts with their completions."""
    ids, mask = (
        torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)
        for name in ("ids", "mask")
    )
    return ids, mask


class RowSignals:
    """What anchor and guide may know of rows; `right_PN` are the grades of all processes'."""

    def __init__(self) -> None:
        self._shares: dict[int, float] = {}

    def first_tensors(self, trainer: Any, batch: Batch, right_PN: Tensor) -> Batch:
        """Return the tensors of this process's rows, where each prompt has its first N."""
        prompts_B = trainer.accelerator.gather(batch["prompt_row_B"].to(right_PN.device))
        prompts_P = prompts_B.reshape(right_PN.shape)[:, 0]
        shares_P = right_PN.double().mean(dim=1)
        self._shares = dict(torch.stack([prompts_P, shares_P], dim=1).tolist())
        return self.tensors(trainer, batch, right_PN)

    def tensors(self, trainer: Any, batch: Batch, right_PN: Tensor) -> Batch:
        """Return the tensors of this process's rows; further ones have their prompt's share."""
        rows_B = batch["row_ids_B"].to(right_PN.device)
        rewards_B = trainer.rewards_BF.sum(dim=1)[rows_B]
        shares = [self._shares[prompt] for prompt in batch["prompt_row_B"].tolist()]
        return {
            "right_B": right_PN.flatten()[rows_B].bool(),
            "rewards_B": rewards_B,
            "group_right_B": torch.tensor(shares).to(rewards_B),
        }

    def named(self, trainer: Any, batch: Batch, signals: Signals) -> Signals:
        """Return the signals with the ids of the rows' problems, if the guide asks for them."""
        if "problem_ids_B" not in trainer.guide.needs:
            return signals
        prompts, rows = trainer.hooks.setup.prompts, batch["prompt_row_B"].tolist()
        ids = tuple(prompts[row][1].id for row in rows)
        return replace(signals, optional={**signals.optional, "problem_ids_B": ids})


def tilted_name(exponent: float) -> str:
    """Return the name under which batches carry the reference tilted by `exponent`."""
    return f"tilted_{exponent:g}_BT"


def known_of_rows(guide: Guide, batch: Batch) -> Known:
    """Return what a micro-batch carries: grades, and what depends on them."""
    signals: dict[Any, Any] = {name: batch[name] for name in ROW_SIGNALS if name in batch}
    if "right_B" in batch and "reference_tilted_logps_BT" in guide.needs:
        wrong_BT, right_BT = (
            batch["ref_per_token_logps" if exponent == 1 else tilted_name(exponent)]
            for exponent in guide.exponents
        )
        right_B1 = batch["right_B"][:, None]
        signals["reference_tilted_logps_BT"] = torch.where(right_B1, right_BT, wrong_BT)
    return signals


_SCALES = (
    "final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier",
    "logits_scaling",
)  # fmt: skip


class ExactHead:
    """Listens to forward passes, and has what the last one said of the head.

    `ids_BTH` and `logps_BTH` are the reference's H likeliest tokens and their log-probabilities
    after its pass; after the policy's, `logps_BTH` are the policy's of the tokens asked about.
    """

    def __init__(self, trainer: Any, tokens: int) -> None:
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise TrainingError(
                "anchor.estimator head reads the whole output layer, and the launcher shards it",
                "choose `rl.accelerate` ddp, or another estimator",
            )
        config = trainer.accelerator.unwrap_model(trainer.model).config.get_text_config()
        scaled = [name for name in _SCALES if getattr(config, name, None) not in (None, 1, 1.0)]
        if scaled:
            raise TrainingError(
                "anchor.estimator head does not support models that rescale their "
                f"logits ({scaled[0]})",
                "choose another estimator",
            )
        self._in_float32 = trainer.args.cast_lm_head_to_fp32
        self._tokens, self._temperature = min(tokens, config.vocab_size), trainer.temperature
        self.ids_BTH, self.logps_BTH = torch.empty(0), torch.empty(0)

    def reading(self, model: Any, batch: dict[str, Any] | None) -> AbstractContextManager[None]:
        """Return the context of a pass: before a loss the last one is the reference's.

        In the loss of a micro-batch the pass is the policy's.
        """
        if batch is None:
            return self.of_reference(model)
        return self.of_policy(model, batch["head_ids"])

    def log_q(self, batch: dict[str, Any], guide: Guide, signals: Signals, now: int) -> Tensor:
        """Return log q (B, T, H) of the head's tokens, by the signal that the guide reads."""
        reads_policy = guide.source == "policy"
        others_BTH = self.logps_BTH.detach() if reads_policy else batch["head_reference"]
        return guide.log_q_of_others(signals, now, others_BTH)

    def divergence(self, batch: dict[str, Any], logps_BT: Tensor) -> Tensor:
        """Return `head_kl` of the micro-batch whose pass was read last, with its gradient."""
        in_head_BT = (batch["head_ids"] == batch["completion_ids"][..., None]).any(dim=-1)
        old_BT = batch.get("old_per_token_logps", logps_BT.detach())
        return head_kl(
            self.logps_BTH,
            batch["head_reference"] + batch["head_log_q"],
            in_head_BT,
            log_ratio(logps_BT, batch["ref_per_token_logps"], batch["log_q_BT"]),
            (logps_BT - old_BT).exp(),
        )

    @property
    def mass(self) -> Tensor:
        """The probability of the head (B, T) in the micro-batch whose pass was read last."""
        return self.logps_BTH.detach().exp().sum(dim=-1)

    @contextmanager
    def of_reference(self, model: Any) -> Iterator[None]:
        """Find the likeliest tokens where completions' tokens are predicted."""

        def likeliest(hidden_XD: Tensor) -> tuple[Tensor, Tensor]:
            logits_XV = self._logits(model, hidden_XD)
            logits_XH, ids_XH = logits_XV.topk(self._tokens, dim=-1)
            return ids_XH, logits_XH - logits_XV.logsumexp(dim=-1, keepdim=True)

        def read(hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
            tiles = map(likeliest, torch.split(hidden_BTD.flatten(0, 1), TILE_STATES))
            ids_XH, logps_XH = (torch.cat(parts) for parts in zip(*tiles, strict=True))
            shape = (*hidden_BTD.shape[:2], -1)
            return ids_XH.reshape(shape), logps_XH.reshape(shape)

        with _listening(model, read) as passes:
            yield
        self.ids_BTH, self.logps_BTH = (torch.cat(parts) for parts in zip(*passes, strict=True))

    @contextmanager
    def of_policy(self, model: Any, ids_BTH: Tensor) -> Iterator[None]:
        """Find the policy's log-probabilities of `ids_BTH`, with their gradient."""

        def of_ids(hidden_XD: Tensor, ids_XH: Tensor) -> Tensor:
            logits_XV = self._logits(model, hidden_XD)
            return logits_XV.gather(1, ids_XH) - logits_XV.logsumexp(dim=-1, keepdim=True)

        def read(hidden_BTD: Tensor) -> tuple[Tensor]:
            pairs = zip(
                torch.split(hidden_BTD.flatten(0, 1), TILE_STATES),
                torch.split(ids_BTH.flatten(0, 1), TILE_STATES),
                strict=True,
            )
            # a tile's vocabulary is computed again for its gradient, and not kept until then
            tiles = [checkpoint(of_ids, *pair, use_reentrant=False) for pair in pairs]
            return (torch.cat(tiles).reshape(ids_BTH.shape),)

        with _listening(model, read) as passes:
            yield
        ((self.logps_BTH,),) = passes

    def _logits(self, model: Any, hidden_XD: Tensor) -> Tensor:
        # autocast would take a head in float32 back to bfloat16
        exact = torch.autocast(hidden_XD.device.type, enabled=False)
        with exact if self._in_float32 else nullcontext():
            logits_XV: Tensor = model.get_output_embeddings()(hidden_XD).float()
        return logits_XV if self._temperature == 1 else logits_XV.div_(self._temperature)


@contextmanager
def _listening(
    model: Any, read: Callable[[Tensor], tuple[Tensor, ...]]
) -> Iterator[list[tuple[Tensor, ...]]]:
    """Give what `read` says of the backbone's states in each pass of `completions_alone`."""
    causal = causal_of(model)
    passes: list[tuple[Tensor, ...]] = []

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        passes.append(read(output.last_hidden_state))

    with hooked(causal.base_model.register_forward_hook(keep)):
        yield passes
