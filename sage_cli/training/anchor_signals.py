"""Signals beyond the policy's own: what guides ask for, and the likeliest tokens of each state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from trl.trainer.utils import add_fused_lm_head

from sage_cli.errors import TrainingError
from sage_cli.guides.divergences import head_kl, log_ratio
from sage_cli.guides.guide import ROW_SIGNALS, Guide, Known, Signals
from sage_cli.models.loading import causal_of
from sage_cli.models.signals import tilted_temperature
from sage_cli.training.shared_prompts import hooked

Batch = dict[str, Any]
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
                "anchor.estimator head reads the whole output layer, and the launcher spreads it",
                "choose `rl.accelerate` ddp, or another estimator",
            )
        config = trainer.accelerator.unwrap_model(trainer.model).config.get_text_config()
        scaled = [name for name in _SCALES if getattr(config, name, None) not in (None, 1, 1.0)]
        if scaled:
            raise TrainingError(
                f"anchor.estimator head knows no models that change their logits ({scaled[0]})",
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
